"""What is looked at while a run goes on, and the bounds that final reads have to reach."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness import bounds, sampling
from harness import events as ev
from harness.bounds import open_ends, stable_bounds
from harness.cluster import ClientSlot, Roles
from harness.events import OpenTransaction
from harness.interpreter import Interpreter
from harness.messages import Progress
from harness.op import Isolation, TopicPartition
from harness.recorder import Recorder
from harness.sampling import Sampler
from harness.session import drive

DATA = TopicPartition("t", 0)
FRESH = TopicPartition("fresh", 0)
INTERNAL = TopicPartition("__consumer_offsets", 0)
OPEN = OpenTransaction(topic="fresh", partition=0, producer_id=4, producer_epoch=1, start=3)


class FakeCluster:
    """Two data partitions, one of which was made during the run and is held back until `lso` rises."""

    nodes = (1,)

    def __init__(self) -> None:
        self.lso = 3
        self.asked: list[tuple[float, Isolation]] = []
        self.hold = threading.Event()
        self.hold.set()
        self.waiting = threading.Event()

    async def roles(self) -> Roles:
        tps = (DATA, FRESH, INTERNAL)
        return Roles(
            ns=time.monotonic_ns(),
            leaders=dict.fromkeys(tps, 1),
            isr=dict.fromkeys(tps, (1,)),
            answering=(1,),
            agreed=True,
        )

    async def offsets(
        self, tps: Sequence[TopicPartition], isolation: Isolation
    ) -> dict[TopicPartition, tuple[int, int]]:
        self.asked.append((time.monotonic(), isolation))
        self.waiting.set()
        self.hold.wait(10)
        low = {FRESH: self.lso} if isolation is Isolation.READ_COMMITTED else {}
        return {tp: (0, low.get(tp, 5)) for tp in tps}

    async def open_transactions(self, tps: Sequence[TopicPartition]) -> list[OpenTransaction]:
        return [OPEN] if list(tps) == [FRESH] else []


def until(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.01)
    raise AssertionError(f"never happened: {what}")


@pytest.fixture
def cluster() -> Any:
    return FakeCluster()


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path / "events.jsonl")


def events(tmp_path: Path, kind: type) -> list[Any]:
    found = ev.decode((tmp_path / "events.jsonl").read_bytes())
    return [event for event in found if isinstance(event, kind)]


def test_topics_made_during_the_run_are_data_and_internal_ones_are_not(
    cluster: Any, recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "ENDS_S", 0.05)
    sampler = Sampler(cluster, recorder, [DATA])
    assert list(sampler.tps) == [DATA]
    sampler.start()
    until(lambda: FRESH in sampler.tps, "the fresh topic")
    until(
        lambda: [e for e in events(tmp_path, ev.EndsSeen) if "fresh-0" in e.hw],
        "a look at its ends",
    )
    sampler.stop()
    assert list(sampler.tps) == [FRESH, DATA]
    last = events(tmp_path, ev.EndsSeen)[-1]
    assert (last.hw, last.lso) == ({"fresh-0": 5, "t-0": 5}, {"fresh-0": 3, "t-0": 5})
    (seen,) = events(tmp_path, ev.RolesSeen)  # it never changed
    assert seen.leaders["__consumer_offsets-0"] == 1
    levels = [isolation for _, isolation in cluster.asked]
    assert levels[:2] == [Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED]


def test_a_look_that_takes_long_costs_the_next_ones(
    cluster: Any, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "ENDS_S", 0.5)
    sampler = Sampler(cluster, recorder, [DATA])
    cluster.hold.clear()
    sampler.start()
    cluster.waiting.wait(10)
    threading.Timer(1.3, cluster.hold.set).start()
    starts = until(
        lambda: (a := [t for t, level in cluster.asked if level == 1]) and len(a) >= 4 and a,
        "looks",
    )
    sampler.stop()
    assert starts[1] - starts[0] >= 1.2  # looks never overlap
    assert starts[3] - starts[1] >= 0.3  # and those that were missed are not made up for


def test_what_a_look_brings_after_the_end_is_thrown_away(
    cluster: Any, recorder: Recorder, tmp_path: Path
) -> None:
    sampler = Sampler(cluster, recorder, [DATA])
    cluster.hold.clear()
    sampler.start()
    assert cluster.waiting.wait(10)
    sampler.stop()
    cluster.hold.set()
    names = {"_look_at_ends", "_look_at_roles"}
    until(lambda: not names & {t.name for t in threading.enumerate()}, "the end of the threads")
    assert events(tmp_path, ev.EndsSeen) == []


def an_interpreter(cluster: Any, recorder: Recorder) -> Interpreter:
    """Of which only the looking at the cluster is real."""
    anything: Any = SimpleNamespace(
        slots=(), tps=(DATA,), duration_s=1.0, stage=lambda *_: None, replication_factor=1,
        transaction_timeout_s=-5.5, status=lambda _: None, asked=threading.Event(),
    )  # fmt: skip
    return Interpreter(
        run=anything, config=anything, cluster=cluster, load=anything, nemesis=anything,
        recorder=recorder, interrupts=anything, display=anything, versions={}, wall=lambda: "",
    )  # fmt: skip


def test_recovery_waits_for_topics_made_during_the_run_and_for_every_new_client(
    cluster: Any, recorder: Recorder
) -> None:
    interpreter = an_interpreter(cluster, recorder)
    roles = drive(cluster.roles())
    interpreter.sampler.take(roles)
    interpreter.sampler.roles = replace(roles, isr={**roles.isr, FRESH: ()})
    assert "fresh-0 has in-sync replicas [] only" in interpreter._unrecovered(0)
    interpreter.sampler.roles = replace(roles, isr={**roles.isr, INTERNAL: ()})
    assert interpreter._unrecovered(0) == ""
    worked = SimpleNamespace(slot=0, progress=Progress(ok=9, ok_invoked_ns=7))
    started_again = SimpleNamespace(slot=1, progress=Progress())
    interpreter.clients = SimpleNamespace(handles=(worked, started_again))  # type: ignore[assignment]
    assert "clients [1] have done nothing" in interpreter._unrecovered(5)
    interpreter.load.slots = (  # type: ignore[misc]
        ClientSlot(slot=0, produces=True),
        ClientSlot(slot=1, group="g"),
    )
    started_again.progress = Progress(ok=1, ok_invoked_ns=6)
    assert interpreter._unrecovered(5) == "groups ['g'] were given nothing since"
    started_again.progress = Progress(ok=2, ok_invoked_ns=7, worked_ns=6)
    assert interpreter._unrecovered(5) == ""


def listing(cluster: Any, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> ev.BoundsListed:
    """Quiescence's listing."""
    monkeypatch.setattr(bounds, "STABLE_S", 0.2)
    return an_interpreter(cluster, recorder)._list_bounds()


def test_transactions_that_hold_an_end_back_are_named(
    cluster: Any, recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = listing(cluster, recorder, monkeypatch)
    assert not listed.stable
    assert "last stable offset of fresh-0 is 3" in listed.why
    assert open_ends(listed.rows) == [FRESH]
    (named,) = events(tmp_path, ev.TransactionsOpen)
    assert named.rows == (OPEN,)
    assert events(tmp_path, ev.BoundsListed) == [listed]


def test_stable_ends_name_no_transactions(
    cluster: Any, recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.lso = 5
    listed = listing(cluster, recorder, monkeypatch)
    assert listed.stable
    assert {row[:2] for row in listed.rows} == {FRESH, DATA}
    assert open_ends(listed.rows) == []
    assert events(tmp_path, ev.TransactionsOpen) == []


def test_ends_that_still_change_are_not_final(cluster: Any) -> None:
    def grow(_: str) -> None:
        cluster.lso += 1

    listed = stable_bounds(cluster, [FRESH], allowed_s=-1.0, cut_short=lambda: False, status=grow)
    assert not listed.stable
