"""The seam between a broker and the way in which its cluster keeps its metadata.

A broker leads, follows and coordinates in the same way in every era. What differs is how it comes to know
who leads what, how it is found alive or dead, and who decides on in-sync sets: that is one
`ClusterMetadata`.

    kraft.kraft_metadata    KRaft: a log of metadata records, a controller that leads its quorum
    zookeeper.zk_metadata   before that: an ensemble of ZooKeeper, a controller that holds a node of it
"""

from typing import Protocol

from model.protocol.messages import Partition
from model.protocol.requests import Handlers


class InSyncSets(Protocol):
    """Of the partitions that are led here."""

    def lead_on(self) -> None:
        """Look whether they have to change."""

    def fetched(self, tp: Partition, follower: int) -> None:
        """A follower has fetched: it may join."""


class ClusterMetadata(Protocol):
    """A node's side of the cluster's metadata. All events carry the node's own time (`Node.now`)."""

    @property
    def isr(self) -> InSyncSets:
        """Its side of changes of in-sync sets."""

    @property
    def controller_id(self) -> int:
        """Node that this one believes to be the controller, -1 = it knows of none."""

    @property
    def administrator(self) -> int:
        """Node to ask for a new topic or for producer ids, -1 = it knows of none."""

    @property
    def controls(self) -> bool:
        """This node acts as controller."""

    @property
    def fenced(self) -> bool:
        """As far as this node knows, the cluster does not count on it."""

    @property
    def ready(self) -> bool:
        """This broker knows the cluster as it has been since it registered, and answers clients."""

    @property
    def may_end(self) -> bool:
        """The clean shutdown that was started has ended."""

    def register(self, handlers: Handlers) -> None:
        """Add the handlers of requests that are about metadata."""

    def start(self) -> None:
        """The process comes up."""

    def tick(self) -> None:
        """100 ms passed."""

    def keep_alive(self) -> None:
        """Register, and show that this broker lives."""

    def after(self) -> None:
        """Called after every event of the node."""

    def leave(self) -> None:
        """Begin a clean shutdown."""

    def end(self) -> None:
        """The clean shutdown has ended, everything is on disk."""
