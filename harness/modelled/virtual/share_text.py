"""What a message about share groups says, in few words (see `message_text`)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from model.errors import KafkaError
from model.protocol import share_messages as s
from model.protocol.messages import Partition

Said = dict[Partition | str, str]
"""By subject; under "" what else it says."""
Teller = Callable[[Any, Any], Said]
"""Given a message, and the request that it answers."""


def group_of(request: Any) -> str:
    """The subject of a request about a group."""
    return f"group:{request.group}"


def outcome(error: KafkaError, done: str = "done") -> str:
    """What an answer with this error says."""
    return done if error is KafkaError.NONE else error.name


def _range(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}–{last}"


def _session(request: s.ShareFetch | s.ShareAcknowledge) -> str:
    return f"member {request.member}, session epoch {request.session_epoch}"


def _acknowledged(batches: Sequence[s.AcknowledgementBatch]) -> str:
    return ", ".join(f"{one.kind.name} {_range(one.first, one.last)}" for one in batches)


def _states(batches: Iterable[s.StateBatch]) -> str:
    told = (f"{_range(one.first, one.last)} state {one.state}×{one.times}" for one in batches)
    return ", ".join(told) or "no states"


def _fetch(request: s.ShareFetch, _: object) -> Said:
    said: Said = dict.fromkeys(request.partitions, "records wanted")
    said |= {tp: _acknowledged(batches) for tp, batches in request.said.items()}
    return said | {group_of(request): _session(request)}


def _fetched(answer: s.ShareFetchResponse, asked: s.ShareFetch) -> Said:
    said: Said = {group_of(asked): outcome(answer.error)}
    for tp, part in answer.parts.items():
        given = ", ".join(f"{_range(one.first, one.last)}×{one.times}" for one in part.acquired)
        said[tp] = outcome(part.error, f"acquired {given or 'nothing'}")
    return said


def _acknowledge(request: s.ShareAcknowledge, _: object) -> Said:
    said: Said = {tp: _acknowledged(batches) for tp, batches in request.said.items()}
    return said | {group_of(request): _session(request)}


def _written(request: s.WriteShareGroupState, _: object) -> Said:
    text = f"leader epoch {request.leader_epoch}, start {request.start}, {_states(request.batches)}"
    return {group_of(request): text, request.partition: text}


def _read(answer: s.ReadShareGroupStateResponse, asked: s.ReadShareGroupState) -> Said:
    text = outcome(answer.error, f"start {answer.start}, {_states(answer.batches)}")
    return {group_of(asked): text, asked.partition: text}


SHARE_TELLERS: Final[Mapping[type, Teller]] = {
    s.ShareGroupHeartbeat: lambda r, _: {group_of(r): f"member {r.member}, epoch {r.member_epoch}"},
    s.ShareGroupHeartbeatResponse: lambda a, r: {group_of(r): outcome(a.error, f"epoch {a.member_epoch}")},
    s.ShareFetch: _fetch,
    s.ShareFetchResponse: _fetched,
    s.ShareAcknowledge: _acknowledge,
    s.ShareAcknowledgeResponse: lambda a, r: {
        group_of(r): outcome(a.error),
        **{tp: outcome(error) for tp, error in a.parts.items()},
    },
    s.ReadShareGroupState: lambda r, _: {
        group_of(r): f"state wanted, leader epoch {r.leader_epoch}",
        r.partition: f"state wanted, leader epoch {r.leader_epoch}",
    },
    s.ReadShareGroupStateResponse: _read,
    s.WriteShareGroupState: _written,
}
"""By class of the message."""
