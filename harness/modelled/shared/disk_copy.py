"""A copy of what the disk of a modelled node holds, which the node's further life leaves alone."""

import copy
from dataclasses import dataclass, replace

from model.broker import Durable
from model.log.unified_log import UnifiedLog


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskCopy:
    """One node of a take, see `history.evidence`. ns: time of the run. `durable`: a copy, or the node's own
    where nothing happens to it any more. `ended`: of a take at the end, how the process of a node that was
    down had ended, "" = it ran, or was shut down."""

    node: int
    ns: int
    why: str
    durable: Durable
    ended: str = ""


def copied(durable: Durable) -> Durable:
    """What is durable now. Batches and metadata records never change, so they are shared."""
    return replace(
        durable,
        logs={tp: _log(log) for tp, log in durable.logs.items()},
        topic_ids=dict(durable.topic_ids),
        checkpoint=dict(durable.checkpoint),
        server_log=list(durable.server_log),
        entries=list(durable.entries),
    )


def _log(log: UnifiedLog) -> UnifiedLog:
    kept = copy.copy(log)
    kept.batches = list(log.batches)
    kept.epochs = copy.copy(log.epochs)
    states = kept.producer_states = copy.copy(log.producer_states)
    kept.producers = states.producers = {
        producer_id: replace(known, batches=list(known.batches))
        for producer_id, known in log.producers.items()
    }
    states.ongoing = dict(log.producer_states.ongoing)
    kept.aborted = states.aborted = list(log.aborted)
    kept.completed = states.completed = list(log.completed)
    return kept
