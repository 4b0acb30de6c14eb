"""Reads one topic and writes each record to a database (SQLite); right, or wrong in one of three ways.

    SINK="python examples/applications/sink.py"; inquest run --app "$SINK unique" --effects "$SINK show"

plain: a row for each record, then it commits their offsets to Kafka. early: it commits the offsets first.
unique: as plain, and the place of a record in Kafka is unique in the database. offsets: the database has the
next offset of each partition, written with the rows; below it no record is written. one-behind: as unique,
but it commits the offset of the last record in the place of the next one.
"""

import json
import os
import signal
import sqlite3
import sys
import threading
import time
from pathlib import Path

MODE = sys.argv[1]
WORK_S = float(sys.argv[2]) if len(sys.argv) > 2 else 0.03
FILE = Path(os.environ["INQUEST_FOLDER"], "sink.sqlite")
SCHEMA = """
CREATE TABLE IF NOT EXISTS plain (value BLOB);
CREATE TABLE IF NOT EXISTS placed (partition INTEGER, source INTEGER, value BLOB, UNIQUE (partition, source));
CREATE TABLE IF NOT EXISTS next (partition INTEGER PRIMARY KEY, source INTEGER);
"""
NEXT = (
    "INSERT INTO next VALUES (?, ?) ON CONFLICT DO UPDATE SET source = excluded.source"
    " WHERE excluded.source > source"
)
stopping = threading.Event()


def write(database: sqlite3.Connection, message) -> None:
    """One record, in the open transaction of the database, or in one of its own."""
    partition, offset, value = message.partition(), message.offset(), message.value()
    if MODE in ("unique", "one-behind"):
        database.execute("INSERT OR IGNORE INTO placed VALUES (?, ?, ?)", (partition, offset, value))
    elif MODE != "offsets" or database.execute(NEXT, (partition, offset + 1)).rowcount:
        database.execute("INSERT INTO plain VALUES (?)", (value,))


def store(database: sqlite3.Connection, messages: list) -> None:
    early = MODE == "early"
    for message in messages:
        time.sleep(early * WORK_S)  # between the commit of offsets and the row, where a crash does harm
        database.execute("BEGIN IMMEDIATE")
        write(database, message)
        database.execute("COMMIT")
        time.sleep((not early) * WORK_S)


def consume(database: sqlite3.Connection) -> None:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    own = {
        "group.id": os.environ["INQUEST_GROUP"],
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    common = {**json.loads(os.environ["INQUEST_CLIENT"]), "log_level": 0, "session.timeout.ms": 6000}
    consumer = Consumer({**common, **own, "isolation.level": "read_committed"})
    consumer.subscribe([os.environ["INQUEST_IN"]])
    try:
        while not stopping.is_set():
            first = consumer.poll(0.2)
            messages = [] if first is None else [first, *consumer.consume(99, 0)]
            messages = [message for message in messages if message.error() is None]
            if not messages:
                continue
            next_one = MODE != "one-behind"
            last = {(m.topic(), m.partition()): m.offset() + next_one for m in messages}
            offsets = [TopicPartition(*tp, offset) for tp, offset in last.items()]
            if MODE != "early":
                store(database, messages)
            consumer.commit(offsets=offsets, asynchronous=False)
            if MODE == "early":
                store(database, messages)
    except KafkaException as error:  # begin anew at the committed offsets
        print(error, flush=True)
    finally:
        consumer.close()


def main() -> None:
    FILE.parent.mkdir(exist_ok=True)
    database = sqlite3.connect(FILE, timeout=30, isolation_level=None)
    database.executescript(SCHEMA)
    if MODE == "show":
        for table in ("plain", "placed"):
            for (value,) in database.execute(f"SELECT hex(value) FROM {table}"):
                print(value)
        return
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    while not stopping.is_set():
        consume(database)
        time.sleep(0.2)


main()
