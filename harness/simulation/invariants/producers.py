"""What a log remembers of its producers, and what its batches say of them, derived again."""

from model.log.unified_log import NO_PRODUCER, NO_SEQUENCE, RecordBatch, UnifiedLog

ProducerState = tuple[int, int, int, list[tuple[int, int, int]]]
"""Epoch, first offset of the open transaction, coordinator epoch, (first, last sequence, base) of the
newest batches."""


def remembered(log: UnifiedLog) -> dict[int, ProducerState]:
    """What a log remembers, by producer id."""
    return {
        producer: (
            known.epoch,
            known.began,
            known.coordinator_epoch,
            [(sent.first_sequence, sent.last_sequence, sent.base) for sent in known.batches],
        )
        for producer, known in log.producers.items()
    }


def producers_of(batches: list[RecordBatch], remembered: int) -> dict[int, ProducerState]:
    """What a log says of its producers, by producer id."""
    made: dict[int, ProducerState] = {}
    for batch in batches:
        producer = batch.producer_id
        if producer == NO_PRODUCER:
            continue
        epoch, began, coordinator, sent = made.get(producer, (batch.producer_epoch, -1, -1, []))
        if epoch != batch.producer_epoch:
            sent = []
        if batch.control:
            began, coordinator = -1, batch.coordinator_epoch
        else:
            if batch.sequence != NO_SEQUENCE:
                sent = [*sent, (batch.sequence, batch.last_sequence, batch.base)][-remembered:]
            if batch.transactional and began < 0:
                began = batch.base
        made[producer] = (batch.producer_epoch, began, coordinator, sent)
    return made


def unlike(told: dict[int, ProducerState], made: dict[int, ProducerState]) -> str:
    """The first producer on which the two differ, in words."""
    producer = min(p for p in {*told, *made} if told.get(p) != made.get(p))
    return f"of producer {producer} it knows {told.get(producer)}, its log says {made.get(producer)}"
