"""Programs that are clients: what they say, and what happens where one is broken. No cluster is there."""

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from time import monotonic_ns
from typing import Any

import pytest

from core.client_settings import SessionSpec, check
from core.cluster import Endpoint
from core.config import RunConfig
from core.errors import ConfigError
from core.extensions import CLIENT
from core.load_clients import CrashPoint
from core.op import AssignmentKind, Isolation, Phase, TopicPartition
from core.runtime import run_blocking
from core.session import (
    UNAWAITED,
    Acked,
    AssignmentEvent,
    ClientError,
    CommittedSeen,
    Definite,
    Failed,
    Fetched,
    Indefinite,
    Record,
    Unknown,
)
from harness.clients.command import session as command_session
from harness.clients.command import speaker
from harness.clients.command.session import CommandSession
from harness.clients.command.settings import COMMAND
from harness.clients.command.speaker import ClientLost, Speaker
from harness.clients.worker_process import WorkerProcess
from harness.clients.worker_protocol import Crash, Enter
from harness.processes.guard import stopped
from history.run_folder import Run
from tests.histories.script import Script
from tests.processes import alive
from tests.waiting import until

TP = TopicPartition("t", 1)
ARGS = {"bootstrap.servers": "localhost:1", "cluster.id": "c", "sasl.password": "hush"}
SPEC = SessionSpec(slot=0, process=7, acks=-1, isolation=Isolation.READ_COMMITTED, group="g", deadline_s=5)
PROGRAM = """
import json, os, sys, time
def say(id, **fields):
    print(json.dumps({"id": id, **fields}), flush=True)
for line in sys.stdin:
    command = json.loads(line)
    verb, id = command["verb"], command["id"]
    BODY
    if verb != "send":
        say(id, outcome="ok")
"""
"""Answers `ok` to everything. The body may do something else first, and `continue`."""
Start = Callable[..., CommandSession]


def words(body: str = "pass") -> list[str]:
    return [sys.executable, "-c", PROGRAM.replace("BODY", body.strip().replace("\n", "\n    "))]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a session over a program with this body."""
    made: list[CommandSession] = []

    def started(body: str = "pass", **spec: Any) -> CommandSession:
        talking = Speaker(words(body), tmp_path / "log")
        made.append(CommandSession(ARGS, replace(SPEC, **spec), talking, None))
        return made[-1]

    yield started
    for session in made:
        run_blocking(session.close())


def records(count: int) -> list[Record]:
    return [Record(TP, n, bytes([n, 255])) for n in range(count)]


# what a program says


def test_each_record_has_its_own_outcome(start: Start) -> None:
    session = start(
        """
if verb == "send":
    assert command["records"][1] == {"topic": "t", "partition": 1, "value": "Af8="}, command
    say(id, reports=[{"record": 1, "outcome": "failed", "code": "MSG_SIZE_TOO_LARGE"}])
    say(id, reports=[{"record": 0, "outcome": "ok", "offset": 5}, {"record": 2, "outcome": "unknown"}])
"""
    )
    first, *others = run_blocking(session.send(records(4)))
    assert isinstance(first, Acked)
    assert first.offset == 5
    assert others == [Failed("MSG_SIZE_TOO_LARGE"), Unknown("UNKNOWN"), Unknown("_TIMED_OUT")]


def test_a_report_that_comes_late_changes_nothing_and_is_no_error(start: Start) -> None:
    session = start(
        """
if verb == "send": late = id
if verb == "begin": say(late, reports=[{"record": 0, "outcome": "ok", "offset": 1}])
"""
    )
    assert run_blocking(session.send(records(1))) == [Unknown("_TIMED_OUT")]
    run_blocking(session.begin())
    assert run_blocking(session.send(records(1), wait=False)) == [Unknown(UNAWAITED)]
    run_blocking(session.begin())


def test_outcomes_of_verbs_are_those_of_sessions(start: Start) -> None:
    session = start(
        """
