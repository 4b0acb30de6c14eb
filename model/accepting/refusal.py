"""What an acceptor says of a place in a log."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The model would not have appended this.

    rule: its identifier. offset: of the batch or record. why: what is wrong, one sentence. before: the
    state before it, in words. producer_id, producer_epoch: that it is about, -1 = none.
    """

    rule: str
    offset: int
    why: str
    before: str = ""
    producer_id: int = -1
    producer_epoch: int = -1
