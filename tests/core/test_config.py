"""Settings: presets, the user's words over them, and what makes no sense."""

import json
from pathlib import Path
from typing import Any

import pytest

from core.config import RunConfig, recorded_config, run_config
from core.errors import ConfigError, HistoryError
from core.op import Isolation
from core.presets import PRESETS
from core.systems import KafkaSection, SimulatedSection
from harness.compose import plan
from harness.kafka import jars


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_a_valid_config_that_survives_its_file(preset: str) -> None:
    config = run_config({"seed": 1, "preset": preset})
    assert RunConfig.model_validate_json(config.model_dump_json()) == config


def test_acks_may_be_called_as_kafka_does() -> None:
    assert run_config({"seed": 1, "acks": "all"}) == run_config({"seed": 1, "acks": -1})


def test_options_win_over_the_preset() -> None:
    config = run_config({"seed": 1, "preset": "acks1", "nemesis": "none"})
    assert (config.acks, config.nemesis) == (1, "none")
    assert config.expect == ("lost-write",)


def test_isolation_by_name() -> None:
    config = run_config({"seed": 1, "isolation": "read_uncommitted"})
    assert config.isolation is Isolation.READ_UNCOMMITTED


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"preset": "bold"}, "unknown preset 'bold'; known: safe"),
        ({"isolation": "snapshot"}, "isolation"),
        ({"acks": 1}, "idempotent producer needs acks=all"),
        ({"brokers": 1}, "replication_factor 3 needs as many brokers"),
        ({"record_size": 10}, "record_size"),
        ({"color": "red"}, "color"),
        ({"seed": -1}, "seed"),
        ({"kafka": "2.3.0"}, "kafka.version: KRaft needs Kafka 3.3 or later; .* 3.3 to 4.4 can run"),
        ({"kafka": "2.8.0", "metadata": "kraft"}, "kafka.version: KRaft needs Kafka 3.3 or later"),
        (
            {"kafka": "4.0.0", "metadata": "zookeeper"},
            "no ZooKeeper from 4.0 on; .* 0.10.2 to 3.9, but 2.0, .* can run",
        ),
        ({"metadata": "zookeeper"}, "kafka.version: Kafka has no ZooKeeper from 4.0 on"),
        ({"metadata": "zookeeper", "ensemble": 3}, "kafka.version: Kafka has no ZooKeeper from 4.0 on"),
        ({"kafka": "2.0.1"}, "resolves no host on the images' Java 17"),
        ({"kafka": "0.10.1.1"}, "listeners of the harness's own need Kafka 0.10.2 or later"),
        ({"kafka": "four"}, "kafka.version: a Kafka version has three numbers"),
        ({"kafka": {"colour": "red"}}, "kafka.colour"),
        ({"kafka": "4.1.2", "upgrade": "3.9.1"}, "kafka.upgrade: a version after 4.1.2, which nodes have"),
        ({"kafka": "4.1.2", "upgrade": "4.1.2"}, "kafka.upgrade: a version after 4.1.2"),
        ({"kafka": "4.1.2", "upgrade": "4.10"}, "kafka.upgrade: a Kafka version has three numbers"),
        ({"kafka": "4.1.2", "upgrade": "../x"}, "kafka.upgrade: a Kafka version has three numbers"),
        (
            {"kafka": "2.8.2", "upgrade": "3.9.1"},
            "kafka.upgrade: no upgrades here of brokers whose metadata Z",
        ),
        ({"sut": "simulated", "upgrade": "4.4.0"}, "upgrade=4.4.0 is a setting of sut=kafka"),
        ({"era": "2.4"}, "era=2.4 is a setting of sut=simulated or model, and this run has sut=kafka"),
        ({"mutant": "keep-tail"}, "mutant=keep-tail is a setting of sut=simulated"),
        ({"simulated": {"era": "2.4"}}, "simulated is a section of sut=simulated"),
        ({"sut": "simulated", "kafka": "4.3.1"}, "kafka=4.3.1 is a setting of sut=kafka"),
    ],
)
def test_nonsense_is_named(settings: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        run_config({"seed": 1, **settings})


def test_each_system_has_its_section_and_no_other() -> None:
    real = run_config({"seed": 1, "kafka": "4.0.0"})
    assert real.section(KafkaSection) == KafkaSection(version="4.0.0")
    assert not real.has(SimulatedSection)
    model = run_config({"seed": 1, "sut": "simulated", "era": "2.4"})
    assert model.section(SimulatedSection) == SimulatedSection(era="2.4")
    assert not model.has(KafkaSection)
    both = run_config({"seed": 1, "kafka": "4.2.0", "upgrade": "4.10.0"})
    assert (both.title, both.short()["upgrade"]) == ("Kafka 4.2.0 → 4.10.0", "4.10.0")
    titles = [config.title for config in (real, model)]
    assert titles == ["Kafka 4.0.0", "model, era 2.4"]
    other = run_config({"seed": 1, "sut": "other"})
    assert not other.has(KafkaSection)
    assert not other.has(SimulatedSection)


def test_short_names_and_sections_say_the_same() -> None:
    short = run_config({"seed": 1, "sut": "simulated", "mutant": "keep-tail"})
    long = run_config({"seed": 1, "sut": "simulated", "simulated": {"mutant": "keep-tail"}})
    assert short == long
    assert short.short()["mutant"] == "keep-tail"
    assert "kafka" not in short.short()


OLD = {"sut": "simulated", "kafka": "4.3.1", "era": "4.2", "mutant": "", "seed": 1}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (json.dumps(OLD), "kafka=4.3.1 is a setting of sut=kafka.*; use the version of Inquest that"),
        ("{", "Invalid JSON"),
        (None, "No such file"),
    ],
)
def test_a_recorded_config_that_cannot_be_read_is_refused_in_one_line(
    content: str | None, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "config.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(HistoryError, match=said) as refused:
        recorded_config(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("version", "cached", "runs"),
    [("4.3.9", [], True), ("3.3.0", [], True), ("9.9.9", [], False), ("9.9.9", ["9.9.9"], True)],
)
def test_a_version_of_no_known_line_runs_only_once_it_was_fetched(
    version: str, cached: list[str], runs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "cached_versions", lambda: cached)
    config = run_config({"seed": 1, "nemesis": "none", "kafka": version})
    if runs:
        plan(config)
        return
    with pytest.raises(ConfigError, match=r"3\.3 to 4\.4 can run.*setup --kafka 9\.9\.9"):
        plan(config)


@pytest.mark.parametrize(
    ("app", "why"),
    [
        ({"input": "database"}, "'database' cannot be the name of a topic of a run"),
        ({"output": "database"}, "'database' cannot be"),
        ({"input": "__consumer_offsets"}, "'__consumer_offsets' cannot be"),
        ({"output": ".."}, "'..' cannot be"),
        ({"input": "x", "output": "x"}, "input x and output x are one topic to Kafka"),
        ({"output": "app-in"}, "are one topic"),
        ({"input": "a.b", "output": "a_b"}, "are one topic"),  # names of metrics collide
        ({"output": ""}, "a topic, or effects: one of the two"),
        ({"output": "x", "effects": True}, "a topic, or effects: one of the two"),
    ],
)
def test_topics_of_an_application_that_cannot_work_are_refused(app: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        run_config({"seed": 1, "app": app})


@pytest.mark.parametrize(
    ("app", "topics"),
    [
        ({}, ("app-in", "app-out")),
        ({"input": "databases", "output": "_x"}, ("databases", "_x")),
        ({"input": "a.b", "output": "a.c"}, ("a.b", "a.c")),
        ({"effects": True}, ("app-in", "")),
        ({"effects": True, "output": ""}, ("app-in", "")),
        ({"effects": False}, ("app-in", "app-out")),
    ],
)
def test_other_topics_of_an_application_are_taken(app: dict[str, Any], topics: tuple[str, str]) -> None:
    made = run_config({"seed": 1, "app": app}).app
    assert made is not None
    assert (made.input, made.output) == topics
    assert RunConfig.model_validate_json(RunConfig(seed=1, app=made).model_dump_json()).app == made
