"""Anomaly classes that only logs show, and where Kafka permits their findings."""

from collections.abc import Mapping
from typing import Final

from checkers.allowed import never, unless_truncated
from checkers.engine.check import AnomalyClass

DIVERGENCE: Final = "replica-divergence"
DAMAGED: Final = "damaged-log"
VIOLATION: Final = "model-violation"
LOST_DECISION: Final = "lost-decision"
TORN_DECISION: Final = "torn-decision"
HANGING: Final = "hanging-partition"
UNCLEAN: Final = "unclean-election"
EARLY: Final = "early-act"
MISANSWERED: Final = "unasked-answer"
UNFLUSHED: Final = "unflushed-log"

CLASSES: Final[Mapping[str, AnomalyClass]] = {
    DIVERGENCE: AnomalyClass(
        title="Replicas hold different records",
        meaning="Two brokers' copies of a partition differ at an offset that both have as committed.",
        literature="Log Matching, State Machine Safety (Ongaro and Ousterhout, 2014); KIP-101, KIP-279",
        rule=unless_truncated("below the high watermark all replicas of a partition hold the same batches"),
    ),
    DAMAGED: AnomalyClass(
        title="A broker's files contradict each other",
        meaning="A batch does not have the bytes that its checksum is of, or a broker's checkpoint or index"
        " says something else than the log beside it.",
        literature="crash consistency (Pillai et al., 2014)",
        rule=unless_truncated("what a broker writes beside its log says the same as the log"),
    ),
    VIOLATION: AnomalyClass(
        title="A log that Kafka's protocol does not allow",
        meaning="A log holds a record that no broker of the model would have appended in the state that the"
        " records before it lead to.",
        literature="trace validation (Howard et al., 2025); conformance",
        rule=unless_truncated("a broker appends only what the protocol allows in the state of its log"),
    ),
    UNCLEAN: AnomalyClass(
        title="A replica that misses records became leader",
        meaning="The metadata log, or ZooKeeper's, names a leader that was neither in sync nor eligible,"
        " where unclean leader election is off.",
        literature="Leader Completeness (Ongaro and Ousterhout, 2014); KIP-966",
        rule=never("only a replica that has every committed record may lead"),
    ),
    LOST_DECISION: AnomalyClass(
        title="A transaction ended by a decision that the coordinator's log does not have",
        meaning="A marker, or an answer to a client, ended a transaction, and `__transaction_state` holds no"
        " such decision.",
        literature="stable storage of the decision in two-phase commit (Gray, 1978)",
        rule=unless_truncated("a coordinator logs its decision, replicated, before it acts upon it"),
    ),
    TORN_DECISION: AnomalyClass(
        title="One transaction committed in one partition and aborted in another",
        meaning="Markers of both results end the records of one transaction.",
        literature="atomic commitment, AC1 (Bernstein, Hadzilacos and Goodman, 1987)",
        rule=unless_truncated("all partitions of a transaction get one result"),
    ),
    HANGING: AnomalyClass(
        title="A partition of an ended transaction has no marker",
        meaning="The coordinator completed a transaction, and a partition with records of it has no marker:"
        " consumers at read_committed wait there, or the next transaction decides these records.",
        literature="hanging transaction (KIP-664, KIP-890)",
        rule=unless_truncated("a coordinator completes a transaction when all its partitions have markers"),
    ),
    EARLY: AnomalyClass(
        title="A broker acted upon a record before it was committed",
        meaning="A broker answered a producer, or sent markers, when some in-sync replica had not asked for"
        " what follows the record in question. Nothing is lost by that alone: the replica may have the"
        " record, or get it.",
        literature="output commit (Strom and Yemini, 1985); stable storage of the decision (Gray, 1978)",
        rule=never("a broker tells others only of what is committed"),
    ),
    UNFLUSHED: AnomalyClass(
        title="A broker had not flushed what it was set to",
        meaning="A broker died, and by its checkpoint it had not flushed records that it had had for long, as"
        " flush.messages or flush.ms asks for. Its machine would have lost them with it.",
        literature="crash consistency (Pillai et al., 2014)",
        rule=never("a broker flushes each log as the settings of its topic say"),
    ),
    MISANSWERED: AnomalyClass(
        title="An answer without its request",
        meaning="A broker sent an answer that is not the next one due on its connection.",
        literature="Kafka's protocol guide, Network",
        rule=never("a broker answers each request of a connection once, in their order"),
    ),
}
"""Identifier -> class, the most severe first. Rules may also name a class of `checkers.checks`."""
