"""The registry of planted bugs."""

from typing import Final

from model.mutants.groups import GROUPS
from model.mutants.mutant import Mutant
from model.mutants.producers import PRODUCERS
from model.mutants.replication import REPLICATION
from model.mutants.transactions import TRANSACTIONS

MUTANTS: Final[dict[str, Mutant]] = REPLICATION | PRODUCERS | TRANSACTIONS | GROUPS
"""Name -> mutant, by area."""
