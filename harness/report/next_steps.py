"""What to do after reading a finding: commands that can be pasted, and where to look further.

The first command shows the evidence that a finding of its class turns on. Names from outside go into no
command unless they are plain words.
"""

import math
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from core.errors import HistoryError
from harness.report import repetition
from harness.report.classes import OF_POLLS, OF_REPLICAS, OF_SEQUENCES, OF_SHARES, OF_TRANSACTIONS
from harness.report.traces import Traces
from history.broker_logs import VIRTUAL
from history.replica_lines import replica_lines
from history.verdict import NOT_RECOVERED

PLAIN = re.compile(r"[A-Za-z0-9._-]+")
AROUND = 8
"""Offsets on either side."""
ROWS = 30
"""Rows of a transaction and of those after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """A known bug that findings bear the signature of. met: how often its reproduction showed it, "" = not
    measured. reproduce: the command that shows it on real brokers, "" = there is none."""

    name: str
    url: str
    met: str
    reproduce: str


def commands(name: str, bug: Bug | None, traces: Traces) -> list[tuple[str, str]]:
    """(what for, command); the first is what to do next."""
    known = [(f"See {bug.name} alone, on real brokers", bug.reproduce)] if bug and bug.reproduce else []
    return [*known, *_look(name, traces), *_others(name, traces)]


def _look(name: str, traces: Traces) -> Iterator[tuple[str, str]]:
    """The evidence of a class."""
    folder = shlex.quote(str(traces.inputs.run.folder))
    partition = traces.example.partition
    if name in OF_REPLICAS and PLAIN.fullmatch(partition):
        yield from _logged(traces, folder)
    if name == NOT_RECOVERED:
        query = "SELECT at_s, body FROM events WHERE event = 'roles' ORDER BY at_s DESC LIMIT 3"
        what = "See which leaders and in-sync replicas brokers named last"
        yield what, f'inquest sql "{query}" --results {folder}'
    for what, query in _queries(name, traces):
        yield what, f'inquest sql "{query}" --results {folder}'


def _logged(traces: Traces, folder: str) -> Iterator[tuple[str, str]]:
    """The lines of brokers' logs about the replicas, of the kinds that these logs have: modelled brokers log
    who began to lead, and no cut."""
    partition, inputs = traces.example.partition, traces.inputs
    try:
        lines = replica_lines(inputs.run, partition)
    except HistoryError:
        return
    kinds = [
        (False, "led, with which end", f"{partition} .*starts at [Ll]eader [Ee]poch"),
        (True, "cut its log", f"(partition={partition},.*Truncating|Truncating log {partition}) to offset"),
    ]
    there = [(what, about) for cut, what, about in kinds if any(line.cut is cut for line in lines)]
    if not there:
        return
    began = ""
    if inputs.trace is not None:
        start = VIRTUAL + timedelta(milliseconds=inputs.start_ms)
        began = f" (the run begins at {start:%H:%M:%S} there)"
    yield (
        f"See which broker {', and which '.join(what for what, _ in there)}{began}",
        f"grep -E '{'|'.join(about for _, about in there)}' {folder}/cluster/*/server.log | sort -t: -k2",
    )


def _queries(name: str, traces: Traces) -> Iterator[tuple[str, str]]:
    """What to ask of the tables, the most telling first."""
    evidence = traces.inputs.evidence
    if evidence is None or not evidence.table("takes").num_rows:
        return
    ways = [_of_transactions, _of_groups, _of_shares, _of_offsets]
    for way in reversed(ways) if traces.ends is not None else ways:
        yield from way(name, traces)


def _here(partition: str) -> tuple[str, str, str]:
    """Topic and number of a partition, and both as a condition; "" = one is not a plain word."""
    topic, _, number = partition.rpartition("-")
    if not PLAIN.fullmatch(topic) or not number.isdecimal():
        return "", "", ""
    return topic, number, f"topic = '{topic}' AND partition = {number}"


def _of_transactions(name: str, traces: Traces) -> Iterator[tuple[str, str]]:
    decided = traces.decided
    if name not in OF_TRANSACTIONS or decided is None or not PLAIN.fullmatch(decided.transactional_id):
        return
    began = min((at for at, _ in decided.states), default=0.0)
    since = math.floor(began * 1e3 + traces.inputs.start_ms)
    if not any(part.marker for parts in decided.partitions.values() for part in parts):
        yield (
            "See what the coordinators logged of it",
            "SELECT DISTINCT timestamp, partition, offset, leader_epoch, state, producer_id, producer_epoch"
            f" FROM transactions WHERE transactional_id = '{decided.transactional_id}'"
            f" AND timestamp >= {since} ORDER BY timestamp, offset LIMIT {ROWS}",
        )
    yield (
        "See which marker ended the transaction in each partition",
        "SELECT DISTINCT timestamp, topic, partition, offset, name, producer_epoch, coordinator_epoch"
        f" FROM markers WHERE producer_id = {min(decided.producers)} AND timestamp >= {since}"
        f" ORDER BY timestamp LIMIT {ROWS}",
    )


def _of_groups(name: str, traces: Traces) -> Iterator[tuple[str, str]]:
    found = traces.offsets
    here = _here(traces.example.partition)[2]
    topic, number, read = _here(found.partition) if found else ("", "", "")
    if name == "double-assignment" and here:
        yield (
            "See which member was given the partition when",
            f"SELECT generation, process, kind, op, at_s FROM assignments WHERE {here}"
            " ORDER BY generation, at_s",
        )
    elif found is not None and read and PLAIN.fullmatch(found.group):
        yield (
            "See every offset that the group committed there",
            "SELECT DISTINCT offset, committed, producer_id, transactional, commit_ms FROM log_offsets"
            f" WHERE group = '{found.group}' AND committed_topic = '{topic}'"
            f" AND committed_partition = {number} ORDER BY offset",
        )


def _of_shares(name: str, traces: Traces) -> Iterator[tuple[str, str]]:
    example, (_, _, here) = traces.example, _here(traces.example.partition)
    if name in OF_SHARES and here and example.offsets:
        at = f"WHERE {here} AND offset = {example.offsets[0]}"
        yield (
            "See what the share group did with the record",
            f"SELECT complete_s, process, op, 'delivered' AS what, delivery_count FROM deliveries {at}"
            f" UNION ALL SELECT complete_s, process, op, kind, NULL FROM acknowledgements {at}"
            " ORDER BY complete_s",
        )


def _of_offsets(name: str, traces: Traces) -> Iterator[tuple[str, str]]:
    example = traces.example
    here = _here(example.partition)[2]
    offsets = [offset for offset in example.offsets if offset >= 0]
    if not offsets and example.ops and name in OF_REPLICAS | OF_SEQUENCES:
        yield (
            "See what the client has on record of each record of that op",
            "SELECT topic, partition, value, offset, outcome, invoke_s, ack_s FROM sends"
            f" WHERE op = {example.ops[0].op} ORDER BY pos",
        )
    if not here or not offsets:
        return
    low, high = max(min(offsets) - AROUND, 0), max(offsets) + AROUND
    if name in OF_REPLICAS | OF_SEQUENCES:
        yield (
            "See which broker’s log has what at these offsets",
            "SELECT base, last, node, leader_epoch, producer_id, producer_epoch, base_sequence, crc"
            f" FROM batches WHERE {here} AND last >= {low} AND base <= {high} ORDER BY base, node",
        )
    elif name in OF_POLLS and example.ops:
        yield (
            "See what the consumer was given, poll by poll",
            "SELECT op, process, offset, invoke_s, complete_s FROM reads"
            f" WHERE {here} AND process = {example.ops[0].process}"
            f" AND offset BETWEEN {low} AND {high} ORDER BY op, offset",
        )


def _others(name: str, traces: Traces) -> Iterator[tuple[str, str]]:
    """What can be done about a finding of any class."""
    inputs = traces.inputs
    folder = shlex.quote(str(inputs.run.folder))
    yield repetition.said("Repeat the run", inputs.verdict.config), inputs.verdict.repro
    if inputs.verdict.faults and not inputs.run.shrunk.exists():
        about = repetition.preserving(inputs.verdict, name)
        yield "Find the fewest faults that still show it", f"inquest recording shrink {about}{folder}"
    if repetition.NAME.fullmatch(name):
        query = f"SELECT partition, process, ops, key FROM findings WHERE anomaly = '{name}'"
        yield "List all its findings", f'inquest sql "{query}" --results {folder}'


def paths(traces: Traces) -> list[tuple[str, str]]:
    """Where to look further: (what, path), those that are there."""
    run = traces.inputs.run
    logs = sorted(run.cluster.glob("*/server.log")) if run.cluster.is_dir() else []
    rows = [("What each client did", run.journal), ("Tables of brokers’ files", run.evidence)]
    found = [(what, str(path)) for what, path in rows if path.is_dir()]
    if logs:
        found.insert(1, ("What brokers logged", f"{run.cluster}/*/server.log"))
    return [*found, ("Everything that was found", str(run.verdict))]
