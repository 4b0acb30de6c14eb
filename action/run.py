"""One run of Inquest in a job of GitHub Actions: inputs are variables, outputs go to $GITHUB_OUTPUT.

Inquest itself appends the summary to $GITHUB_STEP_SUMMARY. The exit code is Inquest's.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

OPTIONS = ("workload", "nemesis", "preset", "sut", "kafka", "cluster", "client", "duration", "seed", "engine")
COLOURS = {"valid": "brightgreen", "control fired": "brightgreen", "anomaly": "red", "known bugs only": "red"}
COLOURS |= {"did not recover": "red", "unknown": "yellow"}
ERROR = "error"


def given(name: str) -> str:
    """An input, "" = it is not given."""
    return os.environ.get(f"INPUT_{name.upper()}", "").strip()


def command(results: Path) -> list[str]:
    """`inquest run` with the options that are given."""
    words = [sys.executable, "-P", "-m", "inquest", "run", "--results", str(results)]
    words += [word for name in OPTIONS if (value := given(name)) for word in (f"--{name}", value)]
    words += ["--owned"] if given("cluster") else []
    for line in given("settings").splitlines():
        words += ["--set", line.strip()] if line.strip() else []
    return words


def badge(verdict: str) -> dict[str, object]:
    """As an endpoint of shields.io answers."""
    colour = COLOURS.get(verdict, "lightgrey")
    return {"schemaVersion": 1, "label": "inquest", "message": verdict, "color": colour}


def main() -> int:
    """Make the run, and write the outputs; Inquest's exit code."""
    results = Path(given("results") or "results")
    done = subprocess.run(command(results), stdout=subprocess.PIPE, text=True, check=False)
    sys.stdout.write(done.stdout)
    lines = done.stdout.splitlines()
    verdict = lines[0].partition(":")[0].lower() if lines and done.returncode < 64 else ERROR
    reports = [line.removeprefix("report: ") for line in lines if line.startswith("report: ")]
    results.mkdir(parents=True, exist_ok=True)
    where = results / "badge.json"
    where.write_text(json.dumps(badge(verdict)) + "\n")
    outputs = {"verdict": verdict, "exit-code": done.returncode, "badge": where}
    outputs["report"] = reports[0] if reports else ""
    with Path(os.environ.get("GITHUB_OUTPUT", os.devnull)).open("a") as file:
        file.writelines(f"{name}={value}\n" for name, value in outputs.items())
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
