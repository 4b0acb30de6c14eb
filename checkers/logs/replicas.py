"""The logs of one partition, one for each node and take, as columns; where two of them differ.

The unit of all comparisons is the batch: followers append the bytes that they fetch, so that the logs of two
replicas have the same batches (Kafka compacts each replica on its own: below `compacted` nothing is said).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.engine.findings import LogFinding
from checkers.logs.cleaned_to import cleaned_to, compacted_topics
from checkers.logs.zookeeper_log import zookeeper_log
from checkers.windows import INTERNAL
from core.op import TopicPartition
from history.columns import Array
from history.evidence import Evidence
from history.evidence_tables import END, KILLED, LOST_POWER, METADATA_LOG, WHEN
from history.tables import TableRow

COMPARED: Final = (
    "base", "last", "leader_epoch", "producer_id", "producer_epoch", "base_sequence", "records", "crc",
    "base_timestamp", "max_timestamp", "compression", "log_append_time", "transactional", "control",
)  # fmt: skip
"""Columns of a batch that are the same in every replica. Segments begin elsewhere in each."""
COMPRESSED: Final = "batches are compressed, whose records are not read,"
_READ: Final = ("segment", "position", "intact", *COMPARED)

K = TypeVar("K", int, str)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplicaLog:
    """The log of a partition on one node, in one take.

    at_end: the take is that of the end of the run. why: how the process had ended before it; END = it ran
    then, or had shut down. when, taken_ns: of the take; `when` in words. topic_id: None = the node has noted
    none. clean: the node had shut down cleanly. start: offset that the first segment is named for. files: how
    many it has, empty ones, too. every: columns of all batches; whole: of the intact ones. marks: checkpoints
    of the node by name (`evidence.ENDS`). epochs: leader epoch -> first offset, as `leader-epoch-checkpoint`
    has them.
    compacted: no batch below it is where its leader put it, perhaps. cleaned: the end of what this log lacks
    behind the cleaner's checkpoints, perhaps for it was compacted; 0 = it lacks nothing. ordered: offsets
    rise.
    """

    take: int
    node: int
    at_end: bool
    why: str
    when: str
    taken_ns: int
    topic_id: str | None
    clean: bool
    start: int
    files: int
    every: dict[str, Array]
    whole: dict[str, Array]
    marks: dict[str, int]
    epochs: dict[int, int]
    compacted: int
    cleaned: int
    ordered: bool

    @property
    def died(self) -> bool:
        """The take shows what a death left."""
        return self.why != END

    @property
    def count(self) -> int:
        """Intact batches."""
        return len(self.whole["base"])

    @property
    def end(self) -> int:
        """Offset after the last record."""
        return int(self.whole["last"][-1]) + 1 if self.count else max(self.start, 0)

    @property
    def last_epoch(self) -> int:
        """Leader epoch of the last batch, -1 = it has none."""
        return int(self.whole["leader_epoch"][-1]) if self.count else -1

    def epoch_at(self, offset: int) -> int:
        """Leader epoch of the last batch that begins at or before an offset, -1 = there is none."""
        at = int(np.searchsorted(self.whole["base"], offset, "right")) - 1
        return int(self.whole["leader_epoch"][at]) if at >= 0 else -1

    @property
    def has_epochs(self) -> bool:
        """Whether its last batch has a leader epoch: messages of formats 0 and 1 have none."""
        return self.last_epoch >= 0

    @property
    def epochs_begin(self) -> int:
        """Offset of the first batch with a leader epoch, the end of the log where none has one."""
        first = self.whole["base"][self.whole["leader_epoch"] >= 0][:1]
        return int(first[0]) if len(first) else self.end

    @property
    def high_watermark(self) -> int:
        """As its broker noted it last, -1 = it did not."""
        return self.marks.get("replication", -1)

    @property
    def gaps(self) -> Array:
        """Of each intact batch, whether the one before is missing or damaged."""
        base, last = self.whole["base"], self.whole["last"]
        expected = np.zeros_like(base)
        expected[1:] = last[:-1] + 1
        return np.asarray(base != expected)

    @property
    def unread(self) -> list[int]:
        """Offset behind each compressed batch: what is inside is not read."""
        return [int(last) + 1 for last in self.whole["last"][self.whole["compression"] > 0]]

    @property
    def broken(self) -> int:
        """Offset from which on batches are damaged or missing, -1 = none is."""
        base, last, good = self.every["base"], self.every["last"], self.every["intact"].copy()
        good[1:] &= base[1:] == last[:-1] + 1
        if good.all():
            return -1
        at = int(np.argmin(good))
        return int(last[at - 1]) + 1 if at else max(self.start, 0)

    def where(self) -> str:
        """The node, and when its files were taken, in words."""
        return f"node {self.node} {self.when}"

    def batch(self, index: int) -> str:
        """A batch in words."""
        row = {name: column[index] for name, column in self.whole.items()}
        many = int(row["records"])
        text = "a control record" if row["control"] else f"{many} record{'s' * (many != 1)}"
        text += f" at offset {row['base']} of leader epoch {row['leader_epoch']}"
        if row["producer_id"] >= 0:
            text += f", producer {row['producer_id']}/{row['producer_epoch']}"
        if row["base_sequence"] >= 0:
            text += f" from sequence {row['base_sequence']}"
        return f"{text}, checksum {row['crc']:08x}"


def replicas(evidence: Evidence, tp: TopicPartition) -> list[ReplicaLog]:
    """All logs of a partition, by take and node; not those of a topic of the same name that was deleted."""
    takes: dict[tuple[int, int], dict[str, TableRow]] = defaultdict(dict)
    for row in evidence.table("takes").to_pylist():
        takes[row["take"], row["node"]][row["why"]] = row
    moments = evidence.once(Evidence.moments)
    nodes = evidence.table("nodes").select(["take", "node", "clean_shutdown"]).to_pylist()
    clean = {(row["take"], row["node"]) for row in nodes if row["clean_shutdown"]}
    batches = dict(_by_log(evidence.of("batches", tp), _READ))
    marks = _pairs(evidence.of("ends", tp), "file", "value", str)
    epochs = _pairs(evidence.of("epochs", tp), "epoch", "start", int)
    noted = max((one.get("cleaner", 0) for one in marks.values()), default=0)
    may = noted > 0 or tp.topic in evidence.once(compacted_topics)
    cleaned = {place: cleaned_to(every, noted) for place, every in batches.items()} if may else {}
    compacted = max(noted, *cleaned.values(), 0)
    nothing = {name: np.empty(0, np.int64) for name in _READ} | {"intact": np.empty(0, np.bool_)}
    found = []
    for row in _directories(evidence, tp):
        place = row["take"], row["node"]
        every = batches.get(place, nothing)
        intact = every["intact"]
        looks = takes.get(place, {})
        whole = every if intact.all() else {name: column[intact] for name, column in every.items()}
        one = ReplicaLog(
            take=row["take"],
            node=row["node"],
            at_end=END in looks,
            why=next((why for why in (LOST_POWER, KILLED, END) if why in looks), KILLED),
            when=moments.get(place, WHEN[KILLED]),
            taken_ns=max((row["at_ns"] for row in looks.values()), default=0),
            topic_id=row["topic_id"],
            clean=place in clean,
            start=row["start"],
            files=row["files"],
            every=every,
            whole=whole,
            marks=marks.get(place, {}),
            epochs=epochs.get(place, {}),
            compacted=compacted,
            cleaned=cleaned.get(place, 0),
            ordered=bool((whole["base"][1:] > whole["last"][:-1]).all()),
        )
        found.append(one)
    return found


def _directories(evidence: Evidence, tp: TopicPartition) -> list[TableRow]:
    """Rows of `partitions`: of the topic that got the name last, where several had it; without a metadata
    log, of the one that most directories of the end are of. Brokers before 2.8 note no ids: those that never
    were replicas of the last one have the log of another one."""
    rows: list[TableRow] = evidence.of("partitions", tp).to_pylist()
    log = evidence.once(zookeeper_log)
    if log is not None and (nodes := log.replicas_of_last(tp)):
        rows = [row for row in rows if row["topic_id"] is not None or row["node"] in nodes]
    ids = {row["topic_id"] for row in rows} - {None}
    if len(ids) < 2:
        return rows
    newest_id = _created_last(evidence, tp.topic)
    if newest_id is None:
        takes = evidence.table("takes").to_pylist()
        ends = {(row["take"], row["node"]) for row in takes if row["why"] == END}
        told = [row for row in rows if row["topic_id"] is not None]
        last = [row for row in told if (row["take"], row["node"]) in ends] or told[-1:]
        newest_id = Counter(row["topic_id"] for row in last).most_common(1)[0][0]
    return [row for row in rows if row["topic_id"] in (None, newest_id)]


def _created_last(evidence: Evidence, topic: str) -> str | None:
    """Id of the topic that got a name last, by the metadata logs and their snapshots, whose records are
    counted in each from 0; None = they have none."""
    metadata = evidence.table("metadata")
    named = pc.and_(pc.equal(metadata["name"], "TopicRecord"), pc.equal(metadata["topic"], topic))
    created = metadata.filter(named).select(["snapshot", "offset", "topic_id"]).to_pylist()
    places = (
        (row["offset"] + 1 if row["snapshot"] < 0 else row["snapshot"], row["topic_id"]) for row in created
    )
    return max(places, default=(0, None))[1]


def of_one_topic(tp: TopicPartition, logs: Sequence[ReplicaLog], remade_ns: int) -> list[ReplicaLog]:
    """Without those that may be of a topic that had the name before: their brokers noted no topic id (they
    do since 2.8), and their files were read before the topic was remade last. No fault deletes what brokers
    make themselves. remade_ns: see RunWindows."""
    if tp.topic in (*INTERNAL, METADATA_LOG.topic):
        return [*logs]
    return [one for one in logs if one.topic_id or one.at_end or one.taken_ns > remade_ns]


def last_take(logs: Sequence[ReplicaLog]) -> list[ReplicaLog]:
    """Those of the end of the run."""
    return [one for one in logs if one.at_end]


def newest(logs: Sequence[ReplicaLog]) -> ReplicaLog | None:
    """The log with the newest leader epoch, and of these the longest: what a clean leader has. A leader notes
    its epoch when it begins to lead, before it appends anything."""
    return max(logs, key=lambda one: (max([one.last_epoch, *one.epochs]), one.end), default=None)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two logs, batch by batch from the later one of their beginnings on.

    same: batches that agree. left, right: index of the first batch of each log that has no equal in the
    other; the number of batches where there is none.
    """

    one: ReplicaLog
    other: ReplicaLog
    same: int
    left: int
    right: int

    @property
    def offset(self) -> int:
        """Where they part: all records below are the same; -1 = nowhere, each has all of the other."""
        bases = [int(log.whole["base"][at]) for log, at in self._next() if at < log.count]
        return min(bases, default=-1)

    def _next(self) -> tuple[tuple[ReplicaLog, int], tuple[ReplicaLog, int]]:
        return (self.one, self.left), (self.other, self.right)

    @property
    def common_later(self) -> int:
        """Offset of a later batch that has the same leader epoch in both logs, -1 = there is none."""
        sides = [(log.whole["base"][at:], log.whole["leader_epoch"][at:]) for log, at in self._next()]
        (a, a_epochs), (b, b_epochs) = sides
        _, left, right = np.intersect1d(a, b, assume_unique=True, return_indices=True)
        equal = np.flatnonzero((a_epochs[left] == b_epochs[right]) & (a_epochs[left] >= 0))
        return int(a[left[equal[0]]]) if equal.size else -1

    def differ(self) -> str:
        """What stands where they part, in words."""
        texts = []
        for log, at in self._next():
            what = log.batch(at) if at < log.count else f"nothing after offset {log.end - 1}"
            texts.append(f"{log.where()} has {what}")
        return "; ".join(texts)


