"""What is known of how a finding came about, from what the run recorded.

A cause is called likely where the run names one: a bug that is planted in its cluster, a known bug whose
signature every finding bears, a setting that permits the finding; else where brokers' files or the trace show
a step that leads to it. A run that shows neither says so, and what would show it.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from core.errors import HistoryError
from core.op import Outcome, TopicPartition
from core.systems import planted_bug
from harness.report.evidence import decisions, group_offsets, replicas, side_by_side
from harness.report.evidence.decisions import AROUND_S, DONE, CoordinatorDecisions, WrittenPart, of_last_take
from harness.report.evidence.group_offsets import GroupOffsets
from harness.report.evidence.replicas import ReplicaEnds
from harness.report.evidence.side_by_side import SideBySide
from harness.report.inputs import Inputs
from history.verdict import Anomaly, Example, Verdict

OF_REPLICAS: Final = frozenset(
    {
        *("lost-write", "unseen", "inconsistent-offsets", "offset-reuse", "offset-realtime-inversion"),
        *("replica-divergence", "model-violation", "unclean-election", "damaged-log"),
    }
)
"""Classes whose cause may be how far replicas reached."""
OF_TRANSACTIONS: Final = frozenset(
    {
        *("torn-txn", "aborted-read", "precommitted-read", "stuck-lso", "hanging-txn", "zombie-write"),
        *("lost-write", "unseen", "lost-decision", "torn-decision", "hanging-partition"),
    }
)
"""Classes whose cause may be what was decided about a transaction."""
OF_GROUPS: Final = frozenset(
    {
        *("offset-commit-regression", "phantom-commit", "group-duplicate", "group-skip"),
        *("double-assignment", "eos-duplicate", "eos-loss"),
    }
)
"""Classes about what groups committed and were given: when the records themselves were acknowledged, and who
led their partitions, says nothing about them."""
OF_SEQUENCES: Final = frozenset(
    {"duplicate", "nonmonotonic-send", "int-nonmonotonic-send", "int-send-skip", "zombie-write"}
)
"""Classes whose cause may be how producers numbered their batches."""
OF_POLLS: Final = frozenset({"nonmonotonic-poll", "int-nonmonotonic-poll", "poll-skip", "int-poll-skip"})
"""Classes about one consumer."""
COMMITS_SHOWN: Final = 3
CUTS_SHOWN: Final = 3
OFFSETS_SHOWN: Final = 4
NO_FILES: Final = "this run has no copies of brokers’ files"
LACKING: Final[tuple[tuple[frozenset[str], str], ...]] = (
    (OF_REPLICAS, "how far each replica’s log reached when leaders changed"),
    (OF_GROUPS, "the group’s commits in __consumer_offsets, and the answers to its fetches of offsets"),
    (OF_SEQUENCES, "the producer ids and sequences of the batches, and which requests had no answer"),
    (OF_TRANSACTIONS, "the coordinator’s log, and the markers in each partition"),
    (OF_POLLS, "the consumer’s requests (a run with --set capture=true)"),
)
"""Classes -> what would show their cause, the first that fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Of a finding. named: what the run itself names as cause, "" = nothing. facts: what was recorded of the
    mechanism, as sentences. lacking: what would show it; "" where there are facts or a name."""

    named: str
    facts: list[str]
    lacking: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """What the facts are taken from. leaders: of the example's partition, as (since when, node). written:
    when the batch was made that a finding in logs is about; None = not on record."""

    inputs: Inputs
    example: Example
    leaders: Sequence[tuple[float, str]]
    ends: ReplicaEnds | None
    side: SideBySide | None
    decided: CoordinatorDecisions | None
    offsets: GroupOffsets | None
    written: float | None = None


def traces(inputs: Inputs, name: str, example: Example, leaders: Sequence[tuple[float, str]]) -> Traces:
    """What is on record for a finding of a class."""
    offset = min(example.offsets, default=-1)
    decided = decisions.build(inputs, example) if name in OF_TRANSACTIONS else None
    side = side_by_side.partitions(decided) if decided else None
    if side is None and name in OF_REPLICAS:
        side = side_by_side.copies(inputs, example.partition, offset)
    return Traces(
        inputs=inputs,
        example=example,
        leaders=leaders,
        ends=replicas.build(inputs, example.partition, offset) if name in OF_REPLICAS else None,
        side=side,
        decided=decided,
        offsets=group_offsets.build(inputs, example) if name in OF_GROUPS or example.log else None,
        written=_written(inputs, example) if example.log else None,
    )


def _written(inputs: Inputs, example: Example) -> float | None:
    tp, offset = decisions.parsed(example.partition), max(example.offsets, default=-1)
    if inputs.evidence is None or tp is None or offset < 0:
        return None
    try:
        batch = decisions.batch_at(inputs.evidence, tp, offset)
    except HistoryError:
        return None
    known = batch is not None and batch["base_timestamp"] > 0
    return inputs.seconds_of_clock(batch["base_timestamp"]) if batch and known else None


def build(name: str, anomaly: Anomaly, traces: Traces) -> Cause:
    """Of a class, by its first example."""
    verdict = traces.inputs.verdict
    named = _named(verdict, anomaly)
    facts: list[str] = []
    try:
        for classes, tell in FACTS:
            if name in classes:
                facts += tell(traces)
    except HistoryError as error:
        traces.inputs.gaps.append(f"{error}: what led to {name} is not shown as a whole.")
    return Cause(named=named, facts=facts, lacking="" if named or facts else _lacking(name, traces.inputs))


def _named(verdict: Verdict, anomaly: Anomaly) -> str:
    """What configuration, label or permission names."""
    planted = planted_bug(verdict.config)
    if planted:
        from model.mutants.log_damage import LOG_DAMAGE  # few reports need it
        from model.mutants.registry import MUTANTS

        if planted in MUTANTS:
            bug = MUTANTS[planted]
            return f"the bug planted in this run, {planted}: {bug.wrong}. Kafka: {bug.right}"
        wrong = LOG_DAMAGE[planted].wrong if planted in LOG_DAMAGE else ""
        return f"the bug planted in this run, {planted}" + (f": {wrong}" if wrong else "")
    if anomaly.known_bug:
        from checkers.known_bugs.registry import KNOWN_BUGS  # few reports need it

        title = KNOWN_BUGS[anomaly.known_bug].title if anomaly.known_bug in KNOWN_BUGS else ""
        return f"{anomaly.known_bug}, whose signature every finding bears" + (f": {title}" if title else "")
    return "" if anomaly.disallowed else f"what this run permits: {anomaly.why}"


def _lacking(name: str, inputs: Inputs) -> str:
    wanted = next((what for classes, what in LACKING if name in classes), "what brokers logged then")
    none = inputs.evidence is None or not inputs.evidence.table("takes").num_rows
    return f"{wanted} would show it" + (f"; {NO_FILES}" if none else "")


# ---- facts


def _replicas(traces: Traces) -> Iterator[str]:
    """Who led without the record, and who cut it off."""
    ends = traces.ends
    if ends is None:
        return
    offset = ends.offset
    sent = min((op.begin_s for op in traces.example.ops), default=0.0)
    for since, node in traces.leaders[1:]:
        mine = ends.moments.get(int(node), []) if node.isdecimal() else []
        reached = [moment for moment in mine if moment.at <= since]
        if since > sent and reached and reached[-1].end <= offset:
            ended = f"its log ended at {reached[-1].end}"
            yield f"node {node} became leader at {since:.3f} s without offset {offset}: {ended}"
            break
    cuts = [
        (after.at, f"node {node} cut its log from {before.end} to {after.end} at {after.at:.3f} s")
        for node, mine in ends.moments.items()
        for before, after in itertools.pairwise(mine)
        if after.cut and before.end > offset >= after.end
    ]
    yield from (text for _, text in sorted(cuts)[:CUTS_SHOWN])


def _copies(traces: Traces) -> Iterator[str]:
    """What each broker’s copy has at the finding's place, where they differ."""
    row = next((row for row in traces.side.rows if row.here), None) if traces.side else None
    if row is not None and traces.side is not None and row.differing:
        cells = zip(traces.side.columns, row.cells, strict=True)
        yield f"at offset {row.place} " + ", ".join(f"{name} has {cell}" for name, cell in cells)


