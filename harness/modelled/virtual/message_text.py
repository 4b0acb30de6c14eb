"""What a message of the model says, in few words, by what it is about (see `history.trace.TracedMessage`)."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from harness.modelled.virtual.share_text import SHARE_TELLERS, Said, Teller, group_of, outcome
from model.errors import KafkaError
from model.log.unified_log import NO_PRODUCER, NO_SEQUENCE, RecordBatch
from model.metadata.image import PartitionRecord
from model.protocol import controller_messages as k
from model.protocol import coordinator_messages as c
from model.protocol import messages as m
from model.protocol.messages import Partition, PartitionState
from model.protocol.requests import ErrorResponse

TEXT_MOST = 160


def partition(tp: Partition) -> str:
    """`topic-number`."""
    return f"{tp[0]}-{tp[1]}"


class Summaries:
    """See the module. Messages have to come in the order in which they were sent: of fetches and metadata
    the text shows only what is new between their two ends."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, str, type], dict[Any, Any]] = {}

    def of(self, sender: str, receiver: str, content: Any, asked: Any) -> tuple[dict[str, str], str]:
        """What a message says: by subject, and otherwise. asked: the request that it answers, or itself."""
        kind = type(content)
        if kind is m.Fetch:
            news = self._news(sender, receiver, kind, content.parts)
            said = {tp: f"from {p.offset}{_epoch(p)}" for tp, p in news.items()}
        elif kind is m.FetchResponse:
            state = {
                tp: (f.error, f.high_watermark, asked.committed and f.stable)
                for tp, f in content.parts.items()
            }
            news = self._news(sender, receiver, kind, state)
            fresh = {tp: f for tp, f in content.parts.items() if tp in news or f.batches}
            said = {tp: _fetched(f, asked.committed) for tp, f in fresh.items()}
        elif kind is m.MetadataResponse:
            news = self._news(sender, receiver, kind, content.partitions)
            said = {tp: _state(state) for tp, state in news.items()}
        else:
            said = _TELLERS.get(kind, _plain)(content, asked)
        text = said.pop("", "")
        return {s if isinstance(s, str) else partition(s): told for s, told in said.items()}, text

    def _news(self, sender: str, receiver: str, kind: type, parts: Mapping[Any, Any]) -> dict[Any, Any]:
        before = self._before.setdefault((sender, receiver, kind), {})
        news = {tp: part for tp, part in parts.items() if before.get(tp) != part}
        before.update(news)
        return news


# ---- small words


def _error(error: KafkaError) -> str:
    return "" if error is KafkaError.NONE else f" {error.name}"


def _epoch(part: m.FetchPartition) -> str:
    return f", epoch {part.leader_epoch}" if part.leader_epoch >= 0 else ""


def _listed(tps: Iterable[Partition]) -> str:
    return ", ".join(map(partition, tps)) or "nothing"


def _positions(offsets: Mapping[Partition, int]) -> str:
    return ", ".join(f"{partition(tp)} {at}" for tp, at in offsets.items()) or "nothing"


def _nodes(nodes: Iterable[int]) -> str:
    return ",".join(map(str, nodes))


def _txn(request: Any) -> str:
    return f"txn:{request.transactional_id}"


def _key(request: c.FindCoordinator) -> str:
    return f"{'group' if request.group else 'txn'}:{request.key}"


def _producer(holder: Any) -> str:
    if holder.producer_id < 0:
        return "new producer id" if isinstance(holder, c.InitProducerId) else "no producer id"
    return f"producer {holder.producer_id}/{holder.producer_epoch}"


def _state(state: PartitionState) -> str:
    who = f"leader {state.leader}" if state.leader >= 0 else "no leader"
    epoch = f", epoch {state.leader_epoch}" if state.leader_epoch >= 0 else ""
    return f"{who}{epoch}, ISR {_nodes(state.isr) or 'empty'}"


def _records(batch: RecordBatch) -> str:
    if batch.control:
        return f"{batch.control} marker of producer {batch.producer_id}/{batch.producer_epoch}"
    many = f"{batch.size} record{'s' * (batch.size != 1)}"
    if batch.producer_id == NO_PRODUCER or batch.sequence == NO_SEQUENCE:
        return many
    return f"{many}, producer {batch.producer_id}/{batch.producer_epoch}, sequence {batch.sequence}"


