"""Ring 0: what the files of brokers say of one partition agrees, replica with replica and file with log.

No model and no client is asked. Producer snapshots and the index of aborted transactions are compared with
the batches by the acceptors of ring 1.
"""

from typing import Final

from checkers.logs.judgement import LogRule

DIVERGENCE: Final = "replica-divergence"
DAMAGED: Final = "damaged-log"

INTACT: Final = LogRule(
    name="batches-intact",
    ring=0,
    anomaly=DAMAGED,
    claim="Each batch has the checksum of its bytes, and each file of a partition can be read as a whole;"
    " what a death has cut off is the end of a log's last file.",
    source="KIP-98; LogSegment.recover",
)
DENSE: Final = LogRule(
    name="offsets-dense",
    ring=0,
    anomaly=DAMAGED,
    claim="Each batch of a log begins at the offset after the batch before it, and has as many records as"
    " offsets, where the log was not compacted.",
    source="UnifiedLog.append; LogCleaner",
)
EPOCHS_RISE: Final = LogRule(
    name="epochs-rise",
    ring=0,
    anomaly="model-violation",
    claim="Leader epochs do not fall along a log.",
    source="KIP-101, KIP-279",
)
EPOCH_CHECKPOINT: Final = LogRule(
    name="epoch-checkpoint",
    ring=0,
    anomaly=DAMAGED,
    claim="`leader-epoch-checkpoint` has each leader epoch of a log's batches, and the offset of its first"
    " one.",
    source="KIP-101; LeaderEpochFileCache",
)
ENDS: Final = LogRule(
    name="ends-within-log",
    ring=0,
    anomaly=DAMAGED,
    claim="High watermark, recovery point and log start of a log, as the checkpoints of its broker have them,"
    " are not beyond the log's end.",
    source="LogManager.checkpointRecoveryOffsetsInDir; ReplicaManager.checkpointHighWatermarks",
)
MATCHING: Final = LogRule(
    name="log-matching",
    ring=0,
    anomaly=DIVERGENCE,
    claim="Two logs of a partition that have a batch of the same offset and leader epoch hold the same"
    " batches up to it, at any time.",
    source="KIP-101, KIP-279; Raft, 5.3",
)
COMMITTED: Final = LogRule(
    name="replicas-equal",
    ring=0,
    anomaly=DIVERGENCE,
    claim="In-sync replicas hold the same batches below their high watermarks.",
    source="KIP-101; Partition.maybeIncrementLeaderHW",
)

RULES: Final = (INTACT, DENSE, EPOCHS_RISE, EPOCH_CHECKPOINT, ENDS, MATCHING, COMMITTED)
