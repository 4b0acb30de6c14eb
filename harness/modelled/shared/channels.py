"""Channels of modelled nodes: at which listener they ask others, and how long they wait for the answer."""

from functools import lru_cache
from typing import Final

from core.capabilities import Listener
from model.protocol.controller_messages import QuorumFetch
from model.protocol.messages import Fetch

CONTROLLER_CHANNELS: Final = (
    "quorum",
    "vote",
    "begin",
    "heartbeat",
    "register",
    "alter",
    "ids",
    "forward",
    "zookeeper",
    "watch",
)
HELD: Final = (Fetch, QuorumFetch)
"""Requests whose answer may come later by the time that a fetch waits."""


@lru_cache(maxsize=1024)
def listener_of(channel: str) -> Listener:
    """Where a node asks others on this channel."""
    kind = channel.split(" ")[0].split("-")[0]
    return Listener.CONTROLLER if kind in CONTROLLER_CHANNELS else Listener.BROKER
