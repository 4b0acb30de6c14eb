"""The sharing half of a session on the simulated cluster: the modelled member of a share group behind the
verbs of `core.session.Sharing`."""

from collections.abc import Mapping, Sequence
from typing import Final

from core.op import Acknowledgement, Outcome, TopicPartition
from core.session import AcquiredRecord, Acquisition, Answers
from harness.modelled.shared.base_time import BASE_NS
from harness.modelled.virtual.client_runtime import Machines
from model.client.share_consumer import UNHEARD, Said, ShareConsumer
from model.errors import KafkaError
from model.log.log_cleaner import KeyedRecord
from model.protocol.share_messages import AcknowledgeType

REFUSED: Final = KafkaError.INVALID_RECORD_STATE.name
"""The only answer that proves that nothing was stored (`harness.clients.librdkafka.error_table`)."""


class SharingMachines(Machines):
    """See the module."""

    async def acquire(self, wait_ms: int) -> Acquisition:
        """See `Sharing`."""
        share = self._sharing()
        share.wants = True
        self._pump()
        await self._until(lambda: share.ready, wait_ms * 1000)
        share.wants = False
        taken = share.take()
        records = [
            AcquiredRecord(TopicPartition(*one.tp), one.offset, payload_of(one.payload), one.count)
            for one in taken
        ]
        asked = min((BASE_NS + one.asked_ms * 1_000_000 for one in taken), default=self._scheduler.ns)
        return Acquisition(records, asked)

    async def acknowledge(
        self, records: Mapping[TopicPartition, Sequence[tuple[int, Acknowledgement]]]
    ) -> Answers:
        """See `Sharing`."""
        share = self._sharing()
        said: Said = {tp: [(at, AcknowledgeType(kind)) for at, kind in of] for tp, of in records.items()}
        number = share.acknowledge(said)
        self._pump()
        await self._until(lambda: number in share.answers, int(self.spec.deadline_s * 1e6))
        told = share.answers.pop(number, {})
        return {tp: _outcome(told.get(tp, UNHEARD)) for tp in records}

    def _sharing(self) -> ShareConsumer:
        assert self.share is not None, f"process {self.spec.process} is of no share group"
        return self.share


def _outcome(error: str) -> tuple[Outcome, str]:
    if not error:
        return Outcome.OK, ""
    return (Outcome.FAIL if error == REFUSED else Outcome.INFO), error


def payload_of(kept: object) -> bytes:
    """The payload of a record as logs have it."""
    payload = kept.payload if isinstance(kept, KeyedRecord) else kept
    assert isinstance(payload, bytes)
    return payload
