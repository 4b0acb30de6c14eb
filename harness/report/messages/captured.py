"""Messages that were captured on a run's network, as a trace of what happened near certain moments.

A capture sees a message once, on its way: a traced message arrives when it was sent. It knows a client by its
connection alone; one that a producer with a transactional id used is that producer's process, all others
share the lane `CLIENTS`. A capture knows no states.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from kio.schema.errors import ErrorCode

from core.op import TopicPartition
from harness.protocol.payloads import api_name
from harness.report.inputs import Inputs
from harness.report.messages.diagram import Missing
from harness.report.messages.steps import AROUND_NS, Subject
from history import trace as tr
from history.evidence import Evidence
from history.evidence_tables import ALL, CLIENT, END_TXN, FETCH, PRODUCE, WRITE_TXN_MARKERS
from history.tables import TableRow

OF_PRODUCERS: Final = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit")
"""Requests that are about the transactional id of their connection; captures keep no more of them."""
ENDS_MAX: Final = 12
"""Requests that end transactions, around which messages are looked for."""


class Captured:
    """The messages of a run's evidence. See the module."""

    def __init__(self, inputs: Inputs, evidence: Evidence) -> None:
        self._inputs = inputs
        self._evidence = evidence
        self._frames = evidence.table("frames")
        parts = evidence.table("frame_parts")
        at = np.searchsorted(self._frames["number"].to_numpy(), parts["number"].to_numpy())
        columns = ("at_ns", "connection", "client", "api", "answer")
        self._parts = parts
        self._part_of = {name: self._frames[name].take(pa.array(at)) for name in columns}

    @property
    def header(self) -> tr.TraceHeader:
        """Nodes by what they do."""
        config = self._inputs.verdict.config
        brokers, controllers = int(config["brokers"]), int(config["controllers"])
        every = range(1, brokers + controllers + 1)
        return tr.TraceHeader(tr.VERSION, tuple(every[:brokers]), tuple(every[brokers:]))

    @cached_property
    def _ids(self) -> dict[int, str]:
        """Transactional ids by producer id, as coordinators' logs have them."""
        log = self._evidence.table("transaction_log").select(["producer_id", "transactional_id"])
        return {row["producer_id"]: row["transactional_id"] for row in log.to_pylist() if row["producer_id"]}

    @cached_property
    def _topics(self) -> dict[str, str]:
        """Names of topics by id."""
        return self._evidence.topics

    @cached_property
    def _used_by(self) -> dict[int, str]:
        """Transactional ids by connection."""
        own = pc.and_(pc.equal(self._part_of["client"], CLIENT), pc.is_valid(self._parts["producer_id"]))
        pairs = pa.table(
            {"connection": self._part_of["connection"], "producer_id": self._parts["producer_id"]}
        )
        rows = pairs.filter(own).group_by(["connection", "producer_id"]).aggregate([]).to_pylist()
        return {
            row["connection"]: self._ids[row["producer_id"]]
            for row in rows
            if row["producer_id"] in self._ids
        }

    def ids(self, producers: Iterable[int]) -> list[str]:
        """Transactional ids that had these producer ids."""
        return [self._ids[one] for one in producers if one in self._ids]

    def moments(self, about: Subject, producer: tuple[int, int] | None) -> tuple[int, ...]:
        """The subject's moments, or when its records were written; and when its transactions were ended
        between them. Without any: the last ends of the transactions of this producer (id and epoch)."""
        moments = set(about.moments or self._written(about))
        ending = pc.is_in(self._part_of["api"], pa.array([END_TXN, WRITE_TXN_MARKERS], pa.int16()))
        if producer is not None and not moments:
            own = pc.equal(self._parts["producer_id"], producer[0])
            own = pc.and_(own, pc.equal(self._parts["producer_epoch"], producer[1]))
        else:
            mine = [one for one, name in self._ids.items() if name in about.transactions]
            own = pc.is_in(self._parts["producer_id"], pa.array(sorted(mine), pa.int64()))
        times = self._part_of["at_ns"].filter(pc.and_(ending, own)).to_pylist()
        if moments:
            low, high = min(moments), max(moments) + AROUND_NS
            times = [ns for ns in times if low <= ns <= high]
        return tuple(sorted({*moments, *times[-ENDS_MAX:]}))

    def _written(self, about: Subject) -> list[int]:
        """When the records at the subject's offsets were made, as brokers' logs have it."""
        topic, _, number = about.partition.rpartition("-")
        if not number.isdecimal() or not self._frames.num_rows:
            return []
        rows = self._evidence.of("batches", TopicPartition(topic, int(number)))
        found = set()
        for offset in about.offsets:
            here = pc.and_(pc.less_equal(rows["base"], offset), pc.greater_equal(rows["last"], offset))
            found.update(rows.filter(here)["max_timestamp"].to_pylist())
        ms, ns = self._frames["ms"].to_numpy(), self._frames["at_ns"].to_numpy()
        at = np.minimum(np.searchsorted(ms, sorted(found)), len(ms) - 1)
        return [int(ns[n] + (one - ms[n]) * 1_000_000) for n, one in zip(at, sorted(found), strict=True)]

    def trace(self, moments: Sequence[int]) -> tr.Trace:
        """The messages near these moments, whole exchanges."""
        messages: list[tr.TracedMessage] = []
        asked: dict[tuple[int, int], int] = {}
        near = self._near(moments)
        said = self._said(near["number"])
        for row in near.to_pylist():
            key, answer = (row["connection"], row["correlation"]), row["answer"]
            if answer and key not in asked:
                continue
            ends = self._lane(row), tr.node_lane(row["server"])
            name = "".join(word.capitalize() for word in api_name(row["api"]).split("_"))
            parts, text = said.get(row["number"], ({}, ""))
            whose = self._used_by.get(row["connection"], "")
            if whose and name in OF_PRODUCERS:
                parts = {**parts, f"txn:{whose}": ""}
            message = tr.TracedMessage(
                sent=row["at_ns"],
                arrived=row["at_ns"],
                sender=ends[1] if answer else ends[0],
                receiver=ends[0] if answer else ends[1],
                name=name,
                answers=asked[key] if answer else -1,
                parts=parts,
                text=text,
            )
            if not answer:
                asked[key] = len(messages)
            messages.append(message)
        return tr.Trace(header=self.header, messages=messages)

    def missing(self, until_ns: int) -> list[Missing]:
        """What the capture lacks before a time."""
        return [
            Missing(gap["at_ns"], f"{_whose(gap)}: {gap['why']}")
            for gap in self._evidence.table("gaps").to_pylist()
            if gap["at_ns"] <= until_ns
        ]

    def _lane(self, row: TableRow) -> str:
        """Of who opened a connection."""
        if row["client"] != CLIENT:
            return tr.node_lane(row["client"])
        whose, history = self._used_by.get(row["connection"], ""), self._inputs.history
        if not whose or history is None:
            return tr.CLIENTS
        own = [one for one in history.processes.values() if one.transactional_id == whose]
        began = [one for one in own if one.start_ns <= row["at_ns"]]
        return tr.client_lane(max(began, key=lambda one: one.start_ns).process) if began else tr.CLIENTS

    def _near(self, moments: Sequence[int]) -> pa.Table:
        """Frames that were seen near a moment, and the other halves of their exchanges."""
        ns = self._frames["at_ns"].to_numpy()
        near = np.zeros(len(ns), np.bool_)
        for moment in moments:
            low, high = np.searchsorted(ns, [moment - AROUND_NS, moment + AROUND_NS])
            near[low:high] = True
        connection = self._frames["connection"].to_numpy()
        exchange = (connection << 32) + self._frames["correlation"].to_numpy()
        return self._frames.filter(pa.array(np.isin(exchange, exchange[near])))

    def _said(self, numbers: pa.ChunkedArray) -> dict[int, tuple[dict[str, str], str]]:
        """By the number of a frame: what it says by subject, and otherwise. Of a follower's fetches only what
        it had not asked for before."""
        own = pc.is_in(self._parts["number"], value_set=pa.array(numbers.to_pylist(), pa.int64()))
        found: dict[int, tuple[dict[str, str], str]] = defaultdict(lambda: ({}, ""))
        before: dict[tuple[int, str], tuple[int, int]] = {}
        columns = {name: column.filter(own).to_pylist() for name, column in self._part_of.items()}
        for number, row in enumerate(self._parts.filter(own).to_pylist()):
            api, client = columns["api"][number], columns["client"][number]
            answer, connection = columns["answer"][number], columns["connection"][number]
            topic = row["topic"] or self._topics.get(row["topic_id"], "")
            partition = f"{topic}-{row['partition']}" if topic else ""
            if api == FETCH:
                place = row["offset"], row["leader_epoch"]
                if before.get((client, partition)) == place:
                    continue
                before[client, partition] = place
            words = _ANSWERED[api](row) if answer else _ASKED[api](row)
            parts, text = found[row["number"]]
            name = self._ids.get(row["producer_id"]) or self._used_by.get(connection)
            told = {partition: words}
            if name:
                told[f"txn:{name}"] = f"{partition}: {words}" if partition else words
            for subject, said in told.items():
                parts[subject] = f"{parts[subject]}; {said}" if parts.get(subject) else said
            parts.pop("", None)
            found[row["number"]] = parts, text or _acks(row)
        return found


