"""The ends that final reads have to reach: stable, or with a reason why not; in both times."""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, cast

import pytest

from core.cluster import Cluster, OpenTransaction
from core.config import Application, RunConfig, run_config
from core.op import DATABASE, Isolation, TopicPartition
from harness.run.log_ends import (
    DEFAULT_S,
    MOST_S,
    SCAN,
    Rows,
    after_reads,
    of_application,
    open_ends,
    stable_ends,
    to_read,
    with_unlisted,
)
from history.events import BoundsListed
from tests.harness.run.worlds import RealTime, VirtualTime

Time = RealTime | VirtualTime
ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)


class Ends:
    """Ends of two partitions: the last stable offset of the second is `lso`, every high watermark `hw()`."""

    def __init__(
        self, lso: int = 5, hw: Callable[[], int] = lambda: 5, listed: int = 2, start: int = 0
    ) -> None:
        self.lso = lso
        self.hw = hw
        self.listed = listed
        self.start = start

    async def offsets(
        self, tps: Sequence[TopicPartition], isolation: Isolation
    ) -> dict[TopicPartition, tuple[int, int]]:
        low = {TWO: self.lso} if isolation is Isolation.READ_COMMITTED else {}
        return {tp: (self.start, low.get(tp, self.hw())) for tp in tps[: self.listed]}


async def nothing_longer(_: Rows) -> tuple[float, str]:
    """No transaction is of another program."""
    return 0.0, ""


def listing(
    time_: Time,
    ends: Ends,
    allowed_s: float = 0.2,
    *,
    cut: Callable[[], bool] = lambda: False,
    longest: Callable[[Rows], Awaitable[tuple[float, str]]] = nothing_longer,
) -> tuple[BoundsListed, float]:
    """What is listed, and after how many seconds."""
    begin = time_.runtime.now_ns()
    found = time_.wait(
        stable_ends(
            cast("Cluster", ends),  # offsets are all that it asks for
            [ONE, TWO],
            time_.runtime,
            allowed_s=allowed_s,
            longest=longest,
            stable_s=0.4,
            cut_short=cut,
            quiet_s=0.6,
            more_s=4.0,
            show=lambda _: None,
        )
    )
    return found, (time_.runtime.now_ns() - begin) / 1e9


def test_ends_that_stay_as_they_are_are_final_after_a_while(time_: Time) -> None:
    found, seconds = listing(time_, Ends(), allowed_s=60)
    assert (found.stable, found.why) == (True, "")
    assert seconds >= 0.4
    assert len(found.rows) == 4
    assert open_ends(found.rows) == []


def test_a_transaction_that_stays_open_is_waited_for_only_so_long(time_: Time) -> None:
    found, seconds = listing(time_, Ends(lso=3), allowed_s=1.0)
    assert seconds >= 1.4
    assert not found.stable
    assert found.why == "the last stable offset of t-1 is 3, its high watermark 5"
    assert found.moving == ""
    assert open_ends(found.rows) == [TWO]


def test_what_retention_removed_during_the_final_reads_was_not_there_to_be_read(time_: Time) -> None:
    rows = ((*ONE, 0, 2, 9), (*ONE, 1, 2, 8), (*TWO, 0, 2, 9), (*TWO, 1, 2, 9), (DATABASE, 0, 1, 0, 4))
    before = BoundsListed(ns=7, rows=rows, stable=True, moving="x")

    def after(ends: Ends) -> BoundsListed:
        return time_.wait(after_reads(cast("Cluster", ends), before))

    begun = after(Ends(start=5))
    assert [row[3] for row in begun.rows] == [5, 5, 5, 5, 0]
    assert [row[4] for row in begun.rows] == [row[4] for row in rows]
    assert (begun.ns, begun.moving) == (7, "")
    assert after(Ends(start=2)).rows == rows
    assert after(Ends(start=0)).rows == rows  # a leader that has not removed them yet
    assert [row[3] for row in after(Ends(start=20)).rows] == [9, 8, 9, 9, 0]
    assert after(Ends(listed=1)).rows == (*rows[:2], rows[4])  # of the other one nothing is known


