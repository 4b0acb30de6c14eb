"""The words of docs/checks.md section 1, in plain Python: seen, committed, order, missing, …

Part of the slow oracle (`tests.oracle.anomalies`); shares no code with the kernels. Every word is worked
out anew from the rows each time it is used, which is slow and hard to get wrong.

Not here: the classes (`tests.oracle.anomalies`, `tests.oracle.ops`, `tests.oracle.groups`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from core.config import RunConfig
from core.op import End, Isolation, Outcome, Phase
from core.systems import ImportedSection
from history.events import (
    BoundsListed,
    ClockJumped,
    Event,
    FaultFailed,
    FaultStarted,
    HealFailed,
    Interrupted,
    JournalsListed,
    Note,
    PhaseStarted,
    RecordsDeleted,
    Recovered,
    WorkerLost,
    WrongClusterSeen,
)
from history.tables import GONE, OPEN

KINDS = ("send", "poll", "txn")
"""The first names of kinds of ops of the histories that tests build."""

Row = dict[str, Any]
"""One row of a table, by column."""

Key = tuple[str | int, ...]
"""Class of a finding and the integers that name it (docs/checks.md, section 2)."""

RC, RU = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED
OK, FAIL, INFO = Outcome.OK, Outcome.FAIL, Outcome.INFO


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the final reads of one partition at one level had to reach, and reached."""

    start: int
    end: int
    read_to: int
    complete: bool