def _plain(content: object, _: object) -> Said:
    """Short fields of a message for which there is no better text."""
    fields = msgspec.structs.asdict(content) if isinstance(content, msgspec.Struct) else {}
    told = [_field(name, value) for name, value in fields.items()]
    return {"": ", ".join(filter(None, told))[:TEXT_MOST]}


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


def _produce(request: m.Produce, _: object) -> Said:
    said: Said = {tp: _records(batch) for tp, batch in request.batches.items()}
    if request.transactional_id is not None:
        said[_txn(request)] = f"records to {_listed(request.batches)}"
    return said | {"": f"acks {'all' if request.acks == -1 else request.acks}"}


def _produced(answer: m.ProduceResponse, asked: m.Produce) -> Said:
    said: Said = {}
    for tp, (error, base) in answer.results.items():
        batch = asked.batches.get(tp)
        last = base + (batch.size if batch else 1) - 1
        at = f"at offset{f' {base}' if last == base else f's {base}–{last}'}" if base >= 0 else ""
        said[tp] = f"{outcome(error)} {at}".strip()
    if asked.transactional_id is not None:
        said[_txn(asked)] = f"records to {_listed(answer.results)}"
    return said


def _fetched(part: m.FetchedPartition, committed: bool) -> str:
    """committed: it was asked for at read_committed; only then the leader tells its last stable offset."""
    told = [f"HW {part.high_watermark}"]
    if committed and part.stable != part.high_watermark:
        told.append(f"LSO {part.stable}")
    if part.batches:
        base, last = part.batches[0].base, part.batches[-1].last
        told.insert(0, f"offset {base}" if base == last else f"offsets {base}–{last}")
    return outcome(part.error, ", ".join(told))


# ---- transactions and groups


def _add(request: c.AddPartitionsToTxn, _: object) -> Said:
    whose = _producer(request)
    does = "verify" if request.verify else "add"
    said: Said = {_txn(request): f"{does} {_listed(request.partitions)}, {whose}"}
    return said | dict.fromkeys(request.partitions, f"{does}, {whose}")


def _added(answer: c.AddPartitionsToTxnResponse, asked: c.AddPartitionsToTxn) -> Said:
    said: Said = dict.fromkeys([_txn(asked), *asked.partitions], outcome(answer.error))
    return said | {tp: outcome(error) for tp, error in answer.parts.items()}


def _markers(request: c.WriteTxnMarkers, _: object) -> Said:
    said: Said = {}
    for marker in request.markers:
        what = f"{'commit' if marker.commit else 'abort'} {_producer(marker)}"
        for tp in marker.partitions:
            said[tp] = f"{said[tp]}; {what}" if tp in said else what
    return said


def _marked(answer: c.WriteTxnMarkersResponse, _: object) -> Said:
    said: Said = {}
    for (producer, tp), error in answer.results.items():
        what = f"producer {producer} {outcome(error)}"
        said[tp] = f"{said[tp]}; {what}" if tp in said else what
    return said


def _commit(request: Any, before: str, more: Said) -> Said:
    whole: Said = {group_of(request): f"{before}, {_positions(request.offsets)}"}
    return whole | more | {tp: f"{before}, offset {at}" for tp, at in request.offsets.items()}


def _committed(answer: c.OffsetFetchResponse, asked: c.OffsetFetch) -> Said:
    whole: Said = {group_of(asked): outcome(answer.error, _positions(answer.offsets))}
    return whole | {tp: f"committed {at}" for tp, at in answer.offsets.items()}


def _member(request: Any, _: object) -> Said:
    told = f"member {request.member or 'new'}"
    generation = getattr(request, "generation", -1)
    return {group_of(request): f"{told}, generation {generation}" if generation >= 0 else told}


def _plain_answer(answer: ErrorResponse, asked: Any) -> Said:
    """An error code only: of whatever the request was about."""
    subject = ""
    if hasattr(asked, "transactional_id"):
        subject = _txn(asked)
    elif hasattr(asked, "group"):
        subject = group_of(asked)
    return {subject: outcome(answer.error)}


# ---- metadata


def _alter(request: k.AlterPartition, _: object) -> Said:
    said: Said = {
        tp: f"epoch {epoch}, ISR {_nodes(isr)} wanted" for tp, (epoch, _, isr, *_) in request.parts.items()
    }
    return said | {"": f"broker {request.broker}"}


