"""A share group of a real cluster: its settings, where it stands, and a session that is its member."""

import pytest

from core.op import TopicPartition
from core.runtime import run_blocking
from harness.containers.cluster import ContainerCluster
from tests.contract.share_member import a_rejected_record_has_a_letter, released_records_come_again

pytestmark = pytest.mark.sampled(6, whole_file=True)

TOPIC, GROUP = "shared-out", "share-docker"
TP = TopicPartition(TOPIC, 0)
COUNT = 30


def test_a_group_delivers_released_records_again_and_says_where_it_stands(cluster: ContainerCluster) -> None:
    run_blocking(cluster.configure_groups({GROUP: {"share.auto.offset.reset": "earliest"}}))
    released_records_come_again(cluster, GROUP, TP, COUNT)


def test_a_rejected_record_is_in_the_dead_letter_queue_with_its_copy(cluster: ContainerCluster) -> None:
    a_rejected_record_has_a_letter(cluster, "share-dead", TopicPartition("shared-dead", 0), "dlq.shared-dead")
