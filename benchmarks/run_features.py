"""What a simulated run reached, as features (`benchmarks.ways_to_draw`).

    features(done)      # {"EndTxn NOT_COORDINATOR of a client, kill:one", …}

A feature is a text that names mechanisms of Kafka, and never a planted bug. There are those of

answers       kind of the request, error of the answer, whether it came late, or to a client that had given
              up, and the faults in force then; requests that got no answer
leaders       a broker begins to coordinate: topic, in-sync replicas, whether records were in flight
transactions  a state follows another one in the transaction log: whether another coordinator wrote it, and
              whether producer id or epoch changed
groups        a generation or an offset is written, after one of another coordinator or not
share groups  the same of the stored states of share partitions
records       a batch or marker of a producer: whether leader epoch or producer epoch changed before it

What happens often has further features, one for each power of four that its number reaches. All of it is
read from what the finished run has kept: its events, the messages, the logs that brokers wrote. It is a
function of these alone: the same run has the same features.
"""

import contextlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from unittest import mock

from core.config import RunConfig
from harness.modelled.shared.base_time import BASE_NS
from harness.modelled.virtual import run
from harness.modelled.virtual.cluster import SimulatedCluster
from harness.modelled.virtual.network import CLIENTS, NEVER, Message
from harness.modelled.virtual.run import Simulated
from harness.modelled.virtual.scheduler import Scheduler
from history import events as ev
from model.coordinator.classic_group import GroupRecord
from model.coordinator.group_metadata_manager import OffsetRecord
from model.coordinator.transaction_metadata import TransactionRecord
from model.errors import KafkaError
from model.log.unified_log import NO_PRODUCER, RecordBatch, UnifiedLog
from model.protocol.messages import Partition
from model.replication.node import LeaderStarts
from model.share.share_coordinator import ShareSnapshot, ShareUpdate

Features = frozenset[str]
LATE_US: Final = 1_000_000
"""After which an answer is late, and a request that arrives too."""
HELD: Final = ("Fetch", "QuorumFetch", "ShareFetch")
"""Requests that wait at the server by their nature."""
FEWER: Final = 2
"""Bits of a count that make no difference: there is a feature for each power of four."""


@contextlib.contextmanager
def keeping_messages() -> Iterator[None]:
    """Simulated clusters keep their messages in this block; nothing else of a run changes."""

    def keeping(config: RunConfig, scheduler: Scheduler) -> SimulatedCluster:
        made = SimulatedCluster(config, scheduler)
        made.network.messages = []
        return made

    with mock.patch.object(run, "SimulatedCluster", keeping):
        yield


def features(done: Simulated) -> Features:
    """See the module. done: was made in a block that keeps messages."""
    counts = Counter[str]()
    messages = done.cluster.network.messages
    assert messages is not None
    counts.update(_answers(messages, Faulty(done.events)))
    for node in done.cluster.sim.values():
        counts.update(map(_line, node.durable.server_log))
    for tp, log in _longest(done).items():
        counts.update(_decisions(log) if tp[0].startswith("__") else _records(log))
    return frozenset(text for name, count in counts.items() for text in _graded(name, count))


def _graded(name: str, count: int) -> Iterator[str]:
    yield name
    for power in range(FEWER, count.bit_length(), FEWER):
        yield f"{name} ×{2**power}"