def _altered(answer: k.AlterPartitionResponse, _: object) -> Said:
    said: Said = {
        tp: outcome(error) if state is None else _state(state) for tp, (error, state) in answer.parts.items()
    }
    return said | {"": outcome(answer.error)}


def _quorum(answer: k.QuorumFetchResponse, _: object) -> Said:
    changes = [change for _, change in answer.entries if isinstance(change, PartitionRecord)]
    many = len(answer.entries)
    records = f"{many} record{'s' * (many != 1)} from {answer.base}" if many else "no records"
    cut = f", cut back to {answer.cut}" if answer.cut >= 0 else ""
    said: Said = {change.partition: _state(change.state) for change in changes}
    return said | {"": f"epoch {answer.epoch}, {records}, HW {answer.high_watermark}{cut}"}


_TELLERS: dict[type, Teller] = {
    m.Produce: _produce,
    m.ProduceResponse: _produced,
    m.OffsetForLeaderEpoch: lambda r, _: {tp: f"where epoch {of} ends" for tp, (_, of) in r.parts.items()},
    m.OffsetForLeaderEpochResponse: lambda a, _: {
        tp: outcome(error, f"epoch {epoch} ends at {end}") for tp, (error, epoch, end) in a.parts.items()
    },
    m.ListOffsets: lambda r, _: dict.fromkeys(r.parts, "begin" if r.earliest else "end"),
    m.ListOffsetsResponse: lambda a, _: {
        tp: f"offset {offset}{_error(error)}" for tp, (error, offset) in a.parts.items()
    },
    m.CreateTopics: lambda r, _: {"": f"{r.topic}, {r.partitions} partitions"},
    m.DeleteTopics: lambda r, _: {"": f"topic {r.topic}"},
    m.CreatePartitions: lambda r, _: {"": f"{r.topic}, {r.count} partitions"},
    m.ElectLeaders: lambda r, _: dict.fromkeys(r.partitions, "unclean" if r.unclean else "preferred"),
    m.ElectLeadersResponse: lambda a, _: {
        "": outcome(a.error),
        **{tp: outcome(error) for tp, error in a.parts.items()},
    },
    m.AlterPartitionReassignments: lambda r, _: {
        tp: "cancelled" if to is None else f"to {_nodes(to)}" for tp, to in r.replicas.items()
    },
    m.AlterPartitionReassignmentsResponse: lambda a, _: {tp: outcome(error) for tp, error in a.parts.items()},
    c.FindCoordinator: lambda r, _: {_key(r): "who coordinates it"},
    c.FindCoordinatorResponse: lambda a, r: {_key(r): f"node {a.node}{_error(a.error)}"},
    c.InitProducerId: lambda r, _: {_txn(r): _producer(r)},
    c.ProducerIdResponse: lambda a, r: {_txn(r): _producer(a) + _error(a.error)},
    c.AddPartitionsToTxn: _add,
    c.AddPartitionsToTxnResponse: _added,
    c.AddOffsetsToTxn: lambda r, _: {
        _txn(r): f"{_producer(r)}, group {r.group}",
        group_of(r): "joins a transaction",
    },
    c.EndTxn: lambda r, _: {_txn(r): f"{'commit' if r.commit else 'abort'}, {_producer(r)}"},
    c.WriteTxnMarkers: _markers,
    c.WriteTxnMarkersResponse: _marked,
    c.TxnOffsetCommit: lambda r, _: _commit(r, _producer(r), {_txn(r): _producer(r)}),
    c.OffsetCommit: lambda r, _: _commit(r, f"generation {r.generation}", {}),
    c.OffsetFetch: lambda r, _: {group_of(r): "committed offsets"},
    c.OffsetFetchResponse: _committed,
    c.JoinGroup: _member,
    c.JoinGroupResponse: lambda a, r: {group_of(r): outcome(a.error, f"generation {a.generation}")},
    c.SyncGroup: _member,
    c.SyncGroupResponse: lambda a, r: {group_of(r): outcome(a.error, _listed(a.partitions))},
    c.Heartbeat: _member,
    c.LeaveGroup: _member,
    ErrorResponse: _plain_answer,
    k.AlterPartition: _alter,
    k.AlterPartitionResponse: _altered,
    k.QuorumFetchResponse: _quorum,
    **SHARE_TELLERS,
}
