"""Known bugs of Kafka and its clients, recognised by evidence in the history of a run.

A label explains a finding; it never makes it allowed. A bug is claimed only where its mechanism left
traces: the client's statistics, the durations and outcomes of the ops around it, the exact pattern of
what is missing. A finding that merely resembles one stays open.

Not here: how findings are made (docs/checks.md). docs/known-bugs.md is made of the registry.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from checkers import bugs_in_logs
from checkers.bugs_in_logs import came_after_marker, record_came_late
from checkers.checks.atomicity import TORN
from checkers.checks.durability import LOST, LostWrite
from checkers.checks.isolation import ABORTED, PRECOMMITTED
from checkers.checks.poll_order import SKIP, SKIP_INSIDE, Skipped
from checkers.checks.stability import HANGING, STUCK, HangingTransaction, StuckLso
from checkers.checks.uniqueness import DUPLICATE, Duplicate
from checkers.engine.evidence import Wanted, fetch
from checkers.engine.findings import NEVER, OK, Finding, Shown, What
from checkers.labelled_run import LabelledRun
from checkers.late_end_evidence import late_end, late_end_wanted
from checkers.logs.classes import HANGING as HANGING_PARTITION
from checkers.logs.judgement import LogFinding
from checkers.logs.registry import RULES
from checkers.marker_evidence import (
    late_marker,
    late_marker_wanted,
    left_out,
    left_out_wanted,
    uncommitted,
    uncommitted_wanted,
)
from checkers.transaction_fates import Fates, Suspicion, first_open, unclaimed
from checkers.windows import is_true
from core.session import UNAWAITED
from history.evidence import Evidence
from history.reader import History

STATISTICS_NS: Final = 2_000_000_000
"""Statistics come once a second: they may show a change this much later than it happened."""

VERIFICATION: Final = "transaction.partition.verification.enable"
VERIFIED: Final = (3, 6)
"""First version whose brokers ask the coordinator before they add a transaction's first record."""

Match = Callable[[Suspicion], bool]
LogMatch = Callable[[LabelledRun, LogFinding], bool]


def _nothing(run: LabelledRun, finding: Finding) -> Wanted | None:
    return Wanted()


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBug:
    """One bug; its id is the key in `KNOWN_BUGS`.

    link: what to call its url. versions: where it is. doc: its story, in Markdown. evidence: what a finding
    must show. All four are words of docs/known-bugs.md.
    wanted: the records that `match` needs beside the finding; None = it does not bear the signature.
    in_logs: class of a finding in brokers' logs -> whether it bears the signature.
    """

    title: str
    url: str
    link: str
    versions: str
    doc: str
    evidence: str
    anomalies: tuple[str, ...]
    match: Match = field(repr=False)
    wanted: Callable[[LabelledRun, Finding], Wanted | None] = field(default=_nothing, repr=False)
    in_logs: Mapping[str, LogMatch] = field(default_factory=dict, repr=False)


def labels_of_logs(history: History, evidence: Evidence, findings: Sequence[LogFinding]) -> list[str]:
    """Of each finding in brokers' logs: the id of the known bug whose signature it bears, "" = none.

    Raises: HistoryError, where a file cannot be read.
    """
    run = LabelledRun(history, evidence)

    def label(finding: LogFinding) -> str:
        named = RULES[finding.rule].anomaly if finding.rule in RULES else ""
        matches = ((name, bug.in_logs.get(named)) for name, bug in KNOWN_BUGS.items())
        return next((name for name, match in matches if match and match(run, finding)), "")

    return [label(finding) for finding in findings]


def labels(history: History, evidence: Evidence, findings: Sequence[Finding]) -> list[str]:
    """Of each finding: the id of the known bug whose signature it bears, "" = none.

    Raises: HistoryError, where a file cannot be read.
    """
    run = LabelledRun(history, evidence, [one for one in findings if isinstance(one, Skipped)])
    suspected = [
        (number, name, wanted)
        for number, finding in enumerate(findings)
        for name, bug in KNOWN_BUGS.items()
        if finding.name in bug.anomalies and (wanted := bug.wanted(run, finding)) is not None
    ]
    fetched = fetch(history, (wanted for _, _, wanted in suspected))
    found = [""] * len(findings)
    known: dict[int, Fates] = {}
    for number, name, _ in suspected:
        suspicion = Suspicion(run, findings[number], fetched, known)
        if not found[number] and KNOWN_BUGS[name].match(suspicion):
            found[number] = name
    return found


