"""By what means hooks reach the nodes of a cluster: what its file says, what a shorthand of it gives.

    nodes = { 1 = "kafka-1" }               names; all hooks are the file's
    docker = { 1 = "kafka-1" }              containers: `docker_hooks`
    kubernetes = "kafka/app=kafka"          pods: `kubernetes_pods` finds them, `kubernetes_hooks`

A shorthand is a table of commands and what they have in their environment. The file's own hooks win.
"""

from collections.abc import Collection, Mapping

from core.errors import ConfigError
from harness.external import kubernetes_pods
from harness.external.docker_hooks import docker_hooks
from harness.external.file import ClusterFile
from harness.external.kubernetes_hooks import kubernetes_hooks
from harness.external.nodes import Means


def means(file: ClusterFile) -> Means:
    """The means of a file; pods are asked for. Raises: ConfigError, ClusterError."""
    section = file.cluster
    if section.kubernetes is None:
        return Means(names=section.docker or section.nodes, controllers=section.controllers)
    found = kubernetes_pods.means_of_pods(section.kubernetes.model_dump_json(), section.controllers)
    if unnamed := sorted(set(found.controllers) - set(found.names)):
        raise ConfigError(f"--cluster: controllers: node {unnamed[0]} has no pod; {found.text}")
    return found


def judges_disks(file: ClusterFile, hooks: Mapping[str, str]) -> bool:
    """Whether what these hooks collect is the disks of nodes, and can be judged: nodes that run change them,
    so they are paused meanwhile. The table of a shorthand collects disks where `log_dirs` says so."""
    own = "collect" in file.hooks.commands
    return {"collect", "pause", "resume"} <= hooks.keys() and (own or bool(file.cluster.log_dirs))


def commands(file: ClusterFile, lacks: Collection[str] = ()) -> Mapping[str, str]:
    """The hooks of a file by name, those of its shorthand among them but what that lacks."""
    section, given = file.cluster, file.hooks.commands
    if section.docker:
        return {**docker_hooks(disks=bool(section.log_dirs)), **given}
    if section.kubernetes is not None:
        table = kubernetes_hooks(disks=bool(section.log_dirs))
        return {**{name: text for name, text in table.items() if name not in lacks}, **given}
    return given
