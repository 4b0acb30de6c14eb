"""What a run of a schedule showed, by what the brokers say at its end."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from checkers.engine.findings import LogFinding
from core.config import RunConfig
from core.errors import ClusterError, ExitCode
from core.op import TopicPartition
from core.systems import KafkaSection
from harness.processes.waiting import NotYet
from harness.reproduce import attempts, cluster
from harness.reproduce.answers import PerformedRequest
from harness.reproduce.attempts import ScheduleRun, Shows
from harness.reproduce.cluster import NotReached, PerformedWait
from harness.reproduce.coordinators import PerformedCommit, PerformedTransaction
from harness.reproduce.dead_letters import PerformedLetters
from harness.reproduce.deleted_topics import PerformedDeletion
from harness.reproduce.late_requests import PerformedEndings
from harness.reproduce.producer import WireProducer
from harness.reproduce.registry import REPRODUCTIONS
from harness.reproduce.reproduction import Reproduction
from harness.reproduce.sendings import Sent
from harness.reproduce.share_members import PerformedDeliveries
from harness.reproduce.stage import FiveBrokers
from harness.reproduce.three_brokers import PerformedReplicas

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def stage(read: set[tuple[TopicPartition, int]], stable: dict[TopicPartition, int]) -> FiveBrokers:
    """Brokers that give a reader these records, with these last stable offsets."""
    return cast(
        FiveBrokers,
        SimpleNamespace(
            log=P0,
            d=1,
            leader=lambda tp, witness: 2,
            committed=lambda tps: read,
            stable=stable.__getitem__,
            restore=lambda: None,
        ),
    )


def performed(state: str, acknowledged: bool = True) -> PerformedTransaction:
    producer = SimpleNamespace(
        acknowledged={(P0, 0): "zero", (P1, 0): "one"}, described=lambda node: state, transactional_id="t-0"
    )
    return PerformedTransaction(
        producer=cast(WireProducer, producer), tps=[P0, P1], acknowledged=acknowledged
    )


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WATCH_S", "COMPLETE_S", "PAUSE_S"):
        monkeypatch.setattr(attempts, name, 0.01)


def test_a_run_whose_records_are_all_read_is_clean() -> None:
    attempt = attempts.judge(stage({(P0, 0), (P1, 0)}, {P0: 2, P1: 2}), performed("CompleteCommit"))
    assert attempt.shows is Shows.CLEAN


def test_a_record_behind_the_last_stable_offset_of_a_completed_transaction_is_hidden() -> None:
    attempt = attempts.judge(stage({(P0, 0)}, {P0: 2, P1: 0}), performed("CompleteCommit"))
    assert attempt.shows is Shows.SHOWN
    assert "'one' at t-1, offset 0, last stable offset 0, is hidden" in attempt.text
    assert "has completed" in attempt.text


def test_a_record_that_readers_have_passed_is_lost_whatever_the_coordinator_says() -> None:
    attempt = attempts.judge(stage({(P1, 0)}, {P0: 2, P1: 2}), performed("PrepareCommit 0"))
    assert attempt.shows is Shows.SHOWN
    assert "'zero' at t-0, offset 0, last stable offset 2, is lost" in attempt.text


def test_a_hidden_record_of_an_open_transaction_is_watched_until_its_time_is_up() -> None:
    attempt = attempts.judge(stage({(P0, 0)}, {P0: 2, P1: 0}), performed("PrepareCommit 1"))
    assert attempt.shows is Shows.SHOWN
    assert "the coordinator says PrepareCommit 1" in attempt.text


def test_a_refused_commit_promises_nothing() -> None:
    attempt = attempts.judge(stage(set(), {P0: 2, P1: 2}), performed("Empty", acknowledged=False))
    assert attempt.shows is Shows.CLEAN


@pytest.mark.parametrize(
    ("found", "passed", "shows"),
    [
        (2, ["new 0", "new 1"], Shows.SHOWN),
        (-1, [], Shows.CLEAN),
        (2, [], Shows.UNREACHED),  # the group was given all the same
        (-1, ["new 0"], Shows.UNREACHED),  # something else hides it
        (1, ["new 0"], Shows.UNREACHED),
    ],
)
def test_a_deleted_topic_leaves_its_offset_and_the_group_passes_over_records(
    found: int, passed: list[str], shows: Shows
) -> None:
    attempt = attempts.judge_deletion(PerformedDeletion(group="g", offset=2, found=found, passed=passed))
    assert attempt.shows is shows
    assert all(value in attempt.text for value in passed)


LOADING = (
    "2026-11-28T10:00:00.000Z ERROR [GroupCoordinator id=2] Could not delete offsets for deleted topics"
    " [DeletedTopic[id=Vq1, name={topic}]] due to: The coordinator is loading and hence can't process"
    " requests for offsets."
)


@pytest.mark.parametrize(
    ("found", "while_loading", "topic", "shows"),
    [
        (-1, True, "run-1", Shows.CLEAN),
        (-1, True, "run-10", Shows.UNREACHED),  # it had loaded before it heard of this deletion
        (-1, False, "run-10", Shows.CLEAN),
        (2, True, "run-10", Shows.SHOWN),
    ],
)
def test_no_harm_is_said_of_a_coordinator_that_was_loading_when_it_heard_of_the_deletion(
    tmp_path: Path, found: int, while_loading: bool, topic: str, shows: Shows
) -> None:
    log = tmp_path / "cluster" / "2" / "server.log"
    log.parent.mkdir(parents=True)
    log.write_text(f"something\n{LOADING.format(topic=topic)}\n")
    passed = [] if found < 0 else ["new 0"]
    done = PerformedDeletion(group="g", offset=2, found=found, passed=passed, while_loading=while_loading)
    assert attempts.reached(attempts.judge_deletion(done), "run-1", tmp_path).shows is shows


@pytest.mark.parametrize(
    ("waited_s", "shows"), [(30.1, Shows.SHOWN), (0.1, Shows.CLEAN), (8.0, Shows.UNREACHED)]
)
def test_a_leader_waits_for_a_replica_that_is_not_in_sync_or_answers_at_once(
    waited_s: float, shows: Shows
) -> None:
    attempt = attempts.judge_wait(PerformedWait(who="the producer", waited_s=waited_s))
    assert attempt.shows is shows
    assert attempt.text == f"the producer waited for {waited_s} s"


@pytest.mark.parametrize(
    ("answer", "shows"), [("FENCED", Shows.SHOWN), ("NONE", Shows.CLEAN), ("no answer", Shows.UNREACHED)]
)
def test_a_broker_gives_the_wrong_answer_or_the_right_one(answer: str, shows: Shows) -> None:
    done = PerformedRequest(
        transactional_id="t", asked="InitProducerId", answer=answer, wrong="FENCED", right="NONE"
    )
    play = replace(reproduction(NotReached("")), play=lambda *_: done)
    attempt, transactional_id = attempts.perform(stage(set(), {}), play, "run-1", good=False)
    assert (attempt.shows, transactional_id) == (shows, "t")
    assert attempt.text == f"InitProducerId: {answer}"


def reproduction(error: Exception) -> Reproduction:
    def play(stage: FiveBrokers, name: str, good: bool) -> PerformedTransaction:
        raise error

    return Reproduction(title="", bad="", good="", versions=("", ""), play=play, label="")


@pytest.mark.parametrize("error", [NotReached("C loaded Empty"), ClusterError("no leader")])
def test_a_schedule_that_goes_another_way_shows_nothing(error: Exception) -> None:
    attempt, _ = attempts.perform(stage(set(), {}), reproduction(error), "run-1", good=False)
    assert attempt == ScheduleRun(shows=Shows.UNREACHED, text=str(error))


@pytest.mark.parametrize(
    ("outcomes", "good", "code"),
    [
        ([Shows.SHOWN, Shows.SHOWN], False, ExitCode.VALID),
        ([Shows.CLEAN, Shows.CLEAN], True, ExitCode.VALID),
        ([Shows.SHOWN, Shows.CLEAN], False, ExitCode.SILENT),
        ([Shows.SHOWN, Shows.UNREACHED], True, ExitCode.ANOMALY),
        ([Shows.SHOWN, Shows.UNREACHED], False, ExitCode.UNKNOWN),
        ([Shows.UNREACHED], True, ExitCode.UNKNOWN),
    ],
)
def test_the_exit_code_says_whether_each_run_showed_its_side(
    outcomes: list[Shows], good: bool, code: ExitCode
) -> None:
    done = [ScheduleRun(shows=outcome, text="") for outcome in outcomes]
    assert attempts.exit_code(done, good) is code


LEFT_OUT = (
    "2026-11-22T10:00:00.000+00:00 INFO Couldn't find leader endpoint for partitions Set({tps})"
    " while trying to send transaction markers for {id},"
    " these partitions are likely deleted already and hence can be skipped"
)


@pytest.mark.parametrize(
    ("line", "shows"),
    [
        (LEFT_OUT.format(tps="t-1", id="t-0"), Shows.SHOWN),
        (LEFT_OUT.format(tps="t-0", id="another"), Shows.UNREACHED),
        ("INFO nothing of interest about t-0", Shows.UNREACHED),
    ],
)
def test_a_bug_that_brokers_log_is_shown_only_with_its_line(tmp_path: Path, line: str, shows: Shows) -> None:
    log = tmp_path / "cluster" / "1" / "server.log"
    log.parent.mkdir(parents=True)
    log.write_text(f"something\n{line}\n")
    shown = ScheduleRun(shows=Shows.SHOWN, text="hidden")
    assert attempts.confirmed(shown, "t-0", True, tmp_path).shows is shows
    assert attempts.confirmed(shown, "t-0", False, tmp_path) == shown


def test_an_offset_that_no_broker_tells_shows_nothing() -> None:
    def unknown(tp: TopicPartition) -> int:
        raise NotYet("no broker tells it")

    brokers = stage({(P0, 0)}, {})
    brokers.stable = unknown  # type: ignore[method-assign]
    play = reproduction(NotReached(""))
    attempt, _ = attempts.perform(
        brokers, replace(play, play=lambda *_: performed("CompleteCommit")), "run-1", good=False
    )
    assert attempt == ScheduleRun(shows=Shows.UNREACHED, text="no broker tells it")


def finding(topic: str, transactional_id: str = "") -> LogFinding:
    return LogFinding(
        check="partitions-marked",
        log=TopicPartition(topic, 0),
        offset=3,
        take=0,
        nodes=(1,),
        text="",
        transactional_id=transactional_id,
    )


def test_findings_of_a_run_are_in_its_topic_or_about_its_transactional_id() -> None:
    mine = [finding("run-1"), finding("__transaction_state", "run-1-4")]
    others = [finding("run-10"), finding("__transaction_state", "run-10-4"), finding("__transaction_state")]
    assert attempts.about([*others, *mine], "run-1", "run-1-4") == tuple(mine)
    assert attempts.about([*others, *mine], "run-1", "") == (mine[0],)


@pytest.mark.parametrize("good", [False, True])
def test_only_the_bad_side_gets_the_settings_of_a_reproduction(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, good: bool
) -> None:
    given: list[Mapping[str, str]] = []
    monkeypatch.setattr(
        attempts, "FiveBrokers", lambda kafka, folder, say, settings, **proxies: given.append(settings)
    )
    monkeypatch.setattr(attempts, "on_one_cluster", lambda stage, wanted, folder: [])
    bug = REPRODUCTIONS["kafka-14402"]
    attempts.attempts(bug, "3.9.1", runs=1, good=good, folder=tmp_path, say=print)
    assert given == [{} if good else {"transaction.partition.verification.enable": "false"}]


@pytest.mark.parametrize(
    ("acknowledged", "found", "early", "good", "shows"),
    [
        (True, 1, False, False, Shows.SHOWN),
        (True, 1, True, False, Shows.SHOWN),
        (True, 2, False, False, Shows.CLEAN),
        (False, 1, False, False, Shows.CLEAN),
        (False, 1, True, False, Shows.UNREACHED),  # there was nothing yet that it could take for its own
        (False, 1, True, True, Shows.CLEAN),
    ],
)
def test_an_acknowledged_commit_of_offsets_has_to_be_kept(
    acknowledged: bool, found: int, early: bool, good: bool, shows: Shows
) -> None:
    committed = PerformedCommit(group="g", acknowledged=acknowledged, offset=2, found=found, early=early)
    assert attempts.judge_commit(committed, good).shows is shows


@pytest.mark.parametrize(
    ("read", "shows", "why"),
    [
        ({(P0, 0)}, Shows.CLEAN, "the endings on record were acknowledged"),
        ({(P0, 0), (P1, 0)}, Shows.SHOWN, "'two' at t-1, offset 0, is read, though it was aborted"),
        (set(), Shows.SHOWN, "'one' at t-0, offset 0, is lost"),
    ],
)
def test_a_record_is_read_where_its_transaction_committed_and_not_where_it_aborted(
    read: set[tuple[TopicPartition, int]], shows: Shows, why: str
) -> None:
    ended = PerformedEndings(
        transactional_id="t-0", records={(P0, 0): ("one", True), (P1, 0): ("two", False)}
    )
    attempt = attempts.judge_endings(stage(read, {P0: 2, P1: 2}), ended, set(), good=True)
    assert attempt.shows is shows
    assert why in attempt.text


@pytest.mark.parametrize(
    ("read", "classes", "shows"),
    [
        ({P0, P1}, {"aborted-read"}, Shows.SHOWN),
        ({P0, P1}, {"lost-write"}, Shows.UNREACHED),
        (set(), {"lost-write"}, Shows.SHOWN),
        (set(), {"aborted-read"}, Shows.UNREACHED),
        ({P1}, {"aborted-read"}, Shows.UNREACHED),  # the other one is lost
        ({P0}, {"aborted-read"}, Shows.CLEAN),
    ],
)
def test_the_bad_side_of_transactions_shows_its_classes_and_no_others(
    read: set[TopicPartition], classes: set[str], shows: Shows
) -> None:
    ended = PerformedEndings(
        transactional_id="t-0", records={(P0, 0): ("one", True), (P1, 0): ("two", False)}
    )
    brokers = stage({(tp, 0) for tp in read}, {P0: 2, P1: 2})
    assert attempts.judge_endings(brokers, ended, classes, good=False).shows is shows


@pytest.mark.parametrize(
    ("name", "shows"),
    [
        ("aborted-index-skips", "aborted-read"),
        ("kafka-17754-abort", "lost-write"),
        ("kafka-17754-commit", "aborted-read"),
        ("kafka-17754-doubt", "aborted-read"),
        ("kafka-17754-timeout", "aborted-read"),
        ("kafka-19446", "lost-write"),
    ],
)
def test_what_a_late_request_does_to_the_next_transaction(name: str, shows: str) -> None:
    assert REPRODUCTIONS[name].shows == {shows}


def test_of_many_wrong_records_the_first_ones_are_named_without_their_padding() -> None:
    aborted = {(P0, number): (f"aborted {number}...", False) for number in range(10, 18)}
    ended = PerformedEndings(transactional_id="t-0", records={**aborted, (P0, 18): ("committed", True)})
    attempt = attempts.judge_endings(stage({(P0, 18), *aborted}, {P0: 19}), ended, {"aborted-read"}, False)
    assert attempt.shows is Shows.SHOWN
    assert "'aborted 10' at t-0, offset 10, is read, though it was aborted" in attempt.text
    assert attempt.text.endswith("offset 14, is read, though it was aborted; and 3 more")


def test_a_record_that_no_reader_can_reach_yet_shows_nothing() -> None:
    ended = PerformedEndings(transactional_id="t-0", records={(P0, 0): ("one", True)})
    with pytest.raises(NotYet, match="not stable"):
        attempts.judge_endings(stage(set(), {P0: 0}), ended, set(), good=True)


def sent(*acknowledged: str) -> Sent:
    """One, two and three, all sent to one partition."""
    values = [(P0, value) for value in ("one", "two", "three")]
    return Sent(sent=values, acknowledged=frozenset((P0, value) for value in acknowledged))


def log(*values: str) -> FiveBrokers:
    """Brokers that have these values in one partition."""
    read = {(P0, offset): value for offset, value in enumerate(values)}
    return cast(FiveBrokers, SimpleNamespace(read=lambda tps, isolation: read))


@pytest.mark.parametrize(
    ("acknowledged", "values", "wrong"),
    [
        (("one", "two", "three"), ("one", "two", "three"), ""),
        (("one", "two"), ("one", "two"), ""),
        (("one", "two", "three"), ("one", "two"), "lost-write: 'three', which was acknowledged"),
        (("one", "two", "three"), ("one", "two", "one", "three"), "duplicate: 'one' is 2 times in t-0"),
        (("one", "two", "three"), ("two", "three", "one"), "nonmonotonic-send: t-0 has two, three, one"),
    ],
)
def test_each_record_that_was_acknowledged_is_there_once_in_its_place(
    acknowledged: tuple[str, ...], values: tuple[str, ...], wrong: str
) -> None:
    attempt = attempts.judge_sent(log(*values), sent(*acknowledged), set(), good=True)
    assert attempt.shows is (Shows.SHOWN if wrong else Shows.CLEAN)
    assert wrong in attempt.text


@pytest.mark.parametrize(
    ("good", "classes", "shows"),
    [
        (False, {"lost-write"}, Shows.SHOWN),
        (False, {"duplicate"}, Shows.UNREACHED),
        (False, {"lost-write", "duplicate"}, Shows.UNREACHED),
        (True, {"duplicate"}, Shows.SHOWN),
    ],
)
def test_the_bad_side_shows_its_classes_and_no_others(good: bool, classes: set[str], shows: Shows) -> None:
    assert attempts.judge_sent(log("one"), sent("one", "two"), classes, good).shows is shows


@pytest.mark.parametrize(
    ("other", "shows", "said"),
    [
        ({0: "one", 1: "two"}, Shows.CLEAN, "equal: 2 on broker 1, 2 on broker 3"),
        ({0: "one", 1: "three"}, Shows.SHOWN, "offset 1: broker 1 has 'two', broker 3 'three'"),
        ({0: "one"}, Shows.SHOWN, "offset 1: broker 1 has 'two', broker 3 None"),
    ],
)
def test_replicas_differ_where_an_offset_has_not_the_same(
    other: dict[int, str], shows: Shows, said: str
) -> None:
    attempt = attempts.judge_replicas(PerformedReplicas(tp=P0, logs={1: {0: "one", 1: "two"}, 3: other}))
    assert attempt.shows is shows
    assert said in attempt.text


def test_old_brokers_have_a_stage_of_their_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: list[tuple[object, ...]] = []
    monkeypatch.setattr(attempts, "ThreeBrokers", lambda *given: made.append(given))
    monkeypatch.setattr(attempts, "FiveBrokers", lambda *given, **others: pytest.fail("five brokers"))
    monkeypatch.setattr(attempts, "on_one_cluster", lambda stage, wanted, folder: [])
    bug = REPRODUCTIONS["truncation-loss"]
    attempts.attempts(bug, "0.10.2.2", runs=1, good=False, folder=tmp_path, say=print)
    ((kafka, folder, _, settings),) = made
    assert (kafka, folder, settings) == ("0.10.2.2", tmp_path, bug.settings[False])


@pytest.mark.parametrize("name", REPRODUCTIONS)
def test_every_reproduction_has_a_stage_on_both_of_its_versions(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its producers are its own: what the clients of a run ask of the brokers is not asked here."""
    bug = REPRODUCTIONS[name]
    staged: list[str] = []

    async def proxied(*, controllers: bool = False) -> None:
        """There is no cluster."""

    def made(config: RunConfig, folder: Path) -> SimpleNamespace:
        staged.append(config.section(KafkaSection).version)
        return SimpleNamespace(use_wire=proxied, use_wire_between=proxied, use_wire_within=proxied)

    monkeypatch.setattr(cluster, "kafka_cluster", made)
    monkeypatch.setattr(attempts, "on_one_cluster", lambda stage, wanted, folder: [])
    for good, version in enumerate(bug.versions):
        attempts.attempts(bug, version, runs=1, good=bool(good), folder=tmp_path, say=print)
    assert staged == list(bug.versions)