def _markers(traces: Traces) -> Iterator[str]:
    """What the coordinator decided, and which marker each partition got."""
    found = traces.decided
    if found is None:
        return
    decided = [(at, state) for at, state in found.states if state not in ("Empty", "Ongoing")]
    states = ", ".join(f"{state} at {at:.3f} s" for at, state in decided)
    yield f"the coordinator’s log says of {found.transactional_id}: {states or 'no decision'}"
    done = next((at for at, state in decided if state in DONE), None)
    by: dict[str, list[str]] = defaultdict(list)
    for partition, parts in found.partitions.items():
        by[_ended_by(parts[0], done)].append(partition)
    if by:
        by_few = sorted(by.items(), key=lambda item: len(item[1]))
        yield " and ".join(f"{', '.join(some)} got {words}" for words, some in by_few)


def _ended_by(part: WrittenPart, done: float | None) -> str:
    """The marker of a part. done: when the coordinator had completed the transaction."""
    if part.marker is None:
        return "no marker"
    kind = "COMMIT" if part.marker.commit else "ABORT"
    if not part.own or (done is not None and part.marker.at > done + AROUND_S):
        return f"no marker of its own (a later transaction’s {kind} ends its records)"
    return f"the {kind} marker"


def _sequences(traces: Traces) -> Iterator[str]:
    """How the producers of the example's records numbered them."""
    found = _numbered(traces)
    if len(found) < 2:
        return
    if all(producer < 0 for _, producer, _, _ in found):
        yield "the copies have no producer id (no idempotence), so brokers could not tell a repeat"
        return
    places = [f"offset {at} (producer {p}/{epoch}, sequence {number})" for at, p, epoch, number in found]
    producers, epochs = {p for _, p, _, _ in found}, [epoch for _, _, epoch, _ in found]
    numbers = [number for _, _, _, number in found]
    listed = ", ".join(places[:OFFSETS_SHOWN])
    if len(producers) > 1:
        yield f"the log has them from several producer ids: {listed}"
    elif len(set(epochs)) > 1:
        falls = ": a batch of an old producer epoch behind a newer one" if epochs != sorted(epochs) else ""
        yield f"the log has {listed}{falls}"
    elif len(set(numbers)) == 1:
        yield f"the leader appended one sequence {len(found)} times: {listed}"
    elif numbers != sorted(numbers):
        yield f"the leader appended sequences out of order: {listed}"
    else:
        yield f"each copy came with a sequence of its own, as if it was new: {listed}"


