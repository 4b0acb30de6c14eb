"""What a run learns of a cluster that others use, too."""

import os
from pathlib import Path

import pytest

from core.config import run_config
from core.internal_topics import GROUP_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_TOPIC
from core.runtime import run_blocking
from harness.brokers.admin import broker_views
from harness.external import belongings, named, system
from harness.modelled.real.cluster import ModelCluster
from tests.harness.external.conftest import FileMaker

pytestmark = pytest.mark.slow


@pytest.mark.sampled(5)
def test_topics_of_others_are_not_the_runs(
    model: ModelCluster, cluster_file: FileMaker, tmp_path: Path
) -> None:
    """A restart of each broker in turn waits for the replicas of the run: those of others may never be in
    sync."""
    prefix = f"roles-{os.getpid()}-"
    named.name(cluster_file(prefix=prefix), owned=True)
    config = run_config({"seed": 1, **named.settings()}).with_tag("abc")
    run = {f"{prefix}abc-queue", SHARE_STATE_TOPIC}
    for topic in (*sorted(run), f"{prefix}other-queue", f"their-{prefix}abc-orders"):
        run_blocking(model.create_topic(topic, 1, 3, {}))
    cluster = system.cluster(config, tmp_path)
    try:
        found = [run_blocking(cluster.roles()).isr, run_blocking(cluster.replicas())]
    finally:
        run_blocking(cluster.stop())
    internal = {TRANSACTION_TOPIC, GROUP_TOPIC}  # there, where another test has used them
    assert [{tp.topic for tp in one} - internal for one in found] == [run, run]


@pytest.mark.sampled(1)
def test_brokers_that_ask_nothing_of_users_let_them_describe_the_cluster(model: ModelCluster) -> None:
    said = broker_views.ask_all(model.admin, belongings.may_describe)
    assert said == dict.fromkeys(model.brokers, True)
