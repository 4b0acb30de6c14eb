"""A recorded or portable history as plain rows, and what the checker says of it.

Rows are dicts by the schemas of `history.tables`. The checker is asked with everything in memory: thousands
of small histories would spend their time on files otherwise. `whole_answer` asks it by the public way.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from checkers import api
from checkers.verdict.judged_run import JudgedRun, judge
from core.config import RunConfig
from core.errors import ExitCode
from history.broker_logs import BrokerLogs
from history.columns import arrow_array
from history.events import Event
from history.reader import History, Names, ReadRow, SendRow
from history.run_folder import FORMAT, Run
from history.tables import CLUSTERED, TABLES
from history.unit_files import EVERYWHERE, Where
from history.verdict import Verdict

Row = dict[str, Any]
Key = tuple[str | int, ...]
"""Class and integers (docs/checks.md, section 2)."""


@dataclass(kw_only=True)
class Recorded:
    """A history. planted: what was done to it, by name. portable: it has no final reads, no events.

    promises: bugs that struck, and the classes of which one has to be found. quiet: without noise. more: what
    it has of `tests.adversary.removals`.
    """

    seed: int
    tables: dict[str, list[Row]]
    config: RunConfig
    events: list[Event] = field(default_factory=list)
    portable: bool = False
    planted: list[str] = field(default_factory=list)
    promises: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    quiet: bool = True
    more: frozenset[str] = frozenset()

    def arrow(self) -> dict[str, pa.Table]:
        """The tables."""
        return {
            name: pa.Table.from_arrays(
                [
                    arrow_array([row[column.name] for row in self.tables[name]], column.type)
                    for column in schema
                ],
                schema=schema,
            )
            for name, schema in TABLES.items()
        }


@dataclass(frozen=True, kw_only=True)
class Said:
    """What somebody says of a history.

    findings: keys with the variants that each may have. forbidden: class -> findings that nothing permits.
    statuses: of checks. either: classes of which a finding may be permitted or not, as its witness is chosen.
    valid, code: of the verdict, None and -1 where it has none (portable histories).
    """

    findings: Mapping[Key, frozenset[str]]
    forbidden: Mapping[str, int] = field(default_factory=dict)
    either: frozenset[str] = frozenset()
    statuses: Mapping[str, str] = field(default_factory=dict)
    valid: bool | str | None = None
    code: int = -1
    crashed: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class MemoryHistory(History):
    """A history without files."""

    rows: Mapping[str, Sequence[Row]]

    def sends(self, where: Mapping[int, Where]) -> list[SendRow]:
        """See `History`."""
        return [SendRow(**row) for row in self.rows["sends"] if _fits(row, where)]

    def reads(self, where: Mapping[int, Where]) -> list[ReadRow]:
        """See `History`."""
        return [ReadRow(**row) for row in self.rows["reads"] if _fits(row, where)]

    @property
    def broker_logs(self) -> BrokerLogs:
        """None."""
        return BrokerLogs(
            left_out=[], elected=[], sent=[], cancelled=[], refused=[], deleted=[], loaded=[], nodes=set()
        )


def _fits(row: Row, where: Mapping[int, Where]) -> bool:
    return any(
        row[name] in some for tp in (EVERYWHERE, row["tp"]) for name, some in where.get(tp, {}).items()
    )


def answer(recorded: Recorded) -> Said:
    """What the checker says."""
    tables = recorded.arrow()
    tally = api.check_tables(
        tables, recorded=not recorded.portable, events=recorded.events, config=recorded.config, cap=2**31, f=F
    )
    found: dict[Key, set[str]] = {}
    for each in tally.findings:
        found.setdefault(each.canonical, set()).add(f"{each.variant.value}/{each.excuse.value}")
    findings = {key: frozenset(some) for key, some in found.items()}
    assert Counter(each.kind for each in tally.findings) == tally.counts
    crashed = tuple(sorted(tally.crashed))
    if recorded.portable:
        return Said(findings=findings, crashed=crashed)
    names = Names(
        format=FORMAT, run="adversary", start_ns=0, units=[], f=list(F), error=["E"],
        group=["g0", "g1", "g2"], txn_id=[f"id{n}" for n in range(64)],
    )  # fmt: skip
    history = MemoryHistory(
        run=Run(Path("/nonexistent")),
        names=names,
        tables={name: table for name, table in tables.items() if name not in CLUSTERED},
        events=recorded.events,
        config=recorded.config.model_dump(mode="json"),
        rows=recorded.tables,
    )
    run = JudgedRun(history=history, config=recorded.config, tally=tally, seconds=0.0)
    verdict = judge(run)
    return _said(verdict, findings, crashed)


def whole_answer(recorded: Recorded) -> Said:
    """What the checker says by the public way, with files. (Findings that it kept; no portable histories.)"""
    names = {"f": F, "error": ["E"], "group": ["g0", "g1", "g2"], "txn_id": [f"id{n}" for n in range(64)]}
    result = api.check(recorded.arrow(), config=recorded.config, events=recorded.events, names=names)
    found: dict[Key, set[str]] = {}
    for row in result.findings.to_pylist():
        found.setdefault((row["anomaly"], *row["key"]), set()).add(f"{row['variant']}/{row['excuse']}")
    crashed = tuple(sorted(name for name, one in result.verdict.checks.items() if one.status == "crashed"))
    return _said(result.verdict, {key: frozenset(some) for key, some in found.items()}, crashed)


def _said(verdict: Verdict, findings: Mapping[Key, frozenset[str]], crashed: tuple[str, ...]) -> Said:
    return Said(
        findings=findings,
        forbidden={name: one.disallowed for name, one in verdict.anomalies.items() if one.disallowed},
        statuses={name: one.status for name, one in verdict.checks.items()},
        valid=verdict.valid,
        code=int(ExitCode(verdict.exit_code)),
        crashed=crashed,
    )


F = ("send", "poll", "txn", "assign", "final", "instance", "application")
"""Names of kinds of ops."""
