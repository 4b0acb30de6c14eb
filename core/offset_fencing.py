"""Whether brokers fence offsets that transactions commit, and whether members wait for them."""

from typing import Final

from core.config import RunConfig
from core.systems import KafkaSection, ModelSection, SimulatedSection, is_since, release_of

FENCED: Final = "2.5"
"""The first line that has KIP-447: offsets in a transaction are taken from members of the group's generation
alone, and a member that asks for offsets waits for the markers of those that are on their way. Those before
take them of any member, and answer the offsets from before (GroupCoordinator.handleTxnCommitOffsets)."""


def offsets_fenced(config: RunConfig) -> bool:
    """Whether all brokers of a run do so; those of a version that is not on record count as recent ones."""
    first = ""
    if config.has(KafkaSection):
        first = config.section(KafkaSection).version
    elif config.has(SimulatedSection):
        first = release_of(config.section(SimulatedSection).era)
    elif config.has(ModelSection):
        first = release_of(config.section(ModelSection).era)
    return not first or is_since(first, FENCED)
