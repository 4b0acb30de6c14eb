"""RunConfig: everything that defines a run, seed included.

A run is repeated by its `config.json`.

Not here: named sets of settings (`core.presets`), which systems, workloads and nemeses exist (their
registries), the paths (`history.run_folder`).
"""

import math
import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
    field_serializer,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from core.errors import ConfigError, HistoryError
from core.files import read_small
from core.internal_topics import internal
from core.known_names import unknown
from core.op import DATABASE, Isolation
from core.presets import PRESETS, NamedSettings
from core.secrets import HIDDEN, is_secret, masked, shown
from core.systems import SYSTEMS, ExternalSection, Section, short_settings

SHORT: Final = short_settings()
"""Short names for settings in sections (`core.systems.System.short`)."""
S = TypeVar("S", bound=Section)

AUTOMATIC: Final = ("automatic", "automatic-beside")
"""Values of `commit` with which clients commit automatically what they were given."""


class _Named(BaseModel):
    """What a run is called by."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    workload: str = "queue"
    nemesis: str = "partition"
    preset: str = "safe"
    sut: str = "kafka"


if TYPE_CHECKING:
    _Sectioned = _Named
else:  # one field a system: its section, set for the chosen one (`sut`) only
    _sections = {name: (system.section | None, None) for name, system in SYSTEMS.items()}
    _Sectioned = create_model("_Sectioned", __base__=_Named, **_sections)


class Application(BaseModel):
    """An application of the user's: instances of one program, members of one group, read one topic; what they
    make of it stands in another topic, or (`output` "") outside of Kafka."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: str = Field(default="app-in", pattern=r"^[A-Za-z0-9._-]{1,200}$")
    output: str = Field(default="app-out", pattern=r"^[A-Za-z0-9._-]{0,200}$")
    effects: bool = False
    """A command of the user's prints what the world outside of Kafka shows of it, instead of `output`."""
    group: str = Field(default="app", pattern=r"^[A-Za-z0-9._-]{1,200}$")
    shape: Literal["one-to-one", "filter", "flat-map", "aggregate"] = "one-to-one"
    """Of each input record there is one output record; or one, or none; or several, whose bytes differ; or it
    is part of the last result of its key."""
    outputs: int = Field(default=0, ge=0, le=1000, exclude_if=lambda number: not number)
    """How many of each, of a flat-map; 0 = any number, or none."""

    @property
    def may_omit(self) -> bool:
        """Of an input record there may be no output."""
        return self.shape == "filter" or (self.shape == "flat-map" and not self.outputs)

    @property
    def ordered(self) -> bool:
        """Its output stands in a log, where the order of records means something."""
        return not self.effects and self.shape != "aggregate"

    @model_validator(mode="before")
    @classmethod
    def _outside(cls, given: object) -> object:
        """Where effects are its output, no topic is."""
        if isinstance(given, Mapping) and given.get("effects") is True:
            return {"output": "", **given}
        return given

    @model_validator(mode="after")
    def _places(self) -> Self:
        if self.effects == bool(self.output):
            raise ValueError("the output is a topic, or effects: one of the two")
        for topic in filter(None, (self.input, self.output)):
            if topic in (DATABASE, ".", "..") or internal(topic):
                raise ValueError(f"{topic!r} cannot be the name of a topic of a run")
        if self.input.replace(".", "_") == self.output.replace(".", "_"):
            raise ValueError(f"input {self.input} and output {self.output} are one topic to Kafka")
        return self

    @model_validator(mode="after")
    def _several(self) -> Self:
        if self.outputs and self.shape != "flat-map":
            raise ValueError("outputs says something of shape flat-map alone")
        if self.effects and self.shape == "aggregate":
            raise ValueError("results of shape aggregate are read from an output topic, effects are not")
        return self


