"""Python programs of this code as child processes: they import what this process does, and nothing that lies
in the current folder.

    subprocess.run(program("harness.containers.reaper", run, copies), env=environment())

`python -m` puts the current folder first on the path of imports: a `json.py` there would run, with the rights
of this process. So every such command has the option `-P`.
"""

import os
import site
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

BASE: Final = Path(__file__).parents[len(__name__.split(".")) - 1]
"""The folder that Python finds these packages in; an archive, where executors of Spark import them."""
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""`spark-submit` sets this variable: the JVM runs already, with the settings that the user gave it."""
SAFE: Final[Mapping[str, str]] = {"PYTHONSAFEPATH": "1"}
"""The option `-P` as an environment, for programs that others start."""


def program(module: str, *arguments: str) -> list[str]:
    """The command that runs a module; its process needs `environment`."""
    return [sys.executable, "-P", "-m", module, *arguments]


def environment() -> dict[str, str]:
    """The environment of this process, with which a child finds this code and no other version of it.

    An installation is found without help. Its folder must not be named: what is named comes before the
    standard library, and other packages are installed there, too.
    """
    given = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    named = [] if _installed() or str(BASE) in given else [str(BASE)]
    path = {"PYTHONPATH": os.pathsep.join([*named, *given])} if named or given else {}
    others = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**others, **path}


def _installed() -> bool:
    return str(BASE) in (*site.getsitepackages(), site.getusersitepackages())
