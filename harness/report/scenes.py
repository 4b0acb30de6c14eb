"""Which transactions belong into the timeline of a finding, and from when to when it is.

The transactions of the finding itself are its *subjects*. For a partition whose last stable offset
stands still, that is the one whose record stands there.

Not here: their records and readers (`transactions`).
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from harness.events import OpenTransaction, TransactionsOpen
from harness.op import Isolation, Outcome, Phase
from harness.report import choice
from harness.report.inputs import Inputs, Ops
from harness.report.records import Sealed, any_of
from harness.verdict import Example

CLASSES = frozenset({
    "torn-txn", "aborted-read", "precommitted-read", "eos-duplicate", "eos-loss", "zombie-write",
    "hanging-txn", "stuck-lso", "G1c", "G1c-ww", "G1c-realtime", "G0", "G0-realtime",
})  # fmt: skip
"""Classes that are about transactions. Other findings get a timeline where they name one."""
STUCK = ("hanging-txn", "stuck-lso")
TIMELINES_MAX = 12
LANES_MAX = 8
BARS_MAX = 60
"""Transactions of one lane."""
SUBJECTS_MAX = 16
WINDOW_S = 12.0
"""Longest part of one transaction that a timeline has to show."""


@dataclass(slots=True)
class Scene:
    """What is drawn for one example: its subjects, the window in seconds, the transactions of each
    lane, by (transactional id, client), and how many of those are left out."""

    example: Example
    subjects: list[int]
    opened: list[OpenTransaction]
    window: tuple[float, float] = (0.0, 0.0)
    lanes: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    left_out: dict[tuple[str, int], int] = field(default_factory=dict)


def scenes(
    inputs: Inputs, sealed: Sealed, ops: Ops
) -> tuple[dict[choice.Key, Scene], dict[choice.Key, int]]:
    """Scenes by example; and examples with the subjects of an earlier one of their class.

    Raises: Unreadable.
    """
    found: dict[choice.Key, Scene] = {}
    same: dict[choice.Key, int] = {}
    for key, example in choice.in_turn(inputs.verdict):
        named = [op.op for op in example.ops if op.txn and 0 <= op.op < len(ops.f)]
        if key[0] not in CLASSES and not named:
            continue
        opened = _opened(inputs, example) if key[0] in STUCK else []
        subjects = named or _at_stable_end(inputs, sealed, example, opened)
        subjects = list(dict.fromkeys(subjects))[:SUBJECTS_MAX]
        first = _with(found, key[0], subjects)
        if first is not None:
            same[key] = first
        elif subjects and len(found) < TIMELINES_MAX:
            found[key] = _filled(Scene(example, subjects, opened), sealed, ops)
    return found, same


def _with(found: dict[choice.Key, Scene], name: str, subjects: list[int]) -> int | None:
    """The example of a class whose scene has these subjects."""
    if not subjects:
        return None
    return next(
        (n for (other, n), scene in found.items()
         if other == name and set(subjects) <= set(scene.subjects)), None,
    )  # fmt: skip


def _opened(inputs: Inputs, example: Example) -> list[OpenTransaction]:
    events = [event for event in inputs.events if isinstance(event, TransactionsOpen)]
    rows = [
        row
        for row in (events[-1].rows if events else ())
        if f"{row.topic}-{row.partition}" == example.partition
    ]
    producer = example.producer.get("producer_id", -1)
    return [row for row in rows if row.producer_id == producer] or rows


def _at_stable_end(
    inputs: Inputs, sealed: Sealed, example: Example, open_now: Sequence[OpenTransaction]
) -> list[int]:
    """Transactions with a record where the last stable offset stands."""
    tp = sealed.tps.get(example.partition)
    if tp is None:
        return []
    bound = sealed.bounds.get((tp, Isolation.READ_COMMITTED))
    starts = {row.start for row in open_now if row.start >= 0}
    if not starts and bound and bound.end >= 0:
        starts = {bound.end}
    if not starts:
        return []
    rows = sealed.rows_of("sends", {tp: any_of("place", starts)})
    return [row["op"] for row in rows if row["txn"] == 1]


def _filled(scene: Scene, sealed: Sealed, ops: Ops) -> Scene:
    """The window around the subjects, and the transactions of their ids in it."""
    begins = [float(ops.invoke[op]) for op in scene.subjects]
    ends = [_soon(float(ops.invoke[op]), until(sealed, ops, op)) for op in scene.subjects]
    for shown in scene.example.ops:
        if shown.phase != Phase.FINAL.name.lower():
            begins.append(shown.begin_s)
            ends.append(shown.begin_s if shown.end_s is None else shown.end_s)
    low, high = min(begins), max(ends)
    pad = float(np.clip(0.3 * (high - low), 0.15, 5.0))
    scene.window = (low - pad, high + pad)
    ids = {_identity(sealed, int(ops.process[op])) for op in scene.subjects}
    processes = [p for p in sealed.processes if _identity(sealed, p) in ids]
    inside = (ops.txn == 1) & np.isin(ops.process, processes)
    inside &= (ops.invoke <= scene.window[1]) & (ops.complete >= scene.window[0])
    lanes: dict[tuple[str, int], list[int]] = defaultdict(list)
    around = [
        op for op in np.flatnonzero(inside).tolist() if until(sealed, ops, op) >= scene.window[0]
    ]
    for op in [*scene.subjects, *around]:
        process = int(ops.process[op])
        row = sealed.processes.get(process)
        lane = lanes[_identity(sealed, process), row.slot if row else -1]
        if op not in lane:
            lane.append(op)
    for key in sorted(list(lanes)[:LANES_MAX]):
        kept = _nearest(scene.subjects, lanes[key], ops)
        scene.lanes[key], scene.left_out[key] = kept, len(lanes[key]) - len(kept)
    return scene


def _identity(sealed: Sealed, process: int) -> str:
    """Transactional id of a process, else its client."""
    row = sealed.processes.get(process)
    if row is None:
        return f"process {process}"
    return row.transactional_id or f"client {row.slot}"


def _nearest(subjects: Sequence[int], lane: Sequence[int], ops: Ops) -> list[int]:
    """The bars of a lane that fit: subjects, then what did not end well, then what is nearest."""
    times = np.array([ops.invoke[op] for op in subjects])

    def rank(op: int) -> tuple[bool, bool, float]:
        bad = ops.outcome[op] == Outcome.INFO
        return op not in subjects, not bad, float(np.abs(times - ops.invoke[op]).min())

    return sorted(sorted(lane, key=rank)[:BARS_MAX], key=lambda op: float(ops.invoke[op]))


def until(sealed: Sealed, ops: Ops, op: int) -> float:
    """When an op was over; one that never completed was when its process ended."""
    end = float(ops.complete[op])
    if np.isfinite(end):
        return end
    process = sealed.processes.get(int(ops.process[op]))
    return max(process.end if process else 0.0, float(ops.invoke[op]))


def _soon(begin: float, end: float) -> float:
    """An end that is not so far away that the rest of the timeline would be lost."""
    return min(end, begin + WINDOW_S)