class Partition:
    """The rows of one topic-partition and what they mean; sends and reads in program order."""

    def __init__(self, history: "History", tp: int) -> None:
        self.history = history
        self.tp = tp
        self.recorded = history.recorded
        self._gone: dict[int, bool] = {}
        self.sends = [row for row in history.sends if row["tp"] == tp]
        self.reads = [row for row in history.reads if row["tp"] == tp]
        self.foreign = [row for row in history.foreign if row["tp"] == tp]
        self.send_of: dict[int, Row] = {row["value"]: row for row in self.sends}
        self.deletions = history.deletions(tp)
        self.bounds = {
            row["isolation"]: Bounds(
                row["start"] if history.retention or self.deletions else 0,
                row["end"],
                row["read_to"],
                row["complete"],
            )
            for row in history.bounds
            if row["tp"] == tp
        }

    def gone_below(self, bounds: Bounds, send: Row) -> int:
        """Below this offset the send may have been removed; a deletion removes what was sent before it."""
        if self.history.retention:
            return bounds.start
        asked = max([0, *(offset for _, ns, offset in self.deletions if send["invoke_ns"] <= ns)])
        return min(bounds.start, asked) if bounds.start >= 0 else asked

    def seen(self, send: Row) -> bool:
        """Some counting read of the value counts for the send."""
        return any(read["value"] == send["value"] and counts(read, send) for read in self.reads)

    def committed(self, send: Row) -> bool:
        """The send took effect, for certain."""
        if failed(send):
            return False
        if send["txn"]:
            return bool(send["op_outcome"] == OK) or send["op"] in self.history.proven
        return bool(send["outcome"] == OK) or self.seen(send)

    def log(self) -> set[tuple[int, int]]:
        """Log pairs: (offset, value)."""
        pairs = {(read["offset"], read["value"]) for read in self.reads}
        return pairs | {
            (send["offset"], send["value"])
            for send in self.sends
            if send["offset"] >= 0 and self.committed(send)
        }

    def order(self, level: int) -> set[int]:
        """Offsets that a consumer at this level has to see."""
        reads = self.reads
        acked: set[int] = set()
        if not self.recorded:
            acked = {s["offset"] for s in self.sends if s["offset"] >= 0 and self.committed(s)}
        elif any(bounds.complete for bounds in self.bounds.values()):
            reads = [read for read in reads if read["phase"] == Phase.FINAL]
        return (
            acked
            | {read["offset"] for read in reads if level == RU or self._at_rc(read)}
            - self._need_not_be_there()
        )

    def _need_not_be_there(self) -> set[int]:
        """Offsets that compaction may have emptied in some replica."""
        if self.history.tombstones < 0:
            return set()
        return {s["place"] for s in self.sends if self.gone(s) or not self.committed(s)}

    def succeeded(self, send: Row) -> bool:
        """A later record of its key may stand above it."""
        if self.history.unheard():
            return True
        for other in self.sends:
            counts = self.committed(other) or (deletes(other) and not failed(other))
            if other is send or key(other) != key(send) or not counts:
                continue
            if self._may_follow(other, send) and not self._would_be_there(other, send):
                return True
        return False

    def _may_follow(self, other: Row, send: Row) -> bool:
        """It may stand above the send, by places or by times."""
        if min(other["place"], send["place"]) >= 0:
            return self.top(other) > self.top(send)
        return bool(other["ack_ns"] < 0 or other["ack_ns"] >= send["invoke_ns"])

    def _would_be_there(self, other: Row, send: Row) -> bool:
        """A tombstone that no read shows, above the send, would not be over its time."""
        final = [read["complete_ns"] for read in self.reads if read["phase"] == Phase.FINAL]
        kept = bool(final) and max(final) - send["invoke_ns"] < self.history.tombstones
        covered = any(self.covers(level, other) for level in (RC, RU))
        return deletes(other) and other["place"] < 0 and covered and kept

    def replaced(self, send: Row) -> bool:
        """Of a tombstone: a committed later record of its key may stand above it; one that is a tombstone
        has to have been there."""
        heirs = [s for s in self.sends if s is not send and key(s) == key(send) and self.committed(s)]
        heirs = [s for s in heirs if not deletes(s) or s["place"] >= 0]
        return self.history.unheard() or any(self._may_follow(s, send) for s in heirs)

    def top(self, send: Row) -> int:
        """The highest offset at which it is known to have stood."""
        read = (r["offset"] for r in self.reads if r["value"] == send["value"])
        return int(max([send["place"], *read]))

    def expired(self, send: Row) -> bool:
        """It is a tombstone that need not be there any more when the final reads ended."""
        final = [read["complete_ns"] for read in self.reads if read["phase"] == Phase.FINAL]
        over = not final or max(final) - send["invoke_ns"] >= self.history.tombstones
        return deletes(send) and over

    def gone(self, send: Row) -> bool:
        """Compaction may have removed it."""
        if self.history.tombstones < 0:
            return False
        if send["value"] not in self._gone:
            self._gone[send["value"]] = self.succeeded(send) or self.expired(send)
        return self._gone[send["value"]]

    def _at_rc(self, read: Row) -> bool:
        """Readers at read_committed have to see its offset."""
        send = self.send_of.get(read["value"])
        aborted = send is not None and send["txn"] and send["op_outcome"] == FAIL
        return (read["isolation"] == RC and not aborted) or self._for_all(read["value"])

    def _for_all(self, value: int) -> bool:
        """The value is one that no transaction hides."""
        send = self.send_of.get(value)
        return send is not None and (not send["txn"] or self.committed(send))

    def given_from(self, ns: int = OPEN) -> int:
        """From where on consumers have to be given by then what is there."""
        listed = max([bounds.start for bounds in self.bounds.values()] + [0])
        begun = [offset for begin, _, offset in self.deletions if begin <= ns]
        return max([listed if self.history.retention else 0, *begun])

    def begins_known(self) -> bool:
        """Only deletions on record remove anything, or a listing tells where the log starts."""
        return not self.history.retention or any(bound.start >= 0 for bound in self.bounds.values())

    def stuck(self) -> bool:
        """The last stable offset lay below the high watermark when all was quiet."""
        if RC not in self.bounds or RU not in self.bounds:
            return False
        return 0 <= self.bounds[RC].end < self.bounds[RU].end

    def may_hide(self) -> bool:
        """It did, or one of the two is not known, and there were transactions."""
        known = all(level in self.bounds and self.bounds[level].end >= 0 for level in (RU, RC))
        ids = [process["txn_id"] for process in self.history.processes.values()]
        return self.stuck() or (not known and max(ids, default=-1) >= 0)

    def covers(self, level: int, send: Row) -> bool:
        """The final read at this level would have shown the send."""
        if level not in self.bounds:
            return False
        bounds = self.bounds[level]
        to_the_end = bounds.complete and not (level == RC and self.may_hide())
        to_the_end = to_the_end and not self.above_watermark(send)
        if send["place"] < 0:
            return self.gone_below(bounds, send) == 0 and to_the_end
        return self.gone_below(bounds, send) <= send["place"] and (
            send["place"] < bounds.read_to or to_the_end
        )

    def above_watermark(self, send: Row) -> bool:
        """One replica acknowledged the send, and the others may not have asked for it when the ends were
        listed."""
        read = any(r["value"] == send["value"] and r["phase"] != Phase.FINAL for r in self.reads)
        acks = self.history.processes[send["process"]]["acks"]
        return acks in (0, 1) and not read and self.history.may_stand_still(send["ack_ns"])

    def shown(self, level: int, send: Row) -> bool:
        """A final read that counts at this level returned the send's value."""
        levels = [
            read["isolation"]
            for read in self.reads
            if read["phase"] == Phase.FINAL and read["value"] == send["value"]
        ]
        return RC in levels if level == RC and send["txn"] else bool(levels)

    def removed(self, send: Row) -> bool:
        """It lay below the start of the log when that was read at the end."""
        deleted = any(b.start == GONE for b in self.bounds.values())
        return deleted or any(0 <= send["place"] < self.gone_below(b, send) for b in self.bounds.values())

    def missing(self, send: Row) -> bool:
        """Some final read had to show the send, and did not."""
        return self.absent(send) and not self.gone(send)

    def absent(self, send: Row) -> bool:
        """The same, as if nothing were compacted."""
        return not self.removed(send) and (
            self.withheld(send)
            or any(self.covers(level, send) and not self.shown(level, send) for level in (RC, RU))
        )

    def withheld(self, send: Row) -> bool:
        """The final read at read_committed went past the send, which no transaction hides, without it."""
        if send["txn"] or RC not in self.bounds or not self.shown(RU, send):
            return False
        begin = self.gone_below(self.bounds[RC], send)
        return not self.returned(send) and begin <= send["place"] < self.bounds[RC].read_to

    def returned(self, send: Row) -> bool:
        """The final reader at read_committed was given the send."""
        final = [r for r in self.reads if r["phase"] == Phase.FINAL and r["value"] == send["value"]]
        return any(read["isolation"] == RC for read in final)

    def in_doubt(self, send: Row) -> bool:
        """The send may have taken effect, for all that is known."""
        return not (failed(send) or self.committed(send) or self.missing(send))

    def undecided(self, send: Row) -> bool:
        """No final read says whether the send is there."""
        there = self.missing(send) or self.shown(RC, send)
        return not (self.removed(send) or self.gone(send) or there)

    def torn_off(self, send: Row) -> bool:
        """The send is missing, and its journal says all of its op that it ever said."""
        left = self.history.ops[send["op"]]["complete_ns"] == OPEN and self.history.cut(send["process"])
        return self.missing(send) and not left


