"""The systems under test and the deployments of Kafka: one visible dict each.

An entry owns the settings and the title of what it names, and no other place repeats them.

    SYSTEMS["kafka"].title(config.section(KafkaSection))

To add a system: an entry here and its module in `harness/`, with a `harness.run.backend.Backend`. Modules are
named as text, and `harness.systems` imports them when a run needs them: no arrow leads up from this room.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

KAFKA_VERSION: Final = "4.4.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaDeployment:
    """One way to deploy Kafka in containers."""

    doc: str
    """One line for people."""
    lines: tuple[str, ...]
    """Released lines that can run, the oldest first."""
    oldest: str
    """Why none before the first line can."""
    newest: str = ""
    """Why none after the last line can, "" = one that is released later can."""
    between: Mapping[str, str] = field(default_factory=dict)
    """Lines between them that cannot run, and why."""
    recipe: str
    """Folder of `docker/` that its image is built from."""
    controllers: bool
    """Controllers can be nodes of their own."""
    ensemble: bool
    """Metadata are kept by nodes of another program."""
    upgrades: bool
    """Its nodes can change to a later version, one after the other."""
    nodes: str
    """`module:name` of what makes its `harness.containers.deployment.Deployment`, called with config and run
    folder; `.module` begins in the harness."""

    def refused(self, version: str) -> str:
        """Why this version of Kafka cannot run, "" = it can, if it exists."""
        if re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,4}){2,3}", version) is None:
            return f"a Kafka version has three numbers, such as {KAFKA_VERSION}"
        if _numbers(version) < _numbers(self.lines[0]):
            return f"{self.oldest} {self.lines[0]} or later; {self.text()}"
        if self.newest and _numbers(version) > _numbers(self.lines[-1]):
            return f"{self.newest}; {self.text()}"
        return self.between.get(line_of(version), "")

    def bounds(self) -> str:
        """Which versions can run, and why none before and after them."""
        reasons = [f"{self.oldest} {self.lines[0]} or later"]
        for why in dict.fromkeys(self.between.values()):
            lines = [line for line, its in self.between.items() if its == why]
            reasons.append(f"not {', '.join(lines)}: {why}")
        return f"{self.lines[0]} to {self.lines[-1]}: {'; '.join([*reasons, *filter(None, [self.newest])])}"

    def text(self) -> str:
        """Which versions can run, in words."""
        without = f", but {', '.join(self.between)}" if self.between else ""
        return f"versions of the lines {self.lines[0]} to {self.lines[-1]}{without} can run"


def line_of(version: str) -> str:
    """The line that a version is of: its first two numbers, three before Kafka 1.0."""
    return ".".join(version.split(".")[: 3 if version.startswith("0.") else 2])


def versions(first: str, later: str) -> str:
    """The versions of a run in words. later: "" = there is one only."""
    return f"{first} → {later}" if later else first


def numbers_of(version: str) -> tuple[int, ...]:
    """`3.9.1` as numbers, which have the order of the versions."""
    return tuple(int(part) for part in version.split("."))


def is_since(version: str, first: str) -> bool:
    """Whether a version is this one or a later one."""
    return numbers_of(version) >= numbers_of(first)


def release_of(era: str) -> str:
    """The release that an era of the model stands for, "" = its name says none."""
    found = re.match(r"[0-9]+\.[0-9]+", era)
    return found[0] if found else ""


def _numbers(version: str) -> tuple[int, ...]:
    return numbers_of(line_of(version))


UNRESOLVED: Final = "the client of ZooKeeper 3.4.13 and 3.4.14 resolves no host on the images' Java 17"

DEPLOYMENTS: Final[dict[str, KafkaDeployment]] = {
    "kraft": KafkaDeployment(
        doc="brokers whose metadata are a Raft quorum's",
        # 3.3 was the first line whose KRaft was declared ready for production.
        lines=("3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9", "4.0", "4.1", "4.2", "4.3", "4.4"),
        oldest="KRaft needs Kafka",
        recipe="kafka",
        controllers=True,
        ensemble=False,
        upgrades=True,
        nodes=".kafka.kraft:KRaft",
    ),
    "zookeeper": KafkaDeployment(
        doc="brokers whose metadata ZooKeeper keeps, which is one node more, or three",
        lines=(
            *("0.10.2", "0.11.0", "1.0", "1.1", "2.4", "2.5", "2.6", "2.7", "2.8"),
            *(f"3.{minor}" for minor in range(10)),
        ),
        oldest="listeners of the harness's own need Kafka",
        between=dict.fromkeys(("2.0", "2.1", "2.2", "2.3"), UNRESOLVED),
        newest="Kafka has no ZooKeeper from 4.0 on",
        recipe="zookeeper",
        controllers=False,
        ensemble=True,
        upgrades=False,  # each broker would be restarted twice, for inter.broker.protocol.version
        nodes=".kafka.zookeeper:ZooKeeperNodes",
    ),
}
"""How Kafka can be deployed, the usual way first."""


def deployment_of(version: str) -> str:
    """The usual way to deploy a version of Kafka, "" = none can run it."""
    return next((name for name, one in DEPLOYMENTS.items() if not one.refused(version)), "")


def refused_version(version: str) -> str:
    """Why no deployment can run this version of Kafka, "" = one can, if the version exists."""
    if deployment_of(version):
        return ""
    return "; ".join(dict.fromkeys(one.refused(version) for one in DEPLOYMENTS.values()))


Profile = Literal["kafka", "redpanda", "object-store"]
"""Kinds of brokers behind Kafka's protocol: Kafka's own; Redpanda's, which name their controller in answer to
Metadata; ones whose replicas are a store's, and which have neither in-sync replicas nor a controller."""


