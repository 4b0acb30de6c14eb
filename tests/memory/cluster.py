"""The in-memory system under test: a `Cluster` with all capabilities, serving sessions on a socket."""

import os
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection, Listener
from pathlib import Path

from core.cluster import Cut, Endpoint, NodeEnd, OpenTransaction, Roles
from core.config import RunConfig
from core.errors import ClusterError
from core.op import Isolation, TopicPartition
from tests.memory.broker import Broker
from tests.memory.coordinators import Error


class MemoryCluster:
    """`broker_settings`: `memory.bug` (see the package), `memory.start` (fail, slow), `memory.revive`
    (never, fail), `memory.ends` (never: no log is listed), `memory.trouble` (what `trouble` says),
    `memory.groups` (mute: from the first kill on they assign nothing to anybody)."""

    def __init__(self, config: RunConfig, run_dir: Path) -> None:
        settings = config.broker_settings
        self.config = config
        self.broker = Broker(config.brokers, settings.get("memory.bug", ""))
        self._cuts: list[Cut] = []
        self._ends: list[NodeEnd] = []
        self._folder = tempfile.mkdtemp(prefix="inquest-memory-")
        self._path = os.path.join(self._folder, "socket")
        self._listener: Listener | None = None
        self._stopped = threading.Event()

    @property
    def nodes(self) -> tuple[int, ...]:
        return self.broker.nodes

    @property
    def brokers(self) -> tuple[int, ...]:
        return self.broker.nodes

    async def start(self) -> None:
        if self.config.broker_settings.get("memory.start") == "fail":
            raise ClusterError("broker 1 never came up; end of its log:\n  ERROR bad setting")
        if self.config.broker_settings.get("memory.start") == "slow":
            self._stopped.wait(60)
        self._listener = Listener(self._path, "AF_UNIX")
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()
        threading.Thread(target=self._expire, daemon=True).start()

    def _accept(self, listener: Listener) -> None:
        while not self._stopped.is_set():
            try:
                connection = listener.accept()
            except OSError:
                return
            threading.Thread(target=_serve, args=(self.broker, connection), daemon=True).start()

    def _expire(self) -> None:
        while not self._stopped.wait(0.2):
            self.broker.expire()

    async def create_topic(
        self, topic: str, partitions: int, replication: int, settings: Mapping[str, str]
    ) -> None:
        self.broker.create_topic(topic, partitions)

    def endpoint(self) -> Endpoint:
        return Endpoint(factory="tests.memory.session:connect", args={"path": self._path})

    async def roles(self) -> Roles:
        broker = self.broker
        with broker.lock:
            tps = [TopicPartition(*tp) for tp in broker.logs]
            away = broker.down | broker.frozen
            answering = tuple(n for n in broker.nodes if n not in away)
            return Roles(
                ns=time.monotonic_ns(),
                leaders={tp: broker.leader(tp) for tp in tps},
                isr={tp: tuple(n for n in answering if n not in broker.cut_off) for tp in tps},
                controller=answering[0] if answering else -1,
                answering=answering,
                agreed=len(answering) == len(broker.nodes),
            )

    async def trouble(self) -> str:
        return self.config.broker_settings.get("memory.trouble", "")

    async def ended(self) -> Sequence[NodeEnd]:
        ends, self._ends = self._ends, []
        return ends

    def die(self, end: NodeEnd) -> None:
        """A node ends, and nobody had asked for it."""
        self.broker.change(self.broker.down, {end.node}, set())
        self._ends.append(end)

    async def offsets(
        self, tps: Sequence[TopicPartition], isolation: Isolation
    ) -> dict[TopicPartition, tuple[int, int]]:
        if self.config.broker_settings.get("memory.ends") == "never":
            return {}
        committed = isolation is Isolation.READ_COMMITTED
        ends = {tp: self.broker.ends((tp.topic, tp.partition), committed) for tp in tps}
        return {tp: (0, end) for tp, end in ends.items() if end is not None}

    async def open_transactions(self, tps: Sequence[TopicPartition]) -> list[OpenTransaction]:
        return self.broker.open_transactions([(tp.topic, tp.partition) for tp in tps])

    async def collect(self, into: Path) -> None:
        for node in self.nodes:
            (into / str(node)).mkdir(parents=True, exist_ok=True)
            (into / str(node) / "server.log").write_text("in memory\n")

    async def take_evidence(self, into: Path) -> list[str]:
        return []

    async def stop(self) -> None:
        self._stopped.set()
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        Path(self._path).unlink(missing_ok=True)
        if os.path.isdir(self._folder):
            os.rmdir(self._folder)

    # -- capabilities

    async def kill(self, nodes: Sequence[int]) -> None:
        self.broker.change(self.broker.down, set(nodes), set())
        if self.config.broker_settings.get("memory.groups") == "mute":
            self.broker.mute_groups()

    async def revive(self, nodes: Sequence[int]) -> None:
        wanted = self.config.broker_settings.get("memory.revive")
        if wanted == "fail":
            raise ClusterError(f"nodes {list(nodes)} could not be started: port is already allocated")
        if wanted == "never":
            return
        self.broker.change(self.broker.down, set(), set(nodes))

    async def shut_down(self, nodes: Sequence[int]) -> None:
        await self.kill(nodes)

    async def elect_preferred(self, tps: Sequence[TopicPartition]) -> None:
        """The first of its replicas that can leads a partition anyway."""

    async def reorder(self, replicas: Mapping[TopicPartition, Sequence[int]]) -> None:
        with self.broker.lock:
            for tp, order in replicas.items():
                self.broker.replicas[tp.topic, tp.partition] = tuple(order)
            self.broker.lock.notify_all()

    async def replicas(self) -> Mapping[TopicPartition, tuple[int, ...]]:
        with self.broker.lock:
            return {TopicPartition(*tp): order for tp, order in self.broker.replicas.items()}

    async def pause(self, nodes: Sequence[int]) -> None:
        self.broker.change(self.broker.frozen, set(nodes), set())

    async def resume(self, nodes: Sequence[int]) -> None:
        self.broker.change(self.broker.frozen, set(), set(nodes))

    async def cut(self, cuts: Sequence[Cut]) -> None:
        self._cuts += [cut for cut in cuts if cut not in self._cuts]
        self._apply()

    async def mend(self, cuts: Sequence[Cut]) -> None:
        self._cuts = [cut for cut in self._cuts if cut not in cuts]
        self._apply()

    def _apply(self) -> None:
        peers = {node: {cut.peer for cut in self._cuts if cut.node == node} for node in self.nodes}
        off = {node for node in self.nodes if None in peers[node] or peers[node] >= set(self.nodes) - {node}}
        self.broker.change(self.broker.cut_off, off, set(self.nodes) - off)


def _serve(broker: Broker, connection: Connection) -> None:
    """One client: requests (verb, args), replies (result, None) or (None, error). A client that is
    gone has left its group (a real one is missed after its session time-out)."""
    joined: tuple[str, int] | None = None
    try:
        while True:
            verb, args = connection.recv()
            if verb == "join":
                joined = (args[0], args[1])
            try:
                connection.send((getattr(broker, verb)(*args), None))
            except Error as error:
                connection.send((None, (error.code, error.kind)))
    except (EOFError, OSError):
        if joined is not None:
            broker.leave(*joined)
