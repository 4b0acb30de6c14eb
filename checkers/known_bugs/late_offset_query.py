"""librdkafka asks again where a partition begins, and goes there, though it was assigned again since."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from checkers.checks.exactly_once import TWICE, CopiedTwice
from checkers.checks.group_offsets import REGRESSION, Regression
from checkers.checks.poll_order import BACK, BACK_INSIDE, WentBack
from checkers.engine.evidence import Wanted
from checkers.engine.findings import Finding, What
from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.labelled_run import LabelledRun
from checkers.known_bugs.transaction_fates import Suspicion
from core.op import AssignmentKind
from history.columns import columns
from history.reader import ReadRow

TIMER_NS: Final = 500_000_000
"""After an outdated answer librdkafka asks again this much later (rd_kafka_toppar_handle_Offset)."""
ANSWERS_NS: Final = 10_000_000_000
"""How long the outdated answer and the second one may take together."""
STEPS: Final = (AssignmentKind.ASSIGNED, AssignmentKind.REVOKED, AssignmentKind.LOST)
"""What a step of a rebalance does with a partition."""
LIBRDKAFKA: Final = ("", "librdkafka")
OTHER_CLIENTS: Final = ("simulated", "imported")
"""Systems whose usual client is another one, or is not on record."""


class ThrownBack(NamedTuple):
    """Who may have gone back, in which partition, and by when."""

    process: int
    tp: int
    until_ns: int


def _reader(finding: Finding) -> ThrownBack:
    if isinstance(finding, WentBack):
        return ThrownBack(finding.process, finding.tp, finding.records[-1].done_ns)
    tp = finding.key[2] if isinstance(finding, CopiedTwice) else finding.tp
    return ThrownBack(finding.process, tp, finding.at_ns)


def _assigned(run: LabelledRun, reader: ThrownBack) -> list[tuple[int, bool]]:
    """When the reader assigned the partition, by hand, before it went back; and whether it asked for the
    beginning."""
    rows = columns(run.history.tables["assignments"], ("process", "tp", "kind", "ns"))
    mine = (rows["process"] == reader.process) & (rows["tp"] == reader.tp)
    found: dict[int, bool] = {}
    for kind, ns in zip(rows["kind"][mine].tolist(), rows["ns"][mine].tolist(), strict=True):
        if kind not in (AssignmentKind.MANUAL, AssignmentKind.BEGINNING):
            return []
        found[ns] = found.get(ns, False) or kind == AssignmentKind.BEGINNING
    return sorted((ns, begins) for ns, begins in found.items() if ns <= reader.until_ns)


def _rebalanced(run: LabelledRun, reader: ThrownBack) -> tuple[int, list[int]]:
    """When a group that had committed nothing of the partition gave it to the reader: librdkafka asks for the
    beginning then; and when other partitions came or went since, for which it pauses this one. (-1, []) where
    it is not so."""
    rows = columns(run.history.tables["assignments"], ("process", "tp", "kind", "ns"))
    mine = (rows["process"] == reader.process) & (rows["ns"] <= reader.until_ns)
    here = mine & (rows["tp"] == reader.tp)
    given = sorted(zip(rows["ns"][here].tolist(), rows["kind"][here].tolist(), strict=True))
    if not given or given[-1][1] != AssignmentKind.ASSIGNED:
        return -1, []
    since_ns = given[-1][0]
    commits = columns(run.history.tables["commits"], ("group", "tp", "invoke_ns"))
    of_group = commits["group"] == run.history.processes[reader.process].group
    if bool((of_group & (commits["tp"] == reader.tp) & (commits["invoke_ns"] <= since_ns)).any()):
        return -1, []
    others = mine & (rows["tp"] != reader.tp) & (rows["ns"] > since_ns) & np.isin(rows["kind"], STEPS)
    return since_ns, sorted({*rows["ns"][others].tolist()})


def _outdated(run: LabelledRun, reader: ThrownBack) -> list[tuple[int, int]]:
    """When the reader asked for the beginning, and when something made the answer outdated."""
    by_hand = pairwise(_assigned(run, reader))
    since_ns, others = _rebalanced(run, reader)
    return [(first, again) for (first, begins), (again, _) in by_hand if begins] + [
        (since_ns, again) for again in others
    ]


def _wanted(run: LabelledRun, finding: Finding) -> Wanted | None:
    config = run.history.config
    known = config.get("clients", "") in LIBRDKAFKA and config.get("sut") not in OTHER_CLIENTS
    known = known and not _left_to_others(run, finding)
    return Wanted() if known and _outdated(run, _reader(finding)) else None


def _left_to_others(run: LabelledRun, finding: Finding) -> bool:
    """What no step back of a client explains: a row that a database has twice, which has to refuse the second
    one, or an offset that nothing had committed, which a coordinator answered."""
    if isinstance(finding, CopiedTwice):
        return run.history.config.get("workload") == "sink"
    return isinstance(finding, Regression) and finding.records[-1].what is What.FETCHED


def _asked_again(suspicion: Suspicion) -> bool:
    """The step back is one of these; or between each two copies of an input, or between the two commits, the
    process that made both had one."""
    finding, run = suspicion.finding, suspicion.run
    reader = _reader(finding)
    explained = _explained(run, reader)
    if isinstance(finding, WentBack):
        (*_, last) = finding.records
        return any(
            (back.op, back.offset, back.value) == (last.op, last.offset, last.value) for back in explained
        )
    ops = sorted(one.op for one in finding.records)
    if isinstance(finding, CopiedTwice) and finding.copies != len(ops):
        return False  # of the others nothing is known
    if any(run.history.op(op).process != reader.process for op in ops):
        return False
    return all(any(one < back.op <= other for back in explained) for one, other in pairwise(ops))


def _explained(run: LabelledRun, reader: ThrownBack) -> list[ReadRow]:
    """The steps back to where the reader had begun that outdated answers explain, in order: each answer sets
    one timer, and explains one step. Where the reader had moved itself meanwhile, its step uses none up."""
    reads = run.reads_of(reader.process, reader.tp)
    begin = min((read.offset for read in reads), default=-1)
    used: set[int] = set()
    found = []
    for before, back in pairwise(reads):
        if back.offset != begin or back.offset > before.offset:
            continue
        answers = _went_back(run, reader._replace(until_ns=back.complete_ns), reads)
        left = [again_ns for again_ns in answers if again_ns not in used]
        if left:
            found.append(back)
            used.update(left[:1] if back.assignment == before.assignment else ())
    return found


def _went_back(run: LabelledRun, reader: ThrownBack, reads: Sequence[ReadRow]) -> list[int]:
    """When something made an answer outdated that explains where the reader is: it began the partition at its
    beginning, and nothing of it had come by then; half a second after that, and not much later, it was back
    there."""
    found = []
    for first_ns, again_ns in _outdated(run, reader):
        came = any(first_ns <= read.complete_ns <= again_ns for read in reads)
        if not came and TIMER_NS <= reader.until_ns - again_ns <= TIMER_NS + ANSWERS_NS:
            found.append(again_ns)
    return sorted(found)


BUG: Final = KnownBug(
    title="A consumer that is assigned twice goes back to the beginning half a second later",
    page="findings/outdated-offset-query.md",
    link="the report",
    versions="librdkafka up to 2.16; open",
    doc="""\
