"""Findings that are final early: whatever follows, the whole history has them, and forbids them, too."""

from collections import Counter
from copy import copy
from pathlib import Path
from random import Random

import msgspec
import pyarrow as pa
import pytest

from checkers.api import check_tables
from checkers.catalogue import allowed
from checkers.checks.consistency import INCONSISTENT
from checkers.checks.exactly_once import TWICE
from checkers.checks.fencing import ZOMBIE
from checkers.checks.integrity import PHANTOM
from checkers.checks.isolation import ABORTED
from checkers.checks.poll_order import BACK
from checkers.checks.real_time import INVERSION
from checkers.checks.uniqueness import DUPLICATE
from checkers.early import EARLY, Identity, early_findings, identity
from checkers.engine.findings import Kind
from core.client_settings import SessionSpec
from core.config import RunConfig
from core.op import Isolation, Outcome, Phase, TopicPartition
from core.op import Poll as PollMop
from core.op import Send as SendMop
from harness.explore.profile import hunting
from harness.modelled.virtual.run import simulate
from history import jsonl
from history.events import Recorder
from history.journal import Invoked, JournalHeader, Line, OpCompleted, Polled, SendResults
from history.prefix import cut, so_far, tables_of
from history.reader import History, Names
from history.run_folder import FORMAT, Run
from tests.histories.built import Built, Commit, Op, Read, Send
from tests.histories.folders import NAMES, STARTED
from tests.histories.planted import random_history
from tests.histories.stored import pins

CONFIG = RunConfig(seed=0)
SEEDS = 45
"""Of random histories; a wrong rule shows within a few dozen."""
TP = TopicPartition("t", 0)
MUTANTS = ("aborted-not-filtered", "repeats-not-recognised")
"""Planted bugs with early findings."""


def history_of(tables: dict[str, pa.Table], names: dict[str, list[str]] = NAMES, remade: int = 0) -> History:
    meta = Names(format=FORMAT, run="test", start_ns=0, start_wall="", units=[], **names)
    return History(run=Run(Path("test")), names=meta, tables=tables, remade=remade)


def prefix(built: Built, ns: int) -> Built:
    """What was on record at this time."""
    shown = copy(built)
    shown.bounds, shown.ops = [], []
    for op in built.ops:
        if op.invoke <= ns:
            now = copy(op)
            if op.complete is None or op.complete > ns:
                now.complete, now.outcome = None, Outcome.INFO
                now.mops = [mop for mop in op.mops if not isinstance(mop, Read | Commit)]
            shown.ops.append(now)
    return shown


def whole(
    tables: dict[str, pa.Table], names: dict[str, list[str]] = NAMES, remade: int = 0
) -> dict[Identity, Kind]:
    """Identity -> kind of the final findings of the classes in question."""
    history = history_of(tables, names, remade)
    found = check_tables(tables, recorded=True, cap=10**6).findings
    return {
        identity(one, history): one.kind
        for one in found
        if one.name in EARLY and (one.tp >= 0 or one.name == "zombie-write")
    }


def assert_final(early: History, last: dict[Identity, Kind]) -> Counter[str]:
    """How many findings of each class the prefix has; each is one of the whole history, and as forbidden."""
    found = early_findings(early, CONFIG, power=False)
    for one in found:
        assert one.identity in last
        if not one.allowed:
            assert not allowed(CONFIG, last[one.identity])[0]
    return Counter(str(one.identity[0]) for one in found)


@pytest.mark.sampled(8)
def test_findings_of_every_prefix_are_findings_of_the_whole() -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        built, recorded, _ = random_history(seed)
        if not recorded:
            continue
        last = whole(built.tables())
        times = sorted(op.complete for op in built.ops if op.complete is not None)
        for ns in (*Random(seed).sample(times, min(3, len(times))), times[-1]):
            seen += assert_final(history_of(prefix(built, ns).tables()), last)
    assert {DUPLICATE, ABORTED, INCONSISTENT, INVERSION, BACK, TWICE, ZOMBIE} <= set(seen)


@pytest.mark.sampled(11)
@pytest.mark.parametrize("name", MUTANTS)
def test_journals_that_end_at_different_times_are_a_prefix_too(name: str) -> None:
    """A planted bug is found before the end of the run, and nothing else ever is."""
    config = hunting(name, pins()[name].first)
    run = simulate(config, invariants=False)
    last = whole(*tables_of(run.journals))
    ends = sorted(line.ns for _, lines in run.journals for line in lines)
    rng, seen = Random(name), Counter[str]()
    for _ in range(6):
        ns = rng.choice(ends)
        journals = []
        for journal, lines in run.journals:
            count = sum(line.ns <= ns for line in lines)
            journals.append((journal, cut(lines[: count + rng.randint(0, 20)], count)))
        seen += assert_final(history_of(*tables_of(journals)), last)
    assert seen


