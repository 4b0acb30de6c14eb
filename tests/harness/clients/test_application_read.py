"""What is said of an application where the final reads do not show all of its input and output."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest

from core.client_settings import ClientSettings, SessionSpec
from core.config import RunConfig, run_config
from core.keys import INPUT_KEYS
from core.op import End, Isolation, Outcome, Phase, Send, TopicPartition, value_of
from core.payload import encode
from core.runtime import run_blocking
from core.session import EndReached, Fetched, Indefinite
from harness.clients import worker as workers
from harness.clients.application import named
from harness.clients.application.results import Results
from harness.clients.worker import FINAL_LEVELS, Worker
from harness.clients.worker_protocol import Grow, ReadFinal
from harness.modelled.virtual.worker_task import Lines
from harness.processes.real_time import RealRuntime
from history import journal as j
from history.journal import JournalHeader
from history.journal_rows import rows_of
from history.run_folder import FORMAT
from tests.checkers.found import check_tables
from tests.histories.script import Script
from workloads.registry import workload_of_run

SIZE = 100
IN = [TopicPartition("in", partition) for partition in range(3)]
OUT = [TopicPartition("out", partition) for partition in range(3)]
Logs = dict[TopicPartition, list[bytes]]
INVENTED: dict[str, set[str]] = {"one-to-one": {"phantom-read"}, "aggregate": set()}
"""Where a partition of the input was not read: a number alone does not name the partition of its record."""


def config(shape: str = "one-to-one") -> RunConfig:
    app = {"shape": shape, "input": "in", "output": "out"}
    made = {"partitions": 2, "producers": 2, "home_producers": 0, "consumers": 1}
    return run_config({"seed": 1, "sut": "model", **named.SETTINGS, "app": app, **made})


class Reader(Script):
    """A consumer of these logs. It comes to the end of each partition but the stuck ones, of which it gets
    nothing; then it fails."""

    def __init__(self, logs: Logs, stuck: Collection[TopicPartition]) -> None:
        super().__init__()
        self.logs, self.stuck = logs, stuck
        self.left: list[TopicPartition] = []
        self.over: list[Any] = []

    async def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        self.left = sorted(positions)

    async def poll(self, max_records: int, wait_ms: int) -> list[Fetched]:
        if not self.left:
            raise Indefinite("_ALL_BROKERS_DOWN")
        tps, self.left = [tp for tp in self.left if tp not in self.stuck], []
        self.over = [EndReached(tp=tp, offset=len(self.logs[tp]), ns=5) for tp in tps]
        return [Fetched(tp, at, payload, 0) for tp in tps for at, payload in enumerate(self.logs[tp])]

    def events(self) -> list[Any]:
        told, self.over = self.over, []
        return told


class Host:
    """Has the final reader's session, and keeps the journals."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.journals: dict[int, Lines[j.Line]] = {}

    def connect(self, spec: SessionSpec) -> Any:
        return self.reader

    def journal(self, header: JournalHeader) -> Lines[j.Line]:
        return self.journals.setdefault(header.process, Lines[j.Line]([header]))

    def used(self, process: int) -> bool:
        return process in self.journals

    def database(self, config: RunConfig) -> Results | None:
        return Results() if config.app and config.app.shape == "aggregate" else None

    def outside(self) -> tuple[dict[str, str], Path]:
        return {}, Path()

    def die(self) -> None:
        raise AssertionError("nothing crashes it")


class Position:
    """In place of what brokers say: the group has committed the first two records of each partition."""

    def __init__(self, *_: object) -> None:
        """Asks nothing."""

    def committed(self, tps: list[TopicPartition], _: float) -> dict[TopicPartition, int]:
        return dict.fromkeys(tps, 2)

    def close(self) -> None:
        """Nothing is open."""


def fed(made: Host, config: RunConfig, partitions: int, apart: int) -> Logs:
    """What a producer wrote into the input, with values so far apart; and an instance that ended in order."""
    plans = workload_of_run(config).plans(config)
    producer, member = plans[1], next(plan for plan in plans if plan.group)
    logs: Logs = {}
    for spec in (producer, member):
        header = JournalHeader(
            format=FORMAT,
            run="run",
            process=spec.slot,
            slot=spec.slot,
            ns=1,
            spec=spec,
            client=ClientSettings(),
        )
        made.journal(header)
    lines, values = made.journals[producer.slot], iter(range(1, 1000, apart))
    for op, (tp, offset) in enumerate(((tp, offset) for tp in IN[:partitions] for offset in range(2)), 1):
        value = value_of(producer.slot, next(values))
        logs.setdefault(tp, []).append(encode("run", tp, value, SIZE))
        lines.write(j.Invoked(op, 2, Phase.FAULTS, "send", False, False, (Send(tp, value),)))
        lines.write(j.SendResults(op, 0, 2, 3, [(int(Outcome.OK), offset, 3, "")]))
        lines.write(j.OpCompleted(op, 3, Outcome.OK))
    lines.write(j.Closed(4, End.CLOSED))
    instance = made.journals[member.slot]
    instance.write(j.Invoked(1, 2, Phase.FAULTS, "instance", False, False, ()))
    instance.write(j.OpCompleted(1, 4, Outcome.OK))
    instance.write(j.Closed(4, End.CLOSED))
    return logs


