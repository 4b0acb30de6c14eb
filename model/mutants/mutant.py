"""What a planted bug is, and where it shows.

Not here: the planted bugs themselves (`replication`, `producers`, `transactions`, `groups`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunt:
    """Where a mutant shows: runs of these workloads under these nemeses (the names of the command line),
    with `settings` of the run besides those of every exploration."""

    workloads: tuple[str, ...]
    nemeses: tuple[str, ...] = ("none",)
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One planted bug; its name is the key in `MUTANTS`.

    area: part of the protocol. wrong, right: what it does, and what Kafka does. anomalies: classes that
    it causes, the principal one first; each further one is another face of the same damage. hunt: None
    where no nemesis of today brings about what it takes; scenarios (`model.scenarios`) show it.
    """

    area: str
    wrong: str
    right: str
    anomalies: tuple[str, ...]
    hunt: Hunt | None