class RunConfig(_Sectioned):
    """Settings of one run. Times are in seconds, sizes in bytes, rates in ops per second."""

    seed: int = Field(ge=0, lt=2**63)
    duration_s: float = Field(default=60.0, ge=1, le=86_400)
    """Length of the phase of faults."""

    brokers: int = Field(default=3, ge=1, le=9)
    controllers: Literal[0, 1, 3] = 0
    """Isolated controllers, nodes of their own after the brokers; 0 = every broker is one too."""
    partitions: int = Field(default=6, ge=1, le=1000)
    replication_factor: int = Field(default=3, ge=1, le=9)
    min_insync_replicas: int = Field(default=2, ge=1, le=9)
    unclean_leader_election: bool = False
    broker_settings: dict[str, str] = Field(default_factory=dict)
    topic_settings: dict[str, str] = Field(default_factory=dict)

    producers: int = Field(default=4, ge=1, le=64)
    home_producers: int = Field(default=3, ge=0, le=64)
    """Further producers; each sends to one partition only: a fault that leaves this partition alone
    does not stop them. Workloads that fill a topic have them."""
    consumers: int = Field(default=3, ge=0, le=64)
    rate: float = Field(default=120.0, ge=0, le=1_000_000)
    """Ops that all producers together invoke per second; 0 = as fast as they can."""
    batch_max: int = Field(default=40, ge=1, le=100)
    """Most records of one op."""
    record_size: int = Field(default=100, ge=64, le=1_000_000)
    abort_share: float = Field(default=0.15, ge=0, le=1)
    renew_share: float = Field(default=0, ge=0, le=1)
    """Share of acquired records whose locks members of a share group renew instead (KIP-1222)."""
    dead_letters: bool = False
    """The share group has a dead-letter queue (KIP-1191; Kafka 4.4): a topic to which brokers write what it
    archives."""
    acks: Literal[0, 1, -1] = -1
    idempotent: bool = True
    isolation: Isolation = Isolation.READ_COMMITTED
    """Of the consumers during the run; final reads use both levels."""
    commit: Literal[
        "transaction", "without-rewind", "beside", "automatic-beside", "after", "before", "automatic"
    ] = "transaction"
    """When a copier commits its input offsets: in the transaction of its output, after whose abort it goes
    back, or (without-rewind) reads on. Beside that transaction: by hand before it ends, or (automatic-beside)
    when its client does so automatically; after an abort it reads on. Or without a transaction: after or
    before it produced, or when its client does so automatically."""
    transaction_partitions: int = Field(default=4, ge=1, le=1000)
    """Most partitions of one transaction of the workload `transactions`."""
    transaction_topics: int = Field(default=1, ge=1, le=10)
    """Topics of the workload `transactions`; each has `partitions`."""
    sink: Literal["plain", "unique-id", "offset-in-transaction", "optimistic-lock"] = "unique-id"
    """How rows of the workload `sink` are kept from being written twice (`harness.clients.database`)."""
    app: Application | None = Field(default=None, exclude_if=lambda app: app is None)
    """What the workload `application` runs; its instances are as many as `consumers`."""
    clients: str = Field(default="", exclude_if=lambda name: not name)
    """Kind of the load clients (`harness.clients.registry`), "" = the usual one of the system."""
    client_settings: dict[str, str] = Field(default_factory=dict)
    """librdkafka settings: sizes, times, protocols. `producer.` or `consumer.` as a prefix limits one to that
    client."""
    verb_deadline_s: float = Field(default=10.0, ge=0.5, le=300)
    transaction_timeout_s: float = Field(default=10.0, ge=1, le=900)

    fault_s: float = Field(default=6.0, ge=0.1, le=3600)
    """Mean length of a fault."""
    calm_s: float = Field(default=4.0, ge=0, le=3600)
    """Mean pause between faults."""
    faults_begin: Literal["served", "planned"] = "served"
    """served: a fault waits until the cluster has just acknowledged a record. planned: it begins at its time,
    also while the cluster still recovers from the last one."""
    recovery_deadline_s: float = Field(default=120.0, ge=1, le=3600)
    final_deadline_s: float = Field(default=60.0, ge=1, le=3600)

    capture: bool = False
    """Record the messages of clients and nodes (`evidence/frames.parquet`): rules about messages need them.
    With real clusters it takes a Docker engine on this machine."""

    expect: tuple[str, ...] = ()
    """Anomaly classes that this control has to find."""
    require: str = Field(default="", max_length=1000, exclude_if=lambda words: not words)
    """What the run has to show beside a valid verdict, `recovery<=10s,served>=75%,reached:fenced`
    (`checkers.verdict.requirements`)."""

    def short(self) -> NamedSettings:
        """All settings, those of the system's section by their short names."""
        found = self.model_dump(exclude=set(SYSTEMS))
        for name, (sections, field) in SHORT.items():
            for section in sections:
                if (made := getattr(self, section)) is not None:
                    found[name] = getattr(made, field)
        return found

    def has(self, kind: type[Section]) -> bool:
        """Whether the run's system has settings of this kind."""
        return isinstance(getattr(self, self.sut, None), kind)

    def section(self, kind: type[S]) -> S:
        """The settings of the run's system, which are of this kind."""
        found = getattr(self, self.sut)
        assert isinstance(found, kind), f"sut {self.sut} has no {kind.__name__}"
        return found

    @property
    def title(self) -> str:
        """What the run is made on, in two to six words."""
        return SYSTEMS[self.sut].title(getattr(self, self.sut, None))

    @property
    def prefix(self) -> str:
        """How the names of all topics, groups and transactional ids of the run begin."""
        if not self.has(ExternalSection):
            return ""
        its = self.section(ExternalSection)
        return f"{its.prefix}{its.tag}-" if its.tag else its.prefix

    def with_tag(self, tag: str) -> Self:
        """The same for one run, whose names on an external cluster have the tag."""
        if not self.has(ExternalSection):
            return self
        tagged = self.section(ExternalSection).model_copy(update={"tag": tag})
        return self.model_copy(update={self.sut: tagged})

    @property
    def compacted(self) -> bool:
        """Whether the topics of the run keep only the newest record of each key (`core.keys`)."""
        return "compact" in self.topic_settings.get("cleanup.policy", "")

    @property
    def repeats(self) -> bool:
        """A record may be processed again that was processed before: its offset is committed only then, or
        not waited for."""
        return self.commit in ("after", *AUTOMATIC) or self.isolation is Isolation.READ_UNCOMMITTED

    @property
    def rewinds(self) -> bool:
        """After an aborted transaction a client goes back to what it had read in it, as it has to."""
        return self.commit not in ("without-rewind", "beside", "automatic-beside")

    @property
    def final_reads_s(self) -> float:
        """How long the final reads may take: input and output of an application have a time each."""
        return self.final_deadline_s * (2 if self.app and self.app.output else 1)

    def settings_of_topics(self) -> dict[str, str]:
        """Settings of every topic of the run, by Kafka's names: what is said of safety, then
        `topic_settings`. Brokers that the harness did not start may compact topics by default."""
        kept = {"cleanup.policy": "delete"} if self.has(ExternalSection) else {}
        return {
            **kept,
            "min.insync.replicas": str(self.min_insync_replicas),
            "unclean.leader.election.enable": str(self.unclean_leader_election).lower(),
            **self.topic_settings,
        }

    @model_validator(mode="before")
    @classmethod
    def _sections(cls, given: object) -> object:
        """Put settings with short names into their sections; refuse those of another system."""
        if not isinstance(given, dict):
            return given
        sut = given.get("sut", cls.model_fields["sut"].default)
        made = {name: value for name, value in given.items() if name not in SHORT}
        for name, (sections, field) in SHORT.items():
            value = given.get(name)
            if value is None:
                continue
            if sut not in sections:
                owner = " or ".join(sections)
                raise ValueError(f"{name}={value} is a setting of sut={owner}, and this run has sut={sut}")
            if isinstance(value, dict | BaseModel):
                made[sut] = value
            else:
                made[sut] = {**made.get(sut, {}), field: value}
        for section, system in SYSTEMS.items():
            if section not in cls.model_fields:  # it was added after this class was made
                continue
            if section == sut:
                made[section] = made.get(section) or system.section()
            elif made.get(section) is not None:
                raise ValueError(f"{section} is a section of sut={section}, and this run has sut={sut}")
        return made

    @field_validator("broker_settings", "topic_settings", "client_settings")
    @classmethod
    def _one_line(cls, given: dict[str, str]) -> dict[str, str]:
        """They are written into files of lines, and shown."""
        for name, value in given.items():
            if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) is None:
                raise ValueError(f"{name!r} is not a name of a setting")
            if not value.isprintable():
                raise ValueError(f"{name}: a value is one line of printable characters")
        return given

    @field_serializer("broker_settings", "topic_settings", "client_settings")
    def _without_secrets(self, given: dict[str, str]) -> dict[str, object]:
        return masked(given)

    @field_validator("acks", mode="before")
    @classmethod
    def _acks_by_name(cls, value: object) -> object:
        """`all`, as Kafka calls it."""
        if isinstance(value, str) and value != "all":
            raise ValueError("0, 1 or all (-1)")
        return -1 if value == "all" else value

    @field_validator("isolation", mode="before")
    @classmethod
    def _isolation_by_name(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        name = value.upper().replace("-", "_")
        if name not in ("READ_COMMITTED", "READ_UNCOMMITTED"):
            raise ValueError("read_committed or read_uncommitted")
        return Isolation[name]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.replication_factor > self.brokers:
            raise ValueError(
                f"replication_factor {self.replication_factor} needs as many brokers, "
                f"there are {self.brokers}"
            )
        if self.min_insync_replicas > self.replication_factor:
            raise ValueError(
                f"min_insync_replicas {self.min_insync_replicas} is more than "
                f"replication_factor {self.replication_factor}: nothing could ever be written"
            )
        if self.idempotent and self.acks != -1:
            raise ValueError("an idempotent producer needs acks=all (acks -1)")
        return self


def run_config(settings: Mapping[str, object]) -> RunConfig:
    """A checked config from the user's settings over those of their preset.

    Raises: ConfigError, naming the first wrong setting.
    """
    preset = settings.get("preset", "safe")
    if not isinstance(preset, str) or preset not in PRESETS:
        raise ConfigError(unknown("unknown preset", str(preset), PRESETS))
    try:
        return RunConfig.model_validate({**PRESETS[preset], **settings})
    except ValidationError as error:
        raise ConfigError(_first(error)) from None


def laid_over(settings: Mapping[str, object], more: Mapping[str, object]) -> dict[str, object]:
    """The settings with more over them. Of an application, what only one of both says stays: the command
    line, a file of a cluster and `--set app=...` each say a part of it."""
    found = {**settings, **more}
    under, over = settings.get("app"), more.get("app")
    if isinstance(under, Mapping) and isinstance(over, Mapping):
        found["app"] = {**under, **over}
    return found


def recorded_config(path: Path) -> RunConfig:
    """The config of a recorded run (`config.json`).

    Raises: HistoryError, where it is missing, damaged, or written by a version with other settings.
    """
    try:
        return RunConfig.model_validate_json(read_small(path))
    except RecursionError:
        raise HistoryError(f"{path}: nested too deeply") from None
    except ValidationError as error:
        raise HistoryError(
            f"{path}: {_first(error)}; use the version of Inquest that recorded the run"
        ) from None


def _shown(first: ErrorDetails) -> str:
    return HIDDEN if any(is_secret(str(part)) for part in first["loc"]) else shown(first["input"])


NAMES_AND_VALUES: Final = ("dict_type", "model_type", "model_attributes_type")
"""Kinds of mistakes: something else stands where names with values have to."""


def reason(first: ErrorDetails) -> str:
    """Why a value is none, in words of the user's; Pydantic's are of Python."""
    given, kind = first["input"], first["type"]
    if isinstance(given, float) and math.isnan(given):
        return "not a number"
    if kind in NAMES_AND_VALUES:
        return 'names and values are wanted, as {"name": "value"}'
    if kind == "tuple_type":
        one = given if isinstance(given, str) and re.fullmatch(r"[a-z0-9:@-]{1,40}", given) else "name"
        return f'a list is wanted, as ["{one}"]'
    if kind == "string_type":
        return "a text is wanted, in double quotes"
    return first["msg"].removeprefix("Value error, ")


def _first(error: ValidationError) -> str:
    """The first thing that is wrong: setting, reason, value."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
        near = get_close_matches(where, RunConfig.model_fields, 1)
        return f"unknown setting {where!r}{f'; did you mean {near[0]!r}?' if near else ''}"
    message = reason(first)
    if (
        first["type"] in NAMES_AND_VALUES
        and isinstance(first["input"], str)
        and where in RunConfig.model_fields
    ):
        written = f"""'{where}={{"name": "value"}}'"""
        message = f"no JSON of names and values: write {written}, in a shell in these quotes"
    given = "" if first["type"] == "missing" or not where else f" (given: {_shown(first)})"
    return f"{where}: {message}{given}" if where else message
