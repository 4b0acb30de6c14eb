"""What led to a finding: only what the run has on record, and the command that shows it."""

import dataclasses
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pyarrow as pa
import pytest

from checkers.catalogue import ANOMALIES
from core.op import Phase
from core.wire import Seen
from harness.report import build, causes, classes, inputs, next_steps, story
from harness.report import facts as recorded
from harness.report.evidence import decisions, group_offsets, replicas
from harness.report.evidence.decisions import CoordinatorDecisions, DrawnMarker, WrittenPart
from harness.report.evidence.group_offsets import GroupOffsets, LoggedCommit
from harness.report.evidence.replicas import ReplicaEnds, ReplicaMoment
from harness.report.inputs import Inputs
from harness.report.timeline import numbers
from harness.report.traces import Traces
from history.events import RequestSeen
from history.run_folder import Run
from history.trace import TracedReplica
from history.verdict import Example
from tests.histories import traced
from tests.histories.report_findings import anomalous

LATER = "x-0 got no marker of its own (the COMMIT of a later transaction"
STOOD = "ends its records; read_committed does not pass offset 7 before that)"


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A simulated run that lost records by a planted bug."""
    return traced.recorded(tmp_path_factory.mktemp("lost") / "run", traced.losing())


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A simulated run whose group read on behind offsets of an aborted transaction."""
    made = traced.config(
        workload="copier",
        nemesis="client:crash-in-transaction",
        partitions=6,
        duration_s=12,
        mutant="offsets-of-aborted-txn",
        seed=1,
        producers=5,
        consumers=5,
    )
    return traced.recorded(tmp_path_factory.mktemp("copied") / "run", made)


def told(run: Run) -> tuple[Inputs, story.Story]:
    read = inputs.read(run)
    found = story.build(read, numbers.build(read))
    assert found is not None
    return read, found


def nothing(tmp_path: Path, **changes: object) -> Traces:
    """Traces of a run without evidence."""
    read = inputs.read(anomalous().write(tmp_path / "run"))
    example = Example(sentence="", allowed=False, why="", partition="x-0", offsets=[7])
    bare = Traces(inputs=read, example=example, leaders=[], ends=None, side=None, decided=None, offsets=None)
    return dataclasses.replace(bare, **changes)  # type: ignore[arg-type]


def facts(name: str, traces: Traces) -> list[str]:
    anomaly = next(iter(traces.inputs.verdict.anomalies.values()))
    return causes.build(name, anomaly, traces).facts


@pytest.mark.sampled(46)
def test_a_planted_bug_is_named_with_what_it_does(lost: Run) -> None:
    read, found = told(lost)
    assert "hw-is-leader-end: the high watermark is the end of the leader's log" in found.cause.named
    assert not found.cause.lacking
    clean = msgspec.structs.replace(read.verdict, config=read.verdict.config | {"simulated": {}})
    without = story.build(dataclasses.replace(read, verdict=clean), numbers.build(read))
    assert without is not None
    assert not without.cause.named
    assert without.cause.facts == found.cause.facts, "what is on record does not depend on the name"


@pytest.mark.sampled(48)
def test_a_leader_without_the_record_and_the_cut_are_told(lost: Run) -> None:
    read, found = told(lost)
    assert read.trace is not None
    facts = found.cause.facts
    offset = min(found.example.offsets)
    says = re.compile(r"node (\d) became leader at (\S+) s without offset (\d+): its log ended at (\d+)")
    match = next(filter(None, map(says.fullmatch, facts)))
    assert int(match[3]) == offset
    states = [
        one for one in read.trace.states if isinstance(one, TracedReplica) and one.node == int(match[1])
    ]
    before = [one for one in states if one.partition == "queue-0" and read.seconds(one.ns) <= float(match[2])]
    assert before[-1].end == int(match[4]) <= offset
    assert any(one.role == "leader" for one in states if read.seconds(one.ns) <= float(match[2]))
    assert any(f"node {found.ranges[0].leader} cut its log from" in fact for fact in facts)
    assert any(
        since == pytest.approx(float(match[2]), abs=0.001) for since, _ in replicas.leaders(read, "queue-0")
    )


