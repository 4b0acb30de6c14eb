"""The registry of chapters, in the order of docs/model."""

from typing import Final

from scenarios.chapters import (
    acknowledgement,
    assignment,
    clients,
    consumer_groups,
    consumers,
    controller,
    controller_epochs,
    coordinators,
    dead_letters,
    election,
    eligible,
    fencing,
    group_offsets,
    groups,
    half_ended,
    idempotence,
    isr,
    late_ends,
    late_records,
    leader_writes,
    numbering,
    positions,
    producer_state,
    quorum,
    replication,
    share_groups,
    storage,
    transactional_clients,
    transactions,
    truncation,
    zombies,
)
from scenarios.framework import Chapter

CHAPTERS: Final = {
    module.__name__.rpartition(".")[2].replace("_", "-"): Chapter.of(module)
    for module in (
        *(assignment, replication, isr, acknowledgement, election, eligible, truncation, fencing, storage),
        *(quorum, controller, controller_epochs, leader_writes),
        *(clients, idempotence, producer_state, numbering),
        *(transactions, coordinators, half_ended, zombies, transactional_clients, late_ends, late_records),
        *(groups, consumer_groups, group_offsets, consumers, positions),
        *(share_groups, dead_letters),
    )
}
"""Name -> chapter, in the order of the page."""
