"""The file of a cluster (`--cluster FILE.toml`): where it is, how it is secured, what breaks and heals it.

    [cluster]
    bootstrap = "127.0.0.1:19092,127.0.0.1:29092,127.0.0.1:39092"
    prefix = "inquest-"
    docker = { 1 = "kafka-1", 2 = "kafka-2", 3 = "kafka-3" }
    [client]                               # librdkafka's names
    security.protocol = "SASL_SSL"
    sasl.password = "$KAFKA_PASSWORD"      # secrets come from the environment only

docs/external.md is the page for people. Not here: what the cluster itself says (`survey`).
"""

import os
import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from core.cluster import Address, Security, SecurityProtocol
from core.config import Application
from core.errors import ConfigError
from core.files import read_small
from core.secrets import SECRET, without
from core.systems import ExternalSection, Profile
from harness.brokers.admin.connection import SECURITY_SETTINGS

NAME: Final = r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$"
"""What Kubernetes calls things."""
LABEL: Final = r"^$|^[A-Za-z0-9!(]"
"""How a selector of labels begins."""
PODS_S: Final = 120.0
PROTOCOL: Final = "security.protocol"
VALUE_ERROR: Final = "Value error, "
"""How pydantic begins what a validator says."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Hooks(_Part):
    """Commands of a shell; "" = there is none. `hooks` says what each is given, and what it has to do."""

    kill: str = ""
    revive: str = ""
    shut_down: str = ""
    pause: str = ""
    resume: str = ""
    cut: str = ""
    mend: str = ""
    collect: str = ""
    heal_all: str = ""
    deadline_s: float = Field(default=30.0, gt=0, le=600)
    """How long one may take."""

    @property
    def commands(self) -> Mapping[str, str]:
        """Those that there are, by name."""
        return {name: text for name, text in self.model_dump().items() if isinstance(text, str) and text}


class Pods(_Part):
    """Pods of Kubernetes that nodes run in, by label or by name. As text: `namespace/label`."""

    namespace: str = Field(pattern=NAME)
    label: str = Field(default="", pattern=LABEL)
    """A selector: of the pods that match, those that a StatefulSet or Strimzi starts again are nodes."""
    offset: int = 0
    """With a label: a node's number is the number that ends its pod's name, and this added."""
    pods: dict[int, str] = Field(default_factory=dict)
    """Node number → pod, where numbers do not follow from names."""
    container: str = Field(default="", pattern=f"^$|{NAME}")
    """In which the node's program runs; none given = the only one, `kafka` or `redpanda`."""
    context: str = ""
    """Of kubectl's configuration; none given = the current one when a run begins."""

    @model_validator(mode="before")
    @classmethod
    def _text(cls, given: object) -> object:
        if not isinstance(given, str):
            return given
        namespace, slash, label = given.partition("/")
        if not (namespace and slash and label):
            raise ValueError(f'{given!r} is not "namespace/label"')
        return {"namespace": namespace, "label": label}

    @field_validator("pods", mode="before")
    @classmethod
    def _numbers(cls, given: object) -> object:
        return _numbered(given)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if bool(self.label) == bool(self.pods):
            raise ValueError("label and pods: each says which pods are nodes; give one")
        if self.offset and self.pods:
            raise ValueError("offset: it belongs to a label; pods have numbers of their own")
        if wrong := [name for name in self.pods.values() if not re.match(NAME, name)]:
            raise ValueError(f"pods: {wrong[0]!r} is not what a pod is called")
        return self


class ClusterPart(_Part):
    """Where the cluster is, and what of it is the run's."""

    bootstrap: str
    prefix: str = ExternalSection.model_fields["prefix"].default
    profile: Profile = ExternalSection.model_fields["profile"].default
    nodes: dict[int, str] = Field(default_factory=dict)
    """Names that hooks know nodes by; none given = the hosts that brokers advertise."""
    docker: dict[int, str] = Field(default_factory=dict)
    """Containers that nodes run in: gives all hooks that the file does not."""
    kubernetes: Pods | None = None
    """Pods that nodes run in: gives hooks that the file does not."""
    controllers: tuple[int, ...] = ()
    """Which nodes are controllers only; pods of Strimzi say so themselves."""
    log_dirs: str = ""
    """With `docker` or `kubernetes`: the folder that a node has its logs in, in its container, or several,
    with commas, as Kafka's `log.dirs`; `{node}` is its number; "" = no evidence is taken."""

    @field_validator("bootstrap")
    @classmethod
    def _addresses(cls, given: str) -> str:
        addresses(given)
        return given

    @field_validator("nodes", "docker", mode="before")
    @classmethod
    def _numbers(cls, given: object) -> object:
        return _numbered(given)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        ExternalSection(prefix=self.prefix)
        if sum(map(bool, (self.nodes, self.docker, self.kubernetes))) > 1:
            raise ValueError("nodes, docker and kubernetes: each names the nodes; give one")
        if not self.kubernetes and (unnamed := sorted({*self.controllers} - {*self.nodes, *self.docker})):
            raise ValueError(f"controllers: node {unnamed[0]} has no name in nodes or docker")
        if self.log_dirs and not (self.docker or self.kubernetes):
            raise ValueError("log_dirs: it belongs to a shorthand; elsewhere the hook collect brings logs")
        return self


