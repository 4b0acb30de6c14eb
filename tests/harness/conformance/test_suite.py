"""The suite for authors of clients finds each broken client, by its own case."""

import shlex
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import pytest

from core.cluster import Endpoint
from core.errors import ExitCode, UsageError
from core.op import AssignmentKind, TopicPartition
from core.session import AssignmentEvent, Fetched
from harness.cli.main import main
from harness.clients.command import speaker
from harness.conformance import cases, stage, suite
from harness.conformance.cases import CASES, Member
from harness.conformance.stage import ConformanceStage
from harness.conformance.suite import CaseResult, perform, summary
from tests.processes import alive
from tests.waiting import until

ROOT = Path(__file__).parents[3]
EXAMPLE = [sys.executable, str(ROOT / "examples" / "clients" / "confluent_client.py")]
AIOKAFKA = [sys.executable, str(ROOT / "examples" / "clients" / "aiokafka_client.py")]
BROKEN = [sys.executable, str(Path(__file__).with_name("broken_client.py"))]


def quietly(_: str) -> None:
    pass


FOUND = [
    ("early", "timed-out", "it is acknowledged, and no broker ran"),
    ("early", "acknowledged", "it named"),
    ("twice", "idempotent", "holds"),
    ("commits", "transactions", "the log holds"),
    ("names", "acknowledged", "it named"),
    ("quiet", "group", "by their events"),
    ("sure", "timed-out", "it may have reached a broker"),
    ("dies 4", "idempotent", "the client has ended with exit code 3"),
    ("hangs 4", "idempotent", "the client stands still"),
    ("garbage 4", "idempotent", "wrote something else than a line: b'connected"),
    ("wrong-id 4", "idempotent", "the client answers 999999, which nothing asked"),
]


@pytest.mark.sampled(46)
@pytest.mark.parametrize(("kind", "case", "why"), FOUND)
def test_a_broken_client_fails_its_case(
    kind: str, case: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cases, "PATIENCE_S", 8.0)
    monkeypatch.setattr(stage, "DEADLINE_S", 6.0)
    monkeypatch.setattr(speaker, "GRACE_S", 1.0)
    said: list[str] = []
    opened, tried = perform([*BROKEN, *kind.split()], said.append, [case])
    assert not opened.why
    assert why in tried.why
    assert said[1].startswith(f"FAILED     {case}")
    assert why in said[1]


@pytest.mark.sampled(48)
@pytest.mark.parametrize("words", [EXAMPLE, AIOKAFKA])
def test_an_example_keeps_the_protocol(words: list[str]) -> None:
    results = perform(words, quietly)
    assert [one.name for one in results] == ["open", *CASES]
    assert {one.why + one.lacks for one in results} == {""}


class Events:
    """A session that only has events."""

    def __init__(self, *events: AssignmentEvent) -> None:
        self._events = events

    async def subscribe(self, _topics: Sequence[str]) -> None: ...

    async def poll(self, _most: int, _timeout_ms: int) -> list[Fetched]:
        return []

    def events(self) -> Sequence[AssignmentEvent]:
        return self._events


@pytest.mark.parametrize(
    ("after", "held"), [(AssignmentKind.RESET, 2), (AssignmentKind.REVOKED, 1), (AssignmentKind.LOST, 1)]
)
def test_a_member_holds_what_it_was_given_until_it_is_taken(after: AssignmentKind, held: int) -> None:
    tps = (TopicPartition("t", 0), TopicPartition("t", 1))
    given = AssignmentEvent(kind=AssignmentKind.ASSIGNED, tps=tps, generation=1, ns=1)
    changed = AssignmentEvent(kind=after, tps=tps[:1], generation=1, ns=2)
    events = Events(given, changed)
    member = Member(cast("Any", events), "t")
    member.poll()
    assert len(member.held) == held


@pytest.mark.sampled(30)
def test_what_a_client_lacks_is_not_tried() -> None:
    body = """
import json, sys
for line in sys.stdin:
    command = json.loads(line)
    print(json.dumps({"id": command["id"], "outcome": "ok", "lacks": ["transactions"]}), flush=True)
"""
    opened, tried = perform([sys.executable, "-c", body], quietly, ["fenced"])
    assert (opened.why, tried.why, tried.lacks) == ("", "", "transactions")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["./no-such-client"], ExitCode.USAGE, "inquest: --client ./no-such-client: no such program"),
        ([str(ROOT / "README.md")], ExitCode.USAGE, "cannot be executed"),
        (["./no-format"], ExitCode.USAGE, "inquest: --client ./no-format: Exec format error"),
        (["false"], ExitCode.ANOMALY, "but: the client has ended with exit code 1"),
        (["cat"], ExitCode.ANOMALY, "but: the client wrote something else than a line"),
    ],
)
def test_a_program_that_is_no_client_is_told_in_one_line(
    words: list[str],
    code: ExitCode,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("no-format").write_text("print(1)")
    Path("no-format").chmod(0o755)
    monkeypatch.setattr("sys.argv", ["inquest", "client-test", shlex.join(words)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    output = capsys.readouterr()
    assert said in output.out + output.err


def test_an_unknown_case_is_refused() -> None:
    with pytest.raises(UsageError, match="no case 'nothing'; known: acknowledged, idempotent"):
        perform(EXAMPLE, quietly, ["nothing"])


DEAF = """
import json, os, sys, time
for line in sys.stdin:
    command = json.loads(line)
    open(sys.argv[1], "w").write(str(os.getpid()))
    print(json.dumps({"id": command["id"], "outcome": "ok"}), flush=True)
    if command.get("bootstrap") == "stage:1":
        time.sleep(600)
"""


@pytest.mark.sampled(2)
def test_an_interrupt_in_a_case_ends_a_client_that_does_not_see_its_input_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Staged:
        def endpoint(self) -> Endpoint:
            return Endpoint(args={"bootstrap.servers": "stage:1"})

    def interrupted(stage: ConformanceStage) -> None:
        stage.producer()
        raise KeyboardInterrupt

    monkeypatch.setitem(cast("Any", CASES), "interrupted", interrupted)
    monkeypatch.setattr(suite, "brokers", lambda _: nullcontext(Staged()))
    monkeypatch.setattr(speaker, "END_S", 0.1)
    with pytest.raises(KeyboardInterrupt):
        perform([sys.executable, "-c", DEAF, str(tmp_path / "pid")], quietly, ["interrupted"])
    pid = int((tmp_path / "pid").read_text())
    until(lambda: not alive(pid), "the program ended")


def test_what_was_not_tried_is_no_part_of_what_a_client_keeps() -> None:
    kept, failed = CaseResult("open", "", 0), CaseResult("seek", "", 0, why="it does not")
    lacking = [
        CaseResult(name, "", 0, lacks=lacks) for name, lacks in (("a", "groups"), ("b", "consume, groups"))
    ]
    assert summary([kept]) == "1 case: the client keeps the protocol"
    left = "2 not tried (it lacks consume, groups)"
    assert summary([kept, *lacking]) == f"3 cases: {left}; the client keeps the protocol in the others"
    assert summary([kept, *lacking, failed]) == f"4 cases: {left}; failed: seek"