end = {"commit": ("unknown", "REQUEST_TIMED_OUT", {"wants_abort": True}),
       "abort": ("failed", "_STATE", {}),
       "begin": ("failed", "INVALID_PRODUCER_EPOCH", {"fatal": True})}
if verb in end:
    say(id, outcome=end[verb][0], code=end[verb][1], **end[verb][2])
    continue
"""
    )
    with pytest.raises(Indefinite, match="REQUEST_TIMED_OUT") as unknown:
        run_blocking(session.commit())
    assert unknown.value.wants_abort
    with pytest.raises(Definite, match="_STATE") as failed:
        run_blocking(session.abort())
    assert not failed.value.fatal
    assert session.fatal is None
    with pytest.raises(Definite, match="INVALID_PRODUCER_EPOCH") as fatal:
        run_blocking(session.begin())
    assert fatal.value.fatal
    assert session.fatal == "INVALID_PRODUCER_EPOCH"


def test_a_poll_brings_records_and_what_happened_meanwhile(start: Start) -> None:
    session = start(
        """
at = {"topic": "t", "partition": 1}
if verb == "poll":
    say(id, outcome="ok", records=[{**at, "offset": 4, "value": "AP8=", "leader_epoch": 2}],
        events=[{"event": "assigned", "partitions": [at], "generation": 3, "after": 0},
                {"event": "error", "code": "_TRANSPORT", "message": "gone"}])
    continue
if verb == "committed":
    say(id, outcome="ok", positions=[{**at, "offset": 4}])
    continue
"""
    )
    assert run_blocking(session.poll(10, 50)) == [Fetched(TP, 4, b"\0\xff", 2)]
    assigned, seen, error = session.events()
    assert isinstance(assigned, AssignmentEvent)
    assert (assigned.kind, assigned.tps, assigned.generation) == (AssignmentKind.ASSIGNED, (TP,), 3)
    assert isinstance(seen, CommittedSeen)
    assert (dict(seen.offsets), seen.generation) == ({TP: 4}, 3)
    assert isinstance(error, ClientError)
    assert session.events() == []


def test_what_happened_while_evidence_was_asked_for_comes_after_the_poll(start: Start) -> None:
    session = start(
        """
at = {"topic": "t", "partition": 1}
asked = globals().get("asked", 0)
if verb == "poll":
    say(id, outcome="ok", records=[{**at, "offset": 4, "value": ""}],
        events=[{"event": "assigned", "partitions": [at]}, {"event": "error", "code": "A"}])
    continue
if verb == "committed":
    asked += 1
    assert asked == 1, "a question for evidence led to another one"
    say(id, outcome="ok", events=[{"event": "lost", "partitions": [at]},
                                  {"event": "assigned", "partitions": [at], "generation": 5}])
    continue
"""
    )
    assert run_blocking(session.poll(10, 50)) == [Fetched(TP, 4, b"", -1)]
    assigned, error, lost, again = session.events()
    changes = [(one.kind, one.after) for one in (assigned, lost, again) if isinstance(one, AssignmentEvent)]
    kinds = AssignmentKind
    assert changes == [(kinds.ASSIGNED, 0), (kinds.LOST, 1), (kinds.ASSIGNED, 1)]
    assert isinstance(error, ClientError)
    run_blocking(session.begin())  # the program has not failed


def test_what_an_answer_tells_may_have_happened_when_the_one_before_it_had_come(start: Start) -> None:
    """The program gets its partition, asks the group where to begin, and is stopped before it answers: what
    others commit then, it did not pass over."""
    session = start(
        """
at = {"topic": "t", "partition": 1}
if verb == "poll":
    say(id, outcome="ok", events=[{"event": "assigned", "partitions": [at], "generation": 5}])
    continue
if verb == "committed":
    say(id, outcome="ok", events=[{"event": "lost", "partitions": [at]}])
    continue
if verb == "commit_offsets":
    say(id, outcome="ok", events=[{"event": "revoked", "partitions": [at]}])
    continue
