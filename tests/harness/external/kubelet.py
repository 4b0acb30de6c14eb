"""A cluster of pods for tests: what Kubernetes does on its own, and what the program `kubectl` shows of it.

A pod's container runs a process of this machine. One that ends is started again: at once the first time, and
later only in a new pod, which stands for the pause that Kubernetes makes then. A deleted pod is ended in
order, and made again.
"""

import itertools
import json
import os
import shutil
import signal
import stat
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tests.harness.external import kubectl
from tests.processes import alive

POLL_S: Final = 0.02
_numbers = itertools.count(1)
Start = Callable[[str], int]
"""Starts the program of a pod of this name; its process id."""


def pod(
    name: str,
    owner: str = "StatefulSet",
    containers: tuple[str, ...] = ("kafka",),
    labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A pod as the API has it, before it runs."""
    return {
        "metadata": {
            "name": name,
            "labels": {"app": "kafka", **(labels or {})},
            "ownerReferences": [{"kind": owner}] if owner else [],
        },
        "spec": {"containers": [{"name": one} for one in containers]},
        "status": {},
    }


class Cluster:
    """Pods in the namespace `kafka`. start: of the program in each. first: processes that run already, by
    pod. one: the program is process 1 of its container."""

    def __init__(
        self,
        folder: Path,
        pods: list[dict[str, Any]],
        start: Start,
        first: dict[str, int] | None = None,
        *,
        one: bool = False,
    ) -> None:
        self.folder = folder / "kubernetes"
        self._start, self._one = start, one
        self._pids: dict[str, int] = {}
        self._pods = {made["metadata"]["name"]: made for made in pods}
        self._said: dict[str, Any] = {
            "context": "kind-here", "namespaces": ["kafka"], "refuses": {}, "hangs": [], "breaks": []
        }  # fmt: skip
        self.folder.mkdir()
        bin_folder = self.folder / "bin"
        bin_folder.mkdir()
        program = bin_folder / "kubectl"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -IS {kubectl.__file__} {self.folder} "$@"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        for name in self._pods:
            self._new(name, (first or {}).get(name))
        self._write()
        self._ended, self._lock = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    @property
    def path(self) -> str:
        """A PATH that has this cluster's `kubectl` first."""
        return f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"

    def pid(self, name: str) -> int:
        """The process of a pod's container."""
        return self._pids[name]

    def uid(self, name: str) -> str:
        """ "" = there is no such pod."""
        found = kubectl.state(self.folder)["pods"].get(name)
        return str(found["metadata"]["uid"]) if found else ""

    def status(self, name: str) -> dict[str, Any]:
        """Of its first container."""
        return dict(kubectl.state(self.folder)["pods"][name]["status"]["containerStatuses"][0])

    def calls(self) -> list[list[str]]:
        """Words of all calls of `kubectl`."""
        return [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]

    def say(self, **said: Any) -> None:
        """What else the API says: context, namespaces, refuses (verb → why), hangs and breaks (verbs; of
        `get`, the first one after `exec`)."""
        with self._lock:
            self._said |= said
            self._write()

    def stop(self) -> None:
        """End the cluster; its programs are the caller's to end."""
        self._ended.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._ended.wait(POLL_S):
            with self._lock:
                self._look()

    def _look(self) -> None:
        for name, made in self._pods.items():
            if (self.folder / f"delete-{made['metadata']['uid']}").exists():
                self._remove(name)
            elif "running" in self._its(name)["state"] and not alive(self._pids[name]):
                self._again(name)

    def _its(self, name: str) -> dict[str, Any]:
        every: list[dict[str, Any]] = self._pods[name]["status"]["containerStatuses"]
        return every[0]

    def _new(self, name: str, pid: int | None = None) -> None:
        """A new pod that runs."""
        made = self._pods[name]
        made["metadata"]["uid"] = f"uid-{next(_numbers)}"
        named = [one["name"] for one in made["spec"]["containers"]]
        made["status"] = {
            "phase": "Running",
            "containerStatuses": [{"name": one, "restartCount": 0} for one in sorted(named, key=self._usual)],
        }
        self._run(name, pid)

    def _usual(self, container: str) -> bool:
        return container != "kafka"

    def _run(self, name: str, pid: int | None = None) -> None:
        self._pids[name] = pid or self._start(name)
        for its in self._pods[name]["status"]["containerStatuses"]:
            its |= {
                "containerID": f"here://{next(_numbers)}",
                "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            }
        root, inside = self.folder / name, 1 if self._one else 7
        shutil.rmtree(root / "proc", ignore_errors=True)
        for folder in (root / "pids", root / "proc" / "1", root / "proc" / str(inside)):
            folder.mkdir(parents=True, exist_ok=True)
        (root / "pids" / str(inside)).write_text(f"{self._pids[name]}\n")
        (root / "proc" / "1" / "comm").write_text("tini\n")
        (root / "proc" / "1" / "stat").symlink_to("/proc/1/stat")
        at = root / "proc" / str(inside)
        (at / "stat").unlink(missing_ok=True)
        (at / "stat").symlink_to(f"/proc/{self._pids[name]}/stat")
        (at / "comm").write_text("java\n")

    def _again(self, name: str) -> None:
        its = self._its(name)
        its["state"] = {"terminated": {"exitCode": 137}}
        self._write()
        if its["restartCount"]:
            its["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}
        else:
            its["restartCount"] += 1
            self._run(name)
        self._write()

    def _remove(self, name: str) -> None:
        pid = self._pids[name]
        self._pods[name]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:01Z"
        self._write()
        if alive(pid):
            os.kill(pid, signal.SIGTERM)
        while alive(pid):
            self._ended.wait(POLL_S)
        self._pods[name]["metadata"].pop("deletionTimestamp")
        self._write(without=name)
        self._new(name)
        self._write()

    def _write(self, without: str = "") -> None:
        pods = {name: made for name, made in self._pods.items() if name != without}
        text = json.dumps({**self._said, "pods": pods})
        new = self.folder / "state.new"
        new.write_text(text)
        new.replace(self.folder / "state.json")
