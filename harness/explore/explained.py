"""Findings that known weaknesses of Kafka explain, in simulated runs.

A weakness is recognised by its mechanism (`harness.modelled.virtual.invariants.weaknesses`) and names a
transactional id and partitions. A finding comes from it only if it is of a class as which half a transaction
shows, about a transaction of this id that wrote to one of these partitions and began before the harm. It may
be about another partition: records without a marker of their own decide what the transaction seems to be.
Where a start offset of a share group fell, what is delivered again of that partition afterwards comes from
it.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from checkers.catalogue import ANOMALIES
from checkers.checks.atomicity import TORN
from checkers.checks.poll_order import Skipped
from checkers.checks.share_groups import REDELIVERY
from checkers.engine.findings import FAIL, OK, RC, Finding, What
from harness.modelled.shared.base_time import BASE_NS
from harness.modelled.virtual.invariants.weaknesses import START_FELL, Weakness
from history.columns import numbers
from history.journal import Line
from history.journal_rows import rows_of


def explainable(anomaly: str) -> bool:
    """Whether some weakness shows as this class."""
    return ANOMALIES[anomaly].half or anomaly == REDELIVERY


def explained_by(
    weak: Sequence[Weakness], journals: Sequence[tuple[str, list[Line]]], found: Sequence[Finding]
) -> list[Finding]:
    """Those of the findings that come from one of the weaknesses."""
    suspected = [one for one in found if explainable(one.name)]
    if not weak or not suspected:
        return []
    rows = rows_of(journals)
    tables, names = rows.tables(), rows.names()["txn_id"]
    tps = [(row["topic"], row["partition"]) for row in tables["tps"].to_pylist()]
    ids = {row["process"]: row["txn_id"] for row in tables["processes"].to_pylist()}
    process_of, begun = (numbers(tables["ops"], name) for name in ("process", "invoke_ns"))
    op_of, tp_of = (numbers(tables["sends"], name) for name in ("op", "tp"))

    def explains(one: Weakness, finding: Finding) -> bool:
        if (one.name == START_FELL) != (finding.name == REDELIVERY):
            return False
        if one.name == START_FELL:
            return tps[finding.tp] in one.tps and finding.at_ns > one.time_us * 1000 + BASE_NS
        if isinstance(finding, Skipped):
            ops = _skipped(tables, finding)
        elif finding.name == TORN:
            ops = list(finding.ops[:1])
        else:
            ops = [shown.op for shown in finding.only(What.SEND)]
        for op in ops:
            number = ids[int(process_of[op])]
            if (
                number < 0
                or names[number] != one.transactional_id
                or begun[op] > one.time_us * 1000 + BASE_NS
            ):
                return False
        touched = {tps[tp] for tp in tp_of[np.isin(op_of, ops)]} if ops else {tps[finding.tp]}
        return bool(touched & one.tps)

    return [finding for finding in suspected if any(explains(one, finding) for one in weak)]


def _skipped(tables: Mapping[str, pa.Table], finding: Skipped) -> list[int]:
    """The transactions that took effect, as far as is known, and have records that the skip passed over."""
    sends, reads = tables["sends"], tables["reads"]
    op_of, tp_of, place, value, outcome = (
        numbers(sends, name) for name in ("op", "tp", "place", "value", "op_outcome")
    )
    left_out = finding.left_out
    between = (tp_of == finding.tp) & (place >= left_out.start) & (place < left_out.stop) & (outcome != FAIL)
    seen = numbers(reads, "value")[numbers(reads, "isolation") == RC]
    visible = op_of[np.isin(value, seen)]
    took_effect = (outcome == OK) | np.isin(op_of, visible)
    return [int(op) for op in np.unique(op_of[between & took_effect])]