def _epoch_bump(suspicion: Suspicion) -> bool:
    """A plain idempotent producer bumped its epoch while the record was not acknowledged yet. There is at
    most one more copy for each bump, none was read before the bump, and each has a later epoch than the one
    before it, as far as brokers' logs are known."""
    history, finding = suspicion.history, suspicion.finding
    assert isinstance(finding, Duplicate)
    process = history.processes.get(finding.process)
    sends = finding.only(What.SEND)
    if process is None or not process.idempotent or process.transactional_id or not sends:
        return False
    begin, until = sends[0].invoke_ns, _under_way_until(suspicion, sends[0])
    bumps = [
        later.ns
        # `epoch_cnt` counts answers of InitProducerId; librdkafka raises this epoch without asking
        for earlier, later in pairwise(history.identities(finding.process))
        if later.producer_id == earlier.producer_id and earlier.producer_epoch >= 0
        for _ in range(later.producer_epoch - earlier.producer_epoch)
        if begin <= later.ns <= until + STATISTICS_NS
    ]
    read: dict[int, int] = {}
    for shown in finding.only(What.READ):
        read[shown.offset] = min(shown.done_ns, read.get(shown.offset, NEVER))
    places = sorted({*read, *(one.offset for one in sends if one.offset >= 0)})
    copies = [read.get(place, NEVER) for place in places[1:]]
    return (
        finding.copies == len(places) <= 1 + len(bumps)
        and all(at >= bump - STATISTICS_NS for bump, at in zip(bumps, copies, strict=False))
        and _epochs_rise(suspicion.run, finding.tp, places)
    )


def _epochs_rise(run: LabelledRun, tp: int, places: Sequence[int]) -> bool:
    """Each copy is of the same producer id and of a later epoch than the one before, as far as the logs of
    the end are known."""
    name = run.partition(tp)
    batches = [run.batch(name, place) for place in places]
    known = [(one["producer_id"], one["producer_epoch"]) for one in batches if one is not None]
    return all(one[0] == other[0] and one[1] < other[1] for one, other in pairwise(known))


def _under_way_until(suspicion: Suspicion, sent: Shown) -> int:
    """When a record was acknowledged, or its op ended; of a record without a waiting client: when its client
    gave it up at the latest."""
    if sent.done_ns >= 0:
        return sent.done_ns
    op = suspicion.history.op(sent.op)
    waits_s = suspicion.config.get("verb_deadline_s", 0) if op.error == UNAWAITED else 0
    return op.ended_ns + round(waits_s * 1e9)


def _fresh_partition(suspicion: Suspicion) -> bool:
    """Nothing was acknowledged in the partition when an idempotent producer, with several requests in
    flight, sent the record, which was acknowledged without an offset (by the acknowledgement of a later
    one). Neither it nor an earlier record of that producer was ever read there, and a later one was."""
    finding = suspicion.finding
    assert isinstance(finding, LostWrite)
    process = suspicion.history.processes.get(finding.process)
    if process is None or not process.idempotent or process.in_flight == 1:
        return False
    (sent, *_) = finding.records
    # with an offset, a broker appended it there: what is lost was in the log
    return sent.outcome == OK and sent.offset < 0 and finding.fresh and finding.first


def _unverified(suspicion: Suspicion) -> bool:
    """The transaction that holds the partition's LSO is one that its coordinator does not claim, and
    brokers add records to a partition without asking the coordinator. It begins with a record that no broker
    acknowledged, of a transaction that was not committed; it stands after a younger marker of its producer,
    as far as the log is known. A coordinator that did not answer claims nothing: that proves nothing."""
    finding, run = suspicion.finding, suspicion.run
    assert isinstance(finding, StuckLso | HangingTransaction)
    opened = unclaimed(finding)
    if opened is None or _verifies(suspicion.config):
        return False
    first = first_open(suspicion.history, finding)
    late = bool(first) and all(row.txn and row.outcome != OK and row.op_outcome != OK for row in first)
    tp = run.partition(finding.tp)
    known = run.survivor(tp) is not None
    return late and (not known or came_after_marker(run, tp, opened.start, opened.producer_id))


def _verifies(config: Mapping[str, Any]) -> bool:
    """Brokers ask the coordinator before they add a transaction's first record to a partition."""
    verified = is_true(config.get("broker_settings", {}).get(VERIFICATION, "true"))
    return verified and _version(config) >= VERIFIED


def _unverified_in_logs(run: LabelledRun, finding: LogFinding) -> bool:
    return not _verifies(run.history.config) and record_came_late(run, finding)


