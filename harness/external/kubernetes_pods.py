"""Which pods are the nodes of a cluster, as `kubectl` says, and whether signals reach the programs in them.

Kubectl's current context may change while a run is under way; the run keeps the one that was current when it
asked first, in this process and in its reaper.
"""

import re
import shutil
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec

from core.errors import ClusterError, ConfigError, Unanswered
from harness.external.file import Pods
from harness.external.kubernetes_hooks import SIGNALLED
from harness.external.nodes import Means
from harness.processes.user_command import finish
from harness.processes.waiting import on_each

ASK_S: Final = 15.0
OWNERS: Final = ("StatefulSet", "StrimziPodSet")
"""What starts a pod again under the same name."""
USUAL: Final = ("kafka", "redpanda")
"""Containers that nodes run in, where a pod has several."""
ROLES: Final = ("strimzi.io/broker-role", "strimzi.io/controller-role")
"""Labels of Strimzi's pods."""
BY_SIGNAL: Final = ("kill", "pause", "resume")
"""Hooks that send a signal from inside the container."""

REMOTE: Final = "command terminated with exit code"
"""What kubectl adds to the words of a program in a container."""
Pod = Mapping[str, Any]
"""As the API has it."""


class _Kubectl:
    """`kubectl` for one namespace. context: "" = the one that it takes."""

    def __init__(self, context: str, namespace: str) -> None:
        self._flags = [*([f"--context={context}"] if context else []), f"--namespace={namespace}"]

    def __call__(self, *words: str) -> str:
        """Its output. Raises: ClusterError, with its last words."""
        return _output("kubectl", *self._flags, *words)


@cache
def means_of_pods(given: str, controllers: tuple[int, ...]) -> Means:
    """The means to reach the pods. given: `Pods` as JSON. Asked once by a process. Raises: ConfigError, where
    the file's words mean no such pods; ClusterError, where kubectl or the cluster refuses, or is silent."""
    if shutil.which("kubectl") is None:
        raise ConfigError("--cluster: kubernetes: there is no program kubectl on PATH")
    wanted = Pods.model_validate_json(given)
    context = wanted.context or _current()
    kubectl = _Kubectl(context, wanted.namespace)
    pods = _named(wanted, kubectl) if wanted.pods else _labelled(wanted, kubectl)
    containers = {wanted.container or _container(pod) for pod in pods.values()}
    if len(containers) > 1:
        raise _wrong(f"nodes run in the containers {', '.join(sorted(containers))}: name one, container = …")
    (container,) = containers
    for pod in pods.values():
        _must_run(pod, container)
    names = {node: _name(pod) for node, pod in sorted(pods.items())}
    alone = tuple(node for node, pod in sorted(pods.items()) if _is_controller_only(pod))
    listed = ", ".join(f"{node} = {name}" for node, name in names.items())
    where = f"namespace {wanted.namespace}, context {context or 'by default'}, container {container}"
    return Means(
        names=names,
        controllers=controllers or alone,
        around={
            "INQUEST_CONTEXT": context,
            "INQUEST_NAMESPACE": wanted.namespace,
            "INQUEST_CONTAINER": container,
        },
        lacks=_lacks(kubectl, list(names.values()), container),
        text=f"pods {listed}; {where}",
    )


def _output(*command: str) -> str:
    code, out, said = finish("--cluster: kubernetes: kubectl", command, ASK_S)
    if code != 0:
        text = said.decode(errors="replace").strip()
        lines = [line for line in text.splitlines() if not line.startswith(REMOTE)]
        raise ClusterError(f"--cluster: kubernetes: kubectl: {lines[-1] if lines else f'exit code {code}'}")
    return out.decode(errors="replace")


def _current() -> str:
    """ "" = there is none, as in a pod, where kubectl takes the cluster around it."""
    try:
        return _output("kubectl", "config", "current-context").strip()
    except Unanswered:
        raise
    except ClusterError:
        return ""


def _wrong(why: str) -> ConfigError:
    return ConfigError(f"--cluster: kubernetes: {why}")


def _listed(text: str) -> list[Pod]:
    """What `get --output=json` wrote: a list, one thing, or nothing. Raises: ClusterError (no JSON)."""
    if not text.strip():
        return []
    try:
        written = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ClusterError(f"--cluster: kubernetes: kubectl wrote no JSON, but {text[:60]!r}") from error
    return list(written["items"]) if "items" in written else [written]