"""
    )
    moments = [monotonic_ns()]
    told: list[AssignmentEvent] = []
    for verb in (session.poll(10, 50), session.commit_offsets({TP: 4}), session.poll(10, 50)):
        run_blocking(verb)
        moments.append(monotonic_ns())
        told += [one for one in session.events() if isinstance(one, AssignmentEvent)]
    given, lost, revoked, again, _ = (one.ns for one in told)
    assert given < moments[0] < lost < moments[1]
    assert moments[1] < revoked < moments[2], "what a commit tells came after the commit had begun"
    assert revoked < again < moments[2]


@pytest.mark.parametrize(
    "answer",
    [
        {"records": [{"topic": "t", "partition": 1, "offset": 4, "value": "", "leader_epoch": 2**40}]},
        {"records": [{"topic": "t", "partition": 1, "offset": 2**63, "value": ""}]},
        {"records": [{"topic": "t", "partition": 2**31, "offset": 1, "value": ""}]},
        {"events": [{"event": "revoked", "partitions": [], "generation": 2**31}]},
    ],
)
def test_a_number_that_no_history_holds_is_a_client_that_is_lost(
    answer: dict[str, Any], start: Start
) -> None:
    session = start(f"if verb == 'poll':\n    say(id, outcome='ok', **{answer})\n    continue")
    with pytest.raises(ClientLost, match="Expected `int`"):
        run_blocking(session.poll(10, 50))


GIVEN = {"event": "assigned", "partitions": [{"topic": "t", "partition": 1}], "generation": 3}


@pytest.mark.parametrize(
    ("last", "fields", "asked"),
    [
        ("close", {}, "open close"),
        ("poll", {"fatal": True}, "open poll close"),
        ("poll", {}, "open poll committed close"),
    ],
)
def test_a_client_that_closes_or_can_do_no_more_is_asked_for_no_evidence(
    last: str, fields: dict[str, object], asked: str, start: Start, tmp_path: Path
) -> None:
    """A library may be given partitions by a thread of its own between its last poll and `close`."""
    given = {"outcome": "ok", "events": [GIVEN, GIVEN | {"event": "revoked"}], **fields}
    session = start(f"""
with open({str(tmp_path / "verbs")!r}, "a") as file:
    file.write(verb + " ")
if verb == {last!r}:
    say(id, **{given!r})
    if verb == "close":
        break
    continue
""")
    if last == "poll":
        run_blocking(session.poll(10, 10))
    run_blocking(session.close())
    told = [one.kind for one in session.events() if isinstance(one, AssignmentEvent)]
    assert told == [AssignmentKind.ASSIGNED, AssignmentKind.REVOKED]
    assert (tmp_path / "verbs").read_text().strip() == asked


def test_a_text_that_only_explains_is_never_too_long(start: Start) -> None:
    """A library may name all partitions of a topic in it, or a chain of causes."""
    session = start("""
if verb == "begin":
    events = [{"event": "error", "code": "E", "message": "e" * 5000}]
    say(id, outcome="unknown", code="c" * 5000, message="m" * 5000, events=events)
    continue
if verb == "send":
    say(id, reports=[{"record": 0, "outcome": "failed", "code": "r" * 5000}])
""")
    with pytest.raises(Indefinite) as error:
        run_blocking(session.begin())
    assert error.value.code == "c" * 999 + "…"
    assert "m" * 999 + "…" in str(error.value)
    (told,) = session.events()
    assert isinstance(told, ClientError)
    assert told.message == "e" * 999 + "…"
    assert run_blocking(session.send(records(1))) == [Failed("r" * 999 + "…")]


def test_automatic_commits_are_asked_for(start: Start) -> None:
    body = """
at = {"topic": "t", "partition": 1}
if verb == "open": assert not command["client"]["consumer"]["auto_commit"]
if verb == "poll":
    say(id, outcome="ok", records=[{**at, "offset": 4, "value": ""}])
    continue