def _version(config: Mapping[str, Any]) -> tuple[int, ...]:
    """The version of the brokers, or the era of modelled ones; () = not on record."""
    version = (config.get("kafka") or {}).get("version", "")
    modelled = config.get("simulated") or config.get("model") or {}
    version = version or modelled.get("era", "")
    return tuple(int(part) for part in version.split(".") if part.isdigit())


KNOWN_BUGS: Final[dict[str, KnownBug]] = {
    "librdkafka-4953": KnownBug(
        title="Idempotent producer writes a record twice after an epoch bump",
        url="https://github.com/confluentinc/librdkafka/issues/4953",
        link="librdkafka issue 4953",
        versions="open",
        doc="""\
An OUT_OF_ORDER_SEQUENCE_NUMBER error on one partition makes librdkafka bump its producer epoch for *all*
partitions. A batch of another partition may be written but not yet acknowledged. librdkafka sends it
again under the new epoch, with sequence 0, and the broker appends it a second time.""",
        evidence="The producer is idempotent and not transactional, and its statistics show a raised epoch"
        " (`eos.producer_epoch`) under the same producer id between sending the record and its"
        " acknowledgement. There is at most one more copy for each raise, and none was read before it. Where"
        " brokers' logs are on record, the copies have the same producer id, and each a later epoch than the"
        " one before it.",
        anomalies=(DUPLICATE,),
        match=_epoch_bump,
    ),
    "KAFKA-17754": KnownBug(
        title="A delayed EndTxn ends the producer's next transaction",
        url="https://issues.apache.org/jira/browse/KAFKA-17754",
        link="KAFKA-17754",
        versions="fixed by transaction protocol v2 (KIP-890, KIP-1228), which librdkafka 2.16 does not speak",
        doc="""\
A network delays the request that ends a transaction. The client retries on another connection and
succeeds. The next transaction of the same producer id and epoch begins. Then the first request arrives
and ends *that* one. A read_committed consumer sees a record of an aborted transaction, or a committed
transaction is torn or lost. Only the previous transaction of the same process counts as evidence: a
successor with the same transactional id has raised the epoch, so the late request cannot end its
transaction.

For the same reason an application is safe that makes a new client when a commit times out
(librdkafka issue 5423; `kafka-17754-doubt`), if it hears of the time-out: librdkafka itself asks
again after `socket.timeout.ms` (`kafka-17754-timeout`), which therefore has to be longer than the
application waits; the preset `rebuild-on-doubt` does both. Where the connection is reset, librdkafka asks
again at once (`kafka-17754-commit`): no setting of a client prevents that. Of four runs of 60 s on
real brokers with late EndTxn (workload `transactions`, nemesis `wire:endtxn`, seeds 771 and 772) the
two with `safe` lost records of committed transactions, and the two with `rebuild-on-doubt` none.""",
        evidence="The transaction before it, of the same process, asked for the other ending and took"
        " longer to end than the client waits for one answer (so EndTxn was sent again); and of this"
        " transaction whole partitions are visible while others are not. None that kept its own ending had"
        " an acknowledged record before all of the others had one sent. Or a fault of the nemesis `wire`"
        " held an EndTxn of this process back that asked for the other ending, it reached the coordinator"
        " while this transaction was under way, and the coordinator answered it without an error: what was"
        " acknowledged by then ended as the request asks, what was sent to other partitions afterwards did"
        " not. Either way the log has every record that a broker acknowledged (the final reads at"
        " read_uncommitted show it), and `__transaction_state`, where it is known as a whole, has the"
        " decision that the late request caused. In brokers' logs: the finding is that decision, a marker"
        " by it, or a record that the transaction sent afterwards to a partition that it ended.",
        anomalies=(ABORTED, TORN, LOST, PRECOMMITTED),
        match=late_end,
        wanted=late_end_wanted,
        in_logs=dict.fromkeys(bugs_in_logs.ENDED_LATE, bugs_in_logs.end_came_late),
    ),
    "KAFKA-19446": KnownBug(
        title="A delayed marker ends the producer's next transaction in one partition",
        url="https://issues.apache.org/jira/browse/KAFKA-19446",
        link="KAFKA-19446",
        versions="fixed by KIP-1228 (4.2) for clients of transaction protocol v2, which librdkafka 2.16"
        " does not speak",
        doc="""\
A network delays the request by which a coordinator writes the marker of a transaction to a partition. The
coordinator sends it again on another connection, and completes the transaction. The next transaction of the
same producer id and epoch writes to that partition. Then the first request arrives: the partition's leader
compares epochs only, appends the marker, and ends *that* transaction there. Its records before the marker
get the result of the transaction before: an acknowledged one is lost, or an aborted one becomes visible.
KIP-890 raises the epoch with every end, but the marker has the raised one; since KIP-1228 it also has to be
newer than the transaction that it ends. Without that, on 4.0.2, the good side of the schedule showed the bug
in 3 of 3 runs, too.

Nothing but a partition is needed. It cuts a coordinator off from the leader while markers are in flight, and
the request times out; when the network is healed, TCP delivers the bytes of the old connection, too. Of 100
runs with the preset `safe` on 4.3.1 one met it (workload `transactions`, nemesis `partition`): a
request that was cancelled after 2 s arrived 7 s after it had been sent, 1.4 s after the heal, in the 16th
transaction of its producer since; consumers read 108 times what that one had aborted.

The nemesis `wire:markers` aims at it. The model showed it with clients of transaction version 1 in 3 of 14
runs of 12 s in which the connection of each marker that a rule took was reset (seeds 0, 3 and 5). One run of
60 s on real brokers did not.""",
        evidence="Either a fault of the nemesis `wire` took markers of this producer before the transaction"
        " began, they reached the partition's leader before the next one began, and the leader answered them"
        " without an error. Or brokers' logs show all of this: a coordinator cancelled a WriteTxnMarkers in"
        " flight (`Cancelled in-flight WRITE_TXN_MARKERS request …`), which it had made after the decision of"
        " an earlier transaction and gave up before it completed that one; the partition has the marker of"
        " that decision from that time, and once more, within this transaction, which had no such decision by"
        " then; the second one has the producer id and epoch of both transactions, the leader that appended"
        " it is the broker that the request went to, and its coordinator epoch is that of the node that sent"
        " it. There are no more such markers than requests. In the partitions that they name, records"
        " acknowledged before they came have their result, and those sent after the answer do not (by"
        " brokers' logs: those before the marker, and those behind it); in all others the transaction ended"
        " one way. The log has every acknowledged record (the final reads at read_uncommitted show it). In"
        " brokers' logs: the marker of the finding is that second one, or was written in that partition"
        " between the late request and its answer.",
        anomalies=(LOST, ABORTED, TORN, SKIP, SKIP_INSIDE, PRECOMMITTED),
        match=late_marker,
        wanted=late_marker_wanted,
        in_logs=dict.fromkeys(bugs_in_logs.CAME_LATE, bugs_in_logs.marker_came_late),
    ),
    "KAFKA-15591": KnownBug(
        title="First batches of a fresh partition accepted out of order, the first one lost",
        url="https://issues.apache.org/jira/browse/KAFKA-15591",
        link="KAFKA-15591",
        versions="also KAFKA-14312, KAFKA-19880; brokers 2.5 to 4.4",
        doc="""\
A broker accepts any first sequence number from a producer that it does not know. If it refuses the first
of several batches in flight and accepts the second, librdkafka takes the acknowledgement of the second
for the first too: it reports a record as delivered that is not in the log. The workload `fresh-topic`
looks for this bug. In all other workloads a new idempotent producer sends one record to each partition,
and waits for it, before it pipelines (`first_contact`).

librdkafka reports a record without an offset where it infers the acknowledgement from a later batch. A
record that the broker acknowledged at an offset was in the log: its loss has another cause. The refused
batch may also make the producer bump its epoch, and so double records of other partitions
(librdkafka-4953).""",
        evidence="The producer is idempotent and had several requests in flight, the record was"
        " acknowledged, without an offset, nothing had been acknowledged in the partition when it was"
        " sent, neither the record nor an earlier one of the same producer was ever read there, and a later"
        " one was.",
        anomalies=(LOST,),
        match=_fresh_partition,
    ),
    "KAFKA-14402": KnownBug(
        title="Transaction left open by a record that came after its end (KIP-890, part 1)",
        url="https://issues.apache.org/jira/browse/KAFKA-14402",
        link="KAFKA-14402",
        versions="KIP-890, part 1, also KAFKA-12671; brokers 0.11 to 3.5, and later ones with"
        " `transaction.partition.verification.enable=false`",
        doc="""\
A network delays a produce request of a transaction. The client gives up and aborts, and the partition's
leader writes the marker. Then the request arrives, and the leader appends it. The coordinator knows of no
open transaction and never ends this one: the last stable offset stays there, and read_committed consumers
wait for ever. Since 3.6 brokers ask the coordinator before they append.""",
        evidence="The partition's leader lists an open transaction at the last stable offset, the"
        " coordinator that knows its producer id answered and does not claim it, and brokers do not"
        " verify transactions"
        " (`transaction.partition.verification.enable` is false, or Kafka is older than 3.6). No broker"
        " acknowledged the record at that offset, and its transaction was not committed. Where the"
        " partition's log is on record, and of findings in brokers' logs: the last marker of that producer"
        " stands before the record, and is younger than the record.",
        anomalies=(STUCK, HANGING),
        match=_unverified,
        in_logs={HANGING_PARTITION: _unverified_in_logs},
    ),
    "KAFKA-20734": KnownBug(
        title="Transaction ended without a marker in a partition that had no leader just then",
        url="https://issues.apache.org/jira/browse/KAFKA-20734",
        link="KAFKA-20734",
        versions="brokers 4.3 and later",
        doc="""\
A coordinator sends the markers of a transaction while a partition has no leader. Kafka 4.3 takes that
partition for deleted and completes the transaction without it; earlier versions wait. The partition's
last stable offset stays at the transaction's records until the next transaction of the same producer in
that partition ends: it decides them too. So an acknowledged record is lost, an aborted one becomes
visible, or a partition hangs.

In runs of a workload it takes a cluster with more brokers than replicas, and a fault that stops all
replicas of one partition (`restart:replicas`, `kill:replicas`, `kill:all`). On 4.3.1 with 5 brokers, an
isolated controller and 12 producers, `transactions` under `restart:replicas` showed it in 6 of 6 runs of
60 s, in 2 of 4 shorter ones with 4 producers.""",
        evidence="A coordinator's log says that it left out markers of this transactional id, because it"
        " knew no leader of some partitions (`Couldn't find leader endpoint for partitions …`), after the"
        " transaction began and before a later one of that id had an acknowledgement; all records of a"
        " partition that was left out have one fate, and in all other partitions the transaction ended one"
        " way. The log has every acknowledged record (the final reads at read_uncommitted show it). Of a"
        " transaction that stays open: the line names its id and partition, and the coordinator that knows"
        " its producer id answered and does not claim it. In brokers' logs: the line names the partition of"
        " the finding, and was written between the decision of that transaction and its completion.",
        anomalies=(LOST, ABORTED, TORN, SKIP, SKIP_INSIDE, STUCK, HANGING),
        match=left_out,
        in_logs=dict.fromkeys(bugs_in_logs.LEFT_OUT, bugs_in_logs.marker_left_out),
        wanted=left_out_wanted,
    ),
    "uncommitted-state": KnownBug(
        title="New transaction coordinator acted upon state that was not committed",
        url="findings/uncommitted-transaction-state.md",
        link="the report",
        versions="brokers 2.4 to 4.4",
        doc="""\
A coordinator loads its log to the end, and acts upon records there that are not committed: it tells a
producer that a partition is in its transaction, or sends markers. Its successor was in sync, or eligible
(KIP-966: too few replicas were in sync for anything to be committed), and does not have those records. So
an acknowledged record of an acknowledged commit is hidden or lost, an aborted one becomes visible, or one
half of a transaction is aborted.

In runs of a workload it takes two deaths of coordinators while a follower of their log lags in sync
(`failover:lagging`), with replica.lag.time.max.ms near Kafka's default. On 4.3.1 with 5 brokers, an
isolated controller and 12 producers, `transactions` showed it in 9 of 10 runs of 60 s. The same runs of
the model showed it with 8 of 8 seeds. Of 1,000 seeds of `inquest explore` none met it, and one met
KAFKA-20734.""",
        evidence="Brokers' logs show a coordinator that loaded its log to an offset, and a successor whose"
        " log ended before it and not below the high watermark, while the transaction was under way; the"
        " successor was in sync, or the metadata log calls its election clean. `__transaction_state`, read"
        " whole at the end, does not name the partition in this transaction, which has an acknowledged"
        " record there; or it lacks the decision whose markers a coordinator says that it sent after"
        " loading. In all other partitions the transaction ended one way, and the log has every"
        " acknowledged record (the final reads at read_uncommitted show it). In brokers' logs: the finding"
        " is a decision, an answer or a partition of that transaction that `__transaction_state` lacks; of"
        " a marker, the coordinator that lost its state wrote it. Or, where messages were captured, a"
        " coordinator sent markers of that transaction by a decision that a leader before it had appended,"
        " and could not know that it was committed (`early-act`; it need not harm).",
        anomalies=(LOST, ABORTED, TORN, SKIP, SKIP_INSIDE, STUCK, HANGING),
        match=uncommitted,
        in_logs=dict.fromkeys(bugs_in_logs.WENT_BACK, bugs_in_logs.state_went_back)
        | dict.fromkeys(bugs_in_logs.ACTS, bugs_in_logs.acted_upon_what_it_loaded),
        wanted=uncommitted_wanted,
    ),
}
"""Id -> bug."""
