"""What a session compares: systems and clients that perform the same drawn runs, one after the other.

    --versions 3.9.2,4.4.0  --clients "librdkafka,java=java -jar client.jar"  --clusters east.toml,west.toml

A session's log has their names and settings. Which program and which file a name means, only the command
line says, as everywhere (`core.extensions`).
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from core.config import SHORT
from core.errors import ConfigError
from core.extensions import APP, CLIENT, CLUSTER, EFFECTS, OWNED
from core.presets import NamedSettings
from core.secrets import shown
from harness.clients.command import named as program
from harness.clients.registry import CLIENTS

Variables = Mapping[str, str]
"""Variables of the environment of a run."""


class SystemUnderSoak(BaseModel):
    """A system with its clients. settings: beside those of the run, and over them. client, cluster: names of
    a program and of a file that the command line gave, "" = none. application: settings of a run of the
    application that the file names."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    settings: NamedSettings = {}
    client: str = ""
    cluster: str = ""
    application: NamedSettings = {}


Systems = tuple[SystemUnderSoak, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Which program a name of clients means, and which file a name of a cluster: as variables of a run."""

    clients: Mapping[str, Variables] = field(default_factory=dict)
    clusters: Mapping[str, Variables] = field(default_factory=dict)

    def variables(self, client: str, cluster: str) -> Variables:
        """What a run on them finds in its environment. Raises: ConfigError, where the command line does not
        name them."""
        for name, known, option in ((client, self.clients, "clients"), (cluster, self.clusters, "clusters")):
            if name and name not in known:
                raise ConfigError(f"{shown(name)}: name it with --{option}; no recording brings it")
        return {**self.clients.get(client, {}), **self.clusters.get(cluster, {})}


@contextmanager
def in_force(variables: Variables) -> Iterator[None]:
    """This process has these variables for the length of the block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def compared(
    versions: str, clients: str, clusters: str, *, owned: bool, sut: str = "kafka", app: bool = False
) -> tuple[Systems, Named]:
    """What the options name; "" = nothing. sut: the system of the versions. app: the command line names an
    application, those of files count for nothing. Raises: ConfigError, ClusterError."""
    pairs = [_program(word) for word in _words("--clients", clients)]
    _refuse_twins("--clients", "programs", [name for name, _ in pairs])
    words = _words("--clusters", clusters)
    _refuse_twins("--clusters", "files", [Path(word).stem for word in words])
    programs, files = dict(pairs), {Path(word).stem: word for word in words}
    places = [
        SystemUnderSoak(settings={_version_of(sut): version}) for version in _words("--versions", versions)
    ]
    own: dict[str, Variables] = {}
    for name, file in files.items():
        variables = {CLUSTER: str(Path(file).resolve()), OWNED: "1" * owned}
        place, own[name] = _cluster(name, variables, app=app)
        places.append(place)
    systems = [
        _loaded_by(place, name) for place in places or [SystemUnderSoak()] for name in programs or [""]
    ]
    return tuple(systems), Named(clients=programs, clusters=own)


def _loaded_by(place: SystemUnderSoak, name: str) -> SystemUnderSoak:
    """The same with these clients, "" = the usual ones."""
    if not name:
        return place
    kind, program_ = (name, "") if name in CLIENTS else ("command", name)
    return place.model_copy(update={"settings": place.settings | {"clients": kind}, "client": program_})


def _version_of(sut: str) -> str:
    """The setting that says the version of a system. Raises: ConfigError."""
    for name in ("kafka", "era"):
        if sut in SHORT[name][0]:
            return name
    raise ConfigError(f"--versions: sut={sut} has none")


def _words(option: str, text: str) -> list[str]:
    words = [word.strip() for word in text.split(",")] if text else []
    if "" in words or len(set(words)) < len(words):
        raise ConfigError(f"{option} {shown(text)}: an entry is empty, or is there twice")
    return words


def _refuse_twins(option: str, what: str, names: Sequence[str]) -> None:
    """Raises: ConfigError, where a name means two things."""
    if twins := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise ConfigError(f"{option}: {shown(twins[0])} names two {what}")


def _program(word: str) -> tuple[str, Variables]:
    """A name of clients, and their variables. Raises: ConfigError."""
    name, _, command = (part.strip() for part in word.partition("="))
    if command and name in CLIENTS:
        raise ConfigError(f"--clients: {shown(name)} is a kind of clients, and no name of a program")
    if not name or (not command and name not in CLIENTS):
        raise ConfigError(f"--clients {shown(word)}: NAME=COMMAND, or one of {', '.join(CLIENTS)}")
    if not command:
        return name, {}
    with in_force({CLIENT: command}):
        program.PROGRAM.words()  # it can be started
    return name, {CLIENT: command}


def _cluster(name: str, variables: Variables, *, app: bool) -> tuple[SystemUnderSoak, Variables]:
    """A cluster of the user's, and the variables of its runs. app: see `compared`. Raises: ConfigError,
    ClusterError."""
    from harness.external import named

    with in_force({**variables, APP: os.environ.get(APP, ""), EFFECTS: os.environ.get(EFFECTS, "")}):
        settings, section = named.of_cluster(), None if app else named.application_section()
        if section is None:
            return SystemUnderSoak(settings=settings, cluster=name), variables
        commands = {variable: os.environ[variable] for variable in (APP, EFFECTS)}
    place = SystemUnderSoak(settings=settings, cluster=name, application={"app": section})
    return place, {**variables, **commands}
