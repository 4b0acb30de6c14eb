"""The brokers' logs of a run, read for replicas: who leads, where logs end, which replicas are in sync.

A log line counts as evidence only; nothing is judged by it alone.
"""

import re
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Final, NamedTuple

from history.broker_logs import log_lines
from history.run_folder import Run

BEGINS: Final = re.compile(
    r"^(?P<wall>\S+) .*(?:\[Broker id=\d+\] (?P<role>Leader|Follower)|\[Partition \S+ broker=\d+\]|Partition"
    r" \S+ on broker \d+:) (?P<partition>\S+) (?:with topic id \S+ )?starts at [Ll]eader [Ee]poch"
    r" (?P<epoch>\d+) from offset (?P<end>\d+)"
    r"(?: with(?: partition epoch \d+(?: and|,))? high watermark (?P<high>\d+))?"
)
"""Before Kafka 2.7 leaders alone say so, and before 2.2 without a high watermark."""
CUT: Final = re.compile(
    r"^(?P<wall>\S+) .*(?:\[(?:Unified)?Log partition=(?P<partition>[^,\]]+), [^]]*\] Truncating|Truncating"
    r" log (?P<log>\S+)) to offset (?P<end>\d+)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLine:
    """A broker's line about its replica. end: where the log ended then; high: its high watermark, -1 = not
    said. cut: the broker cut the log to this end. leads: it began to lead, in this leader epoch; -1 = not
    said."""

    node: int
    wall: datetime
    end: int
    high: int
    cut: bool
    leads: bool = False
    epoch: int = -1


def replica_lines(run: Run, partition: str) -> list[ReplicaLine]:
    """What brokers' logs say of a partition's replicas: where each began to lead or to follow, and was cut.

    Raises: HistoryError.
    """
    found = []
    for node, lines in log_lines(run):
        for line in lines:
            if partition not in line:  # a search for plain words is fast
                continue
            one = _replica(node, partition, line)
            if one is not None:
                found.append(one)
    return found


def _replica(node: int, partition: str, line: str) -> ReplicaLine | None:
    if match := BEGINS.match(line):
        cut, of, high, epoch = False, match["partition"], int(match["high"] or -1), int(match["epoch"])
    elif match := CUT.match(line):
        cut, of, high, epoch = True, match["partition"] or match["log"], -1, -1
    else:
        return None
    if of != partition:
        return None
    wall, end = datetime.fromisoformat(match["wall"]), int(match["end"])
    leads = not cut and match["role"] != "Follower"
    return ReplicaLine(node=node, wall=wall, end=end, high=high, cut=cut, leads=leads, epoch=epoch)


class InSyncKind(Enum):
    """What a broker says of a partition. LEADS, FOLLOWS: it began to, in a leader epoch. SHRINKS: it asks the
    controller to take replicas off the in-sync ones. CHANGED: they are others now, as it asked. GIVES_UP: it
    could not ask again after an error."""

    LEADS = auto()
    FOLLOWS = auto()
    SHRINKS = auto()
    CHANGED = auto()
    GIVES_UP = auto()


IN_SYNC: Final = {
    InSyncKind.LEADS: re.compile(
        r"^(?P<wall>\S+) .*\[Broker id=\d+\] Leader (?P<partition>\S+) starts at leader epoch (?P<epoch>\d+)"
        r" from offset \d+ with high watermark \d+ ISR \[(?P<isr>[\d,]*)\]"
        r" .*Previous leader epoch was (?P<previous>-?\d+)\."
    ),
    InSyncKind.FOLLOWS: re.compile(
        r"^(?P<wall>\S+) .*\[Broker id=\d+\] Follower (?P<partition>\S+) starts at leader epoch "
    ),
    InSyncKind.SHRINKS: re.compile(
        r"^(?P<wall>\S+) .*\[Partition (?P<partition>\S+) broker=\d+\] Shrinking ISR from "
    ),
    InSyncKind.CHANGED: re.compile(
        r"^(?P<wall>\S+) .*\[Partition (?P<partition>\S+) broker=\d+\] ISR updated "
    ),
    InSyncKind.GIVES_UP: re.compile(
        r"^\S+IllegalStateException: Failed to enqueue .* for partition (?P<partition>\S+)$"
    ),
}
"""As brokers of 2.7 and 2.8 word it."""
HINTS: Final = (" starts at leader epoch ", " Shrinking ISR from ", " ISR updated ", ": Failed to enqueue ")


@dataclass(frozen=True, slots=True, kw_only=True)
class InSyncLine:
    """A broker's line about the in-sync replicas of a partition, or who leads it. wall: None = the line has
    no time of its own, and belongs to the one before it. epoch, previous: leader epochs, -1 = not said. isr:
    those with which it began to lead."""

    kind: InSyncKind
    partition: str
    wall: datetime | None
    epoch: int = -1
    previous: int = -1
    isr: frozenset[int] = frozenset()


def in_sync_lines(run: Run) -> dict[int, list[InSyncLine]]:
    """What the logs of brokers of 2.7 and 2.8 say of in-sync replicas: node -> lines, in their order.

    Raises: HistoryError.
    """
    return {
        node: [
            _in_sync(kind, match)
            for line in lines
            if any(hint in line for hint in HINTS)  # a search for plain words is fast
            for kind, pattern in IN_SYNC.items()
            if (match := pattern.match(line))
        ]
        for node, lines in log_lines(run)
    }


def _in_sync(kind: InSyncKind, match: re.Match[str]) -> InSyncLine:
    said = match.groupdict()
    return InSyncLine(
        kind=kind,
        partition=said["partition"],
        wall=datetime.fromisoformat(said["wall"]) if "wall" in said else None,
        epoch=int(said.get("epoch", -1)),
        previous=int(said.get("previous", -1)),
        isr=frozenset(map(int, re.findall(r"\d+", said.get("isr", "")))),
    )


ANSWERED: Final = re.compile(
    r"^(?P<wall>\S+) .*\[Partition (?P<partition>\S+) broker=\d+\] ISR updated to .* and version updated to"
    r" (?P<epoch>\d+)$"
)
RECORDED: Final = re.compile(
    r"^(?P<wall>\S+) .*\[Broker id=\d+\] (?:Skipped the become-leader state change for|Leader|Follower)"
    r" (?P<partition>\S+) .*?(?:\bpartitionEpoch=|\bpartition epoch )(?P<epoch>\d+)"
)
"""As brokers of 3.9 and later in KRaft mode word it."""


class LearntLine(NamedTuple):
    """A leader learnt a partition epoch: answered, by the controller's answer to what it asked; else by the
    metadata log, which may have made it a follower."""

    wall: datetime
    partition_epoch: int
    answered: bool


def learnt_lines(run: Run) -> dict[tuple[int, str], list[LearntLine]]:
    """What the logs of brokers in KRaft mode say of it: by node and partition, in their order. Raises:
    HistoryError."""
    found: dict[tuple[int, str], list[LearntLine]] = defaultdict(list)
    for node, lines in log_lines(run):
        for line in lines:
            answered = " ISR updated to " in line  # a search for plain words is fast
            if not (answered or " the become-leader " in line or " starts at leader epoch " in line):
                continue
            if match := (ANSWERED if answered else RECORDED).match(line):
                wall = datetime.fromisoformat(match["wall"])
                found[node, match["partition"]].append(LearntLine(wall, int(match["epoch"]), answered))
    return found


UPDATE_FAILED: Final = re.compile(
    r"^(?P<wall>\S+) ERROR .*\[Controller id=\d+\] Failed to update ISR for partition (?P<partition>\S+)$"
)


class IsrFailedLine(NamedTuple):
    """A controller could not write in-sync replicas that a leader had asked for."""

    node: int
    wall: datetime


def isr_failed_lines(run: Run) -> dict[str, list[IsrFailedLine]]:
    """What the logs of brokers of 2.7 to 3.9 with ZooKeeper say of it, by partition. Raises: HistoryError."""
    found: dict[str, list[IsrFailedLine]] = defaultdict(list)
    for node, lines in log_lines(run):
        for line in lines:
            if "Failed to update ISR for " in line and (match := UPDATE_FAILED.match(line)):
                wall = datetime.fromisoformat(match["wall"])
                found[match["partition"]].append(IsrFailedLine(node, wall))
    return found


BAD_VERSION: Final = re.compile(
    r"^(?P<wall>\S+) .*\[Controller id=(?P<node>\d+)\] Failed to update ISR to"
    r" LeaderAndIsr\(leader=(?P<leader>\d+), leaderEpoch=(?P<epoch>\d+), isr\w*=List\((?P<isr>.*?)\),"
    r" (?:leaderRecoveryState=\w+, )?(?:zkVersion|partitionEpoch)=(?P<version>\d+)\) for partition"
    r" (?P<partition>\S+), bad ZK version\.$"
)
MEMBER: Final = re.compile(r"(?:brokerId=|^|, )(\d+)")
"""Before Kafka 3.4 a list of numbers, then of `BrokerState(brokerId=1, brokerEpoch=-1)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrRefusedLine:
    """ZooKeeper refused in-sync replicas that a controller wrote for a leader: the partition's znode had
    another version than this one. node: the controller."""

    node: int
    wall: datetime
    partition: str
    leader: int
    epoch: int
    isr: frozenset[int]
    version: int


def isr_refused_lines(run: Run) -> list[IsrRefusedLine]:
    """What the logs of brokers of 2.8 to 3.9 with ZooKeeper say of it. Raises: HistoryError."""
    return [
        IsrRefusedLine(
            node=int(match["node"]),
            wall=datetime.fromisoformat(match["wall"]),
            partition=match["partition"],
            leader=int(match["leader"]),
            epoch=int(match["epoch"]),
            isr=frozenset(map(int, MEMBER.findall(match["isr"]))),
            version=int(match["version"]),
        )
        for _, lines in log_lines(run)
        for line in lines
        if "bad ZK version" in line and (match := BAD_VERSION.match(line))
    ]