@pytest.mark.parametrize(
    ("letters", "good", "shows"),
    [
        ({0: 2}, False, Shows.SHOWN),
        ({7: 2}, False, Shows.CLEAN),  # of a record that was given up
        ({}, False, Shows.CLEAN),
        ({0: 2}, True, Shows.SHOWN),
        ({1: 2}, False, Shows.UNREACHED),  # another bug than this one
        ({0: 2, 1: 2}, False, Shows.UNREACHED),
    ],
)
def test_a_dead_letter_of_what_a_member_accepted_shows_the_bug(
    letters: dict[int, int], good: bool, shows: Shows
) -> None:
    done = PerformedLetters(tp=P0, accepted=frozenset([0]), markers=frozenset([1]), letters=letters)
    shown = REPRODUCTIONS["letters-by-former-leader"].shows
    assert attempts.judge_letters(done, shown, good).shows is shows


@pytest.mark.parametrize(
    ("given", "shows", "said"),
    [
        ({0, 1, 2}, Shows.SHOWN, "is given t-0, offset 0, 1: accepted"),
        ({2, 3}, Shows.CLEAN, "is given t-0, offset 2, 3 alone"),
    ],
)
def test_a_share_group_gives_no_member_what_has_ended(given: set[int], shows: Shows, said: str) -> None:
    done = PerformedDeliveries(tp=P0, ended=frozenset([0, 1]), why="accepted", given=frozenset(given))
    attempt = attempts.judge_deliveries(done)
    assert attempt.shows is shows
    assert said in attempt.text
