"""The messages that were seen on the network (`FRAMES` of evidence), as rules about them need them.

What cannot be seen is taken in the broker's favour: a message arrived as soon as it was seen, and a leader
may act by any in-sync set that it had as leader so far.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from checkers.logs.clocks import seen_apart_ms
from checkers.logs.elections import Elections, elections, newest_log
from checkers.logs.transactions import NEVER
from checkers.logs.zookeeper_log import zookeeper_log
from core.op import TopicPartition
from history.columns import Array
from history.evidence import Evidence
from history.evidence_tables import CLIENT, FETCH
from history.reader import History
from history.tables import TableRow
from model.protocol.messages import PartitionState

CLOCK_NS: Final = 1_000_000
"""How far the times of two messages may be apart from their order."""


@dataclass(frozen=True, slots=True)
class FollowerFetches:
    """The Fetches of a follower for one partition, in the order of time. highest: offset asked for so far."""

    ns: Array
    leader: Array
    offset: Array
    epoch: Array
    highest: Array

    def reached(self, offset: int, leader: int, epoch: int) -> int:
        """Time of the first one beyond an offset to a leader, in this leader epoch or a later one; NEVER =
        there is none."""
        fits = (self.offset > offset) & (self.leader == leader) & ((self.epoch >= epoch) | (self.epoch < 0))
        return int(self.ns[np.argmax(fits)]) if fits.any() else NEVER


class CapturedMessages:
    """Those of a run. parts: what they say of each partition, with the columns of their frames. unnamed: ids
    of topics that no log has. gaps: where messages may be missing. fetched, asked: Fetches of followers by
    partition and by the node that asks, or is asked. answered: when a leader answered Fetches of a follower,
    by follower and leader. apart_ms: how far its times and those of the brokers may be apart."""

    def __init__(self, evidence: Evidence, history: History | None) -> None:
        self.evidence = evidence
        self.history = history
        self.frames = evidence.table("frames")
        self.apart_ms = seen_apart_ms(self.frames)
        self.names = _topic_names(evidence)
        self.parts = joined(self.frames, evidence.table("frame_parts"))
        by_id = self.parts.filter(pc.is_null(self.parts["topic"]))["topic_id"].unique().to_pylist()
        self.unnamed = {*by_id} - {None, *self.names}
        self.gaps = evidence.table("gaps").to_pylist()
        self._elections: dict[TopicPartition, Elections] = {}
        self.fetched, self.asked = self._fetched("client"), self._fetched("server")
        self.answered = self._answered()

    def _fetched(self, end: str) -> dict[tuple[TopicPartition, int], FollowerFetches]:
        """Of followers, by partition and node. end: `client` = the node that asks, `server` = the one that is
        asked."""
        rows = self.parts.filter(pc.equal(self.parts["api"], FETCH))
        keys = [*_PARTITION, end]
        places = pa.table({name: rows[name] for name in keys} | {"row": pa.array(np.arange(rows.num_rows))})
        groups = places.group_by(keys).aggregate([("row", "list")])
        mine: dict[tuple[TopicPartition, int], list[Array]] = defaultdict(list)
        for key, some in zip(groups.select(keys).to_pylist(), groups["row_list"], strict=True):
            if (tp := self.tp(key)) is not None:
                mine[tp, key[end]].append(some.values.to_numpy())
        columns = {name: rows[name].to_numpy() for name in ("at_ns", "server", "offset")}
        epochs = pc.fill_null(rows["leader_epoch"], -1).to_numpy()
        found = {}
        for which, rows_of in mine.items():
            at = np.sort(np.concatenate(rows_of))  # a topic stands there by its name, or by its id
            ns, leader, offset = (columns[name][at] for name in ("at_ns", "server", "offset"))
            found[which] = FollowerFetches(ns, leader, offset, epochs[at], np.maximum.accumulate(offset))
        return found

    def _answered(self) -> dict[tuple[int, int], Array]:
        """When a leader answered Fetches of a follower: by follower and leader."""
        rows = self.frames.filter(pc.and_(self.frames["answer"], pc.equal(self.frames["api"], FETCH)))
        client, server, ns = (rows[name].to_numpy() for name in ("client", "server", "at_ns"))
        pairs = {(int(one), int(other)) for one, other in zip(client, server, strict=True) if one != CLIENT}
        return {pair: ns[(client == pair[0]) & (server == pair[1])] for pair in pairs}

    def lineage(self, tp: TopicPartition) -> Elections:
        """Who led a partition."""
        if tp not in self._elections:
            self._elections[tp] = elections(self.evidence, tp)
        return self._elections[tp]

    def states(self, tp: TopicPartition, until_ms: int) -> Iterator[PartitionState]:
        """The states of a partition that began by a time."""
        return (state for ms, state in waited_for(self.lineage(tp)) if ms <= until_ms + self.apart_ms)

    def tp(self, row: TableRow) -> TopicPartition | None:
        """The partition that a row of `parts` is about; None = no log has its id."""
        name = row["topic"] or self.names.get(row["topic_id"])
        return None if name is None else TopicPartition(name, row["partition"])

    def when(self, ns: int) -> str:
        """A time in words."""
        return f"at {self.history.seconds(ns):.4f} s" if self.history else f"at {ns / 1e9:.4f} s"


def waited_for(lineage: Elections) -> Iterator[tuple[int, PartitionState]]:
    """A partition's states with those in-sync replicas that a leader waits for. With ZooKeeper a reassignment
    tells the leader who is taken off before that one has left the in-sync set; from then on the leader knows
    nothing of it, and counts without it (Partition.updateAssignmentAndIsr, maybeIncrementLeaderHW)."""
    for ms, state in lineage.states:
        leaving = state.removing if lineage.by_zookeeper else ()
        yield ms, replace(state, isr=tuple(node for node in state.isr if node not in leaving))


def whom(client: int) -> str:
    """Who sent a request, in words."""
    return "a client" if client == CLIENT else f"node {client}"


_PARTITION: Final = ("topic", "topic_id", "partition")
_EXCHANGE: Final = ("connection", "correlation", *_PARTITION)


def exchange(row: TableRow) -> tuple[object, ...]:
    """What a request and its answer have in common, for one partition."""
    return tuple(row[name] for name in _EXCHANGE)


def joined(frames: pa.Table, parts: pa.Table) -> pa.Table:
    """What frames say, by their numbers, with the columns of the frames."""
    at = pa.array(np.searchsorted(frames["number"].to_numpy(), parts["number"].to_numpy()))
    own = frames.drop_columns(["number"]).take(at)
    for name in own.column_names:
        parts = parts.append_column(name, own[name])
    return parts


def _topic_names(evidence: Evidence) -> Mapping[str, str]:
    """Names of topics by their ids."""
    if (znodes := evidence.once(zookeeper_log)) is not None:
        return znodes.names
    log = evidence.once(newest_log)
    if log is None:
        return {}
    rows = log.filter(pc.equal(log["name"], "TopicRecord")).select(["topic_id", "topic"]).to_pylist()
    return {row["topic_id"]: row["topic"] for row in rows}
