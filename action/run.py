"""One run of Inquest in a job of GitHub Actions: inputs are variables, outputs go to $GITHUB_OUTPUT.

Inquest itself appends the summary to $GITHUB_STEP_SUMMARY. The exit code is Inquest's.
"""

import hashlib
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

OPTIONS = ("workload", "nemesis", "preset", "sut", "kafka", "cluster", "client", "duration", "seed", "engine")
COLOURS = {"valid": "brightgreen", "control fired": "brightgreen", "anomaly": "red", "known bugs only": "red"}
COLOURS |= {"did not recover": "red", "unknown": "yellow"}
ERROR = "error"
USAGE = 64
"""From this exit code on there is no verdict (docs/architecture.md)."""
CACHED = ("*", "kafka/*", "code/*")
"""What lies in the cache; a name says what is in it, so that it never changes. ivy/: of earlier versions."""
NO_CONTENT = ("kafka", "code", "ivy")


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


def cache_key() -> str:
    """A key for what the cache holds now; "" = it holds nothing."""
    begin, folder = os.environ.get("CACHE", ""), Path(os.environ.get("CACHE_FOLDER", ""))
    paths = (path.relative_to(folder) for pattern in CACHED for path in folder.glob(pattern))
    kept = sorted(str(path) for path in paths if path.suffix != ".lock" and str(path) not in NO_CONTENT)
    return begin + hashlib.sha256("\n".join(kept).encode()).hexdigest()[:12] if begin and kept else ""


def write(outputs: Mapping[str, object]) -> None:
    """Outputs of this step."""
    with Path(os.environ.get("GITHUB_OUTPUT", os.devnull)).open("a") as file:
        file.writelines(f"{name}={value}\n" for name, value in outputs.items())


def made(words: Sequence[str]) -> tuple[int, str]:
    """Exit code and output of a program. What ends a job (SIGINT, then SIGTERM) goes to it, once each: it
    heals, judges what it recorded, and ends."""
    program = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda given, _: program.send_signal(given))
    output, _ = program.communicate()
    return program.returncode, output


def main() -> int:
    """Make the run, and write the outputs; Inquest's exit code."""
    artifact = given("artifact")  # no two artefacts of a workflow may have one name
    write({"artifact": artifact and f"{artifact}-{secrets.token_hex(4)}"})  # first: a job may be cancelled
    results = Path(given("results") or "results")
    code, output = made(command(results))
    sys.stdout.write(output)
    lines = output.splitlines()
    verdict = lines[0].partition(":")[0].lower() if lines and 0 <= code < USAGE else ERROR
    reports = [line.removeprefix("report: ") for line in lines if line.startswith("report: ")]
    reports = [page for page in reports if page != "none"]  # it could not be built
    results.mkdir(parents=True, exist_ok=True)
    where = results / "badge.json"
    where.write_text(json.dumps(badge(verdict)) + "\n")
    report = reports[0] if reports else ""
    write({"verdict": verdict, "exit-code": code, "badge": where, "report": report})
    write({"cache-key": "" if verdict == ERROR else cache_key()})
    return code


if __name__ == "__main__":
    sys.exit(main())
