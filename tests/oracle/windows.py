"""Windows and excuses (docs/checks.md, section 6), in plain Python.

Part of the slow oracle (`tests.oracle.anomalies`); shares no code with the kernels.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeVar

from core.config import RunConfig
from core.op import AssignmentKind, CommitKind, Phase
from core.systems import KafkaSection, ModelSection, SimulatedSection
from history.events import FaultHealed, FaultStarted, NodeEnded, RolesSeen, TransactionsOpen
from tests.oracle.ops import members
from tests.oracle.words import FAIL, RC, RU, History, Key, Partition, Row

EVER: Final = 2**63 - 1
TEN_S: Final = 10 * 10**9
Times = list[tuple[int, int]]
T = TypeVar("T")


def of_brokers(fault: FaultStarted) -> bool:
    """It is not one beside the brokers."""
    family, _, rest = fault.name.partition(":")
    kind = rest.split("@")[0]
    if family == "partition":
        return kind not in ("clients-requests", "clients-responses")
    if family == "wire":
        of_nodes = ("markers", "share-state", "alter-partition", "heartbeat-controller")
        return kind in of_nodes or kind.startswith("fetch-")
    return family not in ("links", "half-open", "delete-records", "add-partitions")


def heeds(config: RunConfig) -> bool:
    """Some controller of the run looks at the setting of unclean elections."""
    if config.sut == "simulated":
        return not config.section(SimulatedSection).era.startswith(("3.3", "3.6"))
    if config.sut == "model":
        return not config.section(ModelSection).era.startswith(("3.3", "3.6"))
    if config.sut != "kafka":
        return True
    kafka = config.section(KafkaSection)
    old = tuple(map(int, (kafka.upgrade or kafka.version).split(".")[:2])) < (3, 9)
    return not (old and kafka.deployment == "kraft")


def limits(config: RunConfig) -> bool:
    """Some broker of the run acknowledges with as many replicas as there are, where those are fewer."""
    old = ("3.3", "3.6")
    if config.sut == "simulated":
        return not config.section(SimulatedSection).era.startswith(old)
    if config.sut == "model":
        return not config.section(ModelSection).era.startswith(old)
    if config.sut != "kafka":
        return True
    kafka = config.section(KafkaSection)
    return tuple(map(int, (kafka.upgrade or kafka.version).split(".")[:2])) >= (3, 7)


class Windows:
    """The windows of one partition, by its name."""

    def __init__(self, history: History, topic: str, name: str) -> None:
        self.history, self.config, self.topic, self.name = history, history.config, topic, name
        self.roles = sorted(_of(history, RolesSeen), key=lambda e: e.ns)
        self.replicas = {n for e in self.roles for n in (e.leaders.get(name, -1), *e.isr.get(name, ()))} - {
            -1
        }

    def _setting(self, own: str, brokers: str, otherwise: str) -> str:
        given = self.config.broker_settings.get(brokers, otherwise)
        return given if self.topic.startswith("__") else self.config.topic_settings.get(own, given)

    def minimum(self) -> int:
        """min.insync.replicas."""
        config, copies = self.config, min(3, self.config.brokers)
        if self.topic == "__transaction_state":
            return int(config.broker_settings.get("transaction.state.log.min.isr", min(2, copies)))
        if self.topic == "__share_group_state":
            least = min(2, copies)
            return int(config.broker_settings.get("share.coordinator.state.topic.min.isr", least))
        if self.topic == "__consumer_offsets":
            least = min(config.min_insync_replicas, copies)
            return int(config.broker_settings.get("min.insync.replicas", least))
        return int(config.topic_settings.get("min.insync.replicas", config.min_insync_replicas))

    def least(self, fault: FaultStarted) -> int:
        """How many replicas had what was acknowledged when this fault began."""
        if not limits(self.config):
            return self.minimum()
        names = {
            "__transaction_state": "transaction.state.log.replication.factor",
            "__share_group_state": "share.coordinator.state.topic.replication.factor",
            "__consumer_offsets": "offsets.topic.replication.factor",
        }
        copies = self.config.replication_factor
        if self.topic in names:
            brokers = self.config.broker_settings
            copies = int(brokers.get(names[self.topic], min(3, self.config.brokers)))
        for shrink in _of(self.history, FaultStarted):
            healed = [e.ns for e in _of(self.history, FaultHealed) if e.fault == shrink.fault]
            over = healed[-1] + TEN_S if healed else EVER
            taken = shrink.name.startswith("reassign:shrink") and self.replicas & set(shrink.nodes)
            if taken and shrink.begin_ns <= fault.begin_ns < over:
                return min(self.minimum(), max(copies - 1, 1))
        return min(self.minimum(), copies)

    def elects_unclean(self) -> bool:
        """Whether unclean elections are on."""
        name, config = "unclean.leader.election.enable", self.config
        if self.topic == "__transaction_state" or not heeds(config):
            return False
        own = config.broker_settings if self.topic.startswith("__") else config.topic_settings
        return str(own.get(name, config.unclean_leader_election)).lower() == "true"

    def leader(self) -> Times:
        """Leader windows."""
        found: Times = []
        led = [(e.ns, e.leaders.get(self.name, -1), e.epochs.get(self.name, -1)) for e in self.roles]
        while led and led[0][1] == -1:
            led.pop(0)
        found.append((0, led[0][0] if led else EVER))
        for n in range(len(led) - 1):
            (a, old, before), (b, new, after) = led[n], led[n + 1]
            if old == -1:
                found.append((a - TEN_S, b + TEN_S))
            elif old != new or (before >= 0 and after > before + 1):
                found.append((max(a, b - TEN_S), b + TEN_S))
        if led and led[-1][1] == -1:
            found.append((led[-1][0] - TEN_S, EVER))
        for fault in filter(of_brokers, _of(self.history, FaultStarted)):
            healed = [e.ns for e in _of(self.history, FaultHealed) if e.fault == fault.fault]
            if self.replicas & set(fault.nodes) or not (fault.nodes or fault.slots):
                found.append((fault.begin_ns, healed[-1] + TEN_S if healed else EVER))
        ended = [e.ns for e in _of(self.history, NodeEnded) if e.end.node in self.replicas]
        return found + [(ns - TEN_S, ns + TEN_S) for ns in ended]

    def unclean(self) -> Times:
        """Unclean windows."""
        return self.leader() if self.elects_unclean() else []

    def power(self, minimum: int = 0) -> Times:
        """Power windows, or those with this minimum."""
        if self._setting("flush.messages", "log.flush.interval.messages", "0") == "1":
            return []
        return [(fault.begin_ns, fault.ns) for fault in self.powerless(minimum)]

    def powerless(self, minimum: int = 0) -> list[FaultStarted]:
        """The faults that make them."""
        found: list[FaultStarted] = []
        faults = [f for f in _of(self.history, FaultStarted) if f.name.split(":")[0] == "power"]
        faults.sort(key=lambda f: (f.begin_ns, f.fault))
        for fault in faults:
            hit = {n for n in fault.nodes if n in self.replicas or not self.replicas}
            earlier = [f for f in faults if (f.begin_ns, f.fault) <= (fault.begin_ns, fault.fault)]
            out = {
                node
                for node in {n for f in earlier for n in f.nodes if n in self.replicas or not self.replicas}
                if self.back(node, [f for f in earlier if node in f.nodes][-1]) > fault.begin_ns
            }
            if hit and len(out) >= (minimum or self.least(fault)):
                found.append(fault)
        return found

    def out(self, fault: FaultStarted) -> dict[int, int]:
        """The replicas that were out when this fault took power, and when each was back."""
        faults = [f for f in _of(self.history, FaultStarted) if f.name.split(":")[0] == "power"]
        earlier = sorted(
            (f for f in faults if (f.begin_ns, f.fault) <= (fault.begin_ns, fault.fault)),
            key=lambda f: (f.begin_ns, f.fault),
        )
        found = {}
        for node in {n for f in earlier for n in f.nodes if n in self.replicas or not self.replicas}:
            found[node] = self.back(node, [f for f in earlier if node in f.nodes][-1])
        return {node: back for node, back in found.items() if back > fault.begin_ns}

    def kept(self, fault: FaultStarted) -> bool:
        """A replica in sync kept what had been committed before this loss of power."""
        out = self.out(fault)
        for node in self.replicas - set(out):
            before = [e for e in self.roles if e.ns < fault.begin_ns]
            while_out = [e for e in self.roles if fault.begin_ns <= e.ns <= max(out.values())]
            led = [e for e in while_out if e.ns > fault.ns and e.leaders.get(self.name, -1) in out]
            if any(e.leaders[self.name] in e.answering for e in led):
                return False
            after = [e for e in while_out if e.ns > fault.ns]
            if before and after and all(self._in_sync(node, e) for e in (before[-1], *while_out)):
                return True
        return False

    def back(self, node: int, fault: FaultStarted) -> int:
        """When a node that lost its power was in sync again."""
        healed = [e.ns for e in _of(self.history, FaultHealed) if e.fault == fault.fault]
        since = [e for e in self.roles if e.ns > fault.ns]
        for n, e in enumerate(since):
            was_out = self._out_before(node, fault)
            was_out |= any(not self._in_sync(node, x) for x in since[:n])
            if healed and e.ns > healed[-1] and was_out and self._in_sync(node, e):
                return e.ns
        return EVER

    def _out_before(self, node: int, fault: FaultStarted) -> bool:
        by_then = [e for e in self.roles if e.ns <= fault.ns]
        while len(by_then) > 1 and by_then[1].ns < fault.begin_ns:
            by_then.pop(0)
        if not by_then or by_then[0].ns >= fault.begin_ns or by_then[0].leaders.get(self.name, -1) == -1:
            return False
        return all(node not in e.isr.get(self.name, ()) for e in by_then)

    def _in_sync(self, node: int, e: RolesSeen) -> bool:
        return e.leaders.get(self.name, -1) != -1 and node in e.isr.get(self.name, ())

    def young(self, fault: FaultStarted) -> bool:
        """A replica may have had only for a moment what it had when this fault began."""
        begin, since = fault.begin_ns, fault.begin_ns - self.flush_ns()
        if any(e.end.node in self.replicas and e.ns < begin for e in _of(self.history, NodeEnded)):
            return True
        for other in filter(of_brokers, _of(self.history, FaultStarted)):
            here = not (other.nodes or other.slots) or not self.replicas or self.replicas & set(other.nodes)
            healed = [e.ns for e in _of(self.history, FaultHealed) if e.fault == other.fault]
            if here and other.begin_ns < begin and (not healed or healed[-1] >= since):
                return True
        for a, b in zip(self.roles, self.roles[1:], strict=False):
            came = set(b.isr.get(self.name, ())) - set(a.isr.get(self.name, ()))
            if came and a.ns < begin and since <= b.ns <= begin + TEN_S:
                return True
        return False

    def number(self) -> int:
        """How many records are flushed together, 0 = no number that narrows anything."""
        given = int(self._setting("flush.messages", "log.flush.interval.messages", "0"))
        return given if 1 < given <= 65_536 else 0

    def flush_ns(self) -> int:
        """How long after its acknowledgement a record may be unflushed."""
        brokers = self.config.broker_settings
        flusher = int(brokers.get("log.flush.scheduler.interval.ms", 0))
        if not 0 < flusher < 86_400_000:
            return EVER
        interval = int(self._setting("flush.ms", "log.flush.interval.ms", str(flusher)))
        delay = int(brokers.get("log.initial.task.delay.ms", 30_000))
        return (interval + 2 * flusher + delay) * 10**6 + TEN_S

    def away(self) -> Times:
        """When a replica was out of sync for longer than tombstones stay."""
        found: Times = []
        for node in self.replicas:
            named = [node in e.isr.get(self.name, ()) for e in self.roles]
            for n in range(1, len(named)):
                if named[n - 1] and not named[n]:
                    begin = max(self.roles[n - 1].ns, self.roles[n].ns - TEN_S)
                    end = self.roles[named.index(True, n)].ns if True in named[n:] else begin
                    if end - begin > self.history.tombstones:
                        found.append((begin, end))
        return found

    def excuse(
        self,
        since: int,
        until: int,
        *,
        weak: bool = False,
        read: bool = False,
        acked: int = -1,
        counted: int = EVER,
    ) -> str:
        """What may have taken records between two moments. read: a consumer had them. counted: when enough
        records behind it were acknowledged."""
        if _meets(self.unclean(), since, until):
            return "unclean"
        faults = self.powerless(1 if weak else 0) if self.power(1) else []
        if not weak or read:
            faults = [fault for fault in faults if not self.kept(fault)]
        spans = [(fault.begin_ns, fault.ns) for fault in faults]
        after = [window for window in _merged(spans) if window[0] > counted]
        for fault, window in zip(faults, spans, strict=True):
            timed = EVER if acked < 0 or self.young(fault) else acked + self.flush_ns()
            for low, high in [(since, min(until, counted))] + [
                (max(since, end + 1), until) for _, end in after[:1]
            ]:
                if _meets([window], low, min(high, timed)):
                    return "power"
        return "leader" if weak and _meets(self.leader(), since, until) else ""


def _of(history: History, kind: type[T]) -> list[T]:
    return [e for e in history.events if isinstance(e, kind)]


def _merged(windows: Times) -> Times:
    """Those that have a moment in common are one."""
    found: Times = []
    for begin, end in sorted(windows):
        if found and found[-1][1] >= begin:
            begin, end = found[-1][0], max(end, found[-1][1])
            found.pop()
        found.append((begin, end))
    return found


def _meets(windows: Times, since: int, until: int) -> bool:
    return since <= until and any(end >= since and begin <= until for begin, end in windows)


def _named(history: History, tp: int) -> Windows:
    topic, partition = history.names[tp]
    known = topic.split("~")[0]  # events do not tell a deleted topic from the next one
    return Windows(history, known, f"{known}-{partition}")


TRANSACTIONS: Final = ("__transaction_state",)
GROUPS: Final = ("__consumer_offsets",)
SHARES: Final = ("__share_group_state",)


def _internal(history: History, topics: tuple[str, ...]) -> Iterator[Windows]:
    for topic in topics:
        names = {n for e in _of(history, RolesSeen) for n in e.leaders if n.rpartition("-")[0] == topic}
        for name in names or (set() if topic in SHARES else {f"{topic}-?"}):
            yield Windows(history, topic, name)


def _first(excuses: list[str]) -> str:
    return min(excuses, key=["unclean", "power", "leader", ""].index, default="")


def _wide(history: History, tps: list[int], topics: tuple[str, ...], since: int, until: int) -> str:
    every = [*(_named(history, tp) for tp in tps), *_internal(history, topics)]
    return _first([one.excuse(since, until) for one in every])


def _until(row: Row) -> int:
    return EVER if row["ack_ns"] < 0 else int(row["ack_ns"])


def _weak(p: Partition, send: Row) -> bool:
    return p.history.processes[send["process"]]["acks"] in (0, 1)


def alone(p: Partition, send: Row) -> bool:
    """The leader that acknowledged it may be the only one that ever had it."""
    return _weak(p, send) and all(read["value"] != send["value"] for read in p.reads)


def hole(p: Partition, send: Row) -> bool:
    """The log is empty at its place."""
    ends = [b.end for b in p.bounds.values() if b.complete]
    finals = {read["offset"] for read in p.reads if read["phase"] == Phase.FINAL}
    finals |= {row["offset"] for row in p.foreign if p.history.ops[row["op"]]["phase"] == Phase.FINAL}
    dense = all(process["txn_id"] < 0 for process in p.history.processes.values())
    inside = bool(ends) and 0 <= send["place"] < max(ends)
    always = not (p.history.retention or p.deletions) and p.history.tombstones < 0
    return inside and send["place"] not in finals and dense and always


def read_before(p: Partition, send: Row) -> bool:
    """A read that is not FINAL returned its value."""
    return any(r["value"] == send["value"] and r["phase"] != Phase.FINAL for r in p.reads)


def first_sent(p: Partition, send: Row) -> int:
    """Since when its op sent records to the partition."""
    return int(min(s["invoke_ns"] for s in p.sends if s["op"] == send["op"]))


def may_be_hidden(p: Partition, send: Row) -> bool:
    """Of a missing send: a decision may hide it."""
    taken = p.covers(RU, send) and not p.shown(RU, send) and p.history.tombstones < 0
    return bool(send["txn"]) and not taken


def lost_write(p: Partition, key: Key) -> str:
    """lost-write."""
    send = p.send_of[int(key[2])]
    if p.recorded and may_be_hidden(p, send):
        return _wide(p.history, [p.tp], TRANSACTIONS, first_sent(p, send), EVER)
    behind = [
        s["ack_ns"]
        for s in p.sends
        if s["ack_ns"] >= 0 and s["place"] > send["place"] >= 0
        for r in p.reads
        if (r["phase"], r["value"], r["offset"]) == (Phase.FINAL, s["value"], s["place"])
    ]
    windows = _named(p.history, p.tp)
    until, counted = min(behind, default=EVER), EVER
    if until < send["invoke_ns"]:  # the one behind it was there before it: they are of two logs
        until = EVER
    if windows.number() and send["place"] >= 0:
        enough = send["place"] + windows.number() - 1
        every = [s for s in p.sends if s["offset"] >= enough and s["ack_ns"] >= 0]
        by_all = [
            s["ack_ns"]
            for s in every
            if p.history.processes[s["process"]]["acks"] == -1
            and not _meets(windows.power(1), s["invoke_ns"], s["ack_ns"])
        ]
        counted = min(by_all, default=EVER)
    return windows.excuse(
        send["invoke_ns"],
        until,
        weak=_weak(p, send),
        read=read_before(p, send),
        acked=send["ack_ns"],
        counted=counted,
    )


def _resurrected(p: Partition, key: Key) -> str:
    send = p.send_of[int(key[2])]
    since, windows = send["invoke_ns"], _named(p.history, p.tp)
    excuse = windows.excuse(since, EVER, weak=_weak(p, send), read=read_before(p, send))
    by_all = not _weak(p, send) and send["ack_ns"] >= 0 and not send["txn"]
    until = EVER if not by_all or _meets(windows.power(1), since, EVER) else send["ack_ns"]
    missed = excuse in ("", "leader") and _meets(windows.away(), since, until)
    return "away" if missed else excuse


def inversion(p: Partition, earlier: Row, later: Row) -> str:
    """offset-realtime-inversion, with the earlier send as its witness."""
    weak = _weak(p, earlier) or alone(p, later)
    return _named(p.history, p.tp).excuse(earlier["invoke_ns"], _until(later), weak=weak)


def _reordered(p: Partition, key: Key) -> str:
    before, after = p.send_of[int(key[2])], p.send_of[int(key[3])]
    return _named(p.history, p.tp).excuse(before["invoke_ns"], _until(after), weak=_weak(p, before))


def _duplicate(p: Partition, key: Key) -> str:
    send = p.send_of.get(int(key[2]))
    windows = _named(p.history, p.tp)
    return windows.excuse(send["invoke_ns"], _until(send)) if send else windows.excuse(0, EVER)


def _conflict(p: Partition, key: Key) -> str:
    sends = [s for s in p.sends if s["offset"] == key[2] and p.committed(s)]
    reads = [r for r in p.reads if r["offset"] == key[2]]
    since = [s["invoke_ns"] for s in sends] + [r["complete_ns"] - TEN_S for r in reads]
    until = [_until(s) for s in sends] + [r["complete_ns"] for r in reads]
    weak = any(process["acks"] in (0, 1) for process in p.history.processes.values())
    return _named(p.history, p.tp).excuse(min(since), max(until), weak=weak)


def _aborted(p: Partition, key: Key) -> set[str]:
    send = p.send_of[int(key[2])]
    reads = [r for r in p.reads if (r["value"], r["op"]) == key[2:4]]
    return {_marker(p, first_sent(p, send), r["complete_ns"]) for r in reads}


def _shown_early(p: Partition, key: Key) -> set[str]:
    """Until it was read, or given to a member of a share group."""
    since = first_sent(p, p.send_of[int(key[2])])
    given = [*p.reads, *(row for row in p.history.deliveries if row["tp"] == p.tp)]
    until = {row["complete_ns"] for row in given if (row["value"], row["op"]) == key[2:4]}
    return {_wide(p.history, [], TRANSACTIONS, since, ns) for ns in until}


def _circle(history: History, key: Key) -> str:
    """While its ops lasted."""
    ops = members(history, key)
    since, until = min(op["invoke_ns"] for op in ops), max(op["complete_ns"] for op in ops)
    return _wide(history, [], TRANSACTIONS, since, until)


def _marker(p: Partition, since: int, until: int, begun: int = -1) -> str:
    """What may have kept a marker from the log that is read. begun: since when it is missed, -1 = `since`."""
    away = _named(p.history, p.tp).away() if p.history.tombstones >= 0 else []
    return _wide(p.history, [p.tp], TRANSACTIONS, since, until) or (
        "away" if _meets(away, since if begun < 0 else begun, until) else ""
    )


def _copied_twice(p: Partition, key: Key) -> str:
    _, _, group, source, offset = key
    every = [
        (q.tp, s)
        for q in p.history.partitions
        for s in q.sends
        if s["src_tp"] == source and q.committed(s) and p.history.processes[s["process"]]["group"] == group
    ]
    copies = [(tp, s) for tp, s in every if s["src_offset"] == offset]
    mine = [(tp, s) for tp, s in copies if tp == p.tp]
    tps = [p.tp]
    if len(mine) == 1:  # the others are elsewhere
        mine, tps = copies, sorted({tp for tp, _ in every})
    since = min(s["invoke_ns"] for _, s in mine)
    return _wide(p.history, [*tps, int(source)], _logs(p.history, int(group), records=True), since, EVER)


def _copied_late(p: Partition, key: Key) -> str:
    group = int(key[2])
    logs = _logs(p.history, group, records=True)
    return _wide(p.history, [p.tp, int(key[3])], logs, _begun(p.history, group), EVER)


def _again(p: Partition, key: Key) -> set[str]:
    reads = [r for r in p.reads if r["op"] == key[3]]
    since, logs = _begun(p.history, int(key[2])), _logs(p.history, int(key[2]))
    return {_wide(p.history, [p.tp], logs, since, r["complete_ns"]) for r in reads}


def _went_back(p: Partition, key: Key) -> set[str]:
    _, _, group, op, offset = key
    rows = [
        c
        for c in p.history.commits
        if (c["group"], c["tp"], c["op"], c["offset"]) == (group, p.tp, op, offset)
    ]
    since, logs = _begun(p.history, int(group)), _logs(p.history, int(group))
    return {_wide(p.history, [p.tp], logs, since, c["complete_ns"]) for c in rows}


def _poll(p: Partition, key: Key) -> set[str]:
    """Of the step to a read of this op: any earlier read of its process may be q."""
    after = [r for r in p.reads if r["op"] == key[2] and (len(key) < 4 or r["pos"] == key[3])]
    found = set()
    for r in after:
        earlier = [
            q for q in p.reads if q["process"] == r["process"] and (q["op"], q["pos"]) < (r["op"], r["pos"])
        ]
        skips = "skip" in str(key[0])
        for q in earlier:
            since = q["complete_ns"] - TEN_S
            until = EVER if skips and not _stayed(p, r) else r["complete_ns"]
            found.add(_named(p.history, p.tp).excuse(since, until))
        for a in p.history.assignments if skips else ():
            same = all(a[name] == r[name] for name in ("process", "tp", "assignment"))
            if same and a["kind"] == AssignmentKind.BEGINNING:
                until = EVER if not _stayed(p, r) else r["complete_ns"]
                found.add(_named(p.history, p.tp).excuse(a["ns"] - TEN_S, until))
    return found


def _stayed(p: Partition, r: Row) -> bool:
    """A final read returned the record at its offset."""
    same = [f for f in p.reads if (f["offset"], f["value"]) == (r["offset"], r["value"])]
    return any(f["phase"] == Phase.FINAL for f in same)


def torn(history: History, op: int, missing: list[tuple[Partition, Row]]) -> str:
    """torn-txn, by its missing records."""
    excuses = []
    for p, send in missing:
        since = first_sent(p, send) if may_be_hidden(p, send) else send["invoke_ns"]
        excuses.append(_wide(history, [p.tp], TRANSACTIONS, since, EVER))
    return "" if "" in excuses else _first(excuses)


def _anywhere(history: History, topics: tuple[str, ...], since: int) -> str:
    return _wide(history, list(history.names), topics, since, EVER)


def excuses(history: History, key: Key) -> set[str]:
    """The excuses that the finding with this key may have."""
    name = str(key[0])
    if name == "torn-txn":
        return {""} if not history.recorded else {_torn(history, int(key[2]))}
    if name in ("eos-loss", "eos-uncommitted"):
        group = int(key[2])
        return {_anywhere(history, _logs(history, group, records=True), _begun(history, group))}
    if name == "zombie-write" and key[1] == -1:
        return {_anywhere(history, TRANSACTIONS, _of_ids(history, history.ops[int(key[2])]["process"]))}
    if name == "node-died":
        return {_died(history, int(key[2]), int(key[3]))}
    if name == "phantom-read" and key[3] == -1:
        rows = [row for row in history.foreign if (row["tp"], row["offset"]) == (key[1], key[2])]
        other_run = any(row["reason"] == 3 for row in rows)
        return {""} if other_run else {_input(history, row["payload"]) for row in rows if row["reason"] == 4}
    if name in ("G1c", "G1c-realtime") and key[1] == -1:
        return {_circle(history, key)}
    if key[1] == -1 or name not in _RULES:
        return {""}
    (p,) = (p for p in history.partitions if p.tp == key[1])
    found = _RULES[name](p, key)
    return {found} if isinstance(found, str) else found


def _input(history: History, payload: bytes) -> str:
    """What may have taken the record that output of an application names."""
    value = int(payload) if payload.isdigit() else -1
    every = [
        _wide(history, [p.tp], TRANSACTIONS, p.send_of[value]["invoke_ns"], EVER)
        for p in history.partitions
        if value in p.send_of
        and p.send_of[value]["outcome"] != FAIL
        and not p.returned(p.send_of[value])
        and history.recorded
    ]
    return next((one for one in ("unclean", "power", "leader") if one in every), "")


def _died(history: History, node: int, number: int) -> str:
    died = [e for e in _of(history, NodeEnded) if e.end.node == node][number]
    return "power" if power_took(history, died) else ""


def power_took(history: History, died: NodeEnded) -> bool:
    """A power window explains that a node died."""
    node = died.end.node
    every = [*(_named(history, tp) for tp in history.names)]
    refused = "log truncation is not allowed" in "\n".join(died.end.log)
    internal = _internal(history, GROUPS + TRANSACTIONS + SHARES)
    every += [one for one in internal if one.replicas or refused]
    for one in every:
        for fault in one.powerless() if one.power() else []:
            if refused and died.ns > fault.begin_ns:
                return True
            mine = node in fault.nodes and (node in one.replicas or not one.replicas)
            if mine and fault.begin_ns < died.ns <= one.back(node, fault):
                return True
    return False


def _torn(history: History, op: int) -> str:
    missing = [
        (p, s)
        for p in history.partitions
        for s in p.sends
        if s["op"] == op and s["outcome"] != FAIL and not p.seen(s) and p.missing(s)
    ]
    return torn(history, op, missing)


def _begun(history: History, group: int) -> int:
    """When the first process of a group started."""
    return min((p["start_ns"] for p in history.processes.values() if p["group"] == group), default=0)


def _logs(history: History, group: int, *, records: bool = False) -> tuple[str, ...]:
    """Internal topics that have what a group committed, or (records) what there was for it."""
    commits = any(c["group"] == group and c["kind"] == CommitKind.TXN for c in history.commits)
    ids = any(process["txn_id"] >= 0 for process in history.processes.values())
    by_application = history.config.app is not None and any(
        process["group"] == group for process in history.processes.values()
    )
    return GROUPS + TRANSACTIONS if commits or by_application or (records and ids) else GROUPS


def _since_its_group(p: Partition, key: Key) -> str:
    group = int(key[2])
    logs = _logs(p.history, group, records=key[0] == "group-skip")
    return _wide(p.history, [p.tp], logs, _begun(p.history, group), EVER)


def _of_coordinators(p: Partition, key: Key) -> str:
    return _wide(p.history, [], GROUPS, _begun(p.history, int(key[2])), EVER)


def _of_ids(history: History, process: int | None = None) -> int:
    """When the first process with a transactional id started, or with that of a process."""
    every = [row for row in history.processes.values() if row["txn_id"] >= 0]
    if process is not None:
        every = [row for row in every if row["txn_id"] == history.processes[process]["txn_id"]]
    return min((row["start_ns"] for row in every), default=0)


def _zombie(p: Partition, key: Key) -> str:
    since = _of_ids(p.history, p.send_of[int(key[2])]["process"])
    return _wide(p.history, [p.tp], TRANSACTIONS, since, EVER)


def _held(p: Partition, key: Key) -> str:
    start = lso = p.bounds[RC].end
    if key[0] == "hanging-txn":
        topic, number = p.history.names[p.tp]
        rows = _of(p.history, TransactionsOpen)[-1].rows
        own = [r.start for r in rows if (r.topic, r.partition, r.producer_id) == (topic, number, key[2])]
        start = min(one for one in own if max(one, p.bounds[RC].start) >= lso)
    at = [first_sent(p, s) for s in p.sends if s["txn"] and s["place"] == start >= lso]
    return _marker(p, _of_ids(p.history), EVER, min(at, default=-1))


def _shared(p: Partition, key: Key) -> set[str]:
    """Since the record was sent, or acknowledged, until it was delivered."""
    _, _, group, offset = key
    same = (group, p.tp, offset)
    rows = (*p.history.deliveries, *p.history.acknowledgements)
    of = [row for row in rows if (row["group"], row["tp"], row["offset"]) == same]
    given = [row for row in of if "value" in row]
    sent = [p.send_of[d["value"]] for d in given if d["value"] in p.send_of]
    aborted = key[0] == "share-aborted-read"
    logs = TRANSACTIONS if aborted else SHARES + GROUPS
    since = {first_sent(p, s) for s in sent} if aborted else {row["invoke_ns"] for row in of}
    return {_wide(p.history, [p.tp], logs, a, d["complete_ns"]) for a in since for d in given}


def _ever(p: Partition, key: Key) -> str:
    return _wide(p.history, [p.tp], SHARES + GROUPS, 0, EVER)


_RULES: Final[Mapping[str, Callable[[Partition, Key], str | set[str]]]] = {
    "share-redelivery": _shared,
    "share-aborted-read": _shared,
    "share-skip": _ever,
    **dict.fromkeys(
        (
            "dead-letter-of-accepted",
            "dead-letter-unearned",
            "dead-letter-twice",
            "dead-letter-differs",
            "dead-letter-of-nothing",
        ),
        _ever,
    ),
    "lost-write": lost_write,
    "resurrected-key": _resurrected,
    "nonmonotonic-send": _reordered,
    "int-nonmonotonic-send": _reordered,
    "duplicate": _duplicate,
    "inconsistent-offsets": _conflict,
    "aborted-read": _aborted,
    "precommitted-read": _shown_early,
    "offset-commit-regression": _went_back,
    "group-duplicate": _again,
    "eos-duplicate": _copied_twice,
    "nonmonotonic-copy": _copied_late,
    "zombie-write": _zombie,
    "group-skip": _since_its_group,
    "phantom-commit": _since_its_group,
    "double-assignment": _of_coordinators,
    "stuck-lso": _held,
    "hanging-txn": _held,
    "nonmonotonic-poll": _poll,
    "int-nonmonotonic-poll": _poll,
    "poll-skip": _poll,
    "int-poll-skip": _poll,
}
