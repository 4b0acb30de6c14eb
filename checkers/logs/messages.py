"""Ring 4: what brokers say to each other and to clients, when they say it.

The messages are those that were seen on the network (`FRAMES` of evidence). A leader learns from a
follower's Fetch that the follower has all records before the offset that it asks for; so what is committed
can be seen from outside, and when. What cannot be seen is taken in the broker's favour: a message arrived as
soon as it was seen, and a leader may act by any in-sync set that it had as leader so far, for a batch since
the epoch in which it appended it. A rule fires only where none of them explains the act.

Without messages these rules are not asked. Where messages may be missing, findings are doubts.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.engine.check import Tally, WholeRun
from checkers.engine.findings import NOWHERE, Found, LogFinding
from checkers.logs.captured_messages import CLOCK_NS, CapturedMessages, exchange, waited_for, whom
from checkers.logs.classes import EARLY, LOST_DECISION, MISANSWERED
from checkers.logs.elections import survivor
from checkers.logs.replicas import replicas
from checkers.logs.rule import Rule, checks_of
from checkers.logs.transactions import NEVER, PREPARED, TransactionLogs, transaction_logs
from checkers.logs.zookeeper_log import FOREVER
from core.internal_topics import TRANSACTION_TOPIC
from core.op import TopicPartition
from history.columns import Array
from history.evidence import Evidence
from history.evidence_tables import ALL, CLIENT, END_TXN, PRODUCE, WRITE_TXN_MARKERS
from history.reader import History
from history.tables import TableRow
from model.protocol.messages import PartitionState

MARKERS_COMMITTED: Final = "markers-committed"
MARKERS_LOGGED: Final = "markers-logged"
REPLICATED: Final = "answers-replicated"
ENDED: Final = "ends-committed"
CLOSED: Final = "transaction-log-closed"
IN_TURN: Final = "answers-in-turn"
RULES: Final = {
    MARKERS_COMMITTED: Rule(
        "When a coordinator sends markers, it can know that the decision is committed: each in-sync replica"
        " has asked it for what follows the record, or the leader before it had answered when they had asked"
        " that one.",
        "KIP-98; KAFKA-16973 for the group coordinator",
        EARLY,
    ),
    MARKERS_LOGGED: Rule(
        "Each marker that a coordinator sends has its PrepareCommit or PrepareAbort in"
        " `__transaction_state`, or in a log that a node had when it died.",
        "KIP-98; TransactionMarkerChannelManager",
        LOST_DECISION,
        rests_on=(TRANSACTION_TOPIC,),
    ),
    ENDED: Rule(
        "When a coordinator answers EndTxn without an error, it can know that the decision is committed, as"
        " with markers.",
        "KIP-98; TransactionCoordinator.endTransaction",
        EARLY,
    ),
    REPLICATED: Rule(
        "When a leader acknowledges a batch with acks=all, each in-sync replica has asked for what follows"
        " the batch, or was asked for it as the leader before.",
        "ReplicaManager.appendRecords, DelayedProduce",
        EARLY,
    ),
    CLOSED: Rule(
        "No Produce of a client for `__transaction_state` is acknowledged: only a coordinator writes there.",
        "KIP-98; ReplicaManager.appendToLocalLog (internalTopicsAllowed)",
    ),
    IN_TURN: Rule(
        "Each answer on a connection is to the oldest request there that has none.",
        "Kafka's protocol guide, Network; SocketServer",
        MISANSWERED,
    ),
}

NO_ACKS: Final = 0


def join(run: WholeRun, result: Tally) -> None:
    """Apply the rules. history: for the times of the run in sentences alone."""
    if not run.evidence.captured:
        return
    found = _Messages(run.evidence, run.history, result)
    found.markers()
    found.ended()
    found.produced()
    found.closed()
    found.in_turn()


CHECKS: Final = checks_of(RULES, ring=4, join=join)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A decision that a log holds. epoch: leader epoch."""

    log: TopicPartition
    offset: int
    epoch: int
    ms: int
    until_ms: int
    transactional_id: str
    text: str


