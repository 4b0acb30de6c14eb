"""Known bugs of Kafka and its clients, recognised by evidence in the history of a run.

A label explains a finding; it never makes it allowed. A bug is claimed only where its mechanism left
traces: the client's statistics, the durations and outcomes of the ops around it, the exact pattern of
what is missing. A finding that merely resembles one stays open.

Not here: how findings are made (docs/checks.md), the bugs' stories (docs/known-bugs.md).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np

from checkers.kernel_types import FAIL, OK, RC, Finding
from checkers.lookup import Lookup, Row, ended_ns
from checkers.rules import is_true, pipelined
from checkers.stability import open_transactions

STATISTICS_NS: Final = 2_000_000_000
"""Statistics come once a second: a change may be told this much later than it happened."""
SOCKET_TIMEOUT_MS: Final = 3000
"""`socket.timeout.ms` that the harness gives its producers unless told otherwise."""

LATER: Final = 64
"""Later records of the producer that are looked up; of the earlier ones, all."""

VERIFICATION: Final = "transaction.partition.verification.enable"
VERIFIED: Final = (3, 6)
"""First version whose brokers ask the coordinator before they add a transaction's first record."""

Match = Callable[[Lookup, Finding, Mapping[str, Any]], bool]
"""(run, finding, settings of the run) -> whether the finding bears the bug's signature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBug:
    """One bug; its id is the key in `KNOWN_BUGS`. evidence: what a finding must show, in words."""

    title: str
    url: str
    evidence: str
    anomalies: tuple[str, ...]
    match: Match = field(repr=False)


def label(lookup: Lookup, finding: Finding, config: Mapping[str, Any]) -> str:
    """Id of the known bug whose signature the finding bears, "" = none."""
    for name, bug in KNOWN_BUGS.items():
        if finding.name in bug.anomalies and bug.match(lookup, finding, config):
            return name
    return ""


def _epoch_bump(lookup: Lookup, finding: Finding, config: Mapping[str, Any]) -> bool:
    """A plain idempotent producer bumped its epoch while the record was not acknowledged yet."""
    process = lookup.process(finding.process)
    if not process or not process["idempotent"] or process["transactional_id"]:
        return False
    sends = lookup.sends_to(finding.tp)
    row = int(np.flatnonzero(sends["value"] == finding.key[1])[0])
    begin, acked = int(sends["invoke_ns"][row]), int(sends["ack_ns"][row])
    until = acked if acked >= 0 else ended_ns(lookup.op(int(sends["op"][row])))
    known = lookup.identities(finding.process)
    return any(
        later["epoch_cnt"] > earlier["epoch_cnt"] >= 1
        and later["producer_id"] == earlier["producer_id"]
        and begin <= later["ns"] <= until + STATISTICS_NS
        for earlier, later in pairwise(known)
    )


def _late_end(lookup: Lookup, finding: Finding, config: Mapping[str, Any]) -> bool:
    """The transaction before this one, of the same process, asked for the other ending, so slowly that
    the client asked again; and what became of this one differs by partition.

    Not across processes: whoever initialises the transactional id raises its epoch, and a request of
    the epoch before ends nothing any more.
    """
    op = lookup.op(finding.ops[0])
    if not op["txn"] or op["outcome"] not in (OK, FAIL):
        return False
    before = lookup.previous_transaction(op)
    if before is None:
        return False
    asked = {OK} if before["outcome"] == OK else {FAIL} if before["outcome"] == FAIL else set()
    if before["outcome"] == FAIL and not before["deliberate"] and before["why"]:
        asked.add(OK)  # it asked for a commit, that failed, and then for the abort
    if (FAIL if op["outcome"] == OK else OK) not in asked:
        return False
    return _asked_again(lookup, before, config) and _split_by_partition(lookup, op)


def _asked_again(lookup: Lookup, op: Row, config: Mapping[str, Any]) -> bool:
    """Ending the transaction took longer than the client waits for one answer."""
    settings = config.get("client_settings", {})
    waits = settings.get("producer.socket.timeout.ms", settings.get("socket.timeout.ms"))
    waits_ns = int(waits or SOCKET_TIMEOUT_MS) * 1_000_000
    if ended_ns(op) - int(op["invoke_ns"]) < waits_ns:
        return False  # not even the whole of it took so long
    sends, reads = lookup.of_ops(op["op"])
    last = max((int(row["ack_ns"]) for row in sends), default=-1)
    last = max(last, *(int(row["complete_ns"]) for row in reads), int(op["invoke_ns"]))
    return ended_ns(op) - last >= waits_ns


def _split_by_partition(lookup: Lookup, op: Row) -> bool:
    """In some partitions all of its records are visible, in the others none."""
    own = [row for row in lookup.of_ops(op["op"])[0] if row["outcome"] == OK]
    _, reads = lookup.of_values(*(row["value"] for row in own))
    visible = {
        (r["tp"], r["value"])
        for r in reads
        if r["isolation"] == RC and r["op"] != op["op"]
    }  # fmt: skip
    by_tp: dict[int, set[bool]] = {}
    for row in own:
        by_tp.setdefault(row["tp"], set()).add((row["tp"], row["value"]) in visible)
    return (
        {True} in by_tp.values()
        and {False} in by_tp.values()
        and {True, False} not in (by_tp.values())
    )


def _fresh_partition(lookup: Lookup, finding: Finding, config: Mapping[str, Any]) -> bool:
    """Nothing was acknowledged in the partition when an idempotent producer, with several requests under
    way, sent the record, which was acknowledged without an offset (by the acknowledgement of a later
    one); no earlier record of that producer is there, and a later one is."""
    process = lookup.process(finding.process)
    if not process or not process["idempotent"] or not pipelined(config.get("client_settings", {})):
        return False
    sends = lookup.sends_to(finding.tp)
    value = finding.key[1]
    row = int(np.flatnonzero(sends["value"] == value)[0])
    if sends["offset"][row] >= 0:
        return False  # a broker appended it there: what is lost was in the log
    acks = sends["ack_ns"][sends["ack_ns"] >= 0]
    if bool((acks < sends["invoke_ns"][row]).any()):
        return False
    mine = np.sort(sends["value"][sends["process"] == finding.process])
    later = mine[mine > value][:LATER]
    _, reads = lookup.of_values(*mine[mine < value].tolist(), *later.tolist())
    there = [read["value"] for read in reads if read["tp"] == finding.tp]
    return bool(there) and min(there) > value


def _unverified(lookup: Lookup, finding: Finding, config: Mapping[str, Any]) -> bool:
    """The transaction that holds the partition's LSO is one that its coordinator does not claim, and
    brokers add records to a partition without asking the coordinator. A coordinator that did not
    answer claims nothing: that is no evidence."""
    verified = is_true(config.get("broker_settings", {}).get(VERIFICATION, "true"))
    if verified and _version(config.get("kafka", "")) >= VERIFIED:
        return False
    name = lookup.tp(finding.tp)
    rows = [
        row
        for row in open_transactions(lookup.sealed.events)
        if f"{row.topic}-{row.partition}" == name
    ]
    if finding.name == "hanging-txn":
        own = finding.key[1], finding.detail["start"]
        rows = [row for row in rows if (row.producer_id, row.start) == own]
    else:
        rows = [row for row in rows if row.start >= finding.detail["lso"]]
    first = min(rows, key=lambda row: row.start, default=None)
    return first is not None and not first.transactional_id and first.coordinator >= 0


def _version(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


KNOWN_BUGS: Final[dict[str, KnownBug]] = {
    "librdkafka-4953": KnownBug(
        title="Idempotent producer writes a record twice after an epoch bump",
        url="https://github.com/confluentinc/librdkafka/issues/4953",
        evidence="The producer is idempotent and not transactional, and its statistics show a raised epoch"
        " counter (`eos.epoch_cnt`) under the same producer id between sending the record and its"
        " acknowledgement.",
        anomalies=("duplicate",),
        match=_epoch_bump,
    ),
    "KAFKA-17754": KnownBug(
        title="A delayed EndTxn ends the producer's next transaction",
        url="https://issues.apache.org/jira/browse/KAFKA-17754",
        evidence="The transaction before it, of the same process, asked for the other ending and"
        " took longer to end than the client waits for one answer (so EndTxn was sent again); and of"
        " this transaction whole partitions are visible while others are not.",
        anomalies=("aborted-read", "torn-txn", "lost-write"),
        match=_late_end,
    ),
    "KAFKA-15591": KnownBug(
        title="First batches of a fresh partition accepted out of order, the first one lost",
        url="https://issues.apache.org/jira/browse/KAFKA-15591",
        evidence="The producer is idempotent and had several requests under way, the record was"
        " acknowledged without an offset, nothing had been acknowledged in the partition when it was"
        " sent, no earlier record of the same producer is in the log there, and a later one is.",
        anomalies=("lost-write",),
        match=_fresh_partition,
    ),
    "KAFKA-14402": KnownBug(
        title="Transaction left open by a record that came after its end (KIP-890, part 1)",
        url="https://issues.apache.org/jira/browse/KAFKA-14402",
        evidence="The partition's leader lists an open transaction at the last stable offset, the"
        " coordinator that knows its producer id answered and does not claim it, and brokers do not"
        " verify transactions"
        " (`transaction.partition.verification.enable` is false, or Kafka is older than 3.6).",
        anomalies=("stuck-lso", "hanging-txn"),
        match=_unverified,
    ),
}
"""Id -> bug."""
