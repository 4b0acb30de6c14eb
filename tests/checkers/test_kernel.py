"""The kernels as programs: offsets with gaps, caps, crashes, invariance (the rules: test_golden)."""

import pickle
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from checkers.allowed import Ground
from checkers.api import check_history
from checkers.checks import CHECKS
from checkers.checks.compaction import back_again
from checkers.checks.durability import LostWrite
from checkers.checks.fencing import ZombieCommit
from checkers.checks.recovery import ServedTimes
from checkers.engine import pipeline
from checkers.engine.components import by_completion
from checkers.engine.findings import CAP, Acks, Kind, offsets_of, runs
from checkers.engine.kernel_input import RECORDED, kernel_input
from checkers.engine.pipeline import kernels_of, partitions
from checkers.engine.slots import Slots
from checkers.windows import Excuse
from core.op import AssignmentKind, CommitKind, Isolation, Outcome, Phase, value_of
from history.columns import columns
from history.reader import load
from tests.checkers.found import check_tables, findings
from tests.histories.built import Assign, Bound, Built, Commit, Op, Process, Read, Send
from tests.histories.folders import write_run
from tests.histories.planted import random_history
from tests.oracle import anomalies

KERNELS = kernels_of(CHECKS)
Tables = Mapping[str, pa.Table]
OFFSETS = {
    "sends": ("offset", "place", "src_offset"),
    "reads": ("offset",),
    "foreign": ("offset",),
    "commits": ("offset",),
    "bounds": ("start", "end", "read_to"),
}
BY_OFFSET = {
    **dict.fromkeys(("inconsistent-offsets", "offset-reuse", "phantom-read", "corrupt-record"), 2),
    **dict.fromkeys(("misdirected-record",), 2),
    **dict.fromkeys(("eos-loss", "eos-uncommitted", "group-skip"), 3),
    **dict.fromkeys(("eos-duplicate", "nonmonotonic-copy", "offset-commit-regression", "phantom-commit"), 4),
}
"""Class -> where in its key the offset stands."""


def spread(tables: Tables, factor: int) -> dict[str, pa.Table]:
    """The same history in logs with gaps: every offset times a factor (-1 stays)."""
    changed = dict(tables)
    for name, offsets in OFFSETS.items():
        for column in offsets:
            old = changed[name].column(column).to_numpy()
            new = pa.array(np.where(old > 0, old * factor, old), pa.int64())
            at = changed[name].schema.get_field_index(column)
            changed[name] = changed[name].set_column(at, changed[name].schema.field(at), new)
    return changed


def spread_key(key: tuple[str | int, ...], factor: int) -> tuple[str | int, ...]:
    """The key that a finding has in the spread history."""
    at = BY_OFFSET.get(str(key[0]), len(key))
    return tuple(int(part) * factor if n == at else part for n, part in enumerate(key))


@pytest.mark.sampled(10)
@pytest.mark.parametrize("factor", [3, 10**9])
@pytest.mark.parametrize("seed", range(40))
def test_gaps_between_offsets_change_nothing(seed: int, factor: int) -> None:
    built, recorded, _ = random_history(seed)
    tables = built.tables()
    before = {spread_key(key, factor) for key in findings(tables, portable=not recorded)}
    assert findings(spread(tables, factor), portable=not recorded) == before


def test_slots_are_dense_and_in_offset_order_however_sparse_the_offsets_are() -> None:
    for offsets in (np.array([5, 7, 6, 5]), np.array([0, 2**40, 17])):
        slots = Slots(offsets)
        got = slots(offsets)
        assert slots.size == 3
        assert [int(offset) for offset in slots.offsets(got)] == offsets.tolist()
        assert (np.argsort(got, kind="stable") == np.argsort(offsets, kind="stable")).all()


@pytest.mark.parametrize("seed", range(20))
def test_an_unrelated_partition_and_process_change_nothing(seed: int) -> None:
    built, recorded, _ = random_history(seed)
    before = findings(built.tables(), portable=not recorded)
    tp, late = len(built.tps), max(op.complete or op.invoke for op in built.ops) + 10
    built.tps.append("unrelated")
    process = 1 + max([*built.processes, *(op.process for op in built.ops)])
    value = value_of(process, 0)
    # never completed: so the numbers of the ops before do not change
    sent = Op(process=process, f="send", invoke=late, complete=None, outcome=Outcome.INFO)
    sent.mops = [Send(tp=tp, value=value, offset=0, outcome=Outcome.OK)]
    read = Op(process=process + 1, f="final", invoke=late + 2, complete=None)
    read.mops, read.phase = [Read(tp=tp, offset=0, value=value)], Phase.FINAL
    if not recorded:
        read.phase = Phase.FAULTS
    built.ops += [sent, read]
    if recorded:
        built.bounds += [Bound(tp=tp, isolation=i, end=1, read_to=1) for i in Isolation if i >= 0]
    assert findings(built.tables(), portable=not recorded) == before