class Faulty:
    """Which faults were in force, at any time of a run."""

    def __init__(self, events: Sequence[ev.Event]) -> None:
        held: dict[int, str] = {}
        self._from = [-1]
        self._names = [""]
        for event in events:
            if isinstance(event, ev.FaultStarted):
                held[event.fault] = event.name.partition("@")[0]
            elif not isinstance(event, ev.FaultHealed) or held.pop(event.fault, None) is None:
                continue
            begin = event.begin_ns if isinstance(event, ev.FaultStarted) else event.ns
            self._from.append(max(self._from[-1], (begin - BASE_NS) // 1000))
            self._names.append("+".join(sorted(set(held.values()))))

    def at(self, time_us: int) -> str:
        """Families and kinds of the faults in force."""
        return self._names[bisect_right(self._from, time_us) - 1]


def _answers(messages: Sequence[Message], faulty: Faulty) -> Iterator[str]:
    silent = {id(message): message for message in messages if message.request is None}
    for message in messages:
        asked = message.request
        if asked is None:
            continue
        silent.pop(id(asked), None)
        kind = type(asked.content).__name__
        words = [kind, *errors(message.content)]
        if asked.arrived - asked.sent > LATE_US:
            words.append("late")
        elif message.sent - asked.arrived > LATE_US and kind not in HELD:
            words.append("slow")
        if message.arrived == NEVER:
            words.append("unheard")
        if asked.connection.client == CLIENTS:
            words.append("of a client")
        yield _under(" ".join(words), faulty.at(message.sent))
    for asked in silent.values():
        lost = "unheard" if asked.arrived == NEVER else "unanswered"
        yield _under(f"{type(asked.content).__name__} {lost}", faulty.at(asked.sent))


def _under(name: str, faults: str) -> str:
    return f"{name}, {faults}" if faults else name


def errors(answer: Any) -> list[str]:
    """The errors in an answer, of all and of its parts, by name."""
    found = {getattr(answer, "error", KafkaError.NONE)}
    for field in answer.__struct_fields__:
        parts = getattr(answer, field)
        if isinstance(parts, Mapping):
            for part in parts.values():
                if isinstance(part, KafkaError):
                    found.add(part)
                elif isinstance(part, tuple) and part and isinstance(part[0], KafkaError):
                    found.add(part[0])
                else:
                    found.add(getattr(part, "error", KafkaError.NONE))
    return sorted(error.name for error in found if error is not KafkaError.NONE)


def _line(line: object) -> str:
    """Of a node's server log."""
    if not isinstance(line, LeaderStarts):
        return type(line).__name__
    flying = ", records in flight" if line.end > line.high_watermark else ""
    return f"leads {line.partition[0]}, {len(line.state.isr)} in sync, {len(line.state.elr)} eligible{flying}"


def _longest(done: Simulated) -> dict[Partition, UnifiedLog]:
    """Of each partition the copy with the most records."""
    found: dict[Partition, UnifiedLog] = {}
    for node in done.cluster.sim.values():
        for tp, log in node.durable.logs.items():
            if tp not in found or log.end > found[tp].end:
                found[tp] = log
    return found


def _decisions(log: UnifiedLog) -> Iterator[str]:
    """Of a coordinator's log."""
    before: dict[object, tuple[Any, int]] = {}
    for batch in log.batches:
        for record in batch.records:
            subject, told = _subject(record)
            if not subject:
                continue
            last, epoch = before.get(subject, (None, batch.epoch))
            by = ", another coordinator" if epoch != batch.epoch else ""
            yield f"{told(last)}{by}"
            before[subject] = record, batch.epoch


def _subject(record: Any) -> tuple[object, Any]:
    if isinstance(record, TransactionRecord):
        return record.transactional_id, lambda last: _transaction(record, last)
    if isinstance(record, GroupRecord):
        return record.group, lambda last: f"group of {len(record.members)}, {_members(last)} before"
    if isinstance(record, OffsetRecord):
        return (record.group, record.partition), lambda last: _offset(record, last)
    if isinstance(record, ShareSnapshot | ShareUpdate):
        return (record.group, record.partition), lambda last: _share(record, last)
    return None, None


def _transaction(now: TransactionRecord, last: TransactionRecord | None) -> str:
    if last is None:
        return f"transaction {now.state}"
    changed = ", another producer id" if now.producer_id != last.producer_id else ""
    epoch = min(max(now.epoch - last.epoch, -1), 2)
    return f"transaction {last.state} → {now.state}, epoch {epoch:+d}{changed}"


def _members(last: GroupRecord | None) -> int:
    return len(last.members) if last is not None else 0


def _offset(now: OffsetRecord, last: OffsetRecord | None) -> str:
    before = last.offset if last is not None else 0
    way = "back" if now.offset < before else "again" if now.offset == before else "on"
    return f"offset {way}"


def _share(now: ShareSnapshot | ShareUpdate, last: ShareSnapshot | ShareUpdate | None) -> str:
    states = "".join(sorted({str(int(batch.state)) for batch in now.batches}))
    most = max((batch.times for batch in now.batches), default=0)
    moved = ", start moved" if last is not None and now.start > last.start else ""
    return f"{type(now).__name__}, states {states}, delivered {most} times{moved}"


def _records(log: UnifiedLog) -> Iterator[str]:
    """Of a log of the workload."""
    known: dict[int, RecordBatch] = {}
    epoch = -1
    for batch in log.batches:
        last = known.get(batch.producer_id)
        words = [batch.control or ("transactional" if batch.transactional else "batch")]
        if batch.epoch != epoch >= 0:
            words.append("first of its leader")
        if last is not None and batch.producer_id != NO_PRODUCER:
            words += ["after another leader"] if last.epoch != batch.epoch else []
            words += ["after another epoch"] if last.producer_epoch != batch.producer_epoch else []
            words += ["after its marker"] if last.control and batch.control else []
        yield f"record {' '.join(words)}"
        known[batch.producer_id] = batch
        epoch = batch.epoch
