"""A part of `inquest model contract`: the model against a real broker, by scenarios and requests."""

from pathlib import Path

import pytest

from core.systems import KAFKA_VERSION
from harness.contract.cluster import compare

REQUESTS = 2000
OF_REPLICAS = ("fetch-after-produce", "fetch-in-purgatory", "second-fetch-round", "acks", "clean-election")
SCENARIOS = ("sequences", "five-batches", "isolation", "zombie-producer", "late-end-refused", "join-group")


@pytest.mark.sampled(10)
def test_the_model_answers_as_a_broker_does(tmp_path: Path) -> None:
    compared = compare(
        KAFKA_VERSION,
        requests=REQUESTS,
        seed=20261122,
        folder=tmp_path / "contract",
        say=lambda _: None,
        names=SCENARIOS,
    )
    assert compared.differences == []
    assert compared.scenarios.played == list(SCENARIOS)
    outcome = compared.requests
    assert outcome.requests >= REQUESTS
    kinds = {kind for kind, _ in outcome.answers}
    assert len(kinds) >= 12
    assert {error for _, error in outcome.answers} >= {
        "NONE",
        "PRODUCER_FENCED",
        "INVALID_PRODUCER_EPOCH",
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "INVALID_TXN_STATE",
        "TRANSACTION_ABORTABLE",
        "CONCURRENT_TRANSACTIONS",
        "ILLEGAL_GENERATION",
    }


@pytest.mark.sampled(10)
def test_replicas_of_real_brokers_go_through_a_story_message_by_message(tmp_path: Path) -> None:
    """Fetches, their answers, AlterPartition and metadata wait in the proxies between nodes for its steps."""
    compared = compare(
        KAFKA_VERSION, requests=0, seed=1, folder=tmp_path / "contract", say=lambda _: None, names=OF_REPLICAS
    )
    assert compared.differences == []
    assert compared.scenarios.played == list(OF_REPLICAS)
    assert compared.scenarios.cells > compared.scenarios.steps > len(OF_REPLICAS)