def _whose(gap: TableRow) -> str:
    if gap["connection"] == ALL:
        return "any messages"
    ends = ["a client" if node == CLIENT else f"node {node}" for node in (gap["client"], gap["server"])]
    return f"messages between {ends[0]} and {ends[1]}"


def _producer(row: TableRow) -> str:
    return f"producer {row['producer_id']}/{row['producer_epoch']}"


def _acks(row: TableRow) -> str:
    return "" if row["acks"] is None else f"acks {'all' if row['acks'] == -1 else row['acks']}"


def _outcome(row: TableRow) -> str:
    code, offset = row["error"] or 0, row["offset"]
    if code:
        return _ERRORS.get(code, f"error {code}")
    return "done" if offset is None or offset < 0 else f"done at offset {offset}"


def _records(row: TableRow) -> str:
    many = f"{row['records']} record{'s' * (row['records'] != 1)}"
    if row["producer_id"] is None or row["producer_id"] < 0:
        return many
    return f"{many}, {_producer(row)}, sequence {row['sequence']}"


def _from(row: TableRow) -> str:
    return f"from {row['offset']}" + (f", epoch {row['leader_epoch']}" if row["leader_epoch"] >= 0 else "")


def _end(row: TableRow) -> str:
    return f"{'commit' if row['commit'] else 'abort'}, {_producer(row)}"


def _marker(row: TableRow) -> str:
    return f"{_end(row)}, coordinator epoch {row['coordinator_epoch']}"


_ERRORS: Final = {int(one.value): one.name.upper() for one in ErrorCode}
_ASKED: Final = {PRODUCE: _records, FETCH: _from, END_TXN: _end, WRITE_TXN_MARKERS: _marker}
_ANSWERED: Final = {PRODUCE: _outcome, FETCH: _outcome, END_TXN: _outcome, WRITE_TXN_MARKERS: _outcome}
