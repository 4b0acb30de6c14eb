"""Ranges of records that findings are about, for the words and the drawing of a story."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Records of one partition that findings are about.

    offsets: of the first and the last, () = on record for none. values: of the first and the last. begin,
    end: when they were acknowledged, in seconds; None = not on record. leader: the node that led then, ""
    = not on record. next_leader, next_at: who led next, since when.
    """

    partition: str
    count: int
    offsets: tuple[int, int] | tuple[()] = ()
    values: tuple[int, int] | tuple[()] = ()
    begin: float | None = None
    end: float | None = None
    leader: str = ""
    next_leader: str = ""
    next_at: float | None = None
