"""Findings that are final before a run has ended: docs/early.md.

A recording that is under way is a *prefix* of the whole one. A finding of a prefix is *final* if every
continuation shows it, too, and if no continuation lets configuration or faults permit it. So this module
takes from a prefix only what cannot change: ops that have completed, and acknowledged offsets. And it takes
only classes to which more history can add findings, but from which it cannot take one away.

Not here: the verdict (`checkers.verdict.judged_run`). Nothing here can say that a run is valid.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from checkers.catalogue import allowed
from checkers.checks import CHECKS
from checkers.checks.integrity import PHANTOM
from checkers.engine import pipeline
from checkers.engine.check import Early
from checkers.engine.findings import INFO, Finding, Level
from checkers.log_settings import log_settings
from checkers.windows import whenever
from core.config import RunConfig
from core.internal_topics import GROUP_TOPIC
from core.op import GONE_MARK
from core.producer_state import forgetful
from history.columns import Array, columns, numbers
from history.reader import History
from history.tables import OPEN, TABLES

EARLY: Final[Mapping[str, Early]] = {
    name: kind.early
    for check in CHECKS.values()
    for name, kind in check.anomalies.items()
    if kind.early is not None
}
"""Classes whose findings can be final early. Of G1c-realtime only records that were read before they were
sent: a cycle may grow. A zombie's commit has the key (-1, op)."""

Identity = tuple[str | int, ...]
"""Class and key of a finding, in terms that do not change while the history grows: names of groups, of
partitions with how often their topics had been deleted before, for an op its process and the time of its
invocation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyFinding:
    """A final finding. allowed, why: whether configuration or planned faults permit it."""

    identity: Identity
    sentence: str
    allowed: bool
    why: str


def early_findings(history: History, config: RunConfig, *, power: bool) -> list[EarlyFinding]:
    """The final findings of a recording so far (`history.prefix.so_far`).

    power: some brokers may lose power, or have. What may take records from a log is taken to have been in
    force at all times: the events that tell when it was may still come.
    """
    found = []
    for finding in final(history.tables, config, power=power):
        permitted, why = allowed(config, finding.kind)
        found.append(
            EarlyFinding(
                identity=identity(finding, history),
                sentence=finding.sentence(history),
                allowed=permitted,
                why=why,
            )
        )
    return found


def final(tables: Mapping[str, pa.Table], config: RunConfig, *, power: bool) -> list[Finding]:
    """The findings of a prefix that every continuation has, too. tables: sorted as sealed ones."""
    settled = _settled(tables)
    checks = {name: check for name, check in CHECKS.items() if EARLY.keys() & check.anomalies.keys()}
    checks["cycles"] = replace(checks["cycles"], join=None)  # cycles are not final, and dear
    unclean = log_settings(config, "").unclean or log_settings(config, GROUP_TOPIC).unclean
    windows = whenever(
        numbers(tables["tps"], "tp").tolist(), unclean=unclean, power=power, away=config.compacted
    )
    tally = pipeline.check_tables(settled, checks, recorded=True, config=forgetful(config), windows=windows)
    acks = numbers(tables["processes"], "acks")
    weak = bool(((acks == 0) | (acks == 1)).any())
    whole = set(_neighbours(settled, tally.findings))
    sent = _sent(settled)
    unfinished = _open(tables)
    return [
        one
        for one in tally.findings
        if (early := EARLY.get(one.name)) is not None
        and one.variant is not Level.LOG
        and not (weak and early.weakest_acks)
        and not (early.neighbours and id(one) not in whole)
        and not (one.name == PHANTOM and one.key[2] >= sent.get(one.key[2] >> 32, 0))
        and not any(unfinished[op] for op in (*one.ops, *(shown.op for shown in one.records)))
    ]


def identity(finding: Finding, history: History) -> Identity:
    """See `Identity`."""
    kinds = EARLY[finding.name].key if finding.tp >= 0 else ("tp", "op")
    parts: list[str | int] = [finding.name]
    for kind, part in zip(kinds, finding.key, strict=True):
        if kind == "op":
            op = history.op(part)
            parts += [op.process, op.invoke_ns]
        elif kind == "tp":
            parts += _partition(history, part)
        else:
            parts.append(history.group(part) if kind == "group" else part)
    return tuple(parts)


def _partition(history: History, tp: int) -> tuple[str, int]:
    """A partition: its name in the history has a mark as soon as its topic is deleted."""
    title, _, number = history.tp(tp).rpartition("-")
    topic, _, gone = title.partition(GONE_MARK)
    return f"{topic}-{number}", int(gone) - 1 if gone else history.remade


def _open(tables: Mapping[str, pa.Table]) -> Array:
    """By op: whether it has not completed."""
    return np.asarray(numbers(tables["ops"], "complete_ns") == OPEN)


def _settled(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The tables without what may still change of sends: the results of ops under way, and places that are
    known from reads alone."""
    sends = columns(tables["sends"])
    under_way = _open(tables)[sends["op"]]
    made = {name: column.copy() for name, column in sends.items()}
    for name, value in (("outcome", INFO), ("offset", -1), ("ack_ns", -1)):
        made[name][under_way] = value
    made["place"] = made["offset"]
    schema = TABLES["sends"]
    table = pa.Table.from_arrays([pa.array(made[f.name], f.type) for f in schema], schema=schema)
    return {**tables, "sends": table}


def _sent(tables: Mapping[str, pa.Table]) -> dict[int, int]:
    """Process -> the highest value that it has sent: a value above it may still be sent. The record was then
    read before it was sent (G1c-realtime)."""
    process, value = numbers(tables["sends"], "process"), numbers(tables["sends"], "value")
    highest: dict[int, int] = {-1: 0}
    for one in np.unique(process).tolist():
        highest[one] = int(value[process == one].max())
    return highest


def _neighbours(tables: Mapping[str, pa.Table], findings: list[Finding]) -> Iterator[int]:
    """Ids of findings about two records of a process with no record of it between them."""
    mine = [one for one in findings if (early := EARLY.get(one.name)) and early.neighbours]
    if not mine:
        return
    sends = columns(tables["sends"], ("tp", "process", "op", "pos", "value"))
    order = np.lexsort((sends["pos"], sends["op"], sends["process"], sends["tp"]))
    tps, values = sends["tp"][order].tolist(), sends["value"][order].tolist()
    at = {place: n for n, place in enumerate(zip(tps, values, strict=True))}
    for one in mine:
        before, after = (at[shown.tp, shown.value] for shown in one.records)
        if after - before == 1:
            yield id(one)
