"""Runs at a glance: what each came to, and its drawing in small."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from core.errors import HistoryError
from harness.nights.runs import combination
from harness.nights.session_log import FAILING, Tested
from harness.nights.shares import records
from harness.nights.totals import Totals
from harness.report import headlines
from harness.report.drawing import small
from harness.report.drawing.strips import Drawing
from history.recorded_files import regular
from history.tables import TableRow
from history.verdict import VERDICT_FORMAT, ResultWord, Verdict

CARDS_MAX: Final = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCard:
    """A run. headline: what broke, else the summary. tested: by `runs.SYSTEM`. report: path from the results
    folder, "" = missing; folder: of the verdict."""

    result: ResultWord
    headline: str
    combination: tuple[str, ...]
    tested: TableRow
    at: str
    report: str
    folder: str
    drawing: Drawing | None


def build(results: Path, every: Totals) -> list[RunCard]:
    """The newest run of each finding, in the order of the findings; then the newest failing ones. Runs whose
    verdict is gone, or cannot be read, have none."""
    made: list[RunCard] = []
    for at, folder, report in _chosen(every):
        if len(made) == CARDS_MAX:
            break
        verdict = _verdict(results / folder)
        if verdict is not None:
            made.append(_card(verdict, at, folder, report))
    return made


def _chosen(every: Totals) -> Iterator[tuple[str, str, str]]:
    """When, verdict, report, of each run once."""
    shown = {row["folder"]: row for row in records(every.shown) if row["folder"]}
    failing = (row["folder"] for row in shown.values() if row["state"] in FAILING)
    for folder in dict.fromkeys([*(row.folder for row in every.findings.rows if row.folder), *failing]):
        row = shown.get(folder)
        if row is not None:
            yield row["at"], folder, row["report"]


def _verdict(path: Path) -> Verdict | None:
    try:
        verdict = msgspec.json.decode(regular(path).read_bytes(), type=Verdict)
    except (OSError, ValueError, HistoryError, msgspec.MsgspecError, RecursionError):
        return None
    return verdict if verdict.format <= VERDICT_FORMAT else None


def _card(verdict: Verdict, at: str, folder: str, report: str) -> RunCard:
    return RunCard(
        result=verdict.result,
        headline=headlines.of_run(verdict) or verdict.summary,
        combination=tuple(filter(None, combination(verdict.config).values())),
        tested=msgspec.structs.asdict(Tested.of(verdict.config)),
        at=at,
        report=report,
        folder=folder,
        drawing=small.run(verdict),
    )
