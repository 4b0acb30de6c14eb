"""The words of docs/checks.md, section 1, over plain rows: seen, committed, missing, order, position, …

Part of the naive judge. It is written from that page alone and shares no code with `checkers/` or
`tests/oracle/`; a difference between it and the checker is an error in one of them, or in the page.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property

from core.op import DATABASE, AssignmentKind, CommitKind, End, Isolation, Outcome, Phase
from history.events import (
    BoundsListed,
    FaultFailed,
    FaultStarted,
    JournalsListed,
    PhaseStarted,
    Recovered,
    WorkerLost,
    incomplete,
)
from history.tables import OPEN
from tests.adversary.compaction import kept_ns, key, may_stand_above, stood, tombstone
from tests.adversary.deleted import deleted_topics, deletions
from tests.adversary.excuses import Span, remembered_ms, retention
from tests.adversary.rows import F, Key, Recorded, Row

OK, FAIL, INFO = Outcome.OK, Outcome.FAIL, Outcome.INFO
RC, RU = int(Isolation.READ_COMMITTED), int(Isolation.READ_UNCOMMITTED)
NEVER = OPEN
STORING = (CommitKind.SYNC, CommitKind.AUTO, CommitKind.TXN)

Found = Iterator[tuple[Key, set[str]]]
"""Keys of findings, each with the variants that it may have."""
PLAIN = {""}
ACKS = {0: "0", 1: "1", -1: "all"}


class Facts:
    """What follows from the rows of a history."""

    def __init__(self, recorded: Recorded) -> None:
        self.recorded = recorded
        self.portable = recorded.portable
        rows = recorded.tables
        self.rows = rows
        self.sends: list[Row] = sorted(rows["sends"], key=lambda row: (row["op"], row["pos"]))
        self.reads: list[Row] = sorted(rows["reads"], key=lambda row: (row["op"], row["pos"]))
        self.ops: dict[int, Row] = {row["op"]: row for row in rows["ops"]}
        self.processes: dict[int, Row] = {row["process"]: row for row in rows["processes"]}
        self.commits: list[Row] = rows["commits"]
        self.assignments: list[Row] = rows["assignments"]
        self.tps = [row["tp"] for row in rows["tps"]]
        self.send_of = {(row["tp"], row["value"]): row for row in self.sends}
        self.reads_of: dict[tuple[int, int], list[Row]] = defaultdict(list)
        for read in self.reads:
            self.reads_of[read["tp"], read["value"]].append(read)
        self.retention = retention(recorded.config)
        self.app = None if self.portable else recorded.config.app
        self.tombstones = kept_ns(recorded)
        self.bounds: dict[tuple[int, int], Row] = {}
        for row in () if self.portable else rows["bounds"]:
            self.bounds[row["tp"], row["isolation"]] = row
        self.deletions = deletions(recorded)
        self.deleted_topics = deleted_topics(recorded)
        self.spans: dict[Key, list[Span]] = defaultdict(list)
        self.torn: dict[Key, list[Span]] = {}
        """Of findings about what is missing: when it may have been taken (`tests.adversary.excuses`)."""

    def forgotten(self, send: Row) -> bool:
        """Brokers may have forgotten the producer of a plain record each time they got it again."""
        copies = sorted(o for o, value in self.pairs[send["tp"]] if value == send["value"])[1:]
        mine = [s for s in self.sends if (s["tp"], s["process"]) == (send["tp"], send["process"])]
        kept = remembered_ms(self.recorded.config) * 10**6
        for copy in copies:
            by = [s["ack_ns"] for s in mine if s["ack_ns"] >= 0 and s["offset"] >= copy] + [NEVER]
            by += [r["complete_ns"] for r in self.reads_of[send["tp"], send["value"]] if r["offset"] == copy]
            below = [s["invoke_ns"] for s in mine if s is send or 0 <= s["place"] < copy]
            if min(by) == NEVER or min(by) - max(below) < kept:
                return False
        return bool(send["txn"] == 0)

    # Single records -----------------------------------------------------------------------------

    def counts(self, read: Row, send: Row) -> bool:
        """A counting read that counts for the send."""
        counting = read["op_outcome"] == OK or read["phase"] == Phase.FINAL
        return bool(counting and (read["isolation"] == RC or send["txn"] == 0))

    @cached_property
    def doubtful_polls(self) -> list[Row]:
        """Polls of a portable history that may have returned what is not on record."""
        return [
            op
            for op in self.ops.values()
            if self.portable and op["outcome"] == INFO and not op["n_reads"]
            if F[op["f"]] in ("poll", "txn") and self.processes[op["process"]]["isolation"] >= 0
        ]

    def doubted(self, read: Row, send: Row) -> bool:
        """A poll in doubt may have returned the send before this read."""
        return any(
            self.group_of(op) == self.group_of(read)
            and op["invoke_ns"] <= read["complete_ns"]
            and op["complete_ns"] >= send["invoke_ns"]
            for op in self.doubtful_polls
        )

    def seen(self, send: Row) -> bool:
        return any(self.counts(read, send) for read in self.reads_of[send["tp"], send["value"]])

    @staticmethod
    def failed(send: Row) -> bool:
        return bool(send["outcome"] == FAIL or (send["txn"] and send["op_outcome"] == FAIL))

    @cached_property
    def _phases(self) -> list[Phase]:
        return [e.phase for e in self.recorded.events if isinstance(e, PhaseStarted)]

    @cached_property
    def cut(self) -> set[int]:
        """Processes whose last lines may be missing."""
        ended = [row for row in self.processes.values() if row["end"] == End.CRASHED]
        if self.portable or not self._phases:
            return self.gone
        return self.gone | {row["process"] for row in ended if self._broke_off or not self._accounted(row)}

    @cached_property
    def gone(self) -> set[int]:
        """Processes that had a journal, of which nothing is left."""
        lists = [event for event in self.recorded.events if isinstance(event, JournalsListed)]
        return {number for event in lists for number in event.processes} - self.processes.keys()

    @cached_property
    def _broke_off(self) -> bool:
        return bool(self._phases) and all(phase < Phase.COLLECT for phase in self._phases)

    def _accounted(self, row: Row) -> bool:
        same = [p["start_ns"] for p in self.processes.values() if p["slot"] == row["slot"]]
        heir = min((ns for ns in same if ns > row["start_ns"]), default=NEVER)
        for event in self.recorded.events:
            if incomplete(event):
                return True
            if isinstance(event, WorkerLost) and event.slot == row["slot"] and heir == NEVER:
                return True
            if isinstance(event, FaultStarted | FaultFailed):
                kills = event.name.startswith(("client:crash", "half-open:", "wire:init-producer-id"))
                alive = row["start_ns"] <= event.ns and heir > max(event.begin_ns, 0)
                hit = getattr(event, "slots", ()) or [row["slot"]]
                if kills and alive and row["slot"] in hit:
                    return True
        return False

    def cut_group(self, group: int) -> bool:
        """What its members did is not all on record."""
        return bool(self.gone) or any(self.processes[number]["group"] == group for number in self.cut)

    def unexplained(self, value: int) -> bool:
        """A value that no process on record can have sent."""
        process = value >> 32
        nobody = not self.portable and self._broke_off and process not in self.processes
        return process not in self.cut and not nobody

    def torn_off(self, send: Row) -> bool:
        """Missing, and no line of its op can be."""
        left = self.ops[send["op"]]["complete_ns"] == OPEN and send["process"] in self.cut
        return self.missing(send) and not left

    @cached_property
    def unasked(self) -> dict[int, int]:
        """Of each transaction, until when its commit cannot have been asked for."""
        found = {}
        for number, op in self.ops.items():
            own = [s for s in self.sends if s["op"] == number]
            acked = max((s["ack_ns"] for s in own), default=-1)
            moments = [s["invoke_ns"] for s in own]
            moments += [acked] if acked < op["complete_ns"] else []
            moments += [
                c["invoke_ns"] for c in self.commits if (c["op"], c["kind"]) == (number, CommitKind.TXN)
            ]
            found[number] = min(max(moments, default=-1), op["complete_ns"])
        return found

    @cached_property
    def proven(self) -> set[int]:
        """Open transactions with a record that was seen."""
        return {s["op"] for s in self.sends if s["txn"] and s["op_outcome"] == INFO and self.seen(s)}

    @cached_property
    def _committed(self) -> set[tuple[int, int]]:
        return {(s["tp"], s["value"]) for s in self.sends if self._takes_effect(s)}

    def _takes_effect(self, send: Row) -> bool:
        if self.failed(send):
            return False
        if send["txn"]:
            return bool(send["op_outcome"] == OK or send["op"] in self.proven)
        return bool(send["outcome"] == OK or (send["outcome"] == INFO and self.seen(send)))

    def committed(self, send: Row) -> bool:
        return (send["tp"], send["value"]) in self._committed

    def beginning(self, group: int) -> int:
        """When the first process of a group started."""
        return min((p["start_ns"] for p in self.processes.values() if p["group"] == group), default=0)

    def ids_since(self, *ids: int) -> int:
        """When the first process with one of these transactional ids started (none given: with any)."""
        held = [p for p in self.processes.values() if p["txn_id"] in ids or (not ids and p["txn_id"] >= 0)]
        return min((p["start_ns"] for p in held), default=0)

    def acks(self, send: Row) -> int:
        return int(self.processes[send["process"]]["acks"])

    def weak(self, send: Row) -> bool:
        """The record may have been on one replica alone."""
        return self.acks(send) in (0, 1)

    def alone(self, send: Row) -> bool:
        """Only the leader that acknowledged the record need ever have had it."""
        return self.weak(send) and not self.reads_of[send["tp"], send["value"]]

    def promised(self, send: Row) -> str:
        """What was promised to a send that is lost."""
        return "hole" if self.hole(send) else self.promise(send)

    def promise(self, send: Row) -> str:
        """The same wherever it stood."""
        live = [r for r in self.reads_of[send["tp"], send["value"]] if r["phase"] != Phase.FINAL]
        return "read" if live and self.weak(send) else ACKS[self.acks(send)]

    def hole(self, send: Row) -> bool:
        """The log is empty where the record stood."""
        rows = [row for (tp, _), row in self.bounds.items() if tp == send["tp"]]
        beside = any(row["complete"] and row["end"] > send["place"] >= 0 for row in rows)
        read = [*self.reads, *self.rows["foreign"]]  # what is damaged stands there, too
        final = [r for r in read if r["tp"] == send["tp"] and self.ops[r["op"]]["phase"] == Phase.FINAL]
        empty = all(r["offset"] != send["place"] for r in final)
        plain = all(row["txn_id"] < 0 for row in self.processes.values())
        return beside and empty and plain and not self.retention and self.tombstones < 0

    # Logs ---------------------------------------------------------------------------------------

    @cached_property
    def pairs(self) -> dict[int, set[tuple[int, int]]]:
        """Log pairs, by partition."""
        found: dict[int, set[tuple[int, int]]] = defaultdict(set)
        for read in self.reads:
            found[read["tp"]].add((read["offset"], read["value"]))
        for send in self.sends:
            if send["offset"] >= 0 and self.committed(send):
                found[send["tp"]].add((send["offset"], send["value"]))
        return found

    @cached_property
    def _orders(self) -> dict[tuple[int, int], list[int]]:
        return {(tp, level): sorted(self._order(tp, level)) for tp in self.tps for level in (RU, RC)}

    def order(self, tp: int, level: int) -> list[int]:
        """Offsets that a consumer at this level has to see."""
        return self._orders[tp, level]

    def _order(self, tp: int, level: int) -> set[int]:
        whole = self.whole(tp)
        found = set()
        for read in self.reads:
            if read["tp"] != tp or (not self.portable and whole and read["phase"] != Phase.FINAL):
                continue
            send = self.send_of.get((tp, read["value"]))
            plain = send is not None and (send["txn"] == 0 or self.committed(send))
            aborted = send is not None and send["txn"] == 1 and send["op_outcome"] == FAIL
            if level == RU or plain or (read["isolation"] == RC and not aborted):
                found.add(read["offset"])
        if self.portable:
            found |= {
                s["offset"] for s in self.sends if s["tp"] == tp and s["offset"] >= 0 and self.committed(s)
            }
        if self.tombstones >= 0:
            own = [s for s in self.sends if s["tp"] == tp]
            found -= {s["place"] for s in own if self.compacted_away(s) or not self.committed(s)}
        return found

    def between(self, tp: int, low: int, high: int, level: int) -> int:
        return sum(low < offset < high for offset in self.order(tp, level))

    def given_from(self, tp: int, ns: int) -> int:
        """Below, no consumer need have been given by then what the log holds."""
        starts = [row["start"] for (of, _), row in self.bounds.items() if of == tp and self.retention]
        return int(max([0, *starts, *(one.offset for one in self.deletions[tp] if one.begun <= ns)]))

    def begins_known(self, tp: int) -> bool:
        """No time or size removes records, or bounds tell where the log starts."""
        starts = [row["start"] for (of, _), row in self.bounds.items() if of == tp]
        return not self.retention or max(starts, default=-1) >= 0

    def start(self, row: Row, send: Row) -> int:
        """Where the log starts for a send, by a row of bounds."""
        if self.retention:
            return int(row["start"])
        gone = [one.offset for one in self.deletions[send["tp"]] if one.ns >= send["invoke_ns"]]
        deleted = max(gone, default=0)
        return deleted if row["start"] < 0 else min(deleted, int(row["start"]))

    # Final reads --------------------------------------------------------------------------------

    def ends(self, tp: int) -> tuple[int, int]:
        """Listed ends at RU and RC; -1 = not known."""
        ru, rc = (self.bounds.get((tp, level), {"end": -1})["end"] for level in (RU, RC))
        return int(ru), int(rc)

    def hiding(self, tp: int) -> bool:
        ru, rc = self.ends(tp)
        return 0 <= rc < ru

    def may_hide(self, tp: int) -> bool:
        """A stuck last stable offset hides what lies above it, for all that is known."""
        unknown = min(self.ends(tp)) < 0
        return self.hiding(tp) or (unknown and any(p["txn_id"] >= 0 for p in self.processes.values()))

    def read_whole(self, tp: int) -> bool:
        """The last reader at read_committed came to the end of a log; of what is no log it has all."""
        topic = next(row["topic"] for row in self.rows["tps"] if row["tp"] == tp)
        if "~" in topic or topic == DATABASE:
            return True
        return bool(self.bounds.get((tp, RC), {}).get("complete")) and not self.may_hide(tp)

    def output_unread(self) -> bool:
        """It did not of some log of an application's output."""
        if self.app is None or not self.app.output:
            return False
        output = self.recorded.config.prefix + self.app.output
        return any(row["topic"] == output and not self.read_whole(row["tp"]) for row in self.rows["tps"])

    def covers(self, level: int, send: Row) -> bool:
        row = self.bounds.get((send["tp"], level))
        if row is None:
            return False
        to_end = row["complete"] and not (level == RC and self.may_hide(send["tp"]))
        to_end = to_end and not self.waits_for_replicas(send)
        if send["place"] < 0:
            return bool(self.start(row, send) == 0 and to_end)
        return bool(self.start(row, send) <= send["place"] and (send["place"] < row["read_to"] or to_end))

    def waits_for_replicas(self, send: Row) -> bool:
        """The leader alone may have had it, above the high watermark, when the ends were listed."""
        reads = self.reads_of[send["tp"], send["value"]]
        if self.portable or send["ack_ns"] < 0 or self.processes[send["process"]]["acks"] not in (0, 1):
            return False
        if any(r["phase"] != Phase.FINAL for r in reads):
            return False
        events = self.recorded.events
        lag = self.recorded.config.broker_settings.get("replica.lag.time.max.ms", "3000")
        since = [e.ns for e in events if isinstance(e, BoundsListed)][-1:]
        out = any(isinstance(e, Recovered) and not e.recovered for e in events)
        return out or any(ns - send["ack_ns"] < int(lag) * 1_500_000 + 2_000_000_000 for ns in since)

    def shown(self, level: int, send: Row) -> bool:
        final = [r for r in self.reads_of[send["tp"], send["value"]] if r["phase"] == Phase.FINAL]
        if level == RU or send["txn"] == 0:
            return bool(final)
        return any(r["isolation"] == RC for r in final)

    def still_there(self, read: Row) -> bool:
        """The final reads returned what this read did, at the same offset."""
        same = (r for r in self.reads_of[read["tp"], read["value"]] if r["offset"] == read["offset"])
        return any(r["phase"] == Phase.FINAL for r in same)

    def removed(self, send: Row) -> bool:
        if send["tp"] in self.deleted_topics:
            return True
        rows = [row for (tp, _), row in self.bounds.items() if tp == send["tp"]]
        return any(0 <= send["place"] < self.start(row, send) for row in rows)

    def returned(self, tp: int) -> set[int]:
        """Offsets at which a reader at read_committed was given a record: a final one, if one came to the
        end."""
        reads = [r for r in self.reads if r["tp"] == tp and r["isolation"] == RC]
        return {r["offset"] for r in reads if r["phase"] == Phase.FINAL or not self.whole(tp)}

    def whole(self, tp: int) -> bool:
        """A final read came to the end of the log."""
        return any(self.bounds.get((tp, level), {}).get("complete") for level in (RU, RC))

    # Compaction ---------------------------------------------------------------------------------

    @cached_property
    def _heirs(self) -> dict[tuple[int, int], list[Row]]:
        """By partition and key, what may have replaced an older record."""
        found: dict[tuple[int, int], list[Row]] = defaultdict(list)
        for send in self.sends:
            if not self.failed(send) and (tombstone(send) or self.committed(send)):
                found[send["tp"], key(send)].append(send)
        return found

    def succeeded(self, send: Row) -> bool:
        """A later record of its key may stand above it."""
        heirs = self._above(send)
        ended = max((r["complete_ns"] for r in self.final(send["tp"])), default=NEVER)
        if ended - send["invoke_ns"] < self.tombstones:  # one that stood above it would be there
            heirs = [s for s in heirs if not tombstone(s) or stood(s) or not self._readable(s)]
        return self._unheard or bool(heirs)

    def replaced(self, send: Row) -> bool:
        """The same, by one that took effect; a tombstone only by one that is known to have stood there."""
        heirs = [s for s in self._above(send) if self.committed(s) and (stood(s) or not tombstone(s))]
        return self._unheard or bool(heirs)

    @property
    def _unheard(self) -> bool:
        """Some sender may have sent what is not on record."""
        senders = {number for number, row in self.processes.items() if row["acks"] != -2}
        return bool(self._broke_off or self.gone or self.cut & senders)

    def _above(self, send: Row) -> list[Row]:
        heirs = self._heirs[send["tp"], key(send)]
        return [s for s in heirs if s is not send and may_stand_above(self.last(s), self.last(send))]

    def _readable(self, send: Row) -> bool:
        """Final reads would have shown it, wherever it stood."""
        return self.covers(RU, send) or self.covers(RC, send)

    def last(self, send: Row) -> Row:
        """The send, at the highest offset at which it was acknowledged or read."""
        offsets = [row["offset"] for row in self.reads_of[send["tp"], send["value"]]]
        return send | {"place": max([send["place"], *offsets])}

    def final(self, tp: int) -> list[Row]:
        return [r for r in self.reads if r["tp"] == tp and r["phase"] == Phase.FINAL]

    def expired(self, send: Row) -> bool:
        """A tombstone that compaction need not keep any more."""
        ended = max((r["complete_ns"] for r in self.final(send["tp"])), default=NEVER)
        return tombstone(send) and ended - send["invoke_ns"] >= self.tombstones

    def compacted_away(self, send: Row) -> bool:
        return self.tombstones >= 0 and (self.succeeded(send) or self.expired(send))

    def missing(self, send: Row) -> bool:
        return self.absent(send) and not self.compacted_away(send)

    def absent(self, send: Row) -> bool:
        """Missing, if nothing is compacted."""
        if self.removed(send):
            return False
        if self.withheld(send):
            return True
        return any(self.covers(level, send) and not self.shown(level, send) for level in (RU, RC))

    def withheld(self, send: Row) -> bool:
        """Outside of a transaction, and readers at read_committed do not get it."""
        row = self.bounds.get((send["tp"], RC))
        if send["txn"] or row is None or not self.shown(RU, send):
            return False
        return bool(self.start(row, send) <= send["place"] < row["read_to"]) and self.hidden(send)

    def hidden(self, send: Row) -> bool:
        """No final read at read_committed returned it."""
        final = [r for r in self.reads_of[send["tp"], send["value"]] if r["phase"] == Phase.FINAL]
        return all(r["isolation"] != RC for r in final)

    def undecided(self, send: Row) -> bool:
        if self.removed(send) or self.compacted_away(send):
            return False
        return not (self.missing(send) or self.shown(RC, send))

    def unread(self, tp: int) -> bool:
        """A partition with sends lacks a complete final read at a level that it needs."""
        own = [s for s in self.sends if s["tp"] == tp]
        if self.portable or not own or tp in self.deleted_topics:
            return False
        ru, rc = (bool(self.bounds.get((tp, level), {}).get("complete")) for level in (RU, RC))
        return not (rc if any(s["txn"] for s in own) else rc or ru)

    # Commits ------------------------------------------------------------------------------------

    def done(self, commit: Row) -> int:
        """When a row of commits is complete."""
        if commit["kind"] == CommitKind.TXN:
            return int(self.ops[commit["op"]]["complete_ns"])
        return NEVER if commit["outcome"] == INFO else int(commit["complete_ns"])

    @staticmethod
    def stored(commit: Row) -> bool:
        return commit["outcome"] == OK and commit["kind"] in STORING

    @staticmethod
    def may_be_stored(commit: Row) -> bool:
        return commit["outcome"] in (OK, INFO) and commit["kind"] in STORING

    def may_follow(self, e: Row, c: Row) -> bool:
        """A row of commits may count after another one of the same group and partition."""
        if not self.may_be_stored(e) or self.done(e) < c["invoke_ns"]:
            return False
        return not (e["kind"] == CommitKind.SYNC and 0 <= e["generation"] < c["generation"])

    def precedes(self, one: Row, other: Row) -> bool:
        return bool(self.done(one) < other["invoke_ns"])

    def position(self, group: int, tp: int) -> int:
        """The committed position of a group, -1 = none."""
        rows = [c for c in self.commits if (c["group"], c["tp"]) == (group, tp) and c["kind"] in STORING]
        good = [
            c["offset"]
            for c in rows
            if c["outcome"] == OK or (c["kind"] == CommitKind.TXN and c["op"] in self.proven)
        ]
        return max(good, default=-1)

    def group_of(self, row: Row) -> int:
        return int(self.processes[row["process"]]["group"])

    def applied(self, group: int) -> bool:
        """Whether a group is an application's."""
        members = (row["group"] for row in self.processes.values())
        return self.app is not None and group in members

    def is_rc(self, row: Row) -> bool:
        return bool(self.processes[row["process"]]["isolation"] == RC)

    def member(self, process: int, tp: int) -> bool:
        """Whether a group gives the process its partitions; tp -1: by its settings alone."""
        kinds = (AssignmentKind.ASSIGNED, AssignmentKind.REVOKED, AssignmentKind.LOST)
        given = any(row["process"] == process and row["kind"] in kinds for row in self.assignments)
        return bool(self.processes[process]["group"] >= 0) or (tp >= 0 and given)

    def changes(self, process: int, tp: int, *kinds: AssignmentKind) -> list[Row]:
        """Rows of assignments of a process and partition, of these kinds (none: all)."""
        return [
            row
            for row in self.assignments
            if row["process"] == process and row["tp"] == tp and (not kinds or row["kind"] in kinds)
        ]


def reads_of_sends(f: Facts) -> Iterator[tuple[Row, Row]]:
    """Every read of a value that was sent to its partition, with the send."""
    for read in f.reads:
        send = f.send_of.get((read["tp"], read["value"]))
        if send is not None:
            yield read, send
