"""The mechanisms of the model as step tables that the tests play and docs/model.md shows.

Not here: how a scenario is made and played (`framework`), the page (`page`).
"""

from typing import Final

from model.scenarios.acknowledgement import ACKNOWLEDGEMENT
from model.scenarios.assignment import ASSIGNMENT
from model.scenarios.clients import CLIENTS
from model.scenarios.consumers import CONSUMERS
from model.scenarios.controller import CONTROLLER_ERA
from model.scenarios.controller_epochs import CONTROLLER_EPOCHS
from model.scenarios.coordinators import COORDINATORS
from model.scenarios.election import ELECTION
from model.scenarios.eligible import ELIGIBLE
from model.scenarios.fencing import FENCING
from model.scenarios.framework import Chapter
from model.scenarios.group_offsets import GROUP_OFFSETS
from model.scenarios.groups import GROUPS
from model.scenarios.idempotence import IDEMPOTENCE
from model.scenarios.isr import ISR
from model.scenarios.late_ends import LATE_ENDS
from model.scenarios.late_records import LATE_RECORDS
from model.scenarios.leader_writes import LEADER_WRITES
from model.scenarios.numbering import NUMBERING
from model.scenarios.positions import POSITIONS
from model.scenarios.producer_state import PRODUCER_STATE
from model.scenarios.quorum import QUORUM
from model.scenarios.replication import REPLICATION
from model.scenarios.storage import STORAGE
from model.scenarios.transactional_clients import TRANSACTIONAL_CLIENTS
from model.scenarios.transactions import TRANSACTIONS
from model.scenarios.truncation import TRUNCATION
from model.scenarios.zombies import ZOMBIES

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
