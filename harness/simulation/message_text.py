"""What a message of the model says, in few words, by what it is about (see `history.trace.TracedMessage`)."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from model.errors import KafkaError
from model.log.unified_log import NO_PRODUCER, NO_SEQUENCE, RecordBatch
from model.metadata.image import PartitionRecord
from model.protocol import controller_messages as k
from model.protocol import coordinator_messages as c
from model.protocol import messages as m
from model.protocol.messages import Partition, PartitionState
from model.protocol.requests import ErrorResponse

Parts = dict[str, str]
Told = tuple[Parts, str]
NONE: Parts = {}
TEXT_MOST = 160


def partition(tp: Partition) -> str:
    """`topic-number`."""
    return f"{tp[0]}-{tp[1]}"


class Summaries:
    """See the module. Messages have to come in the order in which they were sent: of fetches and metadata
    the text shows only what is new between their two ends."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, str, type], dict[Any, Any]] = {}
        self._tellers: dict[type, Callable[[Any, Any], Told]] = {
            m.Produce: _produce,
            m.ProduceResponse: _produced,
            m.OffsetForLeaderEpoch: _epochs,
            m.OffsetForLeaderEpochResponse: _epoch_ends,
            m.ListOffsets: lambda r, _: (
                dict.fromkeys(map(partition, r.parts), "begin" if r.earliest else "end"),
                "",
            ),
            m.ListOffsetsResponse: _offsets,
            m.CreateTopics: lambda r, _: (NONE, f"{r.topic}, {r.partitions} partitions"),
            m.ElectLeaders: lambda r, _: (
                dict.fromkeys(map(partition, r.partitions), "unclean" if r.unclean else "preferred"),
                "",
            ),
            m.ElectLeadersResponse: lambda a, _: (
                {partition(tp): _outcome(error) for tp, error in a.parts.items()},
                _outcome(a.error),
            ),
            m.AlterPartitionReassignments: lambda r, _: (
                {partition(tp): f"to {','.join(map(str, to))}" for tp, to in r.replicas.items()},
                "",
            ),
            c.FindCoordinator: lambda r, _: ({_key(r): "who coordinates it"}, ""),
            c.FindCoordinatorResponse: lambda a, r: ({_key(r): f"node {a.node}{_error(a.error)}"}, ""),
            c.InitProducerId: lambda r, _: ({_txn(r): _producer(r)}, ""),
            c.ProducerIdResponse: lambda a, r: ({_txn(r): _producer(a) + _error(a.error)}, ""),
            c.AddPartitionsToTxn: _add,
            c.AddPartitionsToTxnResponse: _added,
            c.AddOffsetsToTxn: lambda r, _: (
                {_txn(r): f"{_producer(r)}, group {r.group}", f"group:{r.group}": "joins a transaction"},
                "",
            ),
            c.EndTxn: lambda r, _: ({_txn(r): f"{'commit' if r.commit else 'abort'}, {_producer(r)}"}, ""),
            c.WriteTxnMarkers: _markers,
            c.WriteTxnMarkersResponse: _marked,
            c.TxnOffsetCommit: lambda r, _: _commit(r, f"{_producer(r)}, ", {_txn(r): _producer(r)}),
            c.OffsetCommit: lambda r, _: _commit(r, f"generation {r.generation}, ", {}),
            c.OffsetFetchResponse: _committed,
            c.JoinGroup: _group,
            c.JoinGroupResponse: lambda a, r: _grouped(a, r, f"generation {a.generation}"),
            c.SyncGroup: _group,
            c.SyncGroupResponse: lambda a, r: _grouped(a, r, _listed(map(partition, a.partitions))),
            c.Heartbeat: _group,
            c.LeaveGroup: _group,
            c.OffsetFetch: _group,
            ErrorResponse: _plain_answer,
            k.AlterPartition: _alter,
            k.AlterPartitionResponse: _altered,
            k.QuorumFetchResponse: _quorum,
        }

    def of(self, sender: str, receiver: str, content: Any, asked: Any) -> Told:
        """What a message says: by subject, and otherwise. asked: the request that it answers, or itself."""
        kind = type(content)
        if kind is m.Fetch:
            news = self._news(sender, receiver, kind, content.parts)
            return {partition(tp): f"from {p.offset}{_epoch(p)}" for tp, p in news.items()}, ""
        if kind is m.FetchResponse:
            state = {
                tp: (f.error, f.high_watermark, asked.committed and f.stable)
                for tp, f in content.parts.items()
            }
            news = self._news(sender, receiver, kind, state)
            fresh = {tp: f for tp, f in content.parts.items() if tp in news or f.batches}
            return {partition(tp): _fetched(f, asked.committed) for tp, f in fresh.items()}, ""
        if kind is m.MetadataResponse:
            news = self._news(sender, receiver, kind, content.partitions)
            return {partition(tp): _state(state) for tp, state in news.items()}, ""
        teller = self._tellers.get(kind)
        return teller(content, asked) if teller is not None else (NONE, _plain(content))

    def _news(self, sender: str, receiver: str, kind: type, parts: Mapping[Any, Any]) -> dict[Any, Any]:
        before = self._before.setdefault((sender, receiver, kind), {})
        news = {tp: part for tp, part in parts.items() if before.get(tp) != part}
        before.update(news)
        return news


