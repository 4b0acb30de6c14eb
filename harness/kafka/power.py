"""Power losses of nodes: what they had not flushed to disk is cut off their logs.

What a killed broker wrote is in the page cache of the host and survives it, so the loss is made: of each log
the batches that may not have been flushed are gone from a place that is drawn, and the aborted index of that
segment, which recovery makes again. What Kafka itself flushes is kept: the metadata log (Raft), closed
segments, checkpoints; what lies before the recovery point (`recovery-point-offset-checkpoint`); and what the
settings of the topic have flushed since that checkpoint was written, which is a second old, or older where
the broker had just started. A node that was killed has no `.kafka_cleanshutdown`, so it recovers its logs
when it starts.
"""

import random
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from core.config import RunConfig
from core.errors import ClusterError, LogsKept
from core.flushing import Flushing, flushing
from core.generator import source
from harness.containers.data import AT_POWER_LOSS, DIRECTORIES, copies, copy_directories, put_files
from harness.containers.nodes import NodeContainer
from harness.evidence import checkpoints, metadata_records, segments
from harness.evidence.damage import Damages
from harness.evidence.directory import PARTITION, SEGMENT
from harness.processes.waiting import on_each
from harness.protocol.batches import PREFIX

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
ABORTED_INDEX: Final = ".txnindex"
WAYS: Final = ("whole", "batch", "inside")
"""How a log loses its tail: all of it, from the begin of a drawn batch on, or from inside of one on."""


@dataclass(frozen=True, slots=True)
class CutSegment:
    """A segment that loses its end. size: what is left of it, in bytes. batches: how many it loses."""

    path: Path
    size: int
    batches: int


def lose_unflushed(
    nodes: Sequence[NodeContainer],
    seed: int | None,
    folder: Path,
    config: RunConfig,
    directories: Callable[[int], int] = lambda _: 1,
) -> int:
    """Cut the logs of nodes that were killed just now; how many batches they lost.

    seed: of what is drawn, for each log of each node; None = all that was not flushed is gone. folder: it
    exists only while nodes are copied. config: of the run. directories: how many log directories a node has.
    Raises: LogsKept, where no log was cut; ClusterError, OSError, where some may have been.
    """
    found: dict[int, list[list[CutSegment]]] = {}
    killed_ms = time.time_ns() // 1_000_000

    def its(node: NodeContainer) -> list[Path]:
        return copies(folder / str(node.number), directories(node.number))

    def look(node: NodeContainer) -> None:
        copy_directories(node.own, folder / str(node.number), directories(node.number), AT_POWER_LOSS)
        rng = None if seed is None else source(seed, "power", node.number)
        found[node.number] = [cuts(one, rng, config, killed_ms) for one in its(node)]

    def cut(node: NodeContainer) -> None:
        for place, copied, lost in zip(DIRECTORIES, its(node), found[node.number], strict=False):
            if kept := _kept(copied, lost):
                put_files(node.own, kept, place)

    try:
        try:
            on_each(look, nodes)
        except (ClusterError, OSError) as error:
            raise LogsKept(f"no log was cut: {error}") from error
        on_each(cut, nodes)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return sum(one.batches for every in found.values() for lost in every for one in lost)


def _kept(folder: Path, lost: Sequence[CutSegment]) -> dict[str, bytes]:
    """What is left of files of a log directory, by their paths below it."""
    kept: dict[str, bytes] = {}
    for one in lost:
        kept[str(one.path.relative_to(folder))] = _begin(one)
        if (index := one.path.with_suffix(ABORTED_INDEX)).exists():
            kept[str(index.relative_to(folder))] = b""
    return kept


def cuts(folder: Path, rng: random.Random | None, config: RunConfig, killed_ms: int) -> list[CutSegment]:
    """What each log of a data directory loses; nothing is changed. killed_ms: when its node ended, in ms of
    the wall's clock. Raises: ClusterError, OSError."""
    damages = Damages()
    points: dict[tuple[str, int], int] = {}
    if (path := folder / RECOVERY_POINTS).exists():
        points = checkpoints.offsets(path, damages)
    if damages:
        raise ClusterError(f"no recovery points: {next(iter(damages))}")
    found = []
    for log in sorted(path for path in folder.iterdir() if path.is_dir()):
        place = PARTITION.fullmatch(log.name)
        if place is None or place["topic"] == metadata_records.TOPIC:
            continue
        flushed = points.get((place["topic"], int(place["partition"])), 0)
        if cut := _cut(log, flushed, rng, flushing(config, place["topic"]), killed_ms):
            found.append(cut)
    return found


def _cut(
    log: Path, checkpoint: int, rng: random.Random | None, of: Flushing, killed_ms: int
) -> CutSegment | None:
    """What one log loses; None = nothing. checkpoint: up to there it had flushed for certain."""
    named = [path for path in log.glob("*.log") if SEGMENT.fullmatch(path.name)]
    if not named or of.each:
        return None
    newest = segments.read(max(named))
    unflushed = newest.positions[_first_unflushed(newest, checkpoint, of, killed_ms) :]
    if not unflushed.size:
        return None
    way = rng.choice(WAYS) if rng else "whole"
    first = 0 if rng is None or way == "whole" else rng.randrange(unflushed.size)
    at = int(unflushed[first])
    if rng and way == "inside":
        last = int(newest.positions[-1]) + PREFIX + int(newest.headers["length"][-1])
        end = int(unflushed[first + 1]) if first + 1 < unflushed.size else last
        at = rng.randrange(at + 1, end)
    return CutSegment(newest.path, at, int(unflushed.size) - first)


def _first_unflushed(newest: segments.Segment, checkpoint: int, of: Flushing, killed_ms: int) -> int:
    """The number of the first batch of a segment from which on batches may not have been flushed."""
    batches = segments.native_columns(newest.headers)
    first = int(np.searchsorted(batches["base"], checkpoint))
    if not len(batches["base"]):
        return first
    if of.records:  # fewer than that were left unflushed after each append
        end = int(batches["base"][-1] + batches["last_delta"][-1]) + 1
        first = max(first, int(np.searchsorted(batches["base"], end - of.records + 1)))
    if of.looks_ms:
        old = np.flatnonzero(batches["max_timestamp"] < killed_ms - of.after_ms)
        first = max(first, int(old.max(initial=-1)) + 1)
    return first


def _begin(cut: CutSegment) -> bytes:
    with cut.path.open("rb") as file:
        return file.read(cut.size)
