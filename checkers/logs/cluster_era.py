"""Which behaviours of Kafka a cluster had, by what it has finalized in its metadata log."""

from dataclasses import replace
from typing import Final

import pyarrow.compute as pc

from history.evidence import Evidence
from model.eras import METADATA_VERSION, Era, of_metadata_version

TRANSACTION_VERSION: Final = "transaction.version"


def era_of(evidence: Evidence) -> Era | None:
    """The era that the finalized features name; None = the evidence has no metadata log that says it.

    While features changed, the oldest counts: a rule must not ask for what a version before did not do. In a
    cluster that is upgraded these are those of its first version, whose brokers may still append. A cluster
    that names no transaction version has 1, so one that rises later is not the oldest.
    client_transaction_version says nothing: that of real clients is in the transaction log.
    """
    level = _least(evidence, METADATA_VERSION)
    if level is None:
        return None
    era = of_metadata_version(level)
    version = _least(evidence, TRANSACTION_VERSION)
    if version is None:
        return era
    return replace(era, server_transaction_version=max(1, min(version, era.server_transaction_version)))


def _least(evidence: Evidence, feature: str) -> int | None:
    rows = evidence.columns("metadata", ["feature", "level"])
    levels = rows.filter(pc.equal(rows["feature"], feature))["level"]
    least = pc.min(levels).as_py()
    return None if least is None else int(least)