def lossy(records: int) -> Built:
    """A recorded history of one partition of which every second record is lost."""
    built = Built(tps=["x"])
    send = Op(process=1, f="send", invoke=1, complete=2)
    send.mops = [Send(tp=0, value=value_of(1, n), offset=n) for n in range(records)]
    final = Op(process=2, f="final", invoke=3, complete=4, phase=Phase.FINAL)
    final.mops = [Read(tp=0, offset=n, value=value_of(1, n)) for n in range(0, records, 2)]
    built.ops = [send, final]
    built.bounds = [Bound(tp=0, isolation=Isolation.READ_COMMITTED, end=records, read_to=records)]
    return built


@pytest.mark.sampled(8)
def test_a_variant_does_not_crowd_out_another() -> None:
    """More records than are kept were given up and overtaken, then one that had been acknowledged."""
    last = CAP + 36
    built = Built(tps=["x"])
    built.processes[1] = Process(idempotent=False, in_flight=1)
    final = Op(process=9, f="final", invoke=90_000, complete=90_001, phase=Phase.FINAL)
    for n in range(last + 1):
        outcome = Outcome.OK if n == last else Outcome.INFO
        for half, offset in enumerate((2 * n + 1, 2 * n)):
            op = Op(process=1, f="send", invoke=20 * n + 2 * half, complete=20 * n + 2 * half + 1)
            op.outcome = Outcome.OK if half else outcome
            op.mops = [Send(tp=0, value=2 * n + half)]
            built.ops.append(op)
            final.mops.append(Read(tp=0, offset=offset, value=2 * n + half))
    final.mops.sort(key=lambda mop: mop.offset if isinstance(mop, Read) else -1)
    built.ops.append(final)
    built.bounds = [Bound(tp=0, isolation=Isolation.READ_COMMITTED, end=2 * last + 2, read_to=2 * last + 2)]
    tally = check_tables(built.tables(), portable=False)
    counts = {kind.variant: n for kind, n in tally.counts.items() if kind.name == "nonmonotonic-send"}
    assert counts == {"abandoned": last, "0": 1}
    kept = Counter(f.variant for f in tally.findings if f.name == "nonmonotonic-send")
    assert kept == {"abandoned": CAP, "0": 1}


def test_counts_are_exact_where_findings_are_capped() -> None:
    tally = check_tables(lossy(4 * CAP).tables())
    assert tally.counts[Kind("lost-write", Acks.HOLE)] == 2 * CAP
    assert len([f for f in tally.findings if f.name == "lost-write"]) == CAP


@pytest.mark.parametrize("seed", [n for n in range(60) if n % 3])
def test_without_a_cap_every_count_is_the_number_of_its_findings(seed: int) -> None:
    built, _, _ = random_history(seed)
    tally = check_tables(built.tables(), portable=False, cap=2**31)
    found = Counter(finding.kind for finding in tally.findings)
    assert tally.counts == found


@pytest.mark.parametrize(("acks", "read", "variant"), [(1, False, "1"), (1, True, "read"), (-1, True, "all")])
def test_the_variant_of_a_loss_is_what_its_producer_was_promised(acks: int, read: bool, variant: str) -> None:
    """Record 3 of 0..3 is at the end, so that no hole remains; a consumer had read it, or not."""
    built = lossy(4)
    del built.sends()[1][0].mops[1]
    built.bounds[0].end = built.bounds[0].read_to = 3
    built.processes[1] = Process(acks=acks, idempotent=acks == -1)
    if read:
        poll = Op(
            process=3, f="poll", invoke=2, complete=3, mops=[Read(tp=0, offset=3, value=value_of(1, 3))]
        )
        built.ops.insert(1, poll)
    counts = check_tables(built.tables()).counts
    excuse = Excuse.LEADER if acks == 1 else Excuse.NONE
    assert set(counts) == {Kind("lost-write", Acks(variant), excuse)}


@pytest.mark.parametrize(
    ("acks", "permitted"), [(Acks.ALL, False), (Acks.READ, False), (Acks.LEADER, True), (Acks.NONE, True)]
)
def test_a_key_is_back_where_a_leader_alone_had_its_tombstone_and_was_replaced(
    acks: Acks, permitted: bool
) -> None:
    assert back_again(Ground(excuse=Excuse.LEADER), acks)[0] is permitted
    assert not back_again(Ground(), Acks.LEADER)[0]