class History:
    """All rows of a history, and what is known of whole ops."""

    def __init__(
        self,
        tables: Mapping[str, pa.Table],
        *,
        portable: bool | None,
        events: Sequence[Event] = (),
        config: RunConfig | None = None,
        f: Sequence[str] = KINDS,
    ) -> None:
        rows = {name: table.to_pylist() for name, table in tables.items()}
        self.recorded = bool(rows["bounds"]) if portable is None else not portable
        self.events = events
        self.config = config or RunConfig(seed=0)
        self.tombstones = _tombstones_ns(self.config, events) if self.recorded else -1
        self.imported = self.config.sut == "imported"
        self.retention = not self.recorded or self.imported or _limited(self.config)
        self.f = tuple(f)
        its = self.config.section(ImportedSection) if self.imported else None
        verifiable = its is not None and its.format == "verifiable"
        said = None if its is None else its.clock_error_s
        self.apart_ns = int((5 if verifiable else 0) * 10**9 if said is None else said * 10**9)
        self.apart_ns += 10**6 if verifiable else 0
        self.ops: dict[int, Row] = {row["op"]: row for row in rows["ops"]}
        self.processes: dict[int, Row] = {row["process"]: row for row in rows["processes"]}
        self.sends: list[Row] = sorted(rows["sends"], key=_program_order)
        self.reads: list[Row] = sorted(rows["reads"], key=_program_order)
        self.foreign: list[Row] = rows["foreign"]
        self.bounds: list[Row] = rows["bounds"]
        self.assignments: list[Row] = rows["assignments"]
        self.commits: list[Row] = rows["commits"]
        self.deliveries: list[Row] = rows["deliveries"]
        self.acknowledgements: list[Row] = rows["acknowledgements"]
        self.names = {row["tp"]: (row["topic"], row["partition"]) for row in rows["tps"]}
        tps = {row["tp"] for name in ("tps", "sends", "reads", "foreign") for row in rows[name]}
        self.partitions = [Partition(self, tp) for tp in sorted(tps)]
        self.proven: set[int] = {
            send["op"]
            for partition in self.partitions
            for send in partition.sends
            if send["txn"] and send["op_outcome"] == INFO and partition.seen(send)
        }

    def apart(self, one: Row, other: Row) -> int:
        """How far the clocks of the processes of two rows may be apart."""
        return 0 if one["process"] == other["process"] else self.apart_ns

    def polls_in_doubt(self, process: int) -> list[Row]:
        """Polls of this process, or of another one of its group, that may have returned what is not on
        record."""
        group = self.processes[process]["group"]
        return [
            op
            for op in (self.ops.values() if self.imported or not self.recorded else ())
            if op["outcome"] == INFO
            and op["n_reads"] == 0
            and self.f[op["f"] : op["f"] + 1] in (("poll",), ("txn",))
            if self.processes[op["process"]]["isolation"] >= 0
            if self.processes[op["process"]]["group"] == group
        ]

    def deletions(self, tp: int) -> list[tuple[int, int, int]]:
        """From when until when faults asked for the deletion of records of the partition, and below which
        offset."""
        topic, partition = self.names.get(tp, ("", -1))
        name = f"{topic.split('~')[0]}-{partition}"
        faults = [event for event in self.events if isinstance(event, FaultStarted | FaultFailed)]
        begun = {fault.fault: max(fault.begin_ns, 0) for fault in faults[::-1]}
        again = [f for f in faults if f.name.split(":")[0] == "recreate-topics"]
        made = [f.begin_ns for f in again if isinstance(f, FaultStarted)]
        asked = [
            (begun.get(event.fault, 0), event.ns, event.offsets[name])
            for event in self.events
            if isinstance(event, RecordsDeleted) and name in event.offsets
        ]
        if "~" in topic:  # the topic was deleted
            aimless = [f for f in again if isinstance(f, FaultFailed) and f.why.split(":")[0] == "NoTarget"]
            earlier = sorted({f.fault: begun[f.fault] for f in again if f not in aimless}.values())
            number = int(topic.split("~")[1])
            return [*asked, ((earlier[number - 1] if number <= len(earlier) else 0), OPEN, GONE)]
        return [one for one in asked if all(one[1] >= ns for ns in made)]

    def may_stand_still(self, ack_ns: int) -> bool:
        """A high watermark may still have been below what was acknowledged then when the ends were listed."""
        if ack_ns < 0 or not self.recorded:
            return False
        if any(isinstance(event, Recovered) and not event.recovered for event in self.events):
            return True
        lag = self.config.broker_settings.get("replica.lag.time.max.ms", "")
        still = 2_000_000_000 + 1_500_000 * (int(lag) if lag.isdecimal() else 3000)
        listed = [event.ns for event in self.events if isinstance(event, BoundsListed)]
        return bool(listed) and ack_ns + still > listed[-1]

    @property
    def journals(self) -> set[int]:
        """Processes that had one when the run ended."""
        return {n for event in self.events if isinstance(event, JournalsListed) for n in event.processes}

    def cut(self, process: int) -> bool:
        """The last lines of the process may be missing."""
        phases = [event.phase for event in self.events if isinstance(event, PhaseStarted)]
        row = self.processes.get(process)
        if not self.recorded or (row and not phases):
            return False
        if row is None:
            return process in self.journals or bool(phases and max(phases) < Phase.COLLECT)
        return row["end"] == End.CRASHED and (max(phases) < Phase.COLLECT or not self._accounted(row))

    def _accounted(self, row: Row) -> bool:
        """An event says why the process ended without a last line."""
        later = [
            other["start_ns"]
            for other in self.processes.values()
            if other["slot"] == row["slot"] and other["start_ns"] > row["start_ns"]
        ]
        for event in self.events:
            if isinstance(event, WorkerLost) and event.slot == row["slot"] and not later:
                return True
            if isinstance(event, Interrupted | WrongClusterSeen) or (
                (isinstance(event, Note) and event.incomplete)
                or (isinstance(event, HealFailed) and event.fault == -1)
            ):
                return True
            if not isinstance(event, FaultStarted | FaultFailed) or event.name.startswith("client:pause"):
                continue
            family = event.name.split(":")[0]
            slots = event.slots if isinstance(event, FaultStarted) else ()
            kills = family in ("client", "half-open") or event.name == "wire:init-producer-id"
            if kills and (not slots or row["slot"] in slots):
                gone = any(ns <= max(event.begin_ns, 0) for ns in later)
                if row["start_ns"] <= event.ns and not gone:
                    return True
        return False

    def unheard(self) -> bool:
        """Of a process that sends, lines may be missing, or all of them."""
        phases = [event.phase for event in self.events if isinstance(event, PhaseStarted)]
        if not self.recorded:
            return False
        if (phases and max(phases) < Phase.COLLECT) or self.journals - self.processes.keys():
            return True
        return any(row["acks"] != -2 and self.cut(row["process"]) for row in self.processes.values())

    def cut_group(self, group: int) -> bool:
        """One of the group's processes is cut, or may be one that has no row though it had a journal."""
        if self.recorded and self.journals - self.processes.keys():
            return True
        return any(row["group"] == group and self.cut(row["process"]) for row in self.processes.values())

    def settled(self) -> bool:
        """No event says that transactions had not the time, or nobody, to be ended."""
        return not any(
            (isinstance(event, Recovered) and not event.recovered)
            or (isinstance(event, Note) and event.incomplete)
            or (isinstance(event, HealFailed) and event.fault == -1)
            or (isinstance(event, BoundsListed) and event.moving)
            or isinstance(event, Interrupted)
            for event in self.events
        )

    def reads_of_sends(self) -> Iterator[tuple[Partition, Row, Row]]:
        """Every read of a value that was sent to its partition, with the send."""
        for p in self.partitions:
            for read in p.reads:
                if read["value"] in p.send_of:
                    yield p, read, p.send_of[read["value"]]


