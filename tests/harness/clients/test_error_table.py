"""The table error → outcome: complete over confluent-kafka's codes, and narrow where it must be."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from core.session import Definite, Failed, Indefinite, Unknown
from harness.clients.librdkafka.client_part import failure_of
from harness.clients.librdkafka.error_table import ANY, DEFINITE, EXPIRED, Failure, Verb, delivery, outcome

CODES = sorted(
    {
        KafkaError(value).name()
        for name, value in vars(KafkaError).items()
        if name.isupper() and isinstance(value, int) and value != 0
    }
)
TRANSACTIONAL = (Verb.COMMIT, Verb.ABORT)


def test_the_list_of_codes_is_the_client_s() -> None:
    assert len(CODES) > 150
    assert {"_FENCED", "NOT_ENOUGH_REPLICAS", "_PURGE_QUEUE", "INVALID_TXN_STATE"} <= set(CODES)


@pytest.mark.parametrize("verb", Verb)
def test_every_code_of_the_client_has_an_outcome(verb: Verb) -> None:
    for code in CODES:
        error = outcome(verb, Failure(code=code))
        assert isinstance(error, Definite | Indefinite)
        assert error.code == code
        assert isinstance(delivery(verb, code), Failed | Unknown)


def test_no_delivery_report_proves_that_a_record_was_not_written() -> None:
    assert all(delivery(Verb.REPORT, code) == Unknown(code) for code in CODES)


def test_whatever_produce_itself_refuses_was_not_written() -> None:
    refused = [code for code in CODES if code != EXPIRED]
    assert all(delivery(Verb.PRODUCE, code) == Failed(code) for code in refused)


@pytest.mark.parametrize("verb", TRANSACTIONAL)
def test_no_error_of_a_commit_or_abort_proves_anything(verb: Verb) -> None:
    assert all(isinstance(outcome(verb, Failure(code=code)), Indefinite) for code in CODES)


@pytest.mark.parametrize("verb", Verb)
def test_an_expired_deadline_and_a_code_of_tomorrow(verb: Verb) -> None:
    assert isinstance(outcome(verb, Failure(code=EXPIRED)), Indefinite)
    tomorrow = outcome(verb, Failure(code="ERR_999?"))
    sure = (Verb.PRODUCE, Verb.BEGIN, Verb.LOCAL)
    assert isinstance(tomorrow, Definite if verb in sure else Indefinite)


def test_a_fatal_error_does_not_ask_for_an_abort() -> None:
    fatal = outcome(Verb.COMMIT, Failure(code="_FENCED", fatal=True, wants_abort=True))
    assert isinstance(fatal, Indefinite)
    assert not fatal.wants_abort


def test_flags_reach_the_client_loop() -> None:
    abortable = outcome(Verb.COMMIT, Failure(code="UNKNOWN_PRODUCER_ID", wants_abort=True))
    assert isinstance(abortable, Indefinite)
    assert abortable.wants_abort
    fenced = outcome(Verb.BEGIN, Failure(code="_FENCED", fatal=True))
    assert isinstance(fenced, Definite)
    assert fenced.fatal


def test_the_table_names_real_codes() -> None:
    assert set().union(*DEFINITE.values()) <= {*CODES, ANY}


@pytest.mark.parametrize(
    ("verb", "code"),
    [
        (Verb.COMMIT_OFFSETS, "ILLEGAL_GENERATION"),
        (Verb.COMMIT_OFFSETS, "REBALANCE_IN_PROGRESS"),
        (Verb.COMMIT_OFFSETS, "UNKNOWN_MEMBER_ID"),
        (Verb.COMMIT_OFFSETS, "_WAIT_COORD"),
        (Verb.CREATE_TOPIC, "TOPIC_ALREADY_EXISTS"),
        (Verb.CREATE_TOPIC, "NOT_CONTROLLER"),
        (Verb.SEND_OFFSETS, "ILLEGAL_GENERATION"),
    ],
)
def test_a_refusal_of_the_last_attempt_proves_nothing_of_earlier_ones(verb: Verb, code: str) -> None:
    assert code in CODES
    assert isinstance(outcome(verb, Failure(code=code)), Indefinite)


def kafka_error(code: int, **flags: Any) -> KafkaException:
    return KafkaException(KafkaError(code, "why", **flags))


def test_exceptions_of_the_client_are_taken_apart() -> None:
    fenced = failure_of(kafka_error(KafkaError._FENCED, fatal=True))
    assert fenced == Failure(code="_FENCED", message="why", fatal=True)
    aborts = failure_of(kafka_error(KafkaError.TRANSACTION_ABORTABLE, txn_requires_abort=True))
    assert aborts == Failure(code="TRANSACTION_ABORTABLE", message="why", wants_abort=True)
    assert failure_of(kafka_error(KafkaError._FATAL)).fatal


def test_a_fatal_error_behind_a_system_error_is_found() -> None:
    error = SystemError("returned a result with an exception set")
    error.__cause__ = kafka_error(KafkaError._FENCED, fatal=True)
    assert failure_of(error) == Failure(code="_FENCED", message="why", fatal=True)


def test_a_system_error_of_its_own_is_fatal() -> None:
    failure = failure_of(SystemError("returned NULL without setting an exception"))
    assert failure.code == "_FATAL"
    assert failure.fatal