@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_an_empty_offset_below_the_end_is_a_hole_unless_markers_may_stand_there(acks: int) -> None:
    built = lossy(4)
    built.processes[1] = Process(acks=acks, idempotent=acks == -1)
    assert {kind.variant for kind in check_tables(built.tables()).counts} == {Acks.HOLE}
    built.processes[7] = Process(txn_id=3)
    assert Acks.HOLE not in {kind.variant for kind in check_tables(built.tables()).counts}


def test_a_record_that_only_uncommitted_readers_get_is_told_of_as_one_that_is_in_the_log() -> None:
    built = lossy(4)
    built.processes[3] = Process(isolation=Isolation.READ_UNCOMMITTED, acks=-2)
    other = Op(process=3, f="final", invoke=5, complete=6, phase=Phase.FINAL)
    other.mops = [Read(tp=0, offset=1, value=value_of(1, 1))]
    built.ops.append(other)
    lost = [one for one in check_tables(built.tables()).findings if one.name == "lost-write"]
    in_log, gone = lost
    assert isinstance(in_log, LostWrite)
    assert isinstance(gone, LostWrite)
    assert (in_log.withheld, in_log.records[0].offset) == (True, 1)
    assert (gone.withheld, gone.records[0].offset) == (False, 3)


@pytest.mark.parametrize("shown", [True, False])
def test_a_record_of_a_transaction_that_only_uncommitted_readers_get_is_in_the_log(shown: bool) -> None:
    """A leader without the marker that the others have (KAFKA-20734)."""
    built = lossy(4)
    for op in built.ops:
        op.txn = op.f == "txn" or op.process == 1
    built.processes[1] = Process(txn_id=1)
    built.processes[3] = Process(isolation=Isolation.READ_UNCOMMITTED, acks=-2)
    other = Op(process=3, f="final", invoke=5, complete=6, phase=Phase.FINAL)
    other.mops = [Read(tp=0, offset=1, value=value_of(1, 1))] if shown else []
    built.ops.append(other)
    found = check_tables(built.tables())
    lost = [one for one in found.findings if isinstance(one, LostWrite) and one.records[0].offset == 1]
    assert [one.withheld for one in lost] == [shown]


@pytest.mark.parametrize(
    ("ends", "read_to", "hole"),
    [((4, 4), (4, 4), False), ((5, 4), (5, 4), True), ((4, 5), (4, 5), True), ((4, 9), (4, 2), False)],
)
def test_a_hole_lies_below_an_end_that_final_reads_reached(
    ends: tuple[int, int], read_to: tuple[int, int], hole: bool
) -> None:
    """Record 4 of 0..4 is lost; ends, read_to: at read_uncommitted and at read_committed."""
    built = lossy(5)
    built.ops = [built.ops[0]]
    built.bounds = []
    for level in (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED):
        built.processes[8 + level] = Process(isolation=level, acks=-2, slot=8 + level)
        op = Op(process=8 + level, f="final", invoke=9, complete=10, phase=Phase.FINAL)
        op.mops = [Read(tp=0, offset=n, value=value_of(1, n)) for n in range(min(4, read_to[level]))]
        built.ops.append(op)
        built.bounds.append(Bound(tp=0, isolation=level, end=ends[level], read_to=read_to[level]))
    (variant,) = (kind.variant for kind in check_tables(built.tables()).counts if kind.name == "lost-write")
    assert (variant is Acks.HOLE) is hole


@pytest.mark.parametrize(("txn_id", "lost"), [(-1, True), (0, False)])
def test_where_one_end_is_not_known_a_transaction_may_hide_what_lies_above_the_other(
    txn_id: int, lost: bool
) -> None:
    """Record 4 was acknowledged; readers at read_committed ended at 4, the others are not on record."""
    built = lossy(5)
    built.ops[1].mops = [Read(tp=0, offset=n, value=value_of(1, n)) for n in range(4)]
    built.bounds[0].end = built.bounds[0].read_to = 4
    built.processes[7] = Process(txn_id=txn_id)
    tally = check_tables(built.tables())
    assert {kind.name for kind in tally.counts} == ({"lost-write"} if lost else set())
    assert ("durability" in {doubt.check for doubt in tally.doubts}) is not lost