def _name(pod: Pod) -> str:
    return str(pod["metadata"]["name"])


def _named(wanted: Pods, kubectl: _Kubectl) -> dict[int, Pod]:
    """Those that the file names."""
    names = wanted.pods
    written = kubectl("get", "pods", *sorted(set(names.values())), "--ignore-not-found", "--output=json")
    pods = {_name(pod): pod for pod in _listed(written)}
    if missing := [name for name in names.values() if name not in pods]:
        _must_exist(wanted.namespace, kubectl)
        raise _wrong(f"namespace {wanted.namespace} has no pod {missing[0]}")
    return {node: pods[name] for node, name in names.items()}


def _labelled(wanted: Pods, kubectl: _Kubectl) -> dict[int, Pod]:
    """Those with the label that something starts again under the same name."""
    where = f"label {wanted.label} in namespace {wanted.namespace}"
    every = _listed(kubectl("get", "pods", f"--selector={wanted.label}", "--output=json"))
    if not every:
        _must_exist(wanted.namespace, kubectl)
        raise _wrong(f"no pod has the {where}")
    owned = [pod for pod in every if _is_started_again(pod)]
    if not owned:
        raise _wrong(
            f"no pod with the {where} belongs to a {' or a '.join(OWNERS)}: name them, pods = {{ … }}"
        )
    numbered: dict[int, Pod] = {}
    for pod in owned:
        digits = re.search(r"-(\d+)$", _name(pod))
        node = int(digits[1]) + wanted.offset if digits else -1
        if node < 0:
            raise _wrong(f"pod {_name(pod)}: its name gives no number of a node: name all, pods = {{ … }}")
        if node in numbered:
            both = f"{_name(numbered[node])} and {_name(pod)}"
            raise _wrong(f"pods {both} are both node {node}: a narrower label, or pods = {{ … }}")
        numbered[node] = pod
    return numbered


def _must_exist(namespace: str, kubectl: _Kubectl) -> None:
    """Raises: ConfigError, where there is no such namespace. A user who may not ask is not refused."""
    try:
        there = kubectl("get", "namespace", namespace, "--ignore-not-found", "--output=name").strip()
    except Unanswered:
        raise
    except ClusterError:
        return
    if not there:
        raise _wrong(f"there is no namespace {namespace}")


def _is_started_again(pod: Pod) -> bool:
    return any(one["kind"] in OWNERS for one in pod["metadata"].get("ownerReferences", ()))


def _is_controller_only(pod: Pod) -> bool:
    labels = pod["metadata"].get("labels", {})
    return [labels.get(role) for role in ROLES] == ["false", "true"]


def _container(pod: Pod) -> str:
    names = [str(one["name"]) for one in pod["spec"]["containers"]]
    usual = [name for name in names if name in USUAL]
    if len(names) == 1 or len(usual) == 1:
        return (usual or names)[0]
    raise _wrong(f"pod {_name(pod)} has the containers {', '.join(names)}: name one, container = …")


def _must_run(pod: Pod, container: str) -> None:
    """Raises: ConfigError, where it has no such container; ClusterError, where that does not run."""
    names = [str(one["name"]) for one in pod["spec"]["containers"]]
    if container not in names:
        raise _wrong(f"pod {_name(pod)} has no container {container}, but {', '.join(names)}")
    states = {one["name"]: one["state"] for one in pod.get("status", {}).get("containerStatuses", ())}
    state: Mapping[str, Any] = states.get(container, {})
    if "running" not in state:
        why = state.get("waiting", {}).get("reason") or pod.get("status", {}).get("phase", "")
        raise ClusterError(f"--cluster: kubernetes: pod {_name(pod)} does not run: {why}")


def _lacks(kubectl: _Kubectl, names: Sequence[str], container: str) -> dict[str, str]:
    """Hooks that do not exist, and why: signals do not reach the programs of all nodes."""
    refused: dict[str, str] = {}

    def look(name: str) -> None:
        try:
            kubectl("exec", name, f"--container={container}", "--", "sh", "-c", SIGNALLED)
        except Unanswered:
            raise
        except ClusterError as error:
            refused[name] = str(error).rpartition("kubectl: ")[2]

    on_each(look, names)
    first = next((f"pod {name}: {refused[name]}" for name in names if name in refused), "")
    return dict.fromkeys(BY_SIGNAL, first) if first else {}