A partition that is assigned at its beginning makes librdkafka ask its leader where that is. Where the
partition is assigned again before the answer, the answer is outdated, and librdkafka sets a timer to ask
again. The second assignment asks on its own, and the consumer reads; librdkafka does not stop the timer.
Half a second later it asks for the beginning again, and the consumer starts there a second time, also where
it was assigned at another offset meanwhile.

Seen in a run of `queue` under `add-partitions` on 4.4.0 with five brokers: a consumer assigned new
partitions, assigned a part of them again 0.5 s later, when the first answers were still to come, and 0.7 s
after that was given two of them from offset 0 again.

A member of a group that rebalances step by step meets it, too (KIP-848, cooperative-sticky). Of a partition
without a committed offset it asks for the beginning; with the next step librdkafka pauses all that the member
has, which makes the answer outdated. Seen in a run of `groups` on 4.4.0 with `group.protocol=consumer`: six
partitions were given, three of them taken back 0.46 s later, and 1.86 s after that offset 0 of a fourth one
came again, behind offset 34.""",
    evidence="The client is librdkafka. A process assigned the partition by hand at its beginning, and again"
    " before any record of it had come; or its group, which had committed nothing of it, gave it the"
    " partition, and gave or took others before any record of it had come. From half a second after that on,"
    " within 10 s, the process was given the first record again that it ever had of the partition. Each such"
    " assignment, or step, explains one way back, in their order. An input that one process copied twice,"
    " but into no database, or a lower offset that it committed after another one: such a step back lies"
    " between the two.",
    anomalies=(BACK, BACK_INSIDE, TWICE, REGRESSION),
    match=_asked_again,
    wanted=_wanted,
)
