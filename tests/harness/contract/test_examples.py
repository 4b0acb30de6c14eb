"""The comparison, with the model in the place of the real broker: with a planted bug the two differ, without
one they are the same."""

from collections import Counter
from itertools import count
from pathlib import Path

import pytest

from core.errors import ClusterError, UsageError
from harness.contract.campaign import Campaign
from harness.contract.commands import KINDS, Command, Situation
from harness.contract.differences import FILE, Known, explanation, known, known_cells, without_known
from harness.contract.examples import Difference, Example, Played, drawn, play
from harness.contract.shrink import shrunk
from harness.contract.sides import ModelSide, settings_of
from harness.contract.versions import version_of
from harness.kafka.admin.connection import Brokers
from model.errors import KafkaError
from model.protocol.coordinator_messages import EndTxn, ProducerIdResponse

EXAMPLES = 150
SETTLE = "harness.contract.examples.SETTLE_S"

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


def played(example: Example, bug: str = "", kafka: str = "4.3.1") -> Played:
    era = version_of(kafka).era_of(example.transaction_version)
    right, wrong = settings_of(era), settings_of(era, frozenset({bug} if bug else ()))
    situation = Situation("x", "t", example.transaction_version)
    return play(example, situation, ModelSide(right, "t", 2), ModelSide(wrong, "t", 2))


def first(bug: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Example, Difference]:
    """The first example that shows a bug."""
    monkeypatch.setattr(SETTLE, 0.0)
    for number in range(EXAMPLES):
        example = drawn(1, number, 1 + number % 2)
        if (found := played(example, bug).difference) is not None:
            return example, found
    raise AssertionError(f"no example shows {bug}")


@pytest.mark.parametrize("kafka", ["3.9.1", "4.0.2", "4.3.1"])
def test_a_broker_agrees_with_itself(kafka: str) -> None:
    asked: Counter[str] = Counter()
    for number in range(15):
        spoken = version_of(kafka).transaction_versions
        result = played(drawn(7, number, spoken[number % len(spoken)]), kafka=kafka)
        assert result.difference is None
        asked.update(kind for kind, _ in result.answers.elements())
    assert len(asked) >= 16


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_differs(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, difference = first(bug, monkeypatch)
    assert difference.kind[0] in BUGS[bug]


def test_an_example_that_fails_is_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    example, difference = first("lso-ignores-open", monkeypatch)

    def fails(candidate: Example) -> bool:
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


def test_a_campaign_ends_with_its_first_error_and_says_what_it_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    campaign = Campaign(Brokers({}), version_of("4.3.1"), "x", 1, (), said.append)
    games = count(1)

    def one(_: Example) -> Played:
        if next(games) == 20:
            raise ClusterError("the broker is gone")
        return Played(requests=1)

    monkeypatch.setattr(campaign, "play", one)
    with pytest.raises(ClusterError, match="the broker is gone"):
        campaign.run(10**9)
    assert "ended early: " in said[-1]
    assert " requests in " in said[-1]


def test_an_example_is_always_the_same() -> None:
    assert drawn(3, 5, 1) == drawn(3, 5, 1)
    assert drawn(3, 5, 1) != drawn(3, 6, 1)
    names = {command.kind for number in range(200) for command in drawn(3, number, 1).commands}
    assert names == set(KINDS)


def difference(real: KafkaError, modelled: KafkaError) -> Difference:
    request = EndTxn("t", 1, 0, True)
    answers = ProducerIdResponse(real), ProducerIdResponse(modelled)
    return Difference(0, Command("end"), request, *answers, state=False)


def test_only_what_is_listed_is_explained() -> None:
    listed = Known(
        name="n",
        request="EndTxn",
        kafka="NONE",
        model="PRODUCER_FENCED",
        reason="r",
        source="s",
        from_="4.0",
        before="4.2",
    )
    found = difference(KafkaError.NONE, KafkaError.PRODUCER_FENCED)
    assert explanation(found, "4.1.1", (listed,)) is listed
    assert explanation(found, "4.2.0", (listed,)) is None
    assert explanation(found, "3.9.1", (listed,)) is None
    other = difference(KafkaError.NONE, KafkaError.INVALID_TXN_STATE)
    assert explanation(other, "4.1.1", (listed,)) is None
    assert explanation(found, "4.1.1", ()) is None


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