class Section(BaseModel):
    """Settings of one system, a section of the config that has the system's name."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class KafkaSection(Section):
    """Settings of real Kafka in containers (`sut` kafka)."""

    metadata: str = Field(default="", exclude_if=lambda name: not name)
    """Who keeps its metadata: an entry of `DEPLOYMENTS`, "" = as usual for the version."""
    version: str = Field(default=KAFKA_VERSION, validate_default=True)
    upgrade: str = Field(default="", exclude_if=lambda version: not version)
    """The later version that the nemesis `upgrade` gives to nodes, "" = none."""
    ensemble: Literal[1, 3] = Field(default=1, exclude_if=lambda size: size == 1)
    """Nodes of ZooKeeper, after the brokers."""
    racks: int = Field(default=0, ge=0, le=9, exclude_if=lambda number: not number)
    """Racks that brokers are in, in turn (`broker.rack`); 0 = none is set."""
    log_dirs: int = Field(default=1, ge=1, le=2, exclude_if=lambda number: number == 1)
    """Log directories of each broker (`log.dirs`), each as if on a disk of its own."""
    disk_mb: int = Field(default=0, ge=0, le=4096, exclude_if=lambda size: not size)
    """Size of the disk that each broker has its logs on, in MiB of memory; 0 = the disk of the engine."""
    quorum: Literal["static", "dynamic"] = Field(default="static", exclude_if=lambda kind: kind == "static")
    """Who votes in the metadata quorum: whom the settings of nodes name, or whom its log does (KIP-853)."""

    @field_validator("metadata")
    @classmethod
    def _known(cls, name: str) -> str:
        if name and name not in DEPLOYMENTS:
            raise ValueError(f"known deployments: {', '.join(DEPLOYMENTS)}")
        return name

    @field_validator("version")
    @classmethod
    def _can_run(cls, version: str, info: ValidationInfo) -> str:
        name = info.data.get("metadata")
        if why := DEPLOYMENTS[name].refused(version) if name else refused_version(version):
            raise ValueError(why)
        return version

    @field_validator("upgrade")
    @classmethod
    def _later(cls, later: str, info: ValidationInfo) -> str:
        version = info.data.get("version")
        if not later or version is None:
            return later
        deployment = DEPLOYMENTS[info.data.get("metadata") or deployment_of(version)]
        if not deployment.upgrades:
            raise ValueError(f"no upgrades here of {deployment.doc}")
        if why := deployment.refused(later):
            raise ValueError(why)
        if numbers_of(later) <= numbers_of(version):
            raise ValueError(f"a version after {version}, which nodes have first")
        return later

    @property
    def versions(self) -> str:
        """Its version, and the one that nodes may change to: `4.1.2 → 4.4.0`."""
        return versions(self.version, self.upgrade)

    @property
    def deployment(self) -> str:
        """The entry of `DEPLOYMENTS` that is meant."""
        return self.metadata or deployment_of(self.version)


def _kafka(its: KafkaSection) -> str:
    """Its versions, and how it is deployed where that is not the usual way of today."""
    return f"Kafka {its.versions}" + (", ZooKeeper" if its.deployment == "zookeeper" else "")


class SimulatedSection(Section):
    """Settings of the modelled cluster in virtual time (`sut` simulated)."""

    era: str = "4.3"
    """Behaviour of the cluster, by the release that had it (`model.eras`)."""
    mutant: str = ""
    """A bug that is planted in the cluster (`model.mutants`), "" = none."""


class ModelSection(Section):
    """Settings of the modelled cluster behind Kafka's protocol (`sut` model)."""

    era: str = "4.3-tv1"
    """As with `simulated`; the clients speak transaction version 1."""
    mutant: str = ""
    """As with `simulated`."""
    containers: bool = False
    """Brokers are containers, on the network that Kafka's would have; else processes of this machine."""