def finding(rule: str, tp: TopicPartition, offset: int, logs: Iterable[ReplicaLog], text: str) -> LogFinding:
    """What these logs show."""
    every = tuple(logs)
    return LogFinding(
        check=rule,
        log=tp,
        offset=offset,
        take=max(log.take for log in every),
        nodes=tuple(sorted({log.node for log in every})),
        text=f"{tp}: {text}.",
    )


def compare(one: ReplicaLog, other: ReplicaLog) -> Comparison:
    """Two logs whose offsets rise."""
    begin = max(_first(one), _first(other), one.compacted)
    left, right = (int(np.searchsorted(log.whole["base"], begin)) for log in (one, other))
    many = min(one.count - left, other.count - right)
    differs = np.zeros(many, np.bool_)
    for name in COMPARED:
        differs |= one.whole[name][left : left + many] != other.whole[name][right : right + many]
    same = int(np.argmax(differs)) if differs.any() else many
    return Comparison(one, other, same, left + same, right + same)


def _first(log: ReplicaLog) -> int:
    return int(log.whole["base"][0]) if log.count else 0


def _by_log(rows: pa.Table, names: Sequence[str]) -> Iterator[tuple[tuple[int, int], dict[str, Array]]]:
    """The columns of each (take, node); rows of one stand together."""
    columns = {name: rows[name].to_numpy() for name in ("take", "node", *names)}
    take, node = columns.pop("take"), columns.pop("node")
    if not len(take):
        return
    cuts = np.flatnonzero((np.diff(take) != 0) | (np.diff(node) != 0)) + 1
    for low, high in zip([0, *cuts.tolist()], [*cuts.tolist(), len(take)], strict=True):
        yield (int(take[low]), int(node[low])), {name: column[low:high] for name, column in columns.items()}


def _pairs(rows: pa.Table, key: str, value: str, kind: type[K]) -> dict[tuple[int, int], dict[K, int]]:
    found: dict[tuple[int, int], dict[K, int]] = {}
    for row in rows.select(["take", "node", key, value]).to_pylist():
        found.setdefault((row["take"], row["node"]), {})[kind(row[key])] = row[value]
    return found
