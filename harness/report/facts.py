"""What a run recorded of how a finding came about, as sentences: by class, from traces of all kinds."""

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import pyarrow.compute as pc

from core.op import Acknowledgement, Outcome, Phase, TopicPartition
from harness.report.classes import OF_GROUPS, OF_POLLS, OF_REPLICAS, OF_SEQUENCES, OF_SHARES, OF_TRANSACTIONS
from harness.report.evidence import exchanges, group_offsets, replicas
from harness.report.evidence.decisions import AROUND_S, DONE, WrittenPart, parsed, standing
from harness.report.evidence.replicas import ReplicaEnds
from harness.report.traces import Traces
from history.events import RequestSeen
from history.reader import value_text
from history.tables import TableRow
from history.unit_files import EVERYWHERE, read_table
from history.verdict import NOT_RECOVERED

COMMITS_SHOWN: Final = 3
CUTS_SHOWN: Final = 3
OFFSETS_SHOWN: Final = 4
MOVES_SHOWN: Final = 3
STEPS_SHOWN: Final = 6
MS: Final = 1_000_000
"""Nanoseconds."""
SAID: Final = {
    Acknowledgement.ACCEPT: "accepted",
    Acknowledgement.RELEASE: "released",
    Acknowledgement.REJECT: "rejected",
    Acknowledgement.RENEW: "renewed",
}
FEW_IN_SYNC: Final = re.compile(r"(\S+-\d+) has in-sync replicas")
"""The partition of a cluster that did not recover (`harness.run.recovery` words it so)."""
NO_NODE: Final = (-1, "none")
"""How brokers' logs, and lanes of partitions, name no leader."""


def _replicas(traces: Traces) -> Iterator[str]:
    """Who led without the record, and who cut it off."""
    ends = traces.ends
    yield from exchanges.unanswered(traces.inputs, traces.example)
    yield from _instead(traces)
    yield from _begins(traces)
    if ends is None:
        return
    sent = min((op.begin_s for op in traces.example.ops), default=0.0)
    passed = list(_passed(traces, ends))
    yield from _acknowledged(traces, ends, passed)
    yield from passed
    steps = [*_without_it(ends, sent), *_cuts(ends)]
    yield from (text for _, text in sorted(steps, key=lambda step: step[0]))


def _without_it(ends: ReplicaEnds, sent: float) -> Iterator[tuple[float, str]]:
    """The first node that became leader without the record, after it was sent: (when, as a sentence)."""
    for since, node in ends.leaders[1:]:
        reached = [moment for moment in ends.moments.get(node, []) if moment.at <= since]
        if since > sent and reached and reached[-1].end <= ends.offset:
            ended = f"its log ended at {reached[-1].end}"
            yield since, f"node {node} became leader at {since:.3f} s without offset {ends.offset}: {ended}"
            return


def _cuts(ends: ReplicaEnds) -> list[tuple[float, str]]:
    """The first cuts that took the record off a replica: (when, as a sentence)."""
    cuts = [
        (after.at, f"node {node} cut its log from {before.ended} to {after.end} at {after.at:.3f} s")
        for node, mine in ends.moments.items()
        for before, after in itertools.pairwise(mine)
        if after.cut and before.end > ends.offset >= after.end
    ]
    return sorted(cuts)[:CUTS_SHOWN]


def _begins(traces: Traces) -> Iterator[str]:
    """Producers whose first batch in a partition that lost a record without an offset is not their first."""
    evidence, tp = traces.inputs.evidence, parsed(traces.example.partition)
    if evidence is None or tp is None or any(offset >= 0 for offset in traces.example.offsets):
        return
    first: dict[tuple[int, int], TableRow] = {}
    for row in standing(evidence.of("batches", tp).to_pylist()):
        if row["producer_id"] >= 0 and not row["control"]:
            first.setdefault((row["producer_id"], row["producer_epoch"]), row)
    for (producer, epoch), row in itertools.islice(first.items(), OFFSETS_SHOWN):
        if row["base_sequence"] > 0:
            begins = f"begin with sequence {row['base_sequence']} (offset {row['base']}), not 0"
            yield f"in this partition the batches of producer {producer}/{epoch} {begins}"


def _instead(traces: Traces) -> Iterator[str]:
    """Which other record the final reads found at the place of the example's."""
    history, example = traces.inputs.history, traces.example
    tp = history.tp_numbers.get(example.partition) if history else None
    offset = next((offset for offset in example.offsets if offset >= 0), -1)
    if history is None or tp is None or offset < 0 or not example.values:
        return
    rows = [row for row in history.reads({tp: {"offset": {offset}}}) if row.value not in example.values]
    final = [row for row in rows if history.op(row.op).phase == Phase.FINAL]
    for row in final[:1]:
        senders = {sent.process for sent in history.sends({tp: {"value": {row.value}}})}
        of = f" of {history.client(senders.pop())}" if len(senders) == 1 else ""
        yield f"the final reads found record {value_text(row.value)}{of} at offset {offset}"


