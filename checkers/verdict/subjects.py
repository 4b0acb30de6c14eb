"""What a history holds that checks can judge. A check whose subject a run lacks could not have failed there:
it is not asked, and proves nothing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from checkers.engine.check import Tally
from checkers.engine.findings import FINAL
from history.columns import Array, numbers
from history.events import DeadLettersListed
from history.reader import History
from history.tables import NO_PRODUCER


@dataclass(frozen=True)
class Held:
    """What a history holds. Small tables suffice, and the counts of the tally."""

    history: History
    tally: Tally

    def _column(self, table: str, name: str) -> Array:
        return numbers(self.history.tables[table], name)

    @property
    def sent(self) -> bool:
        """A record was handed to a client to be sent."""
        return bool(self._column("ops", "n_sends").any())

    @property
    def read(self) -> bool:
        """A client, or a final read, was given a record."""
        return bool(self._column("ops", "n_reads").any())

    @property
    def acknowledged(self) -> bool:
        """A record was acknowledged."""
        return self.tally.acknowledged > 0

    @property
    def compacted(self) -> bool:
        """Compaction has removed a committed record."""
        return any(number for _, number in self.tally.parts_of("compaction", int))

    @property
    def polled(self) -> bool:
        """A client was given a record before the final reads."""
        live = self._column("ops", "phase") != FINAL
        return bool(self._column("ops", "n_reads")[live].any())

    @cached_property
    def wrote_transaction(self) -> bool:
        """A transaction sent a record."""
        return bool(self._column("ops", "n_sends")[self._column("ops", "txn") == 1].any())

    @property
    def committed_offset(self) -> bool:
        """A group committed an offset, or asked for one."""
        return len(self._column("commits", "group")) > 0

    @property
    def group_read(self) -> bool:
        """A member of a group was given a record."""
        process, group = self._column("processes", "process"), self._column("processes", "group")
        live = (self._column("ops", "phase") != FINAL) & (self._column("ops", "n_reads") > 0)
        return bool(np.isin(self._column("ops", "process")[live], process[group >= 0]).any())

    @property
    def shared(self) -> bool:
        """A share group gave a record to a member."""
        return len(self._column("deliveries", "group")) > 0

    @property
    def dead_lettered(self) -> bool:
        """A share group with a dead-letter queue gave a record to a member."""
        return self.shared and any(isinstance(event, DeadLettersListed) for event in self.history.events)

    @property
    def copied(self) -> bool:
        """A member of a group may send what it was given: it reads, and produces."""
        group, acks = self._column("processes", "group"), self._column("processes", "acks")
        isolation = self._column("processes", "isolation")
        return bool(((group >= 0) & (acks != NO_PRODUCER) & (isolation >= 0)).any())

    @property
    def copied_by_application(self) -> bool:
        """An application wrote what it made of several inputs of one partition to one partition."""
        return bool(self.tally.parts_of("copy-order", list))

    @property
    def taken_over(self) -> bool:
        """Several processes had one transactional id."""
        ids = self._column("processes", "txn_id")
        return bool((np.unique(ids[ids >= 0], return_counts=True)[1] > 1).any())


SUBJECTS: Final[Mapping[str, tuple[str, Callable[[Held], bool]]]] = {
    "sends": ("nothing was sent", lambda held: held.sent),
    "reads": ("nothing was read", lambda held: held.read),
    "acknowledgements": ("no record was acknowledged", lambda held: held.acknowledged),
    "compaction": ("compaction removed no committed record", lambda held: held.compacted),
    "polls": ("no client was given a record before the final reads", lambda held: held.polled),
    "transactions": ("no transaction sent a record", lambda held: held.wrote_transaction),
    "offsets": ("no offset was committed or asked for", lambda held: held.committed_offset),
    "groups": ("no member of a group was given a record", lambda held: held.group_read),
    "shares": ("no share group delivered a record", lambda held: held.shared),
    "dead letters": ("no dead-letter queue of a share group was read", lambda held: held.dead_lettered),
    "copies": ("no member of a group produces", lambda held: held.copied),
    "applications": (
        "no application copied several records of one partition to one",
        lambda held: held.copied_by_application,
    ),
    "successors": ("no two processes had one transactional id", lambda held: held.taken_over),
}
"""Name of a subject -> what is missing where there is none, and whether there is."""
