"""A session in Markdown, for the summary of a job (`report.github`)."""

from pathlib import Path

from harness.nights.headline import canary_words
from harness.nights.page import known, lasted, system_name
from harness.nights.runs import COMBINATION
from harness.nights.session_log import SoakSession
from harness.nights.totals import totals
from harness.report import wording
from harness.report.github import escaped, left_out
from history.tables import TableRow
from history.tasks import Here

ROWS_MAX = 40


def render(results: Path, session: SoakSession) -> str:
    """The summary: the result of the session, its findings, its errors."""
    every = totals(results, Here(), session.name)
    view = next(view for view in every.views if view.name == session.name)
    mine, parts = view.numbers, view.parts
    title = ", ".join(f"{part.symbol} {part.word}" for part in parts)
    lines = [
        f"### Inquest soak: {escaped(title)}",
        "",
        f"Session {escaped(session.name)}, seed {session.started.seed}: "
        f"{wording.count(mine['runs'], 'run')} with a verdict in {lasted(session.spent_s)} of "
        f"{lasted(session.started.budget_s)}, {mine['failing']} failing, "
        f"{wording.count(mine['errors'], 'error')} of the harness. "
        f"Canary {escaped(session.started.canary)}: {canary_words(session)}.",
        "",
        *_findings(every.groups),
        *_errors(session),
    ]
    return "\n".join([*lines, "", ""])


def _findings(groups: list[TableRow]) -> list[str]:
    rows = [_row(group) for group in groups if group["newest"]]
    if not rows:
        return ["No forbidden finding.", ""]
    return [
        "| Anomaly | Standing | Workload x nemesis x preset | System | This session | All sessions | Rate |",
        "|---|---|---|---|---|---|---|",
        *rows[:ROWS_MAX],
        "",
        *left_out(len(rows) - ROWS_MAX),
    ]


def _row(group: TableRow) -> str:
    standing = "**open**" if group["open"] else "not recovered"
    if group["planted"]:
        standing = f"planted bug {escaped(group['planted'])}"
    if group["known_bug"]:
        standing = f"known bug {escaped(group['known_bug'])}"
    combination = " x ".join(escaped(group[name]) for name in COMBINATION)
    system = [system_name(group["system"], group["version"]), group["client"]]
    rate = "–"
    if known(group["rate"]):
        rate = (
            f"{wording.share(group['rate'])} % ({wording.share(group['low'])}–{wording.share(group['high'])})"
        )
    return (
        f"| {escaped(group['name'])} | {standing} | {combination} | "
        f"{escaped(', '.join(filter(None, system)))} | "
        f"{group['newest']}/{group['newest_of']} | {group['all']}/{group['all_of']} | {rate} |"
    )


def _errors(session: SoakSession) -> list[str]:
    errors = [
        f"- Error of the harness in run {a.begun.number}: {escaped(a.outcome.error)}"
        for a in session.runs
        if a.outcome is not None and a.outcome.state == "error"
    ]
    return [*errors[:ROWS_MAX], *left_out(len(errors) - ROWS_MAX)]