def test_ends_that_still_change_are_not_final(time_: Time) -> None:
    found, _ = listing(time_, Ends(hw=lambda: time_.runtime.now_ns(), lso=2**62), allowed_s=0.5)
    assert not found.stable
    assert found.why == "the ends changed less than 0.4 s ago"
    assert "an end moved" in found.moving


class Held(Ends):
    """The last stable offset of one partition comes to the end only after a time; who holds it, is told."""

    def __init__(self, time_: Time, until_s: float, *rows: OpenTransaction) -> None:
        super().__init__(lso=3)
        self.time, self.rows = time_, list(rows)
        self.ends_ns = time_.runtime.now_ns() + int(until_s * 1e9)
        self.asked: list[Sequence[TopicPartition]] = []

    async def offsets(
        self, tps: Sequence[TopicPartition], isolation: Isolation
    ) -> dict[TopicPartition, tuple[int, int]]:
        self.lso = 3 if self.time.runtime.now_ns() < self.ends_ns else 5
        return await super().offsets(tps, isolation)

    async def open_transactions(self, tps: Sequence[TopicPartition]) -> list[OpenTransaction]:
        self.asked.append(tps)
        return self.rows


QUICK = {"broker_settings": {SCAN: "100"}, "transaction_timeout_s": 1}


def of_app(config: RunConfig, held: Held) -> Callable[[Rows], Coroutine[object, None, tuple[float, str]]]:
    return partial(of_application, cast("Cluster", held), config)


def claimed(timeout_s: float, **more: Any) -> OpenTransaction:
    whole = {"transactional_id": "mine", "coordinator": 1, "timeout_s": timeout_s, **more}
    return OpenTransaction(topic="t", partition=1, producer_id=7, producer_epoch=0, start=3, **whole)


@pytest.mark.parametrize(
    ("rows", "longest"),
    [
        ([claimed(30)], 30),
        ([claimed(30), claimed(40), claimed(20)], 40),
        ([claimed(0)], DEFAULT_S),  # a coordinator that does not say
        ([claimed(0, transactional_id="", silent=(2,))], DEFAULT_S),  # it may be the one that did not answer
        ([], DEFAULT_S),  # brokers that do not know the question
        ([claimed(0, transactional_id="", coordinator=-1)], 0),  # nothing will end it
    ],
)
def test_how_long_transactions_of_an_application_may_stay_open(
    time_: Time, rows: list[OpenTransaction], longest: float
) -> None:
    held = Held(time_, 9, *rows)
    listed = ((*TWO, 0, 0, 5), (*TWO, 1, 0, 3), (*ONE, 0, 0, 5), (*ONE, 1, 0, 5))
    config = run_config({"seed": 0, "workload": "application", "app": {}, **QUICK})
    assert time_.wait(of_app(config, held)(listed))[0] == (pytest.approx(longest + 5.1) if longest else 0)
    assert held.asked == [[TWO]]
    none = time_.wait(of_app(run_config({"seed": 0}), held)(listed))
    assert (none, len(held.asked)) == ((0.0, ""), 1)


@pytest.mark.parametrize(
    ("until_s", "may_s", "stable", "moving"),
    [
        (2.0, 3.0, True, ""),  # it ends in its time
        (9.0, 3.0, False, ""),  # it does not
        (2.0, 0.0, False, ""),  # nothing may stay open so long
        (9.0, MOST_S + 1, False, "x may stay open"),  # that is not waited for
    ],
)
def test_transactions_with_a_longer_time_out_are_waited_for(
    time_: Time, until_s: float, may_s: float, *, stable: bool, moving: str
) -> None:
    async def longest(_: Rows) -> tuple[float, str]:
        return may_s, "x may stay open"

    found, seconds = listing(time_, Held(time_, until_s), allowed_s=0.5, longest=longest)
    assert (found.stable, found.moving) == (stable, moving)
    assert seconds < 5


class Slow(Ends):
    """Leaders that take long to list their ends, until a moment."""

    def __init__(self, time_: Time, until_s: float) -> None:
        super().__init__()
        self.time, self.ends_ns = time_, time_.runtime.now_ns() + int(until_s * 1e9)

    async def offsets(
        self, tps: Sequence[TopicPartition], isolation: Isolation
    ) -> dict[TopicPartition, tuple[int, int]]:
        late = self.time.runtime.now_ns() < self.ends_ns
        if late:
            await self.time.runtime.until(lambda: False, 0.6)
        self.lso = 3 if late else 5
        return await super().offsets(tps, isolation)


