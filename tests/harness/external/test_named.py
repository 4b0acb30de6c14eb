"""What the file of a cluster, and the cluster, say of a run's config."""

from collections.abc import Mapping
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Final, cast

import pytest

from checkers.engine.share_groups import LIMIT
from checkers.known_bugs.kafka_14402 import VERIFICATION
from checkers.registration import TIMEOUT
from core.cluster import Address
from core.config import run_config
from core.extensions import CLUSTER
from core.presets import FAST_CLEANER
from core.producer_state import EXPIRATION
from harness.brokers.admin.connection import Brokers
from harness.brokers.admin.protocol import active_controller, quorum_leader
from harness.containers import engine
from harness.external import named, survey, system
from harness.external.cluster import controller_of
from harness.external.file import read, secured
from harness.external.nodes import Means
from harness.external.survey import ASKED, CONNECT, DEFAULTS, OLD_SESSION, ROLES, SESSION, Survey
from harness.external.trial import trial
from nemesis.targets import has_zookeeper

SEED: Final = {"seed": 1}


def cluster_of(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    more: str = "",
    settings: Mapping[str, str] = DEFAULTS,
    *,
    zookeeper: bool = False,
    lacks: Mapping[str, str] | None = None,
) -> None:
    """A cluster of two brokers with these settings."""
    path = tmp_path / "cluster.toml"
    path.write_text(f'[cluster]\nbootstrap = "here:9092"\n{more}')
    monkeypatch.setenv(CLUSTER, str(path))
    file = read(path)
    brokers = {node: Address("here", 9090 + node) for node in (1, 2)}
    found = Survey(cluster="id", brokers=brokers, settings=settings, zookeeper=zookeeper)
    nodes = Means(names=file.cluster.docker, lacks=lacks or {})
    reached = named.Reached(file, secured(file), found, (1, 2), nodes)
    monkeypatch.setattr(named, "reach", lambda: reached)


@pytest.mark.parametrize(
    ("more", "here", "one"),
    [
        ('docker = { 1 = "a", 2 = "b" }', True, True),
        ('docker = { 1 = "a", 2 = "b" }', False, False),
        ('nodes = { 1 = "a", 2 = "b" }', True, False),
        ("", True, False),
    ],
)
def test_nodes_have_one_clock_where_they_are_containers_of_this_machine(
    more: str, here: bool, one: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "of_this_machine", lambda: here)
    cluster_of(tmp_path, monkeypatch, more)
    settings = named.settings()
    assert settings["external"]["one_clock"] is one
    assert settings["external"]["watched"] is more.startswith("docker")
    assert system.refusal(run_config(settings | SEED)) == ""


def test_a_recorded_clock_of_this_machine_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is repeated may have been recorded on another cluster."""
    monkeypatch.setattr(engine, "of_this_machine", lambda: True)
    cluster_of(tmp_path, monkeypatch)
    settings = named.settings()
    config = run_config(settings | SEED | {"external": {**settings["external"], "one_clock": True}})
    assert "not known to have this machine's clock" in system.refusal(config)
    config = run_config(settings | SEED | {"external": {**settings["external"], "watched": True}})
    assert "without `docker` nodes are not watched" in system.refusal(config)


@pytest.mark.parametrize("zookeeper", [False, True])
def test_where_the_metadata_are_is_the_clusters_to_say(
    zookeeper: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster_of(tmp_path, monkeypatch, zookeeper=zookeeper)
    settings = named.settings()
    config = run_config(settings | SEED)
    assert system.refusal(config) == ""
    assert has_zookeeper(config) is zookeeper
    assert controller_of(config) is (active_controller if zookeeper else quorum_leader)
    other = {**settings["external"], "zookeeper": not zookeeper}
    assert "has its metadata in another place" in system.refusal(
        run_config(settings | SEED | {"external": other})
    )


@pytest.mark.parametrize(
    ("names", "session", "zookeeper"),
    [
        ({CONNECT: "zk:2181", OLD_SESSION: "18000", SESSION: "9000", ROLES: ""}, "18000", True),
        ({CONNECT: "zk:2181", OLD_SESSION: "6000"}, "6000", True),  # before 2.8
        ({CONNECT: "zk:2181", OLD_SESSION: "18000", SESSION: "9000", ROLES: "broker"}, "9000", False),
        ({CONNECT: None, OLD_SESSION: "18000", SESSION: "3000", ROLES: "broker,controller"}, "3000", False),
        ({SESSION: "3000", ROLES: "broker"}, "3000", False),  # from 4.0 on
        ({}, DEFAULTS[SESSION], False),
    ],
)
def test_the_session_of_a_broker_on_zookeeper_is_that_of_plans(
    names: Mapping[str, str | None], session: str, zookeeper: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "described", lambda kind, wanted, connection: {"1": names})
    connect = SimpleNamespace(nodes=(1,), connect=lambda node, seconds: nullcontext())
    settings, found = survey._settings(cast(Brokers, connect))
    assert (settings[SESSION], found) == (session, zookeeper)
    assert not {CONNECT, OLD_SESSION, ROLES} & set(settings)


LAG, KEPT = "replica.lag.time.max.ms", "log.retention.ms"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (None, ""),
        ({}, "broker_settings: broker.session.timeout.ms=9000, which brokers have, is left out"),
        ({LAG: "10000"}, f"broker_settings: {LAG}=10000, where brokers have 30000"),
        ({LAG: "30000"}, "broker_settings: broker.session.timeout.ms=9000, which"),
        ({**DEFAULTS, KEPT: "60000"}, ""),
        ({**DEFAULTS, KEPT: "60001"}, f"broker_settings: {KEPT}=60001, where brokers have 60000"),
        (DEFAULTS, f"broker_settings: {KEPT}=60000, which brokers have, is left out"),
        (
            {**DEFAULTS, KEPT: "60000", "num.io.threads": "3"},
            "broker_settings: num.io.threads=3, where brokers have not said it",
        ),
    ],
)
def test_what_brokers_said_of_themselves_stays(
    given: dict[str, str] | None, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plans and verdicts go by it: a setting of the user's alone would hide all others."""
    cluster_of(tmp_path, monkeypatch, settings={**DEFAULTS, KEPT: "60000"})
    settings = named.settings() | ({} if given is None else {"broker_settings": given})
    said = system.refusal(run_config(settings | SEED))
    assert said.startswith(why)
    assert bool(said) is bool(why)