# ---- small words


def _error(error: KafkaError) -> str:
    return "" if error is KafkaError.NONE else f" {error.name}"


def _outcome(error: KafkaError) -> str:
    return "done" if error is KafkaError.NONE else error.name


def _epoch(part: m.FetchPartition) -> str:
    return f", epoch {part.leader_epoch}" if part.leader_epoch >= 0 else ""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"


def _txn(request: Any) -> str:
    return f"txn:{request.transactional_id}"


def _key(request: c.FindCoordinator) -> str:
    return f"{'group' if request.group else 'txn'}:{request.key}"


def _producer(holder: Any) -> str:
    if holder.producer_id < 0:
        return "new producer id" if isinstance(holder, c.InitProducerId) else "no producer id"
    return f"producer {holder.producer_id}/{holder.producer_epoch}"


def _state(state: PartitionState) -> str:
    isr = ",".join(map(str, state.isr))
    who = f"leader {state.leader}" if state.leader >= 0 else "no leader"
    epoch = f", epoch {state.leader_epoch}" if state.leader_epoch >= 0 else ""
    return f"{who}{epoch}, ISR {isr or 'empty'}"


def _records(batch: RecordBatch) -> str:
    if batch.control:
        return f"{batch.control} marker of producer {batch.producer_id}/{batch.producer_epoch}"
    many = f"{batch.size} record{'s' * (batch.size != 1)}"
    if batch.producer_id == NO_PRODUCER or batch.sequence == NO_SEQUENCE:
        return many
    return f"{many}, producer {batch.producer_id}/{batch.producer_epoch}, sequence {batch.sequence}"


def _plain(content: Any) -> str:
    """Short fields of a message for which there is no better text."""
    fields = msgspec.structs.asdict(content) if isinstance(content, msgspec.Struct) else {}
    told = [_field(name, value) for name, value in fields.items()]
    return ", ".join(filter(None, told))[:TEXT_MOST]


def _field(name: str, value: Any) -> str:
    words = name.replace("_", " ")
    match value:
        case KafkaError():
            return _error(value).strip()
        case bool():
            return words if value else f"not {words}"
        case int() | str() if value != "":
            return f"{words} {value}"
    return ""


# ---- data


def _produce(request: m.Produce, _: Any) -> Told:
    parts = {partition(tp): _records(batch) for tp, batch in request.batches.items()}
    if request.transactional_id is not None:
        parts[_txn(request)] = f"records to {_listed(parts)}"
    return parts, f"acks {'all' if request.acks == -1 else request.acks}"


def _produced(answer: m.ProduceResponse, asked: m.Produce) -> Told:
    parts = {}
    for tp, (error, base) in answer.results.items():
        batch = asked.batches.get(tp)
        last = base + (batch.size if batch else 1) - 1
        at = f"at offset{f' {base}' if last == base else f's {base}–{last}'}" if base >= 0 else ""
        parts[partition(tp)] = f"{_outcome(error)} {at}".strip()
    if asked.transactional_id is not None:
        parts[_txn(asked)] = f"records to {_listed(parts)}"
    return parts, ""


def _fetched(part: m.FetchedPartition, committed: bool) -> str:
    """committed: it was asked for at read_committed; only then the leader tells its last stable offset."""
    if part.error is not KafkaError.NONE:
        return part.error.name
    told = [f"HW {part.high_watermark}"]
    if committed and part.stable != part.high_watermark:
        told.append(f"LSO {part.stable}")
    if part.batches:
        base, last = part.batches[0].base, part.batches[-1].last
        told.insert(0, f"offset {base}" if base == last else f"offsets {base}–{last}")
    return ", ".join(told)


def _epochs(request: m.OffsetForLeaderEpoch, _: Any) -> Told:
    parts = {partition(tp): f"where epoch {of} ends" for tp, (_, of) in request.parts.items()}
    return parts, ""


