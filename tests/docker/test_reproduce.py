"""Scripted schedules on real brokers: the bad side shows its bug, the good side does not. What the brokers
left on disk shows it too.

Should a bad side fail with a newer Kafka, then that version has mended the bug: `docs/findings` and the model
then need to say since when.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from core.presets import SHARE_LIMIT
from core.systems import KAFKA_VERSION
from harness.reproduce import attempts
from harness.reproduce.attempts import ScheduleRun, Shows
from harness.reproduce.in_sync_sets import SOON
from harness.reproduce.registry import PATIENT, REPRODUCTIONS
from harness.reproduce.stage import Deaths, FiveBrokers

SIDES = [
    ("aborted-index-skips", False, Shows.SHOWN),
    ("aborted-index-skips", True, Shows.CLEAN),
    ("acks1", False, Shows.SHOWN),
    ("acks1", True, Shows.CLEAN),
    ("acks1-moved", False, Shows.SHOWN),
    ("acks1-moved", True, Shows.CLEAN),
    ("cancelled-reassignment", False, Shows.SHOWN),
    ("cancelled-reassignment", True, Shows.CLEAN),
    ("deleted-topic-offsets", False, Shows.SHOWN),
    ("deleted-topic-offsets", True, Shows.CLEAN),
    ("duplicate", False, Shows.SHOWN),
    ("duplicate", True, Shows.CLEAN),
    ("kafka-14402", True, Shows.CLEAN),
    ("kafka-15591", False, Shows.SHOWN),
    ("kafka-15591", True, Shows.CLEAN),
    ("kafka-17754-abort", False, Shows.SHOWN),
    ("kafka-17754-abort", True, Shows.CLEAN),
    ("kafka-17754-commit", False, Shows.SHOWN),
    ("kafka-17754-commit", True, Shows.CLEAN),
    ("kafka-17754-doubt", False, Shows.SHOWN),
    ("kafka-17754-doubt", True, Shows.CLEAN),
    ("kafka-17754-timeout", False, Shows.SHOWN),
    ("kafka-18060", True, Shows.CLEAN),
    ("kafka-19367", True, Shows.CLEAN),
    ("kafka-20357", False, Shows.SHOWN),
    ("kafka-20357", True, Shows.CLEAN),
    ("kafka-20734", False, Shows.SHOWN),
    ("last-replica", True, Shows.CLEAN),
    ("librdkafka-4953", False, Shows.SHOWN),
    ("librdkafka-4953", True, Shows.CLEAN),
    ("removed-replica", False, Shows.SHOWN),
    ("removed-replica", True, Shows.CLEAN),
    ("reordered", False, Shows.SHOWN),
    ("unclean-election", False, Shows.SHOWN),
    ("uncommitted-abort", False, Shows.SHOWN),
    ("uncommitted-abort", True, Shows.CLEAN),
    ("uncommitted-partition", False, Shows.SHOWN),
    ("uncommitted-partition", True, Shows.CLEAN),
]
"""Those that one cluster can perform; the good side of unclean-election takes a minute."""
FOUND_IN_LOGS = ("kafka-20734", "uncommitted-abort", "uncommitted-partition")
"""All other logs are as brokers have to write them: only the client knows what it had asked for."""


@pytest.fixture(scope="module")
def performed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, bool], ScheduleRun]:
    """All sides whose tests are asked for, on one cluster."""
    calls = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    asked = {(call["name"], call["good"]) for call in calls if {"name", "good", "shows"} == set(call)}
    sides = [(name, good) for name, good, _ in SIDES if (name, good) in asked]
    folder = tmp_path_factory.mktemp("reproduce")
    stage = FiveBrokers(KAFKA_VERSION, folder, print, PATIENT, wire=True)
    wanted = [(REPRODUCTIONS[name], f"{name}-{'good' if good else 'bad'}", good) for name, good in sides]
    runs = attempts.on_one_cluster(stage, wanted, folder)
    return dict(zip(sides, runs, strict=True))


@pytest.mark.sampled(38)
@pytest.mark.parametrize(("name", "good", "shows"), SIDES)
def test_each_side_shows_what_it_says_and_logs_alone_show_most(
    performed: dict[tuple[str, bool], ScheduleRun], name: str, good: bool, shows: Shows
) -> None:
    attempt = performed[name, good]
    assert attempt.shows is shows, attempt.text
    assert bool(attempt.in_logs) is (not good and name in FOUND_IN_LOGS)


def brokers_that_do_not_verify_transactions_let_one_hang(tmp_path: Path) -> None:
    (attempt,) = attempts.attempts(
        REPRODUCTIONS["kafka-14402"], KAFKA_VERSION, runs=1, good=False, folder=tmp_path, say=print
    )
    assert attempt.shows is Shows.SHOWN, attempt.text
    assert [one.check for one in attempt.in_logs] == ["partitions-marked"]


def a_late_marker_ends_the_next_transaction_of_version_1_only(tmp_path: Path) -> None:
    stage = FiveBrokers(KAFKA_VERSION, tmp_path, print, wire=True, between=True)
    wanted = [(REPRODUCTIONS["kafka-19446"], "good" if good else "bad", good) for good in (False, True)]
    bad, good = attempts.on_one_cluster(stage, wanted, tmp_path)
    assert (bad.shows, good.shows) == (Shows.SHOWN, Shows.CLEAN), f"{bad.text}; {good.text}"
    assert {one.check for one in bad.in_logs} == {"marker-decided", "decisions-agree"}
    assert not good.in_logs


def lose_what_two_deaths_lose(tmp_path: Path, deaths: Deaths) -> None:
    stage = FiveBrokers(KAFKA_VERSION, tmp_path, print, deaths=deaths)
    names = ("uncommitted-abort", "uncommitted-partition")
    wanted = [(REPRODUCTIONS[name], name, False) for name in names]
    wanted.append((REPRODUCTIONS[names[1]], "good", True))
    *bad, good = attempts.on_one_cluster(stage, wanted, tmp_path)
    assert [one.shows for one in bad] == [Shows.SHOWN, Shows.SHOWN], bad
    assert all(one.in_logs for one in bad)
    assert (good.shows, good.in_logs) == (Shows.CLEAN, ()), good.text


def a_rolling_restart_loses_what_two_deaths_lose(tmp_path: Path) -> None:
    lose_what_two_deaths_lose(tmp_path, Deaths.SHUTDOWN)


def two_elections_lose_what_two_deaths_lose(tmp_path: Path) -> None:
    lose_what_two_deaths_lose(tmp_path, Deaths.ELECTION)


def a_coordinator_that_does_not_follow_loses_no_commit(tmp_path: Path) -> None:
    (attempt,) = attempts.attempts(
        REPRODUCTIONS["kafka-20634"], KAFKA_VERSION, runs=1, good=True, folder=tmp_path, say=print
    )
    assert attempt.shows is Shows.CLEAN, attempt.text


def a_coordinator_that_follows_acknowledges_a_commit_that_is_lost(tmp_path: Path) -> None:
    runs = attempts.attempts(
        REPRODUCTIONS["kafka-20634"], "4.0.2", runs=3, good=False, folder=tmp_path, say=print
    )
    assert any(one.shows is Shows.SHOWN for one in runs)  # the order of two broker threads decides


def of_its_bad_version(name: str, tmp_path: Path) -> ScheduleRun:
    bug = REPRODUCTIONS[name]
    (attempt,) = attempts.attempts(bug, bug.versions[0], runs=1, good=False, folder=tmp_path, say=print)
    assert attempt.shows is Shows.SHOWN, attempt.text
    return attempt


def an_abort_raises_the_epoch_twice(tmp_path: Path) -> None:
    attempt = of_its_bad_version("kafka-19367", tmp_path)
    assert {one.check for one in attempt.in_logs} == {"transaction-producer-epoch"}


def a_late_permission_to_write_ends_the_producer(tmp_path: Path) -> None:
    assert not of_its_bad_version("kafka-19690", tmp_path).in_logs


def a_group_of_kip_848_refuses_offsets_that_name_no_member(tmp_path: Path) -> None:
    assert not of_its_bad_version("kafka-18060", tmp_path).in_logs


def a_newer_client_gets_the_error_of_an_old_one_that_wrote_before_it(tmp_path: Path) -> None:
    stage = FiveBrokers(KAFKA_VERSION, tmp_path, print, wire=True, between=True)
    one = REPRODUCTIONS["mixed-clients"]
    bad, good = attempts.on_one_cluster(stage, [(one, "bad", False), (one, "good", True)], tmp_path)
    assert (bad.shows, good.shows) == (Shows.SHOWN, Shows.CLEAN), f"{bad.text}; {good.text}"


def a_refused_commit_of_offsets_drops_those_of_the_transaction(tmp_path: Path) -> None:
    assert not of_its_bad_version("pending-offsets-dropped", tmp_path).in_logs


def a_coordinator_of_groups_stores_offsets_of_a_fenced_producer(tmp_path: Path) -> None:
    found = of_its_bad_version("fenced-offsets", tmp_path).in_logs
    assert {one.check for one in found} == {"producer-epoch-rises", "decisions-agree"}


def a_follower_that_cuts_back_to_its_high_watermark_differs_from_its_leader(tmp_path: Path) -> None:
    runs = attempts.attempts(
        REPRODUCTIONS["truncation-divergence"], "0.10.2.2", runs=3, good=False, folder=tmp_path, say=print
    )
    shown = [one for one in runs if one.shows is Shows.SHOWN]
    assert shown, runs  # not reached where the new controller hears of the broker's death before it is one
    assert all({rule.check for rule in one.in_logs} == {"replicas-equal"} for one in shown)


def an_election_keeps_offsets_of_a_deleted_topic(tmp_path: Path) -> None:
    stage = FiveBrokers(KAFKA_VERSION, tmp_path, print, deaths=Deaths.ELECTION)
    one = REPRODUCTIONS["deleted-topic-offsets"]
    wanted = [(one, "first", False), (one, "second", False), (one, "third", False), (one, "good", True)]
    *bad, good = attempts.on_one_cluster(stage, wanted, tmp_path)
    assert any(each.shows is Shows.SHOWN for each in bad), bad  # two threads of the broker decide
    assert good.shows is Shows.CLEAN, good.text


def a_leader_waits_for_a_follower_whose_directory_is_gone_and_not_for_a_dead_one(tmp_path: Path) -> None:
    stage = FiveBrokers(KAFKA_VERSION, tmp_path, print, log_dirs=2)
    one = REPRODUCTIONS["offline-directory"]
    bad, good = attempts.on_one_cluster(stage, [(one, "bad", False), (one, "good", True)], tmp_path)
    assert (bad.shows, good.shows) == (Shows.SHOWN, Shows.CLEAN), f"{bad.text}; {good.text}"
    assert not bad.in_logs
    assert not good.in_logs


def a_share_group_of_4_1_delivers_what_has_ended_and_nothing_to_some_members(tmp_path: Path) -> None:
    stage = FiveBrokers("4.1.2", tmp_path, print, SHARE_LIMIT)
    names = ("kafka-19632", "kafka-19846", "kafka-19972")
    runs = attempts.on_one_cluster(stage, [(REPRODUCTIONS[name], name, False) for name in names], tmp_path)
    assert all(one.shows is Shows.SHOWN for one in runs), runs


def a_later_coordinator_sends_markers_that_the_other_brokers_do_not_know(tmp_path: Path) -> None:
    bug = REPRODUCTIONS["kafka-20322"]
    (attempt,) = attempts.attempts(bug, "4.1.2", runs=1, good=False, folder=tmp_path, say=print)
    assert attempt.shows is Shows.SHOWN, attempt.text


def a_leader_forgets_the_replica_that_it_has_asked_for_and_does_not_look_when_it_is_refused(
    tmp_path: Path,
) -> None:
    stage = FiveBrokers(KAFKA_VERSION, tmp_path, print, SOON, wire=True, between=True, controllers=True)
    sides = [
        (REPRODUCTIONS[name], f"{name}-{side}", side == "good")
        for name in ("pending-expansion", "refused-expansion")
        for side in ("bad", "good")
    ]
    runs = attempts.on_one_cluster(stage, sides, tmp_path)
    assert [one.shows for one in runs] == [Shows.SHOWN, Shows.CLEAN] * 2, [one.text for one in runs]


OWN = (
    brokers_that_do_not_verify_transactions_let_one_hang,
    a_late_marker_ends_the_next_transaction_of_version_1_only,
    a_rolling_restart_loses_what_two_deaths_lose,
    two_elections_lose_what_two_deaths_lose,
    an_election_keeps_offsets_of_a_deleted_topic,
    a_leader_waits_for_a_follower_whose_directory_is_gone_and_not_for_a_dead_one,
    a_coordinator_that_does_not_follow_loses_no_commit,
    a_coordinator_that_follows_acknowledges_a_commit_that_is_lost,
    a_follower_that_cuts_back_to_its_high_watermark_differs_from_its_leader,
    a_share_group_of_4_1_delivers_what_has_ended_and_nothing_to_some_members,
    a_later_coordinator_sends_markers_that_the_other_brokers_do_not_know,
    an_abort_raises_the_epoch_twice,
    a_late_permission_to_write_ends_the_producer,
    a_group_of_kip_848_refuses_offsets_that_name_no_member,
    a_coordinator_of_groups_stores_offsets_of_a_fenced_producer,
    a_refused_commit_of_offsets_drops_those_of_the_transaction,
    a_newer_client_gets_the_error_of_an_old_one_that_wrote_before_it,
    a_leader_forgets_the_replica_that_it_has_asked_for_and_does_not_look_when_it_is_refused,
)


@pytest.mark.sampled(42)
@pytest.mark.parametrize("shows", OWN)
def test_on_a_cluster_of_its_own(tmp_path: Path, shows: Callable[[Path], None]) -> None:
    shows(tmp_path)