def judged(
    monkeypatch: pytest.MonkeyPatch,
    *,
    shape: str = "one-to-one",
    grown: bool = False,
    moved: bool = False,
    unlisted: Collection[TopicPartition] = (),
    stuck: Collection[TopicPartition] = (),
    lost: Collection[TopicPartition] = (),
    invented: Collection[TopicPartition] = (),
) -> tuple[set[str], set[str]]:
    """Classes that are found, and checks that are in doubt, of an application that copies each record but the
    first one of the lost partitions, and makes output of a record that some partitions do not have. moved:
    records of a partition have one key, and its result moves to the last partition of the output."""
    monkeypatch.setattr(workers, "GroupPosition", Position)
    its, partitions = config(shape), 3 if grown else 2
    host = Host(Reader({}, stuck))
    logs = fed(host, its, partitions, INPUT_KEYS if moved else 1)
    for source, output in zip(IN[:partitions], OUT[:partitions], strict=True):
        more = [encode("run", source, value_of(1, 99), SIZE)] if source in invented else []
        logs[output] = written([*logs[source][source in lost :], *more], shape, one_key=moved)
    if moved:
        logs[OUT[partitions - 1]].append(logs[OUT[0]].pop())
    host.reader.logs = logs
    plans = workload_of_run(its).plans(its)
    reader = Worker(
        "run", len(plans) + FINAL_LEVELS.index(Isolation.READ_COMMITTED), its, RealRuntime(), host
    )
    if grown:
        reader.take(Grow([IN[2], OUT[2]]))
    ends = [(*tp, len(log)) for tp, log in logs.items() if tp not in unlisted]
    if shape == "aggregate":
        ends += [(*tp, end) for tp, end in Results().ends(range(partitions)).items()]
    reader.take(ReadFinal({int(level): ends for level in FINAL_LEVELS}))
    run_blocking(reader.serve())
    rows = rows_of((f"{process}", lines.lines) for process, lines in host.journals.items())
    rows.add_bounds([(*tp, level, 0, end) for *tp, end in ends for level in (0, 1)])  # type: ignore[misc]
    tally = check_tables(rows.tables(), portable=False, config=its)
    assert not tally.crashed, tally.crashed
    doubts = {doubt.check for doubt in tally.doubts} - {"recovery"}  # which is not on record here
    return {one.name for one in tally.findings}, doubts


def written(inputs: list[bytes], shape: str, *, one_key: bool) -> list[bytes]:
    """What the application makes of the records of a partition."""
    if shape != "aggregate":
        return [b'{"of": "' + record.hex().encode() + b'"}' for record in inputs]
    numbers = [int.from_bytes(record[24:32], "little") for record in inputs]
    results = [numbers[: at + 1] if one_key else [number] for at, number in enumerate(numbers)]
    return [json.dumps({"inputs": result}).encode() for result in results]


@pytest.mark.parametrize("shape", ["one-to-one", "aggregate"])
def test_all_is_read_of_a_right_application(monkeypatch: pytest.MonkeyPatch, shape: str) -> None:
    assert judged(monkeypatch, shape=shape) == (set(), set())


@pytest.mark.parametrize("shape", ["one-to-one", "aggregate"])
def test_what_is_missing_in_output_that_was_read_is_found(
    monkeypatch: pytest.MonkeyPatch, shape: str
) -> None:
    assert judged(monkeypatch, shape=shape, lost={IN[1]}) == ({"eos-loss"}, set())


@pytest.mark.parametrize("shape", ["one-to-one", "aggregate"])
@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("tp", [IN[1], OUT[1]])
def test_what_was_not_read_is_no_evidence(
    monkeypatch: pytest.MonkeyPatch, tp: TopicPartition, shape: str, *, listed: bool
) -> None:
    """A partition without a leader at the end is not listed; of another one not all was given in time."""
    found, doubts = judged(
        monkeypatch,
        shape=shape,
        **({"stuck": {tp}} if listed else {"unlisted": {tp}}),  # type: ignore[arg-type]
    )
    assert found == set()
    assert "exactly-once" in doubts


@pytest.mark.parametrize("shape", ["one-to-one", "aggregate"])
@pytest.mark.parametrize("listed", [True, False])
def test_what_was_read_is_judged_though_a_partition_of_the_input_was_not(
    monkeypatch: pytest.MonkeyPatch, shape: str, *, listed: bool
) -> None:
    unread: dict[str, Any] = {"shape": shape, "stuck" if listed else "unlisted": {IN[1]}}
    for wrong, wanted in (("lost", {"eos-loss"}), ("invented", INVENTED[shape])):
        found, doubts = judged(monkeypatch, **unread | {wrong: {IN[0]}})
        assert found == wanted
        assert "exactly-once" in doubts
    assert judged(monkeypatch, **unread, invented={IN[1]})[0] == set()  # it may be one that was not read


@pytest.mark.parametrize("shape", ["one-to-one", "aggregate"])
def test_invented_output_is_found(monkeypatch: pytest.MonkeyPatch, shape: str) -> None:
    assert judged(monkeypatch, shape=shape, invented={IN[0]}) == ({"phantom-read"}, set())


def test_input_and_output_have_a_time_each() -> None:
    its = config()
    assert its.final_reads_s == 2 * its.final_deadline_s
    alone = run_config({"seed": 1, "app": {"effects": True, "output": ""}})
    assert alone.final_reads_s == run_config({"seed": 1}).final_reads_s == its.final_deadline_s


def test_what_topics_got_during_the_run_is_input_and_output(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judged(monkeypatch, grown=True) == (set(), set())
    assert judged(monkeypatch, grown=True, lost={IN[2]}) == ({"eos-loss"}, set())
    assert judged(monkeypatch, shape="aggregate", grown=True, moved=True) == (set(), set())
    assert judged(monkeypatch, shape="aggregate", moved=True) == ({"eos-duplicate"}, set())
    found, doubts = judged(monkeypatch, grown=True, unlisted={OUT[2]})
    assert (found, "exactly-once" in doubts) == (set(), True)
