"""What members of consumer groups say to their coordinator (KIP-848)."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from model.protocol.messages import Partition
from model.protocol.requests import ErrorResponse, Request


class ConsumerGroupHeartbeat(Request["ConsumerGroupHeartbeatResponse"], frozen=True):
    """Key 68. `member_epoch` 0: joins; -1: leaves; -2: leaves for now, as a static member (`instance`); else
    it is a member of that epoch. What it does not say is as before: `rebalance_ms` -1, `topics`, `regex` and
    `owned` None; `owned`: partitions that it has. `regex`: it wants the topics that the expression describes,
    too; "" = none. `instance`, `assignor`: "" = none."""

    group: str
    member: str
    member_epoch: int
    instance: str = ""
    rebalance_ms: int = -1
    topics: Sequence[str] | None = None
    owned: Sequence[Partition] | None = None
    assignor: str = ""
    regex: str | None = None


class ConsumerGroupHeartbeatResponse(ErrorResponse, frozen=True):
    """`assignment`: None = as before."""

    member: str = ""
    member_epoch: int = 0
    heartbeat_ms: int = 0
    assignment: Sequence[Partition] | None = None


class ConsumerGroupDescribe(Request["ConsumerGroupDescribeResponse"], frozen=True):
    """Key 69, of one group."""

    group: str


class DescribedConsumer(NamedTuple):
    """What a coordinator says of a member. instance: "" = it is not static. regex: "" = none."""

    epoch: int
    instance: str
    topics: tuple[str, ...]
    assigned: tuple[Partition, ...]
    target: tuple[Partition, ...]
    regex: str = ""


class ConsumerGroupDescribeResponse(ErrorResponse, frozen=True):
    """state: Kafka's name. `members` by id."""

    state: str = ""
    epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: Mapping[str, DescribedConsumer] = {}