def test_transactions_have_more_time_while_leaders_answer_late(time_: Time) -> None:
    found, seconds = listing(time_, Slow(time_, 1.5), allowed_s=0.5)
    assert (found.stable, found.why, found.moving) == (True, "", "")
    assert seconds >= 1.5


def test_leaders_that_answer_late_to_the_last_leave_open_whether_an_end_is_stuck(time_: Time) -> None:
    found, seconds = listing(time_, Slow(time_, 600), allowed_s=0.5)
    assert not found.stable
    assert "leaders listed their ends late" in found.moving
    assert seconds >= 2.9


def test_transactions_have_more_time_while_an_end_moves(time_: Time) -> None:
    begin = time_.runtime.now_ns()
    ends = Ends(lso=3)

    def moves() -> int:
        passed = (time_.runtime.now_ns() - begin) / 1e9
        ends.lso = 5 if passed > 1.6 else 3 + int(passed > 0.4) + int(passed > 0.8) - int(passed > 1.2)
        return 5

    ends.hw = moves
    found, seconds = listing(time_, ends, allowed_s=0.5)
    assert (found.stable, found.moving) == (True, "")
    assert seconds >= 1.6


def test_a_partition_that_nobody_lists_is_named(time_: Time) -> None:
    found, _ = listing(time_, Ends(listed=1))
    assert (found.stable, found.why) == (False, "the end of t-1 could not be listed")


def test_a_run_that_is_cut_short_does_not_wait(time_: Time) -> None:
    found, seconds = listing(time_, Ends(), allowed_s=600, cut=lambda: True)
    assert (found.stable, found.why, found.rows) == (False, "nothing was listed", ())
    assert seconds < 50


def test_of_an_application_input_and_committed_output_are_read() -> None:
    topics = ("in", "out", "store-changelog", DATABASE)
    rows = tuple((topic, 0, level, 0, 5) for topic in topics for level in (0, 1))
    everything = [(topic, 0, 5) for topic in topics]
    assert to_read(rows, RunConfig(seed=0)) == {0: everything, 1: everything}
    config = RunConfig(seed=0, workload="application", app=Application(input="in", output="out"))
    wanted = [(topic, 0, 5) for topic in ("in", "out", DATABASE)]
    assert to_read(rows, config) == {0: wanted[:1], 1: wanted}


def test_output_that_could_not_be_listed_is_on_record_as_unknown_and_not_read() -> None:
    app = Application(input="in", output="out")
    config = RunConfig(seed=0, workload="application", app=app)
    rows = tuple((topic, 0, level, 0, 5) for topic in ("in", "out") for level in (0, 1))
    bounds = BoundsListed(ns=1, rows=rows, stable=False)
    tps = [TopicPartition(topic, p) for topic in ("in", "other", "out") for p in (0, 1)]
    unlisted = (("out", 1, 0, -1, -1), ("out", 1, 1, -1, -1))
    known = with_unlisted(bounds, tps, config)
    assert known.rows == (*rows, *unlisted)
    assert to_read(known.rows, config) == to_read(rows, config)
    assert with_unlisted(known, tps, config) == known
    effects = RunConfig(seed=0, workload="application", app=Application(input="in", output="", effects=True))
    for its in (RunConfig(seed=0), effects):
        assert with_unlisted(bounds, tps, its) == bounds


@pytest.mark.parametrize(
    ("shape", "lso", "read"),
    [("aggregate", 4, ["in"]), ("aggregate", 5, ["in", "out"]), ("filter", 4, ["in", "out"])],
)
def test_results_that_an_open_transaction_hides_are_not_read(shape: str, lso: int, read: list[str]) -> None:
    """The input is read whatever hides its end."""
    rows = tuple((topic, 0, level, 0, lso if level else 5) for topic in ("in", "out") for level in (0, 1))
    app = Application.model_validate({"input": "in", "output": "out", "shape": shape})
    found = to_read(rows, RunConfig(seed=0, workload="application", app=app))
    assert found[1] == [(topic, 0, lso) for topic in read]
