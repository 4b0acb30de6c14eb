"""Ring 0: what the files of brokers say of one partition agrees, replica with replica and file with log.

No model and no client is asked. Producer snapshots and the index of aborted transactions are compared with
the batches by the acceptors of ring 1.

What a node that died leaves behind may be cut off at its end; recovery truncates it there. Files of a node
that still ran when they were read may lack their newest bytes: there a doubt takes the place of a finding.
"""

import re
from collections import Counter
from collections.abc import Iterable
from itertools import combinations
from typing import Final

import numpy as np

from checkers.engine.findings import PartitionResult
from checkers.logs.classes import DAMAGED, DIVERGENCE
from checkers.logs.elections import METADATA, elections
from checkers.logs.replicas import (
    Comparison,
    ReplicaLog,
    compare,
    finding,
    last_take,
    newest,
    of_one_topic,
    replicas,
)
from checkers.logs.rule import Rule, checks_of
from core.op import TopicPartition
from history.evidence import Evidence
from history.evidence_tables import LOST_POWER
from history.tables import TableRow

INTACT: Final = "batches-intact"
DENSE: Final = "offsets-dense"
EPOCHS_RISE: Final = "epochs-rise"
EPOCH_CHECKPOINT: Final = "epoch-checkpoint"
ENDS: Final = "ends-within-log"
MATCHING: Final = "log-matching"
COMMITTED: Final = "replicas-equal"

RULES: Final = {
    INTACT: Rule(
        "Each batch has the checksum of its bytes, and each file of a partition can be read as a whole;"
        " what a death has cut off is the end of a log's last file.",
        "KIP-98; LogSegment.recover",
        DAMAGED,
    ),
    DENSE: Rule(
        "Each batch of a log begins at the offset after the batch before it, and has as many records as"
        " offsets, where the log was not compacted.",
        "UnifiedLog.append; LogCleaner",
        DAMAGED,
    ),
    EPOCHS_RISE: Rule("Leader epochs do not fall along a log.", "KIP-101, KIP-279"),
    EPOCH_CHECKPOINT: Rule(
        "`leader-epoch-checkpoint` has each leader epoch of a log's batches, and the offset of its first"
        " one.",
        "KIP-101; LeaderEpochFileCache",
        DAMAGED,
    ),
    ENDS: Rule(
        "High watermark, recovery point and log start of a log, as the checkpoints of its broker have them,"
        " are not beyond the log's end.",
        "LogManager.checkpointRecoveryOffsetsInDir; ReplicaManager.checkpointHighWatermarks",
        DAMAGED,
    ),
    MATCHING: Rule(
        "Two logs of a partition that have a batch of the same offset and leader epoch hold the same"
        " batches up to it, at any time.",
        "KIP-101, KIP-279; Raft, 5.3",
        DIVERGENCE,
    ),
    COMMITTED: Rule(
        "Replicas hold the same batches below their high watermarks, and in-sync ones all batches below the"
        " newest of them.",
        "KIP-101; Partition.maybeIncrementLeaderHW",
        DIVERGENCE,
    ),
}

SEGMENT: Final = re.compile(r"([0-9]{20})\.log(\.swap)?")
"""A segment, also one that the cleaner had written and the broker had not renamed when it ended."""
COORDINATES: Final = ("replication", "recovery-point", "log-start")
"""Checkpoints that name an offset of the log."""


def kernel(evidence: Evidence, tp: TopicPartition, result: PartitionResult) -> None:
    """Apply the rules to one partition."""
    audit = _Audit(evidence, tp, result)
    for log in audit.logs:
        audit.intact(log)
        audit.readable(log)
        audit.dense(log)
        audit.epochs_rise(log)
        audit.epoch_checkpoint(log)
        audit.ends(log)
    audit.matching()
    audit.committed()


CHECKS: Final = checks_of(RULES, ring=0, log_kernel=kernel)


