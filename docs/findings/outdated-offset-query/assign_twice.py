"""librdkafka goes back to the beginning after a second assignment (its own mock broker; no Kafka needed).

    python assign_twice.py [--once | --explicit]

--once: the partition is assigned once. --explicit: the second assignment names an offset, instead of the
beginning, and is the last one.
Needs confluent-kafka. Exit code 0: what comes is in order. 1: the consumer is thrown back.
"""

import sys
import time
from itertools import pairwise
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition, libversion

RECORDS: Final = 50
EXPLICIT: Final = 25
SLOW_MS: Final = 150
"""So long the broker takes for an answer."""
BETWEEN_S: Final = 0.05
"""Between the two assignments: the first answer is still to come."""
WATCH_S: Final = 3.0


def main() -> int:
    """Assign a partition at its beginning, assign it again, and behind its end once all has been read."""
    explicit = "--explicit" in sys.argv
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
        consumer.assign([TopicPartition("t", 0, EXPLICIT if explicit else OFFSET_BEGINNING)])
    given: list[int] = []
    while (passed := time.monotonic() - began) < WATCH_S:
        message = consumer.poll(BETWEEN_S)
        if message is None or message.error():
            continue
        given.append(message.offset())
        if not given[:-1] or given[-1] <= given[-2]:
            print(f"{passed * 1000:.0f} ms: offset {given[-1]}, after {given[-2:-1]}")
        if given[-1] == RECORDS - 1 and not explicit:
            consumer.assign([TopicPartition("t", 0, RECORDS)])
            print(f"{passed * 1000:.0f} ms: all read; assigned at {RECORDS}")
    consumer.close()
    thrown_back = any(later <= earlier for earlier, later in pairwise(given))
    order = "thrown back" if thrown_back else "in order"
    print(f"librdkafka {libversion()[0]}: {len(given)} records, {order}")
    return 1 if thrown_back or not given else 0


if __name__ == "__main__":
    sys.exit(main())
