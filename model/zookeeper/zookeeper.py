"""A ZooKeeper ensemble as one linearizable state machine: znodes, sessions, watches.

    zk.connect(now, timeout_ms)         -> a session
    zk.run(now, session, ops)           -> a result for each op, or None where the session has ended
    zk.tick(now)                        sessions that were not heard of for their time-out end

A znode has data and a version that counts its changes; an update may be conditional on the version. An
ephemeral one belongs to a session and goes with it. A watch is set by a read, belongs to its session, and
fires once: it says that something changed, not what. Events are numbered and kept until the session's client
has acknowledged them, so that a client never sees a change before its notification (what ZooKeeper promises).

Taken over from how Kafka uses it, not from ZooKeeper itself: a read of data with a watch also watches for a
znode that does not exist (`exists`), and `Create` makes the parents that are missing (createRecursive). The
ops of one request run without others in between: one of the schedules that pipelining allows. Zab, and reads
from a follower that lags, are not modelled.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from model.protocol.zookeeper_messages import (
    PERSISTENT,
    Children,
    Create,
    Delete,
    GetData,
    SetData,
    WatchedEvent,
    ZkError,
    ZkOp,
    ZkResult,
)


@dataclass(slots=True)
class Znode:
    """`sequence`: number of the next sequential child."""

    data: Any
    created: int
    owner: int = PERSISTENT
    version: int = 0
    sequence: int = 0
    children: dict[str, None] = field(default_factory=dict)


class ZnodeChange(NamedTuple):
    """What ZooKeeper's log has of a change. op: create, set or delete. session: who asked for it, or whose
    end it goes with; owner: of what is created."""

    zxid: int
    ms: int
    session: int
    op: str
    path: str
    version: int
    owner: int
    data: Any


@dataclass(slots=True)
class ZkSession:
    """`heard_ms`: when its client was last heard of. `events`: not acknowledged yet, oldest first."""

    timeout_ms: int
    heard_ms: int
    events: list[WatchedEvent] = field(default_factory=list)
    told: int = 0


@dataclass(slots=True)
class ZkCounts:
    """What the ensemble did so far: the load that watches and elections put on it."""

    reads: int = 0
    writes: int = 0
    watches: int = 0
    notifications: int = 0


OK: Final = ZkResult(ZkError.OK)


class ZooKeeper:
    """See the module. `zxid` counts changes; `log` has them all."""

    def __init__(self, paths: Sequence[tuple[str, object]] = ()) -> None:
        self.nodes: dict[str, Znode] = {"": Znode(None, 0)}
        self.sessions: dict[int, ZkSession] = {}
        self.counts = ZkCounts()
        self.zxid = 0
        self.log: list[ZnodeChange] = []
        self._now = 0
        self._data_watches: dict[str, dict[int, None]] = {}
        self._child_watches: dict[str, dict[int, None]] = {}
        self._numbered = 0
        for path, data in paths:
            self._create(PERSISTENT, Create(path, data))

    # ---- sessions

    def connect(self, now: int, timeout_ms: int) -> int:
        """A new session."""
        self._now = max(now, self._now)
        self._numbered += 1
        self.sessions[self._numbered] = ZkSession(timeout_ms, now)
        return self._numbered

    def heard(self, now: int, session: int, seen: int = 0) -> bool:
        """Its client lives, and has seen the events up to a number. Whether the session does."""
        found = self.sessions.get(session)
        if found is None:
            return False
        found.heard_ms = max(now, found.heard_ms)
        while found.events and found.events[0].number <= seen:
            found.events.pop(0)
        return True

    def close(self, session: int) -> None:
        """End a session: its ephemeral znodes go, and its watches."""
        if self.sessions.pop(session, None) is None:
            return
        for watches in (*self._data_watches.values(), *self._child_watches.values()):
            watches.pop(session, None)
        for path in [p for p, node in self.nodes.items() if node.owner == session]:
            self._delete(session, Delete(path))

    def tick(self, now: int) -> None:
        """End the sessions that were not heard of for longer than their time-out."""
        self._now = max(now, self._now)
        for session, known in list(self.sessions.items()):
            if now - known.heard_ms > known.timeout_ms:
                self.close(session)

    def restarted(self, now: int) -> None:
        """A new leader of the ensemble: every session has its whole time-out from now on."""
        for session in self.sessions.values():
            session.heard_ms = now

    # ---- ops

    def run(self, now: int, session: int, ops: Sequence[ZkOp]) -> list[ZkResult] | None:
        """Run ops one after another, each for itself. None: there is no such session (any more)."""
        self._now = max(now, self._now)
        if not self.heard(now, session):
            return None
        return [self._run(session, op) for op in ops]

    def _run(self, session: int, op: ZkOp) -> ZkResult:
        if isinstance(op, GetData | Children):
            self.counts.reads += 1
            return self._read(session, op)
        self.counts.writes += 1
        if isinstance(op, Create):
            return self._create(session, op)
        return self._set(session, op) if isinstance(op, SetData) else self._delete(session, op)

    def _read(self, session: int, op: GetData | Children) -> ZkResult:
        if op.watch:
            kind = self._data_watches if isinstance(op, GetData) else self._child_watches
            kind.setdefault(op.path, {})[session] = None
            self.counts.watches += 1
        node = self.nodes.get(op.path)
        if node is None:
            return ZkResult(ZkError.NO_NODE)
        if isinstance(op, Children):
            return ZkResult(ZkError.OK, children=tuple(sorted(node.children)))
        return ZkResult(ZkError.OK, node.data, node.version, node.owner, node.created)

    def _create(self, session: int, op: Create) -> ZkResult:
        path = op.path
        parent, _, name = path.rpartition("/")
        if parent not in self.nodes:
            self._create(PERSISTENT, Create(parent))
        above = self.nodes[parent]
        if op.sequential:
            name = f"{name}{above.sequence:010}"
            path = f"{parent}/{name}"
            above.sequence += 1
        if path in self.nodes:
            return ZkResult(ZkError.NODE_EXISTS)
        owner = session if op.ephemeral else PERSISTENT
        self._changes(session, "create", path, 0, owner, op.data)
        self.nodes[path] = Znode(op.data, self.zxid, owner)
        above.children[name] = None
        self._fire(self._data_watches, path)
        self._fire(self._child_watches, parent)
        return ZkResult(ZkError.OK, op.data, 0, created=self.zxid, path=path)

    def _set(self, session: int, op: SetData) -> ZkResult:
        node = self.nodes.get(op.path)
        if node is None:
            return ZkResult(ZkError.NO_NODE)
        if op.version not in (-1, node.version):
            return ZkResult(ZkError.BAD_VERSION)
        node.data = op.data
        node.version += 1
        self._changes(session, "set", op.path, node.version, PERSISTENT, op.data)
        self._fire(self._data_watches, op.path)
        return ZkResult(ZkError.OK, op.data, node.version)

    def _delete(self, session: int, op: Delete) -> ZkResult:
        node = self.nodes.get(op.path)
        if node is None:
            return ZkResult(ZkError.NO_NODE)
        if op.version not in (-1, node.version):
            return ZkResult(ZkError.BAD_VERSION)
        if node.children:
            return ZkResult(ZkError.NOT_EMPTY)
        self._changes(session, "delete", op.path, 0, PERSISTENT, None)
        del self.nodes[op.path]
        parent, _, name = op.path.rpartition("/")
        del self.nodes[parent].children[name]
        self._fire(self._data_watches, op.path)
        self._fire(self._child_watches, op.path)
        self._fire(self._child_watches, parent)
        return OK

    # ---- watches

    def _changes(self, session: int, op: str, path: str, version: int, owner: int, data: object) -> None:
        self.zxid += 1
        self.log.append(ZnodeChange(self.zxid, self._now, session, op, path, version, owner, data))

    def _fire(self, watches: dict[str, dict[int, None]], path: str) -> None:
        for number in watches.pop(path, {}):
            session = self.sessions[number]
            session.told += 1
            session.events.append(WatchedEvent(session.told, path))
            self.counts.notifications += 1