def _limited(config: RunConfig) -> bool:
    """Retention may remove records within a run."""
    own, brokers, day = config.topic_settings, config.broker_settings, 86_400_000
    if own.get("cleanup.policy", "delete").strip() == "compact":
        return False
    if int(own.get("retention.bytes", brokers.get("log.retention.bytes", "-1"))) >= 0:
        return True
    if "retention.ms" in own:
        kept = int(own["retention.ms"])
    elif "log.retention.ms" in brokers:
        kept = int(brokers["log.retention.ms"])
    elif "log.retention.minutes" in brokers:
        kept = int(brokers["log.retention.minutes"]) * 60_000
    else:
        kept = int(brokers.get("log.retention.hours", "168")) * 3_600_000
    return 0 <= kept < 2 * day


def _tombstones_ns(config: RunConfig, events: Sequence[Event]) -> int:
    """How long tombstones stay; -1 = nothing is compacted. A clock that is set forward takes from that."""
    if "compact" not in config.topic_settings.get("cleanup.policy", "delete") or config.sut == "imported":
        return -1
    brokers = config.broker_settings.get("log.cleaner.delete.retention.ms", 86_400_000)
    kept = 1_000_000 * int(config.topic_settings.get("delete.retention.ms", brokers))
    jumps = [event.wall_s for event in events if isinstance(event, ClockJumped)]
    return max(0, kept - sum(int(1_000_000_000 * wall_s) for wall_s in jumps if wall_s > 0))


def key(row: Row) -> int:
    """The key of a send, or of what a read returned."""
    return int(row["value"]) & 0x7F


def deletes(row: Row) -> bool:
    """It is a tombstone."""
    return bool(row["value"] & 0x80)


def _program_order(row: Row) -> tuple[int, int]:
    return row["op"], row["pos"]


def counts(read: Row, send: Row) -> bool:
    """The read counts, and counts for this send."""
    counting = read["op_outcome"] == OK or read["phase"] == Phase.FINAL
    return counting and (read["isolation"] == RC or not send["txn"])


def failed(send: Row) -> bool:
    """The record was never written, or aborted."""
    return bool(send["outcome"] == FAIL or (send["txn"] and send["op_outcome"] == FAIL))
