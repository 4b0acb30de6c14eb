"""The mechanisms of the model as step tables that the tests play and docs/model.md shows.

Not here: how a scenario is made and played (`framework`), the page (`page`).
"""

from typing import Final

from model.scenarios.acknowledgement import ACKNOWLEDGEMENT
from model.scenarios.election import ELECTION
from model.scenarios.eligible import ELIGIBLE
from model.scenarios.framework import Chapter
from model.scenarios.isr import ISR
from model.scenarios.replication import REPLICATION
from model.scenarios.truncation import TRUNCATION

CHAPTERS: Final[dict[str, Chapter]] = {
    "replication": REPLICATION,
    "isr": ISR,
    "acknowledgement": ACKNOWLEDGEMENT,
    "election": ELECTION,
    "eligible": ELIGIBLE,
    "truncation": TRUNCATION,
}
"""Name -> chapter, in the order of the page."""
