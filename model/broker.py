"""One node of a modelled cluster: broker, controller of the quorum, or both.

Everything that happens to a node is one of its events: `start`, `receive` (a request), `answered` (the
answer to a request of its own, None = none came in time), `tick` (every 100 ms). What it wants done stands
in `take_out()` afterwards. A node that crashes is thrown away except for its `Durable`.

Not here: leading (`serving`), following (`following`), transactions and groups (`coordinating`), metadata and
the controller (`metadata` and its implementations), time and network (the driver).
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from model.coordinating import Coordinating
from model.coordinator_messages import DescribeProducers, ProducersAnswer
from model.following import Following
from model.hosting import TICK_MS as TICK_MS
from model.hosting import Durable as Durable
from model.hosting import Hosting
from model.messages import EpochEnds, Fetch, ListOffsets, Metadata, MetadataAnswer, Produce
from model.metadata import ClusterMetadata, Handler
from model.metadata_quorum import MetadataQuorum
from model.metadata_zookeeper import MetadataZookeeper
from model.node import Ask, Node, Reply
from model.quorum import Quorum
from model.serving import Serving
from model.settings import Settings

CHECKPOINT_MS: Final = 5000


class Broker:
    """See the module. `incarnation` is different at each start. broker, voters: its process.roles. ensemble:
    node of the ZooKeeper ensemble, -1 = the metadata are a quorum's."""

    def __init__(
        self,
        me: int,
        *,
        voters: Sequence[int],
        settings: Settings,
        durable: Durable,
        incarnation: int,
        draw: Callable[[int, int], int],
        broker: bool = True,
        ensemble: int = -1,
    ) -> None:
        self.me = me
        self.settings = settings
        self.durable = durable
        self.incarnation = incarnation
        self.is_broker = broker
        self.node = Node(me, settings, durable.logs, durable.checkpoint)
        self.serving = Serving(self.node, lambda tp, follower: self.metadata.fetched(tp, follower))
        self.following = Following(self.node)
        self.coordinating = Coordinating(
            self.node, self.serving, lambda: self.metadata.administrator
        )
        self.hosting = Hosting(self.node, durable, self.serving, self.following, self.coordinating)
        self.metadata: ClusterMetadata = (
            MetadataQuorum(self.hosting, voters, draw, incarnation, broker=broker)
            if ensemble < 0
            else MetadataZookeeper(self.hosting, ensemble)
        )
        self._checkpoint_at = 0
        self._handlers: dict[type, Handler] = {
            Produce: self.serving.produce,
            Fetch: self.serving.fetch,
            EpochEnds: self._simple(self.serving.epoch_ends),
            ListOffsets: self._simple(self.serving.list_offsets),
            Metadata: self._simple(self._metadata),
            DescribeProducers: self._simple(self._producers),
            **self.metadata.handlers(),
            **self.coordinating.handlers(),
        }

    @property
    def fenced(self) -> bool:
        """As far as this node knows, the cluster does not count on it."""
        return self.metadata.fenced

    @property
    def may_end(self) -> bool:
        """The clean shutdown that was begun is over: `end` it."""
        return self.metadata.may_end

    @property
    def quorum(self) -> Quorum:
        """This node's part of the metadata quorum. On ZooKeeper there is none."""
        assert isinstance(self.metadata, MetadataQuorum)
        return self.metadata.quorum

    # ---- events

    def start(self, now: int) -> None:
        """The process comes up, with what was durable."""
        self.node.now = now
        self.hosting.start()
        self.metadata.start()
        self.metadata.after()

    def receive(self, now: int, connection: int, correlation: int, request: Any) -> None:
        """A request came. Connection -1: nobody waits for the answer."""
        self.node.now = now
        handler = self._handlers.get(type(request))
        if handler is None:
            raise AssertionError(f"unknown request {request!r}")
        handler(connection, correlation, request)
        self.metadata.after()

    def answered(self, now: int, node: int, channel: str, answer: Any) -> None:
        """The answer to an `Ask`, None = connection lost or no answer in time."""
        self.node.now = now
        if channel == "fetch":
            for tp in self.following.answered(node, answer):
                self.serving.moved(tp)
            self.following.pump()
        elif not self.metadata.answered(node, channel, answer):
            self.coordinating.answered(channel, answer)
        self.metadata.after()

    def tick(self, now: int) -> None:
        """100 ms passed."""
        self.node.now = now
        self.metadata.tick()
        if self.is_broker:
            self.metadata.lead_on()
            self.serving.tick()
            self.following.pump()
            self.coordinating.tick()
            self.metadata.keep_alive()
            if now >= self._checkpoint_at:
                self._checkpoint_at = now + CHECKPOINT_MS
                self.hosting.checkpoint()
                self.hosting.expire_producers()
        self.metadata.after()

    def shut_down(self, now: int) -> None:
        """Begin a clean shutdown; `may_end` is set when it is over."""
        self.node.now = now
        self.metadata.leave()

    def end(self) -> Durable:
        """The end of a clean shutdown: everything is on disk."""
        self.hosting.flush()
        self.metadata.end()
        return self.durable

    def take_out(self) -> list[Reply | Ask]:
        """What the node wants done since the last call."""
        out, self.node.out = self.node.out, []
        return out

    # ---- questions

    def _metadata(self, request: Metadata) -> MetadataAnswer:
        image = self.node.image
        told = dict(image.partitions)
        if not self.node.settings.era.fenced_fetch:
            told = {tp: state._replace(leader_epoch=-1) for tp, state in told.items()}
        return MetadataAnswer(sorted(image.alive()), told, self.metadata.controller_id)

    def _producers(self, request: DescribeProducers) -> ProducersAnswer:
        parts = {}
        for tp in request.partitions:
            replica = self.node.leader_of(tp)
            if replica is not None:
                known = sorted(replica.log.producers.items())
                parts[tp] = [(pid, p.epoch, p.began) for pid, p in known]
        return ProducersAnswer(parts)

    def _simple(self, function: Callable[[Any], Any]) -> Handler:
        """A handler that answers at once."""

        def handle(connection: int, correlation: int, request: Any) -> None:
            self.node.reply(connection, correlation, function(request))

        return handle
