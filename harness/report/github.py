"""A short summary in Markdown, appended to the file that `$GITHUB_STEP_SUMMARY` names."""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from harness.report import repetition, tested, wording
from history.verdict import Anomaly, Verdict

VARIABLE = "GITHUB_STEP_SUMMARY"
CLASSES_MAX = 20
TEXT_MOST = 400
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~$@&-])")


def append(text: Callable[[], str], environment: Mapping[str, str] = os.environ) -> bool:
    """Append a summary where the environment asks for one; whether it did.

    Raises: OSError, where the file cannot be written.
    """
    path = environment.get(VARIABLE)
    if not path:
        return False
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(text())
    return True


def render(verdict: Verdict) -> str:
    """The summary: verdict, anomalies, what is unknown, how to repeat the run."""
    state = wording.state(verdict)
    lines = [
        f"### {state.symbol} Inquest: {state.word}",
        "",
        escaped(wording.sentence(verdict.summary)),
        "",
        " · ".join(f"{term}: {escaped(value)}" for term, value in tested.described(verdict)),
        "",
        f"Run {_code(verdict.run)}"
        + (f", seed {verdict.seed}" if verdict.config.get("imported") is None else "")
        + (", interrupted before its end." if verdict.interrupted else "."),
        "",
    ]
    if verdict.anomalies:
        lines += [
            "| Anomaly | Findings | First example |",
            "|---|---|---|",
            *(_row(name, anomaly) for name, anomaly in wording.ranked(verdict)[:CLASSES_MAX]),
            "",
            *left_out(len(verdict.anomalies) - CLASSES_MAX),
        ]
    lines += [f"- Incident: {escaped(line)}" for line in wording.incident_lines(verdict)]
    undecided = [f"- Not decided: {escaped(reason)}" for reason in wording.undecided(verdict)]
    lines += [*undecided[:CLASSES_MAX], *left_out(len(undecided) - CLASSES_MAX)]
    said = repetition.said("Repeat", verdict.config)
    lines += ["", f"{said}, with", "", *_block(verdict.repro), "", ""]
    return "\n".join(lines)


def left_out(many: int) -> list[str]:
    """The line below a list that was cut; none, where nothing was left out."""
    return [f"… and {many} more", ""] if many > 0 else []


def _row(name: str, anomaly: Anomaly) -> str:
    sentence = next((one.sentence for one in wording.shown_examples(anomaly)), anomaly.meaning)
    bug = f" (known bug {escaped(anomaly.known_bug)})" if anomaly.known_bug else ""
    standing = {0: ", allowed", anomaly.count: ", forbidden"}.get(anomaly.disallowed, "")
    return f"| {escaped(name)}{bug} | {wording.findings(anomaly)}{standing} | {escaped(sentence)} |"


def escaped(value: str) -> str:
    """Text from outside on one line, with nothing in it that Markdown or HTML would take."""
    short = value if len(value) <= TEXT_MOST else value[:TEXT_MOST] + "…"
    return (
        _SPECIAL.sub(r"\\\1", " ".join(short.split()))
        .replace("\\<", "&lt;")
        .replace("\\>", "&gt;")
        .replace("\\&", "&amp;")
    )


def _code(value: str) -> str:
    return f"`{' '.join(value.replace('`', chr(39)).split())[:TEXT_MOST]}`"


def _block(command: str) -> list[str]:
    """The command as an indented block, which nothing in it can end."""
    return [f"    {line}" for line in command.splitlines() or [""]]
