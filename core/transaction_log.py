"""The contents of `__transaction_state`: what coordinators wrote down about transactional ids."""

import msgspec


class TransactionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One record.

    partition, offset: its place. ms: its time by the coordinator's clock, since 1970. leader_epoch: of the
    leader that appended it, -1 unknown. state: by Kafka's name (`Ongoing`, `PrepareCommit`, …), "" = a
    tombstone, which has nothing beside the id. partitions: of the transaction, as `topic-partition`.
    started_ms, updated_ms: of the transaction and of its newest change, -1 = none.
    """

    partition: int
    offset: int
    ms: int
    leader_epoch: int = -1
    transactional_id: str
    state: str = ""
    producer_id: int = -1
    producer_epoch: int = -1
    timeout_ms: int = -1
    partitions: tuple[str, ...] = ()
    started_ms: int = -1
    updated_ms: int = -1


class TransactionLog(msgspec.Struct, frozen=True, kw_only=True):
    """What was read of the log.

    records: by partition and offset. whole: the partitions that were read from offset 0 to their high
    watermark without a gap. missing: what was not, and why; "" = nothing.
    """

    records: tuple[TransactionRecord, ...] = ()
    whole: frozenset[int] = frozenset()
    missing: str = ""
