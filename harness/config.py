"""RunConfig: everything that defines a run, seed included; and the presets.

A run is repeated by its `config.json`. A *preset* is a named set of settings; a *control* is a preset
that must misbehave: it lists the anomaly classes that the run has to find (`expect`).

Not here: which workloads and nemeses exist (their registries), the paths (`harness.store`).
"""

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from harness.op import Isolation

KAFKA_VERSION = "4.3.1"


class ConfigError(Exception):
    """A setting is unknown or makes no sense. The message names it and what would be right."""


class RunConfig(BaseModel):
    """Settings of one run. Times are in seconds, sizes in bytes, rates in ops per second."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    workload: str = "queue"
    nemesis: str = "partition"
    preset: str = "safe"
    sut: str = "kafka"
    kafka: str = Field(default=KAFKA_VERSION, pattern=r"^\d+\.\d+\.\d+(\.\d+)?$")
    era: str = "4.2"
    """Behaviour of the simulated cluster, by the release that had it (`model.eras`)."""
    mutant: str = ""
    """A bug that is planted in the simulated cluster (`model.mutants`), "" = none."""
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
    consumers: int = Field(default=3, ge=0, le=64)
    rate: float = Field(default=100.0, ge=0, le=1_000_000)
    """Ops that all producers together invoke per second; 0 = as fast as they can."""
    batch_max: int = Field(default=20, ge=1, le=100)
    """Most records of one op."""
    record_size: int = Field(default=100, ge=64, le=1_000_000)
    abort_share: float = Field(default=0.15, ge=0, le=1)
    acks: Literal[0, 1, -1] = -1
    idempotent: bool = True
    isolation: Isolation = Isolation.READ_COMMITTED
    """Of the consumers during the run; final reads use both levels."""
    commit: Literal["transaction", "after", "before"] = "transaction"
    """When a copier commits its input offsets: in the transaction of its output, else by themselves
    after or before it produced."""
    client_settings: dict[str, str] = Field(default_factory=dict)
    """librdkafka settings; `producer.` or `consumer.` as a prefix limits one to that client."""
    verb_deadline_s: float = Field(default=10.0, ge=0.5, le=300)
    transaction_timeout_s: float = Field(default=10.0, ge=1, le=900)

    fault_s: float = Field(default=6.0, ge=0.1, le=3600)
    """Mean length of a fault."""
    calm_s: float = Field(default=4.0, ge=0, le=3600)
    """Mean pause between faults."""
    recovery_deadline_s: float = Field(default=120.0, ge=1, le=3600)
    final_deadline_s: float = Field(default=60.0, ge=1, le=3600)

    expect: tuple[str, ...] = ()
    """Anomaly classes that this control has to find."""

    @property
    def system(self) -> str:
        """What the run is made on, for people."""
        if self.sut != "simulated":
            return f"Kafka {self.kafka}"
        return f"model, era {self.era}" + (f", mutant {self.mutant}" if self.mutant else "")

    def settings_of_topics(self) -> dict[str, str]:
        """Settings of every topic of the run, by Kafka's names: what is said of safety, then
        `topic_settings`."""
        return {
            "min.insync.replicas": str(self.min_insync_replicas),
            "unclean.leader.election.enable": str(self.unclean_leader_election).lower(),
            **self.topic_settings,
        }

    @field_validator("isolation", mode="before")
    @classmethod
    def _isolation_by_name(cls, value: Any) -> Any:
        return Isolation[value.upper().replace("-", "_")] if isinstance(value, str) else value

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


PRESETS: dict[str, dict[str, Any]] = {
    # What Kafka promises to keep: acks=all, idempotent producers, min.insync.replicas 2.
    "safe": {},
    # Control. A leader that is cut off from its followers goes on acknowledging acks=1 records;
    # after healing it truncates them away.
    "acks1": {
        "nemesis": "partition:isolate@leader",
        "acks": 1,
        "idempotent": False,
        "expect": ("lost-write",),
    },
    # Control. A request that times out at the client while the broker is frozen is sent again;
    # the thawed broker appends both.
    "no-idempotence": {
        "nemesis": "pause:short@leader,partition:clients-responses@leader",
        "idempotent": False,
        "client_settings": {
            "producer.socket.timeout.ms": "1000",
            "producer.linger.ms": "0",
            "producer.batch.num.messages": "1",
        },
        "expect": ("duplicate",),
    },
    # Control. Consumers at read_uncommitted are shown records of aborted transactions.
    "read-uncommitted": {
        "workload": "transactions",
        "isolation": "read_uncommitted",
        "abort_share": 0.3,
        "expect": ("aborted-read",),
    },
    # What was safe before producers were idempotent: acks=all, one request in flight. Nothing is lost
    # or reordered; what is sent again after a lost answer stands twice.
    "safe-legacy": {
        "idempotent": False,
        "client_settings": {"producer.max.in.flight.requests.per.connection": "1"},
    },
    # Control. With acks=0 the client calls a record delivered once it is on its way.
    "acks0": {
        "nemesis": "kill:one@leader",
        "acks": 0,
        "idempotent": False,
        "expect": ("lost-write",),
    },
    # Control. A follower that misses records becomes leader; the old leader's records are gone, and
    # their offsets hold others.
    "unclean": {
        "nemesis": "unclean",
        "acks": 1,
        "idempotent": False,
        "min_insync_replicas": 1,
        "unclean_leader_election": True,
        "expect": ("lost-write", "inconsistent-offsets"),
    },
    # Consume, transform, produce in one transaction, while copiers die with transactions open.
    "exactly-once": {"workload": "copier", "nemesis": "client:crash-in-transaction,kill"},
    # Control. A copier that dies after producing and before committing its offsets: its successor
    # produces the same again.
    "at-least-once": {
        "workload": "copier",
        "nemesis": "client:crash-before-commit@member",
        "commit": "after",
        "expect": ("eos-duplicate",),
    },
    # Control. A copier that dies after committing its offsets and before producing: nobody does it.
    "at-most-once": {
        "workload": "copier",
        "nemesis": "client:crash-after-commit@member",
        "commit": "before",
        "expect": ("eos-loss",),
    },
    # No control: what it finds (KAFKA-15591, without any fault) is forbidden, known and not fixed in
    # the versions that can be run today.
    "fresh-topic": {"workload": "fresh-topic", "nemesis": "none"},
}
"""What each preset sets besides the defaults; options given by the user win over it."""


def run_config(settings: dict[str, Any]) -> RunConfig:
    """A checked config from the user's settings over those of their preset.

    Raises: ConfigError, naming the first wrong setting.
    """
    preset = settings.get("preset", "safe")
    if preset not in PRESETS:
        raise ConfigError(f"unknown preset {preset!r}; known: {', '.join(PRESETS)}")
    try:
        return RunConfig(**{**PRESETS[preset], **settings})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "config"
        given = "" if first["type"] == "missing" else f" (given: {first['input']!r})"
        raise ConfigError(f"{where}: {first['msg']}{given if first['loc'] else ''}") from None
    except KeyError as error:
        raise ConfigError(
            f"isolation: {error} is none of read_committed, read_uncommitted"
        ) from None
