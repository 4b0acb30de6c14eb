"""How far long work has come, for watchers such as a line on a terminal."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressStage:
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

    stage: ProgressStage
    tasks: int
    done: int


SIZES = ((" M", 1_000_000), (" k", 1_000), ("", 0))


def text_of(progress: Progress) -> str:
    """Progress in words."""
    stage = progress.stage
    whole = sum(stage.sizes)
    unit, size = next((unit, size) for unit, size in SIZES if whole >= size)
    done, of = (f"{count / size:.1f}" if size else str(count) for count in (progress.done, whole))
    tasks = f"{progress.tasks} of {len(stage.sizes)} {stage.tasks}"
    return f"{stage.name}: {tasks}, {done} of {of}{unit} {stage.measure}"


Watch = Callable[[Progress], None]
"""Is called with each state, from any thread."""


def unwatched(progress: Progress) -> None:
    """A watch that shows nothing."""