class ExternalSection(Section):
    """Settings of a cluster that the harness did not start (`sut` external): what its file says of names. How
    it is reached and what breaks it stand in that file only (`--cluster`)."""

    prefix: str = Field(default="inquest-", pattern=r"^[A-Za-z0-9.-][A-Za-z0-9._-]{0,99}$")
    """How the names of all topics, groups and transactional ids of the run begin."""
    tag: str = Field(default="", pattern=r"^[a-z0-9]{0,16}$")
    """What follows in all names of this run, and of no other: internal topics keep what runs before wrote."""
    profile: Profile = "kafka"
    """What kind of brokers it has."""
    nodes: tuple[int, ...] = (1, 2, 3)
    """Their numbers as the cluster has them: brokers, then isolated controllers."""
    one_clock: bool = False
    """All nodes are known to go by the clock of the machine that clients ran on; else the clocks of any two
    may be apart, by an unknown time."""
    watched: bool = False
    """The harness sees which nodes end, also where it did not end them."""
    zookeeper: bool = False
    """Its metadata are in ZooKeeper."""


UNTIMED: Final = frozenset({"verifiable"})
"""Formats of imports that do not say when an op began."""

CLOCK_ERROR_S: Final = {"verifiable": 5.0}
"""How far the clocks of two processes may be apart where the user does not say, by format of an import: those
whose files come from several hosts, each with a clock of its own."""
CUT_TO_NS: Final = {"verifiable": 1_000_000}
"""What times are cut to, by format: others have nanoseconds."""

UNRECORDED: Final = ("nemesis", "preset", "seed", "brokers", "duration_s")
"""Settings that no recording of another program has: an import has their defaults."""


