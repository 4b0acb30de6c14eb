"""A broker of the model behind Kafka's protocol answers what the model answers in this process."""

from functools import partial
from pathlib import Path

import pytest

from core.errors import UsageError
from core.systems import KAFKA_VERSION
from harness.contract.cluster import compare, model_broker
from harness.contract.versions import version_of

REQUESTS = 300
SCENARIOS = ("join-group",)
"""It reads the log of the group coordinator."""


@pytest.mark.sampled(11)
def test_clients_get_the_models_answers(tmp_path: Path) -> None:
    compared = compare(
        KAFKA_VERSION,
        requests=REQUESTS,
        seed=20261123,
        folder=tmp_path / "contract",
        say=lambda _: None,
        names=SCENARIOS,
        start=model_broker,
    )
    assert compared.differences == []
    assert compared.scenarios.played == list(SCENARIOS)
    outcome = compared.requests
    assert outcome.requests >= REQUESTS
    assert outcome.explained == {}
    assert len({kind for kind, _ in outcome.answers}) >= 15
    assert len({error for _, error in outcome.answers}) >= 10


@pytest.mark.sampled(14)
def test_a_planted_bug_of_the_broker_is_a_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.contract.scenarios.LOOKS", 5)
    compared = compare(
        KAFKA_VERSION,
        requests=0,
        seed=1,
        folder=tmp_path / "contract",
        say=lambda _: None,
        names=("sequences",),
        start=partial(model_broker, bug="sequence-not-checked"),
    )
    assert [one.scenario for one in compared.scenarios.differences] == ["sequences"]


def test_a_version_that_no_era_is_like_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no era of the model is Kafka 3\.9\.1 with transaction version 2"):
        model_broker(version_of("3.9.1"), 2, tmp_path)
