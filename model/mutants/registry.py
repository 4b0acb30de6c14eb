"""The registry of planted bugs."""

from typing import Final

from model.mutants.cleaner import CLEANER
from model.mutants.groups import GROUPS
from model.mutants.log_damage import LOG_DAMAGE
from model.mutants.mutant import Areas, Mutant
from model.mutants.producers import PRODUCERS
from model.mutants.replication import REPLICATION
from model.mutants.share import SHARE
from model.mutants.transactions import TRANSACTIONS

AREAS: Final[Areas] = REPLICATION | PRODUCERS | TRANSACTIONS | GROUPS | CLEANER | SHARE
MUTANTS: Final[dict[str, Mutant]] = {name: bug for area in AREAS.values() for name, bug in area.items()}
PLANTED: Final = (*MUTANTS, *LOG_DAMAGE)
"""Names of all planted bugs, also of those that only logs show."""
AREA_OF: Final = {name: area for area, mutants in AREAS.items() for name in mutants}
"""Name -> its area."""
