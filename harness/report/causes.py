"""What is known of how a finding came about, from what the run recorded.

A cause is called likely where the run names one: a bug that is planted in its cluster, a known bug whose
signature every finding bears, a setting that permits the finding; else where brokers' files or the trace show
a step that leads to it. A run that shows neither says so, and what would show it.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from core.errors import HistoryError
from core.op import Outcome, Phase, TopicPartition
from core.systems import planted_bug
from harness.report.evidence import decisions, exchanges, group_offsets, replicas, side_by_side
from harness.report.evidence.decisions import AROUND_S, DONE, CoordinatorDecisions, WrittenPart, of_last_take
from harness.report.evidence.group_offsets import GroupOffsets
from harness.report.evidence.replicas import ReplicaEnds
from harness.report.evidence.side_by_side import LogsSideBySide
from harness.report.inputs import Inputs
from history.tables import TableRow
from history.unit_files import EVERYWHERE
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
        *("eos-uncommitted", "nonmonotonic-copy"),
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
MOVES_SHOWN: Final = 3
NO_NODE: Final = (-1, "none")
"""How brokers' logs, and lanes of partitions, name no leader."""
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
    side: LogsSideBySide | None
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
    yield from exchanges.unanswered(traces.inputs, traces.example)
    if ends is None:
        return
    offset = ends.offset
    sent = min((op.begin_s for op in traces.example.ops), default=0.0)
    yield from _acknowledged(traces, ends)
    yield from _passed(traces, ends)
    for since, node in ends.leaders[1:]:
        mine = ends.moments.get(node, [])
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


def _acknowledged(traces: Traces, ends: ReplicaEnds) -> Iterator[str]:
    """Who acknowledged the record, and who led then."""
    found = exchanges.acknowledged(traces.inputs, traces.example)
    if found is None or traces.example.log is not None:
        return
    at, node, acks = found
    weaker = exchanges.weaker(traces.inputs, acks)
    asked = f" to a request with {acks}, where acks=all is configured" if weaker else ""
    led = [(since, leader) for since, leader in ends.leaders if since <= at]
    else_led = f", where node {led[-1][1]} led since {led[-1][0]:.3f} s" if led and led[-1][1] != node else ""
    isr = replicas.in_sync(traces.inputs, ends.partition, node, at)
    lacked = _lacked(ends, isr, at)
    without = f"; {', '.join(map(str, isr))} were in sync, and {_nodes(lacked)} of these lacked it"
    yield f"node {node} acknowledged it at {at:.3f} s{asked}{else_led}{without if lacked else ''}"


def _lacked(ends: ReplicaEnds, isr: Sequence[int], at: float) -> list[int]:
    """Replicas whose logs did not reach the record at a time."""
    last = {node: [one for one in mine if one.at <= at] for node, mine in ends.moments.items()}
    return [node for node in isr if not (mine := last.get(node)) or mine[-1].end <= ends.offset]


def _passed(traces: Traces, ends: ReplicaEnds) -> Iterator[str]:
    """Which replicas the record was on when it counted as committed."""
    text = f"offset {ends.offset} "
    reads = [op for op in traces.example.ops if op.isolation and any(text in one for one in op.records)]
    for op in [op for op in reads if op.end_s is not None][:1]:
        if ends.whole and op.end_s is not None and (ends.passed is None or ends.passed[0] > op.end_s):
            early = "before a leader’s high watermark had passed it"
            yield f"op {op.op} was given it at {op.end_s:.3f} s, {early}"
            return
    if ends.passed is None:
        return
    at, leader, isr = ends.passed
    lacked = _lacked(ends, isr, at)
    least = traces.inputs.verdict.config.get("min_insync_replicas", 1)
    told = [f"{_nodes(lacked)} of these lacked it"] * bool(lacked)
    told += [f"fewer than min.insync.replicas, {least}"] * (len(isr) < least)
    if told:
        past = f"the high watermark of node {leader} passed it at {at:.3f} s"
        yield f"{past} with {', '.join(map(str, isr))} in sync: {' and '.join(told)}"


def _moved(terms: Iterable[tuple[float, int | str]]) -> str:
    """`to node 2 at 39.538 s, to no node at 43.196 s` of the first of these terms."""
    first = itertools.islice(terms, MOVES_SHOWN)
    return ", ".join(
        f"to {'no node' if node in NO_NODE else f'node {node}'} at {at:.3f} s" for at, node in first
    )


def _nodes(nodes: Sequence[int]) -> str:
    return f"node{'s' * (len(nodes) > 1)} {', '.join(map(str, nodes))}" if nodes else "no node"


def _copies(traces: Traces) -> Iterator[str]:
    """What each broker’s copy has at the finding's place, where they differ."""
    row = next((row for row in traces.side.rows if row.here), None) if traces.side else None
    if row is not None and traces.side is not None and row.differing:
        cells = zip(traces.side.columns, row.cells, strict=True)
        told = [f"{name} {'have' if name.startswith('nodes') else 'has'} {cell}" for name, cell in cells]
        yield f"at offset {row.place} {', '.join(told)}"


