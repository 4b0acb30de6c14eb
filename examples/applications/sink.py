"""Reads one topic and writes each record to a database; right in two ways, wrong in three.

    SINK="python examples/applications/sink.py"; inquest run --app "$SINK unique" --effects "$SINK show"

The database is a file of the run (SQLite), or a schema of its own in PostgreSQL: `--database postgresql://...`,
after `pip install 'psycopg[binary]'`. Where PostgreSQL is gone, the program waits, and begins again.

plain: a row for each record, then it commits their offsets to Kafka. early: it commits the offsets first.
unique: as plain, and the place of a record in Kafka is unique in the database. offsets: the database has the
next offset of each partition, written with the row, in one transaction: it starts there, and writes no record
below it. one-behind: as unique, but it commits the offset of the last record in the place of the next one.
"""

import argparse
import hashlib
import json
import os
import signal
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

from hanging import watched

parser = argparse.ArgumentParser()
parser.add_argument("mode", choices=("plain", "early", "unique", "offsets", "one-behind", "show"))
parser.add_argument("work_s", type=float, nargs="?", default=0.03, help="seconds that each record takes")
parser.add_argument("hangs_s", type=float, nargs="?", default=20.0, help="seconds that no call takes")
parser.add_argument("--database", default="", help="postgresql://...; without it, SQLite")
given = parser.parse_args()

if given.database:
    import psycopg

Database = sqlite3.Connection if not given.database else psycopg.Connection
Gone = sqlite3.OperationalError if not given.database else psycopg.OperationalError
FOLDER = os.environ["INQUEST_FOLDER"]
# SQLite takes any type's name, and keeps bytes as they are.
TABLES = """
CREATE TABLE IF NOT EXISTS plain (value BYTEA);
CREATE TABLE IF NOT EXISTS placed (partition INTEGER, source BIGINT, value BYTEA, UNIQUE (partition, source));
CREATE TABLE IF NOT EXISTS next (partition INTEGER PRIMARY KEY, source BIGINT);
"""
PLACED = "INSERT INTO placed VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
NEXT = (
    "INSERT INTO next VALUES (?, ?) ON CONFLICT (partition) DO UPDATE SET source = excluded.source"
    " WHERE excluded.source > next.source"
)
stopping = threading.Event()


def opened() -> Database:
    """A connection where each statement is a transaction, unless BEGIN begins one."""
    if not given.database:
        file = Path(FOLDER, "sink.sqlite")
        file.parent.mkdir(exist_ok=True)
        database = sqlite3.connect(file, timeout=30, isolation_level=None)
        database.executescript(TABLES)
        return database
    database = psycopg.connect(given.database, autocommit=True, connect_timeout=5)
    schema = "inquest_" + hashlib.sha256(FOLDER.encode()).hexdigest()[:16]
    # One transaction; the lock, because of two that create the same table one may fail.
    lock = f"SELECT pg_advisory_xact_lock(hashtext('{schema}'))"
    database.execute(f"{lock}; CREATE SCHEMA IF NOT EXISTS {schema}; SET search_path TO {schema}; {TABLES}")
    return database


def query(database: Database, statement: str, *values):
    return database.execute(statement.replace("?", "%s") if given.database else statement, values)


def write(database: Database, message) -> None:
    """One record, in the open transaction of the database, or in one of its own."""
    partition, offset, value = message.partition(), message.offset(), message.value()
    if given.mode in ("unique", "one-behind"):
        query(database, PLACED, partition, offset, value)
    elif given.mode != "offsets" or query(database, NEXT, partition, offset + 1).rowcount:
        query(database, "INSERT INTO plain VALUES (?)", value)


def store(database: Database, messages: list) -> None:
    early = given.mode == "early"
    for message in messages:
        time.sleep(early * given.work_s)  # between the commit of offsets and the row, where a crash does harm
        query(database, "BEGIN" if given.database else "BEGIN IMMEDIATE")
        write(database, message)
        query(database, "COMMIT")
        time.sleep((not early) * given.work_s)


def assigned(database: Database, consumer, partitions: list) -> None:
    """Start where the database says, and say so to Kafka: it may know less."""
    for tp in partitions:
        for (offset,) in query(database, "SELECT source FROM next WHERE partition = ?", tp.partition):
            tp.offset = offset
    consumer.assign(partitions)
    if known := [tp for tp in partitions if tp.offset >= 0]:
        consumer.commit(offsets=known, asynchronous=False)


def step(database: Database, consumer) -> None:
    """Some records, their rows, and their offsets."""
    from confluent_kafka import TopicPartition

    with watched(given.hangs_s):
        first = consumer.poll(0.2)
        messages = [] if first is None else [first, *consumer.consume(99, 0)]
    messages = [message for message in messages if message.error() is None]
    if not messages:
        return
    next_one = given.mode != "one-behind"
    last = {(m.topic(), m.partition()): m.offset() + next_one for m in messages}
    offsets = [TopicPartition(*tp, offset) for tp, offset in last.items()]
    if given.mode != "early":
        store(database, messages)
    with watched(given.hangs_s):
        consumer.commit(offsets=offsets, asynchronous=False)
    if given.mode == "early":
        store(database, messages)


def consume(database: Database) -> None:
    """Until it is to stop, or a call fails: then from the committed offsets on."""
    from confluent_kafka import Consumer, KafkaError, KafkaException

    own = {
        "group.id": os.environ["INQUEST_GROUP"],
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    common = {**json.loads(os.environ["INQUEST_CLIENT"]), "log_level": 0, "session.timeout.ms": 6000}
    consumer = Consumer({**common, **own, "isolation.level": "read_committed"})
    on_assign = {"on_assign": lambda *ours: assigned(database, *ours)} if given.mode == "offsets" else {}
    consumer.subscribe([os.environ["INQUEST_IN"]], **on_assign)
    try:
        while not stopping.is_set():
            step(database, consumer)
    except (KafkaException, KafkaError) as error:  # poll raises the latter where `assigned` failed
        print(error, flush=True)
    finally:
        with watched(given.hangs_s):
            consumer.close()


def main() -> None:
    if given.mode == "show":
        with closing(opened()) as database:
            for table in ("plain", "placed"):
                for (value,) in database.execute(f"SELECT value FROM {table}"):
                    print(value.hex())
        return
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    while not stopping.is_set():
        try:
            with closing(opened()) as database:
                consume(database)
        except Gone as error:  # what it was about to write may be there, or not: as after a crash
            print(error, flush=True)
        time.sleep(0.2)


main()
