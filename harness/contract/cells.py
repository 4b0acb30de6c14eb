"""Cells of a scenario's table, read by requests: from a real broker and from the model's alike.

The tables of docs/model show what is inside of the model. Here each column is a question that a client can
ask: the log is what a fetch brings, a transaction's state is what its coordinator describes. A column
that no client can ask for is HIDDEN.

Producer ids differ between the two; they are renamed in the order in which they appear (`Aliases`).
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from core.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC
from model.coordinator.consumer_group_records import (
    EXPRESSION,
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupRegularExpression,
    GroupTombstone,
)
from model.coordinator.group_coordinator import DEAD
from model.errors import KafkaError
from model.log.unified_log import ABORT, RecordBatch
from model.protocol.consumer_group_messages import ConsumerGroupDescribe, ConsumerGroupDescribeResponse
from model.protocol.coordinator_messages import (
    DescribedTransaction,
    DescribeGroup,
    DescribeProducers,
    DescribeTransactions,
)
from model.protocol.messages import Fetch, FetchedPartition, FetchPartition, ListOffsets, Partition
from scenarios.drivers import clients, partition, raw_consumer_member, raw_member, raw_producer
from scenarios.drivers.cluster import GROUP, ClusterStage, brief, data
from scenarios.framework import AnyScenario, cell

Column = Callable[[Any, str], object]

STAGES: Final[Mapping[type[ClusterStage], Mapping[str, Column]]] = {
    raw_producer.RawProducerStage: raw_producer.COLUMNS,
    raw_member.RawMemberStage: raw_member.COLUMNS,
    raw_consumer_member.RawConsumerStage: raw_consumer_member.COLUMNS,
    clients.ClientStage: clients.COLUMNS,
    partition.PartitionStage: partition.COLUMNS,
}
"""Kinds of stages that have a real counterpart -> what their tables can show."""


class Aliases:
    """Names of producer ids in the order in which one side's table shows them."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def row(self, cells: tuple[str, ...]) -> tuple[str, ...]:
        """A row with ids renamed: "Ongoing 2/0" to "Ongoing id1/0"."""
        return tuple(ID.sub(self._named, text) for text in cells)

    def _named(self, found: re.Match[str]) -> str:
        return self._names.setdefault(found[0], f"id{len(self._names) + 1}")


ID: Final = re.compile(r"\b\d+(?=/-?\d)|(?<=\()\d+(?=, \d+, )")
"""In "Ongoing 2/0", and in the aborted index "(2, 0, 4)"."""


def _fetched(s: ClusterStage, tp: Partition, *, committed: bool = False) -> FetchedPartition | str:
    """All of a partition, by the word of its leader."""
    node = s.leader(tp)
    if node not in s.nodes:
        return "down"
    _, start = s.ask(ListOffsets((tp,), earliest=True), to=node).parts[tp]
    request = Fetch(-1, {tp: FetchPartition(max(start, 0))}, committed=committed, max_wait_ms=0)
    part = s.ask(request, to=node).parts[tp]
    return part if part.error is KafkaError.NONE else part.error.name


def _of(show: Callable[[FetchedPartition], object]) -> Column:
    """Of partition 0, or of the one that is named."""

    def column(s: ClusterStage, number: str) -> object:
        found = _fetched(s, data(int(number or 0)))
        return found if isinstance(found, str) else show(found)

    return column


def _aborted(s: ClusterStage, _: str) -> object:
    """(producer id, first offset, offset of the marker): the last one as the log has it."""
    found, whole = _fetched(s, data(0), committed=True), _fetched(s, data(0))
    if isinstance(found, str) or isinstance(whole, str):
        return found

    def ends(batch: RecordBatch, producer_id: int, first: int) -> bool:
        return batch.control == ABORT and batch.producer_id == producer_id and batch.base > first

    ended = (
        (a.producer_id, a.first, next(b.base for b in whole.batches if ends(b, a.producer_id, a.first)))
        for a in found.aborted
    )
    return [f"({producer_id}, {first}, {last})" for producer_id, first, last in sorted(ended)]