def classes(*ops: Op) -> list[str]:
    early = early_findings(history_of(Built(tps=["t"], ops=list(ops)).tables()), CONFIG, power=False)
    return sorted({str(one.identity[0]) for one in early})


def sent(
    value: int, offset: int, begin: int, *, process: int = 1, txn: bool = False, done: bool = True
) -> Op:
    outcome = Outcome.OK if done else Outcome.INFO
    record = Send(tp=0, value=1 << 32 | value, offset=offset, outcome=Outcome.OK)
    return Op(
        process=1,
        f="send",
        invoke=begin,
        complete=begin + 2 if done else None,
        outcome=outcome,
        txn=txn,
        mops=[record],
    )


def got(offset: int, value: int, begin: int) -> Op:
    record = Read(tp=0, offset=offset, value=1 << 32 | value)
    return Op(process=2, f="poll", invoke=begin, complete=begin + 2, mops=[record])


def test_an_offset_with_two_values_is_final_once_both_ops_have_completed() -> None:
    assert classes(sent(0, 7, 0), got(7, 0, 5), sent(1, 7, 10)) == [INCONSISTENT]
    assert classes(sent(0, 7, 0), got(7, 0, 5), sent(1, 7, 10, txn=True, done=False)) == []


def test_a_record_that_may_still_be_sent_is_no_phantom_yet() -> None:
    assert classes(sent(1, 0, 0), got(5, 9, 5)) == []
    assert classes(sent(1, 0, 0), got(5, 9, 5), sent(12, 9, 10)) == [PHANTOM]


def test_records_out_of_order_wait_for_one_between_them() -> None:
    """It may turn up anywhere; then other neighbours are out of order."""
    between = sent(1, -1, 5)
    between.outcome = Outcome.INFO
    between.mops = [Send(tp=0, value=1 << 32 | 1, outcome=Outcome.INFO)]
    assert "nonmonotonic-send" in classes(sent(0, 9, 0), sent(2, 3, 10))
    assert "nonmonotonic-send" not in classes(sent(0, 9, 0), between, sent(2, 3, 10))


def doubled(process: int, remade: int, ns: int) -> list[Line]:
    """The journal of a reader that got a record of `t-0` twice."""
    spec = SessionSpec(slot=process, process=process, acks=-1, isolation=Isolation.READ_COMMITTED)
    header = JournalHeader(FORMAT, "test", process, process, ns, spec, remade=remade or msgspec.UNSET)
    return [
        header,
        Invoked(1, ns + 1, Phase.FAULTS, "poll", False, False, (SendMop(TP, 5), SendMop(TP, 6), PollMop())),
        SendResults(1, 0, ns + 1, ns + 2, [(0, 0, ns + 2, ""), (1, 1, ns + 2, "")]),
        Polled(1, 2, ns + 2, 1, [("t", 0, [0, 1, 2], [5, 6, 5], [0, 0, 0])]),
        OpCompleted(1, ns + 9, Outcome.OK),
    ]


@pytest.mark.parametrize("made", [(0, 1, 2), (0, 2, 3), (1, 4, 6)])
def test_a_finding_keeps_its_identity_when_its_topic_is_deleted_and_that_of_the_next_topic_has_another(
    made: tuple[int, ...],
) -> None:
    """made: how often topics had been deleted before each finding. Of topics in between, nothing is on
    record."""
    journals = [(f"{n}.jsonl", doubled(n, n, 100 * n)) for n in made]
    found = [{one for one in whole(*tables_of(journals[: n + 1])) if one[0] == DUPLICATE} for n in range(3)]
    assert found[0] < found[1] < found[2]
    assert [len(some) for some in found] == [1, 2, 3]


@pytest.mark.sampled(5)
def test_a_recording_is_read_while_it_grows(tmp_path: Path) -> None:
    """Of what is appended after the sizes were noted, only what was sent counts."""
    run = Run(tmp_path)
    run.journal.mkdir()
    made = simulate(hunting(MUTANTS[1], pins()[MUTANTS[1]].first), invariants=False)
    recorder = Recorder(run.events)
    recorder.write(STARTED)
    for name, lines in made.journals:
        half = jsonl.encode(lines[: len(lines) // 2])
        (run.journal / f"{name}.jsonl").write_bytes(half + b'{"event":"invo')  # a line under way
    recorder.close()
    early = so_far(run)
    halves = [line for _, lines in made.journals for line in lines[: len(lines) // 2]]
    assert early.tables["ops"].num_rows == sum(isinstance(line, Invoked) for line in halves)
    assert_final(early, whole(*tables_of(made.journals)))
