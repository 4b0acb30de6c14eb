"""The hook `cut` of the shorthand `docker`, with programs that write down what they are asked."""

import os
import subprocess
from pathlib import Path

import pytest

from harness.external.docker_hooks import CUT

RUNS = {"one": "true 10.0.0.1 ", "two": "true 10.0.0.2 10.1.0.2 ", "off": "false ", "host": "true  "}
"""What the engine says of containers: whether each runs, and its addresses."""


def cut(folder: Path, name: str, cuts: str, names: str = "one two") -> tuple[int, str, list[str]]:
    """Exit code, error output, and the rules that were set."""
    said = "".join(f"    {key}) echo '{text}';;\n" for key, text in RUNS.items())
    programs = {
        "docker": f"""case $3 in
*SandboxKey*) echo /run/box;;
*Ports*) echo "19092 9092/tcp"; echo "29092 9092/tcp";;
*) case $4 in
{said}    *) echo "no such container: $4" >&2; exit 1;;
    esac;;
esac
""",
        "nsenter": f"""echo "$@" >>{folder}/calls
case $2 in iptables-restore) cat >{folder}/rules;; esac
""",
    }
    for program, text in programs.items():
        (folder / program).write_text(f"#!/bin/sh\n{text}")
        (folder / program).chmod(0o755)
    around = {"INQUEST_NAME": name, "INQUEST_CUTS": cuts, "INQUEST_NAMES": names, "INQUEST_PORT": "19092"}
    done = subprocess.run(
        ["/bin/sh", "-c", CUT],
        env=os.environ | around | {"PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    made = (folder / "rules").read_text().splitlines() if (folder / "rules").exists() else []
    return done.returncode, done.stderr.strip(), [line for line in made if line.startswith("-A")]


@pytest.mark.parametrize(
    ("cuts", "names", "rules"),
    [
        ("in two", "one two", ["-A INQUEST-IN -s 10.0.0.2 -j DROP", "-A INQUEST-IN -s 10.1.0.2 -j DROP"]),
        ("out two\nin off", "one two off", [f"-A INQUEST-OUT -d 10.{n}.0.2 -j DROP" for n in (0, 1)]),
        (
            "in clients",
            "one off",
            ["-A INQUEST-IN -s 10.0.0.1 -j RETURN", "-A INQUEST-IN -p tcp --dport 9092 -j DROP"],
        ),
    ],
)
def test_containers_with_addresses_are_cut_off(
    cuts: str, names: str, rules: list[str], tmp_path: Path
) -> None:
    assert cut(tmp_path, "one", cuts, names) == (0, "", rules)


@pytest.mark.parametrize(
    ("name", "cuts", "names", "code", "why"),
    [
        ("host", "in one", "host one", 3, "the container host has no address of its own"),
        ("host", "in clients", "host one", 3, "the container host has no address of its own"),
        ("one", "in host", "host one", 3, "the container host has no address of its own"),
        ("one", "in clients", "host one", 3, "the container host has no address of its own"),
        ("one", "in two\nin gone", "one two gone", 1, "no such container: gone"),
        ("one", "in two broker", "one two", 3, "the shorthand docker cuts no single listener"),
    ],
)
def test_a_cut_that_cannot_be_made_changes_nothing(
    name: str, cuts: str, names: str, code: int, why: str, tmp_path: Path
) -> None:
    ended, said, rules = cut(tmp_path, name, cuts, names)
    assert (ended, rules) == (code, [])
    assert said.startswith(why)
    assert not (tmp_path / "calls").exists()