@pytest.mark.parametrize("fast", [False, True])
def test_a_preset_that_takes_settings_of_brokers_needs_a_cluster_that_has_them(
    fast: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(FAST_CLEANER) <= {*ASKED}
    cluster_of(tmp_path, monkeypatch, settings=DEFAULTS | (FAST_CLEANER if fast else {}))
    said = system.refusal(run_config(named.settings() | SEED | {"preset": "compacted"}))
    assert said.startswith("" if fast else "preset compacted: it takes log.cleaner.backoff.ms=")
    assert bool(said) is not fast


@pytest.mark.parametrize("collects", [False, True])
@pytest.mark.parametrize(
    ("name", "value", "of_disks", "bound"),
    [
        ("offsets.retention.minutes", "2879", False, "at least 2880"),
        ("offsets.retention.minutes", "2880", False, ""),
        ("offsets.retention.minutes", "10080", False, ""),
        ("offsets.commit.required.acks", "1", False, "at most -1"),
        ("offsets.commit.required.acks", "-1", False, ""),
        ("log.flush.offset.checkpoint.interval.ms", "60001", True, "at most 60000"),
        ("log.flush.offset.checkpoint.interval.ms", "1000", True, ""),
        ("log.flush.start.offset.checkpoint.interval.ms", "60001", True, "at most 60000"),
        ("replica.high.watermark.checkpoint.interval.ms", "5001", True, "at most 5000"),
        ("replica.high.watermark.checkpoint.interval.ms", "5000", True, ""),
    ],
)
def test_brokers_whose_settings_no_verdict_could_go_by_are_refused(
    name: str,
    value: str,
    of_disks: bool,
    bound: str,
    collects: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hooks = ("collect", "pause", "resume") if collects else ("collect",)  # disks change where nodes run
    table = "\n".join(["[hooks]", *(f'{hook} = "true"' for hook in hooks)])
    cluster_of(tmp_path, monkeypatch, table, DEFAULTS | {name: value})
    said = system.refusal(run_config(named.settings() | SEED))
    if bound and (collects or not of_disks):
        assert said.startswith(f"the cluster's brokers have {name}={value}: ")
        assert said.endswith(f"; set it to {bound}")
        assert [*islice(trial(), 2)][1] == ("settings", False, said)
    else:
        assert said == ""


@pytest.mark.parametrize("pauses", [False, True])
def test_disks_of_pods_that_no_signal_stops_are_not_judged(
    pauses: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run and `inquest doctor` go by the same hooks: the table of a shorthand, but what its pods lack."""
    late = DEFAULTS | {"replica.high.watermark.checkpoint.interval.ms": "10000"}
    lacks = {} if pauses else dict.fromkeys(("kill", "pause", "resume"), "process 1")
    cluster_of(
        tmp_path, monkeypatch, 'kubernetes = "kafka/app=kafka"\nlog_dirs = "/data"\n', late, lacks=lacks
    )
    said = system.refusal(run_config(named.settings() | SEED))
    assert said.startswith("the cluster's brokers have replica.high.watermark") is pauses
    assert said == "" or pauses


def test_what_checks_read_of_brokers_is_asked() -> None:
    assert {TIMEOUT, LIMIT, EXPIRATION, LAG, KEPT, VERIFICATION, *DEFAULTS} <= {*ASKED}


@pytest.mark.parametrize(
    ("given", "kept"), [({}, "delete"), ({"cleanup.policy": "compact,delete"}, "compact,delete")]
)
def test_topics_of_a_run_are_not_compacted_because_brokers_compact_by_default(
    given: dict[str, str], kept: str
) -> None:
    config = run_config(SEED | {"sut": "external", "topic_settings": given})
    assert config.settings_of_topics()["cleanup.policy"] == kept
    assert "cleanup.policy" not in run_config(SEED).settings_of_topics()
