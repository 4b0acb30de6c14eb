"""A broker as coordinator of transactions and groups: what the broker has to hand to these parts.

Not here: what they do (`transactions`, `groups`, `markers`, `verification`, `compaction`).
"""

from collections.abc import Callable
from typing import Any

from model.commits import Commits
from model.compaction import Cleaner
from model.coordinator_messages import CoordinatorAnswer, FindCoordinator, WriteMarkers
from model.group_log import GroupLog
from model.groups import Groups
from model.markers import write_markers
from model.messages import Partition
from model.node import Node
from model.producer_ids import CHANNEL
from model.serving import Serving
from model.transactions import Handler, Transactions


class Coordinating:
    """See the module. controller(): the node that is it, -1 unknown."""

    def __init__(self, node: Node, serving: Serving, controller: Callable[[], int]) -> None:
        self.node = node
        self.serving = serving
        self.transactions = Transactions(node, serving, controller)
        self.group_log = GroupLog(node, serving, controller)
        self.groups = Groups(self.group_log)
        self.commits = Commits(self.group_log, serving)
        self.cleaner = Cleaner(node)

    def handlers(self) -> dict[type, Handler]:
        """Requests that these parts answer."""
        return {
            FindCoordinator: self._find,
            WriteMarkers: self._write_markers,
            **self.transactions.handlers(),
            **self.groups.handlers(),
            **self.commits.handlers(),
        }

    def _find(self, connection: int, correlation: int, request: FindCoordinator) -> None:
        """Key 10."""
        part = self.group_log if request.group else self.transactions.log
        self.node.reply(connection, correlation, CoordinatorAnswer(*part.log.find(request.key)))

    def _write_markers(self, connection: int, correlation: int, request: WriteMarkers) -> None:
        write_markers(self.node, self.serving, connection, correlation, request)

    def became(self, tp: Partition) -> None:
        """The state of a partition changed: this broker may coordinate it now, or no more."""
        for part in (self.transactions.log, self.group_log):
            if part.log.topic == tp[0]:
                part.became(tp[1])

    def answered(self, channel: str, answer: Any) -> bool:
        """The answer to an `Ask`, None = none came; whether the question was of these parts."""
        if channel == CHANNEL:
            self.transactions.ids.answered(answer)
            return True
        for part in (self.transactions.log, self.group_log):
            if channel == part.log.channel:
                part.log.created()
                return True
        return self.transactions.log.markers.answered(
            channel, answer
        ) or self.serving.verification.answered(channel, answer)

    def tick(self) -> None:
        """Every 100 ms."""
        self.transactions.tick()
        self.group_log.tick()
        self.groups.tick()
        self.cleaner.tick()
