"""The registry of planted bugs."""

from typing import Final

from model.mutants.groups import GROUPS
from model.mutants.mutant import Areas, Mutant
from model.mutants.producers import PRODUCERS
from model.mutants.replication import REPLICATION
from model.mutants.transactions import TRANSACTIONS

AREAS: Final[Areas] = REPLICATION | PRODUCERS | TRANSACTIONS | GROUPS
MUTANTS: Final[dict[str, Mutant]] = {name: bug for area in AREAS.values() for name, bug in area.items()}
AREA_OF: Final = {name: area for area, mutants in AREAS.items() for name in mutants}
"""Name -> its area."""
