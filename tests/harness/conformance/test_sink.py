"""The sink among the examples, with PostgreSQL: what its ways leave where the server dies, or a successor
wrote the same records."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.conformance.postgresql import Server
from tests.waiting import until

pytestmark = pytest.mark.slow
SINK = Path("examples/applications/sink.py").resolve()
CLIENT = '''
"""A client that gives records 0 to 4 at once, and asks to end where the group has them all. Where a file
`hold` is, record 2 waits, in the open transaction of the sink, until that is gone. Files `fails` and `hangs`
make one poll fail, and one commit hang."""
import os, pathlib, signal, time

KafkaException = KafkaError = Exception
committed, hold, held, fails, hangs = map(pathlib.Path, ("committed", "hold", "held", "fails", "hangs"))

class TopicPartition:
    def __init__(self, topic, partition, offset=-1001):
        self.topic, self.partition, self.offset = topic, partition, offset

class Message:
    def __init__(self, number): self.number = number
    def error(self): return None
    def topic(self): return "in"
    def partition(self): return 0
    def offset(self): return self.number
    def value(self):
        if self.number == 2 and hold.exists():
            held.touch()
            while hold.exists():
                time.sleep(0.01)
        return bytes([self.number])

class Consumer:
    def __init__(self, settings): self.next = None
    def subscribe(self, topics, on_assign=None): self.on_assign = on_assign or Consumer.assign
    def assign(self, partitions):
        (tp,) = partitions
        self.next = tp.offset if tp.offset >= 0 else int(committed.read_text())
        print("from", self.next, flush=True)
    def poll(self, seconds):
        if self.next is None:
            self.on_assign(self, [TopicPartition("in", 0)])
        if int(committed.read_text()) == 5:
            os.kill(os.getpid(), signal.SIGTERM)
        if fails.exists():
            fails.unlink()
            raise KafkaError("a callback failed")
        return (self.consume(1, 0) or [None])[0]
    def consume(self, many, seconds):
        begin, self.next = self.next, min(self.next + many, 5)
        return [Message(number) for number in range(begin, self.next)]
    def commit(self, offsets, asynchronous):
        if hangs.exists():
            hangs.unlink()
            time.sleep(60)
        print("commits", offsets[0].offset, flush=True)
        committed.write_text(str(offsets[0].offset))
    def close(self): pass
'''
ONCE = [0, 1, 2, 3, 4]


class Sink:
    """One way of the program, in a folder."""

    def __init__(self, folder: Path, mode: str, server: Server) -> None:
        self._folder, self._mode, self._server = folder, mode, server
        self._hold = folder / "hold"
        self._hold.touch()

    @contextmanager
    def held(self) -> Iterator[None]:
        """It is about to write record 2. Afterwards it comes to its end."""
        with self._started(self._mode, self._folder) as program:
            try:
                until((self._folder / "held").exists, "record 2 is held", 60)
                yield
                self.release()
                assert program.wait(60) == 0
            finally:
                program.kill()

    def release(self) -> None:
        """Record 2 is held no more."""
        self._hold.unlink(missing_ok=True)

    def said(self) -> str:
        return (self._folder / "said").read_text()

    def successor(self) -> None:
        """Another instance, which writes all records."""
        self._run(self._mode, self._folder / "successor")

    def rows(self) -> list[int]:
        listed = self._folder / "listed"
        self._run("show", listed)
        return sorted(int(line, 16) for line in (listed / "said").read_text().split())

    def _run(self, mode: str, folder: Path) -> None:
        with self._started(mode, folder) as program:
            assert program.wait(60) == 0

    def _started(self, mode: str, folder: Path) -> "subprocess.Popen[bytes]":
        """folder: its client works there."""
        folder.mkdir(exist_ok=True)
        (folder / "confluent_kafka.py").write_text(CLIENT)
        (folder / "committed").write_text("0")
        given = {"IN": "in", "GROUP": "group", "CLIENT": "{}", "FOLDER": str(self._folder)}
        around = {f"INQUEST_{name}": value for name, value in given.items()}
        with (folder / "said").open("wb") as file:
            return subprocess.Popen(
                [sys.executable, SINK, mode, "0", "--database", self._server.url],
                cwd=folder,
                env={**os.environ, **around, "PYTHONPATH": str(folder)},
                stdout=file,
            )


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    ("mode", "rows"),
    [("plain", [0, 0, 1, 1, 2, 3, 4]), ("early", [0, 1]), ("unique", ONCE), ("offsets", ONCE)],
)
def test_the_server_dies_before_a_row(mode: str, rows: list[int], tmp_path: Path, server: Server) -> None:
    sink = Sink(tmp_path, mode, server)
    with sink.held():
        server.crash()
        sink.release()
        until(lambda: "Is the server running" in sink.said(), "it finds no server", 60)
        server.start()
    assert sink.rows() == rows


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    ("mode", "rows"),
    [("plain", [0, 0, 1, 1, 2, 2, 3, 4]), ("early", [0, 1, 2]), ("unique", ONCE), ("offsets", ONCE)],
)
def test_the_server_dies_between_a_row_and_its_answer(
    mode: str, rows: list[int], tmp_path: Path, server: Server
) -> None:
    """A commit that waits for a standby is on disk already: only its answer is missing."""
    sink = Sink(tmp_path, mode, server)
    waits = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    with sink.held():
        server.query("ALTER SYSTEM SET synchronous_standby_names = 'missing'")
        server.query("SELECT pg_reload_conf()")
        until(lambda: server.query("SHOW synchronous_standby_names") == [("missing",)], "it is set", 60)
        sink.release()
        until(lambda: server.query(waits), "the commit waits", 60)
        server.crash()
        server.start()
    assert sink.rows() == rows


@pytest.mark.sampled(16)
@pytest.mark.parametrize(
    ("mode", "rows"), [("plain", sorted(ONCE + ONCE)), ("unique", ONCE), ("offsets", ONCE)]
)
def test_a_sink_that_stood_still_while_its_successor_wrote(
    mode: str, rows: list[int], tmp_path: Path, server: Server
) -> None:
    sink = Sink(tmp_path, mode, server)
    with sink.held():
        sink.successor()
    assert sink.rows() == rows


@pytest.mark.sampled(10)
def test_offsets_of_the_database_go_before_those_of_the_group(tmp_path: Path, server: Server) -> None:
    sink = Sink(tmp_path, "offsets", server)
    with sink.held():
        server.crash()
        server.start()
    said = [line for line in sink.said().splitlines() if line.startswith(("from ", "commits "))]
    assert said == ["from 0", "from 2", "commits 2", "commits 5"]


@pytest.mark.parametrize(
    ("file", "says"),
    [("fails", "a callback failed"), ("hangs", "a call does not return: the program begins anew")],
)
def test_a_call_that_fails_or_never_returns_does_not_stop_it(file: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "confluent_kafka.py").write_text(CLIENT)
    (tmp_path / "committed").write_text("0")
    (tmp_path / file).touch()
    names = {"IN": "in", "GROUP": "group", "CLIENT": "{}", "FOLDER": str(tmp_path)}
    env = os.environ | {f"INQUEST_{name}": value for name, value in names.items()}
    listed = []
    for mode in ("unique", "show"):
        done = subprocess.run(
            [sys.executable, SINK, mode, "0", "0.5"],
            cwd=tmp_path,
            env=env | {"PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        listed.append(done.stdout)
    assert says in listed[0]
    assert sorted(int(line, 16) for line in listed[1].split()) == ONCE
