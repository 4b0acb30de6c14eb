"""What led to a finding: only what the run has on record, and the command that shows it."""

import dataclasses
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from checkers.catalogue import ANOMALIES
from core.op import Phase
from harness.report import build, causes, inputs, next_steps, story
from harness.report.causes import Traces
from harness.report.evidence import group_offsets, replicas
from harness.report.evidence.decisions import CoordinatorDecisions, DrawnMarker, WrittenPart
from harness.report.evidence.group_offsets import GroupOffsets, LoggedCommit
from harness.report.evidence.replicas import ReplicaEnds, ReplicaMoment
from harness.report.inputs import Inputs
from harness.report.timeline import numbers
from history.run_folder import Run
from history.trace import TracedReplica
from history.verdict import Example
from tests.histories import traced
from tests.histories.report_findings import anomalous

LATER = "x-0 got no marker of its own (the COMMIT of a later transaction"


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


def test_a_planted_bug_is_named_with_what_it_does(lost: Run) -> None:
    read, found = told(lost)
    assert "hw-is-leader-end: the high watermark is the end of the leader's log" in found.cause.named
    assert not found.cause.lacking
    clean = msgspec.structs.replace(read.verdict, config=read.verdict.config | {"simulated": {}})
    without = story.build(dataclasses.replace(read, verdict=clean), numbers.build(read))
    assert without is not None
    assert not without.cause.named
    assert without.cause.facts == found.cause.facts, "what is on record does not depend on the name"


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
        (2.1, 5, True, f"{LATER}, at offset 9, 2.100 s, ends its records)"),
        (9.0, 4, True, f"{LATER}, at offset 9, 9.000 s, ends its records)"),
        (0, 0, None, "x-0 got no marker"),
    ],
)
def test_the_marker_of_each_partition_is_told(
    at: float, epoch: int, commit: bool | None, words: str, tmp_path: Path
) -> None:
    marker = None if commit is None else DrawnMarker(at, 9, commit, 0, epoch)
    part = WrittenPart(begin=1.0, first=7, last=7, producer="7/3", marker=marker)
    decided = CoordinatorDecisions(
        transactional_id="t",
        producers=frozenset({7}),
        states=[(1.0, "Ongoing"), (2.0, "PrepareCommit"), (2.5, "CompleteCommit")],
        partitions={"x-0": [part]},
    )
    state, ended = facts("torn-txn", nothing(tmp_path / "decided", decided=decided))
    assert state == "the coordinator’s log says of t: PrepareCommit at 2.000 s, CompleteCommit at 2.500 s"
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
    monkeypatch.setattr(causes, "_numbered", lambda traces: numbered)
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
        log="__consumer_offsets-4",
        coordinators=[(0.0, 2), (1.5, -1), (2.5, 3)],
        commits=commits,
    )
    shown, moved = facts("eos-loss", nothing(tmp_path, offsets=offsets))
    assert shown.endswith("7 (1.000 s, COMMIT), 9 (2.000 s, ABORT), 12 (3.000 s)")
    assert "__consumer_offsets-4 (coordinator node 2)" in shown
    assert moved == "afterwards the group’s coordinator moved to no node at 1.500 s, to node 3 at 2.500 s"
    one = dataclasses.replace(commits[1], only=(2, 3), end="")
    assert one.words == "7 (1.000 s, in an earlier copy of node 2, 3 alone: the copies of the end lack it)"
    step = Example(sentence="", allowed=False, why="", partition="x-0", offsets=[7, 5])
    told = facts("offset-commit-regression", nothing(tmp_path / "step", offsets=offsets, example=step))
    assert "no commit of 5 is in that log" in told
    assert [offsets.past(some) for some in ([7, 5], [9, 3], [7], [99], [-1, 8])] == [1, 2, 2, 5, 2]


def test_a_record_behind_the_marker_of_its_own_transaction_is_told(tmp_path: Path) -> None:
    for at, late in ((2.1, True), (0.5, False)):
        part = WrittenPart(
            begin=1.0, first=7, last=7, producer="7/3", marker=None, after=DrawnMarker(at, 5, False, 0, 3)
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
        assert "that log has no Ongoing of it" not in told
        other = {"x-0": [dataclasses.replace(part, first=8, last=9)]}
        traces = nothing(tmp_path / f"{at}-other", decided=dataclasses.replace(decided, partitions=other))
        assert not any("before its record" in one for one in facts("aborted-read", traces))
        unlogged = dataclasses.replace(decided, states=decided.states[1:])
        told = facts("aborted-read", nothing(tmp_path / f"{at}-unlogged", decided=unlogged))
        assert "that log has no Ongoing of it" in told


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


@pytest.mark.sampled(4)
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


@pytest.mark.sampled(4)
def test_the_next_command_is_of_the_class(lost: Run, tmp_path: Path) -> None:
    _, found = told(lost)
    _, command = found.first_step
    offset = min(found.example.offsets)
    assert "FROM batches WHERE topic = 'queue' AND partition = 0" in command
    assert f"last >= {max(offset - next_steps.AROUND, 0)}" in command
    assert command.endswith(f"--results {lost.folder}")
    assert 'id="story"' in build(lost).read_text()
    bare = nothing(tmp_path)
    assert next_steps.commands("lost-write", None, bare)[0] == ("Repeat the run", bare.inputs.verdict.repro)
    (_, command), *_ = next_steps.commands("not-recovered", None, bare)
    assert "event = 'roles'" in command


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
    offsets = GroupOffsets(group="g", partition="x-0", log="", coordinators=[], commits=[])
    told = facts("group-skip", dataclasses.replace(bare, inputs=read, example=example, offsets=offsets))
    given = "op 4 (process 2) was given records from offset 7 on"
    assert (given in told) is (phase is Phase.FAULTS)


def test_a_time_without_a_leader_is_told_in_words() -> None:
    told = "to no node at 1.000 s, to node 3 at 1.500 s"
    assert causes._moved([(1.0, "none"), (1.5, "3")]) == told, "as lanes of partitions have it"
    assert causes._moved([(1.0, -1), (1.5, 3)]) == told, "as logs have it"


def test_hostile_names_go_into_no_query(tmp_path: Path, lost: Run) -> None:
    read = inputs.read(lost)
    for partition in ("x'; DROP-0", "$(id)-0", "queue-x"):
        example = Example(sentence="", allowed=False, why="", partition=partition, offsets=[3])
        traces = nothing(tmp_path / partition[:1].strip("$") / "q", inputs=read, example=example)
        assert not any(partition in text for _, text in next_steps.commands("lost-write", None, traces))


def test_classes_are_those_that_there_are() -> None:
    named = causes.OF_REPLICAS | causes.OF_TRANSACTIONS | causes.OF_GROUPS | causes.OF_SEQUENCES
    assert (named | causes.OF_POLLS) <= set(ANOMALIES)
