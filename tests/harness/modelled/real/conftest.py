"""Three brokers of the model, which the tests of this folder share."""

from collections.abc import Iterator

import pytest

from core.config import run_config
from core.runtime import run_blocking
from harness.modelled.real.cluster import ModelCluster

THREE = {"sut": "model", "seed": 1}


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelCluster]:
    made = ModelCluster(run_config(THREE), tmp_path_factory.mktemp("served"))
    try:
        run_blocking(made.start())
        yield made
    finally:
        run_blocking(made.stop())
