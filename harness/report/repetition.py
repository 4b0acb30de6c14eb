"""What a command needs, beside its words, to repeat a run.

The command itself is the verdict's (`checkers.verdict.repeat`).
"""

import os
import re
from typing import Final

from core.extensions import APP, CLIENT, CLUSTER, EFFECTS, VARIABLE
from core.presets import NamedSettings
from core.systems import SYSTEMS
from harness.report.wording import found_in_logs
from history.verdict import Verdict
from workloads.registry import workload_named

NAME: Final = re.compile(r"[A-Za-z0-9-]+")
"""A class whose name goes into a command line: no other one of a verdict does."""


def variables(config: NamedSettings) -> list[str]:
    """Variables of the environment that a repeated run needs: they name programs of the user's and files that
    no run folder brings (`core.extensions`)."""
    app = config.get("app")
    wanted = {
        VARIABLE: bool(os.environ.get(VARIABLE)) or _of_a_file(config),
        CLIENT: config.get("clients") == "command",
        APP: app is not None,
        EFFECTS: bool(app and app.get("effects")),
        CLUSTER: config.get("sut") == "external",
    }
    return [name for name, needed in wanted.items() if needed]


def _of_a_file(config: NamedSettings) -> bool:
    """Whether the workload is one that this process does not know."""
    return config.get("imported") is None and workload_named(str(config.get("workload"))) is None


def preserving(verdict: Verdict, name: str) -> str:
    """The option of `shrink` that names this class, "" = there is none: a name from outside; or a class that
    only rules about logs found, which no simulated run is asked for."""
    found = verdict.anomalies.get(name)
    if not NAME.fullmatch(name):
        return ""
    logs_alone = found is not None and found.disallowed == found_in_logs(verdict, name)
    return "" if logs_alone and verdict.config.get("sut") == "simulated" else f"--anomaly {name} "


def said(words: str, config: NamedSettings) -> str:
    """These words for repeating a run, and what its command needs."""
    return f"{words}, {needed}" if (needed := where(config)) else words


def what_repeats(config: NamedSettings) -> str:
    """What the same command gives again, in a sentence or two."""
    system = SYSTEMS.get(str(config.get("sut")))
    if system is not None and system.repeatable:
        return "This run was simulated: with this version of Inquest the same command gives the same run."
    own = config.get("app") is not None or config.get("clients") == "command"
    fixed = "which faults the plan has" if own else "what the clients do and which faults the plan has"
    slow = "A cluster is not deterministic, so a rare finding may take several runs."
    return f"The seed fixes {fixed}. {slow}"


def where(config: NamedSettings) -> str:
    """What to add to "repeat the run", "" = the command is enough."""
    if (imported := config.get("imported")) is not None:
        files = imported.get("files", ())
        return "" if files and all(map(os.path.isabs, files)) else "in the folder of the recording"
    named = ", ".join(variables(config))
    return f"with {named} as for this one" if named else ""
