"""The largest run of a results folder, judged by a Spark cluster and by this process: they have to agree.

    python -m tests.spark.largest results spark://127.0.0.1:7077

Exit code 0: verdict and findings are the same; 1: they differ, and the differences are printed; 2: there is
nothing to judge.
"""

import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from checkers.api import Result, check
from history.run_folder import Run

OF_THE_CHECK: Final = ("seconds to check",)
"""Counts of a verdict that say how it was made, not what it found."""


def largest(results: Path) -> Run | None:
    """The run with the most bytes of sealed history that was judged; None where there is none."""
    runs = [Run(path.parent) for path in results.glob("*/verdict.json")]
    return max(runs, key=lambda run: _bytes(run.history), default=None)


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def comparable(result: Result) -> dict[str, Any]:
    """A verdict without what says how it was made, and how long that took."""
    verdict: dict[str, Any] = msgspec.to_builtins(result.verdict)
    verdict["stats"] = {name: n for name, n in verdict["stats"].items() if name not in OF_THE_CHECK}
    del verdict["engine"]
    for one in (*verdict["checks"].values(), *filter(None, [verdict["logs"]])):
        del one["seconds"]
    return verdict


def differences(run: Run, master: str) -> list[str]:
    """What a cluster says of a run, and this process does not; sentences. Raises: as `checkers.api.check`."""
    here, there = check(run, engine="process"), check(run, master=master)
    found = [f"Spark did not judge: {there.spark_failed}"] if there.spark_failed else []
    engines = here.verdict.engine, there.verdict.engine
    if engines[0] != "this process" or not engines[1].startswith("Spark "):
        found.append("not one of them was judged by this process, and the other by Spark")
    ours, theirs = comparable(here), comparable(there)
    found += [
        f"{name}: {ours[name]!r} here, {theirs[name]!r} there" for name in ours if ours[name] != theirs[name]
    ]
    if not here.findings.equals(there.findings):
        found.append(
            f"{here.findings.num_rows} findings here, {there.findings.num_rows} there, and not the same"
        )
    return found


def main(arguments: list[str]) -> int:
    """See the module."""
    results, master = arguments
    if (run := largest(Path(results))) is None:
        print(f"no judged run in {results}")
        return 2
    found = differences(run, master)
    print(f"{run.name}: {_bytes(run.history)} bytes, judged here and by {master}: {len(found)} differences")
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
