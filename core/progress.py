"""How far long work has come, for watchers such as a line on a terminal."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Work in tasks. name: of the stage, as "writing units"; tasks: what one task works on, in the plural;
    sizes: how much each task has to do, in `measure`.
    """

    name: str
    tasks: str
    sizes: Sequence[int]
    measure: str = "rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How much of a stage is done: a number of tasks, and the sum of their sizes."""

    stage: Stage
    tasks: int
    done: int


Watch = Callable[[Progress], None]
"""Is called with each state, from any thread."""


def unwatched(progress: Progress) -> None:
    """A watch that shows nothing."""
