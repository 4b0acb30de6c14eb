"""A notation for small histories, read by `tests/checkers/test_golden.py` from `tests/histories/*.txt`.

    == lost-write: hit: the end of the log was read, the record is not there
    p0 send x:1@0 x:2@1
    p9 final x[1@0]
    end x rc 2
    = lost-write x 2

`==` begins a case, with the class that it is about, what it shows (hit, near miss, indeterminate) and
its story. Then one op a line, in order of completion; `#` begins a comment.

    p0 send …      process 0, f (send, poll, txn, assign, final = a poll of the final reads)
    p0! p0? p0*    the op failed, is indeterminate, never completed (no mark: ok)
    | p0 …         overlaps the line before it: all ops of such a group begin before one completes
    & p0 …         begins in the very tick in which the line before it completes
    x:1@0 x:1      send value 1 to partition x, acknowledged at offset 0, or with no known offset;
                   x:1! x:1? the record failed, is in doubt (no mark: acknowledged if there is an
                   offset, else as the op)
    y:5<x@3 …      value 5 to y is a copy of what stands at offset 3 of x (y:5@0<x@3?, …)
    …              what follows in the op begins only when it completes
    x[1@0,2@1]     a poll returned value 1 at offset 0 and value 2 at offset 1 of x
    x/assigned     the assignment of x changed (assigned, revoked, lost, manual, rewind, reset, beginning;
                   kept = manual, but the process had it before)
    x/assignedg2   the same, in a generation
    x/corrupt@3    a poll returned a foreign record at offset 3 (the reasons of history.tables)
    x>5 x>5!g2     offset 5 committed: `>` sync, `>>` in the transaction, `>>>` auto, `<` told by the
                   group; with an outcome, and a generation
    x{1@0}         a share group delivered value 1, at offset 0 of x, for the first time (x{1@0*3}: for
                   the third)
    x+0 x~0 x-0    the record at offset 0 was accepted, released, rejected; with an outcome (x+0?)
    set p1 ru …    settings of a process: ru, rc, none (no consumer), acks0, acks1, acks-2 (no
                   producer), plain (not idempotent), serial (one request at a time), group0, slot1, txn0
                   (transactional id), auto (commits by itself), and how it ended: replaced, crashed
                   (else closed)
    end x rc 5 …   final read of x: its end; `read 3` = it only got there; `from 2` = start of the log
    open x 7 3     at the end of quiescence the transaction of producer id 7 that begins at offset 3
                   of x is open (an earlier look, which found others, is put before)
    unrecovered    the cluster did not recover
    stalled 1 2    it did, and clients 1 and 2 stood still
    moving         the ends of the logs still moved when they were listed
    incomplete     the recording is not whole
    recorded       a recorded history although there is no `end`
    application    a run of an application: the key of an input record is its value mod 16; `application x…`
                   with a shape, or `effects`
    retention      the topics have a limit that may remove records
    forgets 5      brokers forget a producer that wrote nothing for 5 ticks, of half a second each;
                   `forgets 5 3.3.2`: brokers of a version have the setting that says so
    brokers 2.4.1  the version of the brokers
    compact 5      the topics are compacted, and tombstones stay for 5 ticks, of half a second each; of
                   value v, v mod 128 is the key, and it is a tombstone where v / 128 is odd
    ahead 4        the wall's clock was set forward by 4 ticks
    share          a run of the workload share, in ticks of half a second: a lock lasts four. `share 2` = a
                   record is delivered twice at most
    start x 5      the share group is done with x below offset 5
    fault 3 7      a fault on a node lasted from tick 3 to tick 7
    leader x 2 5   a look at tick 5 (-5: before the first op) shows node 2 as the leader of x, and all
                   brokers say so; `leader x 2 5 some` = some name another one; `epoch 3` at the end: its
                   leader epoch
    = class …      a finding: partitions by name, `-` for none, ops as #1 (first op of the case); at the
                   end, where it matters, its variant: `(auto)`, `()` = none
    unknown class  the class cannot be decided

Times are one tick an event. The findings must be exactly those listed.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec
import pyarrow as pa

from core.cluster import OpenTransaction
from core.config import RunConfig, run_config
from core.op import Acknowledgement, AssignmentKind, CommitKind, End, Isolation, Outcome, Phase
from core.producer_state import EXPIRATION
from history.events import (
    BoundsListed,
    ClockJumped,
    Event,
    FaultHealed,
    FaultStarted,
    Note,
    Recovered,
    RolesSeen,
    ShareOffsetsListed,
    TransactionsOpen,
)
from tests.histories.built import (
    Assign,
    Bound,
    Built,
    Commit,
    Delivery,
    Foreign,
    Mop,
    Op,
    Process,
    Read,
    Said,
    Send,
)
from tests.histories.random_faults import TICK_NS, slowed

MARKS: Final = {"": Outcome.OK, "!": Outcome.FAIL, "?": Outcome.INFO, "*": Outcome.INFO}
NEVER: Final = -1
LATE: Final = (-1, -1)
"""Time of what begins only when its op completes."""
LEVELS: Final = {"rc": Isolation.READ_COMMITTED, "ru": Isolation.READ_UNCOMMITTED, "none": Isolation.NONE}
COMMITS: Final = {">": "SYNC", ">>": "TXN", ">>>": "AUTO", "<": "FETCHED"}
FINDING: Final = re.compile(r"= (\S+) ?([^()]*?)(?: \(([\w ]*)\))?")
OP: Final = re.compile(r"([|&]?) *p(\d+)([!?*]?) (\w+) ?(.*)")
SEND: Final = re.compile(r"(\w+):(\d+)(?:@(\d+))?(?:<(\w+)@(\d+))?([!?]?)")
POLL: Final = re.compile(r"(\w+)\[(.*)\]")
CHANGE: Final = re.compile(r"(\w+)/([a-z-]+?)(?:g(\d+)|@(\d+))?")
DELIVERY: Final = re.compile(r"(\w+)\{(\d+)@(\d+)(?:\*(\d+))?\}")
SAID: Final = re.compile(r"(\w+)([+~-])(\d+)([!?]?)")
SIGNS: Final = {"+": "ACCEPT", "~": "RELEASE", "-": "REJECT"}
COMMIT: Final = re.compile(r"(\w+)(>+|<)(\d+)([!?]?)(?:g(\d+))?")


@dataclass(kw_only=True)
class Story:
    """One case. `recorded` None: by its bounds. `findings` as keys of docs/checks.md."""

    name: str
    built: Built = field(default_factory=lambda: Built(tps=[]))
    recorded: bool | None = None
    config: RunConfig = field(default_factory=lambda: RunConfig(seed=0))
    expected: list[tuple[str, str, str | None]] = field(default_factory=list)
    """Findings: class, key, variant (None: not said)."""
    unknown: set[str] = field(default_factory=set)
    open: list[tuple[str, int, int]] = field(default_factory=list)
    """Open transactions: partition, producer id, first offset."""
    starts: list[tuple[str, int]] = field(default_factory=list)
    """Start offsets of the share group."""
    ahead: int = 0
    """Ticks by which the wall's clock was set forward."""
    faults: list[tuple[int, int]] = field(default_factory=list)
    """Ticks from which to which a fault was in force."""
    leaders: list[tuple[str, int, int, bool, int]] = field(default_factory=list)
    """Partition, its leader, the tick of the look, whether all brokers said the same, and the leader epoch
    (-1 = not on record)."""
    recovered: bool = True
    stalled: tuple[int, ...] = ()
    moving: bool = False
    whole: bool = True

    @property
    def portable(self) -> bool | None:
        """Whether it is portable; None: if it has no bounds."""
        return None if self.recorded is None else not self.recorded

    def tables(self) -> dict[str, pa.Table]:
        """The tables of its history."""
        made = self.built.tables()
        config = self.config
        slow = config.compacted or config.workload == "share" or EXPIRATION in config.broker_settings
        return slowed(made) if slow else made

    def events(self) -> list[Event]:
        """What the events of such a run say, as far as the checks look at it."""
        rows = tuple(
            OpenTransaction(topic=tp, partition=0, producer_id=pid, producer_epoch=0, start=start)
            for tp, pid, start in self.open
        )
        events: list[Event] = [Recovered(ns=0, recovered=self.recovered, seconds=1.0, stalled=self.stalled)]
        if self.ahead:
            events.append(ClockJumped(before_ns=0, ns=1, wall_s=self.ahead * TICK_NS / 1e9))
        if self.starts:
            listed = tuple(("g", tp, 0, offset) for tp, offset in self.starts)
            events.append(ShareOffsetsListed(ns=1, rows=listed))
        for number, (begin, end) in enumerate(self.faults):
            since, until = begin * TICK_NS, end * TICK_NS
            events.append(
                FaultStarted(
                    begin_ns=since, ns=since, fault=number, name="pause:short", nodes=(1,), text="", colour=""
                )
            )
            events.append(FaultHealed(begin_ns=until, ns=until, fault=number))
        for tp, node, tick, agreed, epoch in self.leaders:
            seen = RolesSeen(
                ns=tick * TICK_NS,
                leaders={f"{tp}-0": node},
                isr={},
                controller=1,
                answering=(1, 2),
                agreed=agreed,
                epochs={f"{tp}-0": epoch} if epoch >= 0 else {},
            )
            events.append(seen)
        if rows:
            others = (msgspec.structs.replace(row, producer_id=row.producer_id + 90) for row in rows)
            events += [TransactionsOpen(ns=1, rows=(*others,)), TransactionsOpen(ns=2, rows=rows)]
        if self.moving:
            events.append(BoundsListed(ns=2, rows=(), stable=False, moving="x-0: end 2"))
        return events if self.whole else [*events, Note(ns=3, text="cut short", incomplete=True)]

    def findings(self) -> set[tuple[str | int, ...]]:
        """The keys of what has to be found."""
        return {key for key, _ in self._keys()}

    def variants(self) -> dict[tuple[str | int, ...], str]:
        """The variants of findings of which the case says them."""
        return {key: variant for key, variant in self._keys() if variant is not None}

    def _keys(self) -> Iterator[tuple[tuple[str | int, ...], str | None]]:
        order = sorted(self.built.ops, key=lambda op: (op.complete is None, op.complete, op.invoke))
        words = {f"#{n}": order.index(op) for n, op in enumerate(self.built.ops, 1)}
        words |= {"-": -1} | {tp: n for n, tp in enumerate(self.built.tps)}
        for name, rest, variant in self.expected:
            yield (name, *(words[w] if w in words else int(w) for w in rest.split())), variant