def _markers(traces: Traces) -> Iterator[str]:
    """What the coordinator decided, and which marker each partition got."""
    found = traces.decided
    if found is None:
        return
    decided = [(at, state) for at, state in found.states if state not in ("Empty", "Ongoing")]
    states = ", ".join(f"{state} at {at:.3f} s" for at, state in decided)
    yield f"the coordinator’s log says of {found.transactional_id}: {states or 'no decision'}"
    if decided and "Ongoing" not in {state for _, state in found.states}:
        yield "that log has no Ongoing of it"
    begin = min((at for at, _ in found.states), default=None)
    done = next((at for at, state in decided if state in DONE), None)
    if moved := _moved((at, node) for at, node in found.coordinators if begin and begin < at <= (done or at)):
        yield f"meanwhile its coordinator moved {moved}"
    prepared = next((at for at, _ in decided), None)
    if begin is not None and prepared is not None and found.states[0][1] == "Ongoing":
        asked = exchanges.ends(traces.inputs, found.transactional_id, begin, prepared)
        if asked is not None:
            yield (
                f"a client had asked for that: {', '.join(asked)}"
                if asked
                else "no client had asked for that"
            )
    yield from _unanswered(traces)
    offsets = traces.example.offsets
    parts = [
        one
        for one in found.partitions.get(traces.example.partition, [])
        if any(one.first <= offset <= one.last for offset in offsets)
    ]
    for late in [one for one in parts if one.after and begin and one.after.at >= begin][:1]:
        if late.after is not None:
            told = f"its {late.after.words} before its record at offset {late.first}"
            yield f"{traces.example.partition} has {told}"
    by: dict[str, list[str]] = defaultdict(list)
    for partition, parts in found.partitions.items():
        by[_ended_by(parts[0], done)].append(partition)
    if by:
        by_few = sorted(by.items(), key=lambda item: len(item[1]))
        yield " and ".join(f"{', '.join(some)} got {words}" for words, some in by_few)


def _unanswered(traces: Traces) -> Iterator[str]:
    """Partitions in which no record of the example's transaction was acknowledged."""
    history, op = traces.inputs.history, next((op.op for op in traces.example.ops if op.txn), None)
    if history is None or op is None:
        return
    acked: dict[int, int] = defaultdict(int)
    for row in history.sends({EVERYWHERE: {"op": {op}}}):
        acked[row.tp] += row.ack_ns >= 0
    none = [history.tp(tp) for tp, many in sorted(acked.items()) if not many]
    if none and len(none) < len(acked):
        yield f"its records to {', '.join(none)} were not acknowledged"


def _ended_by(part: WrittenPart, done: float | None) -> str:
    """The marker of a part. done: when the coordinator had completed the transaction."""
    if part.marker is None:
        return "no marker"
    kind = "COMMIT" if part.marker.commit else "ABORT"
    if not part.own or (done is not None and part.marker.at > done + AROUND_S):
        placed = f"at offset {part.marker.offset}, {part.marker.at:.3f} s"
        return f"no marker of its own (the {kind} of a later transaction, {placed}, ends its records)"
    return f"the {kind} marker"


def _sequences(traces: Traces) -> Iterator[str]:
    """How the producers of the example's records numbered them."""
    found = _numbered(traces)
    if len(found) < 2:
        return
    yield from exchanges.sent_again(traces.inputs, traces.example)
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
        newer = "the later one has a newer producer epoch"
        falls = "a batch of an old producer epoch stands behind a newer one"
        yield f"the log has {listed}: {newer if epochs == sorted(epochs) else falls}"
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
    last: list[TableRow] = of_last_take(rows.to_pylist(), ("base",)) if wanted else []
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
    offsets = traces.example.offsets
    if len(offsets) == group_offsets.STEP and offsets[-1] not in {one.committed for one in found.commits}:
        yield f"no commit of {offsets[-1]} is in that log"
    if moved := _moved((since, node) for since, node in found.coordinators if since > at):
        yield f"afterwards the group’s coordinator moved {moved}"
    yield from _given(traces)


def _given(traces: Traces) -> Iterator[str]:
    """From which offset on the ops that committed were given records of the partition; final reads committed
    nothing."""
    history = traces.inputs.history
    ops = {op.op for op in traces.example.ops if history and history.op(op.op).phase < Phase.FINAL}
    tp = history.tp_numbers.get(traces.example.partition) if history else None
    if history is None or tp is None or not ops:
        return
    first: dict[int, int] = {}
    for row in history.reads({tp: {"op": ops}}):
        first[row.op] = min(row.offset, first.get(row.op, row.offset))
    for op, offset in sorted(first.items()):
        yield f"op {op} (process {history.op(op).process}) was given records from offset {offset} on"


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
    if moved := _moved((since, node) for since, node in traces.leaders if _near(traces, since)):
        yield f"the partition’s leader moved {moved}"
    yield from exchanges.between(traces.inputs, traces.example)


def _near(traces: Traces, at: float) -> bool:
    """Whether a time lies between the ops of the example, or shortly beside them."""
    times = [one for op in traces.example.ops for one in (op.begin_s, op.end_s) if one is not None]
    return bool(times) and min(times) - 1 < at < max(times) + 1


FACTS: Final[Sequence[tuple[frozenset[str], Callable[[Traces], Iterator[str]]]]] = (
    (OF_REPLICAS, _replicas),
    (frozenset({"replica-divergence"}), _copies),
    (OF_TRANSACTIONS, _markers),
    (OF_SEQUENCES, _sequences),
    (OF_GROUPS - {"double-assignment"} | {"lost-write"}, _commits),
    (OF_POLLS, _polls),
)
"""Classes -> what the page says of their mechanism."""
