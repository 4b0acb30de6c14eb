"""The brokers' logs of a run (`cluster/<node>/server.log`), read for what a check needs of them.

A log line counts as evidence only; nothing is judged by it alone.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from core.errors import HistoryError
from history import storage
from history.run_folder import Run, write_atomically

VIRTUAL: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""A simulated run has no wall clock: its logs tell its own time, from here on."""

LEFT_OUT: Final = re.compile(
    r"^(?P<wall>\S+) .*Couldn't find leader endpoint for partitions \w+\((?P<partitions>.*)\)"
    r" while trying to send transaction markers for (?P<id>.+), these partitions are likely deleted"
)
LEADS: Final = re.compile(
    r"^(?P<wall>\S+) .*\[Broker id=(?P<node>\d+)\] Leader __transaction_state-(?P<partition>\d+)"
    r"(?: with topic id .*)? starts at leader epoch (?P<epoch>\d+) from offset (?P<start>\d+) with"
    r"(?: partition epoch \d+,)? high watermark (?P<high>\d+),? ISR \[(?P<isr>[\d, ]*)\]"
)
"""Since Kafka 2.8; before, a leader does not say who is in sync."""
SENT: Final = re.compile(
    r"^(?P<wall>\S+) .*Sending txn markers for \w+[(\[](?:transactionalId=)?(?P<id>.+?),"
    r" ?(?:coordinatorEpoch=)?\d+, ?(?:result=)?(?P<result>COMMIT|ABORT), ?(?:txnMetadata=)?"
    r"TransactionMetadata\(.*?\bproducerId=(?P<producer>\d+),.*?\bproducerEpoch=(?P<epoch>-?\d+),"
    r".*?\btopicPartitions=\w*[\[(](?P<partitions>.*?)[\])],.*?\btxnLastUpdateTimestamp=(?P<updated>\d+)"
    r".* after loading partition (?P<partition>\d+)"
)
CANCELLED: Final = re.compile(
    r"^(?P<wall>\S+) .*\[TransactionCoordinator id=(?P<node>\d+)\] Cancelled in-flight WRITE_TXN_MARKERS"
    r" request with correlation id \d+ due to node (?P<to>\d+) being disconnected"
    r" \(elapsed time since creation: (?P<age>\d+)ms, elapsed time since send: \d+ms,"
)
DELETED: Final = re.compile(
    r"^(?P<wall>\S+) .*\[GroupCoordinator"
    r" (?:id=\d+ topic=__consumer_offsets partition=(?P<partition>\d+)\]|\d+\]:)"
    r" (?:Generated \d+ .* deleting offsets for|Removed \d+ offsets associated with deleted)"
    r" (?P<what>topics|partitions:?) \[?(?P<names>.*?)\]?\.$"
)
LOADED: Final = re.compile(
    r"^(?P<wall>\S+) .*\[(?:GroupMetadataManager brokerId=|Group Metadata Manager on Broker )\d+\]:? Finished"
    r" loading offsets and group metadata from __consumer_offsets-(?P<partition>\d+) "
)
LOADING: Final = re.compile(
    r"^(?P<wall>\S+) .*\[GroupCoordinator id=\d+\] Could not delete offsets for deleted"
    r" (?P<what>topics|partitions) \[(?P<names>.*?)\]? due to: The coordinator is loading"
)
DELETED_TOPIC: Final = re.compile(r"DeletedTopic\[(?:id=(?P<id>[^,\]]+), )?name=(?P<name>[^\]]+)\]?")
REFUSED: Final = re.compile(
    r"\S+UnsupportedVersionException: Received request for api with key 27 \(WriteTxnMarkers\)"
    r" and unsupported version \d+"
)
UNREAD_MEMBER: Final = re.compile(
    r"^(?P<wall>\S+) .*Unexpected error handling request RequestHeader\(apiKey=SHARE_FETCH,.*?"
    r" -- ShareFetchRequestData\(groupId='(?P<group>.*?)', memberId='(?P<member>[^']*[+/][^']*)',"
)
STAMPED: Final = re.compile(r"(?P<wall>\d{4}-\d\d-\d\dT\S+Z) ERROR ")


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedMarkersLine:
    """A broker closed a connection, because a request with markers had a version that it does not know. node:
    the broker. wall: when."""

    node: int
    wall: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutMarkersLine:
    """A coordinator ended a transaction without markers for some partitions: it knew no leader of them.

    node: the coordinator. wall: when. partitions: as `topic-partition`.
    """

    node: int
    wall: datetime
    transactional_id: str
    partitions: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsDeletedLine:
    """A coordinator of groups removed the offsets that groups had in deleted topics, if they had any.

    node: the coordinator. wall: when. partition: of `__consumer_offsets`, -1 = all that it coordinates
    (before Kafka 4.0). topics: name -> id, "" = not said (before 4.3). loading: it did not remove them, since
    it was loading the partition, which the line does not name.
    """

    node: int
    wall: datetime
    partition: int
    topics: Mapping[str, str]
    loading: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsLoadedLine:
    """A coordinator of groups had loaded a partition of `__consumer_offsets` (before Kafka 4.0). node: the
    coordinator. wall: when."""

    node: int
    wall: datetime
    partition: int