def stories(text: str) -> Iterator[Story]:
    """The cases of a file. Raises ValueError on a line that means nothing."""
    for block in re.split(r"^== ", text, flags=re.MULTILINE)[1:]:
        name, *lines = block.splitlines()
        story, group, now = Story(name=name), list[Op](), 0
        for line in [*(line.split("#  ")[0].strip() for line in lines), ""]:
            op = OP.fullmatch(line)
            if not (op and op[1] == "|"):
                now = _complete(group, now)
                group = []
            if op:
                now += op[1] != "&"
                group.append(_op(story.built, op, now))
            elif line and not line.startswith("# "):
                _line(story, line)
        yield story


def _complete(group: list[Op], now: int) -> int:
    """All ops of a group complete, in their order, but those that never do."""
    for op in group:
        now += 1
        op.complete = None if op.complete == NEVER else now
        for mop in op.mops:
            if isinstance(mop, Send | Read | Commit | Delivery | Said) and mop.ns == LATE:
                mop.ns = (now, now)
    return now


def _op(built: Built, found: re.Match[str], now: int) -> Op:
    f, rest = found[4], found[5]
    complete = NEVER if found[3] == "*" else None
    op = Op(process=int(found[2]), f=f, invoke=now, complete=complete, txn=f == "txn")
    op.outcome = MARKS[found[3]]
    op.phase = Phase.FINAL if f == "final" else Phase.FAULTS
    early, _, late = rest.partition("…")
    op.mops = [mop for word in early.split() for mop in _mops(built, word)]
    for mop in [mop for word in late.split() for mop in _mops(built, word)]:
        if isinstance(mop, Send | Read | Commit | Delivery | Said):
            mop.ns = LATE
        op.mops.append(mop)
    if op.mops and all(isinstance(mop, Send) for mop in op.mops):
        op.f = "send"
    built.ops.append(op)
    return op


