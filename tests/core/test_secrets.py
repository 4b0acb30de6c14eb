"""Secrets of a configuration: in no file, in no message."""

import json
from pathlib import Path

import pytest

from checkers.verdict.repeat import repro
from core.config import RunConfig, recorded_config, run_config
from core.errors import ConfigError
from core.secrets import HIDDEN, hide, is_secret, masked, secrets_of, shown, without
from harness.compose import create_folder

WORD = "open-sesame"
NAMES = (
    "sasl.password",
    "producer.sasl.password",
    "ssl.key.password",
    "ssl.keystore.password",
    "ssl.keystore.key",
    "ssl.key.pem",
    "ssl.truststore.password",
    "sasl.jaas.config",
    "listener.name.client.plain.sasl.jaas.config",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.config",
    "delegation.token.secret.key",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_secret_reaches_no_file_and_no_command_line(tmp_path: Path, name: str) -> None:
    config = run_config({"seed": 1, "client_settings": {name: WORD}, "broker_settings": {name: WORD}})
    run = create_folder(config, tmp_path)
    for written in (run.config.read_text(), repro(config, run), str(config.short())):
        assert WORD not in written
        assert HIDDEN in written
    assert recorded_config(run.config).client_settings == {name: HIDDEN}
    assert config.client_settings == {name: WORD}  # memory keeps it


@pytest.mark.parametrize(
    "name",
    [
        "linger.ms",
        "transactional.id.expiration.ms",
        "group.protocol",
        "replica.lag.time.max.ms",
        "min.insync.replicas",
    ],
)
def test_other_settings_are_written_as_they_are(name: str) -> None:
    assert not is_secret(name)
    config = RunConfig(seed=1, broker_settings={name: "7"})
    assert config.model_dump()["broker_settings"] == {name: "7"}


@pytest.mark.parametrize(
    "settings",
    [
        {"client_settings": {"sasl.password": 5 + 0j}},
        {"client_settings": f"sasl.password={WORD}"},
        {"client_settings": {"sasl.password": [WORD]}},
        {"client_settings": {"sasl.password": f"{WORD}\n"}},
        {"client_settings": {"sasl password": WORD}},
    ],
)
def test_a_message_does_not_repeat_a_secret(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigError) as error:
        run_config({"seed": 1, **settings})
    assert WORD not in str(error.value)


def test_a_value_in_a_message_is_cut() -> None:
    assert shown("x" * 10_000) == repr("x" * 10_000)[:200] + "…"
    assert shown({"a": 1}) == "{'a': 1}"


def test_secrets_in_sections_are_hidden() -> None:
    assert masked({"a": {"sasl.password": WORD, "b": 1}, "c": [1]}) == {
        "a": {"sasl.password": HIDDEN, "b": 1},
        "c": [1],
    }


def test_a_text_of_others_is_kept_without_secrets_of_clients(tmp_path: Path) -> None:
    settings = {"sasl.password": 'k3y"ü', "ssl.key.password": 'k3y"ü-2', "sasl.username": "boot"}
    secrets = secrets_of(settings)
    text = f"boot {settings} {json.dumps(settings)} {json.dumps(settings, ensure_ascii=False)}"
    assert "k3y" not in without(text, secrets)
    assert without(text, secrets).count(HIDDEN) == 6  # none of them in part
    assert without("boot", secrets_of({"sasl.password": ""})) == "boot"
    log = tmp_path / "log"
    log.write_bytes(b'\xff k3y"\xc3\xbc-2\r\nboot')
    hide(log, lambda line: without(line, secrets))
    assert log.read_bytes() == b"\xff (hidden)\r\nboot"
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
