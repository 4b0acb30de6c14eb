"""A program `kubectl` for tests: the verbs, options and words that the shorthand uses, and no others.

    python kubectl.py FOLDER WORDS...

FOLDER/state.json is the cluster, as `kubelet.Cluster` keeps it; each call is added to FOLDER/calls. Options,
output and errors are those of kubectl 1.32. A container's program is a process of this machine; in the
container it has the number 7, or 1. A signal to process 1 of a container has no effect, as in the kernel.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final, NoReturn

POLL_S: Final = 0.02
KILL: Final = """
kill() {
    [ "$2" != 1 ] || return 0
    read -r real <"$ROOT/pids/$2" || return 1
    command kill "$1" "$real"
}
"""
"""A shell's `kill` with the numbers of the container's processes."""


def state(folder: Path) -> dict[str, Any]:
    """The cluster now."""
    return dict(json.loads((folder / "state.json").read_text()))


def fail(why: str, code: int = 1) -> NoReturn:
    sys.stderr.write(f"{why}\n")
    sys.exit(code)


def options(words: list[str]) -> argparse.Namespace:
    """The command line. What kubectl does not know, or the shorthand does not need, is an error."""
    given = argparse.ArgumentParser("kubectl", allow_abbrev=False)
    given.add_argument("--context", default="")
    given.add_argument("--namespace", default="default")
    verbs = given.add_subparsers(dest="verb", required=True)
    verbs.add_parser("config", allow_abbrev=False).add_argument("what", choices=["current-context"])
    get = verbs.add_parser("get", allow_abbrev=False)
    get.add_argument("kind", choices=["pod", "pods", "namespace"])
    get.add_argument("names", nargs="*")
    get.add_argument("--selector", default="")
    get.add_argument("--output", required=True)
    delete = verbs.add_parser("delete", allow_abbrev=False)
    delete.add_argument("kind", choices=["pod"])
    delete.add_argument("name")
    for one in (get, delete):
        one.add_argument("--ignore-not-found", action="store_true")
    logs, execute = verbs.add_parser("logs", allow_abbrev=False), verbs.add_parser("exec", allow_abbrev=False)
    logs.add_argument("--previous", action="store_true")
    for one in (logs, execute):
        one.add_argument("name")
        one.add_argument("--container", required=True)
    split = words.index("--") if "--" in words else len(words)
    made = given.parse_args(words[:split])
    made.command = words[split + 1 :]
    return made


def matches(pod: dict[str, Any], selector: str) -> bool:
    labels = pod["metadata"].get("labels", {})
    return all(
        labels.get(name) == value for name, _, value in (s.partition("=") for s in selector.split(","))
    )


def path(thing: Any, steps: str) -> str:
    """What a path of a template names, "" = it is not there."""
    chosen = re.match(r"\.status\.containerStatuses\[\?\(@\.name==\"([^\"]+)\"\)\](.*)", steps)
    if chosen:
        every = thing.get("status", {}).get("containerStatuses", ())
        thing, steps = next((one for one in every if one["name"] == chosen[1]), {}), chosen[2]
    for step in steps.strip(".").split("."):
        thing = thing.get(step, {}) if isinstance(thing, dict) else {}
    return "" if thing == {} else str(thing)


def shown(found: list[Any], output: str, *, many: bool) -> str:
    if output.startswith("jsonpath="):
        (one,) = found
        return re.sub(r"\{([^{}]*)\}", lambda match: path(one, match[1]), output.removeprefix("jsonpath="))
    if output == "name":
        return "".join(f"namespace/{one}\n" for one in found)
    return json.dumps({"kind": "List", "items": found} if many else found[0])


def get(now: dict[str, Any], given: argparse.Namespace) -> None:
    if given.kind == "namespace":
        known: dict[str, Any] = {name: name for name in now["namespaces"]}
    else:
        known = now["pods"] if given.namespace in now["namespaces"] else {}
    if given.selector:
        found = [pod for pod in known.values() if matches(pod, given.selector)]
        sys.stdout.write(shown(found, given.output, many=True))
        return
    if missing := [name for name in given.names if name not in known and not given.ignore_not_found]:
        fail(f'Error from server (NotFound): {given.kind.rstrip("s")}s "{missing[0]}" not found')
    if found := [known[name] for name in given.names if name in known]:
        sys.stdout.write(shown(found, given.output, many=len(given.names) > 1))


def container(folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """The status of a pod's container."""
    pod = state(folder)["pods"].get(given.name)
    if pod is None:
        fail(f'Error from server (NotFound): pods "{given.name}" not found')
    every = {one["name"]: one for one in pod["status"]["containerStatuses"]}
    if given.container not in every:
        fail(f"Error from server (BadRequest): container {given.container} is not valid for pod {given.name}")
    return dict(every[given.container])


def execute(folder: Path, given: argparse.Namespace) -> NoReturn:
    if "running" not in container(folder, given)["state"]:
        fail(
            "error: Internal error occurred: unable to upgrade connection: "
            f'container not found ("{given.container}")'
        )
    root = folder / given.name
    shell, flag, script, *more = given.command
    assert (shell, flag) == ("sh", "-c")
    inside = KILL + script.replace("/proc/", f"{root}/proc/")
    more = [f"{root}{word}" if word.startswith("/") else word for word in more]
    done = subprocess.run(["sh", "-c", inside, *more], env={**os.environ, "ROOT": str(root)}, check=False)
    if done.returncode:
        fail(f"command terminated with exit code {done.returncode}", done.returncode)
    if given.verb in state(folder)["breaks"]:
        fail("error: unexpected EOF")
    sys.exit(0)


def logs(folder: Path, given: argparse.Namespace) -> None:
    status = container(folder, given)
    starts = status["restartCount"]
    if given.previous and not starts:
        fail(f'Error from server (BadRequest): previous terminated container "{given.container}" not found')
    sys.stdout.write(f"log of start {starts - given.previous}\n")


def delete(folder: Path, given: argparse.Namespace) -> None:
    """Ask for the end, then wait until this very pod is gone, as kubectl does."""
    pod = state(folder)["pods"].get(given.name)
    if pod is None:
        if not given.ignore_not_found:
            fail(f'Error from server (NotFound): pods "{given.name}" not found')
        return
    uid = pod["metadata"]["uid"]
    (folder / f"delete-{uid}").touch()
    sys.stdout.write(f'pod "{given.name}" deleted\n')
    while state(folder)["pods"].get(given.name, {"metadata": {"uid": ""}})["metadata"]["uid"] == uid:
        time.sleep(POLL_S)


def main(folder: Path, words: list[str]) -> None:
    before = (folder / "calls").read_text() if (folder / "calls").exists() else ""
    with (folder / "calls").open("a") as calls:
        calls.write(json.dumps(words) + "\n")
    given, now = options(words), state(folder)
    if why := now["refuses"].get(given.verb):
        fail(why)
    if given.verb == "get" and "get" in now["breaks"] and '"exec"' in before.rpartition("\n[")[2]:
        fail("error: unexpected EOF")
    if given.verb in now["hangs"]:
        time.sleep(600)
    match given.verb:
        case "config":
            if not now["context"]:
                fail("error: current-context is not set")
            sys.stdout.write(f"{now['context']}\n")
        case "get":
            get(now, given)
        case "exec":
            execute(folder, given)
        case "logs":
            logs(folder, given)
        case _:
            delete(folder, given)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