def _tp(built: Built, name: str) -> int:
    if name not in built.tps:
        built.tps.append(name)
    return built.tps.index(name)


def _mops(built: Built, word: str) -> Iterator[Mop]:
    if found := SEND.fullmatch(word):
        send = Send(tp=_tp(built, found[1]), value=int(found[2]), offset=int(found[3] or -1))
        send.outcome = MARKS[found[6]] if found[6] else None
        if found[4]:
            send.source = _tp(built, found[4]), int(found[5])
        yield send
    elif found := POLL.fullmatch(word):
        tp = _tp(built, found[1])
        for record in filter(None, found[2].split(",")):
            value, offset = record.split("@")
            yield Read(tp=tp, offset=int(offset), value=int(value))
    elif found := DELIVERY.fullmatch(word):
        where, value, offset = _tp(built, found[1]), int(found[2]), int(found[3])
        yield Delivery(tp=where, value=value, offset=offset, count=int(found[4] or 1))
    elif found := SAID.fullmatch(word):
        where, said = _tp(built, found[1]), Acknowledgement[SIGNS[found[2]]]
        yield Said(tp=where, offset=int(found[3]), kind=said, outcome=MARKS[found[4]])
    elif found := COMMIT.fullmatch(word):
        kind, generation = CommitKind[COMMITS[found[2]]], int(found[5] or -1)
        tp, outcome = _tp(built, found[1]), MARKS[found[4]]
        offset = int(found[3])
        yield Commit(tp=tp, offset=offset, kind=kind, outcome=outcome, generation=generation)
    elif found := CHANGE.fullmatch(word):
        tp, what = _tp(built, found[1]), found[2]
        if found[4]:
            yield Foreign(tp=tp, offset=int(found[4]), reason=what)
        else:
            change = AssignmentKind["MANUAL" if what == "kept" else what.upper()]
            yield Assign(tp=tp, kind=change, kept=what == "kept", generation=int(found[3] or -1))
    else:
        raise ValueError(f"what is {word!r}?")


