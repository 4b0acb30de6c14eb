"""The transaction coordinators' log of a run (`cluster/transaction_log.parquet`): one row a record."""

from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from core.errors import HistoryError
from core.transaction_log import TransactionLog, TransactionRecord

SCHEMA: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("ms", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("transactional_id", pa.string()),
        ("state", pa.string()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int16()),
        ("timeout_ms", pa.int32()),
        ("partitions", pa.list_(pa.string())),
        ("started_ms", pa.int64()),
        ("updated_ms", pa.int64()),
    ]
)
_WHOLE: Final = b"whole"
_MISSING: Final = b"missing"


def write(path: Path, log: TransactionLog) -> None:
    """Raises: OSError."""
    rows = [msgspec.structs.asdict(record) for record in log.records]
    about = {_WHOLE: msgspec.json.encode(sorted(log.whole)), _MISSING: log.missing.encode()}
    table = pa.Table.from_pylist(rows, SCHEMA.with_metadata(about))
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression="zstd")


def read(path: Path) -> TransactionLog:
    """What was written; nothing where there is no such file.

    Raises: HistoryError.
    """
    if not path.exists():
        return TransactionLog(missing="it was not recorded")
    try:
        table = pq.ParquetFile(path).read()
        if not table.schema.equals(SCHEMA):
            raise HistoryError(f"{path}: its columns are not those of the transaction log")
        about = table.schema.metadata or {}
        return TransactionLog(
            records=tuple(msgspec.convert(row, TransactionRecord) for row in table.to_pylist()),
            whole=msgspec.json.decode(about[_WHOLE], type=frozenset[int]),
            missing=about[_MISSING].decode(),
        )
    except (OSError, KeyError, pa.ArrowException, msgspec.MsgspecError) as error:
        raise HistoryError(f"{path}: {error}") from None
