"""Which era of the model stands for a version of Kafka, and which request versions its brokers speak."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from core.errors import UsageError
from core.systems import numbers_of, refused_version
from model.eras import ERAS, Era

OLDEST: Final = (3, 6)
"""Before that brokers lack the versions of OffsetFetch and AddPartitionsToTxn that are used here."""
OLD_EPOCH_FIRST: Final[Mapping[tuple[int, ...], tuple[int, ...]]] = {
    (3, 9): (3, 9, 2),
    (4, 0): (4, 0, 2),
    (4, 1): (4, 1, 1),
}
"""Release line -> the patch release that brought KAFKA-19690 to it."""


class Version(NamedTuple):
    """A version of Kafka. era: as its brokers behave. marker_version: the newest one of WriteTxnMarkers."""

    kafka: str
    era: Era
    marker_version: int

    @property
    def transaction_versions(self) -> tuple[int, ...]:
        """Those that clients can speak."""
        return tuple(range(1, self.era.server_transaction_version + 1))

    def era_of(self, transaction_version: int) -> Era:
        """The era with clients that speak this transaction version."""
        return replace(self.era, client_transaction_version=transaction_version)


def version_of(kafka: str) -> Version:
    """The newest era that is not newer than the release line, with what patch releases brought to it.

    Raises: UsageError, for a version that is too old, and for what is none.
    """
    if why := refused_version(kafka):
        raise UsageError(f"--kafka {kafka!r}: {why}")
    number = numbers_of(kafka)
    if number[:2] < OLDEST:
        raise UsageError(f"the contract is compared from Kafka {OLDEST[0]}.{OLDEST[1]} on, not with {kafka}")
    lines = {numbers_of(name): era for name, era in ERAS.items() if "-" not in name}
    era = lines[max(line for line in lines if line <= number[:2])]
    patched = OLD_EPOCH_FIRST.get(number[:2])
    if patched is not None:
        era = replace(era, old_epoch_first=number >= patched)
    return Version(kafka, era, 2 if number[:2] >= (4, 2) else 1)