def _numbered(traces: Traces) -> list[tuple[int, int, int, int]]:
    """(offset, producer id, producer epoch, sequence) at the example's offsets."""
    topic, _, number = traces.example.partition.rpartition("-")
    if traces.inputs.evidence is None or not number.isdecimal():
        return []
    rows = traces.inputs.evidence.of("batches", TopicPartition(topic, int(number)))
    wanted = sorted({offset for offset in traces.example.offsets if offset >= 0})
    last: list[dict[str, Any]] = of_last_take(rows.to_pylist(), ("base",)) if wanted else []
    return [
        (at, row["producer_id"], row["producer_epoch"], row["base_sequence"] + at - row["base"])
        for at in wanted
        for row in last
        if row["base"] <= at <= row["last"] and not row["control"]
    ]


def _commits(traces: Traces) -> Iterator[str]:
    """What the coordinator's log has of the group in the partition, around the finding."""
    found = traces.offsets
    if found is None:
        return
    first = max(found.past(traces.example.offsets) - 1, 0)
    shown = found.commits[first : first + COMMITS_SHOWN]
    at = shown[0].at if shown else 0.0
    nodes = [node for since, node in found.coordinators if since <= at] or [-1]
    by = f" (coordinator node {nodes[-1]})" if nodes[-1] >= 0 else ""
    told = ", ".join([one.words for one in shown])
    yield f"{found.log}{by} has these commits of {found.group} for {found.partition}: {told}"
    moved = [f"node {node} at {since:.3f} s" for since, node in found.coordinators[1:]]
    if moved:
        yield f"the group’s coordinator moved to {', '.join(moved[:COMMITS_SHOWN])}"


def _polls(traces: Traces) -> Iterator[str]:
    """Ops of the consumer between those of the witness that failed."""
    history, ops = traces.inputs.history, traces.example.ops
    if history is None or len(ops) < 2 or "ops" not in history.tables:
        return
    polls = [op for op in ops if op.process == ops[0].process]
    first, last = polls[0].op, polls[-1].op
    between = (history.op(int(op)) for op in history.ops_of(ops[0].process) if first <= op <= last)
    failed = [op for op in between if op.outcome != Outcome.OK and op.error]
    if failed:
        told = [f"op {op.op} ({op.f}, {op.error})" for op in failed[:OFFSETS_SHOWN]]
        yield f"between these polls the consumer had errors: {', '.join(told)}"


FACTS: Final[Sequence[tuple[frozenset[str], Callable[[Traces], Iterator[str]]]]] = (
    (OF_REPLICAS, _replicas),
    (frozenset({"replica-divergence"}), _copies),
    (OF_TRANSACTIONS, _markers),
    (OF_SEQUENCES, _sequences),
    (OF_GROUPS - {"double-assignment"} | {"lost-write"}, _commits),
    (OF_POLLS, _polls),
)
"""Classes -> what the page says of their mechanism."""
