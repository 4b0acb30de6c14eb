"""What clients asked and brokers answered, in traces that are made by hand."""

import dataclasses
from pathlib import Path

import msgspec
import pytest

from harness.report import inputs
from harness.report.evidence import exchanges
from harness.report.inputs import Inputs
from history import trace as tr
from history.verdict import Example, OpView
from tests.histories.report_findings import anomalous


def op(begin: float, end: float) -> OpView:
    return OpView(
        op=1, process=4, slot=2, f="poll", outcome="ok", phase="faults", begin_s=begin, end_s=end, txn=False
    )


def example(*offsets: int, ops: tuple[tuple[float, float], ...] = ((1.0, 2.0), (3.0, 4.0))) -> Example:
    views = [op(*one) for one in ops]
    return Example(sentence="", allowed=False, why="", partition="x-0", offsets=list(offsets), ops=views)


@pytest.fixture
def read(tmp_path: Path) -> Inputs:
    return inputs.read(anomalous().write(tmp_path / "run"))


def traced(
    read: Inputs, *rows: tuple[float, str, str, str, int, str], text: str = "", lost: int = -1
) -> Inputs:
    """rows: when (s), sender, receiver, name, what it answers, what it says of x-0."""
    found = tr.Trace(header=tr.TraceHeader(tr.VERSION, (1, 2), ()))
    for number, (at, sender, receiver, name, answers, says) in enumerate(rows):
        ns = read.start_ns + int(at * 1e9)
        arrived = tr.LOST if number == lost else ns + 1
        found.messages.append(
            tr.TracedMessage(ns, arrived, sender, receiver, name, answers, {"x-0": says, "txn:t": says}, text)
        )
    return dataclasses.replace(read, trace=found)


def test_what_is_out_of_the_ordinary_between_two_polls_is_told(read: Inputs) -> None:
    rows = [
        (0.5, "n1", "c4", "Fetch", 0, "NOT_LEADER_OR_FOLLOWER"),
        (2.5, "n1", "c4", "Fetch", 1, "NOT_LEADER_OR_FOLLOWER"),
        (2.6, "c4", "n2", "ListOffsets", -1, "begin"),
        (2.7, "c5", "n2", "ListOffsets", -1, "end"),
        (2.8, "c4", "n2", "Fetch", -1, "from 0, epoch 1"),
    ]
    told = list(exchanges.between(traced(read, *rows), example(7, 0)))
    assert told == [
        "between these ops, of the partition: answered Fetch, NOT_LEADER_OR_FOLLOWER (2.500 s); "
        "asked ListOffsets, begin (2.600 s)"
    ]
    assert not list(exchanges.between(read, example(7, 0)))


@pytest.mark.parametrize(
    ("says", "lost", "held"), [("8–11", -1, True), ("9–11", -1, False), ("8–11", 0, False)]
)
def test_an_answer_with_what_was_skipped_is_told(read: Inputs, says: str, lost: int, held: bool) -> None:
    row = (0.5, "n1", "c4", "Fetch", 0, f"offsets {says}, HW 12")
    told = list(exchanges.between(traced(read, row, lost=lost), example(7, 12)))
    assert (
        told
        == ["node 1 had answered its fetch with offsets 8–11 (0.500 s), so it got what it skipped"] * held
    )


def test_a_batch_that_was_sent_again_is_told_with_its_answers(read: Inputs) -> None:
    rows = [
        (1.1, "c4", "n1", "Produce", -1, "2 records, producer 1/0, sequence 5"),
        (1.2, "n1", "c4", "Produce", 0, "done at offsets 7–8"),
        (1.6, "c4", "n1", "Produce", -1, "2 records, producer 1/0, sequence 5"),
        (1.7, "c4", "n1", "Produce", -1, "1 record, producer 1/0, sequence 7"),
    ]
    batch = "its client sent the batch (2 records, producer 1/0, sequence 5) 2 times, from 1.100 to 1.600 s"
    refused = (1.3, "n1", "c4", "Produce", 0, "NOT_LEADER_OR_FOLLOWER")
    answered = "it was answered: NOT_LEADER_OR_FOLLOWER (2 times), done at offsets 7–8 (once)"
    for more, lost, got in (
        ((), -1, "it was answered: done at offsets 7–8 (once)"),
        ((), 1, "no answer reached it"),
        ((refused, refused), -1, answered),
    ):
        (told,) = exchanges.sent_again(traced(read, *rows, *more, lost=lost), example(7))
        assert told == f"{batch}; {got}"
    assert not list(exchanges.sent_again(traced(read, *rows[:2], rows[3]), example(7)))


def test_who_acknowledged_a_record_and_for_which_acks(read: Inputs) -> None:
    rows = [
        (1.1, "c4", "n2", "Produce", -1, "2 records"),
        (1.2, "n2", "c4", "Produce", 0, "done at offsets 7–8"),
    ]
    made = traced(read, *rows, text="acks 1")
    found = exchanges.acknowledged(made, example(8))
    assert found is not None
    assert found[0] == pytest.approx(1.2)
    assert found[1:] == (2, "acks 1")
    assert exchanges.acknowledged(made, example(9)) is None
    assert exchanges.acknowledged(read, example(8)) is None
    for acks, weaker in ((-1, True), (1, False)):
        verdict = msgspec.structs.replace(read.verdict, config=read.verdict.config | {"acks": acks})
        assert exchanges.weaker(dataclasses.replace(read, verdict=verdict), "acks 1") is weaker
        assert not exchanges.weaker(dataclasses.replace(read, verdict=verdict), "acks all")


def test_an_op_that_ended_ok_without_an_answer_is_told(read: Inputs) -> None:
    asked = (1.1, "c4", "n1", "Produce", -1, "2 records")
    answer = (1.2, "n1", "c4", "Produce", 0, "done at offsets 7–8")
    for rows, lost, silent in (([asked], -1, True), ([asked, answer], 1, True), ([asked, answer], -1, False)):
        told = list(exchanges.unanswered(traced(read, *rows, lost=lost), example(7)))
        sent = "its client sent 1 Produce request to the partition"
        fact = f"{sent}, and no answer reached it before its op ended ok"
        assert told == ([fact] if silent else [])
    failed = example(7)
    failed.ops[0] = msgspec.structs.replace(failed.ops[0], outcome="info")
    assert not list(exchanges.unanswered(traced(read, asked), failed))


ASKED = ((1.0, "abort"), (1.1, "abort"), (1.2, "commit"), (1.3, "abort"))


def test_requests_to_end_a_transaction_are_those_of_its_time(read: Inputs) -> None:
    asks = [(at, "c4", "n1", "EndTxn", -1, f"{how}, producer 7/3") for at, how in ASKED]
    made = traced(read, *asks)
    assert exchanges.ends(made, "t", 0.5, 1.05) == ["abort (1.000 s)"]
    told = ["abort (2 times, from 1.000 to 1.100 s)", "commit (1.200 s)", "abort (1.300 s)"]
    assert exchanges.ends(made, "t", 0.5, 1.5) == told
    assert exchanges.ends(made, "t", 1.5, 2.5) == []
    assert exchanges.ends(made, "u", 0.5, 1.5) == []
    assert exchanges.ends(read, "t", 0.5, 1.5) is None
