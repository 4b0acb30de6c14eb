"""A real leader of replicas, in the place of a model's `Broker`, and its producers."""

from functools import partial
from threading import Thread
from typing import Final

import msgspec

from harness.brokers.admin.connection import AdminError
from harness.contract import replicas
from harness.contract.lanes import MESSAGE_S, POLL_S
from harness.contract.replica_place import ReplicaPlace
from harness.contract.replica_settings import PACE
from harness.contract.stage import RealBroker
from harness.processes.waiting import NotYet, until
from model.protocol.messages import Produce
from model.protocol.requests import AnyRequest
from model.replication.node import Reply
from scenarios.drivers.partition import TP

PRODUCER_MS: Final = 35_000
"""A leader keeps a producer's request for this time, or for the request's own at the pace: longer than a
session and the shortest lag of a story take together, shorter than the time that has passed where a story
says that it has run out."""


class LeaderBroker(RealBroker):
    """A real broker that answers a producer when followers have its records, or do not come to that."""

    def __init__(self, place: ReplicaPlace, number: int) -> None:
        super().__init__(place, number)
        self._end = partial(self._ends, place, number)
        self._waiting: list[tuple[int, Thread]] = []
        """The log's end after a producer's records, and who waits for their answer."""

    @staticmethod
    def _ends(place: ReplicaPlace, number: int) -> int:
        found = replicas.seen_log(place.ask(replicas.of_replica(TP), number).parts[TP])
        return found.end if found is not None else -1

    def receive(self, now: int, connection: int, correlation: int, request: AnyRequest) -> None:
        """See `RealBroker`. Returns when the records are in the log, or are refused. Raises: AdminError."""
        if not (isinstance(request, Produce) and request.acks == -1):
            super().receive(now, connection, correlation, request)
            return
        before = self._end()
        patient = msgspec.structs.replace(request, timeout_ms=max(PRODUCER_MS, request.timeout_ms * PACE))
        earlier = self._waiting[-1][1] if self._waiting else None
        asking = Thread(target=self._answer, args=(connection, correlation, patient, earlier), daemon=True)
        asking.start()

        def taken() -> None:
            if asking.is_alive() and self._end() <= before:
                raise NotYet("the leader neither appends nor answers")

        until(MESSAGE_S, POLL_S, taken)
        self._waiting.append((self._end(), asking))

    def _answer(
        self, connection: int, correlation: int, request: Produce, earlier: Thread | None
    ) -> None:  # one commit answers several producers: pass their answers on in the order of their records
        try:
            answer = self._place.ask(request, self._number)
        except AdminError as error:
            self._out.put(error)
            return
        if earlier is not None and not any(error for error, _ in answer.results.values()):
            earlier.join(MESSAGE_S)
        self._out.put(Reply(connection, correlation, answer))

    def answer_up_to(self, high_watermark: int) -> None:
        """Returns when producers whose records are committed have their answers."""
        for end, asking in self._waiting:
            if end <= high_watermark:
                asking.join(MESSAGE_S)
