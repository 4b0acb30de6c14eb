"""The mechanisms of the model as step tables that the tests play and docs/model.md shows.

Not here: how a scenario is made and played (`framework`), the page (`page`).
"""

from typing import Final

from model.scenarios.acknowledgement import ACKNOWLEDGEMENT
from model.scenarios.assignment import ASSIGNMENT
from model.scenarios.election import ELECTION
from model.scenarios.eligible import ELIGIBLE
from model.scenarios.fencing import FENCING
from model.scenarios.framework import Chapter
from model.scenarios.isr import ISR
from model.scenarios.quorum import QUORUM
from model.scenarios.replication import REPLICATION
from model.scenarios.storage import STORAGE
from model.scenarios.truncation import TRUNCATION

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
}
"""Name -> chapter, in the order of the page."""