@pytest.mark.parametrize(
    ("acked_before", "shown", "fresh", "first"),
    [
        (False, [1, 2], True, True),
        (True, [1, 2], False, True),
        (False, [], True, False),  # nothing of its producer is there
        (False, [0, 1], True, False),  # of the record 2; one before it is there
    ],
)
def test_what_a_loss_says_of_its_partition_and_of_its_producer(
    acked_before: bool, shown: list[int], fresh: bool, first: bool
) -> None:
    """Records 0 to 2 are sent from 5 to 6. acked_before: one of another producer was acknowledged at 4."""
    built = Built(tps=["x"], processes={8: Process(acks=-2, slot=8)})
    own = Op(process=1, f="send", invoke=5, complete=6)
    own.mops = [Send(tp=0, value=value_of(1, n), outcome=Outcome.OK) for n in range(3)]
    final = Op(process=8, f="final", invoke=9, complete=10, phase=Phase.FINAL)
    final.mops = [Read(tp=0, offset=1 + at, value=value_of(1, n)) for at, n in enumerate(shown)]
    built.ops = [own, final]
    if acked_before:
        other = Op(process=2, f="send", invoke=3, complete=4)
        other.mops = [Send(tp=0, value=value_of(2, 0), offset=0)]
        built.ops.insert(0, other)
        final.mops.insert(0, Read(tp=0, offset=0, value=value_of(2, 0)))
    built.bounds = [Bound(tp=0, isolation=Isolation.READ_COMMITTED, end=9, read_to=9)]
    lost = [one for one in check_tables(built.tables()).findings if isinstance(one, LostWrite)]
    assert {one.fresh for one in lost} == {fresh}
    assert [one.first for one in lost] == [first] * len(lost)


@pytest.mark.parametrize(
    ("invoked", "completed", "in_order"),
    [
        ([0, 1, 2], [3, 4, 5], True),
        ([0, 3, 5], [3, 4, 5], True),
        ([0, 1, 2], [4, 3, 5], False),
        ([0, 1, 6], [3, 4, 5], False),
        ([0, 5, 2], [4, 3, 5], False),
        ([], [], True),
    ],
)
def test_ops_in_the_order_of_their_completion(
    invoked: list[int], completed: list[int], in_order: bool
) -> None:
    clock = {"invoke_ns": np.array(invoked, np.int64), "complete_ns": np.array(completed, np.int64)}
    assert by_completion(clock) is in_order


@pytest.mark.parametrize("invoke", [3, 30])
def test_a_circle_is_found_whole_where_ops_are_not_known_to_be_in_order(invoke: int) -> None:
    """The later of its two transactions ends at 20; where it begins after that, a clock went back."""
    built = Built(tps=["x", "y"])
    for process, (begin, end) in enumerate([(1, 10), (invoke, 20)]):
        op = Op(process=process, f="txn", invoke=begin, complete=end, txn=True)
        op.mops = [Send(tp=tp, value=value_of(process, tp), offset=(process + tp) % 2) for tp in (0, 1)]
        built.ops.append(op)
    assert ("G0", -1, 0, 2) in findings(built.tables(), portable=True)


def test_a_kernel_that_crashes_is_named_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setitem(CHECKS, "uniqueness", replace(CHECKS["uniqueness"], kernel=broken))
    tally = check_tables(lossy(4).tables())
    assert list(tally.crashed) == ["uniqueness"]
    assert "planted" in tally.crashed["uniqueness"]
    assert tally.counts[Kind("lost-write", Acks.HOLE)] == 2
    with pytest.raises(AssertionError, match="planted"):
        findings(lossy(4).tables())


def test_rows_that_cannot_be_joined_crash_all_checks_of_the_partition() -> None:
    tables = lossy(4).tables()
    known = kernel_input(tables, record=RECORDED)
    ((tp, sends, reads),) = partitions(columns(tables["sends"]), columns(tables["reads"]))
    result = pipeline.check_partition(tp, {**sends, "value": sends["value"][:1]}, reads, known, KERNELS)
    assert set(result.crashed) == set(KERNELS)


def test_a_result_survives_pickling() -> None:
    tables = random_history(2)[0].tables()
    known = kernel_input(tables, record=RECORDED)
    for tp, sends, reads in partitions(columns(tables["sends"]), columns(tables["reads"])):
        result = pipeline.check_partition(tp, sends, reads, known, KERNELS)
        again = pickle.loads(pickle.dumps(result))
        assert again.findings == result.findings
        assert again.counts == result.counts
        assert again.parts.keys() == result.parts.keys()
        served, same = result.parts["recovery"], again.parts["recovery"]
        assert isinstance(served, ServedTimes)
        assert isinstance(same, ServedTimes)
        assert (same.acked == served.acked).all()


def test_a_partition_without_rows_in_one_table_is_checked() -> None:
    built = Built(tps=["x", "y"])
    send = Op(process=1, f="send", invoke=1, complete=2, mops=[Send(tp=0, value=1, offset=0)])
    read = Op(process=2, f="poll", invoke=3, complete=4, mops=[Read(tp=1, offset=0, value=2)])
    built.ops = [send, read]
    assert findings(built.tables(), portable=True) == {("unseen", 0, 1), ("phantom-read", 1, 0, 2)}


