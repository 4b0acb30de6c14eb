"""Ring 3, transactions: the coordinators' log decides and the markers of partitions obey.

How records and markers find their transaction. From transaction version 2 on each transaction has producer
epochs of its own. Before that a producer's transactions share one, and times tell them apart: a client has
its answer before it begins the next transaction, so that a transaction's records are younger than the
decision before it and no younger than its own, and its markers are no older than its decision. That takes one
clock of all nodes and clients: what happened where it was set back is a doubt, and where there are several,
what is not certain without times (`checkers.logs.untimed`). And it takes records with the time of their
making: where a producer may copy times, decisions and markers alone are compared. At the very millisecond of
a decision the order of the log says which: a marker ends what stands before it.

Where a broker stamps records with the time of the append (offsets of groups, topics with LogAppendTime), a
request that came late may be younger than the decision of its transaction. Until the coordinator has
completed that one, the next has no records; so the order of the log says which up to then.

Logs that may have lost what was committed (an unclean election, a loss of power) make doubts, not findings.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Container, Sequence
from typing import Final

import numpy as np

from checkers.engine.check import Tally, WholeRun
from checkers.engine.findings import Found, LogFinding
from checkers.logs import untimed
from checkers.logs.classes import HANGING, LOST_DECISION, TORN_DECISION
from checkers.logs.clocks import COPIED, StepBack, nodes_apart_ms, own_clocks, steps_back, timely
from checkers.logs.elections import Elections, elections, survivor
from checkers.logs.markers import Ended, Marker, earliest, markers_of
from checkers.logs.replicas import ReplicaLog, replicas
from checkers.logs.rule import Rule, checks_of
from checkers.logs.transactions import NEVER, PREPARED, Transaction, TransactionLogs, transaction_logs
from core.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC
from core.op import TopicPartition
from history.columns import Array
from history.evidence import Evidence

DECIDED: Final = "marker-decided"
COORDINATOR_EPOCH: Final = "marker-coordinator"
AGREE: Final = "decisions-agree"
MARKED: Final = "partitions-marked"
NAMED: Final = "partitions-named"
RULES: Final = {
    DECIDED: Rule(
        "Each marker in a partition has its PrepareCommit or PrepareAbort in `__transaction_state`: of this"
        " producer id, marker epoch and result, with this partition.",
        "KIP-98, KIP-890; TransactionMarkerChannelManager",
        LOST_DECISION,
        rests_on=(TRANSACTION_TOPIC,),
    ),
    COORDINATOR_EPOCH: Rule(
        "The coordinator epoch of a marker is a leader epoch of the transactional id's partition of"
        " `__transaction_state`, not before the one of the decision.",
        "KIP-98; TransactionStateManager.loadTransactionsForTxnTopicPartition",
        rests_on=(TRANSACTION_TOPIC,),
    ),
    AGREE: Rule(
        "A transaction ends in all of its partitions by markers of one result.",
        "KIP-98",
        TORN_DECISION,
        rests_on=(TRANSACTION_TOPIC,),
    ),
    MARKED: Rule(
        "Each partition that a completed transaction names has a marker of its result; where the beginning of"
        " its log may be gone, behind the records that are left.",
        "KIP-98; KAFKA-20734",
        HANGING,
        rests_on=(TRANSACTION_TOPIC,),
    ),
    NAMED: Rule(
        "A transaction's decision names each partition that has records of the transaction.",
        "KIP-98, KIP-890 (AddPartitionsToTxn, verification)",
        HANGING,
        rests_on=(TRANSACTION_TOPIC,),
    ),
}


def join(run: WholeRun, result: Tally) -> None:
    """Apply the rules to the whole of the evidence. Of the history, only clocks count."""
    steps = steps_back(run.history) if run.history else []
    apart_ms, clocks = nodes_apart_ms(run.history), own_clocks(run.history)
    found = _Decisions(run.evidence, result, steps, apart_ms, clocks, timely(run.history))
    for tp in run.evidence.partitions():
        if not tp.topic.startswith("__") or tp.topic == GROUP_TOPIC:
            found.partition(tp)
    found.agree()
    found.marked()
    found.unproven()


CHECKS: Final = checks_of(RULES, ring=3, join=join)


_UNKNOWN: Final = "what transaction the records there belong to is not known"
_WANTED: Final = ("base", "producer_id", "producer_epoch", "base_timestamp", "log_append_time")


class _Decisions:
    def __init__(
        self,
        evidence: Evidence,
        result: Found,
        steps: Sequence[StepBack],
        apart_ms: float,
        own_clocks: str,
        timely: Container[str],
    ) -> None:
        self.evidence = evidence
        self.result = result
        self.steps = steps
        self.apart_ms = apart_ms
        self.own_clocks = own_clocks
        self.timely = timely
        self.undated: set[tuple[TopicPartition, int]] = set()
        """Where a producer's records may have the times of others."""
        self.copied: set[tuple[TopicPartition, int]] = set()
        """Those where nothing else tells its transactions apart."""
        self.markers: Counter[tuple[TopicPartition, int, int, bool]] = Counter()
        """How many a partition has of a producer id, an epoch and a result."""
        self.shared: dict[TopicPartition, tuple[int, str]] = {}
        """Partition -> a producer there whose transactions only times tell apart, and why those do not."""
        self.logs: TransactionLogs = evidence.once(transaction_logs)
        self.epochs = {tp: elections(evidence, tp) for tp in self.logs.logs}
        self.lineage: dict[TopicPartition, Elections] = {}
        self.replicas: dict[TopicPartition, ReplicaLog] = {}
        self.ends: dict[tuple[int, int], dict[TopicPartition, Ended]] = defaultdict(dict)
        self.own: dict[tuple[int, int, bool], list[tuple[int, int]]] = defaultdict(list)
        for producer_id, every in self.logs.of.items():
            for number, one in enumerate(every):
                for decision in one.decisions:
                    known = self.own[producer_id, decision.epoch, decision.commit]
                    known.append((decision.ms, number))

    # ---- one partition

    def partition(self, tp: TopicPartition) -> None:
        """Its markers and its transactional records."""
        lineage = elections(self.evidence, tp)
        log = survivor(replicas(self.evidence, tp), lineage)
        if log is None:
            return
        self.replicas[tp] = log
        self.lineage[tp] = lineage
        markers = defaultdict(list)
        for marker in markers_of(self.evidence, tp, log):
            markers[marker.producer_id].append(marker)
            self.markers[tp, marker.producer_id, marker.epoch, marker.commit] += 1
        batches = log.whole
        data = batches["transactional"] & ~batches["control"]
        producers = np.unique(batches["producer_id"][data]).tolist()
        for producer_id in sorted({*producers, *markers}):
            mine = markers.get(producer_id, [])
            rows = np.flatnonzero(data & (batches["producer_id"] == producer_id))
            own = {name: batches[name][rows] for name in _WANTED}
            every = self.logs.of.get(producer_id, [])
            made = tp.topic == GROUP_TOPIC or bool(own["log_append_time"].all())
            made = made or all(one.transactional_id in self.timely for one in every)
            if not made:
                self.undated.add((tp, producer_id))
                if not untimed.told_apart(every):
                    self.copied.add((tp, producer_id))
            if why := self._untimed(tp, producer_id):
                self.shared[tp] = producer_id, why
            self._producer(tp, producer_id, own, mine)

    def _untimed(self, tp: TopicPartition, producer_id: int) -> str:
        """Why only times tell its transactions apart there, and cannot, "" = it is not so."""
        if self.own_clocks and not untimed.told_apart(self.logs.of.get(producer_id, [])):
            return self.own_clocks
        return COPIED if (tp, producer_id) in self.copied else ""

    def _producer(
        self, tp: TopicPartition, producer_id: int, batches: dict[str, Array], markers: Sequence[Marker]
    ) -> None:
        """The markers, and then the transactional batches, of one producer in a partition."""
        every = self.logs.of.get(producer_id, [])
        stamped = batches["log_append_time"] | (tp.topic == GROUP_TOPIC)
        copied = (tp, producer_id) in self.copied
        owner, tie = earliest(every, batches, stamped, timed=not (self.own_clocks or copied))
        closing = np.searchsorted([marker.offset for marker in markers], batches["base"])
        closes = np.full(len(markers) + 1, -1)
        np.maximum.at(closes, closing, owner)
        made = np.full(len(markers) + 1, NEVER)
        undated = (tp, producer_id) in self.undated
        np.minimum.at(made, closing, np.where(stamped | undated, 0, batches["base_timestamp"]))
        if copied:  # a marker and its decision find each other by the times of brokers alone
            closes[:] = -1
        ended = [self._decided(marker, int(closes[at]), int(made[at])) for at, marker in enumerate(markers)]
        for at in np.flatnonzero(tie >= 0).tolist():
            before, after, end = int(owner[at]), int(tie[at]), int(closing[at])
            if end < len(markers) and ended[end] >= 0:
                later = ended[end] == after
            else:
                later = before in ended[:end] or tp not in every[before].named
            owner[at] = after if later else before
        self._records(tp, batches, every, owner, closing, markers)

    def _decided(self, marker: Marker, closes: int, made_ms: int) -> int:
        """A marker and its decision; returns its transaction, -1 = none. closes: the newest transaction whose
        records it ends, -1 = none: only where it ends none it may repeat a marker of an older one. made_ms:
        when a client made the first of these, 0 = unknown, NEVER = there is none."""
        every = self.logs.of.get(marker.producer_id, [])
        own = self.own.get((marker.producer_id, marker.epoch, marker.commit), [])
        timeless = self.own_clocks and not self._untimed(marker.tp, marker.producer_id)
        before = len(own) if timeless else bisect_right(own, (marker.ms, NEVER))
        same = [
            number
            for _, number in reversed(own[:before])
            if number >= closes and any(marker.tp in one.partitions for one in every[number].decisions)
        ]
        self.result.asked[DECIDED] += 1
        if not same:
            self._undecided(marker, every, made_ms)
            return -1
        number = same[0]
        if every[number].decided_ms == marker.ms and len(same) > 1:
            older = self._ended(every[same[1]], same[1], marker.tp)
            number = number if older.own else same[1]
        one = every[number]
        self._ended(one, number, marker.tp).own.append(marker)
        newest_epoch = self.epochs[one.log].last
        last = newest_epoch.epoch if newest_epoch else NEVER
        first = min(each.leader_epoch for number in same for each in every[number].decisions)
        first = self.epochs[one.log].led_since(first)
        self.result.asked[COORDINATOR_EPOCH] += 1
        if not first <= marker.coordinator_epoch <= last:
            text = (
                f"{marker.text} is by coordinator epoch {marker.coordinator_epoch}, its decision is"
                f" {one.decisions[-1].text}"
            )
            text += f", the newest leader epoch there is {last}" if newest_epoch else ""
            if unknown := self.epochs[one.log].unknown:
                self.result.leave_open(COORDINATOR_EPOCH, marker.tp, f"{text}; {unknown}")
                return number
            producer = (one.producer_id, one.epoch)
            self._refuse(
                COORDINATOR_EPOCH, marker.tp, marker.offset, one, text,
                ms=marker.ms, producer=producer, sure=not self.own_clocks,
            )  # fmt: skip
        return number

    def _undecided(self, marker: Marker, every: Sequence[Transaction], made_ms: int) -> None:
        before = [one for one in every if one.decided_ms <= marker.ms]
        owner = every[min(len(before), len(every) - 1)] if every else None
        log = owner.log if owner else None
        states = [name for name, commit in PREPARED.items() if commit is marker.commit]
        lost = self.logs.witness(marker.producer_id, states)
        own = (marker.producer_id, marker.epoch, marker.commit) in self.own
        what = "decisions like it are of other transactions" if own else "no decision is like it"
        text = f"{marker.text} (coordinator epoch {marker.coordinator_epoch}) is undecided: {what}"
        text += " in __transaction_state"
        if lost:
            text += f"; {lost}: a coordinator acted upon a decision that was not committed"
        state = "; ".join(one.text for t in before[-1:] for one in t.decisions)
        since_ms = 0 if made_ms == NEVER else made_ms - self.apart_ms
        sure = not self.own_clocks or untimed.undecided(every, marker)
        if doubt := self.logs.doubt(log, since_ms=since_ms):
            self.result.leave_open(DECIDED, marker.tp, f"{text}; {doubt}")
        else:
            producer = (marker.producer_id, marker.epoch)
            where = marker.tp, marker.offset
            self._refuse(DECIDED, *where, owner, text, state, ms=marker.ms, producer=producer, sure=sure)

    def _ended(self, one: Transaction, number: int, tp: TopicPartition) -> Ended:
        ends = self.ends[one.producer_id, number]
        return ends.setdefault(tp, Ended(own=[], closed=[]))

    # ---- records

    def _records(
        self,
        tp: TopicPartition,
        batches: dict[str, Array],
        every: Sequence[Transaction],
        owner: Array,
        closing: Array,
        markers: Sequence[Marker],
    ) -> None:
        """Batches, transaction by transaction. owner: index of each one's transaction, -1 = none. closing: of
        the marker after it."""
        self.result.asked[NAMED] += len(owner)
        base = batches["base"]
        pairs, first = np.unique(np.stack([owner, closing]), axis=1, return_index=True)
        for (number, closed), at in zip(pairs.T.tolist(), first.tolist(), strict=True):
            marker = markers[closed] if closed < len(markers) else None
            if number < 0:
                self._unnamed(tp, batches, at, every, marker)
                continue
            rows = np.flatnonzero((owner == number) & (closing == closed))
            ended = self._ended(every[number], number, tp)
            low, high = int(base[rows[0]]), int(base[rows[-1]])
            ended.first = low if ended.first < 0 else ended.first
            ended.last = high
            if marker is not None:
                ended.closed.append(marker)
            else:
                ended.open = low
            if tp not in every[number].named:
                self._unnamed(tp, batches, int(rows[0]), every, marker, number)

    def _unnamed(
        self,
        tp: TopicPartition,
        batches: dict[str, Array],
        at: int,
        every: Sequence[Transaction],
        marker: Marker | None,
        number: int = -1,
    ) -> None:
        """Records of a transaction that the log does not know, or not with this partition."""
        owner = every[number] if number >= 0 else None
        if owner is not None and owner.decided_ms == NEVER:
            return
        offset, epoch = int(batches["base"][at]), int(batches["producer_epoch"][at])
        producer_id = int(batches["producer_id"][at])
        if owner is None:
            text = f"no transaction of __transaction_state has the records {producer_id}/{epoch} from offset"
            text += f" {offset} of {tp} on"
        else:
            names = "; ".join(one.text for one in owner.decisions)
            text = f"{owner.text} has records from offset {offset} of {tp} on, and its decision does not name"
            text += f" this partition: {names}"
        ends = (
            f"{marker.text} ends them" if marker else "no marker ends them, and the last stable offset stays"
        )
        text += f"; {ends}"
        log = owner.log if owner else (every[0].log if every else None)
        if lost := self.logs.witness(producer_id, ["Ongoing"], tp):
            text += f"; {lost}: a coordinator answered from a record that was not committed"
        state = "; ".join(one.text for t in every[max(0, number - 1) : number + 1] for one in t.decisions)
        ms = int(batches["base_timestamp"][at])
        made = not (batches["log_append_time"][at] or tp.topic == GROUP_TOPIC)
        made = made and (tp, producer_id) not in self.undated
        if doubt := self.logs.doubt(log, since_ms=ms - self.apart_ms if made else 0):
            self.result.leave_open(NAMED, tp, f"{text}; {doubt}")
        else:
            finding_of = owner or (every[-1] if every else None)
            sure, producer = untimed.unnamed(every, epoch, tp), (producer_id, epoch)
            self._refuse(NAMED, tp, offset, finding_of, text, state, ms=ms, producer=producer, sure=sure)

    # ---- whole transactions

    def agree(self) -> None:
        """One result in all partitions."""
        for (producer_id, number), ends in sorted(self.ends.items()):
            one = self.logs.of[producer_id][number]
            markers = [
                marker
                for tp, ended in ends.items()
                for marker in (*(() if (tp, producer_id) in self.copied else ended.closed), *ended.own)
            ]
            self.result.asked[AGREE] += len(ends) > 1
            if len({marker.commit for marker in markers}) < 2:
                continue
            wanted = one.decisions[-1].commit if one.decisions else None
            wrong = next((marker for marker in markers if marker.commit != wanted), markers[0])
            right = next(marker for marker in markers if marker.commit != wrong.commit)
            text = f"{one.text} ends by {right.text} and by {wrong.text}"
            if one.decisions:
                text += f"; its decision is {one.decisions[-1].text}"
            states = [name for name, commit in PREPARED.items() if commit is wrong.commit]
            if lost := self.logs.witness(producer_id, states):
                text += f"; {lost}: a coordinator acted upon a decision that was not committed"
            elif wrong not in ends[wrong.tp].own:
                text += "; it had no marker of its own there: a later one ended its records"
            self._lossy(AGREE, one, wrong.tp, wrong.offset, text, sure=not self.own_clocks)

    def marked(self) -> None:
        """A marker in each partition."""
        for _, every in sorted(self.logs.of.items()):
            for number, one in enumerate(every):
                if one.decisions:
                    self._marked(one, every, number)

    def _marked(self, one: Transaction, every: Sequence[Transaction], number: int) -> None:
        ends, decision = self.ends.get((one.producer_id, number), {}), one.decisions[-1]
        for tp in sorted(decision.partitions & self.replicas.keys()):
            lineage, log = self.lineage[tp], self.replicas[tp]
            ended = ends.get(tp) or Ended(own=[], closed=[])
            begin = max(log.start, log.compacted)
            whole = not begin and lineage.topics == 1
            known = whole or ended.last >= begin  # its marker stands behind its records
            if lineage.removed or (not ended.own and not known and _of_an_older_topic(one, lineage)):
                continue
            self.result.asked[MARKED] += 1
            if ended.own:
                self._late(one, tp, ended, decision.text, untimed.ended(every))
                continue
            text = f"no marker of {one.text}, which names this partition: {decision.text}"
            if not known:
                why = f"the log was cleaned, or removed, up to offset {begin}"
                why = why if begin else "the topic was deleted, and created again"
                self.result.leave_open(MARKED, tp, f"{text}; {why}")
                continue
            if one.completed < 0:
                self.result.leave_open(MARKED, tp, f"{text}; the coordinator has not completed it")
                continue
            text += f", completed at offset {one.completed}: the marker was left out"
            if gap := lineage.without_leader(decision.ms, one.completed_ms):
                text += f"; {gap} (KAFKA-20734)"
            text += self._its_records(one, tp, ended)
            markers = self.markers[tp, one.producer_id, decision.epoch, decision.commit]
            sure = whole and (not self.own_clocks or untimed.unmarked(every, decision, tp, markers))
            self._lossy(MARKED, one, tp, ended.first, text, sure=sure)

    def _its_records(self, one: Transaction, tp: TopicPartition, ended: Ended) -> str:
        if why := self._untimed(tp, one.producer_id):
            return f"; {_UNKNOWN}: {why}"
        if ended.first < 0:
            return "; it has no records there"
        ends = f", and {ended.closed[0].text} ends them" if ended.closed else ""
        return f"; its records begin at offset {ended.first}{ends}"

    def unproven(self) -> None:
        """Where nothing is certain, silence is none either."""
        for tp, (producer_id, why) in self.shared.items():
            for rule in (DECIDED, AGREE, MARKED, NAMED):
                text = f"transactions of producer {producer_id} share an epoch, and times tell them apart"
                self.result.leave_open(rule, tp, f"{text}; {why}")

    def _late(self, one: Transaction, tp: TopicPartition, ended: Ended, decision: str, sure: bool) -> None:
        """Records after the marker of their transaction."""
        log = self.replicas[tp]
        if ended.open >= max(log.start, log.compacted) and one.completed >= 0:
            where = f"from offset {ended.open} of {tp} on"
            text = f"records of {one.text} are open {where}, after {ended.own[-1].text}; its decision is"
            text += f" {decision}: the records came after the end of their transaction (KAFKA-14402)"
            if why := self._untimed(tp, one.producer_id):
                text = f"no marker ends the records of producer {one.producer_id} {where}; {_UNKNOWN}: {why}"
            self._lossy(MARKED, one, tp, ended.open, text, sure=sure)

    # ---- answers

    def _lossy(
        self, rule: str, one: Transaction, tp: TopicPartition, offset: int, text: str, *, sure: bool = False
    ) -> None:
        """A finding, unless the partition may have lost the marker, or the log the decision. sure: as of
        `_refuse`."""
        lineage, since_ms = self.lineage[tp], one.began_ms - self.apart_ms
        doubt = self.logs.doubt(one.log, since_ms=since_ms) or lineage.may_lose(since_ms=since_ms)
        doubt = doubt or lineage.lacks(self.replicas[tp])
        if doubt:
            self.result.leave_open(rule, tp, f"{text}; {doubt}")
        else:
            decided = "; ".join(each.text for each in one.decisions)
            producer = (one.producer_id, one.epoch)
            ms = one.began_ms
            self._refuse(rule, tp, offset, one, text, decided, ms=ms, producer=producer, sure=sure)

    def _refuse(
        self,
        rule: str,
        tp: TopicPartition,
        offset: int,
        one: Transaction | None,
        text: str,
        before: str = "",
        *,
        ms: int,
        producer: tuple[int, int],
        sure: bool = False,
    ) -> None:
        """A finding, unless the clock was set back while it happened, or nodes have several. producer: id and
        epoch. sure: it is one whatever their times are."""
        why = "" if sure else self._untimed(tp, producer[0])
        if why:
            self.result.leave_open(rule, tp, f"{text}; {why}")
            return
        times = [ms, *(() if one is None else (one.began_ms, one.decided_ms, one.completed_ms))]
        known = [at for at in times if 0 <= at < NEVER]
        for step in self.steps:
            if known and min(known) <= step.last_ms and max(known) >= step.first_ms:
                self.result.leave_open(rule, tp, f"{text}; {step.text}")
                return
        log = self.replicas[tp]
        self.result.refuse(
            LogFinding(
                check=rule,
                log=tp,
                offset=offset,
                take=log.take,
                nodes=(log.node,),
                text=f"{tp}: {text}.",
                before=before,
                producer_id=producer[0],
                producer_epoch=producer[1],
                transactional_id=one.transactional_id if one else "",
                ms=ms,
            )
        )


def _of_an_older_topic(one: Transaction, lineage: Elections) -> bool:
    """It was complete before the newest topic of the partition's name was there."""
    return lineage.topics > 1 and bool(lineage.states) and 0 <= one.completed_ms < lineage.states[0][0]
