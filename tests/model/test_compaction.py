"""Compaction: what is superseded or aborted goes, what is open stays, and nobody reads anything else."""

import random

import pytest

from core.internal_topics import GROUP_TOPIC
from core.java_hash import java_hash
from model.coordinator.classic_group import GroupRecord
from model.coordinator.group_metadata_manager import CommittedOffsets, OffsetRecord
from model.coordinator.log_cleaner import group_key, transaction_key
from model.coordinator.transaction_metadata import TransactionState
from model.eras import ERAS
from model.errors import KafkaError
from model.log.log_cleaner import Cleaning, KeyedRecord, compact, record_key
from model.log.unified_log import ABORT, COMMIT, REMOVED, RecordBatch, UnifiedLog, alike
from model.protocol.coordinator_messages import AddOffsetsToTxn, OffsetCommit, OffsetFetch, TxnOffsetCommit
from tests.model.one_broker import OneBroker

P0, P1 = ("data", 0), ("data", 1)
NO_BUGS: frozenset[str] = frozenset()


def offset(at: int, tp: tuple[str, int] = P0, group: str = "g") -> OffsetRecord:
    return OffsetRecord(group, tp, at)


def transactional(producer: int, *records: OffsetRecord) -> RecordBatch:
    return RecordBatch(-1, -1, records, producer, 0, transactional=True)


def marker(producer: int, control: str) -> RecordBatch:
    return RecordBatch(-1, -1, (), producer, 0, control=control, coordinator_epoch=0)


def filled(*batches: RecordBatch) -> UnifiedLog:
    log = UnifiedLog(ERAS["4.2-tv1"])
    for batch in batches:
        log.append(batch, 0)
    return log


def left(log: UnifiedLog) -> list[tuple[int, int]]:
    return [(at, record.offset) for at, record in offset_records(log)]


def offset_records(log: UnifiedLog) -> list[tuple[int, OffsetRecord]]:
    found = [(at, record) for at, _, record in log.records() if isinstance(record, OffsetRecord)]
    assert len(found) == len(list(log.records()))
    return found


def test_the_newest_record_of_each_key_stays_at_its_offset() -> None:
    log = filled(
        RecordBatch(-1, -1, (offset(1), offset(1, P1))),
        RecordBatch(-1, -1, (offset(2),)),
        RecordBatch(-1, -1, (offset(9, group="h"), offset(3))),
    )
    assert compact(log, log.end, group_key) == 2
    assert left(log) == [(1, 1), (3, 9), (4, 3)]
    assert (log.end, log.batches[1].records) == (5, (REMOVED,))
    assert compact(log, log.end, group_key) == 0


def test_what_is_not_committed_supersedes_nothing_and_is_not_touched() -> None:
    log = filled(*(RecordBatch(-1, -1, (offset(n),)) for n in range(4)))
    assert compact(log, 2, group_key) == 1
    assert left(log) == [(1, 1), (2, 2), (3, 3)]


def test_an_open_transaction_keeps_everything_from_its_first_record_on() -> None:
    log = filled(
        RecordBatch(-1, -1, (offset(1),)),
        RecordBatch(-1, -1, (offset(2),)),
        transactional(7, offset(3)),
        RecordBatch(-1, -1, (offset(4),)),
    )
    assert compact(log, log.end, group_key) == 1
    assert left(log) == [(1, 2), (2, 3), (3, 4)]


def test_aborted_records_go_and_supersede_nothing() -> None:
    log = filled(
        RecordBatch(-1, -1, (offset(1),)),
        transactional(7, offset(2)),
        marker(7, ABORT),
        transactional(7, offset(3, P1)),
        marker(7, COMMIT),
    )
    assert compact(log, log.end, group_key) == 1
    assert left(log) == [(0, 1), (3, 3)]
    assert [batch.control for batch in log.batches if batch.control] == [ABORT, COMMIT]


def test_generations_of_a_group_are_one_key_apart_from_its_offsets() -> None:
    log = filled(
        RecordBatch(-1, -1, (GroupRecord("g", 1, "a", ()),)),
        RecordBatch(-1, -1, (offset(1),)),
        RecordBatch(-1, -1, (GroupRecord("g", 2, "a", ()),)),
    )
    compact(log, log.end, group_key)
    assert [record for _, _, record in log.records()] == [offset(1), GroupRecord("g", 2, "a", ())]


def random_log(rng: random.Random) -> UnifiedLog:
    log = UnifiedLog(ERAS["4.2-tv1"])
    open_: set[int] = set()
    for n in range(40):
        records = tuple(offset(n, rng.choice((P0, P1))) for _ in range(rng.randint(1, 3)))
        producer = rng.choice((0, 1, 2))
        if producer == 0:
            log.append(RecordBatch(-1, -1, records), 0)
        elif producer in open_ and rng.random() < 0.5:
            log.append(marker(producer, rng.choice((COMMIT, ABORT))), 0)
            open_.discard(producer)
        else:
            log.append(transactional(producer, *records), 0)
            open_.add(producer)
    return log


def replayed(log: UnifiedLog, until: int) -> tuple[object, object]:
    offsets = CommittedOffsets(NO_BUGS)
    offsets.apply(log, until)
    return offsets.committed, offsets.pending