def test_a_transaction_proven_elsewhere_is_committed_here() -> None:
    """Its record in the other partition is only known to be committed in a second pass."""
    built = Built(tps=["x", "y"])
    txn = Op(process=1, f="txn", invoke=1, complete=2, outcome=Outcome.INFO, txn=True)
    txn.mops = [Send(tp=0, value=1, offset=0), Send(tp=1, value=1)]
    other = Op(process=2, f="send", invoke=3, complete=4, mops=[Send(tp=0, value=2, offset=0)])
    read = Op(process=3, f="poll", invoke=5, complete=6, mops=[Read(tp=1, offset=5, value=1)])
    built.ops = [txn, other, read]
    found = findings(built.tables(), portable=True)
    assert ("inconsistent-offsets", 0, 0) in found
    assert ("torn-txn", -1, 0) in found
    txn.mops = txn.mops[:1]
    read.mops = []
    assert ("inconsistent-offsets", 0, 0) not in findings(built.tables(), portable=True)


@pytest.mark.parametrize("offsets", [[], [7], [0, 1, 2], [3, 5, 6, 9], [2**40, 2**40 + 1]])
def test_runs_stand_for_their_offsets(offsets: list[int]) -> None:
    found = runs(np.array(offsets, np.int64))
    assert offsets_of(found).tolist() == offsets
    assert (np.diff(found.T.ravel()) > 0).all()


@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", [n for n in range(30) if n % 3])
def test_a_sealed_history_is_checked_like_one_in_memory(tmp_path: Path, seed: int) -> None:
    """Files are read with the columns that kernels need: those of copies only where there may be some."""
    tables = random_history(seed)[0].tables()
    here = check_tables(tables, portable=False)
    there = check_history(load(write_run(tmp_path / "run", tables)))
    assert there.counts == here.counts
    lasting = [doubt for doubt in there.doubts if doubt.check != "recovery"]
    assert lasting == [doubt for doubt in here.doubts if doubt.check != "recovery"]
    assert {f.canonical for f in there.findings} >= {f.canonical for f in here.findings}


def copier(*, outcome: Outcome, shown: bool) -> Built:
    """A copier of group 0 copies offset 0 of x to y and commits offset 1 of x, in one transaction."""
    built = Built(tps=["x", "y"])
    sent = Op(process=1, f="send", invoke=1, complete=2, mops=[Send(tp=0, value=1, offset=0)])
    copy = Op(process=2, f="txn", invoke=3, complete=4, txn=True, outcome=outcome)
    built.processes[2] = Process(group=0, txn_id=0)
    copy.mops = [Read(tp=0, offset=0, value=1), Send(tp=1, value=2, source=(0, 0))]
    copy.mops.append(Commit(tp=0, offset=1, kind=CommitKind.TXN))
    final = Op(process=9, f="final", invoke=5, complete=6, phase=Phase.FINAL)
    final.mops = [Read(tp=0, offset=0, value=1)]
    final.mops += [Read(tp=1, offset=0, value=2)] if shown else []
    built.ops = [sent, copy, final]
    for tp in (0, 1):
        built.bounds.append(Bound(tp=tp, isolation=Isolation.READ_COMMITTED, end=2, read_to=2))
        built.bounds.append(Bound(tp=tp, isolation=Isolation.READ_UNCOMMITTED, end=2, read_to=0))
    return built


def test_an_offset_committed_by_a_transaction_that_is_proven_elsewhere_counts() -> None:
    """That it committed shows in y only; what it committed is an offset of x, which another member of the
    group is never given: x has to be checked again."""
    proven = copier(outcome=Outcome.INFO, shown=True)
    assert findings(proven.tables()) == set()
    proven.ops[1].mops = [*proven.ops[1].mops[1:2], Commit(tp=0, offset=1, kind=CommitKind.TXN)]
    assert findings(proven.tables()) == {("group-skip", 0, 0, 0)}
    unproven = copier(outcome=Outcome.INFO, shown=False)
    unproven.ops[1].mops = [*unproven.ops[1].mops[1:2], Commit(tp=0, offset=1, kind=CommitKind.TXN)]
    assert findings(unproven.tables()) == set()


def test_a_copy_that_is_not_there_is_a_loss_only_where_its_partition_was_read_to_the_end() -> None:
    lost = copier(outcome=Outcome.OK, shown=False)
    assert ("eos-loss", 0, 0, 0) not in findings(lost.tables())  # a lost write: the copy is committed
    lost.ops[1].mops = [lost.ops[1].mops[0], Commit(tp=0, offset=1, kind=CommitKind.TXN)]
    assert findings(lost.tables()) == {("eos-loss", 0, 0, 0)}
    doubt = Op(process=2, f="txn", invoke=7, complete=8, txn=True, outcome=Outcome.INFO)
    doubt.mops = [Send(tp=1, value=3, source=(0, 0))]
    lost.ops.append(doubt)
    assert findings(lost.tables()) == {("eos-loss", 0, 0, 0)}
    lost.bounds[2].read_to = 1
    tally = check_tables(lost.tables())
    assert not tally.counts
    assert [doubt.number for doubt in tally.doubts if doubt.check == "exactly-once"] == [1]