@pytest.mark.sampled(48)
def test_where_logs_say_nothing_the_metadata_says_who_was_elected(
    lost: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, _ = told(lost)
    monkeypatch.setattr(replicas, "replica_lines", lambda *_: [])
    bare = dataclasses.replace(read, trace=None)
    assert replicas.elected(bare, "queue-0") == [], "metadata of a simulated run have no times"
    assert replicas.leaders(bare, "queue-0") != []
    begun = [(2.5, 1), (6.0, 2), (6.5, 2), (9.0, -1)]
    terms = [SimpleNamespace(ms=read.start_ms + 1000 * at, leader=node) for at, node in begun]
    monkeypatch.setattr("checkers.logs.elections.elections", lambda *_: SimpleNamespace(found=terms))
    found = [(round(at, 3), node) for at, node in replicas.elected(bare, "queue-0")]
    assert found == [(2.5, 1), (6.0, 2), (9.0, -1)]
    assert replicas.elected(dataclasses.replace(bare, evidence=None), "queue-0") == []


@pytest.mark.sampled(46)
def test_replicas_in_sync_that_lacked_what_counted_as_committed_are_told(lost: Run) -> None:
    read, found = told(lost)
    ends = replicas.build(read, "queue-0", min(found.example.offsets))
    assert ends is not None
    assert ends.passed is not None
    at, leader, isr = ends.passed
    words = (
        f"the high watermark of node {leader} passed it at {at:.3f} s with {', '.join(map(str, isr))} in sync"
    )
    (fact,) = [one for one in found.cause.facts if one.startswith(words)]
    lacked = [int(node) for node in re.findall(r"\d", fact.split(": ")[1].split(" of these")[0])]
    assert lacked
    for node in isr:
        reached = [one.end for one in ends.moments[node] if one.at <= at][-1] > ends.offset
        assert reached is (node not in lacked)


@pytest.mark.parametrize(
    ("passed", "without"),
    [((3.0, 1, (1, 2)), ""), ((3.0, 1, (1,)), "; 1, 2 were in sync, and node 2 of these lacked it")],
    ids=["its passing says so, too", "it left before"],
)
def test_which_replica_lacked_the_record_is_said_once(
    passed: tuple[float, int, tuple[int, ...]], without: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = {1: [ReplicaMoment(0.1, 8)], 2: [ReplicaMoment(0.1, 7)]}
    ends = ReplicaEnds(partition="x-0", offset=7, whole=True, moments=moments, passed=passed)
    monkeypatch.setattr("harness.report.facts.exchanges.acknowledged", lambda *_: (2.0, 1, "acks=all"))
    monkeypatch.setattr("harness.report.facts.exchanges.weaker", lambda *_: False)
    monkeypatch.setattr("harness.report.facts.replicas.in_sync", lambda *_: (1, 2))
    told = facts("lost-write", nothing(tmp_path, ends=ends))
    assert f"node 1 acknowledged it at 2.000 s{without}" in told
    assert sum("node 2 of these lacked it" in one for one in told) == 1


@pytest.mark.parametrize(
    ("since", "end", "fact"),
    [(5.0, 7, True), (5.0, 8, False), (0.5, 7, False)],
    ids=["without it", "with it", "before it was sent"],
)
def test_only_a_leader_without_the_record_is_one(since: float, end: int, fact: bool, tmp_path: Path) -> None:
    read = inputs.read(anomalous().write(tmp_path / "view"))
    view = read.verdict.anomalies["lost-write"].examples[0].ops[0]
    sent = msgspec.structs.replace(view, begin_s=1.0, end_s=2.0)
    ends = ReplicaEnds(
        partition="x-0",
        offset=7,
        whole=True,
        moments={2: [ReplicaMoment(0.1, end)]},
        leaders=[(0.0, 1), (since, 2)],
    )
    example = Example(sentence="", allowed=False, why="", partition="x-0", offsets=[7], ops=[sent])
    traces = nothing(tmp_path, ends=ends, example=example)
    assert bool(facts("lost-write", traces)) is fact


@pytest.mark.parametrize(
    ("whole", "passed", "early"),
    [(True, None, True), (True, 3.0, True), (True, 1.0, False), (False, None, False)],
)
def test_a_read_before_the_high_watermark_is_told(
    whole: bool, passed: float | None, early: bool, tmp_path: Path
) -> None:
    read = inputs.read(anomalous().write(tmp_path / "view"))
    view = read.verdict.anomalies["lost-write"].examples[0].ops[0]
    poll = msgspec.structs.replace(
        view,
        op=9,
        end_s=2.0,
        isolation="read_committed",
        records=["read x-0 offset 7 -> 1/2 (leader epoch 0)"],
    )
    ends = ReplicaEnds(
        partition="x-0",
        offset=7,
        whole=whole,
        moments={1: [ReplicaMoment(0.1, 8)]},
        passed=None if passed is None else (passed, 1, (1,)),
    )
    example = Example(sentence="", allowed=False, why="", partition="x-0", offsets=[7], ops=[poll])
    told = facts("lost-write", nothing(tmp_path, ends=ends, example=example))
    fact = "op 9 was given it at 2.000 s, before a leader’s high watermark had passed it"
    assert (fact in told) is early


@pytest.mark.parametrize(
    ("at", "epoch", "commit", "words"),
    [
        (2.1, 4, True, "x-0 got the COMMIT marker"),
        (2.1, 3, False, "x-0 got the ABORT marker"),
        (2.1, 5, True, f"{LATER}, at offset 9, 2.100 s, {STOOD}"),
        (9.0, 4, True, f"{LATER}, at offset 9, 9.000 s, {STOOD}"),
        (0, 0, None, "x-0 got no marker"),
    ],
)
def test_the_marker_of_each_partition_is_told(
    at: float, epoch: int, commit: bool | None, words: str, tmp_path: Path
) -> None:
    marker = None if commit is None else DrawnMarker(at, 9, commit, epoch)
    part = WrittenPart(begin=1.0, first=7, last=7, producer="7/3", marker=marker)
    decided = CoordinatorDecisions(
        transactional_id="t",
        producers=frozenset({7}),
        states=[(1.0, "Ongoing"), (2.0, "PrepareCommit"), (2.5, "CompleteCommit")],
        partitions={"x-0": [part]},
    )
    state, ended = facts("torn-txn", nothing(tmp_path / "decided", decided=decided))
    told = "Ongoing since 1.000 s, PrepareCommit at 2.000 s, CompleteCommit at 2.500 s"
    assert state == f"the coordinator’s log says of t: {told}"
    assert ended == words
    undecided = dataclasses.replace(decided, states=[(1.0, "Ongoing")])
    assert "no decision" in facts("torn-txn", nothing(tmp_path / "open", decided=undecided))[0]


@pytest.mark.parametrize(
    ("numbered", "words"),
    [
        ([(1, 5, 0, 8), (2, 5, 0, 8)], "the leader appended one sequence 2 times"),
        ([(1, 5, 0, 8), (2, 5, 0, 9)], "each copy came with a sequence of its own"),
        ([(1, 5, 0, 9), (2, 5, 0, 8)], "out of order"),
        ([(1, 5, 1, 8), (2, 5, 0, 8)], "an old producer epoch stands behind a newer one"),
        ([(1, 5, 0, 8), (2, 5, 1, 0)], "the later one has a newer producer epoch"),
        ([(1, 5, 0, 8), (2, 6, 0, 8)], "several producer ids"),
        ([(1, -1, -1, -1), (2, -1, -1, -1)], "no producer id"),
        ([(1, 5, 0, 8)], ""),
    ],
)
def test_sequences_tell_repeats_from_new_batches(
    numbered: list[tuple[int, int, int, int]], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "_numbered", lambda traces: numbered)
    found = facts("duplicate", nothing(tmp_path))
    assert [words in one for one in found] == ([True] if words else [])


def test_commits_of_a_group_are_told_from_before_the_finding_on(tmp_path: Path) -> None:
    commits = [
        LoggedCommit(at=float(n), place=n, committed=committed, producer="5/0", end=end)
        for n, (committed, end) in enumerate(((3, "COMMIT"), (7, "COMMIT"), (9, "ABORT"), (12, ""), (13, "")))
    ]
    offsets = GroupOffsets(
        group="g",
        partition="x-0",
        offsets=[7],
        log="__consumer_offsets-4",
        coordinators=[(0.0, 2), (1.5, -1), (2.5, 3)],
        commits=commits,
    )
    shown, moved = facts("eos-duplicate", nothing(tmp_path, offsets=offsets))
    assert shown.endswith("7 (1.000 s, COMMIT), 9 (2.000 s, ABORT), 12 (3.000 s)")
    assert "__consumer_offsets-4 (coordinator node 2)" in shown
    assert moved == "afterwards the group’s coordinator moved to no node at 1.500 s, to node 3 at 2.500 s"
    assert facts("eos-loss", nothing(tmp_path / "loss", offsets=offsets)) == [shown]
    aborted = [*commits[:3], dataclasses.replace(commits[2], committed=10), *commits[3:]]
    (shown,) = facts(
        "eos-loss", nothing(tmp_path / "far", offsets=dataclasses.replace(offsets, commits=aborted))
    )
    assert shown.endswith("7 (1.000 s, COMMIT), 9 (2.000 s, ABORT), 12 (3.000 s)"), "the first that counts"
    one = dataclasses.replace(commits[1], only=(2, 3), end="")
    assert one.words == "7 (1.000 s, in an earlier copy of node 2, 3 alone: the copies of the end lack it)"
    step = dataclasses.replace(offsets, offsets=[7, 5])
    told = facts("offset-commit-regression", nothing(tmp_path / "step", offsets=step))
    assert "no commit of 5 is in that log" in told
    past = [dataclasses.replace(offsets, offsets=some).past for some in ([7, 5], [9, 3], [7], [99], [-1, 8])]
    assert past == [1, 2, 2, 5, 2]


@pytest.mark.parametrize(("end", "apart"), [("", True), ("COMMIT", False)])
def test_offsets_that_are_in_no_transaction_are_called_a_write_of_their_own(
    end: str, apart: bool, tmp_path: Path
) -> None:
    commits = [LoggedCommit(at=1.0, place=0, committed=9, producer="", end=end)]
    offsets = GroupOffsets(
        group="g", partition="x-0", offsets=[7], log="l-0", coordinators=[], commits=commits
    )
    for name in ("eos-loss", "eos-duplicate"):
        told = facts(name, nothing(tmp_path / name, offsets=offsets))
        assert any("no commit of g there is part of a transaction" in one for one in told) is apart
    late = nothing(tmp_path / "late", offsets=offsets, written=1.5)
    assert ("was made at 1.500 s, after that commit" in facts("lost-write", late)[-1]) is True
    early = nothing(tmp_path / "early", offsets=offsets, written=0.5)
    assert not any("after that commit" in one for one in facts("lost-write", early))


def test_the_input_of_a_copy_is_where_its_group_committed() -> None:
    copied = "Group g copied the record at offset 300 of copier-in-2 into committed output 2 times, to x-0: …"
    example = Example(sentence=copied, allowed=False, why="", partition="x-0", offsets=[698, 2152])
    assert group_offsets._place(example) == ("copier-in", "2", [300])
    other = msgspec.structs.replace(example, sentence="Record 1/2 at offset 3 of y-1 was never copied")
    assert group_offsets._place(other) == ("x", "0", [698, 2152])


def test_states_of_another_producer_decide_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator that forgot a transaction gives its id a new producer, whose transactions are others."""
    bare = nothing(tmp_path)
    start = bare.inputs.start_ms
    rows = [
        {
            "transactional_id": "t",
            "partition": 1,
            "offset": offset,
            "timestamp": start + 1000 * offset,
            "state": state,
            "producer_id": producer,
            "producer_epoch": 7,
            "partitions": [],
        }
        for offset, (state, producer) in enumerate(
            (("Ongoing", 3), ("Empty", 4), ("Ongoing", 4), ("PrepareCommit", 4), ("CompleteCommit", 4)), 1
        )
    ]
    monkeypatch.setattr(decisions, "_states", lambda evidence: rows)
    monkeypatch.setattr(decisions, "_written", lambda *given: [])
    named = decisions._NamedTransaction(
        transactional_id="t", producer=3, epoch=7, begin=1.0, end=1.0, touched=frozenset(), placed=True
    )
    found = decisions._decisions(bare.inputs, cast(Any, None), named)
    assert found is not None
    assert [state for _, state in found.states] == ["Ongoing"]
    assert found.succeeded is not None
    assert found.succeeded[0] == pytest.approx(2.0, abs=0.01)
    assert found.succeeded[1] == 4
    undecided, next_one, *_ = facts("stuck-lso", dataclasses.replace(bare, decided=found))
    assert undecided.endswith("s, no decision")
    assert next_one.startswith("its next state of t is of another producer, 4, at 2.0")
    any_producer = dataclasses.replace(named, producer=None)
    found = decisions._decisions(bare.inputs, cast(Any, None), any_producer)
    assert found is not None
    assert found.succeeded is None
    assert "Empty" in [state for _, state in found.states]


def test_a_record_in_the_place_of_a_lost_one_is_told(tmp_path: Path) -> None:
    bare = nothing(tmp_path)
    final, early = (SimpleNamespace(op=n, phase=phase) for n, phase in ((1, Phase.FINAL), (2, Phase.FAULTS)))
    value = 6 << 32 | 9  # of a recording of others the high half is no process
    rows = [SimpleNamespace(op=2, value=5 << 32 | 8), SimpleNamespace(op=1, value=value)]
    for shown, senders, told in (
        (rows, [6], "the final reads found record 6/9 of process 6 at offset 7"),
        (rows, [5], "the final reads found record 6/9 of process 5 at offset 7"),
        (rows, [3, 5], "the final reads found record 6/9 at offset 7"),
        (rows, [], "the final reads found record 6/9 at offset 7"),
        (rows[:1], [6], ""),
    ):
        history = SimpleNamespace(
            tp_numbers={"x-0": 0},
            op=lambda number: {1: final, 2: early}[number],
            reads=lambda _, shown=shown: shown,
            client=lambda process: f"process {process}",
            sends=lambda where, senders=senders: (
                [SimpleNamespace(process=n) for n in senders] if where == {0: {"value": {value}}} else []
            ),
        )
        read = dataclasses.replace(bare.inputs, history=cast(Any, history))
        example = msgspec.structs.replace(bare.example, values=[4 << 32 | 1])
        found = facts("lost-write", dataclasses.replace(bare, inputs=read, example=example))
        assert [one for one in found if "the final reads" in one] == [told] * bool(told)


@pytest.mark.parametrize(
    ("delivered", "named", "told"), [(1.6, "t", True), (2.5, "t", False), (1.6, "u", False)]
)
def test_an_end_of_a_transaction_that_came_late_into_the_next_is_told(
    delivered: float, named: str, told: bool, tmp_path: Path
) -> None:
    held = Seen(
        ns=0, rule=0, what="", node=1, connection=1, api="end_txn", version=3, correlation_id=5, client_id="",
        named=named, error=0,
    )  # fmt: skip
    moments = ((0.5, "caught"), (delivered, "delivered"), (delivered + 0.1, "answered"))
    seen = [
        RequestSeen(seen=msgspec.structs.replace(held, ns=int(at * 1e9), what=what)) for at, what in moments
    ]
    bare = nothing(tmp_path)
    start = bare.inputs.start_ns
    op = SimpleNamespace(
        op=3, txn=True, transactional_id="t", begin_s=1.0, end_s=2.0, records=[], process=1, isolation=""
    )
    record = SimpleNamespace(
        invoke_ns=int(1e9), complete_ns=int(2e9), completed=True, op=3, process=1, phase=Phase.FAULTS
    )
    history = SimpleNamespace(events=seen, op=lambda _: record, tables={"ops": None}, sends=lambda _: [])
    read = dataclasses.replace(bare.inputs, history=cast(Any, history))
    example = msgspec.structs.replace(bare.example, ops=[cast(Any, op)], offsets=[])
    found = facts("torn-txn", dataclasses.replace(bare, inputs=read, example=example))
    fact = f"an EndTxn of t, held back since {0.5 - start / 1e9:.3f} s"
    assert any(one.startswith(fact) for one in found) is told


def test_batches_before_the_first_one_of_a_producer_are_called_missing(tmp_path: Path) -> None:
    bare = nothing(tmp_path)
    for first, told in ((3, True), (0, False)):
        row = {"take": 0, "node": 1, "base": 0, "last": 1, "control": False, "base_sequence": first}
        rows = pa.Table.from_pylist([row | {"producer_id": 5, "producer_epoch": 0}])
        evidence = SimpleNamespace(of=lambda name, tp, rows=rows: rows, table=lambda name: pa.table({}))
        read = dataclasses.replace(bare.inputs, evidence=cast(Any, evidence))
        example = msgspec.structs.replace(bare.example, offsets=[-1])
        found = facts("lost-write", dataclasses.replace(bare, inputs=read, example=example))
        text = "in this partition the batches of producer 5/0 begin with sequence 3 (offset 0)"
        assert any(one.startswith(text) for one in found) is told


def test_copies_that_end_apart_are_told_where_a_cluster_did_not_recover(tmp_path: Path) -> None:
    bare = nothing(tmp_path)
    sentence = (
        "All faults healed, the cluster had not recovered 9 s later: x-1 has in-sync replicas [1, 3] only."
    )
    example = msgspec.structs.replace(bare.example, sentence=sentence)
    for last, told in (
        (4, ["the copies of x-1 that were taken last end at 10 (nodes 1, 3), 5 (node 2)"]),
        (9, []),
    ):
        ends = {1: 9, 2: last, 3: 9}
        rows = [{"take": 0, "node": node, "base": 0, "last": end} for node, end in ends.items()]
        evidence = SimpleNamespace(
            of=lambda name, tp, rows=rows: pa.Table.from_pylist(rows), table=lambda name: pa.table({})
        )
        read = dataclasses.replace(bare.inputs, evidence=cast(Any, evidence))
        assert facts("not-recovered", dataclasses.replace(bare, inputs=read, example=example)) == told


def test_a_record_behind_the_marker_of_its_own_transaction_is_told(tmp_path: Path) -> None:
    for at, late in ((2.1, True), (0.5, False)):
        part = WrittenPart(
            begin=1.0, first=7, last=7, producer="7/3", marker=None, after=DrawnMarker(at, 5, False, 3)
        )
        decided = CoordinatorDecisions(
            transactional_id="t",
            producers=frozenset({7}),
            states=[(1.0, "Ongoing"), (2.0, "PrepareAbort")],
            partitions={"x-0": [part]},
            coordinators=[(0.0, 1), (1.5, 2), (9.0, 3)],
        )
        told = facts("aborted-read", nothing(tmp_path / str(at), decided=decided))
        assert ("x-0 has its ABORT at offset 5 before its record at offset 7" in told) is late
        assert "meanwhile its coordinator moved to node 2 at 1.500 s, to node 3 at 9.000 s" in told
        assert "that log never had it as Ongoing" not in told
        other = {"x-0": [dataclasses.replace(part, first=8, last=9)]}
        traces = nothing(tmp_path / f"{at}-other", decided=dataclasses.replace(decided, partitions=other))
        assert not any("before its record" in one for one in facts("aborted-read", traces))
        unlogged = dataclasses.replace(decided, states=decided.states[1:])
        told = facts("aborted-read", nothing(tmp_path / f"{at}-unlogged", decided=unlogged))
        assert "that log never had it as Ongoing" in told


@pytest.mark.sampled(10)
def test_where_nothing_is_on_record_it_says_so(tmp_path: Path) -> None:
    for name in ("lost-write", "duplicate", "stuck-lso", "eos-loss", "poll-skip", "not-recovered"):
        traces = nothing(tmp_path / name)
        anomaly = msgspec.structs.replace(
            traces.inputs.verdict.anomalies["lost-write"], known_bug="", disallowed=1
        )
        found = causes.build(name, anomaly, traces)
        assert (found.named, found.facts) == ("", [])
        assert "would show it; this run has no copies of brokers’ files" in found.lacking
    html = build(anomalous().write(tmp_path / "page")).read_text()
    assert "Not on record; how far each replica’s log reached when leaders changed would show it" in html


@pytest.mark.sampled(10)
def test_an_aborted_commit_that_a_group_followed_is_told_and_drawn(copied: Run) -> None:
    read = inputs.read(copied)
    only = {"eos-loss": read.verdict.anomalies["eos-loss"]}
    verdict = msgspec.structs.replace(read.verdict, anomalies=only)
    found = story.build(dataclasses.replace(read, verdict=verdict), numbers.build(read))
    assert found is not None
    assert "ABORT" in found.cause.facts[0]
    assert found.drawing is not None
    labels = [strip.label for strip in found.drawing.strips]
    assert {"coordinator", "committed"} <= set(labels)
    assert not any(label.startswith("copier-in-") for label in labels), "leaders of input partitions"
    offsets = group_offsets.build(read, found.example)
    assert offsets is not None
    ends = {one.end for one in offsets.commits}
    assert ends >= {"COMMIT", "ABORT"}
    rows = [row for row in found.ranges if row.partition == found.example.partition]
    assert any(row.offsets and row.offsets[0] <= min(found.example.offsets) <= row.offsets[1] for row in rows)
    assert "FROM log_offsets WHERE group = 'copiers'" in found.first_step[1]


@pytest.mark.sampled(10)
def test_the_next_command_is_of_the_class(lost: Run, tmp_path: Path) -> None:
    _, found = told(lost)
    what, elected = found.first_step  # simulated brokers log who began to lead, with which end, and no cut
    assert what == "See which broker led, with which end (the run begins at 00:00:01 there)"
    assert elected.startswith("grep -E 'queue-0 .*starts at [Ll]eader [Ee]poch' ")
    (_, command), *_ = found.steps
    offset = min(found.example.offsets)
    assert "FROM batches WHERE topic = 'queue' AND partition = 0" in command
    assert f"last >= {max(offset - next_steps.AROUND, 0)}" in command
    assert command.endswith(f"--results {lost.folder}")
    assert 'id="story"' in build(lost).read_text()
    bare = nothing(tmp_path)
    assert next_steps.commands("lost-write", None, bare)[0] == ("Repeat the run", bare.inputs.verdict.repro)
    (_, command), *_ = next_steps.commands("not-recovered", None, bare)
    assert "event = 'roles'" in command


LED = "[Broker id=1] Leader x-0 with topic id Some(a) starts at leader epoch 1 from offset 7 with"
LED += " partition epoch 3, high watermark 7, ISR [1,2]"
CUT = "[UnifiedLog partition=x-0, dir=/data] Truncating to offset 7"
CUTS = "(partition=x-0,.*Truncating|Truncating log x-0) to offset"


@pytest.mark.parametrize(
    ("lines", "what", "pattern"),
    [
        ([LED], "See which broker led, with which end", "x-0 .*starts at [Ll]eader [Ee]poch"),
        ([CUT], "See which broker cut its log", CUTS),
        (
            [LED, CUT],
            "See which broker led, with which end, and which cut its log",
            f"x-0 .*starts at [Ll]eader [Ee]poch|{CUTS}",
        ),
    ],
)
def test_of_brokers_logs_the_step_promises_the_lines_that_they_have(
    lines: list[str], what: str, pattern: str, tmp_path: Path
) -> None:
    traces = nothing(tmp_path)
    folder = traces.inputs.run.folder
    (folder / "cluster" / "1").mkdir(parents=True)
    (folder / "cluster" / "1" / "server.log").write_text(
        "".join(f"2026-11-29T02:22:38.100Z INFO {line}\n" for line in lines)
    )
    told, command = next_steps.commands("lost-write", None, traces)[0]
    assert told == what
    assert command == f"grep -E '{pattern}' {folder}/cluster/*/server.log | sort -t: -k2"
    assert next_steps.commands("lost-write", None, dataclasses.replace(traces, example=other(traces)))[0][
        0
    ] == ("Repeat the run")


def other(traces: Traces) -> Example:
    """The example in a partition that no line names."""
    return msgspec.structs.replace(traces.example, partition="x-1")


def test_a_new_leader_and_cuts_are_told_in_order_of_time(tmp_path: Path) -> None:
    moments = {1: [ReplicaMoment(1.0, 8), ReplicaMoment(2.0, 7, cut=True)], 2: [ReplicaMoment(1.0, 8)]}
    moments[3] = [ReplicaMoment(1.0, 8), ReplicaMoment(4.0, 0, cut=True)]
    ends = ReplicaEnds(partition="x-0", offset=7, whole=False, moments=moments, leaders=[(0.5, 2), (3.0, 1)])
    assert facts("lost-write", nothing(tmp_path, ends=ends))[-3:] == [
        "node 1 cut its log from 8 to 7 at 2.000 s",
        "node 1 became leader at 3.000 s without offset 7: its log ended at 7",
        "node 3 cut its log from 8 to 0 at 4.000 s",
    ]


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({}, ""),
        ({"clients": "command"}, ", with INQUEST_CLIENT as for this one"),
        ({"app": {"effects": False}}, ", with INQUEST_APP as for this one"),
        (
            {"app": {"effects": True}, "sut": "external"},
            ", with INQUEST_APP, INQUEST_EFFECTS, INQUEST_CLUSTER as for this one",
        ),
    ],
)
def test_what_no_folder_brings_is_named_with_the_command_that_repeats(
    config: dict[str, object], named: str, tmp_path: Path
) -> None:
    traces = nothing(tmp_path)
    verdict = msgspec.structs.replace(traces.inputs.verdict, config=traces.inputs.verdict.config | config)
    traces = dataclasses.replace(traces, inputs=dataclasses.replace(traces.inputs, verdict=verdict))
    assert f"Repeat the run{named}" in [what for what, _ in next_steps.commands("eos-loss", None, traces)]


@pytest.mark.parametrize("phase", [Phase.FAULTS, Phase.FINAL])
def test_ops_that_committed_are_told_and_final_reads_are_not(phase: Phase, tmp_path: Path) -> None:
    op = SimpleNamespace(op=4, process=2, phase=phase)
    rows = [SimpleNamespace(op=4, offset=offset) for offset in (9, 7)]
    history = SimpleNamespace(tp_numbers={"x-0": 0}, op=lambda _: op, reads=lambda _: rows)
    bare = nothing(tmp_path)
    read = dataclasses.replace(bare.inputs, history=cast(Any, history))
    example = Example(sentence="", allowed=False, why="", partition="x-0", ops=[cast(Any, op)])
    offsets = GroupOffsets(group="g", partition="x-0", offsets=[], log="", coordinators=[], commits=[])
    told = facts("group-skip", dataclasses.replace(bare, inputs=read, example=example, offsets=offsets))
    given = "op 4 (process 2) was given records from offset 7 on"
    assert (given in told) is (phase is Phase.FAULTS)


def test_a_time_without_a_leader_is_told_in_words() -> None:
    told = "to no node at 1.000 s, to node 3 at 1.500 s"
    assert recorded._moved([(1.0, "none"), (1.5, "3")]) == told, "as lanes of partitions have it"
    assert recorded._moved([(1.0, -1), (1.5, 3)]) == told, "as logs have it"


def test_hostile_names_go_into_no_query(tmp_path: Path, lost: Run) -> None:
    read = inputs.read(lost)
    for partition in ("x'; DROP-0", "$(id)-0", "queue-x"):
        example = Example(sentence="", allowed=False, why="", partition=partition, offsets=[3])
        traces = nothing(tmp_path / partition[:1].strip("$") / "q", inputs=read, example=example)
        assert not any(partition in text for _, text in next_steps.commands("lost-write", None, traces))


def test_classes_are_those_that_there_are() -> None:
    named = classes.OF_REPLICAS | classes.OF_TRANSACTIONS | classes.OF_GROUPS | classes.OF_SEQUENCES
    assert (named | classes.OF_POLLS | classes.DONE_BY_THEN) <= set(ANOMALIES)
    assert {name for name in ANOMALIES if name.startswith("share-")} == classes.OF_SHARES
