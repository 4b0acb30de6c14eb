"""Kafka's errors → what each proves of the verb that met it. Data, with a source for each surprise.

One rule decides most rows: librdkafka retries, so an error describes the *last* attempt only. The
broker may have applied an earlier attempt whose answer was lost; even a plain refusal proves nothing.
Definite are the calls that librdkafka refuses before it queues anything. An error that no row names is
indefinite.

Names are those of `KafkaError.name()`: a leading underscore marks librdkafka's local errors.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from core.session import Definite, Failed, Indefinite, Unknown

EXPIRED: Final = "_TIMED_OUT"
"""Code of a verb whose deadline passed."""


class Verb(StrEnum):
    """Calls that can fail, as the table distinguishes them."""

    PRODUCE = "produce"
    """`produce()` itself raised."""
    REPORT = "report"
    """A delivery report carries the error."""
    BEGIN = "begin"
    """init_transactions or begin_transaction."""
    COMMIT = "commit"
    ABORT = "abort"
    SEND_OFFSETS = "send-offsets"
    COMMIT_OFFSETS = "commit-offsets"
    CREATE_TOPIC = "create-topic"
    ACKNOWLEDGE = "acknowledge"
    """Of records of a share group."""
    POLL = "poll"
    LOCAL = "local"
    """assign, subscribe, seek, position: they change the client's own state only."""


ANY: Final = "*"
"""Every code but EXPIRED."""

DEFINITE: Final[Mapping[Verb, frozenset[str]]] = {
    # rdkafka.h, rd_kafka_producev: with an error the message was not enqueued and stays the application's.
    # So for a full queue (_QUEUE_FULL), a record over message.max.bytes (MSG_SIZE_TOO_LARGE), no open
    # transaction (_STATE), an unknown partition and a dead client (_FATAL) alike.
    Verb.PRODUCE: frozenset({ANY}),
    # Nothing of the transaction exists before begin_transaction returns: InitProducerId ends the
    # predecessor's transaction, not ours, and records are refused (_STATE).
    Verb.BEGIN: frozenset({ANY}),
    # rdkafka_txnmgr.c, rd_kafka_send_offsets_to_transaction: arguments, and a producer without a
    # transactional id, are refused before AddOffsetsToTxn is made.
    Verb.SEND_OFFSETS: frozenset({"_INVALID_ARG", "_NOT_CONFIGURED"}),
    # rd_kafka_commit0, rd_kafka_cgrp_offsets_commit: no group, or no valid offset: refused before a request
    # is made. (_WAIT_COORD is not here: a commit that was sent and answered NOT_COORDINATOR waits for a
    # coordinator again.)
    Verb.COMMIT_OFFSETS: frozenset({"_INVALID_ARG", "_NO_OFFSET", "_UNKNOWN_GROUP"}),
    # The request itself is refused. An earlier attempt that was applied would be answered
    # TOPIC_ALREADY_EXISTS instead, which the controller looks for first
    # (ReplicationControlManager.createTopics).
    Verb.CREATE_TOPIC: frozenset(
        {
            "TOPIC_EXCEPTION",
            "INVALID_PARTITIONS",
            "INVALID_REPLICATION_FACTOR",
            "INVALID_REPLICA_ASSIGNMENT",
            "INVALID_CONFIG",
            "POLICY_VIOLATION",
            "_INVALID_ARG",
        }
    ),
    # rdkafka_share_acknowledgement.c: a record that the client does not hold is refused before it is sent.
    # INVALID_RECORD_STATE: by the leader, before it stores anything (SharePartition.acknowledge); librdkafka
    # sends an acknowledgement once (rd_kafka_broker_share_acknowledge_reply).
    Verb.ACKNOWLEDGE: frozenset({"_STATE", "_INVALID_ARG", "INVALID_RECORD_STATE"}),
    # These verbs change what the client reads next, and nothing in the cluster.
    Verb.LOCAL: frozenset({ANY}),
}
"""What is definite. All other errors are indefinite."""

# Not in the table, though a reader may take them for definite:
#
# REPORT  NOT_ENOUGH_REPLICAS: refused before the append, but of the last attempt: an earlier one may have
#         been appended and its answer lost (rdkafka_request.c, rd_kafka_handle_Produce_error: both are
#         retried). NOT_ENOUGH_REPLICAS_AFTER_APPEND: the leader has appended the record.
#         NOT_LEADER_FOR_PARTITION: KAFKA-13574: produce purgatory answers so after the local append;
#         librdkafka calls it not persisted and does not even count the retry.
#         OUT_OF_ORDER_SEQUENCE_NUMBER: of the last attempt; an earlier one may stand in the log. (Jepsen
#         counts it as failed; that is debatable once a request may have been applied.)
#         INVALID_PRODUCER_EPOCH: as above: fenced now, perhaps appended before.
#         TOPIC_AUTHORIZATION_FAILED: rights may have been taken between two attempts.
#         MSG_SIZE_TOO_LARGE: by the broker: max.message.bytes may have been lowered between two attempts.
#         _MSG_TIMED_OUT: reported for records in the queue and in flight alike.
#         _PURGE_QUEUE: purged from the queue, to which a record returns after a failed attempt
#         (rd_kafka_toppar_purge_queues); whether it was ever sent is in rd_kafka_message_status, which
#         Python's Message does not expose. _PURGE_INFLIGHT: given up while a request with it was under way.
# COMMIT  _FENCED: the commit may have been applied before a successor fenced us: EndTxn is retried
#         internally with the same epoch. INVALID_TXN_STATE: librdkafka #4558: an error while the data is
#         committed. _STATE: also raised where the broker committed and the transaction had failed locally
#         (rdkafka_txnmgr.c, rd_kafka_txn_complete).
# ABORT   INVALID_TXN_STATE: librdkafka #4849: EndTxn(abort) overtook AddPartitionsToTxn; whether the
#         transaction ends aborted is open until its timeout. _FENCED: a successor ends the transaction, and
#         a commit attempted before may have been applied.
# COMMIT_OFFSETS  ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID: OffsetCommit is retried on a
#         new connection (rdkafka_request.c, rd_kafka_handle_OffsetCommit): an earlier attempt may stand.
# CREATE_TOPIC  TOPIC_ALREADY_EXISTS: perhaps by an attempt whose answer was lost. NOT_CONTROLLER: of the
#         last attempt; the controller may have lost its office after it had written the topic.
# SEND_OFFSETS  ILLEGAL_GENERATION: asks for an abort; the transaction's end decides.


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A KafkaError, taken apart.

    wants_abort: `txn_requires_abort()`. Its `retriable()` is deliberately not here: nothing is
    ever called again.
    """

    code: str
    message: str = ""
    fatal: bool = False
    wants_abort: bool = False


def is_definite(verb: Verb, code: str) -> bool:
    """Whether an error proves that the verb did not take effect."""
    codes = DEFINITE.get(verb, frozenset())
    return code in codes or (ANY in codes and code != EXPIRED)


def outcome(verb: Verb, failure: Failure) -> Definite | Indefinite:
    """The exception that a verb raises for an error."""
    if is_definite(verb, failure.code):
        return Definite(failure.code, failure.message, fatal=failure.fatal)
    wants_abort = failure.wants_abort and not failure.fatal
    return Indefinite(failure.code, failure.message, wants_abort=wants_abort)


def delivery(verb: Verb, code: str) -> Failed | Unknown:
    """The result of one record."""
    return Failed(code) if is_definite(verb, code) else Unknown(code)