@pytest.mark.parametrize("excused", [0, 255, 256, 700])
def test_a_record_given_again_is_found_however_many_before_it_are_excused(excused: int) -> None:
    """Process 2 is assigned x after offset 1000 was committed. A commit of offset 3 at the same time
    explains that it is given records from there on, but not the record at offset 0."""
    built = Built(tps=["x"], processes={1: Process(group=0), 2: Process(group=0)})
    commits = Op(process=1, f="send", invoke=1, complete=40)
    commits.mops = [Commit(tp=0, offset=3, ns=(1, 15)), Commit(tp=0, offset=1000, ns=(10, 20))]
    first = Op(process=2, f="poll", invoke=50, complete=60)
    first.mops = [Assign(tp=0, kind=AssignmentKind.ASSIGNED)]
    first.mops += [Read(tp=0, offset=3 + n, value=value_of(9, n)) for n in range(excused)]
    second = Op(process=2, f="poll", invoke=70, complete=80)
    second.mops = [Read(tp=0, offset=0, value=value_of(8, 0))]
    built.ops = [commits, first, second]

    def given_again() -> set[tuple[str | int, ...]]:
        found = findings(built.tables(), portable=False)
        return {key for key in found if key[0] == "group-duplicate"}

    assert given_again() == {("group-duplicate", 0, 0, 2)}
    commits.mops[0] = Commit(tp=0, offset=3, ns=(1, 5))  # over before the other one began
    assert given_again() == {("group-duplicate", 0, 0, 1 if excused else 2)}
    commits.mops[1] = Commit(tp=0, offset=1000, ns=(10, 50))  # not over when it was assigned
    assert given_again() == {("group-duplicate", 0, 0, 2)}  # the other one was
    commits.mops[0] = Commit(tp=0, offset=3, ns=(10, 50))
    assert given_again() == set()


@pytest.mark.parametrize(
    ("txn", "complete", "unread"),
    [
        (False, {Isolation.READ_COMMITTED}, False),
        (False, {Isolation.READ_UNCOMMITTED}, False),  # without transactions both levels show the same
        (True, {Isolation.READ_COMMITTED}, False),
        (True, {Isolation.READ_UNCOMMITTED}, True),
        (False, set(), True),
        (True, set(), True),
    ],
)
def test_a_partition_is_unread_unless_a_level_that_its_sends_need_was_read_to_the_end(
    txn: bool, complete: set[Isolation], unread: bool
) -> None:
    sent = Op(process=1, f="txn" if txn else "send", invoke=1, complete=2, txn=txn)
    sent.mops = [Send(tp=0, value=value_of(1, 0), offset=0)]
    built = Built(tps=["x"], processes={1: Process(txn_id=0 if txn else -1)}, ops=[sent])
    for level in (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED):
        read_to = 1 if level in complete else 0
        built.bounds.append(Bound(tp=0, isolation=level, end=1, read_to=read_to))
    assert check_tables(built.tables(), portable=False).unread == ([0] if unread else [])
    built.ops[:] = [Op(process=2, f="poll", invoke=3, complete=4, mops=[Read(tp=0, offset=0, value=7)])]
    assert check_tables(built.tables(), portable=False).unread == []  # nobody sent anything


@pytest.mark.parametrize(
    ("acked", "again", "found"),
    [
        (4, 15, {("zombie-write", 0, 3), ("zombie-write", -1, 1)}),
        (6, 15, set()),  # the other one may have begun before
        (4, 8, {("zombie-write", 0, 3)}),  # it may have been sent before the other one had begun
    ],
)
def test_a_producer_in_its_first_transaction_is_fenced_as_any_other(
    acked: int, again: int, found: set[tuple[str | int, ...]], tmp_path: Path
) -> None:
    """Process 1 writes at 2, and `again` behind a record of process 2, which took the id over at 5."""
    first = Op(process=1, f="txn", invoke=1, complete=20, txn=True)
    first.mops = [Send(tp=0, value=1, offset=0, ns=(2, acked)), Send(tp=0, value=3, offset=4, ns=(again, 17))]
    heir = Op(process=2, f="txn", invoke=5, complete=10, txn=True)
    heir.mops = [Send(tp=0, value=2, offset=2, ns=(6, 9))]
    final = Op(process=9, f="final", invoke=21, complete=22, phase=Phase.FINAL)
    final.mops = [Read(tp=0, offset=2 * n, value=value) for n, value in enumerate((1, 2, 3))]
    built = Built(tps=["x"], ops=[first, heir, final])
    built.processes = {process: Process(txn_id=0) for process in (1, 2)}
    built.bounds = [Bound(tp=0, isolation=Isolation.READ_COMMITTED, end=6, read_to=6)]
    assert {key for key in findings(built.tables()) if key[0] == "zombie-write"} == found
    sealed = check_history(load(write_run(tmp_path / "run", built.tables())))
    assert {one.canonical for one in sealed.findings if one.name == "zombie-write"} == found


