"""Brokers on ZooKeeper, driven by hand: messages arrive at once, except where a test holds or loses them."""

from collections.abc import Callable
from typing import Any

from model.broker import Broker, Durable
from model.eras import ERAS
from model.protocol.messages import CreateTopics, Partition, PartitionState
from model.protocol.zookeeper_messages import ZkConnect, ZkOp, ZkOps, ZkResult
from model.replication.node import Ask, Reply
from model.settings import Settings
from model.zookeeper.ensemble import Ensemble
from model.zookeeper.kafka_controller import KafkaController
from model.zookeeper.zk_data import TOP_LEVEL, LeaderIsrAndControllerEpoch, state_path
from model.zookeeper.zk_metadata import ZkMetadata
from model.zookeeper.zookeeper import ZooKeeper

ENSEMBLE = 9
CLIENT = 1


def run(zk: ZooKeeper, session: int, op: ZkOp) -> ZkResult:
    """One operation of a session, and its result."""
    results = zk.run(0, session, [op])
    assert results is not None
    return results[0]


class World:
    """See the module. hold, lose (sender, ask): whether a request stays on its way; whether its answer does.

    log: (sender, request) of all that was delivered. A request that is not answered in 2 s is given up.
    """

    def __init__(self, brokers: int = 3, era: str = "2.4", **settings: Any) -> None:
        self.settings = Settings(era=ERAS[era], **settings)
        self.zk = ZooKeeper(TOP_LEVEL)
        self.ensemble = Ensemble(self.zk)
        self.durable = {n: Durable() for n in range(1, brokers + 1)}
        self.brokers: dict[int, Broker] = {}
        self.paused: set[int] = set()
        self.now = 0
        self.log: list[tuple[int, Any]] = []
        self.hold: Callable[[int, Ask], bool] = lambda *_: False
        self.lose: Callable[[int, Ask], bool] = lambda *_: False
        self.replies: list[Any] = []
        self._held: list[tuple[int, Ask]] = []
        self._asks: dict[int, tuple[int, Ask, int]] = {}
        self._number = 1
        self._incarnation = 0
        for n in self.durable:
            self.start(n)

    # ---- processes

    def start(self, n: int) -> None:
        self._incarnation += 1
        self.brokers[n] = Broker(
            n,
            voters=(),
            settings=self.settings,
            durable=self.durable[n],
            incarnation=self._incarnation,
            draw=lambda low, _: low,
            ensemble=ENSEMBLE,
        )
        self.brokers[n].start(self.now)
        self.pump()

    def kill(self, n: int) -> None:
        del self.brokers[n]
        self._asks = {k: ask for k, ask in self._asks.items() if ask[0] != n}
        for number in [k for k, ask in self._asks.items() if ask[1].node == n]:
            self._answer(number, None)
        self.pump()

    def resume(self, n: int) -> None:
        self.paused.discard(n)
        self.release()

    # ---- time and messages

    def run(self, milliseconds: int) -> None:
        for _ in range(milliseconds // 100):
            self.now += 100
            for number in [k for k, ask in self._asks.items() if ask[2] <= self.now]:
                if self._asks[number][0] not in self.paused:
                    self._answer(number, None)
            self.ensemble.tick(self.now)
            for n, broker in list(self.brokers.items()):
                if n not in self.paused:
                    broker.tick(self.now)
            self.pump()

    def until(self, condition: Callable[[], bool], milliseconds: int = 20_000) -> None:
        end = self.now + milliseconds
        while not condition():
            assert self.now < end, "it does not come to that"
            self.run(100)

    def pump(self) -> None:
        busy = True
        while busy:
            busy = False
            outs = [(n, broker.take_out()) for n, broker in self.brokers.items()]
            for n, out in [*outs, (ENSEMBLE, self.ensemble.take_out())]:
                for effect in out:
                    busy = True
                    self._do(n, effect)

    def _do(self, n: int, effect: Reply | Ask) -> None:
        if isinstance(effect, Ask):
            self._number += 1
            self._asks[self._number] = (n, effect, self.now + 2000)
            self._deliver(n, effect, self._number)
        elif effect.connection == CLIENT:
            self.replies.append(effect.answer)
        elif effect.connection in self._asks:
            asker, ask, _ = self._asks[effect.connection]
            if asker not in self.paused and not self.lose(asker, ask):
                self._answer(effect.connection, effect.answer)

    def _deliver(self, n: int, ask: Ask, number: int) -> None:
        if self.hold(n, ask) or ask.node in self.paused:
            self._held.append((number, ask))
        elif ask.node != ENSEMBLE and ask.node not in self.brokers:
            self._answer(number, None)
        else:
            self.log.append((n, ask.request))
            process = self.ensemble if ask.node == ENSEMBLE else self.brokers[ask.node]
            process.receive(self.now, number, 0, ask.request)

    def _answer(self, number: int, answer: Any) -> None:
        asker, ask, _ = self._asks.pop(number)
        if asker in self.brokers:
            self.brokers[asker].answered(self.now, ask, answer)

    def release(self) -> None:
        """Deliver what was held, also what was given up meanwhile."""
        self.hold = lambda *_: False
        held, self._held = self._held, []
        for number, ask in held:
            asker = self._asks[number][0] if number in self._asks else 0
            self._deliver(asker, ask, number)
        self.pump()

    def say(self, n: int, request: Any) -> Any:
        """A client's request, which is answered without time passing."""
        self.brokers[n].receive(self.now, CLIENT, 0, request)
        self.pump()
        return self.replies.pop()

    def create(self, topic: str, *replicas: tuple[int, ...]) -> None:
        first = min(self.brokers)
        self.say(first, CreateTopics(topic, len(replicas), len(replicas[0]), replicas))

    # ---- what there is

    def side(self, n: int) -> ZkMetadata:
        metadata = self.brokers[n].metadata
        assert isinstance(metadata, ZkMetadata)
        return metadata

    def controllers(self) -> list[int]:
        return [n for n in self.brokers if self.side(n).controls]

    def controller(self) -> KafkaController:
        (n,) = self.controllers()
        controller = self.side(n).controller
        assert controller is not None
        return controller

    def data(self, tp: Partition) -> LeaderIsrAndControllerEpoch:
        data: LeaderIsrAndControllerEpoch = self.zk.nodes[state_path(tp)].data
        return data

    def known(self, n: int, tp: Partition) -> PartitionState:
        """What a broker tells clients of a partition."""
        return self.brokers[n].node.image.partitions[tp]

    def led(self, n: int, tp: Partition) -> PartitionState:
        """What a broker's replica was told, or did."""
        return self.brokers[n].node.replicas[tp].state

    def asked(self, n: int, *, since: int = 0) -> list[Any]:
        """Ops that a broker sent to the ensemble, and its requests to brokers, in order."""
        found: list[Any] = []
        for sender, request in self.log[since:]:
            if sender == n and isinstance(request, ZkOps):
                found += request.ops
            elif sender == n and not isinstance(request, ZkConnect):
                found.append(request)
        return found
