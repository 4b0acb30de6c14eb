"""The tables of evidence: what their columns are, and rows of them.

Columns that several tables have. `segment`: base offset that a file is named for. `position`: of a batch
in its file, bytes. `offset`, `leader_epoch`, `timestamp` (ms, as Kafka wrote it), `producer_id`,
`producer_epoch`: of a record, as its batch says. `opaque`: bytes of a value that no definition of
`harness.evidence` reads; null where one does. `body`: all fields of a value as JSON, with the names and
forms of Kafka's own JSON (`DumpLogSegments`); null for a tombstone and for an opaque value. A value that may
be a secret of the cluster is left out (`opaque` of no bytes, `body` null or with "(hidden)"). Other nulls
mean that the record does not say. Kafka's own -1 stays -1.

`schema` adds the columns that say where a row was found: `take`, `node`, and for partitions `topic` and
`partition`. Rows of a partition stand together, by take, node, and place in the log.

What was seen of messages (`frames`, `frame_parts`, `orders`, `gaps`) belongs to the run as a whole. Runs
without `capture` have none.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

import pyarrow as pa

from core.op import TopicPartition

Cell: TypeAlias = "bool | int | float | str | bytes | Sequence[int] | Sequence[dict[str, str | int]] | None"
TOPIC_PARTITIONS: Final = pa.list_(
    pa.struct([pa.field("topic", pa.string()), pa.field("partition", pa.int32())])
)

STATE_BATCHES: Final = pa.list_(
    pa.struct(
        [
            pa.field("first", pa.int64()),
            pa.field("last", pa.int64()),
            pa.field("state", pa.int8()),
            pa.field("times", pa.int16()),
        ]
    )
)
"""Runs of offsets with one delivery state (Kafka's `RecordState`), and how often they were delivered."""


def _table(spec: str) -> pa.Schema:
    """Schema from `name kind, name kind, …`; a kind with `?` may be null."""
    kinds = {
        "i8": pa.int8(),
        "i16": pa.int16(),
        "i32": pa.int32(),
        "i64": pa.int64(),
        "u32": pa.uint32(),
        "str": pa.string(),
        "bool": pa.bool_(),
        "bytes": pa.binary(),
        "nodes": pa.list_(pa.int32()),
        "tps": TOPIC_PARTITIONS,
        "states": STATE_BATCHES,
    }
    fields = []
    for part in spec.split(","):
        name, kind = part.split()
        fields.append(pa.field(name, kinds[kind.rstrip("?")], nullable=kind.endswith("?")))
    return pa.schema(fields)


BATCHES: Final = _table(
    "segment i64, position i64, size i32, base i64, last i64, leader_epoch i32,"
    "producer_id i64, producer_epoch i16, base_sequence i32, records i32,"
    "base_timestamp i64, max_timestamp i64, compression i8, log_append_time bool, transactional bool,"
    "control bool, delete_horizon bool, crc u32, intact bool"
)
"""One row a batch, in the order of the file. `last`: offset of its last record, also where compaction
removed that record. `records`: number in the header. `compression`: 0 none, 1 gzip, 2 snappy, 3 lz4,
4 zstd. `delete_horizon`: base_timestamp is not one, but when compaction may remove the batch's tombstones.
`intact`: the CRC is the one of the bytes; columns of other batches can be anything."""

_RECORD: Final = "offset i64, leader_epoch i32, timestamp i64, producer_id i64, producer_epoch i16"

CONTROL: Final = _table(_RECORD + ", type i16, name str, version i16, coordinator_epoch i32?, body str?")
"""One row a control record of a segment. `type` and `name`: of Kafka's `ControlRecordType`; `unknown` where
it has none. `coordinator_epoch`: of the markers ABORT and COMMIT."""

TRANSACTION_LOG: Final = _table(
    "offset i64, leader_epoch i32, timestamp i64, transactional_id str, version i16?,"
    "producer_id i64?, previous_producer_id i64?, next_producer_id i64?,"
    "producer_epoch i16?, next_producer_epoch i16?, timeout_ms i32?, state str?, partitions tps?,"
    "client_transaction_version i16?, last_update_ms i64?, start_ms i64?, opaque bytes?"
)
"""One row a record of `__transaction_state`: the state of a transactional id from that offset on. `state`:
a name of Kafka's `TransactionState`. All of version to start_ms null: a tombstone, or an opaque value."""

OFFSET_LOG: Final = _table(
    _RECORD + ", transactional bool, group str, committed_topic str, committed_partition i32, committed i64?,"
    "committed_leader_epoch i32?, metadata str?, commit_ms i64?, opaque bytes?"
)
"""One row a committed offset in `__consumer_offsets`. `committed`: next offset to read, null = removed, or
opaque. `transactional`: pending until its producer's marker follows."""

GROUP_LOG: Final = _table(
    _RECORD + ", type i16, name str, version i16?, group str?, member str?, epoch i32?, body str?,"
    "opaque bytes?"
)
"""One row a record of `__consumer_offsets` that is not an offset. `name`: of its key in Kafka without `Key`,
such as `GroupMetadata`; `unknown` where `type` has none. `epoch`: generation of a classic group, or group
epoch."""

SHARE_LOG: Final = _table(
    "offset i64, leader_epoch i32, timestamp i64, name str, group str, shared_topic str,"
    "shared_partition i32, snapshot_epoch i32?, state_epoch i32?, shared_leader_epoch i32?, start i64?,"
    "states states?, opaque bytes?"
)
"""One row a record of `__share_group_state`. `name`: ShareSnapshot or ShareUpdate. `shared_topic`: id of the
topic whose partition is shared. `state_epoch`: of a snapshot only. `start` -1: none yet, or as before. All of
snapshot_epoch to states null: a tombstone, or an opaque value."""

METADATA: Final = _table(
    "snapshot i64, offset i64, leader_epoch i32, timestamp i64, type i16, name str, version i16, broker i32?,"
    "broker_epoch i64?, topic str?, topic_id str?, partition i32?, leader i32?, partition_leader_epoch i32?,"
    "partition_epoch i32?, replicas nodes?, isr nodes?, elr nodes?, last_known_elr nodes?,"
    "removing nodes?, adding nodes?, recovery i8?, fenced i8?, feature str?, level i16?,"
    "body str?, opaque bytes?"
)
"""One row a record of `__cluster_metadata`. `snapshot`: offset that the snapshot with this record ends at,
-1 = the record stands in the log itself. `name`: of the record in Kafka; `unknown` where `type` has none.
Columns after `version` are the fields that elections need; a field of a change that is not in the record
is null (isr, replicas, …) or Kafka's own "no change" (`leader` -2, `recovery` -1, `fenced` 0).
`fenced` of RegisterBroker is 0 or 1, of BrokerRegistrationChange 1 = fenced, -1 = unfenced."""

ZNODES: Final = _table("zxid i64, ms i64, session i64, op str, path str, version i32?, owner i64?, data str?")
"""One row a change of a znode in which Kafka keeps metadata, by the log of a node of ZooKeeper (`node`), in
the order of `zxid`; those of one zxid were made together. `ms`: by the clock of ZooKeeper's leader, since
1970. `session`: whose request it was, or which one ended. `op`: create, set or delete. `version`: that a set
makes, 0 of a create. `owner`: session with which the created znode goes, 0 = it stays."""

EPOCHS: Final = _table("epoch i32, start i64")
"""`leader-epoch-checkpoint`: the leader epochs of a log, and the first offset of each."""

ENDS: Final = _table("file str, value i64")
"""One row a partition in a checkpoint at the top of a log directory. `file`: recovery-point-,
replication- (high watermark), log-start- or cleaner-offset-checkpoint, without `-offset-checkpoint`."""

PRODUCERS: Final = _table(
    "snapshot i64, producer_id i64, producer_epoch i16, last_sequence i32, last_offset i64, offset_delta i32,"
    "timestamp i64, coordinator_epoch i32, first_offset_of_transaction i64"
)
"""One row a producer in a `.snapshot` file, the state of producers before offset `snapshot`. Of a file of
none, one row of NO_PRODUCER (recordings of earlier versions have no row)."""
NO_PRODUCER: Final = -1
"""In place of the id of a producer, where there is none."""

ABORTED: Final = _table("segment i64, producer_id i64, first i64, last i64, last_stable i64")
"""One row an aborted transaction in a `.txnindex` file; `last`: offset of its marker."""

PARTITIONS: Final = _table("topic_id str?, start i64, files i32, bytes i64")
"""One row a partition directory. `topic_id`: of `partition.metadata`. `start`: lowest base offset that a
segment is named for, -1 = no segment. `files`, `bytes`: of its segments."""

NODES: Final = _table("clean_shutdown bool, broker_epoch i64?, quorum_state str?, meta str?")
"""One row a node. `clean_shutdown`: `.kafka_cleanshutdown` is there. `broker_epoch`: as that file has it.
`quorum_state`: the controller's file as it is (JSON). `meta`: `meta.properties` as it is."""

DAMAGE: Final = _table("file str, position i64, why str")
"""One row a file that could not be read as a whole; its rows before `position`, and other files', stand in
the other tables. One more row a segment of whole batches with records that could not be read."""

END: Final = "end"
KILLED: Final = "killed"
LOST_POWER: Final = "lost power"
TAKES: Final = _table("at_ns i64, why str")
"""One row a node of a take. `at_ns`: time of the run, when its files were taken. `why`: END; or KILLED:
the node's process had ended without a shutdown, and was not started again yet; or LOST_POWER: likewise, and
what the node had not flushed is gone. A node that was down so at the end has two rows in the last take: END,
and how its process had ended."""

UNREAD_LOSSES: Final = _table("at_ns i64")
"""One row a node that lost power and whose files could not be taken then: what its log may have lost is to be
known also where nothing shows it. `take`: the one that they belonged to; `at_ns`: as in TAKES."""
WHEN: Final = {END: "at the end", KILLED: "when it was killed", LOST_POWER: "when it had lost power"}
ORDINALS: Final = {1: "1st", 2: "2nd", 3: "3rd"}

FRAMES: Final = _table(
    "number i64, at_ns i64, ms i64, connection i64, client i32, client_port i32, server i32, server_port i32,"
    "answer bool, api i16, version i16, correlation i32, size i32"
)
"""One row a frame of Kafka's protocol that was seen on the run's network, in the order of time; `number`
counts them from 0. `at_ns`, `ms`: when its last byte was seen, as time of the run, and by the clock of the
nodes (since 1970); it need not have arrived. `connection`: its number in the run. `client`: the node that
opened it, CLIENT = not a node. `answer`: the frame goes to `client`. `api`, `version`: of the request, also
in the answer; -1 = an answer to no request. `size`: bytes, with those of the size."""

FRAME_PARTS: Final = _table(
    "number i64, topic str?, topic_id str?, partition i32, producer_id i64?, producer_epoch i16?,"
    "sequence i32?, records i32?, acks i16?, offset i64?, leader_epoch i32?, commit bool?,"
    "coordinator_epoch i32?, error i16?"
)
"""What the frame of this number says of a partition. Requests of Produce: one row a batch (`sequence`,
`records`, `acks`); answers: `error` and base `offset`. Fetches of followers: `offset`, `leader_epoch` (-1 =
not checked). WriteTxnMarkers: the marker. EndTxn, which names no partition: one row of partition -1; the
request has the producer and `commit`, the answer `error`. Frames of other APIs have no rows. A topic has a
name or an id."""

ORDERS: Final = _table(
    "number i64, controller i32?, controller_epoch i32?, broker_epoch i64?, topic str?, topic_id str?,"
    "partition i32, leader i32?, leader_epoch i32?, isr nodes?, error i16?"
)
"""What a controller of the time of ZooKeeper tells a broker in the frame of this number (LeaderAndIsr,
StopReplica, UpdateMetadata), and the answer. First one row of partition -1, for the frame as a whole: of a
request `controller`, `controller_epoch`, and the `broker_epoch` that the controller knows (null before Kafka
2.2); of an answer its `error`. Then one row a partition: of LeaderAndIsr and UpdateMetadata `leader`,
`leader_epoch` and `isr`, of an answer `error`. Empty where metadata are KRaft's."""

GAPS: Final = _table(
    "at_ns i64, connection i64, client i32, client_port i32, server i32, server_port i32, why str"
)
"""What `frames` may lack from this time on: frames of this connection, or of ALL."""

METADATA_LOG: Final = TopicPartition("__cluster_metadata", 0)
"""The metadata log, in tables of partitions."""
CLIENT: Final = -1
"""Stands for who is not a node."""
ALL: Final = -1
"""Stands for all connections."""
PRODUCE, FETCH, END_TXN, WRITE_TXN_MARKERS = 0, 1, 26, 27
"""Keys of the APIs whose frames have rows in `frame_parts`."""
LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA = 4, 5, 6
"""Keys of the APIs whose frames have rows in `orders`."""

PER_PARTITION: Final = {
    "batches": BATCHES,
    "control": CONTROL,
    "transaction_log": TRANSACTION_LOG,
    "offset_log": OFFSET_LOG,
    "group_log": GROUP_LOG,
    "share_log": SHARE_LOG,
    "epochs": EPOCHS,
    "ends": ENDS,
    "producers": PRODUCERS,
    "aborted": ABORTED,
    "partitions": PARTITIONS,
}
"""Tables with the columns `take`, `node`, `topic` and `partition` before their own."""
LATER: Final = frozenset({"share_log", "unread_losses", "znodes", "orders"})
"""Tables that runs of earlier versions do not have: there they are empty."""
PER_NODE: Final = {
    "metadata": METADATA,
    "znodes": ZNODES,
    "nodes": NODES,
    "damage": DAMAGE,
    "takes": TAKES,
    "unread_losses": UNREAD_LOSSES,
}
"""Tables with the columns `take` and `node` before their own."""
PER_RUN: Final = {"frames": FRAMES, "frame_parts": FRAME_PARTS, "orders": ORDERS, "gaps": GAPS}
"""Tables with no columns before their own; runs without `capture` have none, others have all."""


Row: TypeAlias = tuple["Cell", ...]
"""Values in the order of a schema's columns."""


_OF_PARTS: Final = FRAME_PARTS.names[4:]
_OF_ORDERS: Final = ORDERS.names[1:]


def frame_part(frame: int, topic: tuple[str | None, str | None], partition: int, **said: Cell) -> Row:
    """A row of FRAME_PARTS. topic: its name and its id, either None. said: by column; what is not said is
    null."""
    return (frame, *topic, partition, *(said.get(name) for name in _OF_PARTS))


def order(frame: int, partition: int = -1, **said: Cell) -> Row:
    """A row of ORDERS. partition: -1 = the frame as a whole. said: by column; what is not said is null."""
    said["partition"] = partition
    return (frame, *(said.get(name) for name in _OF_ORDERS))


def table(schema: pa.Schema, rows: Sequence[Row]) -> pa.Table:
    """A table of these rows."""
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


def schema(name: str) -> pa.Schema:
    """Of a table, with the columns that say where a row was found."""
    if name in PER_RUN:
        return PER_RUN[name]
    where = [pa.field("take", pa.int32(), nullable=False), pa.field("node", pa.int32(), nullable=False)]
    if name in PER_NODE:
        return pa.schema([*where, *PER_NODE[name]])
    where.append(pa.field("topic", pa.dictionary(pa.int32(), pa.string()), nullable=False))
    where.append(pa.field("partition", pa.int32(), nullable=False))
    return pa.schema([*where, *PER_PARTITION[name]])


def placed(name: str, rows: pa.Table, take: int, node: int, topic: str = "", partition: int = -1) -> pa.Table:
    """Rows of a table of a node, or of one of its partitions, with the columns that say where they were
    found."""
    where = [pa.scalar(take, pa.int32()), pa.scalar(node, pa.int32())]
    if name in PER_PARTITION:
        where += [pa.scalar(topic), pa.scalar(partition, pa.int32())]
    columns = [pa.repeat(value, rows.num_rows) for value in where]
    if name in PER_PARTITION:
        columns[2] = columns[2].dictionary_encode()
    return pa.table([*columns, *rows.columns], schema=schema(name))
