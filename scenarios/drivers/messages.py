"""Messages of a stage: under way, or to be held."""

from dataclasses import dataclass

from model.protocol.requests import Answered, Response
from model.replication.node import Ask


@dataclass(slots=True, eq=False)
class MessageInFlight:
    """A request under way, or its answer. sender: a broker or a client. listens: the sender still does.
    arrived_ms, answered_ms: when that happened, -1 = it did not."""

    sender: int | str
    ask: Ask
    told: Answered
    listens: bool = True
    answer: Response | None = None
    answering: bool = False
    arrived_ms: int = -1
    answered_ms: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldMessage:
    """What is to be held: the next request of a kind, or its answer."""

    kind: type
    sender: int | str | None
    to: int | None
    answer: bool

    def fits(self, message: MessageInFlight) -> bool:
        """Whether it is such a message."""
        return (
            isinstance(message.ask.request, self.kind)
            and self.sender in (None, message.sender)
            and self.to in (None, message.ask.node)
            and self.answer is message.answering
        )
