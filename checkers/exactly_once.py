"""eos-loss: inputs that a group committed an offset behind, and of which no committed copy exists in any
partition (docs/checks.md, "Exactly once").

The kernels of the inputs tell what had to be copied, the kernels of the outputs what was: runs of
offsets, so that what meets here is small.

Not here: inputs that were copied twice (`kernel_copies`).
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from checkers.kernel_types import (
    Array,
    Copied,
    Finding,
    PartitionResult,
    Position,
    Runs,
    offsets_of,
)

NAME = "eos-loss"

Key = tuple[int, int]
"""Group, input partition."""


def losses(
    results: Sequence[PartitionResult], *, cap: int
) -> tuple[Counter[tuple[str, str]], list[Finding], int]:
    """Count, at most `cap` findings of each group and input, number of undecided inputs."""
    made: dict[Key, list[Copied]] = {}
    for copied in (each for result in results for each in result.copied):
        made.setdefault((copied.group, copied.source), []).append(copied)
    counts: Counter[tuple[str, str]] = Counter()
    findings: list[Finding] = []
    undecided = 0
    for result in results:
        for position in result.positions:
            copies = made.get((position.group, result.tp), ())
            lost = np.setdiff1d(
                offsets_of(position.expected), _all(each.committed for each in copies)
            )
            open_ = np.isin(lost, _all(each.pending for each in copies))
            undecided += int(open_.sum())
            lost = lost[~open_]
            if len(lost):
                counts[NAME, ""] += len(lost)
                findings += [_finding(result.tp, position, o) for o in lost[:cap].tolist()]
    return counts, findings, undecided


def _all(found: Iterable[Runs]) -> Array:
    parts = [offsets_of(each) for each in found]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _finding(tp: int, position: Position, offset: int) -> Finding:
    """Its records are looked up only if it is shown (`checkers.witness`)."""
    return Finding(
        name=NAME,
        key=(tp, position.group, offset),
        tp=tp,
        process=position.process,
        ops=(position.op,),
        at_ns=position.ns,
        detail={"position": position.offset},
    )
