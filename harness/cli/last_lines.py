"""The last lines of a command that judged a run: the result, what it rests on, and what to do next.

Each command in them can be pasted: it begins with the program as this shell finds it.
"""

import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from core.extensions import assignment
from harness.report import repetition, wording
from harness.report.wording import faults_line, incident_lines, logs_line, reached_line, required_line
from history.run_folder import Run
from history.verdict import ResultWord, Verdict, bugs_of

LONGER_S = 60.0
MOVED = "leader-moved"
SENTENCE_MOST = 600
"""Characters of the first witness; the report has all of it."""


def last_lines(verdict: Verdict, run: Run, page: str) -> Iterator[str]:
    """The lines, the result first. page: where the report is, "none"."""
    yield f"{verdict.result.upper()}: {verdict.summary}"
    worst = wording.worst(verdict)
    about = wording.told(verdict)
    if about is not None:
        for example in wording.shown_examples(about[1])[:1]:
            yield f"first {about[0]}: {_cut(example.sentence)}"
    for line in incident_lines(verdict):
        yield f"incident: {line}"
    yield f"faults: {faults_line(verdict)}"
    if verdict.faults and (facts := reached_line(verdict)):
        yield f"reached: {facts}"
    if required := required_line(verdict):
        yield f"required: {required}"
    yield f"broker logs: {logs_line(verdict)}; judged by {verdict.engine}"
    yield f"report: {page}"
    yield f"repeat: {pasted(verdict.repro)}"
    if verdict.result is ResultWord.CONTROL_SILENT:
        yield f"next: {pasted(_longer(verdict))}    # more time: {_unmoved(verdict)}"
    if worst is None:
        return
    if verdict.result is ResultWord.KNOWN_BUGS:
        pages = {one.known_bug: one.known_bug_url for one in verdict.anomalies.values() if one.disallowed}
        bugs = sorted({bug for known in pages for bug in bugs_of(known)})
        yield f"known: {', '.join(f'{bug} ({pages[bug]})' if pages.get(bug) else bug for bug in bugs)}"
    elif verdict.faults and not run.shrunk.exists():
        folder = shlex.quote(str(run.folder))
        shrink = f"{pasted('inquest recording shrink')} {repetition.preserving(verdict, worst[0])}{folder}"
        yield f"next: {shrink}    # with as few faults as still show it"


def _longer(verdict: Verdict) -> str:
    """The command of a run, with three times its time for faults, at least a minute."""
    seconds = max(3 * float(verdict.config.get("duration_s", 0)), LONGER_S)
    words = re.sub(r" --(?:duration|seed) \S+", "", verdict.repro)
    return f"{words} --duration {seconds:g}"


def _unmoved(verdict: Verdict) -> str:
    """Why a control may have found nothing."""
    wanted = any(MOVED in fault.wanted for fault in verdict.faults)
    if wanted and verdict.reached is not None and MOVED not in verdict.reached:
        return "no leader moved under these faults"
    return "the faults did not cause what it waits for"


def pasted(command: str) -> str:
    """A command of Inquest as this shell finds it: with the path of the program where PATH lacks it, and with
    the extensions that it needs."""
    return assignment() + _found(command)


def _found(command: str) -> str:
    program = Path(sys.argv[0])
    found = shutil.which("inquest")
    if program.name != "inquest" or (found and Path(found).resolve() == program.resolve()):
        return command
    here = program.resolve()
    if here.is_relative_to(Path.cwd()):
        here = here.relative_to(Path.cwd())
    return command.replace("inquest", shlex.quote(str(here)), 1)


def _cut(text: str) -> str:
    return text if len(text) <= SENTENCE_MOST else f"{text[:SENTENCE_MOST]}…"