class _Messages:
    def __init__(self, evidence: Evidence, history: History | None, result: Found) -> None:
        self.evidence = evidence
        self.result = result
        self.seen = CapturedMessages(evidence, history)
        self.logs: TransactionLogs = evidence.once(transaction_logs)
        self.prepared = self._prepared()

    # ---- markers

    def markers(self) -> None:
        """Each request that writes markers, marker by marker."""
        sent = self.seen.parts.filter(pc.equal(self.seen.parts["api"], WRITE_TXN_MARKERS))
        for row in sent.to_pylist():
            tp = self.seen.tp(row)
            if tp is None:
                continue
            key = row["producer_id"], row["producer_epoch"], row["commit"], tp
            ms = row["ms"] + self.seen.apart_ms
            own = [one for one in self.prepared.get(key, ()) if one.ms <= ms]
            self.result.asked[MARKERS_LOGGED] += 1
            if not own:
                self._unlogged(row, tp)
                continue
            current = [one for one in own if one.until_ms >= ms - 2 * self.seen.apart_ms] or own
            self.result.asked[MARKERS_COMMITTED] += 1
            sender = row["client"], row["coordinator_epoch"]
            if not any(self._known(one, sender, row) for one in current):
                self._early_markers(current[-1], row, tp)

    def _prepared(self) -> dict[tuple[int, int, bool, TopicPartition], list[Prepared]]:
        """Decisions by producer id, epoch, result and partition: those of the log, and those that only a dead
        node had."""
        found: dict[tuple[int, int, bool, TopicPartition], list[Prepared]] = defaultdict(list)
        for every in self.logs.of.values():
            for one in every:
                until = one.completed_ms if one.completed >= 0 else NEVER
                for each in one.decisions:
                    made = Prepared(
                        log=each.log,
                        offset=each.offset,
                        epoch=each.leader_epoch,
                        ms=each.ms,
                        until_ms=until,
                        transactional_id=one.transactional_id,
                        text=each.text,
                    )
                    for tp in each.partitions:
                        found[one.producer_id, each.epoch, each.commit, tp].append(made)
        for row in self.logs.lost:
            if row["state"] not in PREPARED:
                continue
            log = TopicPartition(row["topic"], row["partition"])
            made = Prepared(
                log=log,
                offset=row["offset"],
                epoch=row["leader_epoch"],
                ms=row["timestamp"],
                until_ms=NEVER,
                transactional_id=row["transactional_id"],
                text=f"{row['state']} at offset {row['offset']} of {log} (leader epoch"
                f" {row['leader_epoch']}), which only node {row['node']} had when it died",
            )
            for part in row["partitions"] or ():
                tp = TopicPartition(part["topic"], part["partition"])
                found[row["producer_id"], row["producer_epoch"], PREPARED[row["state"]], tp].append(made)
        return found

    def _unlogged(self, row: TableRow, tp: TopicPartition) -> None:
        what = "COMMIT" if row["commit"] else "ABORT"
        text = (
            f"node {row['client']} sent node {row['server']} {self.seen.when(row['at_ns'])} a {what} marker"
            f" {row['producer_id']}/{row['producer_epoch']} for {tp} (coordinator epoch"
            f" {row['coordinator_epoch']}); no log of __transaction_state has a decision like it"
        )
        if doubt := self.logs.doubt(None):
            self.result.leave_open(MARKERS_LOGGED, tp, f"{text}; {doubt}")
            return
        finding = LogFinding(
            check=MARKERS_LOGGED,
            log=tp,
            offset=-1,
            take=-1,
            nodes=(row["client"],),
            text=f"{text}.",
            producer_id=row["producer_id"],
            producer_epoch=row["producer_epoch"],
            ms=row["ms"],
        )
        self.result.refuse(finding)

    def _known(self, one: Prepared, sender: tuple[int, int], row: TableRow) -> bool:
        """Whether a coordinator (node, leader epoch) could know that a decision is committed when it sent a
        frame."""
        (me, epoch), until = sender, row["at_ns"] + CLOCK_NS
        for state in self.seen.states(one.log, row["ms"]):
            leader = state.leader
            if leader < 0 or state.leader_epoch < one.epoch or (leader != me and state.leader_epoch > epoch):
                continue
            when = self._reached(one, state.isr, leader, state.leader_epoch)
            if when <= until and (leader == me or self._heard(me, leader, when, until)):
                return True
        return False

    def _reached(self, one: Prepared, in_sync: Iterable[int], leader: int, epoch: int) -> int:
        """When a leader could know that all of an in-sync set have a record; NEVER = it could not."""
        times = [-NEVER]
        for node in in_sync:
            if node != leader:
                fetched = self.seen.fetched.get((one.log, node))
                times.append(fetched.reached(one.offset, leader, epoch) if fetched else NEVER)
        return max(times)

    def _heard(self, me: int, leader: int, since: int, until: int) -> bool:
        """A leader answered a Fetch of this node in a stretch of time, perhaps with its high watermark."""
        told = self.seen.answered.get((me, leader))
        if told is None:
            return False
        at = int(np.searchsorted(told, since - CLOCK_NS))
        return at < len(told) and int(told[at]) <= until

    def _early_markers(self, one: Prepared, row: TableRow, tp: TopicPartition) -> None:
        epoch = row["coordinator_epoch"]
        loaded = " which it had loaded," if one.epoch < epoch else ""
        text = (
            f"node {row['client']}, coordinator of {one.transactional_id} in leader epoch {epoch}, sent node"
            f" {row['server']} {self.seen.when(row['at_ns'])} the marker"
            f" {row['producer_id']}/{row['producer_epoch']} for {tp} by {one.text},{loaded} and could not"
            f" know that this was committed: {self._missing(one, row)}"
        )
        producer = row["producer_id"], row["producer_epoch"]
        self._early(MARKERS_COMMITTED, one.log, one.offset, row, text, producer, one.transactional_id)

    def _missing(self, one: Prepared, row: TableRow) -> str:
        """Which in-sync replica had not asked a coordinator for what follows a decision, in words."""
        leader, epoch, ns = row["client"], row["coordinator_epoch"], row["at_ns"]
        states = [state for state in self.seen.states(one.log, row["ms"]) if state.leader_epoch == epoch]
        for node in states[-1].isr if states else ():
            fetched = self.seen.fetched.get((one.log, node))
            when = fetched.reached(one.offset, leader, epoch) if fetched else NEVER
            if node != leader and when > ns:
                asked = "never did" if when == NEVER else f"did {(when - ns) / 1e6:.1f} ms later"
                return f"node {node}, in sync, had not asked it for what follows, and {asked}"
        return "it led no in-sync set that had all of it"

    # ---- ends of transactions

    def ended(self) -> None:
        """Each EndTxn that was answered without an error. The decision is the newest one of its producer: a
        request that comes again is answered by the same."""
        newest: dict[tuple[int, bool], list[Prepared]] = defaultdict(list)
        for (producer_id, _, commit, _), every in self.prepared.items():
            newest[producer_id, commit] += every
        for some in newest.values():
            some.sort(key=lambda one: one.ms)
        rows = self.seen.parts.filter(pc.equal(self.seen.parts["api"], END_TXN)).to_pylist()
        asked = {(row["connection"], row["correlation"]): row for row in rows if not row["answer"]}
        for row in rows:
            sent = asked.get((row["connection"], row["correlation"]))
            if not row["answer"] or row["error"] or sent is None:
                continue
            until = row["ms"] + self.seen.apart_ms
            own = [one for one in newest[sent["producer_id"], sent["commit"]] if one.ms <= until]
            if not own:
                continue  # a transaction without records has no decision; `answers-decided` asks the others
            self.result.asked[ENDED] += 1
            current = [one for one in own if one.ms >= until - 2 * self.seen.apart_ms] or own[-1:]
            if not any(self._known(one, (row["server"], NEVER), row) for one in current):
                self._early_end(own[-1], sent, row)

    def _early_end(self, one: Prepared, sent: TableRow, row: TableRow) -> None:
        what = "commit" if sent["commit"] else "abort"
        text = (
            f"node {row['server']} answered {one.transactional_id} {self.seen.when(row['at_ns'])} that its"
            f" transaction {sent['producer_id']}/{sent['producer_epoch']} had ended ({what}), and could not"
            f" know that {one.text} was committed: no in-sync set that it had led so far had asked for what"
            " follows"
        )
        producer = sent["producer_id"], sent["producer_epoch"]
        self._early(ENDED, one.log, one.offset, row, text, producer, one.transactional_id)

    # ---- producers

    def produced(self) -> None:
        """Each batch that was acknowledged with acks=all."""
        mine = self.seen.parts.filter(pc.equal(self.seen.parts["api"], PRODUCE))
        sent = mine.filter(pc.and_(pc.invert(mine["answer"]), pc.equal(mine["acks"], -1)))
        records: dict[tuple[object, ...], list[tuple[int, TableRow]]] = defaultdict(list)
        for row in sent.to_pylist():
            records[exchange(row)].append((row["records"], row))
        answered = mine.filter(pc.and_(mine["answer"], pc.equal(mine["error"], 0)))
        due: dict[tuple[TopicPartition, int], list[tuple[int, int, TableRow]]] = defaultdict(list)
        for row in answered.to_pylist():
            batches = [one for one in records.get(exchange(row), ()) if one[1]["number"] < row["number"]]
            tp = self.seen.tp(row)
            if batches and row["offset"] >= 0 and tp is not None:
                asked = batches[-1][1]
                last = row["offset"] + batches[-1][0] - 1
                due[tp, row["server"]].append((row["at_ns"], last, row | {"asked": asked}))
        for (tp, leader), some in due.items():
            self._replicated(tp, leader, some)

    def _replicated(self, tp: TopicPartition, leader: int, some: Sequence[tuple[int, int, TableRow]]) -> None:
        """Batches of a partition that a leader acknowledged: time, last offset, and the answer. Of a leader
        that was alone in sync by then nothing is asked."""
        lineage = self.seen.lineage(tp)
        if lineage.unknown or lineage.topics > 1:
            why = lineage.unknown or "several topics had its name, one after the other"
            self.result.leave_open(REPLICATED, tp, why)
            return
        ns = np.array([one[0] for one in some], np.int64) + CLOCK_NS
        wall = np.array([one[2]["ms"] for one in some], np.int64)
        last = np.array([one[1] for one in some], np.int64)
        explained, alone = np.zeros(len(some), np.bool_), np.zeros(len(some), np.bool_)
        led = [(ms, state) for ms, state in waited_for(lineage) if state.leader == leader]
        appended = self._appended(tp, led, some)
        for ms, state in led:
            fits = (wall + self.seen.apart_ms >= ms) & (state.leader_epoch >= appended)
            followers = {*state.isr} - {leader}
            for node in followers:
                fits &= self._has(tp, node, ns, last)
            explained |= fits
            if not followers:
                alone |= fits
        self.result.asked[REPLICATED] += int(np.count_nonzero(~alone)) if led else 0
        for at in np.flatnonzero(~explained).tolist() if led else ():
            row = some[at][2]
            asked = row["asked"]
            text = (
                f"node {leader} acknowledged {self.seen.when(row['at_ns'])} the batch"
                f" {asked['producer_id']}/{asked['producer_epoch']}, sequence {asked['sequence']}, at offsets"
                f" {row['offset']} to {int(last[at])} of {tp}, and no in-sync set that it had led so far had"
                " asked for what follows"
            )
            producer = asked["producer_id"], asked["producer_epoch"]
            self._early(REPLICATED, tp, row["offset"], row, text, producer)

    def _appended(
        self,
        tp: TopicPartition,
        led: Sequence[tuple[int, PartitionState]],
        some: Sequence[tuple[int, int, TableRow]],
    ) -> Array:
        """The leader epoch in which a leader appended each batch, by the log at the end; -1 = unknown. led:
        its states. Where that epoch began after the answer, the log has another batch in its place."""
        unknown = np.full(len(some), -1, np.int64)
        main = survivor(replicas(self.evidence, tp), self.seen.lineage(tp))
        if main is None or not main.ordered or not main.count:
            return unknown
        since: dict[int, int] = {}
        for ms, state in led:
            since.setdefault(state.leader_epoch, ms)
        at = np.searchsorted(main.whole["base"], [row["offset"] for _, _, row in some])
        here = np.minimum(at, main.count - 1)
        producers = ("producer_id", "producer_epoch")
        same = np.array(
            [[row["offset"], last, *(row["asked"][name] for name in producers)] for _, last, row in some]
        )
        held = np.stack([main.whole[name][here] for name in ("base", "last", *producers)], axis=1)
        epochs = main.whole["leader_epoch"][here]
        began = np.array([since.get(epoch, FOREVER) for epoch in epochs.tolist()], np.int64)
        wall = np.array([row["ms"] for _, _, row in some], np.int64)
        known = (held == same).all(axis=1) & (began <= wall + self.seen.apart_ms)
        return np.where(known, epochs, unknown)

    def _has(self, tp: TopicPartition, node: int, ns: Array, last: Array) -> Array:
        """Whether a replica had a record by a time: it had asked for what follows, or another one had asked
        it for that."""
        found = np.zeros(len(ns), np.bool_)
        for fetched in (self.seen.fetched.get((tp, node)), self.seen.asked.get((tp, node))):
            if fetched is not None:
                at = np.searchsorted(fetched.ns, ns, "right") - 1
                found |= (at >= 0) & (fetched.highest[np.maximum(at, 0)] > last)
        return found

    def closed(self) -> None:
        """Each answer to a Produce for it. A coordinator appends to its log without a request.

        Kafka would take it from a client with the id `__admin_client`, which no client of a run has."""
        parts = self.seen.parts
        answers = parts.filter(pc.and_(parts["answer"], pc.equal(parts["api"], PRODUCE)))
        ids = [one for one, name in self.seen.names.items() if name == TRANSACTION_TOPIC]
        by_id = pc.is_in(answers["topic_id"], pa.array(ids, pa.string()))
        by_name = pc.fill_null(pc.equal(answers["topic"], TRANSACTION_TOPIC), fill_value=False)
        mine = answers.filter(pc.or_(by_name, by_id))
        self.result.asked[CLOSED] += mine.num_rows
        for row in mine.filter(pc.equal(mine["error"], 0)).to_pylist():
            tp = TopicPartition(TRANSACTION_TOPIC, row["partition"])
            text = (
                f"{tp}: node {row['server']} acknowledged {self.seen.when(row['at_ns'])} to"
                f" {whom(row['client'])} what it had produced at offset {row['offset']}, and was not to"
                " take it."
            )
            self.result.refuse(
                LogFinding(
                    check=CLOSED,
                    log=tp,
                    offset=row["offset"],
                    take=-1,
                    nodes=(row["server"],),
                    text=text,
                    ms=row["ms"],
                )
            )

    # ---- connections

    def in_turn(self) -> None:
        """Each answer, connection by connection; of each only the first that is not due."""
        silent = self.seen.parts.filter(pc.equal(self.seen.parts["acks"], NO_ACKS))["number"].to_pylist()
        unanswered = set(silent)
        due: dict[int, deque[int]] = defaultdict(deque)
        wrong: set[int] = set()
        columns = ("connection", "number", "at_ns", "answer", "correlation", "client", "server")
        for row in zip(*(self.seen.frames[name].to_pylist() for name in columns), strict=True):
            connection, number, ns, answer, correlation, client, server = row
            if connection in wrong:
                continue
            if answer:
                self.result.asked[IN_TURN] += 1
                if due[connection] and due[connection][0] == correlation:
                    due[connection].popleft()
                    continue
                wrong.add(connection)
                first = f"{due[connection][0]} was due" if due[connection] else "no request waited for one"
                text = f"node {server} sent {whom(client)} {self.seen.when(ns)} the answer to request"
                self._not_due(connection, server, f"{text} {correlation} of connection {connection}; {first}")
            elif number not in unanswered:
                due[connection].append(correlation)

    def _not_due(self, connection: int, server: int, text: str) -> None:
        for gap in self.seen.gaps:
            if gap["connection"] in (ALL, connection):
                self.result.leave_open(
                    IN_TURN, NOWHERE, f"{text}; messages may have been missed: {gap['why']}"
                )
                return
        self.result.refuse(
            LogFinding(check=IN_TURN, log=NOWHERE, offset=-1, take=-1, nodes=(server,), text=f"{text}.")
        )

    def _early(
        self,
        rule: str,
        tp: TopicPartition,
        offset: int,
        row: TableRow,
        text: str,
        producer: tuple[int, int],
        transactional_id: str = "",
    ) -> None:
        """A finding, unless a Fetch may have been missed, or be of this topic, or the leaders are unknown."""
        doubt = self.seen.lineage(tp).unknown
        if self.seen.unnamed:
            doubt = doubt or f"messages name a topic by an id that no log has, {min(self.seen.unnamed)}"
        for gap in self.seen.gaps:
            since = gap["at_ns"] - CLOCK_NS
            if since <= row["at_ns"] and (gap["connection"] == ALL or gap["client"] != CLIENT):
                doubt = doubt or f"messages may have been missed: {gap['why']}"
        if doubt:
            self.result.leave_open(rule, tp, f"{text}; {doubt}")
            return
        self.result.refuse(
            LogFinding(
                check=rule,
                log=tp,
                offset=offset,
                take=-1,
                nodes=(row["client"] if row["client"] != CLIENT else row["server"],),
                text=f"{tp}: {text}.",
                producer_id=producer[0],
                producer_epoch=producer[1],
                transactional_id=transactional_id,
                ms=row["ms"],
            )
        )