@pytest.mark.parametrize(
    ("invoked", "heir"),
    [
        ((10, 20), 2),
        ((20, 10), 3),
        ((10, 12), 3),  # the later one to begin its first transaction had the id first
    ],
)
def test_a_fenced_commit_names_the_first_that_had_the_id_after_it(
    invoked: tuple[int, int], heir: int
) -> None:
    """Processes 2 and 3 take the id of process 1 over; the transaction of process 2 lasts up to 5, that of
    3 for 1; then process 1 commits one more."""
    spans = {1: (1, 2), 2: (invoked[0], invoked[0] + 5), 3: (invoked[1], invoked[1] + 1)}
    built = Built(tps=["x", "y"], processes={process: Process(txn_id=0) for process in spans})
    for process, span in [*spans.items(), (1, (40, 41))]:
        last = span[0] == 40
        op = Op(process=process, f="txn", invoke=span[0], complete=span[1], txn=True)
        op.mops = [Send(tp=int(last), value=10 * process + last, offset=0 if last else 2 * process)]
        built.ops.append(op)
    tally = check_tables(built.tables(), portable=False)
    (found,) = (one for one in tally.findings if isinstance(one, ZombieCommit))
    assert (found.process, found.heir, found.fenced_ns) == (1, heir, spans[heir][1])


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({}, {("poll-skip", 0, 2)}),
        ({"auto.offset.reset": "smallest"}, {("poll-skip", 0, 2)}),
        ({"consumer.auto.offset.reset": "latest"}, set()),
    ],
)
def test_where_a_reset_leads_is_a_setting_of_the_clients(
    settings: dict[str, str], found: set[tuple[str | int, ...]], tmp_path: Path
) -> None:
    sent = Op(process=1, f="send", invoke=1, complete=2)
    sent.mops = [Send(tp=0, value=value_of(1, n), offset=n) for n in range(3)]
    first = Op(process=2, f="poll", invoke=3, complete=4, mops=[Read(tp=0, offset=0, value=value_of(1, 0))])
    second = Op(process=2, f="poll", invoke=5, complete=6)
    second.mops = [Assign(tp=0, kind=AssignmentKind.RESET), Read(tp=0, offset=2, value=value_of(1, 2))]
    final = Op(process=9, f="final", invoke=7, complete=8, phase=Phase.FINAL)
    final.mops = [Read(tp=0, offset=n, value=value_of(1, n)) for n in range(3)]
    built = Built(tps=["x"], ops=[sent, first, second, final])
    built.bounds = [Bound(tp=0, isolation=Isolation.READ_COMMITTED, end=3, read_to=3)]
    run = write_run(tmp_path / "run", built.tables(), settings={"client_settings": settings})
    assert {one.canonical for one in check_history(load(run)).findings} == found


@pytest.mark.parametrize(
    ("again", "variant"),
    [
        (False, "late"),  # the group's first member began behind the record
        (True, ""),  # the second one, although the group had committed an offset before it
    ],
)
def test_a_group_may_begin_late_only_where_it_has_committed_nothing(
    again: bool, variant: str, tmp_path: Path
) -> None:
    sent = Op(process=1, f="send", invoke=1, complete=2)
    sent.mops = [Send(tp=0, value=value_of(1, n), offset=n) for n in range(3)]
    skipped = 1 if again else 0
    first = Op(process=2, f="poll", invoke=3, complete=4)
    first.mops = [Assign(tp=0), Read(tp=0, offset=0, value=value_of(1, 0)), Commit(tp=0, offset=1)]
    second = Op(process=3, f="poll", invoke=5, complete=6)
    second.mops = [Assign(tp=0)]
    second.mops += [Read(tp=0, offset=n, value=value_of(1, n)) for n in range(skipped + 1, 3)]
    second.mops.append(Commit(tp=0, offset=3))
    final = Op(process=9, f="final", invoke=7, complete=8, phase=Phase.FINAL)
    final.mops = [Read(tp=0, offset=n, value=value_of(1, n)) for n in range(3)]
    members = {process: Process(group=0) for process in (2, 3)}
    built = Built(tps=["x"], ops=[sent, *([first] if again else []), second, final], processes=members)
    for level in (Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED):
        built.bounds.append(Bound(tp=0, isolation=level, end=3, read_to=3))
    found = check_history(load(write_run(tmp_path / "run", built.tables())))
    wanted = {("group-skip", 0, 0, skipped)}
    assert {one.canonical for one in found.findings if one.name == "group-skip"} == wanted
    assert {kind.variant for kind in found.counts if kind.name == "group-skip"} == {variant}


