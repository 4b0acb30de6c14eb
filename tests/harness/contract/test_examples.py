"""The comparison, with the model in the place of the real broker: with a planted bug the two differ, without
one they are the same."""

from collections import Counter
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from core.errors import ClusterError, UsageError
from harness.brokers.admin.connection import BrokerConnection, Brokers
from harness.contract.campaign import Campaign, CampaignResult, Modelled
from harness.contract.commands import KINDS, RandomCommand, Situation
from harness.contract.dialect import Dialect, common_error, error_of
from harness.contract.differences import FILE, Known, bugs_of, known, known_cells, without_known
from harness.contract.examples import CommandSequence, Difference, Played, drawn, errors, play
from harness.contract.shrink import shrunk
from harness.contract.sides import LATE_ROUNDS, ModelSide, RealSide, comparable, settings_of
from harness.contract.versions import version_of
from model.errors import KafkaError
from model.log.unified_log import AbortedTxn, RecordBatch
from model.protocol.coordinator_messages import Heartbeat
from model.protocol.messages import FetchedPartition, FetchResponse, ProduceResponse
from model.protocol.requests import ErrorResponse
from scenarios.drivers.raw_producer import named

EXAMPLES = 150

BUGS = {
    "sequence-not-checked": ("Produce",),
    "repeats-not-recognised": ("Produce",),
    "old-epoch-appended": ("Produce", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit"),
    "end-txn-ignores-epoch": ("EndTxn",),
    "zombie-not-fenced": ("InitProducerId",),
    "init-leaves-open": ("InitProducerId",),
    "marker-skips-a-partition": ("DescribeProducers", "Fetch"),
    "late-marker-appended": ("WriteTxnMarkers", "DescribeTransactions"),
    "unstable-offsets-answered": ("OffsetFetch",),
    "offsets-of-aborted-txn": ("OffsetFetch",),
    "lso-ignores-open": ("Fetch",),
    "verification-skipped": ("Produce", "TxnOffsetCommit", "DescribeTransactions"),
    "generation-not-checked": ("OffsetCommit", "TxnOffsetCommit", "DescribeGroup"),
    "generation-not-bumped": ("JoinGroup",),
    "partitions-given-twice": ("SyncGroup", "DescribeGroup"),
    "commit-writes-abort": ("Fetch",),
}
"""Planted bug -> the requests one of which shows it first."""


def played(example: CommandSequence, bug: str = "", kafka: str = "4.3.1") -> Played:
    era = version_of(kafka).era_of(example.transaction_version)
    right, wrong = settings_of(era), settings_of(era, frozenset({bug} if bug else ()))
    situation = Situation("x", "t", example.transaction_version)
    return play(example, situation, ModelSide(right, "t", 2), ModelSide(wrong, "t", 2), rounds=1)


def first(bug: str) -> tuple[CommandSequence, Difference]:
    """The first example that shows a bug."""
    for number in range(EXAMPLES):
        example = drawn(1, number, 1 + number % 2)
        if (found := played(example, bug).difference) is not None:
            return example, found
    raise AssertionError(f"no example shows {bug}")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kafka", ["3.9.1", "4.0.2", "4.3.1"])
def test_a_broker_agrees_with_itself(kafka: str) -> None:
    asked: Counter[str] = Counter()
    for number in range(15):
        spoken = version_of(kafka).transaction_versions
        result = played(drawn(7, number, spoken[number % len(spoken)]), kafka=kafka)
        assert result.difference is None
        asked.update(kind for kind, _ in result.answers.elements())
    assert len(asked) >= 16


@pytest.mark.sampled(8)
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_differs(bug: str) -> None:
    _, difference = first(bug)
    assert difference.kind[0] in BUGS[bug]


@pytest.mark.sampled(5)
def test_an_example_that_fails_is_made_small() -> None:
    example, difference = first("lso-ignores-open")

    def fails(candidate: CommandSequence) -> bool:
        found = played(candidate, "lso-ignores-open").difference
        return found is not None and found.kind == difference.kind

    small = shrunk(example, fails)
    assert fails(small)
    assert len(small.commands) <= 5
    assert not any(
        fails(small._replace(commands=small.commands[:at] + small.commands[at + 1 :]))
        for at in range(len(small.commands))
        if len(small.commands) > 1
    )


@pytest.mark.sampled(5)
def test_a_campaign_ends_with_its_first_error_and_says_what_it_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    campaign = Campaign(Brokers({}), version_of("4.3.1"), "x", 1, (), said.append)
    games = count(1)

    def one(_: CommandSequence) -> Played:
        if next(games) == 20:
            raise ClusterError("the broker is gone")
        return Played(requests=1)

    monkeypatch.setattr(campaign, "play", one)
    with pytest.raises(ClusterError, match="the broker is gone"):
        campaign.run(10**9, CampaignResult(), (1, 2))
    assert "ended early: " in said[-1]
    assert " requests in " in said[-1]


@pytest.mark.parametrize("code", [-1, 10, 87])
def test_an_error_that_the_model_does_not_know_has_a_name_and_equals_none_of_its_errors(code: int) -> None:
    error = error_of(code)
    assert error not in set(KafkaError)
    assert list(errors(ErrorResponse(error))) == [f"error {code}"]
    assert list(errors(ProduceResponse({("t", 0): (error, -1)}))) == [f"error {code}"]
    assert named(ErrorResponse(error)) == f"error {code}"
    assert error_of(code) == error
    assert error_of(42) is KafkaError.INVALID_REQUEST


@pytest.mark.parametrize(
    ("codes", "name"),
    [
        ([], "NONE"),
        ([0, 0], "NONE"),
        ([51, 51], "CONCURRENT_TRANSACTIONS"),
        ([55, 3, 55], "UNKNOWN_TOPIC_OR_PARTITION"),
        ([0, 51], "NONE and CONCURRENT_TRANSACTIONS"),
        ([51, 3], "UNKNOWN_TOPIC_OR_PARTITION and CONCURRENT_TRANSACTIONS"),
    ],
)
def test_partitions_that_are_answered_differently_are_no_answer_of_the_model(
    codes: list[int], name: str
) -> None:
    error = common_error(codes)
    assert error.name == name
    assert (error in set(KafkaError)) is (" and " not in name)


@pytest.mark.parametrize("records", [("a", "b"), ("b", "a")])
def test_records_of_a_log_are_compared(records: tuple[str, str]) -> None:
    def log(of: tuple[str, str]) -> FetchResponse:
        batches = tuple(RecordBatch(at, 0, (one,)) for at, one in enumerate(of))
        return comparable(FetchResponse({("t", 0): FetchedPartition(KafkaError.NONE, batches, 2, 2, 0, ())}))

    assert (log(records) == log(("a", "b"))) is (records == ("a", "b"))


def test_an_example_is_always_the_same() -> None:
    assert drawn(3, 5, 1) == drawn(3, 5, 1)
    assert drawn(3, 5, 1) != drawn(3, 6, 1)
    names = {command.kind for number in range(200) for command in drawn(3, number, 1).commands}
    assert names == set(KINDS)


DROPPED = "refused-commit-drops-pending-offsets"
HELD = (
    RandomCommand("init"),
    RandomCommand("init"),
    RandomCommand("add_offsets"),
    RandomCommand("txn_offsets", number=7),
)
DROPS = CommandSequence(1, (*HELD, RandomCommand("txn_offsets", epoch=-1), RandomCommand("end")))


@pytest.mark.parametrize(
    "commands", [DROPS.commands, (*DROPS.commands[:-1], RandomCommand("beat", "M"), DROPS.commands[-1])]
)
def test_a_difference_is_explained_by_the_listed_bug_that_answers_the_same(
    commands: tuple[RandomCommand, ...],
) -> None:
    example = DROPS._replace(commands=commands)
    found = played(example, DROPPED, "3.9.1").difference
    assert found is not None
    modelled = Modelled(version_of("3.9.1"), "x", "t", 1)
    assert modelled.explanation(example, found, bugs_of("3.9.1", known())) == DROPPED
    assert modelled.explanation(example, found, ["unstable-offsets-answered"]) == ""
    assert modelled.explanation(example, found._replace(after=found.after - 1), [DROPPED]) == ""


@pytest.mark.parametrize(
    ("bug", "then"), [("unstable-offsets-answered", "committed"), ("offsets-of-committed-txn-dropped", "end")]
)
def test_another_bug_of_the_same_offsets_is_not_explained(bug: str, then: str) -> None:
    example = CommandSequence(1, (*HELD, RandomCommand(then)))
    found = played(example, bug, "3.9.1").difference
    assert found is not None
    assert Modelled(version_of("3.9.1"), "x", "t", 1).explanation(example, found, [DROPPED]) == ""


def test_a_bug_is_listed_for_some_versions() -> None:
    listed = (Known(bug="b", reason="r", source="s", from_="4.0", before="4.2"),)
    assert bugs_of("4.1.1", listed) == ("b",)
    assert bugs_of("4.2.0", listed) == bugs_of("3.9.1", listed) == ()
    assert bugs_of("3.9.1", known()) == (DROPPED,)
    assert bugs_of("4.0.2", known()) == ()


def test_a_fetch_tells_of_an_aborted_transaction_its_producer_and_its_begin() -> None:
    def answer(*aborted: AbortedTxn) -> FetchResponse:
        return comparable(FetchResponse({("t", 0): FetchedPartition(KafkaError.NONE, (), 5, 5, 0, aborted)}))

    assert answer(AbortedTxn(2, 0, 4, 5)) == answer(AbortedTxn(2, 0, -1))
    assert answer(AbortedTxn(2, 1, 4, 5)) != answer(AbortedTxn(2, 0, -1))


class Late:
    """A connection: its answer comes after the broker has answered so many other requests."""

    def __init__(self, after: int) -> None:
        self.after = after
        self.calls = 0

    def send(self, *_: object) -> None:
        pass

    def answered(self, _: float) -> bool:
        return self.calls >= self.after

    def call(self, *_: object, **values: object) -> None:
        self.calls += 1

    def receive(self, _: object) -> object:
        return SimpleNamespace(error_code=int(KafkaError.REBALANCE_IN_PROGRESS))


@pytest.mark.parametrize(
    ("after", "told"), [(0, True), (1, True), (LATE_ROUNDS, True), (LATE_ROUNDS + 1, False)]
)
def test_an_answer_is_late_where_the_broker_has_answered_many_others(after: int, told: bool) -> None:
    connection = Late(after)
    real = RealSide(lambda: cast("BrokerConnection", connection), Dialect(1, 1))
    expected = ErrorResponse(KafkaError.REBALANCE_IN_PROGRESS)
    real.send("M", Heartbeat("g", 1, "m"))
    assert real.taken("M", expected) == (expected if told else None)
    assert connection.calls == min(after, LATE_ROUNDS)


def test_a_member_that_may_lead_does_not_leave_several_others() -> None:
    situation = Situation("x", "t", 1)
    m, n, o = situation.members.values()
    m.member, n.member, o.member = "m", "n", "o"
    leave = RandomCommand("leave", "M")
    assert situation.request(leave) is None
    n.members = ("m", "n", "o")  # it leads
    assert situation.request(leave) is not None
    n.leave()
    assert situation.request(leave) is not None  # of one no choice is made


def test_every_listed_difference_has_its_reason_and_its_line_of_kafka() -> None:
    listed = [(one.reason, one.source) for one in known(FILE)]
    listed += [(one.reason, one.source) for one in known_cells(FILE)]
    for reason, source in listed:
        assert len(reason) > 20
        assert ".java" in source or ".scala" in source


def test_a_word_is_known_to_be_kafkas_alone_on_some_versions_only() -> None:
    assert without_known("offsets log", "[0] [1] p0=3", "4.0.2", known_cells()) == "[1] p0=3"
    assert without_known("offsets log", "[0]", "4.3.1", known_cells()) == "–"
    assert without_known("offsets log", "[0] [1]", "3.9.1", known_cells()) == "[0] [1]"
    assert without_known("log", "[0] [1]", "4.3.1", known_cells()) == "[0] [1]"


def test_a_list_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "differences.toml"
    path.write_text('[[difference]]\nname = "only this"\n')
    with pytest.raises(ClusterError, match=r"differences\.toml"):
        known(path)


def test_versions() -> None:
    assert version_of("4.3.1").transaction_versions == (1, 2)
    assert version_of("3.9.1").transaction_versions == (1,)
    assert not version_of("4.0.1").era.old_epoch_first
    assert version_of("4.0.2").era.old_epoch_first
    assert version_of("4.1.1").marker_version == 1
    with pytest.raises(UsageError):
        version_of("3.3.2")
