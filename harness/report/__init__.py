"""The report of a run: files in, `report.html` and `junit.xml` out.

causes    What is known of how a finding came about.
classes   Classes of anomalies by what may explain them.
clock     Times in the page: one time base for all of it.
colours   Colours of the drawings.
drawing   Drawings over time: of the run, the cluster, and what surrounds a finding.
evidence  What stands in logs and transactions around a finding.
facts     What was recorded of how a finding came about, as sentences.
github    A short summary in Markdown, appended to the file that `$GITHUB_STEP_SUMMARY`
          names.
headlines  What broke, in plain words.
inputs    What a report is made from: the files of one run folder.
junit     The verdict as JUnit XML, for CI systems.
messages  Messages and states around a finding of a simulated run; else captured messages.
near_faults  The faults next to a finding.
next_steps  What to do after reading a finding: commands, and where to look further.
repetition  What a command needs, beside its words, to repeat a run.
page      The page: everything that the report shows, in one HTML file.
records   Ranges of records that findings are about.
story     The first screen of a failing run: what broke, which records, next to what, what now.
tested    What was tested: system, topics, clients, faults.
timeline  The run over time, as spans and numbers.
traces    What is on record for a finding.
wording   The verdict and the configuration in words, for all forms of the report.

The report reads the run folder only (verdict, events, history); it needs neither Kafka nor Spark. What it
says about anomalies comes from the verdict: this package judges nothing.
"""

import os
from pathlib import Path

from core.files import written_into
from harness.report import github, junit, page
from harness.report.inputs import read
from history.recorded_files import refuse_special
from history.run_folder import Run, write_atomically
from history.storage import is_there


def build(run: Run) -> Path:
    """Write `report.html` and `junit.xml`, and add to GitHub's step summary where there is one.

    Returns the path of the HTML file. Raises: HistoryError, where there is no verdict that can be
    read; ConfigError, where the files cannot be written; OSError, where the disk is full.
    """
    if is_there(run.verdict):
        refuse_special(run.folder)
    inputs = read(run)
    html = page.render(inputs)
    for path, content in ((run.report, html), (run.junit, junit.render(inputs.verdict))):
        with written_into(path):
            write_atomically(path, content)
    with written_into(Path(os.environ.get(github.VARIABLE, ""))):
        github.append(lambda: github.render(inputs.verdict))
    return run.report