if verb == "position":
    say(id, outcome="ok", positions=[{**at, "offset": 5}])
    continue
if verb == "commit_offsets": assert command["positions"] == [{**at, "offset": 5}]
"""
    session = start(body, auto_commit=True, settings={"auto.commit.interval.ms": "0"})
    run_blocking(session.poll(1, 1))
    assert session.events() == []
    run_blocking(session.poll(1, 1))
    (committed,) = session.events()
    assert committed.offsets == {TP: 5}  # type: ignore[union-attr]


def test_secrets_reach_the_program_by_its_input_alone(start: Start, tmp_path: Path) -> None:
    session = start(
        """
if verb == "open":
    hidden = "hush" not in json.dumps([dict(os.environ), sys.argv])
    assert hidden and command["security"] == {"sasl.password": "hush"}, command
"""
    )
    run_blocking(session.begin())
    assert "hush" not in (tmp_path / "log").read_text()


# what a broken one does


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ('print("hello", flush=True)', "the client wrote something else than a line: b'hello"),
        ('say(id, outcome="ok", offest=3)', "something else than a line.*unknown field `offest`"),
        ('say(id, outcome="maybe")', "something else than a line.*Invalid enum value 'maybe'"),
        ('say(id, outcome="unknown", positions=None)', "something else than a line.*`null`.*positions"),
        ('say(99, outcome="ok")', "the client answers 99, which nothing asked"),
        ("say(id)", "the client wrote a line with neither outcome nor reports"),
        ('say(99, reports=[{"record": 0, "outcome": "ok"}])', "reports twice, or no record, of the send 99"),
        (
            'say(99, reports=[{"record": 0, "outcome": "ok"}], events=[{"event": "revoked"}], code="X")',
            "the client's line with reports of the send 99 has code, events, too: reports stand alone",
        ),
        (
            'say(id, outcome="ok", reports=[{"record": 0, "outcome": "ok"}])',
            "has outcome, too: reports stand alone",
        ),
        ('print("no brokers", file=sys.stderr); sys.exit(3)', "ended with exit code 3; its last line: no"),
        ("os.kill(os.getpid(), 9)", "the client has ended with exit code -9"),
    ],
)
def test_a_broken_program_is_lost(start: Start, body: str, why: str) -> None:
    session = start(f'if verb == "begin":\n    {body}')
    with pytest.raises(ClientLost, match=why):
        begin_twice(session)


def begin_twice(session: CommandSession) -> None:
    """An answer that nothing asked may be seen only with the next one."""
    run_blocking(session.begin())
    run_blocking(session.begin())


def send(session: CommandSession, *sent: Record) -> None:
    """Send; that the program is lost is said after that."""
    assert {type(one) for one in run_blocking(session.send(sent))} <= {Acked, Unknown}
    session.events()


def test_a_record_that_is_reported_twice_is_one_error(start: Start) -> None:
    report = 'say(id, reports=[{"record": 0, "outcome": "ok", "offset": 1}])'
    session = start(f'if verb == "send":\n    {report}\n    {report}')
    with pytest.raises(ClientLost, match="reports twice"):
        send(session, *records(1))


def test_one_that_dies_while_it_sends_leaves_the_rest_unknown(start: Start) -> None:
    body = """
if verb == "send": say(id, reports=[{"record": 0, "outcome": "ok", "offset": 1}])
if verb == "flush": sys.exit(1)
"""
    session = start(body)
    first, second = run_blocking(session.send(records(2)))
    assert isinstance(first, Acked)
    assert second == Unknown("_CLIENT_LOST")
    assert session.fatal == "_CLIENT_LOST"
    with pytest.raises(ClientLost, match="exit code 1"):
        session.events()


@pytest.mark.parametrize("count", [2, 3])
def test_one_that_returns_more_records_than_a_poll_may_is_lost(start: Start, count: int) -> None:
    """KafkaConsumer returns 500 of its own accord."""
    body = f"""
