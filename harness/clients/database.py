"""The database of a run: the store outside of Kafka that consumers of the workload `sink` write to.

It is SQLite. The rows that input records make are committed on their own; the consumer commits its offsets to
Kafka afterwards. What keeps the rows right where a consumer dies between the two, or works on after its
partitions are another's, is the setting `sink`; here it is a statement of the transaction that writes:

    plain                  nothing: a row is written whenever its record is processed
    unique-id              the record's topic, partition and offset are unique: a row that is there stays
    offset-in-transaction  the next offset of each partition is written with the rows: below it nothing is
    optimistic-lock        the offset is the version of the row of its key: older ones are refused

Rows of an input partition are numbered from 0, as records of a log are: in the history the database is a
topic (`core.op.DATABASE`) with as many partitions, a row is a record, its number the offset.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from core.config import RunConfig
from core.errors import ClusterError
from core.keys import key_of
from core.op import DATABASE, TopicPartition
from harness.clients.application.effects import Effects
from harness.clients.application.instance import outside
from harness.clients.application.results import Results
from history.run_folder import Run
from workloads.registry import having

REFUSED: Final = -1
"""In the place of a row's number: the row was not written, because of what was there."""
IN_MEMORY: Final = Path(":memory:")

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS rows (partition INTEGER, number INTEGER, value INTEGER, topic TEXT, source INTEGER,
    PRIMARY KEY (partition, number));
CREATE TABLE IF NOT EXISTS ids (topic TEXT, partition INTEGER, source INTEGER,
    PRIMARY KEY (topic, partition, source));
CREATE TABLE IF NOT EXISTS positions (topic TEXT, partition INTEGER, next INTEGER,
    PRIMARY KEY (topic, partition));
CREATE TABLE IF NOT EXISTS versions (topic TEXT, partition INTEGER, key INTEGER, version INTEGER,
    PRIMARY KEY (topic, partition, key));
"""
NEW: Final[Mapping[str, str]] = {
    "unique-id": "INSERT INTO ids VALUES (:topic, :partition, :source) ON CONFLICT DO NOTHING",
    "offset-in-transaction": "INSERT INTO positions VALUES (:topic, :partition, :source + 1)"
    " ON CONFLICT DO UPDATE SET next = excluded.next WHERE excluded.next > next",
    "optimistic-lock": "INSERT INTO versions VALUES (:topic, :partition, :key, :source)"
    " ON CONFLICT DO UPDATE SET version = excluded.version WHERE excluded.version > version",
}
"""By `sink`: the statement that changes a row exactly where the input record is to be written."""


def database_of(config: RunConfig, file: Path) -> "Database | None":
    """A connection to the database of a run; None where its workload has none."""
    return Database(file, config.sink) if config.workload in having("sink") else None


def store_of(config: RunConfig, run: Run) -> "Store | None":
    """What holds the rows of a run outside of Kafka; None where its workload has nothing there."""
    if config.app is not None and config.app.shape == "aggregate":
        return Results()
    if config.app is None or not config.app.effects:
        return database_of(config, run.database)
    return Effects(
        run=run.name,
        file=run.application / "effects.txt",
        input=config.prefix + config.app.input,
        size=config.record_size,
        around=outside(config.app, config.prefix, run.application),
    )


class DatabaseRow(NamedTuple):
    """What one input record becomes. tp, offset: its place; sent: its value; value: of the row."""

    tp: TopicPartition
    offset: int
    sent: int
    value: int


class Database:
    """One connection. All methods but `ends` may raise sqlite3.Error."""

    def __init__(self, file: Path, sink: str, busy_s: float = 10.0) -> None:
        """sink: as `RunConfig.sink`. busy_s: how long a transaction waits for that of another process."""
        self._new = NEW.get(sink, "")
        self._connection = sqlite3.connect(file, timeout=busy_s, isolation_level=None)
        # A process that is killed loses nothing that it wrote, and no fault takes this machine's power.
        self._connection.execute("PRAGMA synchronous = OFF")
        self._connection.executescript(SCHEMA)

    def write(self, rows: Sequence[DatabaseRow]) -> list[int]:
        """Write these rows in one transaction; of each its number, or `REFUSED`."""
        with self._transaction() as connection:
            return [self._write(connection, row) for row in rows]

    def _write(self, connection: sqlite3.Connection, row: DatabaseRow) -> int:
        place = {"topic": row.tp.topic, "partition": row.tp.partition, "source": row.offset}
        if self._new and not connection.execute(self._new, place | {"key": key_of(row.sent)}).rowcount:
            return REFUSED
        (number,) = connection.execute(
            "INSERT INTO rows SELECT :partition, coalesce(max(number) + 1, 0), :value, :topic, :source"
            " FROM rows WHERE partition = :partition RETURNING number",
            place | {"value": row.value},
        ).fetchone()
        return int(number)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def ends(self, partitions: Iterable[int]) -> dict[TopicPartition, int]:
        """Of each partition of the rows: how many it has. Raises: ClusterError."""
        try:
            counted = dict(
                self._connection.execute("SELECT partition, count(*) FROM rows GROUP BY partition")
            )
        except sqlite3.Error as error:
            raise ClusterError(f"the rows of the database cannot be counted: {error}") from None
        return {TopicPartition(DATABASE, p): counted.get(p, 0) for p in sorted(set(partitions))}

    def read(self, tp: TopicPartition) -> tuple[list[int], list[int]]:
        """All rows of a partition: their numbers and their values."""
        rows = self._connection.execute(
            "SELECT number, value FROM rows WHERE partition = ? ORDER BY number", (tp.partition,)
        ).fetchall()
        return [number for number, _ in rows], [value for _, value in rows]

    def close(self) -> None:
        """Close the connection; idempotent."""
        self._connection.close()


Store = Database | Effects | Results
"""What holds rows."""