def _epoch_ends(answer: m.OffsetForLeaderEpochResponse, _: Any) -> Told:
    return {
        partition(tp): (f"epoch {epoch} ends at {end}" if error is KafkaError.NONE else error.name)
        for tp, (error, epoch, end) in answer.parts.items()
    }, ""


def _offsets(answer: m.ListOffsetsResponse, _: Any) -> Told:
    return {
        partition(tp): f"offset {offset}{_error(error)}" for tp, (error, offset) in answer.parts.items()
    }, ""


# ---- transactions


def _add(request: c.AddPartitionsToTxn, _: Any) -> Told:
    whose = _producer(request)
    does = "verify" if request.verify else "add"
    parts = {partition(tp): f"{does}, {whose}" for tp in request.partitions}
    return {_txn(request): f"{does} {_listed(parts)}, {whose}", **parts}, ""


def _added(answer: c.AddPartitionsToTxnResponse, asked: c.AddPartitionsToTxn) -> Told:
    parts = {partition(tp): _outcome(answer.error) for tp in asked.partitions}
    parts |= {partition(tp): _outcome(error) for tp, error in answer.parts.items()}
    return {_txn(asked): _outcome(answer.error), **parts}, ""


def _markers(request: c.WriteTxnMarkers, _: Any) -> Told:
    parts: dict[str, list[str]] = {}
    for marker in request.markers:
        what = f"{'commit' if marker.commit else 'abort'} {_producer(marker)}"
        for tp in marker.partitions:
            parts.setdefault(partition(tp), []).append(what)
    return {name: "; ".join(told) for name, told in parts.items()}, ""


def _marked(answer: c.WriteTxnMarkersResponse, _: Any) -> Told:
    parts: dict[str, list[str]] = {}
    for (producer, tp), error in answer.results.items():
        parts.setdefault(partition(tp), []).append(f"producer {producer} {_outcome(error)}")
    return {name: "; ".join(told) for name, told in parts.items()}, ""


def _commit(request: Any, before: str, parts: Parts) -> Told:
    offsets = {partition(tp): f"{before}offset {at}" for tp, at in request.offsets.items()}
    told = _listed(f"{partition(tp)} {at}" for tp, at in request.offsets.items())
    return {f"group:{request.group}": f"{before}{told}", **parts, **offsets}, ""


# ---- groups


def _group(request: Any, _: Any) -> Told:
    told = [f"member {request.member or 'new'}"] if hasattr(request, "member") else []
    if getattr(request, "generation", -1) >= 0:
        told.append(f"generation {request.generation}")
    if isinstance(request, c.OffsetFetch):
        told = ["committed offsets"]
    return {f"group:{request.group}": ", ".join(told)}, ""


def _grouped(answer: Any, asked: Any, told: str) -> Told:
    error = answer.error
    return {f"group:{asked.group}": told if error is KafkaError.NONE else error.name}, ""


def _committed(answer: c.OffsetFetchResponse, asked: c.OffsetFetch) -> Told:
    parts = {partition(tp): f"committed {at}" for tp, at in answer.offsets.items()}
    told = _listed(f"{partition(tp)} {at}" for tp, at in answer.offsets.items())
    whole = told if answer.error is KafkaError.NONE else answer.error.name
    return {f"group:{asked.group}": whole, **parts}, ""


def _plain_answer(answer: ErrorResponse, asked: Any) -> Told:
    """An error code only: of whatever the request was about."""
    told = _outcome(answer.error)
    if hasattr(asked, "transactional_id"):
        return {_txn(asked): told}, ""
    if hasattr(asked, "group"):
        return {f"group:{asked.group}": told}, ""
    return NONE, told


# ---- metadata


def _alter(request: k.AlterPartition, _: Any) -> Told:
    return {
        partition(tp): f"epoch {wanted[0]}, ISR {','.join(map(str, wanted[2]))} wanted"
        for tp, wanted in request.parts.items()
    }, f"broker {request.broker}"


def _altered(answer: k.AlterPartitionResponse, _: Any) -> Told:
    parts = {}
    for tp, (error, state) in answer.parts.items():
        parts[partition(tp)] = _state(state) if state is not None else _outcome(error)
    return parts, _outcome(answer.error)


def _quorum(answer: k.QuorumFetchResponse, _: Any) -> Told:
    parts = {
        partition(change.partition): _state(change.state)
        for _, change in answer.entries
        if isinstance(change, PartitionRecord)
    }
    many = len(answer.entries)
    records = f"{many} record{'s' * (many != 1)} from {answer.base}" if many else "no records"
    cut = f", cut back to {answer.cut}" if answer.cut >= 0 else ""
    return parts, f"epoch {answer.epoch}, {records}, HW {answer.high_watermark}{cut}"
