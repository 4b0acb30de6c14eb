"""The file of a session: what it says after crashes; and what a session comes to."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.errors import ExitCode
from harness.nights.headline import headline
from harness.nights.session_log import (
    FILE,
    FOLDER,
    AnomalyCount,
    RunBegun,
    RunEnded,
    RunResult,
    SessionEnded,
    SessionPaused,
    SessionResumed,
    SoakSession,
    State,
    Tested,
    read,
    sessions,
)
from harness.soak.session import ending
from history.jsonl import Appender
from tests.harness.nights.made_sessions import LOST, SKIPPED, TORN, Run, canary, outcome, task, write

NAME = "20260301T220000Z"
AT = "2026-03-01T23:00:00.000+00:00"


def test_a_session_is_read_as_it_was_written(tmp_path: Path) -> None:
    came = outcome("anomaly", LOST, SKIPPED, available=0.9, recovery_s=2.0, folder="a-run")
    session = write(tmp_path, NAME, [(canary(), outcome()), (task(seed=9), came)])
    assert [a.begun.number for a in session.attempts] == [1, 2]
    assert session.attempts[1].outcome == came
    assert session.attempts[1].begun.task == task(seed=9)
    assert (session.spent_s, session.damaged, session.paused) == (120.0, 0, False)
    assert session.ended is not None
    assert [one.name for one in sessions(tmp_path)] == [NAME]


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_half_a_line_is_left_out_and_what_is_added_later_stays_readable(tmp_path: Path, cut: int) -> None:
    write(tmp_path, NAME, [(canary(), outcome()), (task(), outcome("anomaly", LOST))], over=False)
    file = tmp_path / FOLDER / NAME / FILE
    file.write_bytes(file.read_bytes()[:-cut])
    session = read(file.parent)
    assert session is not None
    assert session.attempts[1].outcome is None or cut == 1
    log = Appender(file.parent / FILE)
    log.append(SessionResumed(at=AT, spent_s=500.0))
    log.close()
    again = read(file.parent)
    assert again is not None
    assert again.spent_s == 500.0
    assert again.damaged == (0 if cut == 1 else 1)


@pytest.mark.parametrize("content", [b"", b"{", b'{"event":"resumed","at":"","spent_s":1}\n', b"\xff"])
def test_a_file_without_its_first_line_is_no_session(tmp_path: Path, content: bytes) -> None:
    folder = tmp_path / FOLDER / NAME
    folder.mkdir(parents=True)
    (folder / FILE).write_bytes(content)
    assert read(folder) is None
    assert sessions(tmp_path) == []


def test_a_session_has_one_writer(tmp_path: Path) -> None:
    write(tmp_path, NAME, [])
    log = Appender(tmp_path / FOLDER / NAME / FILE)
    with pytest.raises(BlockingIOError):
        Appender(tmp_path / FOLDER / NAME / FILE)
    log.close()
    Appender(tmp_path / FOLDER / NAME / FILE).close()


def test_each_event_is_one_write(tmp_path: Path) -> None:
    write(tmp_path, NAME, [], over=False)
    file = tmp_path / FOLDER / NAME / FILE
    log = Appender(file.parent / FILE)
    before = file.stat().st_size
    log.append(SessionPaused(at=AT, spent_s=1.0))
    assert file.stat().st_size > before  # there before anything is closed or flushed
    assert file.read_bytes().endswith(b"}\n")
    log.close()


CASES: list[tuple[list[Run], int, bool]] = [
    ([(canary(), outcome()), (task(), outcome())], 0, False),
    ([(canary(), outcome()), (task(), outcome("valid", SKIPPED))], 0, False),
    ([(canary(), outcome()), (task(), outcome("anomaly", LOST))], 1, False),
    ([(canary(), outcome()), (task(), outcome("anomaly", TORN))], 1, False),
    ([(canary(), outcome("silent")), (task(), outcome("anomaly", LOST))], 1, True),
    ([(canary(), outcome("silent")), (task(), outcome())], 4, True),
    ([(canary(), outcome()), (task(), outcome("unmet")), (task(seed=2), outcome("error"))], 5, False),
    ([(canary(), outcome()), (task(), outcome("unmet")), (task(seed=2), outcome("unknown"))], 2, False),
    ([(canary(), outcome("unknown")), (task(), outcome())], 2, False),
    ([(canary(), outcome("anomaly", LOST)), (task(), outcome())], 1, True),
    ([(canary(), outcome("error")), (task(), outcome())], 4, True),
    ([(canary(), outcome("unknown", fired=True)), (task(), outcome())], 2, False),
    ([(canary(), outcome("unknown", fired=False)), (task(), outcome())], 4, True),
    ([(canary(), outcome("anomaly", LOST, fired=True)), (task(), outcome())], 1, False),
    ([(canary(), outcome("anomaly", LOST, fired=False)), (task(), outcome())], 1, True),
    ([(canary(), outcome("not-recovered", fired=True)), (task(), outcome())], 3, False),
    ([(canary(), outcome("unknown", result="unknown")), (task(), outcome())], 4, True),
    ([(canary(), outcome("valid", fired=True)), (task(), outcome())], 0, False),
    ([(canary(), outcome("error", fired=True)), (task(), outcome())], 4, True),
    ([(task(), outcome())], 4, True),
    ([(canary(), None), (task(), outcome())], 4, True),
    ([], 4, True),
    ([(canary(), outcome("error")), (task(), outcome("error"))], 70, True),
    ([(canary(), outcome()), (task(), outcome("error"))], 2, False),
    ([(canary(), outcome()), (task(), outcome("error")), (task(), outcome())], 70, False),
    ([(canary(), outcome()), (task(), outcome("unknown")), (task(), outcome("error"))], 2, False),
    ([(canary(), outcome()), (task(), outcome("not-recovered"))], 3, False),
    ([(canary(), outcome("silent")), (task(), outcome("not-recovered"))], 3, True),
    ([(canary(), outcome()), (task(preset="acks0"), outcome("silent"))], 4, False),
    ([(canary(), outcome())], 2, False),
    ([(canary(), outcome()), (task(), outcome("interrupted", LOST, judged=True))], 1, False),
]


@pytest.mark.parametrize(("runs", "code", "void"), CASES)
def test_what_a_session_comes_to(tmp_path: Path, runs: list[Run], code: int, void: bool) -> None:
    session = write(tmp_path, NAME, runs)
    assert (session.code, session.void) == (code, void)
    assert session.ended is not None
    assert session.ended.code == code


def test_not_recovered_is_a_finding_of_its_own_code(tmp_path: Path) -> None:
    found = AnomalyCount(name="not-recovered", count=1, disallowed=1)
    runs: list[Run] = [(canary(), outcome()), (task(), outcome("not-recovered", found))]
    assert write(tmp_path, NAME, runs).code == 3


@pytest.mark.parametrize(
    ("came", "fired"),
    [(None, None), (outcome("interrupted", fired=True), None), (outcome("error"), None),
     (outcome(), True), (outcome("silent"), False), (outcome("unknown", fired=True), True),
     (outcome("unknown"), True), (outcome("unknown", result="unknown"), None),
     (outcome("anomaly", LOST, result="anomaly"), None)],
)  # fmt: skip
def test_whether_the_canary_fired(tmp_path: Path, came: RunResult | None, fired: bool | None) -> None:
    assert write(tmp_path, NAME, [(canary(), came)]).fired is fired


@pytest.mark.parametrize(
    ("runs", "said"),
    [([(canary(), outcome("silent")), (task(), outcome())], "void: the canary did not fire or did not run"),
     ([(canary(), outcome("error")), (task(), outcome())], "void: the canary did not fire or did not run"),
     ([(canary(), outcome(fired=True)), (task(preset="acks0"), outcome("silent"))],
      "a control did not find what it must find")],
    ids=["silent canary", "canary without a verdict", "silent control of the matrix"],
)  # fmt: skip
def test_only_a_session_that_is_void_ends_as_that(tmp_path: Path, runs: list[Run], said: str) -> None:
    session = write(tmp_path, NAME, runs)
    assert session.code == ExitCode.SILENT
    assert ending(ExitCode.SILENT, session).endswith(f"; {said}")


@pytest.mark.parametrize(
    ("came", "word"),
    [(outcome(result="a word of a newer version"), "valid"), (outcome(result="under way"), "valid"),
     (outcome("anomaly", LOST, result="anomaly of tomorrow"), "anomaly"), (outcome(result=""), "valid"),
     (outcome(result="not exercised"), "not exercised"),
     (outcome("error", result="anomaly"), "error")],
)  # fmt: skip
def test_a_word_that_this_version_does_not_know_is_that_of_the_state(came: RunResult, word: str) -> None:
    assert came.word == word


def test_that_a_cluster_did_not_recover_is_no_open_finding() -> None:
    found = AnomalyCount(name="not-recovered", count=1, disallowed=1)
    assert outcome("not-recovered", found).open == []
    assert outcome("anomaly", found, LOST, TORN).open == [LOST]


def test_what_a_planted_bug_causes_is_no_open_finding(tmp_path: Path) -> None:
    planted = outcome("anomaly", LOST, tested=Tested(system="simulated", planted="keep-tail"))
    assert planted.open == []
    runs: list[Run] = [(canary(), outcome(fired=True)), (task(), planted)]
    text = ending(ExitCode.ANOMALY, write(tmp_path, NAME, runs))
    assert text.startswith("1 run: 1 anomaly; at least one")
    sound = outcome("anomaly", LOST, tested=Tested(system="simulated"))
    assert sound.open == [LOST]
    text = ending(ExitCode.ANOMALY, write(tmp_path, "20260302T220000Z", [*runs[:1], (task(), sound)]))
    assert text.startswith("1 run: 1 anomaly; of no known bug: lost-write in 1; at least one")


def test_a_session_under_way_is_not_void_before_its_canary(tmp_path: Path) -> None:
    assert not write(tmp_path, NAME, [(task(why="repeat"), outcome())], over=False).void
    later = write(tmp_path, "20260302T220000Z", [(canary(), None)], over=False)
    assert not later.void


def test_a_run_that_was_made_again_counts_once_and_keeps_what_the_first_one_found() -> None:
    def attempt(session: SoakSession, state: State, *found: AnomalyCount) -> None:
        session.apply(RunBegun(at=AT, spent_s=0, number=2, task=task(), command=[]))
        session.apply(RunEnded(at=AT, spent_s=0, number=2, outcome=outcome(state, *found)))

    base = read_back()
    attempt(base, "interrupted")
    attempt(base, "valid")
    assert [a.outcome.state for a in base.runs if a.outcome] == ["valid"]
    base = read_back()
    attempt(base, "interrupted", LOST)
    base.apply(SessionPaused(at=AT, spent_s=50))
    assert base.paused
    base.apply(SessionResumed(at=AT, spent_s=50))
    attempt(base, "valid")
    base.apply(SessionEnded(at=AT, spent_s=90, code=1))
    assert [a.outcome.state for a in base.runs if a.outcome] == ["interrupted", "valid"]
    assert base.code == 1
    assert base.spent_s == 90


def read_back() -> SoakSession:
    from harness.nights.session_log import SessionStarted

    return SoakSession(
        name=NAME, started=SessionStarted(at=AT, seed=1, budget_s=600, canary="acks1", matrix={})
    )


BUG = AnomalyCount(name="lost-write", count=2, disallowed=2, known_bug="KAFKA-20734")
NOT_BACK = AnomalyCount(name="not-recovered", count=1, disallowed=1)
OTHER_BUG = AnomalyCount(name="duplicate", count=1, disallowed=1, known_bug="librdkafka-4953")
TWO_BUGS = msgspec.structs.replace(BUG, known_bug="KAFKA-17754, KAFKA-20734")
ACCEPT = {"accept": {"KAFKA-20734": "open"}}
ACCEPT_TWO = {"accept": {"KAFKA-17754": "open", "KAFKA-20734": "open"}}


@pytest.mark.parametrize(
    ("came", "matrix", "code"),
    [
        (outcome("anomaly", BUG), ACCEPT, 0),
        (outcome("anomaly", BUG), {}, 1),
        (outcome("anomaly", BUG, OTHER_BUG), ACCEPT, 1),
        (outcome("anomaly", TWO_BUGS), ACCEPT_TWO, 0),
        (outcome("anomaly", TWO_BUGS), ACCEPT, 1),
        (outcome("anomaly", BUG, LOST), ACCEPT, 1),  # a new finding beside it
        (outcome("anomaly", LOST), ACCEPT, 1),
        (outcome("not-recovered", BUG), ACCEPT, 1),
        (outcome("anomaly", BUG, NOT_BACK), ACCEPT, 3),  # the bug counts nowhere, the cluster does
        (outcome("anomaly", BUG, NOT_BACK), {}, 1),
        (outcome("anomaly", BUG, LOST, NOT_BACK), ACCEPT, 1),
        (outcome("error", BUG, NOT_BACK), ACCEPT, 3),
        (outcome("error"), ACCEPT, 70),
        (outcome("error", BUG), ACCEPT, 70),  # the soak ended it, as it took too long
        (outcome("error", BUG), {}, 1),
        (outcome("error", BUG, LOST), ACCEPT, 1),
        (
            outcome("anomaly", BUG, undecided=1),
            ACCEPT,
            2,
        ),  # a check that crashed beside it, an unread partition
        (outcome("anomaly", BUG, undecided=1), {}, 1),
        (outcome("unknown", undecided=1), ACCEPT, 2),
        (outcome("anomaly", BUG, unmet=1), ACCEPT, 5),  # it does not show what was required beside it
        (outcome("anomaly", BUG, unmet=1), {}, 1),
        (outcome("anomaly", BUG, undecided=1, unmet=1), ACCEPT, 2),
        (outcome("unmet", unmet=1), ACCEPT, 5),
        (outcome("anomaly", BUG, fired=False), ACCEPT, 4),  # a control that lacks what it expects
        (outcome("anomaly", BUG, fired=True), ACCEPT, 0),
    ],
)
def test_a_night_with_accepted_bugs_only_is_green(
    tmp_path: Path, came: RunResult, matrix: dict[str, Any], code: int
) -> None:
    runs: list[Run] = [
        (canary(), outcome("valid", fired=True)),
        (task(seed=9), came),
        (task(seed=8), outcome()),
    ]
    session = write(tmp_path, NAME, runs, matrix=matrix or {"accept": {}})
    assert session.code == code


@pytest.mark.parametrize(
    ("found", "matrix", "code"),
    [
        ([BUG], ACCEPT, 0),
        ([BUG], {}, 1),
        ([BUG, LOST], ACCEPT, 1),
        ([LOST], ACCEPT, 1),
        ([NOT_BACK], ACCEPT, 3),
        ([BUG, NOT_BACK], ACCEPT, 3),
        ([BUG, NOT_BACK], {}, 1),
    ],
)
def test_what_an_interrupted_run_found_counts_as_in_any_run(
    tmp_path: Path, found: list[AnomalyCount], matrix: dict[str, Any], code: int
) -> None:
    """The session was resumed, and repeated it; it found nothing the second time."""
    runs: list[Run] = [
        (canary(), outcome("valid", fired=True)),
        (task(seed=9), outcome("interrupted", *found, undecided=1)),
        (task(seed=9), outcome()),
    ]
    session = write(tmp_path, NAME, runs, matrix=matrix or {"accept": {}}, numbers=[1, 2, 2])
    assert session.code == code
    words = [part.word for part in headline(session, {"open": 0, "known": 1, "planted": 0})]
    assert "1 run unknown" not in words
    assert ("1 run did not recover" in words) == (NOT_BACK in found)


def test_a_run_that_was_interrupted_and_not_repeated_left_something_undecided(tmp_path: Path) -> None:
    runs: list[Run] = [
        (canary(), outcome("valid", fired=True)),
        (task(), outcome("interrupted", BUG, undecided=1)),
        (task(seed=8), outcome()),
    ]
    session = write(tmp_path, NAME, runs, matrix=ACCEPT)
    assert session.code == 2
    assert "1 run unknown" in [p.word for p in headline(session, {"open": 0, "known": 1, "planted": 0})]


def test_accepted_bugs_are_named_where_a_night_ends_and_not_called_valid(tmp_path: Path) -> None:
    runs: list[Run] = [
        (canary(), outcome(fired=True)),
        (task(), outcome("anomaly", BUG)),
        (task(seed=8), outcome()),
    ]
    accepted = write(tmp_path, NAME, runs, matrix=ACCEPT)
    text = ending(ExitCode.VALID, accepted)
    assert text == "2 runs: 1 known bugs only, 1 valid (KAFKA-20734); nothing new; the canary fired"
    clean = write(tmp_path, "20260302T220000Z", runs[::2], matrix=ACCEPT)
    assert ending(ExitCode.VALID, clean) == "1 run: 1 valid; nothing new; the canary fired"
    assert "forbidden" in ending(ExitCode.ANOMALY, accepted)
    alone = write(tmp_path, "20260303T220000Z", runs[:1])
    assert ending(ExitCode(alone.code), alone) == "0 runs: none; nothing was tested"
    unsure = write(tmp_path, "20260304T220000Z", [*runs[:1], (task(), outcome("unknown"))])
    assert ending(ExitCode(unsure.code), unsure).endswith("; at least one run could not decide something")


def test_a_run_whose_nodes_changed_their_version_is_one_of_both() -> None:
    config = {"sut": "kafka", "kafka": {"version": "4.1.2", "upgrade": "4.4.0"}}
    assert Tested.of(config).version == "4.1.2 → 4.4.0"
    assert Tested.of({"sut": "kafka", "kafka": {"version": "4.4.0"}}).version == "4.4.0"