if verb == "poll":
    value = dict(topic="t", partition=1, value="")
    say(id, outcome="ok", records=[dict(value, offset=n) for n in range({count})])
    continue
"""
    session = start(body)
    if count == 2:
        assert [one.offset for one in run_blocking(session.poll(2, 10))] == [0, 1]
        return
    with pytest.raises(ClientLost, match="the client returns more records than a poll may: 2"):
        run_blocking(session.poll(2, 10))
    with pytest.raises(ClientLost, match="more records"):
        run_blocking(session.position())


def test_a_topic_is_made_within_the_time_of_the_run_s_verbs(tmp_path: Path) -> None:
    opened: list[SessionSpec] = []

    def library(args: dict[str, str], spec: SessionSpec) -> Script:
        opened.append(spec)
        return Script()

    session = CommandSession(ARGS, SPEC, Speaker(words(), tmp_path / "log"), library)
    run_blocking(session.create_topic("new", 1, 1, {}))
    run_blocking(session.close())
    assert opened == [SessionSpec(slot=SPEC.slot, process=SPEC.process, deadline_s=SPEC.deadline_s)]


def test_one_that_does_not_answer_is_killed(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speaker, "GRACE_S", 0.3)
    session = start('if verb == "begin": time.sleep(600)', deadline_s=0.5)
    with pytest.raises(ClientLost, match="stands still"):
        run_blocking(session.begin())


def test_one_that_no_longer_reads_is_killed(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pipe to it is full before the send is written."""
    monkeypatch.setattr(speaker, "GRACE_S", 0.3)
    session = start('if verb == "send": time.sleep(600)', deadline_s=0.5)
    with pytest.raises(ClientLost, match="stands still"):
        send(session, *(Record(TP, n, bytes(100_000)) for n in range(20)))


# before a run


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("", "name the program with --client, or in INQUEST_CLIENT"),
        ("./no-such-client --fast", "--client ./no-such-client: no such program"),
        ("'", "No closing quotation"),
        (__file__, "cannot be executed"),
    ],
)
def test_a_command_that_cannot_be_started_is_refused(
    monkeypatch: pytest.MonkeyPatch, command: str, why: str
) -> None:
    monkeypatch.setenv(CLIENT, command)
    with pytest.raises(ConfigError, match=why):
        check([SPEC], COMMAND)


@pytest.fixture
def opening(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], object]:
    """Opens a session in a run, with this command."""
    monkeypatch.setattr(command_session, "end_with_worker", lambda: None)

    def opened(command: str) -> object:
        monkeypatch.setenv(CLIENT, command)
        return command_session.connect(ARGS, SPEC)

    return opened


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (
            'outcome="failed", code="acks", message="no such setting"',
            r"--client \S+ refuses its settings: acks: no such setting",
        ),
        (
            'outcome="unknown", code="_TIMED_OUT", message="no answer"',
            r"--client \S+ could not open a client: _TIMED_OUT: no answer",
        ),
    ],
)
def test_what_is_not_opened_within_the_run_is_said_in_words(
    opening: Callable[[str], object], answer: str, why: str
) -> None:
    """Settings of the cluster, too, may be refused: the trial before the run has none of them. A program that
    asks the cluster meets the faults of the run."""
    body = f'if verb == "open":\n    say(id, {answer})\n    continue'
    with pytest.raises(ConfigError, match=why):
        opening(shlex.join(words(body)))


def test_a_program_that_cannot_be_started_within_the_run_is_said_in_words(
    opening: Callable[[str], object], tmp_path: Path
) -> None:
    """Its user builds it once more meanwhile."""
    built = tmp_path / "client"
    built.write_bytes(Path("/bin/true").read_bytes())
    built.chmod(0o755)
    with built.open("ab"), pytest.raises(ConfigError, match=f"--client {built}: Text file busy"):
        opening(str(built))


