"""What is on record for a finding: what its cause, its drawing and its commands are taken from."""

from collections.abc import Sequence
from dataclasses import dataclass

from core.errors import HistoryError
from harness.report.classes import OF_GROUPS, OF_REPLICAS, OF_TRANSACTIONS
from harness.report.evidence import decisions, group_offsets, replicas, side_by_side
from harness.report.evidence.decisions import CoordinatorDecisions
from harness.report.evidence.group_offsets import GroupOffsets
from harness.report.evidence.replicas import ReplicaEnds
from harness.report.evidence.side_by_side import LogsSideBySide
from harness.report.inputs import Inputs
from history.verdict import Example


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """What the facts are taken from. leaders: of the example's partition, as (since when, node). written:
    when the batch was made that a finding in logs is about; None = not on record."""

    inputs: Inputs
    example: Example
    leaders: Sequence[tuple[float, str]]
    ends: ReplicaEnds | None
    side: LogsSideBySide | None
    decided: CoordinatorDecisions | None
    offsets: GroupOffsets | None
    written: float | None = None


def of_finding(inputs: Inputs, name: str, example: Example, leaders: Sequence[tuple[float, str]]) -> Traces:
    """What is on record for a finding of a class."""
    offset = min(example.offsets, default=-1)
    decided = decisions.build(inputs, example) if name in OF_TRANSACTIONS else None
    side = side_by_side.partitions(decided) if decided else None
    if side is None and name in OF_REPLICAS:
        side = side_by_side.copies(inputs, example.partition, offset)
    return Traces(
        inputs=inputs,
        example=example,
        leaders=leaders,
        ends=replicas.build(inputs, example.partition, offset) if name in OF_REPLICAS else None,
        side=side,
        decided=decided,
        offsets=group_offsets.build(inputs, example) if name in OF_GROUPS or example.log else None,
        written=_written(inputs, example) if example.log else None,
    )


def _written(inputs: Inputs, example: Example) -> float | None:
    tp, offset = decisions.parsed(example.partition), max(example.offsets, default=-1)
    if inputs.evidence is None or tp is None or offset < 0:
        return None
    try:
        batch = decisions.batch_at(inputs.evidence, tp, offset)
    except HistoryError:
        return None
    known = batch is not None and batch["base_timestamp"] > 0
    return inputs.seconds_of_clock(batch["base_timestamp"]) if batch and known else None