class ImportedSection(Section):
    """What an import read (`sut` imported): `recording import` writes it, `run` refuses it."""

    format: str = ""
    """Of the files: a command of `inquest recording import`."""
    files: tuple[str, ...] = ()
    """Their absolute paths; names alone in recordings of earlier versions."""
    options: tuple[Literal["--from-start", "--one-group"], ...] = ()
    """What its user said of the recording."""
    clock_error_s: float | None = Field(default=None, ge=0, lt=1e6, allow_inf_nan=False)
    """The clocks of two processes are at most so far apart, as its user said."""
    on_record: tuple[Literal["final_reads", "from_start", "positions", "commits"], ...] = ()
    """What they hold beside ops and records (`checkers.engine.kernel_input.OnRecord`)."""

    @property
    def apart_ns(self) -> int:
        """How far times of two processes on record may be apart from what they were."""
        seconds = CLOCK_ERROR_S.get(self.format, 0.0) if self.clock_error_s is None else self.clock_error_s
        return round(seconds * 1e9) + CUT_TO_NS.get(self.format, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One kind of system under test."""

    doc: str
    """One line for people."""
    section: type[Section] = Section
    """Its settings."""
    short: Mapping[str, str] = field(default_factory=dict)
    """Short names for settings in its section, and their names there. A user may write them wherever settings
    are written: `--kafka 4.4.0`, `--set era=2.4`, presets, the matrix of a soak."""
    title: Callable[[Any], str]
    """What a run is made on, in two to six words, by its section."""
    report_title: Callable[[Any], str] | None = None
    """The same for readers who do not know which kinds there are; None = `title`."""
    backend: str = ""
    """`module:name` of its `harness.run.backend.Backend`; `.module` begins in the harness. "" = no run can
    have it."""
    clients: str = "librdkafka"
    """Load clients of its runs: an entry of `harness.clients.registry.CLIENTS`."""
    repeatable: bool = False
    """It runs in virtual time: a config and a schedule make the same journals, to the byte; such runs have a
    trace, and can be replayed and shrunk."""


def _model(settings: SimulatedSection | ModelSection) -> str:
    return f"era {settings.era}" + (f", mutant {settings.mutant}" if settings.mutant else "")


SYSTEMS: Final[dict[str, System]] = {
    "kafka": System(
        doc="real Kafka brokers in Docker containers",
        section=KafkaSection,
        short={
            "kafka": "version",
            "upgrade": "upgrade",
            "metadata": "metadata",
            "ensemble": "ensemble",
            "racks": "racks",
            "log_dirs": "log_dirs",
            "disk_mb": "disk_mb",
            "quorum": "quorum",
        },
        title=_kafka,
        report_title=lambda its: f"Apache {_kafka(its)}",
        backend=".kafka.system:KAFKA",
    ),
    "simulated": System(
        doc="Kafka's reference model in virtual time, in one process; no Docker",
        section=SimulatedSection,
        short={"era": "era", "mutant": "mutant"},
        title=lambda its: f"model, {_model(its)}",
        report_title=lambda its: f"simulated, {_model(its)}",
        backend=".modelled.virtual.run_folder:SIMULATED",
        clients="modelled",
        repeatable=True,
    ),
    "model": System(
        doc="Kafka's reference model behind Kafka's own protocol, as processes, or as containers",
        section=ModelSection,
        short={"era": "era", "mutant": "mutant", "containers": "containers"},
        title=lambda its: f"model's brokers, {_model(its)}",
        backend=".modelled.real.system:MODEL",
    ),
    "external": System(
        doc="a cluster that you have: --cluster FILE (docs/external.md)",
        section=ExternalSection,
        title=lambda its: f"external cluster, {its.profile}",
        backend=".external.system:EXTERNAL",
    ),
    "imported": System(
        doc="a recording of another program",
        section=ImportedSection,
        title=lambda its: f"imported, {its.format}: {', '.join(map(os.path.basename, its.files))}",
    ),
}
"""Every system by the value of `sut`."""


def runnable() -> tuple[str, ...]:
    """Names of the systems that a run can have, in the order of words."""
    return tuple(sorted(name for name, system in SYSTEMS.items() if system.backend))


def served() -> tuple[str, ...]:
    """Those of them that have an address, which a program can use."""
    return tuple(name for name in runnable() if not SYSTEMS[name].repeatable)


def report_title(config: Mapping[str, object]) -> str:
    """What a run was made on, by its recorded config, which may be one of an earlier version."""
    sut = str(config.get("sut", "unknown"))
    for name in sorted(SYSTEMS, key=lambda name: name != sut):  # its own first
        system, given = SYSTEMS[name], config.get(name)
        if isinstance(given, str) and name in system.short:  # as the user may write it
            given = {system.short[name]: given}
        if isinstance(given, dict):
            section = system.section.model_construct(**given)
            return (system.report_title or system.title)(section)
    return sut


def planted_bug(config: Mapping[str, object]) -> str:
    """The bug that was planted in the system of a recorded config, "" = none."""
    given = config.get(str(config.get("sut")))
    return str(given.get("mutant") or "") if isinstance(given, dict) else ""


def short_settings() -> dict[str, tuple[tuple[str, ...], str]]:
    """By short name, the systems that have the setting, and its name in their sections."""
    found: dict[str, tuple[tuple[str, ...], str]] = {}
    for name, system in SYSTEMS.items():
        for short, setting in system.short.items():
            owners, _ = found.get(short, ((), setting))
            found[short] = ((*owners, name), setting)
    return found