@pytest.mark.parametrize(("place", "lost"), [(0, True), (1, False)])
def test_without_retention_a_later_start_of_the_log_withholds_no_record(place: int, lost: bool) -> None:
    """Only read_uncommitted shows it; read_committed read up to offset 1, of a log that began there."""
    value = value_of(1, 0)
    sent = Op(process=1, f="send", invoke=1, complete=2, mops=[Send(tp=0, value=value, outcome=Outcome.OK)])
    final = Op(process=9, f="final", invoke=7, complete=8, phase=Phase.FINAL)
    final.mops = [Read(tp=0, offset=place, value=value)]
    built = Built(tps=["x"], ops=[sent, final])
    built.processes[9] = Process(isolation=Isolation.READ_UNCOMMITTED, acks=-2)
    built.bounds = [Bound(tp=0, isolation=Isolation.READ_COMMITTED, start=1, end=1, read_to=1)]
    tables = built.tables()
    wanted = {("lost-write", 0, value)} if lost else set()
    assert findings(tables, portable=False) == anomalies.findings(tables, portable=False) == wanted


def test_a_record_that_its_client_never_handed_over_shows_that_its_transaction_continued() -> None:
    """It is the only one in its partition; the record in the other one was read before it was tried."""
    first, second = value_of(1, 0), value_of(1, 1)
    txn = Op(process=1, f="txn", invoke=1, complete=40, txn=True)
    txn.mops = [
        Send(tp=0, value=first, offset=0, ns=(2, 3)),
        Send(tp=1, value=second, outcome=Outcome.FAIL, ns=(20, 21)),
    ]
    read = Op(process=2, f="poll", invoke=5, complete=10, mops=[Read(tp=0, offset=0, value=first)])
    tables = Built(tps=["x", "y"], ops=[txn, read]).tables()
    found = findings(tables, portable=False)
    assert found == anomalies.findings(tables, portable=False) == {("precommitted-read", 0, first, 0)}


@pytest.mark.parametrize(("sends", "ops"), [(False, 3), (True, 5)])
def test_a_transaction_that_only_reads_adds_nobody_to_a_circle_of_real_time(sends: bool, ops: int) -> None:
    """A transaction reads what was sent after another reader had its own record. In between a record was sent
    and read, by a transaction that sends one itself, or does not."""
    built = Built(tps=["x", "y", "z"])
    values = iter(range(9))

    def did(process: int, begin: int, end: int, *mops: Send | Read, txn: bool = False) -> None:
        op = Op(process=process, f="txn", invoke=begin, complete=end, txn=txn, mops=[*mops])
        built.ops.append(op)

    def send(process: int, tp: int) -> Send:
        return Send(tp=tp, value=value_of(process, next(values)), offset=process)

    own, late, between = send(1, 0), send(3, 1), send(4, 2)
    read = [Read(tp=one.tp, offset=one.offset, value=one.value) for one in (own, late, between)]
    did(1, 1, 100, own, read[1], txn=True)
    did(2, 5, 10, read[0])
    did(4, 20, 25, between)
    did(5, 30, 35, read[2], *([send(5, 2)] if sends else []), txn=True)
    did(3, 90, 95, late)
    tables = built.tables()
    (circle,) = (key for key in findings(tables, portable=False) if key[0] == "G1c-realtime")
    assert circle == ("G1c-realtime", -1, 0, ops)
    assert circle in anomalies.findings(tables, portable=False)


def test_a_finding_shows_some_of_many_records() -> None:
    """Six values were read at one offset, and one of them at six offsets."""
    built = Built(tps=["x"])
    for n in range(6):
        sent = Op(process=1, f="send", invoke=n, complete=n + 1, mops=[Send(tp=0, value=value_of(1, n))])
        read = Op(process=2, f="poll", invoke=10 + n, complete=20 + n)
        read.mops = [Read(tp=0, offset=0, value=value_of(1, n))]
        built.ops += [sent, read]
    copy = [Read(tp=0, offset=offset, value=value_of(1, 0)) for offset in range(1, 6)]
    built.ops.append(Op(process=2, f="poll", invoke=30, complete=31, mops=list(copy)))
    found = {each.name: each.records for each in check_tables(built.tables()).findings}
    assert [shown.value for shown in found["inconsistent-offsets"]] == [value_of(1, n) for n in range(4)]
    assert [shown.offset for shown in found["duplicate"]] == [-1, 0, 1, 2, 3]
