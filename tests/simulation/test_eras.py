"""Old protocols show the anomaly that they are known for, on the seed on which the modern one shows none.

Step by step they are in docs/model.md (`model/scenarios`); here they are found by the checks alone.
"""

import pytest

from harness.config import RunConfig, run_config
from harness.events import Recovered
from harness.exploring.trial import checked, forbidden
from harness.simulate import Simulated, simulate
from model.eras import ERAS

LOAD = {
    "sut": "simulated", "duration_s": 10, "partitions": 3, "producers": 3, "rate": 25, "batch_max": 6,
    "verb_deadline_s": 5, "transaction_timeout_s": 4, "fault_s": 2.5, "calm_s": 1.5,
}  # fmt: skip


def config(seed: int, nemesis: str, era: str, **settings: object) -> RunConfig:
    idempotent = ERAS[era].idempotence
    given = {"nemesis": nemesis, "seed": seed, "era": era, "idempotent": idempotent}
    return run_config(LOAD | given | settings)


def found(done: Simulated) -> dict[str, int]:
    return forbidden(done.config, done.events, checked(done))


def test_truncation_to_the_high_watermark_loses_records() -> None:
    """Before KIP-101 a follower cuts its log back to a high watermark that it may know too late."""
    old = simulate(config(14, "kill:majority", "0.10"))
    assert {"lost-write", "inconsistent-offsets"} <= set(found(old))
    assert {"log-matching", "leader-completeness"} <= {broken.name for broken in old.broken}


@pytest.mark.parametrize("era", ["4.2", "4.2-tv1"])
def test_the_modern_protocol_does_not(era: str) -> None:
    new = simulate(config(14, "kill:majority", era))
    assert found(new) == {}
    assert new.broken == []


@pytest.mark.parametrize("era", ERAS)
def test_every_era_is_clean_when_left_alone(era: str) -> None:
    done = simulate(config(1, "none", era, duration_s=4))
    assert found(done) == {}
    assert done.broken == []
    assert [e.recovered for e in done.events if isinstance(e, Recovered)] == [True]
