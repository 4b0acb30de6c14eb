"""The registry of chapters, in the order of docs/model.md."""

from typing import Final

from model.scenarios.chapters.acknowledgement import ACKNOWLEDGEMENT
from model.scenarios.chapters.assignment import ASSIGNMENT
from model.scenarios.chapters.clients import CLIENTS
from model.scenarios.chapters.consumers import CONSUMERS
from model.scenarios.chapters.controller import CONTROLLER_ERA
from model.scenarios.chapters.controller_epochs import CONTROLLER_EPOCHS
from model.scenarios.chapters.coordinators import COORDINATORS
from model.scenarios.chapters.election import ELECTION
from model.scenarios.chapters.eligible import ELIGIBLE
from model.scenarios.chapters.fencing import FENCING
from model.scenarios.chapters.group_offsets import GROUP_OFFSETS
from model.scenarios.chapters.groups import GROUPS
from model.scenarios.chapters.idempotence import IDEMPOTENCE
from model.scenarios.chapters.isr import ISR
from model.scenarios.chapters.late_ends import LATE_ENDS
from model.scenarios.chapters.late_records import LATE_RECORDS
from model.scenarios.chapters.leader_writes import LEADER_WRITES
from model.scenarios.chapters.numbering import NUMBERING
from model.scenarios.chapters.positions import POSITIONS
from model.scenarios.chapters.producer_state import PRODUCER_STATE
from model.scenarios.chapters.quorum import QUORUM
from model.scenarios.chapters.replication import REPLICATION
from model.scenarios.chapters.storage import STORAGE
from model.scenarios.chapters.transactional_clients import TRANSACTIONAL_CLIENTS
from model.scenarios.chapters.transactions import TRANSACTIONS
from model.scenarios.chapters.truncation import TRUNCATION
from model.scenarios.chapters.zombies import ZOMBIES
from model.scenarios.framework import Chapter

CHAPTERS: Final[dict[str, Chapter]] = {
    "assignment": ASSIGNMENT,
    "replication": REPLICATION,
    "isr": ISR,
    "acknowledgement": ACKNOWLEDGEMENT,
    "election": ELECTION,
    "eligible": ELIGIBLE,
    "truncation": TRUNCATION,
    "fencing": FENCING,
    "storage": STORAGE,
    "quorum": QUORUM,
    "controller": CONTROLLER_ERA,
    "controller-epochs": CONTROLLER_EPOCHS,
    "leader-writes": LEADER_WRITES,
    "clients": CLIENTS,
    "idempotence": IDEMPOTENCE,
    "producer-state": PRODUCER_STATE,
    "numbering": NUMBERING,
    "transactions": TRANSACTIONS,
    "coordinators": COORDINATORS,
    "zombies": ZOMBIES,
    "transactional-clients": TRANSACTIONAL_CLIENTS,
    "late-ends": LATE_ENDS,
    "late-records": LATE_RECORDS,
    "groups": GROUPS,
    "group-offsets": GROUP_OFFSETS,
    "consumers": CONSUMERS,
    "positions": POSITIONS,
}
"""Name -> chapter, in the order of the page."""