def _line(story: Story, line: str) -> None:
    word, *rest = line.split()
    if found := FINDING.fullmatch(line):
        story.expected.append((found[1], found[2], found[3]))
    elif word == "set":
        settings = story.built.processes.setdefault(int(rest[0][1:]), Process())
        for each in rest[1:]:
            _set(settings, each)
    elif word == "end":
        tp, level, end, *more = rest
        options = dict(zip(more[::2], map(int, more[1::2]), strict=True))
        bound = Bound(tp=_tp(story.built, tp), isolation=LEVELS[level], end=int(end), read_to=-1)
        bound.read_to, bound.start = options.get("read", bound.end), options.get("from", 0)
        story.built.bounds.append(bound)
    elif word == "unknown":
        story.unknown.add(rest[0])
    elif word == "open":
        story.open.append((rest[0], int(rest[1]), int(rest[2])))
        _tp(story.built, rest[0])
    elif word == "share":
        limit = {"group.share.delivery.count.limit": rest[0]} if rest else {}
        story.config = run_config({"seed": 0, "workload": "share", "broker_settings": limit})
    elif word == "start":
        story.starts.append((rest[0], int(rest[1])))
        _tp(story.built, rest[0])
    elif word == "ahead":
        story.ahead = int(rest[0])
    elif word == "fault":
        story.faults.append((int(rest[0]), int(rest[1])))
    elif word == "leader":
        epoch = int(rest[rest.index("epoch") + 1]) if "epoch" in rest else -1
        story.leaders.append((rest[0], int(rest[1]), int(rest[2]), "some" not in rest, epoch))
    elif line == "recorded":
        story.recorded = True
    elif word == "application":
        app = {"effects": True} if rest == ["effects"] else dict(zip(("shape",), rest, strict=False))
        story.config = run_config({"seed": 0, "workload": "application", "app": app})
    elif line == "retention":
        story.config = RunConfig(seed=0, topic_settings={"retention.ms": "1000"})
    elif word == "forgets":
        after = {EXPIRATION: str(int(rest[0]) * TICK_NS // 1_000_000)}
        version = {"kafka": rest[1]} if len(rest) > 1 else {}
        story.config = run_config({"seed": 0, "broker_settings": after, **version})
    elif word == "brokers":
        story.config = run_config({"seed": 0, "kafka": rest[0]})
    elif word == "compact":
        kept = {"cleanup.policy": "compact", "delete.retention.ms": str(int(rest[0]) * TICK_NS // 1_000_000)}
        story.config = RunConfig(seed=0, topic_settings=kept)
    elif line == "unrecovered":
        story.recovered = False
    elif word == "stalled":
        story.recovered, story.stalled = False, tuple(map(int, rest))
    elif line == "moving":
        story.moving = True
    elif line == "incomplete":
        story.whole = False
    else:
        raise ValueError(f"what is {line!r}?")


def _set(settings: Process, word: str) -> None:
    if word in LEVELS:
        settings.isolation = LEVELS[word]
    elif word == "serial":
        settings.in_flight = 1
    elif word == "plain":
        settings.idempotent = False
    elif word.startswith("acks"):
        settings.acks, settings.idempotent = int(word[4:]), False
    elif word.startswith("group"):
        settings.group = int(word[5:])
    elif word.startswith("slot"):
        settings.slot = int(word[4:])
    elif word.startswith("txn"):
        settings.txn_id = int(word[3:])
    elif word == "auto":
        settings.auto_commit = True
    elif word in ("replaced", "crashed"):
        settings.end = End[word.upper()]
    else:
        raise ValueError(f"what is {word!r}?")
