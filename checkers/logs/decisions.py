"""Ring 3, transactions: the coordinators' log decides, markers obey, clients learn it."""

from typing import Final

from checkers.logs.judgement import LogRule

LOST_DECISION: Final = "lost-decision"
HANGING: Final = "hanging-partition"

DECIDED: Final = LogRule(
    name="marker-decided",
    ring=3,
    anomaly=LOST_DECISION,
    claim="Each marker in a partition has its PrepareCommit or PrepareAbort in `__transaction_state`: of this"
    " producer id, marker epoch and result, with this partition.",
    source="KIP-98, KIP-890; TransactionMarkerChannelManager",
)
COORDINATOR_EPOCH: Final = LogRule(
    name="marker-coordinator",
    ring=3,
    anomaly="model-violation",
    claim="The coordinator epoch of a marker is a leader epoch of the transactional id's partition of"
    " `__transaction_state`, not before the one of the decision.",
    source="KIP-98; TransactionStateManager.loadTransactionsForTxnTopicPartition",
)
AGREE: Final = LogRule(
    name="decisions-agree",
    ring=3,
    anomaly="torn-decision",
    claim="A transaction ends in all of its partitions by markers of one result.",
    source="KIP-98",
)
MARKED: Final = LogRule(
    name="partitions-marked",
    ring=3,
    anomaly=HANGING,
    claim="Each partition that a completed transaction names has a marker of its result.",
    source="KIP-98; KAFKA-20734",
)
NAMED: Final = LogRule(
    name="partitions-named",
    ring=3,
    anomaly=HANGING,
    claim="A transaction's decision names each partition that has records of the transaction.",
    source="KIP-98, KIP-890 (AddPartitionsToTxn, verification)",
)
ANSWERED: Final = LogRule(
    name="answers-decided",
    ring=3,
    anomaly=LOST_DECISION,
    claim="A transaction that its client saw committed has PrepareCommit in `__transaction_state` while the"
    " client waited; one that its client saw aborted has no PrepareCommit.",
    source="KIP-98; TransactionCoordinator.endTransaction",
)
IDENTITIES: Final = LogRule(
    name="identities-logged",
    ring=3,
    anomaly="model-violation",
    claim="Each producer id and epoch that a transactional client received is in `__transaction_state` under"
    " its transactional id.",
    source="KIP-98, KIP-360; TransactionCoordinator.initProducerId",
)
FENCED: Final = LogRule(
    name="fencing-logged",
    ring=3,
    anomaly="model-violation",
    claim="For a client that learns that it is fenced, `__transaction_state` has a later epoch or producer id"
    " of its transactional id.",
    source="KIP-98, KIP-360",
)

RULES: Final = (DECIDED, COORDINATOR_EPOCH, AGREE, MARKED, NAMED, ANSWERED, IDENTITIES, FENCED)
