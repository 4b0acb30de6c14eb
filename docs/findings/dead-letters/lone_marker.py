"""librdkafka forgets a transaction marker that it is given alone (its own mock broker; no Kafka needed).

    python lone_marker.py [--together]

--together: the transaction commits before the record is given out, so that record and marker come together.
Needs confluent-kafka 2.16. Exit code 0: the marker is acknowledged as a gap. 1: it is not.
"""

import logging
import sys
import time
from typing import Final

from confluent_kafka import Producer, ShareConsumer, libversion

JOIN_S: Final = 4.0
WATCH_S: Final = 3.0
POLL_S: Final = 0.3


class Lines(logging.Handler):
    """What librdkafka logs of fetches and acknowledgements."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line that tells what was given out, and what is acknowledged."""
        line = record.getMessage()
        if any(part in line for part in ("Acquired Records", "ack detail for", " gaps, ")):
            self.found.append(line.rpartition("]: ")[2])


def polled(consumer: ShareConsumer, seconds: float) -> list[int]:
    """The offsets that the consumer is given in a time."""
    given: list[int] = []
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        given += [one.offset() for one in consumer.poll(POLL_S) or []]
    return given


def main() -> int:
    """A record and the marker behind it; what the consumer says of the marker."""
    together = "--together" in sys.argv
    producer = Producer({"test.mock.num.brokers": 1, "transactional.id": "producer"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("t", "before the group", partition=0)
    producer.commit_transaction()
    (broker,) = producer.list_topics().brokers.values()
    lines, logger = Lines(), logging.getLogger("librdkafka")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(lines)
    address = {"bootstrap.servers": f"{broker.host}:{broker.port}"}
    consumer = ShareConsumer({**address, "group.id": "g", "debug": "fetch,cgrp"}, logger=logger)
    consumer.subscribe(["t"])
    polled(consumer, JOIN_S)
    lines.found.clear()
    producer.begin_transaction()
    producer.produce("t", "record", partition=0)
    producer.flush()
    if together:
        producer.commit_transaction()
    given = polled(consumer, WATCH_S)
    if not together:
        producer.commit_transaction()
    given += polled(consumer, WATCH_S)
    print(*dict.fromkeys(lines.found), sep="\n")
    marker = given[0] + 1
    told = any(f"offsets [{marker} - {marker}] with type 0" in line for line in lines.found)
    print(f"librdkafka {libversion()[0]}: the marker at {marker} is{'' if told else ' not'} acknowledged")
    consumer.close()
    return 0 if told else 1


if __name__ == "__main__":
    sys.exit(main())