@pytest.mark.parametrize(
    ("body", "error", "why"),
    [
        (
            'say(id, outcome="ok", name="mine 1", lacks=["groups"]); continue',
            ConfigError,
            "mine 1 lacks .*groups",
        ),
        ('say(id, outcome="failed", code="acks"); continue', ConfigError, "refuses its settings: acks"),
        ('say(id, outcome="unknown", code="io"); continue', ConfigError, "could not open a client: io"),
        ("sys.exit(2)", ClientLost, "the client has ended with exit code 2"),
    ],
)
def test_what_a_client_lacks_is_refused(
    monkeypatch: pytest.MonkeyPatch, body: str, error: type[Exception], why: str
) -> None:
    monkeypatch.setenv(CLIENT, shlex.join(words(f'if verb == "open":\n    {body}')))
    with pytest.raises(error, match=why):
        check([SPEC], COMMAND)


def test_a_client_that_lacks_what_no_session_needs_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    body = (
        'if verb == "open":\n    say(id, outcome="ok", lacks=["transactions", "idempotence"])\n    continue'
    )
    monkeypatch.setenv(CLIENT, shlex.join(words(body)))
    check([SPEC], COMMAND)
    with pytest.raises(ConfigError, match="lacks what this run needs: idempotence"):
        check([replace(SPEC, idempotent=True)], COMMAND)
    with pytest.raises(ConfigError, match=r"client setting plugin.library.paths: with command"):
        check([replace(SPEC, settings={"plugin.library.paths": "x"})], COMMAND)


# with its worker


@pytest.fixture
def working(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[WorkerProcess, int]]:
    """A worker whose client is under way, and the process of the client, which does not see its input end."""
    run = Run(tmp_path / "run")
    run.journal.mkdir(parents=True)
    run.config.write_text(RunConfig(seed=1, clients="command", sut="model").model_dump_json())
    note = tmp_path / "pid"
    say = f'open({str(note)!r}, "w").write(str(os.getpid()))'
    body = f'if verb != "open":\n    {say}\n    time.sleep(600)'
    monkeypatch.setenv(CLIENT, shlex.join(words(body)))
    factory = "harness.clients.command.session:connect"
    handle = WorkerProcess(run, 0, Endpoint(factory=factory, args=ARGS))
    handle.tell(Enter(Phase.WARMUP))
    until(lambda: note.exists() and note.read_text() != "", "the client did not start")
    yield handle, int(note.read_text())
    handle.strike()
    handle.close()


@pytest.mark.sampled(6)
def test_a_client_is_paused_and_killed_with_its_worker(working: tuple[WorkerProcess, int]) -> None:
    handle, pid = working
    handle.pause()
    assert stopped(pid)
    handle.resume()
    until(lambda: not stopped(pid), "the client does not continue")
    handle.condemned = True
    handle.tell(Crash(CrashPoint.ANYWHERE))
    handle.strike()
    until(lambda: not alive(pid), "the client outlives its worker")


@pytest.mark.sampled(8)
def test_a_client_ends_even_if_its_worker_alone_was_killed(working: tuple[WorkerProcess, int]) -> None:
    handle, pid = working
    os.kill(handle.pid, 9)
    until(lambda: not alive(pid), "the client outlives its worker")


@pytest.mark.sampled(5)
def test_the_journal_of_a_lost_client_holds_no_guess(working: tuple[WorkerProcess, int]) -> None:
    handle, pid = working
    os.kill(pid, 9)
    until(lambda: handle.ended is not None, "the worker continues without its client")
    assert handle.ended == os.EX_UNAVAILABLE
    assert handle.why_ended() == "the client has ended with exit code -9"
    lines = (handle.log.parent / "0.jsonl").read_text().splitlines()
    (completed,) = [json.loads(line) for line in lines if '"sent"' in line]
    assert {result[0] for result in completed["results"]} == {2}
    assert not any('"event":"complete"' in line or '"event":"close"' in line for line in lines)