class AppPart(_Part):
    """An application that a run has: what the options `--app`, `--in`, `--out`, `--effects` and
    `--set app=...` say."""

    command: str
    input: str | None = Field(default=None, alias="in")
    out: str | None = None
    effects: str = ""
    """A command; with it there is no `out`."""
    group: str | None = None
    shape: str | None = None
    outputs: int | None = None

    @property
    def section(self) -> Application:
        """What the run's config says of it. Raises: ValidationError."""
        found = self.model_dump(include={"input", "group", "shape", "outputs"}, exclude_none=True)
        found["effects"] = bool(self.effects)
        if self.out is not None:
            found["output"] = self.out
        return Application.model_validate(found)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        try:
            _ = self.section
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            names = {"input": "in", "output": "out"}
            where = "".join(f"{names.get(str(part), part)}: " for part in first["loc"])
            raise ValueError(f"{where}{first['msg'].removeprefix(VALUE_ERROR)}") from None
        return self


class ClusterFile(_Part):
    """All of it. `client` has librdkafka's names; a secret stands there as the name of a variable."""

    cluster: ClusterPart
    app: AppPart | None = None
    client: dict[str, str] = Field(default_factory=dict)
    hooks: Hooks = Hooks()

    @property
    def deadline_s(self) -> float:
        """How long a hook may take: where the file does not say, longer with pods, whose volumes move."""
        by_pods = self.cluster.kubernetes is not None and "deadline_s" not in self.hooks.model_fields_set
        return PODS_S if by_pods else self.hooks.deadline_s

    @field_validator("client", mode="before")
    @classmethod
    def _flat(cls, given: object) -> object:
        return dict(_settings("", given)) if isinstance(given, dict) else given

    @field_validator("client")
    @classmethod
    def _known(cls, given: dict[str, str]) -> dict[str, str]:
        known = {PROTOCOL, *SECURITY_SETTINGS}
        for name, value in given.items():
            if name not in known:
                near = get_close_matches(name, known, 1)
                raise ValueError(f"{name}: {_meant(near)}; known: {', '.join(sorted(known))}")
            if name in SECRET and not value.startswith("$"):
                raise ValueError(f'{name} is a secret: name a variable that holds it, {name} = "$NAME"')
        if given.get(PROTOCOL, "PLAINTEXT") not in list(SecurityProtocol):
            raise ValueError(f"{PROTOCOL}: one of {', '.join(SecurityProtocol)}")
        return given


class Secured:
    """What clients need to reach the cluster, secrets included; none of it is ever shown or written."""

    def __init__(self, given: Mapping[str, str], around: Mapping[str, str]) -> None:
        """around: the environment. Raises: ConfigError, where it lacks a variable."""
        found = {name: _value(name, text, around) for name, text in given.items()}
        self._secrets = {value for name, value in found.items() if given[name].startswith("$") and value}
        protocol = SecurityProtocol(found.pop(PROTOCOL, "PLAINTEXT"))
        self.security = Security(protocol=protocol, settings=found)

    def without_secrets(self, text: str) -> str:
        """A text with every secret hidden."""
        return without(text, self._secrets)


def read(path: Path) -> ClusterFile:
    """The file. Raises: ConfigError, which names the file and the first thing that is wrong."""
    try:
        given = tomllib.loads(read_small(path).decode())
        return ClusterFile.model_validate(given)
    except ValidationError as error:
        raise ConfigError(f"--cluster {path}: {_first(error)}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--cluster {path}: not TOML: {error}") from None


def secured(file: ClusterFile) -> Secured:
    """With the secrets of this environment. Raises: ConfigError."""
    return Secured(file.client, os.environ)


def addresses(bootstrap: str) -> list[Address]:
    """Where brokers are asked first. Raises: ValueError."""
    found = []
    for text in bootstrap.split(","):
        host, colon, port = text.strip().rpartition(":")
        if not (colon and host and port.isdecimal() and 0 < int(port) < 65536):
            raise ValueError(f"{text.strip()!r} is not host:port")
        found.append(Address(host.strip("[]"), int(port)))
    return found


def _numbered(given: object) -> object:
    if isinstance(given, dict) and (wrong := [str(n) for n in given if not str(n).isdecimal()]):
        raise ValueError(f"a node's number, as its broker has it, and not {wrong[0]!r}")
    return given


def _settings(path: str, given: Mapping[str, object]) -> "list[tuple[str, str]]":
    """librdkafka's names, which TOML takes for tables in tables; `{ env = "NAME" }` is `"$NAME"`."""
    found = []
    for name, value in given.items():
        full = f"{path}.{name}" if path else name
        if isinstance(value, dict) and set(value) == {"env"} and isinstance(value["env"], str):
            found.append((full, f"${value['env']}"))
        elif isinstance(value, dict):
            found += _settings(full, value)
        elif isinstance(value, bool):
            found.append((full, str(value).lower()))
        elif isinstance(value, str | int | float):
            found.append((full, str(value)))
        else:
            raise ValueError(f"{full}: text, or a number")
    return found


def _value(name: str, text: str, around: Mapping[str, str]) -> str:
    if not text.startswith("$"):
        return text
    variable = text[1:].strip("{}")
    if variable not in around:
        raise ConfigError(f"--cluster: {name}: the variable {variable} is not set")
    return around[variable]


def _meant(near: list[str]) -> str:
    return f"did you mean {near[0]}?" if near else "a run cannot set it here"


def _first(error: ValidationError) -> str:
    """The first thing that is wrong; never a value, which may be a secret."""
    first = error.errors(include_input=False, include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"] if part != "[key]")
    if first["type"] == "extra_forbidden":
        sections: dict[str, type[BaseModel]] = {"cluster": ClusterPart, "hooks": Hooks, "app": AppPart}
        section = Pods if "kubernetes" in first["loc"] else sections.get(str(first["loc"][0]), ClusterFile)
        near = get_close_matches(str(first["loc"][-1]), section.model_fields, 1)
        return f"unknown setting {where}{f'; did you mean {near[0]}?' if near else ''}"
    if first["type"] == "missing":
        return f"{where} is missing"
    return f"{where}: {first['msg'].removeprefix(VALUE_ERROR)}"
