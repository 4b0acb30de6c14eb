"""Whether a group has come to the end of its input, asked on librdkafka's in-process mock cluster."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from core.op import TopicPartition
from harness.clients.application.position import GroupPosition

TP = TopicPartition("input", 0)
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A mock broker with three records in the input."""
    mock = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 1, "log_level": 0})
    broker = next(iter(mock.list_topics(timeout=PATIENCE_S).brokers.values()))
    address = f"{broker.host}:{broker.port}"
    producer = Producer({"bootstrap.servers": address, "log_level": 0})
    for _ in range(3):
        producer.produce(TP.topic, b"record", partition=TP.partition)
    assert producer.flush(PATIENCE_S) == 0
    yield address
    del mock


@pytest.mark.parametrize(
    ("offset", "at_the_end"),
    [(0, False), (2, False), (3, True), (9, False)],
    ids=["the begin", "before the last", "the end", "an offset that the log does not have"],
)
def test_who_has_a_record_left_is_not_at_the_end(bootstrap: str, offset: int, at_the_end: bool) -> None:
    """The records at an offset may be deleted: what stands behind them is still to be read."""
    position = GroupPosition({"bootstrap.servers": bootstrap}, "group")
    try:
        assert position.at_the_end({TP: offset}) == at_the_end
    finally:
        position.close()
