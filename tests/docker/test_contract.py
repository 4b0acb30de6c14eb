"""A part of `inquest model contract`: the model against a real broker, by scenarios and requests."""

from pathlib import Path

import pytest

from core.systems import KAFKA_VERSION
from harness.contract.cluster import compare

REQUESTS = 2000
SCENARIOS = ("sequences", "five-batches", "isolation", "zombie-producer", "late-end-refused", "join-group")


@pytest.mark.sampled(2)
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
