"""librdkafka goes back to the beginning after a second assignment (its own mock broker; no Kafka needed).

    python assign_twice.py [--once]

--once: the partition is assigned once. Needs confluent-kafka. Exit code 0: every record came once. 1: some came twice.
"""

import sys
import time
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition, libversion

RECORDS: Final = 50
SLOW_MS: Final = 150
"""So long the broker takes for an answer."""
BETWEEN_S: Final = 0.05
"""Between the two assignments: the first answer is still to come."""
WATCH_S: Final = 3.0


def main() -> int:
    """Assign a partition at its beginning, twice, and behind its end once all has been read."""
    producer = Producer({"test.mock.num.brokers": 1, "test.mock.broker.rtt": SLOW_MS})
    for number in range(RECORDS):
        producer.produce("t", str(number), partition=0)
    producer.flush()
    (broker,) = producer.list_topics().brokers.values()
    address = {"bootstrap.servers": f"{broker.host}:{broker.port}"}
    consumer = Consumer({**address, "group.id": "g", "enable.auto.commit": False})
    consumer.list_topics("t")
    began = time.monotonic()
    consumer.assign([TopicPartition("t", 0, OFFSET_BEGINNING)])
    if "--once" not in sys.argv:
        consumer.poll(BETWEEN_S)
        consumer.assign([TopicPartition("t", 0, OFFSET_BEGINNING)])
    given: list[int] = []
    while (passed := time.monotonic() - began) < WATCH_S:
        message = consumer.poll(BETWEEN_S)
        if message is None or message.error():
            continue
        given.append(message.offset())
        if message.offset() == 0:
            print(f"{passed * 1000:.0f} ms: offset 0, after {len(given) - 1} records")
        if len(given) == RECORDS:
            consumer.assign([TopicPartition("t", 0, RECORDS)])
            print(f"{passed * 1000:.0f} ms: all read; assigned at {RECORDS}")
    consumer.close()
    print(f"librdkafka {libversion()[0]}: {len(given)} records were given, of {RECORDS}")
    return 0 if len(given) == RECORDS else 1


if __name__ == "__main__":
    sys.exit(main())