def _acknowledged(traces: Traces, ends: ReplicaEnds, passed: Sequence[str]) -> Iterator[str]:
    """Who acknowledged the record, and who led then; which replicas lacked it, where `passed` (of `_passed`)
    does not say the same."""
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
    in_sync, same = ", ".join(map(str, isr)), f"{_nodes(lacked)} of these lacked it"
    again = not lacked or any(f"with {in_sync} in sync: {same}" in one for one in passed)
    without = "" if again else f"; {in_sync} were in sync, and {same}"
    yield f"node {node} acknowledged it at {at:.3f} s{asked}{else_led}{without}"


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


def _late(traces: Traces) -> Iterator[str]:
    """A request to end a transaction that came into this one late, held back by a fault."""
    history, op = traces.inputs.history, next((op for op in traces.example.ops if op.txn), None)
    if history is None or op is None or "ops" not in history.tables:
        return
    if not any(isinstance(event, RequestSeen) for event in history.events):
        return
    from checkers.known_bugs.late_requests import ENDING, late_requests  # few reports need it

    for one in late_requests(history, ENDING):
        if op.transactional_id in one.named and one.comes_into(history.op(op.op)):
            held, came = (traces.inputs.seconds(ns) for ns in (one.caught_ns, one.delivered_ns))
            yield (
                f"an EndTxn of {op.transactional_id}, held back since {held:.3f} s, reached its broker at "
                f"{came:.3f} s, while this transaction was under way"
            )


def _markers(traces: Traces) -> Iterator[str]:
    """What the coordinator decided, and which marker each partition got."""
    found = traces.decided
    if found is None:
        return
    decided = [(at, state) for at, state in found.states if state not in ("Empty", "Ongoing")]
    ongoing = [f"Ongoing since {at:.3f} s" for at, state in found.states if state == "Ongoing"][:1]
    states = [f"{state} at {at:.3f} s" for at, state in decided] or ["no decision"]
    yield f"the coordinator’s log says of {found.transactional_id}: {', '.join(ongoing + states)}"
    if decided and not ongoing:
        yield "that log never had it as Ongoing"
    begin = min((at for at, _ in found.states), default=None)
    done = next((at for at, state in decided if state in DONE), None)
    if found.succeeded and not decided:
        at, producer = found.succeeded
        yield f"its next state of {found.transactional_id} is of another producer, {producer}, at {at:.3f} s"
    until = done or (found.succeeded[0] if found.succeeded else math.inf)
    if moved := _moved((at, node) for at, node in found.coordinators if begin and begin < at <= until):
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
        more = f"; of {found.more} more partitions this is not listed" * bool(found.more)
        yield " and ".join(f"{', '.join(some)} got {words}" for words, some in by_few) + more


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
        later = f"the {kind} of a later transaction, {placed}, ends its records"
        return f"no marker of its own ({later}; read_committed does not pass offset {part.first} before that)"
    return f"the {kind} marker"


def _sequences(traces: Traces) -> Iterator[str]:
    """How the producers of the example's records numbered them."""
    found = _numbered(traces)
    if len(found) < 2:
        return
    yield from exchanges.sent_again(traces.inputs, traces.example)
    if all(producer < 0 for _, producer, _, _ in found):
        none = "their batches have no producer id (no idempotence)"
        yield f"{none}: brokers can tell neither a repeat nor a wrong order"
        return
    places = [f"offset {at} (producer {p}/{epoch}, sequence {number})" for at, p, epoch, number in found]
    producers, epochs = {p for _, p, _, _ in found}, [epoch for _, _, epoch, _ in found]
    numbers = [number for _, _, _, number in found]
    listed = ", ".join(places[:OFFSETS_SHOWN])
    if moved := _moved((since, node) for since, node in traces.leaders if _near(traces, since, 0)):
        yield f"meanwhile the partition’s leader moved {moved}"
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
    last = standing(rows.to_pylist()) if wanted else []
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
    first = max(found.past - 1, 0)
    shown = found.commits[first : first + COMMITS_SHOWN]
    counts = next((one for one in found.commits[found.past :] if one.end in ("", "COMMIT")), None)
    if counts is not None and counts not in shown:
        shown = [*shown[:-1], counts]
    at = shown[0].at if shown else 0.0
    nodes = [node for since, node in found.coordinators if since <= at] or [-1]
    by = f" (coordinator node {nodes[-1]})" if nodes[-1] >= 0 else ""
    told = ", ".join([one.words for one in shown])
    yield f"{found.log}{by} has these commits of {found.group} for {found.partition}: {told}"
    passed = found.commits[found.past].at if found.past < len(found.commits) else math.inf
    if traces.written is not None and traces.written > passed:
        yield (
            f"the record that stands there now was made at {traces.written:.3f} s, after that commit: either "
            "the log lost the one that the group had read, or the group committed more than it had read"
        )
    offsets = found.offsets
    if len(offsets) == group_offsets.STEP and offsets[-1] not in {one.committed for one in found.commits}:
        yield f"no commit of {offsets[-1]} is in that log"
    yield from _given(traces)


