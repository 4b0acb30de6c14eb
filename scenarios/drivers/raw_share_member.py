"""A stage with members of the share group "g" who send by hand what share consumers send automatically.

    s.fetches("A")                 ShareFetch of partition 0 to its leader; the first one begins a session
    s.says("A", "accept", 0, 3)    ShareAcknowledge of offsets 0 to 3, to the broker that gave them
    s.hangs_up("A")                the connection of A's session breaks

What each was answered stands in `told`, as in `raw_producer`. States are of the leader of partition 0, by
offset: "A:1" = acquired by A, delivered once; "free:1" = available, delivered once; "acc", "arch" =
acknowledged, archived; "letter" = its dead letter is being written; "…" = a change that is not stored yet.
A letter is "0=m0:1": of offset 0, with a copy of m0, delivered once; "–" for a copy = headers only.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Final, Self

from core.internal_topics import SHARE_STATE_TOPIC
from core.java_hash import java_hash
from model.errors import KafkaError, Refused
from model.protocol.share_messages import (
    AcknowledgementBatch,
    AcknowledgeType,
    ShareAcknowledge,
    ShareAcknowledgeResponse,
    ShareFetch,
    ShareFetchResponse,
)
from model.settings import Settings
from model.share.dead_letter_queue import LetterRecord
from model.share.record_states import RecordState
from model.share.share_coordinator import ShareGroupOffset, ShareSnapshot, ShareUpdate, key_of
from model.share.share_partition import InFlightState, SharePartition
from scenarios.drivers import raw_producer
from scenarios.drivers.cluster import GROUP, data
from scenarios.drivers.raw_producer import RawProducerStage, named
from scenarios.framework import look

SHORT: Final = {
    RecordState.AVAILABLE: "free",
    RecordState.ACKNOWLEDGED: "acc",
    RecordState.ARCHIVING: "letter",
    RecordState.ARCHIVED: "arch",
}
TP: Final = data(0)


class RawShareStage(RawProducerStage):
    """See the module."""

    def __init__(
        self,
        settings: Settings | None = None,
        partitions: Sequence[Sequence[int]] = ((1,), (1,)),
        coordinators: Sequence[int] = (1,),
    ) -> None:
        super().__init__(settings, partitions, coordinators)
        self.create(SHARE_STATE_TOPIC, [coordinators] * 3)
        if queue := self.settings.share_letters:
            self.create(queue, [coordinators])
        self.wait(200)

    @cached_property
    def sessions(self) -> dict[str, tuple[int, int]]:
        """By member: the broker of its newest session, and the epoch of its next request."""
        return {}

    # ---- state

    @property
    def state_partition(self) -> int:
        """The partition of `__share_group_state` that has the state of partition 0."""
        return java_hash(key_of(GROUP, TP)) % 3

    def led(self, node: int = -1) -> SharePartition | None:
        """Partition 0 of the group, as its leader has it, or a broker that believes to be that."""
        broker = self.nodes.get(node if node >= 0 else self.leader(TP))
        found = broker.share_groups.leader.led.get((GROUP, TP)) if broker is not None else None
        return found.share if found is not None and found.ready else None

    @property
    def stored(self) -> ShareGroupOffset | None:
        """What the share coordinator has of it."""
        broker = self.nodes.get(self.leader((SHARE_STATE_TOPIC, self.state_partition)))
        if broker is None:
            return None
        try:
            return broker.share_groups.state.at(GROUP, TP)[1]
        except Refused:
            return None

    def look(self, column: str) -> object:
        """See `framework.Stage`."""
        return look(COLUMNS, self, column)

    # ---- what members do

    def fetches(self, name: str, *, to: int = -1, most: int = 500) -> Self:
        """See the module. to: a broker, the leader by default. most: records at most, of whole batches."""
        node, epoch = self.sessions.get(name, (-1, 0))
        target = to if to >= 0 else self.leader(TP)
        epoch = epoch if node == target else 0
        self.sessions[name] = (target, epoch + 1)
        request = ShareFetch(GROUP, name, epoch, (TP,), most=most)
        return self._say(name, request, target, name, _fetched)

    def says(self, name: str, kind: str, first: int, last: int = -1) -> Self:
        """See the module. kind: accept, release, reject, renew."""
        node, epoch = self.sessions[name]
        self.sessions[name] = (node, epoch + 1)
        batch = AcknowledgementBatch(first, max(first, last), AcknowledgeType[kind.upper()])
        request = ShareAcknowledge(GROUP, name, epoch, {TP: (batch,)})
        return self._say(name, request, node, name, _acknowledged)

    def hangs_up(self, name: str) -> Self:
        """See the module."""
        node, _ = self.sessions.pop(name)
        broker = self.nodes[node]
        session = broker.share_groups.leader.sessions[GROUP, name]
        broker.disconnected(self.now, session.connection)
        return self.flow()


def _fetched(answer: ShareFetchResponse) -> str:
    if answer.error is not KafkaError.NONE:
        return named(answer)
    part = answer.parts.get(TP)
    if part is None:
        return "nothing"
    if part.error is not KafkaError.NONE:
        return str(part.error.name)
    return " ".join(f"{_range(one.first, one.last)}×{one.times}" for one in part.acquired)


def _acknowledged(answer: ShareAcknowledgeResponse) -> str:
    if answer.error is not KafkaError.NONE:
        return named(answer)
    error = answer.parts[TP]
    return "ok" if error is KafkaError.NONE else str(error.name)


def _range(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}-{last}"


def brief(known: InFlightState | None) -> str:
    """The state of a record."""
    if known is None:
        return "–"
    change = "…" if known.before is not None else ""
    if known.state is RecordState.ACQUIRED:
        return f"{known.member}:{known.count}{change}"
    count = f":{known.count}" if known.state is RecordState.AVAILABLE else ""
    return f"{SHORT[known.state]}{count}{change}"


def _states(s: RawShareStage, n: str) -> object:
    share = s.led(int(n or -1))
    if share is None:
        return None
    return [brief(share.records.get(at)) for at in range(share.start, share.end)]


def _stored(s: RawShareStage, _: str) -> object:
    """Runs of offsets and what is stored of them."""
    known = s.stored
    if known is None:
        return None
    found = []
    for one in known.batches:
        state = RecordState(one.state)
        count = f":{one.times}" if state is RecordState.AVAILABLE else ""
        found.append(f"{_range(one.first, one.last)}={SHORT[state]}{count}")
    return found


def _log(s: RawShareStage, _: str) -> object:
    """Snapshots in brackets with their epoch, updates by their leader epoch."""
    replica = s.replica((SHARE_STATE_TOPIC, s.state_partition))
    if replica is None:
        return "down"
    return [_record(record) for _, _, record in replica.log.records()]


def _record(record: object) -> str:
    assert isinstance(record, ShareSnapshot | ShareUpdate)
    states = ",".join(_range(one.first, one.last) for one in record.batches)
    text = f"{record.leader_epoch}/{record.start}{f':{states}' if states else ''}"
    return f"[{text}]" if isinstance(record, ShareSnapshot) else text


def _letters(s: RawShareStage, _: str) -> object:
    replica = s.replica((s.settings.share_letters, 0))
    if replica is None:
        return "down"
    found = [letter for _, _, letter in replica.log.records() if isinstance(letter, LetterRecord)]
    return [f"{one.offset}={one.copy or '–'}:{one.times}" for one in found]


COLUMNS: Mapping[str, Callable[[RawShareStage, str], object]] = {
    r"states(?: at (\d))?": _states,
    r"start(?: at (\d))?": lambda s, n: share.start if (share := s.led(int(n or -1))) is not None else None,
    r"end(?: at (\d))?": lambda s, n: share.end if (share := s.led(int(n or -1))) is not None else None,
    "letters": _letters,
    "stored": _stored,
    "stored start": lambda s, _: s.stored.start if s.stored is not None else None,
    "state log": _log,
    "state epoch of leaders": lambda s, _: s.stored.leader_epoch if s.stored is not None else None,
    **raw_producer.COLUMNS,
}
