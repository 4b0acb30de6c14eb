"""Planted bugs: each makes the model break one rule of Kafka's protocol, and has to be found.

A mutant is in force where its name is among `Settings.bugs`; the lines that it changes ask for that name. It
declares the anomaly classes of the damage, the principal one first, and where to look for it.

Not here: behaviour that Kafka had once (`eras`), looking for mutants (`harness.explore`).
"""

from typing import Final

from model.mutants.groups import GROUPS
from model.mutants.mutant import Hunt, Mutant
from model.mutants.producers import PRODUCERS
from model.mutants.replication import REPLICATION
from model.mutants.transactions import TRANSACTIONS

__all__ = ["MUTANTS", "Hunt", "Mutant"]

MUTANTS: Final[dict[str, Mutant]] = REPLICATION | PRODUCERS | TRANSACTIONS | GROUPS
"""Name -> mutant, by area."""
