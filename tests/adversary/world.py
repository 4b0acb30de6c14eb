"""A small Kafka: logs with leaders, high watermarks and transactions, two coordinators, and a clock.

It keeps Kafka's promises until a planted bug (`Plan.bugs`) breaks one. What clients see becomes rows.
Not here: clients (`tests.adversary.clients`), what is an anomaly (`tests.adversary.judge`).
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from core.config import RunConfig
from core.keys import INPUT_KEYS
from core.op import AssignmentKind, CommitKind, End, Isolation, Outcome, Phase, value_of
from history.events import Event, RolesSeen
from history.rows import NUMBER_KEPT
from tests.adversary.rows import Row

Steps = Generator[None, None, None]
Ended = Generator[None, None, Outcome]
Asked = Generator[None, None, bool]
MS = 1_000_000
RC, RU = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED
MARKER = -1
"""`value` of an entry that ends a transaction."""


@dataclass(slots=True)
class Entry:
    """What stands at one offset. token: of its transaction, -1 = none."""

    offset: int
    value: int
    token: int = -1


@dataclass
class Log:
    """One partition. fate: of each transaction that wrote here: "open", "commit", "abort". replaced: the log
    of a leader that was cut off and replaced, and still answers clients that wait for it alone. lost: it has
    no leader any more. base, partition: of an application's topics; of others each has one partition. Of
    records that were deleted (`tests.adversary.removals`): asked: below which offset;
    deleted: values; forgotten: where the log began before the last deletion, what that took, and the
    transactions that wrote it."""

    tp: int
    entries: list[Entry] = field(default_factory=list)
    start: int = 0
    end: int = 0
    high: int = 0
    leader: int = 1
    epoch: int = 0
    fate: dict[int, str] = field(default_factory=dict)
    replaced: "Log | None" = None
    topic: str = ""
    base: str = ""
    partition: int = 0
    lost: bool = False
    asked: int = 0
    deleted: set[int] = field(default_factory=set)
    forgotten: tuple[int, list[Entry], set[int]] = (0, [], set())

    @property
    def name(self) -> str:
        """Topic and partition."""
        return f"{self.title}-{self.partition}"

    @property
    def title(self) -> str:
        """Topic."""
        return self.topic or self.base or f"t{self.tp}"

    def append(self, value: int, token: int = -1) -> Entry:
        """Add a record, or a marker, at the end."""
        entry = Entry(self.end, value, token)
        self.entries.append(entry)
        if token >= 0 and value != MARKER:
            self.fate.setdefault(token, "open")
        self.end += 1
        return entry

    def mark(self, token: int, fate: str) -> None:
        """End a transaction here; markers wait until all in-sync replicas have them."""
        self.append(MARKER, token)
        self.fate[token] = fate
        self.high = self.end

    def stable(self) -> int:
        """The last stable offset."""
        opened = [e.offset for e in self.entries if e.token >= 0 and self.fate.get(e.token) == "open"]
        return min([*opened, self.high])

    def holds(self, entry: Entry) -> bool:
        """Whether the entry is still there."""
        return any(each is entry for each in self.entries)

    def cut(self, end: int) -> None:
        """Lose everything from `end` on."""
        self.entries = [e for e in self.entries if e.offset < end]
        self.end = min(self.end, max(end, self.start))
        self.high = min(self.high, self.end)
        alive = {e.token for e in self.entries}
        for token in list(self.fate):
            if token not in alive:
                del self.fate[token]
            elif not any(e.value == MARKER and e.token == token for e in self.entries):
                self.fate[token] = "open"

    def visible(self, level: int, start: int, *, dirty: bool = False) -> list[Entry]:
        """What a fetch returns from `start` on. dirty: a bug: the last stable offset is ignored."""
        end = self.high if level == RU or dirty else self.stable()
        hidden = "abort" if level == RC else "none"
        return [
            e
            for e in self.entries
            if start <= e.offset < end and e.value != MARKER and self.fate.get(e.token, "") != hidden
        ]


@dataclass
class Op:
    """One op and its rows. complete -1: never."""

    process: int
    f: str
    invoke: int
    txn: bool = False
    phase: Phase = Phase.FAULTS
    complete: int = -1
    outcome: Outcome = Outcome.INFO
    deliberate: bool = False
    sends: list[Row] = field(default_factory=list)
    reads: list[Row] = field(default_factory=list)
    commits: list[Row] = field(default_factory=list)
    assigns: list[Row] = field(default_factory=list)
    foreign: list[Row] = field(default_factory=list)
    deliveries: list[Row] = field(default_factory=list)
    acknowledgements: list[Row] = field(default_factory=list)
    pos: int = 0


@dataclass(frozen=True)
class Promise:
    """What has to be found after a bug struck (`World.promise`)."""

    bug: str
    holds: Callable[[], bool]
    classes: tuple[str, ...]


@dataclass
class TxnId:
    """What the coordinator knows of a transactional id."""

    owner: int = -1
    token: int = -1
    left: int = 0
    """Markers of the last transaction that are still to be written."""


@dataclass
class Group:
    """What the coordinator knows of a group. committed: position by partition; pending: partitions with an
    offset in a transaction without markers, as they came; passed: those of them that one which came later,
    and whose marker is there, has replaced."""

    number: int
    tps: list[int]
    generation: int = 0
    owner: dict[int, int] = field(default_factory=dict)
    members: list[int] = field(default_factory=list)
    committed: dict[int, int] = field(default_factory=dict)
    pending: list[tuple[int, int]] = field(default_factory=list)
    passed: set[tuple[int, int]] = field(default_factory=set)


@dataclass
class Plan:
    """What a run is to be. bugs: planted, each strikes at most once. config: what Kafka is set to. more: what
    it has of `tests.adversary.removals`."""

    config: RunConfig
    bugs: list[str]
    coarse: bool
    portable: bool
    tps: int
    more: frozenset[str] = frozenset()


class World:
    """The cluster, the clock, and what is recorded."""

    def __init__(self, rng: Random, plan: Plan) -> None:
        self.rng, self.plan = rng, plan
        self.now = 1000 * MS
        self.logs = [Log(tp, leader=rng.randint(1, 3)) for tp in range(plan.tps)]
        self.ops: list[Op] = []
        self.processes: list[Row] = []
        self.bounds: list[Row] = []
        self.producers: list[Row] = []
        self.events: list[Event] = []
        self.later: list[Callable[[], None]] = []
        self.ids: dict[int, TxnId] = {}
        self.groups: list[Group] = []
        self.tokens = 0
        self.budget = rng.randint(5, 25)
        self.pending = list(plan.bugs)
        self.planted: list[str] = []
        self.promises: list[Promise] = []
        self.out: set[int] = set()
        """Nodes that lost their power, and are not in sync yet."""
        named = ("__transaction_state-0", "__consumer_offsets-0")
        self.coordinators = {name: 1 for name in named if rng.random() < 0.7}
        if "shares" in plan.more:
            self.coordinators["__share_group_state-0"] = 1
        self.pace = rng.choice((1, 1, 10))
        self.retired = False
        """Retention removed records while the final reads lasted."""
        self.zombies: set[int] = set()
        """Fenced processes that brokers serve all the same: a bug."""
        self.late: dict[tuple[int, int, int], int] = {}
        """Where a process begins, by partition and assignment, that has to begin at the beginning: a bug."""
        self.past: list[Log] = []
        """Logs of topics that were deleted, and made again."""
        self.former: list[Group] = []
        """Groups as they were then."""
        self.shared: Any = None
        """The share group (`tests.adversary.shares`)."""
        self.app: Any = None
        """The application (`tests.adversary.applications`)."""
        self.database: list[Log] = []
        """Where an application has its effects, instead of topics."""
        self.fed = plan.tps
        """Into so many partitions clients send."""
        self.remaking = 0
        """Since when topics are being deleted; 0 = not now."""
        self._values: dict[int, int] = {}
        self._assignment: dict[tuple[int, int], int] = {}

    # Time and chance ------------------------------------------------------------------------------

    def tick(self) -> int:
        """Time passes; in coarse runs several things happen at one moment."""
        self.now += self.rng.randint(0 if self.plan.coarse else 1, 400) * self.pace * MS
        return self.now

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def strikes(self, bug: str, share: float = 0.5) -> bool:
        """Whether a planted bug strikes now. It strikes once."""
        if bug not in self.pending or not self.chance(share):
            return False
        self.pending.remove(bug)
        self.planted.append(bug)
        return True

    def promise(self, bug: str, holds: Callable[[], bool], *classes: str) -> None:
        """A bug struck. Where `holds` at the end of the run, one of these classes has to be found."""
        self.promises.append(Promise(bug, holds, classes))

    def op_of(self, tp: int, value: int) -> tuple[Op, Row] | None:
        """The op that sent a value, and its row."""
        return next(
            ((op, row) for op in self.ops for row in op.sends if (row["tp"], row["value"]) == (tp, value)),
            None,
        )

    def promised(self, tp: int, value: int) -> bool:
        """Whether Kafka has promised the client that the record is in the log."""
        found = self.op_of(tp, value)
        if found is None:
            return False
        op, row = found
        return row["outcome"] != Outcome.FAIL and (op.outcome if op.txn else row["outcome"]) == Outcome.OK

    def read_whole(self, tp: int) -> bool:
        """Whether the final reads showed all of a partition, at both levels."""
        rows = [row for row in self.bounds if row["tp"] == tp]
        return len(rows) == 2 and all(row["complete"] for row in rows) and rows[0]["end"] == rows[1]["end"]

    def holds(self, tp: int, value: int) -> bool:
        """Whether the log holds a record."""
        log = next(log for log in (*self.logs, *self.past) if log.tp == tp)
        return any(entry.value == value for entry in log.entries)

    def gone(self, tp: int, values: list[int]) -> bool:
        """Whether some promised record of these is not in the log, and the final reads show so."""
        return self.read_whole(tp) and any(
            self.promised(tp, v) and not self.holds(tp, v) and not self.may_be_deleted(tp, v) for v in values
        )

    def may_be_deleted(self, tp: int, value: int) -> bool:
        """Whether the record may have stood where a leader was asked to delete."""
        found = self.op_of(tp, value)
        asked = self.logs[tp].asked
        return found is not None and found[1]["offset"] < asked and asked > 0

    def land(self) -> None:
        """One of the delayed effects takes place."""
        if self.later:
            self.later.pop(self.rng.randrange(len(self.later)))()

    # Rows -----------------------------------------------------------------------------------------

    def start(self, slot: int, **settings: Any) -> int:
        """A new process of a slot; settings over those of a consumer without a group."""
        number = len(self.processes)
        row: Row = {
            "process": number, "slot": slot, "group": -1, "isolation": -1, "txn_id": -1, "acks": -2,
            "idempotent": 0, "auto_commit": 0, "retries": 2**31 - 1, "in_flight": 5,
            "socket_timeout_ms": 3000, "start_ns": self.tick(), "end_ns": self.now, "end": End.CLOSED,
        }  # fmt: skip
        self.processes.append(row | settings)
        return number

    def begin(self, process: int, f: str, *, txn: bool = False, phase: Phase = Phase.FAULTS) -> Op:
        """An op is invoked."""
        op = Op(process, f, self.tick(), txn=txn, phase=phase)
        self.ops.append(op)
        return op

    def end(self, op: Op, outcome: Outcome) -> None:
        """An op completes; an indefinite one sometimes never does."""
        op.outcome = outcome
        if outcome != Outcome.INFO or self.chance(0.6):
            op.complete = self.tick()
        self.processes[op.process]["end_ns"] = self.now

    def send(self, op: Op, tp: int, source: tuple[int, int] = (-1, -1)) -> Row:
        """A record that an op sets out to send."""
        n = self._values.get(op.process, 0)
        self._values[op.process] = n + 1
        row: Row = {
            "tp": tp, "process": op.process, "pos": op.pos, "value": self._value(op.process, n), "offset": -1,
            "outcome": Outcome.INFO, "invoke_ns": self.tick(), "ack_ns": -1, "src_tp": source[0],
            "src_offset": source[1],
        }  # fmt: skip
        op.pos += 1
        op.sends.append(row)
        return row

    def _value(self, process: int, n: int) -> int:
        """In compacted topics records have one of three keys, and every second one deletes it. So it is with
        the input of an application, of which none deletes."""
        if self.app is not None:
            return value_of(process, n * INPUT_KEYS + self.rng.randrange(3))
        return value_of(process, n * 128 + self.rng.randrange(3) if self.plan.config.compacted else n)

    def got(self, op: Op, tp: int, entries: list[Entry], begin: int) -> None:
        """A poll returned these."""
        end, epoch = self.tick(), [*self.logs, *self.database][tp].epoch
        for entry in entries:
            op.reads.append(
                {
                    "tp": tp, "process": op.process, "pos": op.pos, "offset": entry.offset,
                    "value": entry.value, "leader_epoch": epoch,
                    "assignment": self._assignment.get((op.process, tp), 0),
                    "invoke_ns": begin, "complete_ns": end,
                }
            )  # fmt: skip
            op.pos += 1

    def assignment(self, process: int, tp: int) -> int:
        """The number of the present assignment of a partition."""
        return self._assignment.get((process, tp), 0)

    def assign(
        self, op: Op, tp: int, kind: AssignmentKind, *, kept: bool = False, generation: int = -1
    ) -> None:
        """What a process reads changed."""
        number = self._assignment.get((op.process, tp), 0) + (not kept and kind not in NUMBER_KEPT)
        self._assignment[op.process, tp] = number
        op.assigns.append(
            {
                "process": op.process, "tp": tp, "generation": generation, "assignment": number,
                "kind": kind, "ns": self.tick(),
            }
        )  # fmt: skip

    def commit(
        self, op: Op, tp: int, offset: int, kind: CommitKind, outcome: Outcome, generation: int, begin: int
    ) -> None:
        """An offset was committed, or fetched."""
        op.commits.append(
            {
                "group": self.processes[op.process]["group"], "tp": tp, "process": op.process,
                "generation": generation, "offset": offset, "kind": kind, "outcome": outcome,
                "invoke_ns": begin, "complete_ns": self.tick(),
            }
        )  # fmt: skip

    def roles(self) -> None:
        """The harness looks at the leaders."""
        self.events.append(
            RolesSeen(
                ns=self.tick(),
                leaders={log.name: -1 if log.lost else log.leader for log in self.logs} | self.coordinators,
                isr={log.name: tuple({1, 2, 3} - self.out) for log in self.logs}
                | {name: tuple({1, 2, 3} - self.out) for name in self.coordinators},
                controller=1,
                answering=(1, 2, 3),
                agreed=True,
                epochs={log.name: log.epoch for log in self.logs} if "shares" in self.plan.more else {},
            )
        )

    # Transactions ---------------------------------------------------------------------------------

    def decide(
        self, known: TxnId, token: int, fate: str, group: Group | None, offsets: dict[int, int]
    ) -> None:
        """The coordinator has decided: markers are on their way."""
        known.token = -1
        if fate == "abort":
            self.drop(token)
        parts = [log for log in self.logs if token in log.fate]
        effects = [self._marker(log, token, fate) for log in parts]
        if group is not None:
            effects += [self._stored(group, token, tp, at, fate) for tp, at in offsets.items()]
        known.left += len(effects)

        def landing(effect: Callable[[], None]) -> Callable[[], None]:
            def land() -> None:
                effect()
                known.left -= 1

            return land

        self.later += [landing(effect) for effect in effects]

    def drop(self, token: int) -> None:
        """The offsets of a transaction that was aborted are forgotten."""
        for group in self.groups:
            group.pending = [each for each in group.pending if each[0] != token]

    def _marker(self, log: Log, token: int, fate: str) -> Callable[[], None]:
        def land() -> None:
            if token not in log.fate:
                return
            if self.strikes("hanging", 0.3):
                self.promise("hanging", lambda: self._held(log), "stuck-lso")
                return
            if fate == "abort" and self.strikes("aborted-visible"):
                own = [e.value for e in log.entries if e.token == token and e.value != MARKER]
                self.promise("aborted-visible", lambda: self._aborted(log, own), "aborted-read")
                log.mark(token, "commit")
            elif fate == "commit" and self.strikes("torn"):
                own = [e.value for e in log.entries if e.token == token and e.value != MARKER]
                self.promise("torn", lambda: self.hidden(log, own), "lost-write")
                log.mark(token, "abort")
            else:
                log.mark(token, fate)

        return land

    def _aborted(self, log: Log, values: list[int]) -> bool:
        """Whether the log shows one of these to everybody, and its client knows that it was aborted."""
        found = [self.op_of(log.tp, value) for value in values if self.holds(log.tp, value)]
        return self.read_whole(log.tp) and any(each and each[0].outcome == Outcome.FAIL for each in found)

    def _held(self, log: Log) -> bool:
        return (
            log.stable() < log.high
            and not (log.lost or log.topic)
            and len([row for row in self.bounds if row["tp"] == log.tp]) == 2
        )

    def hidden(self, log: Log, values: list[int]) -> bool:
        """Whether the log has some promised record of these, and readers at read_committed do not get it."""
        shown = {e.value for e in log.visible(RC, 0)}
        return self.read_whole(log.tp) and any(
            self.promised(log.tp, v) and self.holds(log.tp, v) and v not in shown for v in values
        )

    def _stored(self, group: Group, token: int, tp: int, offset: int, fate: str) -> Callable[[], None]:
        def land() -> None:
            mine = (token, tp)
            if fate == "commit" and mine not in group.passed and not self.strikes("eos-twice"):
                group.committed[tp] = offset
                older = group.pending[: group.pending.index(mine)] if mine in group.pending else []
                group.passed.update(each for each in older if each[1] == tp)
            if mine in group.pending:
                group.pending.remove(mine)

        return land

    def time_out(self) -> None:
        """Coordinators abort what nobody ended."""
        for known in self.ids.values():
            if known.token >= 0:
                for log in self.logs:
                    if log.fate.get(known.token) == "open":
                        log.mark(known.token, "abort")
                known.token = -1