def _known(s: raw_producer.RawProducerStage, _: str) -> object:
    """Epoch and newest sequence: a leader does not tell clients more of a producer."""
    tp = data(0)
    if s.leader(tp) not in s.nodes:
        return None
    answer = s.ask(DescribeProducers((tp,)), to=s.leader(tp))
    known = {one.producer_id: one for one in answer.parts[tp]}
    one = known.get(s.writers["A"].producer_id)
    return f"{one.epoch}: … {one.last_sequence}" if one is not None else None


def _transaction(show: Callable[[DescribedTransaction], object]) -> Column:
    """As the coordinator of transactional id t describes it."""

    def column(s: ClusterStage, _: str) -> object:
        node = s.coordinator("t", TRANSACTION_TOPIC)
        if node not in s.nodes:
            return None
        found = s.ask(DescribeTransactions(("t",)), to=node).transactions["t"]
        if found.error is KafkaError.TRANSACTIONAL_ID_NOT_FOUND:
            return None
        return show(found) if found.error is KafkaError.NONE else found.error

    return column


def _states(s: ClusterStage, key: str) -> object:
    """What the transaction log has of a transactional id, t by default."""
    key = key or "t"
    found = _fetched(s, (TRANSACTION_TOPIC, s.number(key, TRANSACTION_TOPIC)))
    if isinstance(found, str):
        return found
    records: list[Any] = [record for batch in found.batches for record in batch.records]
    return [record.state.value for record in records if record.transactional_id == key]


def _described(s: raw_member.RawMemberStage) -> tuple[str | None, list[str]]:
    """State of the group, and its members."""
    answer = s.ask(DescribeGroup(GROUP), to=s.coordinator(GROUP, GROUP_TOPIC))
    return (answer.state if answer.state != DEAD else None), list(answer.members)


def _members(s: raw_member.RawMemberStage, _: str) -> object:
    """Members by name; DescribeGroups does not tell who leads."""
    state, members = _described(s)
    return sorted(map(s.alias, members)) if state is not None else None


def _group_records(s: ClusterStage) -> list[object] | str:
    """What `__consumer_offsets` has of the group, by the word of the leader."""
    found = _fetched(s, (GROUP_TOPIC, s.number(GROUP, GROUP_TOPIC)))
    if isinstance(found, str):
        return found
    records: list[object] = [record for batch in found.batches for record in batch.records]
    return [record for record in records if getattr(record, "group", None) == GROUP]


def _group_log(brief: Callable[[object], str]) -> Column:
    """Of the group, each record in few words."""

    def column(s: ClusterStage, _: str) -> object:
        found = _group_records(s)
        return found if isinstance(found, str) else list(map(brief, found))

    return column


def _consumer_group(s: raw_consumer_member.RawConsumerStage) -> ConsumerGroupDescribeResponse | None:
    """As its coordinator describes it."""
    node = s.coordinator(GROUP, GROUP_TOPIC)
    if node not in s.nodes:
        return None
    answer = s.ask(ConsumerGroupDescribe(GROUP), to=node)
    return answer if answer.error is not KafkaError.GROUP_ID_NOT_FOUND else None


def _consumers(s: raw_consumer_member.RawConsumerStage, _: str) -> object:
    """State and epoch of the group."""
    group = _consumer_group(s)
    return f"{group.state} {group.epoch}" if group is not None else None


def _consumer(s: raw_consumer_member.RawConsumerStage, name: str) -> object:
    """A member as the coordinator describes it, with its state and what it has still to give up, which only
    the log has."""
    group, mine, records = _consumer_group(s), s.consumers.get(name), _group_records(s)
    if group is None or mine is None or mine.member not in group.members or isinstance(records, str):
        return None
    described = group.members[mine.member]
    logged = [
        one
        for one in records
        if isinstance(one, ConsumerGroupCurrentMemberAssignment) and one.member == mine.member
    ]
    if not logged:
        return f"{described.epoch}: not in the log"
    has, going = (tuple(tp for tp, _ in held) for held in (logged[-1].assigned, logged[-1].revoking))
    expected = (*has, *going) if s.settings.era.revoking_described else has
    if sorted(described.assigned) != sorted(expected):
        return f"described {sorted(described.assigned)}, logged {sorted(expected)}"
    return raw_consumer_member.in_words(described.epoch, has, going, logged[-1].state)