def _coordinators(traces: Traces) -> Iterator[str]:
    """How the group's coordinator moved after the commits around the finding."""
    found = traces.offsets
    at = found.commits[max(found.past - 1, 0)].at if found and found.commits else math.inf
    moves = found.coordinators if found else []
    if moved := _moved((since, node) for since, node in moves if since > at):
        yield f"afterwards the group’s coordinator moved {moved}"


def _apart(traces: Traces) -> Iterator[str]:
    """That offsets and output of a group were not one write."""
    found = traces.offsets
    if found and found.commits and not any(one.end for one in found.commits):
        yield (
            f"no commit of {found.group} there is part of a transaction: offsets and output are two writes, "
            "and what ends a member between them loses or repeats the records between"
        )


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


def _shared(traces: Traces) -> Iterator[str]:
    """What a share group and its members did with the record, in order of time."""
    history, example = traces.inputs.history, traces.example
    tp = history.tp_numbers.get(example.partition) if history else None
    if history is None or tp is None or not example.offsets:
        return
    here = (pc.field("tp") == tp) & (pc.field("offset") == example.offsets[0])
    steps: list[tuple[int, bool, int, str]] = []
    run = traces.inputs.run
    for row in read_table(run.table("deliveries"), "deliveries").filter(here).to_pylist():
        count = f"delivery count {row['delivery_count']}"
        given = f"given to process {row['process']} (op {row['op']}, {count})"
        steps.append((row["complete_ns"] // MS, False, row["op"], given))
    for row in read_table(run.table("acknowledgements"), "acknowledgements").filter(here).to_pylist():
        said = SAID[Acknowledgement(row["kind"])]
        answer = "" if row["outcome"] == Outcome.OK else ", without a good answer"
        done = f"{said} by process {row['process']} (op {row['op']}{answer})"
        steps.append((row["invoke_ns"] // MS, True, row["op"], done))
    if steps:
        steps.sort()
        shown = _shown([op for _, _, op, _ in steps], {op.op for op in example.ops})
        told = [f"{steps[n][3]} at {traces.inputs.seconds(steps[n][0] * MS):.3f} s" for n in shown]
        left = len(shown) < len(steps)
        more = f"; of {len(steps)} deliveries and acknowledgements, {len(shown)} are shown" if left else ""
        yield f"offset {example.offsets[0]} was {', '.join(told)}{more}"


def _shown(ops: Sequence[int], of_finding: set[int]) -> list[int]:
    """Which steps of these ops are shown: the finding's, then the newest before its last one, then what
    followed."""
    chosen = [n for n, op in enumerate(ops) if op in of_finding][-STEPS_SHOWN:]
    last = chosen[-1] if chosen else len(ops) - 1
    order = dict.fromkeys([*chosen, *range(last, -1, -1), *range(last, len(ops))])
    return sorted([*order][:STEPS_SHOWN])


def _behind(traces: Traces) -> Iterator[str]:
    """Where the copies of the partition end that a cluster did not recover for."""
    evidence, named = traces.inputs.evidence, FEW_IN_SYNC.search(traces.example.sentence)
    tp = parsed(named[1]) if named else None
    if evidence is None or tp is None:
        return
    batches = evidence.of("batches", tp).to_pylist()
    last: dict[int, int] = {}
    for row in [*evidence.table("takes").to_pylist(), *batches]:
        last[row["node"]] = max(last.get(row["node"], -1), row["take"])
    ends: dict[int, int] = {}
    for row in batches:
        if row["take"] == last[row["node"]]:  # an earlier one may have what was cut off since
            ends[row["node"]] = max(ends.get(row["node"], 0), row["last"] + 1)
    by: dict[int, list[int]] = defaultdict(list)
    for node, end in sorted(ends.items()):
        by[end].append(node)
    if len(by) > 1:
        told = ", ".join(f"{end} ({_nodes(nodes)})" for end, nodes in sorted(by.items(), reverse=True))
        yield f"the copies of {tp} that were taken last end at {told}"


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
    if moved := _moved((since, node) for since, node in traces.leaders if _near(traces, since, 1)):
        yield f"the partition’s leader moved {moved}"
    yield from exchanges.between(traces.inputs, traces.example)


def _near(traces: Traces, at: float, beside: float) -> bool:
    """Whether a time lies between the ops of the example, or within `beside` seconds of them."""
    times = [one for op in traces.example.ops for one in (op.begin_s, op.end_s) if one is not None]
    return bool(times) and min(times) - beside < at < max(times) + beside


FACTS: Final[Sequence[tuple[frozenset[str], Callable[[Traces], Iterator[str]]]]] = (
    (OF_REPLICAS, _replicas),
    (frozenset({"replica-divergence"}), _copies),
    (OF_TRANSACTIONS, _late),
    (OF_TRANSACTIONS, _markers),
    (OF_SEQUENCES, _sequences),
    (OF_GROUPS - {"double-assignment"} | {"lost-write"}, _commits),
    (frozenset({"eos-loss", "eos-duplicate"}), _apart),
    (OF_GROUPS - {"double-assignment", "eos-loss", "group-skip"}, _coordinators),
    (OF_POLLS, _polls),
    (OF_SHARES, _shared),
    (frozenset({NOT_RECOVERED}), _behind),
)
"""Classes -> what the page says of their mechanism."""
