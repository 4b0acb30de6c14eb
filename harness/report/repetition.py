"""What a command needs, beside its words, to repeat a run.

The command itself is the verdict's (`checkers.verdict.repeat`).
"""

import os
from collections.abc import Mapping
from typing import Any, Final

from core.extensions import APP, CLIENT, CLUSTER, EFFECTS, VARIABLE
from workloads.registry import workload_named

IMPORTED: Final = "imported"
"""The system of a recording that others made."""


def variables(config: Mapping[str, Any]) -> list[str]:
    """Variables of the environment that a repeated run needs: they name programs of the user's and files that
    no run folder brings (`core.extensions`)."""
    app = config.get("app")
    wanted = {
        VARIABLE: VARIABLE in os.environ or _of_a_file(config),
        CLIENT: config.get("clients") == "command",
        APP: app is not None,
        EFFECTS: bool(app and app.get("effects")),
        CLUSTER: config.get("sut") == "external",
    }
    return [name for name, needed in wanted.items() if needed]


def _of_a_file(config: Mapping[str, Any]) -> bool:
    """Whether the workload is one that this process does not know."""
    return config.get("sut") != IMPORTED and workload_named(str(config.get("workload"))) is None


def where(config: Mapping[str, Any]) -> str:
    """What to add to "repeat the run", "" = the command is enough."""
    if config.get("sut") == IMPORTED:
        return "in the folder of the recording"
    named = ", ".join(variables(config))
    return f"with {named} as for this one" if named else ""