class _Audit:
    def __init__(self, evidence: Evidence, tp: TopicPartition, result: PartitionResult) -> None:
        self.tp = tp
        self.evidence = evidence
        self.logs = replicas(evidence, tp)
        self.result = result

    # ---- one log

    def intact(self, log: ReplicaLog) -> None:
        """Checksums."""
        every = log.every
        self.result.asked[INTACT] += len(every["base"])
        for at in np.flatnonzero(~every["intact"]).tolist():
            offset, last = int(every["base"][at]), at == len(every["base"]) - 1
            text = f"{log.where()}: the batch at offset {offset} has not the checksum of its bytes"
            self._torn(log, offset, text, cut=last and self._is_last(log, int(every["segment"][at])))

    def readable(self, log: ReplicaLog) -> None:
        """Files of the partition that could not be read as a whole."""
        every = log.every
        for file, row in self._damaged(log):
            name = SEGMENT.fullmatch(file)
            text = f"{log.where()}: {row['file']} at byte {row['position']}: {row['why']}"
            if name is None:
                self.result.asked[INTACT] += 1
                self._torn(log, -1, text, cut=True)
                continue
            segment = int(name[1])
            mine = every["segment"] == segment
            if not (every["position"][mine] == row["position"]).any():  # other rules speak of batches
                end = int(every["last"][mine][-1]) + 1 if mine.any() else segment
                self._torn(log, end, text, cut=self._is_last(log, segment))

    def _damaged(self, log: ReplicaLog) -> list[tuple[str, TableRow]]:
        """Damage in files of a log's folder, by their names."""
        folder, found = f"{self.tp.topic}-{self.tp.partition}", []
        for row in self.evidence.table("damage").to_pylist():
            place, _, file = row["file"].rpartition("/")  # of a further log directory, its name in front
            if (row["take"], row["node"]) == (log.take, log.node) and place.rpartition("/")[2] == folder:
                found.append((file, row))
        return found

    def _is_last(self, log: ReplicaLog, segment: int) -> bool:
        """Whether a segment is the last one of a log. One that shows no batch and no damage is empty, and the
        last one: the log was about to grow there. (Or it is one that the cleaner has emptied.)"""
        names = (SEGMENT.fullmatch(file) for file, _ in self._damaged(log))
        shown = {*log.every["segment"].tolist(), *(int(name[1]) for name in names if name)}
        return max(shown) <= segment and (log.files <= len(shown) or log.compacted > 0)

    def _torn(self, log: ReplicaLog, offset: int, text: str, *, cut: bool) -> None:
        """cut: it is the end of a file that grows."""
        # A loss of power takes what was not flushed, in any file.
        cut |= log.why == LOST_POWER and offset >= log.marks.get("recovery-point", 0)
        if not cut or (not log.died and log.clean):
            self._refuse(INTACT, offset, [log], text)
        elif not log.died:
            self.result.leave_open(
                INTACT, self.tp, f"{text}; the node may have written there when its files were read"
            )

    def dense(self, log: ReplicaLog) -> None:
        """No gaps and no overlaps."""
        every = log.every
        base, last, intact = every["base"], every["last"], every["intact"]
        whole = intact[1:] & intact[:-1] & (base[1:] > log.compacted)
        self.result.asked[DENSE] += int(whole.sum())
        for at in np.flatnonzero(whole & (base[1:] != last[:-1] + 1)).tolist():
            text = f"the batch at offset {base[at + 1]} follows the one that ends with offset {last[at]}"
            self._refuse(DENSE, int(base[at + 1]), [log], f"{log.where()}: {text}")
        if log.cleaned:
            text = f"{log.where()} lacks offsets below {log.cleaned} that its cleaner has not noted"
            self.result.leave_open(
                DENSE, self.tp, f"{text}; the topic is compacted, and the cleaner may have been stopped"
            )
        many = intact & (every["records"] != last - base + 1) & (base >= log.compacted)
        for at in np.flatnonzero(many).tolist():
            text = f"the batch of offsets {base[at]} to {last[at]} has {every['records'][at]} records"
            self._refuse(DENSE, int(base[at]), [log], f"{log.where()}: {text}")
        if len(base) and intact[0] and base[0] > max(log.start, log.compacted) and log.start >= 0:
            text = f"the segment that is named for offset {log.start} begins with offset {base[0]}"
            self._refuse(DENSE, int(base[0]), [log], f"{log.where()}: {text}")

    def epochs_rise(self, log: ReplicaLog) -> None:
        """Leader epochs along the log."""
        some = log.whole["leader_epoch"] >= 0  # a log may have old formats before the newer one, or behind it
        if not some.any():
            return
        base, epoch = log.whole["base"][some], log.whole["leader_epoch"][some]
        self.result.asked[EPOCHS_RISE] += max(0, len(epoch) - 1)
        for at in np.flatnonzero(epoch[1:] < epoch[:-1]).tolist():
            text = f"leader epoch {epoch[at + 1]} at offset {base[at + 1]} follows leader epoch {epoch[at]}"
            self._refuse(EPOCHS_RISE, int(base[at + 1]), [log], f"{log.where()}: {text}")

    def epoch_checkpoint(self, log: ReplicaLog) -> None:
        """`leader-epoch-checkpoint` against the batches."""
        rule = EPOCH_CHECKPOINT
        if not log.epochs:
            if log.has_epochs:
                self.result.leave_open(rule, self.tp, f"{log.where()} has no leader-epoch-checkpoint")
            return
        some = log.whole["leader_epoch"] >= 0
        epochs, first = np.unique(log.whole["leader_epoch"][some], return_index=True)
        # DeleteRecords moves the first entry with the log start; the batches stay until their segment goes.
        begin, deleted = min(log.epochs.values()), log.marks.get("log-start", 0)
        doubt = elections(self.evidence, self.tp).of_namesake(log, "log-start") if deleted else ""
        deleted = 0 if doubt else deleted
        moved = log.count and not log.clean and begin > max(deleted, log.epochs_begin)
        if moved and self._deleted_elsewhere(log):
            # The checkpoint of log starts is written once a minute and at a clean shutdown.
            text = f"{log.where()}: the first entry of leader-epoch-checkpoint is of offset {begin}"
            self.result.leave_open(rule, self.tp, f"{text}; records before it were deleted, perhaps")
            deleted = begin
        bases = np.maximum(log.whole["base"][some][first], deleted).tolist()
        gone = sum(base == bases[at + 1] for at, base in enumerate(bases[:-1]))
        epochs, bases = epochs[gone:], bases[gone:]
        self.result.asked[rule] += len(bases)
        for at, (epoch, base) in enumerate(zip(epochs.tolist(), bases, strict=True)):
            start = log.epochs.get(epoch)
            older = start is not None and start < base
            if start == base or (older and (base <= log.compacted or (at == 0 and log.start > 0))):
                continue
            written = "leaves it out" if start is None else f"says offset {start}"
            text = f"leader epoch {epoch} begins with offset {base}; leader-epoch-checkpoint {written}"
            cut = start is not None and start > base and start in self._cut_by_power(log)
            excuse = "a loss of power cut its log there" if cut else doubt
            self._refuse(rule, base, [log], f"{log.where()}: {text}", excuse)
        # Before 2.1 (KAFKA-7415) an epoch without a record kept its entry beside the next one of that offset.
        superseded = {start for start, many in Counter(log.epochs.values()).items() if many > 1}
        newest = max(log.epochs)
        for epoch, start in log.epochs.items():
            if (
                epoch in epochs
                or (start in superseded and epoch != newest)
                or start >= log.end
                or start < max(bases[:1], default=0)
                or start < log.compacted
            ):
                continue
            text = f"leader-epoch-checkpoint has leader epoch {epoch} from offset {start}, no batch has it"
            # A follower truncates its epochs in memory first (truncateFromEndAsyncFlush).
            excuse = "it died before it wrote the file again, perhaps" if log.died else doubt
            self._refuse(rule, start, [log], f"{log.where()}: {text}", excuse)

    def _cut_by_power(self, log: ReplicaLog) -> set[int]:
        """Ends of this log after losses of power.

        Until it has heard of its successor, the node leads its last epoch again, from there on. Then it
        fetches a batch of an older epoch, whose entry replaces the one of that offset, and its own before
        (LeaderEpochFileCache.assign).
        """
        mine = [one for one in self.logs if one.node == log.node and one.take < log.take]
        return {one.end for one in mine if one.why == LOST_POWER}

    def _deleted_elsewhere(self, log: ReplicaLog) -> bool:
        """Whether the log of another node shows, too, that records were deleted: that of the leader, which
        deletes first, where it was taken at the same time. A node that died may have heard of it first, and
        where there is no other log nothing can show it."""
        others = [one for one in self.logs if one.node != log.node and one.count and one.epochs]
        last = elections(self.evidence, self.tp).last
        led = [one for one in others if last and (one.node, one.take) == (last.leader, log.take)]
        starts = [
            (max(min(one.epochs.values()), one.marks.get("log-start", 0)), one) for one in led or others
        ]
        return log.died or not others or any(start > one.epochs_begin for start, one in starts)

    def ends(self, log: ReplicaLog) -> None:
        """Checkpoints of offsets against the end of the log."""
        for name in COORDINATES:
            if name not in log.marks or (log.died and name != "replication"):
                continue  # what died had more, or truncated a moment before
            self.result.asked[ENDS] += 1
            if log.marks[name] <= log.end:
                continue
            text = f"{log.where()}: the log ends at offset {log.end}, its {name} checkpoint says"
            text += f" {log.marks[name]}"
            # A high watermark is on disk at once; what it speaks of is there when the system flushes it.
            lineage = elections(self.evidence, self.tp)
            self._refuse(ENDS, log.end, [log], text, lineage.behind(log, name))

    # ---- logs against each other

    def matching(self) -> None:
        """Logs that share a batch share all before it. Messages of formats 0 and 1 name no leader epoch: by
        offsets alone nothing follows."""
        logs = of_one_topic(self.tp, self.logs, self.result.ground.windows.remade_ns)
        logs = [log for log in logs if log.has_epochs and log.ordered]
        # A loss of power leaves holes where nothing was flushed.
        logs = [log for log in logs if log.why != LOST_POWER or log.count == len(log.every["base"])]
        main = newest(last_take(logs) or logs)
        if main is None:
            return
        apart = []
        for log in logs:
            if log is not main:
                found = compare(main, log)
                self._match(found)
                if found.right < log.count:
                    apart.append(log)
        for one, other in combinations(apart, 2):
            self._match(compare(one, other))

    def _match(self, found: Comparison) -> None:
        later = found.common_later
        self.result.asked[MATCHING] += found.same
        if later >= 0:
            text = f"{found.differ()}; but both have a batch of one leader epoch at offset {later}"
            self._refuse(MATCHING, found.offset, (found.one, found.other), text)

    def committed(self) -> None:
        """Logs at the end of the run below their high watermarks; a quorum of controllers notes none."""
        if self.tp == METADATA:
            return
        logs = [log for log in last_take(self.logs) if log.ordered and (log.count or log.start <= 0)]
        lineage = elections(self.evidence, self.tp)
        doubts = {log: lineage.of_namesake(log, "replication") for log in logs}
        highs = {log: -1 if doubts[log] else log.high_watermark for log in logs}
        main = max(logs, key=lambda log: (highs[log], log.last_epoch), default=None)
        if main is None or len(logs) < 2:
            return
        for log in logs:
            if highs[log] < 0:
                why = doubts[log] or f"{log.where()} has no checkpoint of its high watermark"
                self.result.leave_open(COMMITTED, self.tp, why)
            if log is main or highs[log] < 0:
                continue
            found = compare(main, log)
            self.result.asked[COMMITTED] += found.same
            both = {main.node, log.node} <= lineage.in_sync
            high = highs[main] if both else min(highs[log], highs[main])
            at = found.offset if found.offset >= 0 or not both else log.end
            if not 0 <= at < high or (log.end <= at and not both):
                continue
            known = "in-sync replicas have all offsets" if both else "both know all offsets to be committed"
            text = f"{found.differ()}; {known} below the high watermark {high}"
            epochs = [one.epoch_at(at) for one in (main, log) if at < one.end]
            older = min(epochs, default=-1)
            excuse = "" if lineage.unknown else lineage.may_lose(after_epoch=older) or lineage.cut(main, log)
            self._refuse(COMMITTED, at, (main, log), text, excuse)

    # ---- answers

    def _refuse(
        self, rule: str, offset: int, logs: Iterable[ReplicaLog], text: str, excuse: str = ""
    ) -> None:
        """excuse: why it may be none, "" = it is one."""
        if excuse:
            self.result.leave_open(rule, self.tp, f"{text}; {excuse}")
        else:
            self.result.refuse(finding(rule, self.tp, offset, logs, text))
