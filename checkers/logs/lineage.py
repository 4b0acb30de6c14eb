"""Ring 3, records: what leaders of one epoch had, the leaders of later epochs have.

The metadata log says which broker led in which epoch, and which elections were clean. An unclean election,
or a loss of power, may lose records (KIP-966).
"""

from typing import Final

from checkers.logs.judgement import LogRule

EPOCHS_GIVEN: Final = LogRule(
    name="epochs-given",
    ring=3,
    anomaly="model-violation",
    claim="Each leader epoch in a partition's log was given to a leader by the metadata log.",
    source="KIP-101, KIP-500; PartitionRegistration.merge",
)
COMMITTED_KEPT: Final = LogRule(
    name="committed-kept",
    ring=3,
    anomaly="lost-write",
    claim="What lay below a replica's high watermark when its broker died is in the leader's log at the end,"
    " where all elections since were clean.",
    source="KIP-101, KIP-966",
)
ACKNOWLEDGED: Final = LogRule(
    name="acknowledged-held",
    ring=3,
    anomaly="lost-write",
    claim="Where a client's record was acknowledged (acks=all), the leader's log at the end holds a batch of"
    " the producer that sent it.",
    source="KIP-101, KIP-966; producer setting acks",
)

RULES: Final = (EPOCHS_GIVEN, COMMITTED_KEPT, ACKNOWLEDGED)
