"""The findings' JUnit tests against Kafka's published jars: cases that show the bug fail, their twins pass.

    python -m tests.junit docs/findings/junit

The folder is a project of Maven. The first case of each of its tests shows the bug, the second is its twin.
Exit code 0: all do as they should. 1: a newer Kafka has mended the bug, or something else is wrong.
"""

import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Final

SHOULD: Final = {"[1]": "failure", "[2]": "passed"}


def outcomes(folder: Path, target: Path) -> dict[str, str]:
    """By the name of a case: passed, failure (of an assertion), error.

    Raises: RuntimeError, without a report.
    """
    command = [
        "mvn",
        "-q",
        "-B",
        "-f",
        str(folder / "pom.xml"),
        "clean",
        "test",
        f"-DbuildDirectory={target}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    reports = list((target / "surefire-reports").glob("*.xml"))
    if not reports:
        raise RuntimeError(done.stdout + done.stderr)
    cases = [case for report in reports for case in xml.parse(report).iter("testcase")]
    kinds = ("error", "failure")
    return {
        str(case.get("name")): next((kind for kind in kinds if case.find(kind) is not None), "passed")
        for case in cases
    }


def main() -> int:
    """Run the tests of the folder and compare."""
    with tempfile.TemporaryDirectory() as target:
        found = outcomes(Path(sys.argv[1]), Path(target))
    for name, outcome in sorted(found.items()):
        print(f"{outcome:8} {name}")
    right = all(SHOULD.get(name[-3:]) == outcome for name, outcome in found.items())
    return 0 if found and right else 1


if __name__ == "__main__":
    sys.exit(main())