def log_lines(run: Run) -> Iterator[tuple[int, list[str]]]:
    """Each broker's log. Raises: HistoryError."""
    for path in sorted(run.cluster.glob("[0-9]*/server.log")):
        try:
            lines = storage.read_bytes(path).decode(errors="replace").splitlines()
        except OSError as error:
            raise HistoryError(f"{path} cannot be read: {storage.line(error)}") from error
        yield int(path.parent.name), lines


def write_virtual(run: Run, node: int, lines: Sequence[tuple[int, str]]) -> None:
    """The log of a simulated node: time in ns and text of each line. No file where there is none.

    Raises: OSError.
    """
    if not lines:
        return
    folder = run.cluster / str(node)
    folder.mkdir(parents=True, exist_ok=True)
    walls = [
        (VIRTUAL + timedelta(microseconds=ns // 1000)).isoformat(timespec="milliseconds") for ns, _ in lines
    ]
    texts = [f"{wall} INFO {text}\n" for wall, (_, text) in zip(walls, lines, strict=True)]
    write_atomically(folder / "server.log", "".join(texts))


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorElected:
    """A broker became leader of a partition of `__transaction_state`, and so the coordinator of its ids.

    start: the end of its log then, up to which it loads. high_watermark: up to where it knew the log to be
    committed. isr: the in-sync replicas then.
    """

    node: int
    wall: datetime
    partition: int
    epoch: int
    start: int
    high_watermark: int
    isr: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkersSent:
    """A coordinator that had loaded a decision sent its markers.

    updated_ms: the time of the decision, as its record in the log has it. partition: of the log. partitions:
    as `topic-partition`.
    """

    node: int
    wall: datetime
    partition: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    updated_ms: int
    partitions: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelledMarkersLine:
    """A coordinator gave up a request with markers that it had sent, and the connection: the request may
    still arrive.

    node: the coordinator. to: the broker that it had sent the request to. made_ms: when it made the request,
    and so fixed what that holds. cancelled_ms: when it gave the request up. Both since 1970.
    """

    node: int
    to: int
    made_ms: int
    cancelled_ms: int


class UnreadMemberLine(NamedTuple):
    """A broker could not answer a ShareFetch of a member whose id has a plus or a slash."""

    wall: datetime
    group: str
    member: str


def unread_member_lines(run: Run) -> list[UnreadMemberLine]:
    """What the logs of brokers of 4.1 say of it. Raises: HistoryError."""
    return [
        UnreadMemberLine(datetime.fromisoformat(match["wall"]), match["group"], match["member"])
        for _, lines in log_lines(run)
        for line in lines
        if "apiKey=SHARE_FETCH" in line and (match := UNREAD_MEMBER.match(line))
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLogs:
    """What the logs of all brokers say; nothing where the run has none. nodes: that have a log."""

    left_out: list[LeftOutMarkersLine]
    elected: list[CoordinatorElected]
    sent: list[MarkersSent]
    cancelled: list[CancelledMarkersLine]
    refused: list[RefusedMarkersLine]
    deleted: list[OffsetsDeletedLine]
    loaded: list[OffsetsLoadedLine]
    nodes: set[int]


def broker_logs(run: Run) -> BrokerLogs:
    """Every line of every broker's log that says one of these.

    Raises: HistoryError.
    """
    logs = BrokerLogs(
        left_out=[], elected=[], sent=[], cancelled=[], refused=[], deleted=[], loaded=[], nodes=set()
    )
    for node, lines in log_lines(run):
        logs.nodes.add(node)
        for at, line in enumerate(lines):  # a search for plain words is fast, and few lines have them
            if "Couldn't find leader endpoint" in line and (match := LEFT_OUT.match(line)):
                logs.left_out.append(_left_out(node, match))
            elif " Leader __transaction_state-" in line and (match := LEADS.match(line)):
                logs.elected.append(_elected(match))
            elif "Sending txn markers for " in line and (match := SENT.match(line)):
                logs.sent.append(_sent(node, match))
            elif "Cancelled in-flight WRITE_TXN_MARKERS " in line and (match := CANCELLED.match(line)):
                logs.cancelled.append(_cancelled(match))
            elif "(WriteTxnMarkers) and unsupported version" in line and REFUSED.match(line):
                logs.refused.extend(_refused(node, lines[at - 1]))  # an exception stands below its line
            elif "[GroupCoordinator " in line and (match := DELETED.match(line) or LOADING.match(line)):
                logs.deleted.append(_deleted(node, match))
            elif " Finished loading offsets " in line and (match := LOADED.match(line)):
                wall, partition = datetime.fromisoformat(match["wall"]), int(match["partition"])
                logs.loaded.append(OffsetsLoadedLine(node=node, wall=wall, partition=partition))
    return logs


def _left_out(node: int, match: re.Match[str]) -> LeftOutMarkersLine:
    return LeftOutMarkersLine(
        node=node,
        wall=datetime.fromisoformat(match["wall"]),
        transactional_id=match["id"],
        partitions=frozenset(match["partitions"].split(", ")),
    )


def _elected(match: re.Match[str]) -> CoordinatorElected:
    return CoordinatorElected(
        node=int(match["node"]),
        wall=datetime.fromisoformat(match["wall"]),
        partition=int(match["partition"]),
        epoch=int(match["epoch"]),
        start=int(match["start"]),
        high_watermark=int(match["high"]),
        isr=frozenset(map(int, re.findall(r"\d+", match["isr"]))),
    )


def _sent(node: int, match: re.Match[str]) -> MarkersSent:
    return MarkersSent(
        node=node,
        wall=datetime.fromisoformat(match["wall"]),
        partition=int(match["partition"]),
        transactional_id=match["id"],
        producer_id=int(match["producer"]),
        producer_epoch=int(match["epoch"]),
        commit=match["result"] == "COMMIT",
        updated_ms=int(match["updated"]),
        partitions=frozenset(filter(None, match["partitions"].split(", "))),
    )


def _refused(node: int, line: str) -> Iterator[RefusedMarkersLine]:
    """line: the one above the exception."""
    if match := STAMPED.match(line):
        yield RefusedMarkersLine(node=node, wall=datetime.fromisoformat(match["wall"]))


def _deleted(node: int, match: re.Match[str]) -> OffsetsDeletedLine:
    if match["what"] == "topics":
        topics = {one["name"]: one["id"] or "" for one in DELETED_TOPIC.finditer(match["names"])}
    else:
        topics = {one.rpartition("-")[0]: "" for one in match["names"].split(", ")}
    loading = match.re is LOADING
    return OffsetsDeletedLine(
        node=node,
        wall=datetime.fromisoformat(match["wall"]),
        partition=-1 if loading or match["partition"] is None else int(match["partition"]),
        topics=topics,
        loading=loading,
    )


def _cancelled(match: re.Match[str]) -> CancelledMarkersLine:
    cancelled_ms = round(datetime.fromisoformat(match["wall"]).timestamp() * 1000)
    return CancelledMarkersLine(
        node=int(match["node"]),
        to=int(match["to"]),
        made_ms=cancelled_ms - int(match["age"]),
        cancelled_ms=cancelled_ms,
    )
