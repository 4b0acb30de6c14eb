"""The report of a run: files in, `report.html` and `junit.xml` out.

Reads the run folder only (verdict, events, history); needs neither Kafka nor Spark. What it says about
anomalies stands in the verdict: nothing is judged here.

Not here: checking (`checkers`), the command line (`harness.cli`).
"""

from pathlib import Path

from harness.report import junit, page, summary
from harness.report.inputs import ReportError, read
from harness.store import Run, write_atomically

__all__ = ["ReportError", "build"]


def build(run: Run) -> Path:
    """Write `report.html` and `junit.xml`, and add to GitHub's step summary where there is one.

    Returns the path of the HTML file. Raises: ReportError, where there is no verdict that can be
    read, or the files cannot be written.
    """
    inputs = read(run)
    html = page.render(inputs)
    try:
        write_atomically(run.report, html)
        write_atomically(run.junit, junit.render(inputs.verdict))
        summary.append(inputs.verdict)
    except OSError as error:
        raise ReportError(
            f"{error.filename or run.folder}: cannot be written ({error.strerror})"
        ) from None
    return run.report
