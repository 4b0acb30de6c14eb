"""The registry of systems: what each refuses, before anything is started."""

from typing import Any

import pytest

from core.capabilities import HalfOpenable, Killable, Linked, Partitionable, Pausable, Powered, WiredBetween
from core.config import run_config
from core.errors import ConfigError
from core.systems import SYSTEMS
from harness.compose import plan
from harness.modelled.virtual.run import simulate
from harness.run.planning import RunPlan
from harness.systems import backend_of

SMALL: dict[str, Any] = {"seed": 1, "nemesis": "none", "duration_s": 1, "rate": 10}


def planned(**settings: Any) -> RunPlan:
    return plan(run_config({**SMALL, **settings}))


@pytest.mark.parametrize("sut", ["kafka", "model", "simulated"])
def test_a_system_accepts_the_defaults(sut: str) -> None:
    assert planned(sut=sut).steps == ()
    assert SYSTEMS[sut].doc
    assert run_config({**SMALL, "sut": sut}).title


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"sut": "none"}, "unknown system under test 'none'; known: external, kafka, model, simulated"),
        ({"sut": "kafka", "era": "0.10"}, "era=0.10 is a setting of sut=simulated or model"),
        ({"sut": "kafka", "kafka": "2.8.2", "controllers": 3}, "no isolated controllers; set controllers=0"),
        ({"sut": "kafka", "nemesis": "upgrade"}, "there is no other version: set upgrade to a later one"),
        ({"sut": "kafka", "kafka": "4.2.0", "upgrade": "4.2.1"}, "'none' changes a node's version; add upg"),
        (
            {"sut": "kafka", "kafka": "4.2.0", "upgrade": "9.9.9", "nemesis": "upgrade", "duration_s": 40},
            "kafka 9.9.9: versions of the lines 3.3 to 4.4 can run",
        ),
        (
            {"sut": "kafka", "upgrade": "4.4.1", "nemesis": "upgrade:finalize,kill", "duration_s": 40},
            "upgrade:finalize: no node has the later version by then; name a kind before it",
        ),
        (
            {
                "upgrade": "4.4.1",
                "nemesis": "upgrade:one,upgrade:finalize",
                "controllers": 1,
                "duration_s": 100,
            },
            "upgrade:finalize: 1 of 4 nodes has the later version by then; name a kind before it that",
        ),
        ({"sut": "model", "nemesis": "upgrade", "duration_s": 40}, "needs a system that is Upgradable"),
        ({"sut": "simulated", "nemesis": "upgrade", "duration_s": 40}, "needs a system that is Upgradable"),
        ({"sut": "kafka", "ensemble": 3}, "no ensemble of other nodes; set metadata=zookeeper"),
        ({"sut": "kafka", "mutant": "keep-tail"}, "mutant=keep-tail is a setting of sut=simulated or model"),
        ({"sut": "model", "nemesis": "half-open", "duration_s": 5}, "needs a system that is HalfOpenable"),
        ({"sut": "simulated", "kafka": "3.9.0"}, "kafka=3.9.0 is a setting of sut=kafka"),
        ({"sut": "simulated", "era": "0.10", "controllers": 3}, "era 0.10 has no isolated"),
        ({"sut": "model", "era": "2.4"}, "in ZooKeeper, which is not served"),
        ({"sut": "model", "era": "4.3"}, "librdkafka speaks 1"),
        ({"sut": "model", "era": "9.9"}, "unknown era '9.9'"),
        ({"sut": "model", "brokers": 8, "controllers": 3}, "at most 9 nodes"),
        (
            {"sut": "simulated", "broker_settings": {"num.io.threads": "1"}},
            "broker_settings: a modelled broker has no num.io.threads; it has broker.heart",
        ),
        (
            {"sut": "simulated", "broker_settings": {"replica.lag.time.max.ms": "0"}},
            "broker_settings: replica.lag.time.max.ms: a number of ms, not '0'",
        ),
        (
            {"sut": "simulated", "broker_settings": {"replica.fetch.backoff.ms": "soon"}},
            "broker_settings: replica.fetch.backoff.ms: a number of ms, not 'soon'",
        ),
        (
            {"sut": "simulated", "topic_settings": {"retention.ms": "1"}},
            "topic_settings: a modelled topic has no retention.ms",
        ),
        (
            {"sut": "simulated", "topic_settings": {"cleanup.policy": "delete"}},
            "cleanup.policy: a modelled topic is compacted, or left as it is",
        ),
        (
            {"sut": "simulated", "topic_settings": {"cleanup.policy": "compact"}},
            "modelled brokers compact where log.cleaner.backoff.ms is set",
        ),
        (
            {"sut": "simulated", "broker_settings": {"log.cleaner.min.cleanable.ratio": "2"}},
            "log.cleaner.min.cleanable.ratio: a share from 0 to 1, not '2'",
        ),
        ({"sut": "model", "preset": "compacted"}, "compact no topics of applications; use sut=simulated"),
        ({"workload": "compacted"}, "it needs topic_settings.cleanup.policy=compact, as in preset compacted"),
        (
            {"sut": "simulated", "topic_settings": {"min.insync.replicas": "9"}},
            "min.insync.replicas must be 1 to 3, not '9'",
        ),
        (
            {"sut": "simulated", "topic_settings": {"unclean.leader.election.enable": "maybe"}},
            "must be true or false",
        ),
    ],
)
def test_a_setting_that_a_system_cannot_honour_is_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why.replace("(", r"\(")):
        planned(**settings)


def test_the_simulation_honours_the_topic_settings_that_it_has() -> None:
    given = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    config = run_config({**SMALL, "sut": "simulated", "topic_settings": given})
    settings = simulate(config).cluster.settings
    assert (settings.min_isr, settings.unclean) == (1, True)


@pytest.mark.parametrize("settings", [{"sut": "kafka"}, {"sut": "simulated"}, {"sut": "model"}])
def test_capabilities_are_those_of_the_configured_system(settings: dict[str, Any]) -> None:
    config = run_config({**SMALL, **settings})
    has = set(backend_of(config).capabilities(config))
    assert {Killable, Pausable, Partitionable, Linked, Powered} <= has


def test_brokers_of_the_model_have_more_capabilities_in_containers() -> None:
    processes, containers = (
        run_config({**SMALL, "sut": "model", "containers": where}) for where in (False, True)
    )
    alone, contained = (set(backend_of(one).capabilities(one)) for one in (processes, containers))
    assert contained - alone == {HalfOpenable, WiredBetween}


def test_only_a_repeatable_system_is_replayed() -> None:
    assert [name for name, system in SYSTEMS.items() if system.repeatable] == ["simulated"]
    kafka = run_config({**SMALL, "sut": "kafka"})
    assert backend_of(kafka).release("a-run-that-never-was", kafka) == []
