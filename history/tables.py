"""The history of a run: schemas of the sealed tables, and the names their codes stand for.

Two stages. During a run every process writes a *journal* (`history.journal`, one JSON line an
event, readable after a crash). *Sealing* (`history.seal`) turns the journals into these tables once:
integers only, no nulls, clustered by topic-partition, so that a check is one vectorised kernel per
partition (the docstring of `history`).

Conventions. -1 = none or unknown. Times: ns of CLOCK_MONOTONIC of one host. `op` = dense rank by
completion time; ops without completion come last and have `complete_ns` = OPEN. `tp` = row of `tps`.
`outcome`, `phase`, `isolation`, `kind` and `end` are the integer values of the enums of `core.op`.
`f`, `error`, `group`, `txn_id` are positions in the lists of `names.json`.
"""

from typing import Any, Final

import pyarrow as pa

TableRow = dict[str, Any]
"""A row of a table, by column."""

OPEN: Final = 2**63 - 1
"""`complete_ns` of an op that never completed."""
NO_PRODUCER: Final = -2
"""`acks` of a process that does not produce."""
GONE: Final = 2**62 - 1
"""`start` of the log of a topic that was deleted: behind all records (`core.op.GONE_MARK`)."""


def _table(spec: str) -> pa.Schema:
    """Schema from `name kind, name kind, …` (kept as text so that it reads as a table)."""
    kinds = {
        "i8": pa.int8(), "i16": pa.int16(), "i32": pa.int32(), "i64": pa.int64(),
        "str": pa.string(), "bool": pa.bool_(), "bytes": pa.binary(),
    }  # fmt: skip
    pairs = (part.split() for part in spec.split(","))
    return pa.schema([pa.field(name, kinds[kind], nullable=False) for name, kind in pairs])


TABLES: Final[dict[str, pa.Schema]] = {
    # every topic-partition of the run
    "tps": _table("tp i32, topic str, partition i32"),
    # one row a process; `acks` NO_PRODUCER or 1, 0, -1; `isolation` -1 = no consumer; `auto_commit` 1 = its
    # client commits offsets automatically; `retries`, `in_flight`, `socket_timeout_ms` = the effective
    # settings of its producer (`core.client_settings`)
    "processes": _table(
        "process i32, slot i16, group i16, isolation i8, txn_id i32, acks i8, idempotent i8,"
        "auto_commit i8, retries i32, in_flight i32, socket_timeout_ms i32, start_ns i64, end_ns i64, end i8"
    ),
    # one row an op; `deliberate` 1 = the application meant to abort
    "ops": _table(
        "op i32, process i32, f i8, outcome i8, phase i8, txn i8, deliberate i8, error i16,"
        "n_sends i32, n_reads i32, invoke_ns i64, complete_ns i64"
    ),
    # one row a record that an op set out to send. `outcome` = of the record (OK = acknowledged),
    # `op_outcome` = of its op; `place` = acknowledged offset, else lowest offset at which the value
    # was read, else -1; `pos` = position among all records of the op, sends and reads together;
    # `src_tp`, `src_offset` = the input record that it was made from (copier), else -1
    "sends": _table(
        "tp i32, op i32, process i32, pos i32, value i64, offset i64, place i64, outcome i8,"
        "op_outcome i8, txn i8, op_sends i32, invoke_ns i64, ack_ns i64, src_tp i32, src_offset i64"
    ),
    # one row a record that a poll returned and that is one of this run's
    # `assignment` = counts up, per process and partition, with each event in `assignments`
    "reads": _table(
        "tp i32, op i32, process i32, pos i32, isolation i8, op_outcome i8, phase i8,"
        "assignment i32, leader_epoch i32, offset i64, value i64,"
        "invoke_ns i64, complete_ns i64"
    ),
    # what the final reads had to reach (`end`: LSO or HW as listed) and what they reached;
    # no rows: the history had no final reads (portable histories)
    "bounds": _table("tp i32, isolation i8, start i64, end i64, read_to i64, complete bool"),
    # committed consumer offsets (`offset` = next to read); `kind` of CommitKind
    "commits": _table(
        "group i16, tp i32, op i32, process i32, generation i32, offset i64, kind i8, outcome i8,"
        "invoke_ns i64, complete_ns i64"
    ),
    # one row a record that a share group gave to a member, at `since_ns` or later; `delivery_count` = how
    # often it was delivered, by the broker
    "deliveries": _table(
        "group i16, tp i32, op i32, process i32, offset i64, value i64, delivery_count i16,"
        "since_ns i64, invoke_ns i64, complete_ns i64"
    ),
    # one row a record that a member of a share group set out to acknowledge; `kind` of Acknowledgement,
    # `complete_ns` = OPEN where no answer is on record
    "acknowledgements": _table(
        "group i16, tp i32, op i32, process i32, offset i64, kind i8, outcome i8,"
        "invoke_ns i64, complete_ns i64"
    ),
    # changes of what a process reads; `kind` of AssignmentKind
    "assignments": _table("process i32, tp i32, generation i32, op i32, assignment i32, kind i8, ns i64"),
    # records that a poll returned and that are not this partition's own: `reason` of Foreign; in the place of
    # the payload of an uncommitted one: the value of the record that it was made of, in decimal
    "foreign": _table("tp i32, op i32, offset i64, reason i8, payload bytes"),
    # changes of the producer identity as the client's statistics tell them (side evidence)
    "producers": _table("process i32, producer_id i64, producer_epoch i32, epoch_cnt i32, ns i64"),
}

CLUSTERED: Final = ("sends", "reads")
"""Tables stored as one file a *unit*: `history/<table>/<unit>.parquet`; a unit holds one or more whole
topic-partitions, and the files of one unit hold the same ones. The other tables are one file each:
`history/<table>.parquet`. Units are listed in `names.json` ("units": name, tps, sends, reads), largest
first. All files: zstd; DELTA_BINARY_PACKED on int32 and int64 columns but `value`.
"""

ORDER: Final = {"sends": ("tp", "op", "pos"), "reads": ("tp", "process", "op", "pos")}
"""What the rows of clustered tables are sorted by."""

FOREIGN_REASONS: Final = ("unreadable", "corrupt", "misdirected", "other-run", "uncommitted")
"""Meaning of `foreign.reason`: not a payload of ours; checksum wrong; meant for another
topic-partition; of another run; made by an application of a record that its committed input does not have."""

NAMES: Final = ("f", "error", "group", "txn_id")
"""Lists of `names.json` that codes point into; beside them stand `format` (store.FORMAT), `run`,
`units`, `start_ns` (monotonic) and `start_wall` (ISO 8601, UTC)."""
