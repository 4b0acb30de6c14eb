"""Metadata of a broker of the ZooKeeper era: its session, its part in the election of the controller, and
what the controller tells it.

Every broker has a session with the ensemble. Its registration lives as long as that; the broker that creates
/controller is controller, and all others watch it. Brokers obey requests of the newest controller that
they heard of: an older controller epoch is refused (STALE_CONTROLLER_EPOCH), which is what stops one that
stood still and does not know that it was replaced. LeaderAndIsr counts where its leader epoch is newer.

A broker whose session ended continues as it is, registers again, and gets its orders from the controller.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from model.errors import NO_ERROR, KafkaError, Refused
from model.metadata.image import PartitionRecord, RegisteredBroker
from model.protocol.requests import Answer, ErrorResponse, Handlers
from model.protocol.zookeeper_messages import (
    ControlledShutdown,
    ControlledShutdownResponse,
    ControlRequest,
    Create,
    GetData,
    LeaderAndIsr,
    SetData,
    StopReplica,
    UpdateMetadata,
    ZkError,
    ZkResult,
)
from model.server.broker_metadata_publisher import BrokerMetadataPublisher
from model.zookeeper.controller_context import ControllerContext
from model.zookeeper.kafka_controller import KafkaController
from model.zookeeper.kafka_zk_client import KafkaZkClient, Steps
from model.zookeeper.zk_admin_manager import ZkAdminManager
from model.zookeeper.zk_data import CONTROLLER, CONTROLLER_EPOCH, broker_path
from model.zookeeper.zk_isr_manager import ZkIsrManager

LEAVE_TRIES: Final = 3
LEAVE_BACKOFF_MS: Final = 5000
"""controlled.shutdown.max.retries and .retry.backoff.ms; after them the broker goes as it is."""


class ZkMetadata:
    """See the module. ensemble: its node."""

    def __init__(self, publisher: BrokerMetadataPublisher, ensemble: int) -> None:
        self.node = publisher.node
        self.publisher = publisher
        self.client = KafkaZkClient(
            self.node, ensemble, opened=self._opened, expired=self._expired, notified=self._notified
        )
        self.isr = ZkIsrManager(publisher, self.client, lambda: self.controller_epoch)
        self.admin = ZkAdminManager(self.client)
        self.controller: KafkaController | None = None
        self.controller_id = -1
        self.controller_epoch = 0
        """Of the newest controller that was heard of."""
        self.fenced = True
        self.leaving = False
        self._heard = 0
        self._registering = False
        self._counting = False
        self._tries = 0
        self._leave_at = 0
        self._asking = False
        self._balanced_ms = 0

    @property
    def administrator(self) -> int:
        """This broker: it writes to ZooKeeper itself."""
        return self.node.me if self.client.session >= 0 else -1

    @property
    def controls(self) -> bool:
        """Whether this broker believes to be controller."""
        return self.controller is not None

    @property
    def ready(self) -> bool:
        """It has metadata from a controller."""
        return self.node.image.offset > 0

    @property
    def may_end(self) -> bool:
        """The session was closed."""
        return self.client.closed and self.client.session < 0

    def register(self, handlers: Handlers) -> None:
        """Add the handlers of requests of controllers, of brokers to the controller, of administrators."""
        handlers.at_once(LeaderAndIsr, self._controlled)
        handlers.at_once(StopReplica, self._controlled)
        handlers.at_once(UpdateMetadata, self._controlled)
        handlers.on(ControlledShutdown, self._shut_down, ControlledShutdownResponse)
        self.admin.register(handlers)

    # ---- events

    def start(self) -> None:
        """Begin a session."""
        self.isr.start()
        self.client.pump()

    def tick(self) -> None:
        """Send again what was not answered; look for leaders that are not the preferred ones."""
        self.client.pump()
        every, now = self.node.settings.preferred_check_ms, self.node.now
        if self.controller is not None and every and now - self._balanced_ms >= every:
            self._balanced_ms = now
            self.controller.balance()

    def keep_alive(self) -> None:
        """Register again where an earlier registration stood in the way; leave."""
        if self.leaving:
            self._go()
        elif self.fenced and self.client.session >= 0:
            self._register()

    def leave(self) -> None:
        """Ask the controller to take this broker's leaderships, then end the session."""
        self.leaving = True
        self._leave_at = self.node.now

    def end(self) -> None:
        """Nothing to remember: clean and unclean ends are not distinguished."""

    def after(self) -> None:
        """What the controller wants done."""
        controller = self.controller
        if controller is None:
            return
        if controller.deposed:
            self.controller = None
            self._elect()
            return
        ops = controller.wanted()
        if ops:
            self.client.send(ops, lambda results: self._resume(controller, results))
        for broker, request in controller.context.channels.due(self.node.now):
            told = partial(self._told, controller, broker)
            self.node.ask(broker, f"control {controller.context.epoch}", request, told)

    def _resume(self, controller: KafkaController, results: Sequence[ZkResult] | None) -> None:
        if results is not None and self.controller is controller:
            controller.results(results)

    def _told(self, controller: KafkaController, broker: int, answer: ErrorResponse | None) -> None:
        if self.controller is controller:
            controller.context.channels.answered(broker, answer, self.node.now)

    # ---- the session

    def _opened(self) -> None:
        self._register()
        self._elect()

    def _expired(self) -> None:
        self.fenced = True
        self._registering = self._counting = False
        self.controller = None

    def _notified(self, path: str) -> None:
        if path == CONTROLLER:
            self._elect()
        elif self.controller is not None:
            self.controller.notified(path)

    def _register(self) -> None:
        if not self._registering:
            self._registering = True
            self.client.run(self._registration())

    def _registration(self) -> Steps[None]:
        """Create this broker's znode. One of its former session has to go first."""
        path = broker_path(self.node.me)
        _, found = yield [Create(path, None, ephemeral=True), GetData(path)]
        self._registering = False
        self.fenced = found.owner != self.client.session

    # ---- the election of the controller

    def _elect(self) -> None:
        if not self.leaving:
            self.client.run(self._election())

    def _election(self) -> Steps[None]:
        """Look who is controller; if no broker is, try to become it."""
        (held,) = yield [GetData(CONTROLLER, watch=True)]
        if held.error is ZkError.NO_NODE:
            (made,) = yield [Create(CONTROLLER, self.node.me, ephemeral=True)]
            if made.error is ZkError.OK:
                yield from self._count_up()
            else:
                self._elect()
        elif held.owner != self.client.session:
            self.controller = None
        elif self.controller is None:
            yield from self._count_up()

    def _count_up(self) -> Steps[None]:
        """Take the next controller epoch. No other broker does while /controller is this session's, so that
        a version that moved is this broker's own write, which was not answered."""
        while not self._counting:
            self._counting = True
            (known,) = yield [GetData(CONTROLLER_EPOCH)]
            epoch = known.data + 1
            (counted,) = yield [SetData(CONTROLLER_EPOCH, epoch, known.version)]
            self._counting = False
            if counted.error is ZkError.OK:
                self.controller = KafkaController(ControllerContext(self.node.me, epoch, self.node.settings))
                self.controller.start()
                return

    # ---- what the controller says

    def _controlled(self, request: ControlRequest) -> ErrorResponse:
        epoch = request.controller_epoch
        if epoch < self.controller_epoch and "controller-epoch-ignored" not in self.node.settings.bugs:
            raise Refused(KafkaError.STALE_CONTROLLER_EPOCH)
        if epoch != self.controller_epoch:
            self.controller_epoch, self._heard = epoch, 0
        if request.number > self._heard:
            self._heard = request.number
            if isinstance(request, LeaderAndIsr):
                self._lead_and_follow(request)
            elif isinstance(request, StopReplica):
                self._stop(request)
            elif isinstance(request, UpdateMetadata):
                self._update(request)
        return ErrorResponse(NO_ERROR)

    def _lead_and_follow(self, request: LeaderAndIsr) -> None:
        """Newer leader epochs only, and no leader that does not live (ReplicaManager.makeFollowers): no
        replica cuts a log back for a leader that nothing can be fetched from."""
        newer = []
        alive = self.node.image.alive()
        for tp, state in request.parts.items():
            replica = self.node.replicas.get(tp)
            leads = state.leader == self.node.me or state.leader in alive
            if leads and (replica is None or state.leader_epoch > replica.state.leader_epoch):
                newer.append((tp, state))
        self.publisher.became(newer)

    def _stop(self, request: StopReplica) -> None:
        """Follow no more; delete the replica where that is said. Without a leader epoch (before KIP-570):
        only the controller epoch tells whether it still holds."""
        stopped = []
        for tp in request.partitions:
            replica = self.node.replicas.get(tp)
            if replica is not None:
                nobody = replace(replica.state, leader=-1)
                stopped.append((tp, replace(nobody, replicas=()) if request.delete else nobody))
        self.publisher.became(stopped)

    def _update(self, request: UpdateMetadata) -> None:
        image = self.node.image
        self.controller_id = request.controller
        image.brokers = {n: RegisteredBroker(-1, 0, fenced=False) for n in request.brokers}
        for tp, state in request.parts.items():
            image.apply(PartitionRecord(tp, state))
        image.offset += 1

    # ---- leaving

    def _shut_down(self, request: ControlledShutdown, answer: Answer) -> None:
        """As controller: another broker (or this one) wants to go."""
        if self.controller is None:
            raise Refused(KafkaError.NOT_CONTROLLER)
        self.controller.shut_down(
            request.broker, lambda left: answer(ControlledShutdownResponse(NO_ERROR, left))
        )

    def _go(self) -> None:
        if self.client.closed or self._asking or self.node.now < self._leave_at:
            return
        if self._tries == LEAVE_TRIES or self.controller_id < 0 or self.client.session < 0:
            self._close()
            return
        self._tries += 1
        self._asking = True
        self.node.ask(self.controller_id, "leave", ControlledShutdown(self.node.me), self._left)

    def _left(self, answer: ControlledShutdownResponse | None) -> None:
        self._asking = False
        if answer is not None and answer.error is NO_ERROR and not answer.remaining:
            self._close()
        else:
            self._leave_at = self.node.now + LEAVE_BACKOFF_MS

    def _close(self) -> None:
        self.controller = None
        self.client.close()
