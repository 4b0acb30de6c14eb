"""Small evidence, made by hand."""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from checkers.engine.check import Check, Tally
from checkers.engine.findings import Found, LogGround, PartitionResult
from checkers.engine.pipeline import check_evidence, kinds_of
from checkers.windows import RunWindows
from core.op import TopicPartition
from history.evidence import Evidence, merged
from history.evidence_tables import END, schema
from history.reader import History

TP = TopicPartition("q", 0)
Rows = Mapping[str, Iterable[Mapping[str, Any]]]


def tables(rows: Rows, nodes: Iterable[int] = (1, 2, 3)) -> dict[str, pa.Table]:
    """Tables of evidence from rows by table; columns that a row leaves out are 0, "" or null. One take of
    these nodes at the end."""
    takes = [{"take": 0, "node": node, "at_ns": 9_000_000_000, "why": END} for node in nodes]
    found: dict[str, pa.Table] = {}
    for name, some in {"takes": takes, **rows}.items():
        wanted = schema(name)
        columns = [
            pa.array([row.get(one.name, _absent(one)) for row in some], _plain(one.type)).cast(one.type)
            for one in wanted
        ]
        found[name] = pa.table(columns, schema=wanted)
    return merged([found])


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _absent(one: pa.Field) -> Any:
    if one.nullable:
        return None
    absent: list[tuple[Any, Any]] = [(pa.types.is_string, ""), (pa.types.is_boolean, False)]
    return next((value for fits, value in absent if fits(_plain(one.type))), 0)


def at(tp: TopicPartition, node: int, **columns: Any) -> dict[str, Any]:
    """A row of one node's copy of a partition."""
    return {"take": 0, "node": node, "topic": tp.topic, "partition": tp.partition, **columns}


def batch(tp: TopicPartition, node: int, base: int, **columns: Any) -> dict[str, Any]:
    """A plain batch of one record; its CRC is its base offset unless it is given."""
    default = {"base": base, "last": base, "records": 1, "producer_id": -1, "producer_epoch": -1}
    return at(
        tp, node, **{**default, "base_sequence": -1, "crc": base, "intact": True, "size": 80, **columns}
    )


def whole(tp: TopicPartition, node: int) -> dict[str, Any]:
    """The directory of a partition."""
    return at(tp, node, start=0, files=1, bytes=1000)


def namesakes(made: dict[str, list[dict[str, Any]]], heard_s: int) -> None:
    """The topic of the evidence got its name from one that was deleted, 1000 s after the first one; the disks
    of its nodes had the metadata log up to some seconds after that. All are in sync from then on, and ran
    when their files were read."""
    state = {"leader": 1, "isr": [1, 2, 3], "partition_leader_epoch": 1}
    rows: list[dict[str, Any]] = [
        {"name": "TopicRecord", "topic": "q", "topic_id": "old", "timestamp": 0},
        {"name": "RemoveTopicRecord", "topic_id": "old", "timestamp": 999_000},
        {"name": "TopicRecord", "topic": "q", "topic_id": "new", "timestamp": 1_000_000},
        {"name": "PartitionRecord", "topic_id": "new", "partition": 0, "timestamp": 1_000_000, **state},
        {"name": "NoOpRecord", "timestamp": 1_000_000 + heard_s * 1000},
    ]
    made["metadata"] += [
        {"take": 1, "node": node, "snapshot": -1, "offset": number, **row}
        for node in (1, 2, 3)
        for number, row in enumerate(rows)
    ]
    for row in made["partitions"]:
        row["topic_id"] = "new"
    made["nodes"] = []


def of_partition(
    checks: Mapping[str, Check],
    evidence: Evidence,
    log: TopicPartition,
    unclean: bool | None = None,
    windows: RunWindows | None = None,
) -> PartitionResult:
    """What checks that share a kernel say of one partition. unclean: what brokers say of unclean elections,
    None = it is not known. windows: of the run, None = it has none."""
    (kernel,) = {check.log_kernel for check in checks.values()}
    assert kernel is not None
    ground = LogGround(kinds_of(checks), windows=windows or RunWindows(), unclean=unclean)
    result = PartitionResult(log=log, ground=ground)
    kernel(evidence, log, result)
    return result


def of_all(checks: Mapping[str, Check], evidence: Evidence, history: History | None = None) -> Tally:
    """What checks say of all evidence."""
    tally = check_evidence(evidence, checks, history)
    assert not tally.crashed, tally.crashed
    return tally


def asked_nothing(found: Found) -> bool:
    """Whether nothing was asked, found or left open."""
    return not (found.findings or found.doubts or found.asked or found.counts)