@pytest.mark.parametrize("seed", range(30))
def test_whoever_loads_a_compacted_log_finds_the_same(seed: int) -> None:
    rng = random.Random(f"compaction {seed}")
    log = random_log(rng)
    high_watermark = rng.randint(log.end // 2, log.end)
    before = replayed(log, high_watermark), replayed(log, log.end)
    compact(log, high_watermark, group_key)
    assert (replayed(log, high_watermark), replayed(log, log.end)) == before


def test_brokers_compact_by_themselves_and_the_next_coordinator_finds_the_offsets() -> None:
    world = OneBroker(era=ERAS["4.2-tv1"], compaction_ms=1000)
    producer = world.init()
    pid, epoch = producer.producer_id, producer.producer_epoch
    for at in range(1, 6):
        world.ask(OffsetCommit("g", -1, "", {P0: at}))
    world.ask(AddOffsetsToTxn("t", pid, epoch, "g"))
    world.ask(TxnOffsetCommit("t", "g", pid, epoch, {P1: 8}))
    world.end(producer, commit=True)
    world.run(1000)
    log = world.replica((GROUP_TOPIC, java_hash("g") % 3)).log
    assert [(r.partition, r.offset) for _, r in offset_records(log)] == [(P0, 5), (P1, 8)]
    world.restart()
    world.until(lambda: world.finds("g", group=True) and world.finds("t", group=False))
    answer = world.ask(OffsetFetch("g", (P0, P1)))
    assert (answer.error, answer.offsets) == (KafkaError.NONE, {P0: 5, P1: 8})
    assert world.transaction().state is TransactionState.COMPLETE_COMMIT
    states = world.replica(("__transaction_state", java_hash("t") % 3)).log
    assert [transaction_key(r) for _, _, r in states.records()] == ["t"]


def test_without_the_setting_nothing_is_compacted() -> None:
    world = OneBroker()
    for at in range(3):
        world.ask(OffsetCommit("g", -1, "", {P0: at}))
    world.run(5000)
    log = world.replica((GROUP_TOPIC, java_hash("g") % 3)).log
    assert len(list(log.records())) == 3


# ---- topics of applications

KEPT_MS = 1000


def keyed(key: bytes, payload: str, *, tombstone: bool = False) -> KeyedRecord:
    return KeyedRecord(key, payload, tombstone)


def payloads(log: UnifiedLog) -> list[object]:
    return [record.payload for _, _, record in log.records() if isinstance(record, KeyedRecord)]


def at_times(*batches: tuple[int, tuple[KeyedRecord, ...]]) -> UnifiedLog:
    return filled(*(RecordBatch(-1, -1, records, appended_ms=ms) for ms, records in batches))


def test_the_active_segment_is_not_compacted() -> None:
    log = at_times((0, (keyed(b"a", "1"),)), (5, (keyed(b"a", "2"),)), (11, (keyed(b"a", "3"),)))
    assert compact(log, log.end, record_key, Cleaning(roll_ms=10)) == 1
    assert payloads(log) == ["2", "3"]


def test_too_little_that_is_new_is_not_compacted() -> None:
    log = at_times((0, (keyed(b"a", "1"), keyed(b"a", "2"))))
    assert compact(log, log.end, record_key, Cleaning(ratio=0.5)) == 1
    log.append(RecordBatch(-1, -1, (keyed(b"a", "3"),)), 0)
    assert compact(log, log.end, record_key, Cleaning(ratio=0.5)) == 0
    assert compact(log, log.end, record_key, Cleaning(ratio=0.3)) == 1


def test_a_tombstone_goes_when_its_time_has_ended_since_it_was_compacted_first() -> None:
    log = at_times((0, (keyed(b"a", "1"),)), (1, (keyed(b"a", "", tombstone=True),)))
    how = Cleaning(tombstones_ms=KEPT_MS)
    assert compact(log, log.end, record_key, how, now=5000) == 1
    assert payloads(log) == [""]
    assert compact(log, log.end, record_key, how, now=5000 + KEPT_MS - 1) == 0
    assert compact(log, log.end, record_key, how, now=5000 + KEPT_MS) == 1
    assert payloads(log) == []


@pytest.mark.parametrize(
    ("bug", "left_over"), [("oldest-of-a-key-stays", ["1"]), ("tombstones-delete-nothing", ["1"]), ("", [])]
)
def test_planted_bugs_of_the_cleaner(bug: str, left_over: list[str]) -> None:
    log = at_times((0, (keyed(b"a", "1"),)), (1, (keyed(b"a", "", tombstone=True),)))
    how = Cleaning(tombstones_ms=0, bugs=frozenset({bug}))
    for now in (1, 2):
        compact(log, log.end, record_key, how, now)
    assert payloads(log) == left_over


def test_copies_that_were_compacted_differently_are_alike_and_others_are_not() -> None:
    one, other = (RecordBatch(0, 0, records, 7, 0, 0) for records in (("a", REMOVED), (REMOVED, "b")))
    assert alike(one, other)
    assert not alike(one, RecordBatch(0, 0, ("c", "b"), 7, 0, 0))
    assert not alike(one, RecordBatch(0, 0, ("a",), 7, 0, 0))
    assert not alike(one, RecordBatch(0, 0, ("a", "b"), 7, 0, 1))