def _expression(s: ClusterStage, regex: str) -> object:
    """The topics that an expression stands for, by the newest record of it."""
    topics: object = None
    for record in _group_records(s):
        match record:
            case ConsumerGroupRegularExpression(_, name, found) if name == regex:
                topics = sorted(found)
            case GroupTombstone(what, _, _, name) if what == EXPRESSION and name == regex:
                topics = None
    return topics


ASKED: Final[Mapping[str, Column]] = {
    r"log(?: p(\d))?": _of(lambda part: brief(part.batches)),
    "HW": _of(lambda part: part.high_watermark),
    r"LSO(?: p(\d))?": _of(lambda part: part.stable),
    "aborted index": _aborted,
    "epoch: sequences known": _known,
    "coordinator": _transaction(lambda t: f"{t.state} {t.producer_id}/{t.producer_epoch}"),
    "partitions": _transaction(
        lambda t: sorted("offsets" if topic == GROUP_TOPIC else f"{topic}{n}" for topic, n in t.partitions)
    ),
    "transaction log": _states,
    r"log of (\w)": _states,
    "group": lambda s, _: _described(s)[0],
    "members": _members,
    r"offsets log(?: at (\d))?": _group_log(raw_member.brief),
    "consumer group": _consumers,
    r"member ([A-Z]\d?)": _consumer,
    r"expression (.+)": _expression,
    r"consumers log(?: at (\d))?": _group_log(raw_consumer_member.brief),
}
"""The driver's pattern of a column -> the question that stands for it."""

AS_IT_IS: Final = (
    # Answers that clients received, and what they know.
    *("producer", r"([A-Z]) learns", r"([a-z]\d?)", "others learn", r"([A-Z])"),
    *("requests", r"([A-Z]) knows", r"([A-Z]) has", "position", "commit", "processed", "end"),
    # What the driver asks for by requests.
    *("read_uncommitted", r"read_committed(?: p(\d))?", r"read_committed from (\d)"),
    *("offset of in", "offset p0", "committed", "leader", "led by"),
    # Of a partition and its replicas: by the requests of `harness.contract.replicas`.
    *(
        "AR",
        "adding",
        "removing",
        "ISR",
        "ELR",
        "leader epoch",
        "partition",
        "running",
        r"LEO (\d)",
        r"HW (\d)",
        r"log (\d)",
        r"epochs (\d)",
        r"fetch of (\d)",
    ),
    *(r"leader, as (\d) knows", "consumers see", "controller's answer", "consumer", "produce"),
    *(r"([a-d])(?:: acks=\w+)?", "acknowledged"),
)
"""Columns that the driver itself fills without a look into a broker."""

INSIDE: Final = (
    *("partition epoch", r"broker epoch of (\d)", r"(\d) is fenced"),
    *(r"flushed (\d)", r"ISR at (\d)", r"remote LEO (\d)", r"of (\d), at 2"),
    *("asked for", "HW waits for"),
)
"""Columns of a partition that no request tells, or none that the harness has: they are not compared."""
HIDDEN: Final = ""
"""Their cells."""

PARTLY: Final = ("epoch: sequences known", "group", "members")
"""Columns that show less when they are read by requests."""


def _column(stage: type[ClusterStage], name: str) -> tuple[str, Column | None, str]:
    """The driver's pattern of a column, the question, and what the pattern's group matched."""
    for pattern, own in STAGES[stage].items():
        if found := re.fullmatch(pattern, name):
            show = ASKED.get(pattern) or (own if pattern in AS_IT_IS else None)
            return pattern, show, "".join(found.groups(""))
    raise KeyError(name)


def hidden_columns(scenario: AnyScenario, stage: type[ClusterStage]) -> tuple[str, ...]:
    """Headings of a table whose cells no request tells: they are not compared."""
    return tuple(heading for heading, name in scenario.columns.items() if _column(stage, name)[1] is None)


def row(scenario: AnyScenario, stage: type[ClusterStage], s: ClusterStage) -> tuple[str, ...]:
    """The cells now. Raises: KeyError, for a column that is unreadable."""
    s.flow()
    cells = []
    for name in scenario.columns.values():
        pattern, show, group = _column(stage, name)
        if show is None and pattern not in INSIDE:
            raise KeyError(name)
        cells.append(cell(show(s, group)) if show is not None else HIDDEN)
    return tuple(cells)
