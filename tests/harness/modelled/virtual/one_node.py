"""Connections of clients to one simulated node, which answers every request at once with the request itself;
what came and when."""

import random
from typing import Any

from core.capabilities import Listener
from harness.modelled.virtual.network import CLIENTS, Message, Network, VirtualConnection
from harness.modelled.virtual.scheduler import Scheduler

MS = 1000


class OneNode:
    """Node 1. silent: it does not answer. came, answers: (content, µs). broke: (number of a connection whose
    end its client learned, µs)."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.network = Network(self.scheduler, random.Random(1))
        self.draws = random.Random(2)
        self.messages: list[Message] = []
        self.network.messages = self.messages
        self.came: list[tuple[Any, int]] = []
        self.answers: list[tuple[Any, int]] = []
        self.broke: list[tuple[int, int]] = []
        self.silent = False

    def connect(self, process: int = 0, client: int = CLIENTS) -> VirtualConnection:
        listener = Listener.CLIENT if client == CLIENTS else Listener.BROKER
        made = self.network.connect(client, 1, listener, process)
        made.awaits(lambda: self.broke.append((made.number, self.scheduler.now)))
        return made

    def ask(self, connection: VirtualConnection, request: Any) -> None:
        self.network.send(connection, request, self._request, self._answered)

    def _request(self, message: Message) -> None:
        self.came.append((message.content, self.scheduler.now))
        if not self.silent:
            self.network.answer(message, message.content)

    def _answered(self, answer: Message) -> None:
        self.answers.append((answer.content, self.scheduler.now))

    def until(self, ms: int) -> None:
        self.scheduler.at(ms * MS, lambda: None)
        self.scheduler.run(limit=ms * MS)
        self.scheduler.now = max(self.scheduler.now, ms * MS)

    def texts(self) -> tuple[list[Any], list[Any]]:
        return [request for request, _ in self.came], [answer for answer, _ in self.answers]
