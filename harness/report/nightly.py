"""A night in Markdown, appended to the file that `$GITHUB_STEP_SUMMARY` names.

Not here: the summary of one run (`summary`), the page (`index`).
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness import night as nights
from harness.night import Night
from harness.report import tables, words
from harness.report.index import canary_told, headline, known, lasted, share
from harness.report.summary import VARIABLE, escaped

ROWS_MAX = 40


def append(results: Path, night: Night, environment: Mapping[str, str] = os.environ) -> bool:
    """Append the summary where the environment asks for one; whether it did. Raises: OSError."""
    path = environment.get(VARIABLE)
    if not path:
        return False
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(render(results, night))
    return True


def render(results: Path, night: Night) -> str:
    """The summary: what the night came to, its findings, its errors."""
    every = nights.nights(results)
    runs, findings = tables.runs_and_findings(results, every)
    numbers = tables.by_night(runs, findings, every)
    mine = tables.records(numbers[numbers["night"] == night.name])[0]
    parts = headline(night, mine)
    title = ", ".join(f"{part.symbol} {part.word}" for part in parts)
    lines = [
        f"### Inquest soak: {escaped(title)}",
        "",
        f"Night {escaped(night.name)}, seed {night.started.seed}: "
        f"{words.count(mine['runs'], 'run')} with a verdict in {lasted(night.spent_s)} of "
        f"{lasted(night.started.budget_s)}, {mine['failing']} failing, "
        f"{words.count(mine['errors'], 'error')} of the harness. "
        f"Canary {escaped(night.started.canary)}: {canary_told(night)}.",
        "",
        *_findings(tables.records(tables.groups(runs, findings, night.name))),
        *_errors(night),
    ]
    return "\n".join([*lines, "", ""])


def _findings(groups: list[dict[str, Any]]) -> list[str]:
    rows = [_row(group) for group in groups if group["tonight"]]
    if not rows:
        return ["No forbidden finding.", ""]
    left = [f"… and {len(rows) - ROWS_MAX} more", ""] if len(rows) > ROWS_MAX else []
    return [
        "| Anomaly | Standing | Workload x nemesis x preset | This night | All nights | Rate |",
        "|---|---|---|---|---|---|",
        *rows[:ROWS_MAX],
        "",
        *left,
    ]


def _row(group: dict[str, Any]) -> str:
    standing = "**open**" if group["open"] else "not recovered"
    if group["known_bug"]:
        standing = f"known bug {escaped(group['known_bug'])}"
    combination = " x ".join(escaped(group[name]) for name in tables.COMBINATION)
    rate = "–"
    if known(group["rate"]):
        rate = f"{share(group['rate'])} % ({share(group['low'])}–{share(group['high'])})"
    return (
        f"| {escaped(group['name'])} | {standing} | {combination} | "
        f"{group['tonight']}/{group['tonight_of']} | {group['all']}/{group['all_of']} | {rate} |"
    )


def _errors(night: Night) -> list[str]:
    return [
        f"- Error of the harness in run {a.begun.number}: {escaped(a.outcome.error)}"
        for a in night.runs
        if a.outcome is not None and a.outcome.state == "error"
    ][:ROWS_MAX]
