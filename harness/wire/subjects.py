"""Whom and what a request concerns: transactional ids, groups, partitions, producers. Rules ask for it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from core.op import TopicPartition
from harness.protocol.frames import FrameError, RequestHeader, fetching_replica
from harness.protocol.payloads import API_KEYS, Message, decode_request, request_type


@dataclass(frozen=True, slots=True)
class Subjects:
    """What one request names. Partitions that it names by the id of a topic are not among them. producers: of
    markers, by id and epoch, `producer 2000/0`. followers: the broker that sent a Fetch, `broker 2`."""

    transactional_ids: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    partitions: frozenset[TopicPartition] = frozenset()
    producers: frozenset[str] = frozenset()
    followers: frozenset[str] = frozenset()

    def __str__(self) -> str:
        partitions = (f"{tp.topic}-{tp.partition}" for tp in sorted(self.partitions))
        named = (self.followers, self.transactional_ids, self.producers, self.groups)
        return ", ".join([*(name for some in named for name in sorted(some)), *partitions])


NOTHING: Final = Subjects()


def subjects(frame: bytes, header: RequestHeader) -> Subjects:
    """What a request names; nothing, where it cannot be read, or is of an API whose requests no rule asks."""
    read = _READERS.get(header.api_key)
    kind = request_type(header.api_key, header.version)
    try:
        found = read(decode_request(frame, kind)) if read is not None and kind is not None else NOTHING
        if header.api_key == API_KEYS["fetch"] and header.version < 15:  # kio knows none before 4
            found = replace(found, followers=_follower(fetching_replica(frame, header)))
        return found
    except FrameError:
        return NOTHING


def _named(values: Iterable[str | None]) -> frozenset[str]:
    return frozenset(str(value) for value in values if value)


def _partitions(topics: Iterable[object]) -> Iterator[TopicPartition]:
    """Topics of requests have their name in `name` or `topic`, or an id alone; partitions are numbers, or
    structs that have the number under one of three names."""
    for topic in topics:
        name = getattr(topic, "name", None) or getattr(topic, "topic", None)
        parts = getattr(topic, "partition_data", None) or getattr(topic, "partitions", None) or ()
        for part in parts if name is not None else ():
            yield TopicPartition(str(name), part if isinstance(part, int) else _number(part))
        for number in getattr(topic, "partition_indexes", ()):
            yield TopicPartition(str(name), number)


def _number(part: object) -> int:
    found = (getattr(part, name, None) for name in ("partition_index", "index", "partition"))
    return int(next(number for number in found if number is not None))


def _produce(request: Message) -> Subjects:
    ids = _named([request.transactional_id])
    return Subjects(transactional_ids=ids, partitions=frozenset(_partitions(request.topic_data)))


def _of_topics(request: Message) -> Subjects:
    return Subjects(partitions=frozenset(_partitions(request.topics)))


def _follower(replica: int) -> frozenset[str]:
    return frozenset([f"broker {replica}"] if replica >= 0 else [])


def _fetch(request: Message) -> Subjects:
    state = getattr(request, "replica_state", None)
    followers = _follower(state.replica_id if state is not None else -1)
    return replace(_of_topics(request), followers=followers)


def _of_id(request: Message) -> Subjects:
    return Subjects(transactional_ids=_named([request.transactional_id]))


def _add_partitions(request: Message) -> Subjects:
    """Before version 4 of one transactional id; from then on, between brokers, of several."""
    if hasattr(request, "transactions"):
        ids = _named(one.transactional_id for one in request.transactions)
        every = (tp for one in request.transactions for tp in _partitions(one.topics))
        return Subjects(transactional_ids=ids, partitions=frozenset(every))
    ids = _named([request.v3_and_below_transactional_id])
    return Subjects(transactional_ids=ids, partitions=frozenset(_partitions(request.v3_and_below_topics)))


def _add_offsets(request: Message) -> Subjects:
    return Subjects(transactional_ids=_named([request.transactional_id]), groups=_named([request.group_id]))


def _txn_offsets(request: Message) -> Subjects:
    partitions = frozenset(_partitions(request.topics))
    return Subjects(_named([request.transactional_id]), _named([request.group_id]), partitions)


def _markers(request: Message) -> Subjects:
    every = (tp for marker in request.markers for tp in _partitions(marker.topics))
    producers = (f"producer {marker.producer_id}/{marker.producer_epoch}" for marker in request.markers)
    return Subjects(partitions=frozenset(every), producers=frozenset(producers))


def _of_group(request: Message) -> Subjects:
    partitions = frozenset(_partitions(getattr(request, "topics", None) or ()))
    return Subjects(groups=_named([request.group_id]), partitions=partitions)


_READERS: Final[dict[int, Callable[[object], Subjects]]] = {
    API_KEYS[name]: read
    for name, read in {
        "produce": _produce,
        "fetch": _fetch,
        "list_offsets": _of_topics,
        "init_producer_id": _of_id,
        "end_txn": _of_id,
        "add_partitions_to_txn": _add_partitions,
        "add_offsets_to_txn": _add_offsets,
        "txn_offset_commit": _txn_offsets,
        "write_txn_markers": _markers,
        "offset_commit": _of_group,
        "heartbeat": _of_group,
        "join_group": _of_group,
        "sync_group": _of_group,
        "consumer_group_heartbeat": _of_group,
    }.items()
}
