"""KAFKA-12686: the label needs a leader that had asked for fewer in-sync replicas, was made leader again
before it had an answer, by another controller, and has not changed them since."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from core.op import TopicPartition
from history import evidence
from history.events import Event, FaultHealed, FaultStarted, Recovered, RolesSeen
from history.replica_lines import InSyncKind, in_sync_lines
from history.run_folder import Run
from tests.checkers.logs.made import batch, tables, whole
from tests.histories.built import Built, Op, Process
from tests.histories.folders import STARTED, check_run, write_run

S = 1_000_000_000
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
GAVE_UP_S = 158.0
WHY = "x-2 has in-sync replicas [1] only"
LABEL = "KAFKA-12686"


def wall(at_s: float) -> str:
    return (BEGAN + timedelta(seconds=at_s)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def leads(at_s: float, epoch: int, isr: str, tp: str = "x-2", *, before: int | None = None) -> str:
    """before: the leader epoch that the process knew until then."""
    previous = epoch - 1 if before is None else before
    return (
        f"{wall(at_s)} INFO state.change.logger - [Broker id=1] Leader {tp} starts at leader epoch {epoch}"
        f" from offset 7 with high watermark 5 ISR [{isr}] addingReplicas [] removingReplicas []. Previous"
        f" leader epoch was {previous}.\n"
    )


def follows(at_s: float, epoch: int, tp: str = "x-2") -> str:
    return (
        f"{wall(at_s)} INFO state.change.logger - [Broker id=1] Follower {tp} starts at leader epoch {epoch}"
        f" from offset 7 with high watermark 5. Previous leader epoch was {epoch - 1}.\n"
    )


def shrinks(at_s: float, was: str = "1,2", isr: str = "1", tp: str = "x-2") -> str:
    return (
        f"{wall(at_s)} INFO kafka.cluster.Partition - [Partition {tp} broker=1] Shrinking ISR from {was} to"
        f" {isr}. Leader: (highWatermark: 5, endOffset: 7). Out of sync replicas: (brokerId: 2, endOffset:"
        " 5).\n"
    )


def changed(at_s: float, isr: str = "1,3", tp: str = "x-1", by: str = "") -> str:
    return (
        f"{wall(at_s)} INFO kafka.cluster.Partition - [Partition {tp} broker=1] ISR updated {by}to {isr} and"
        " version updated to [3]\n"
    )


def gives_up(at_s: float, tp: str = "x-2") -> str:
    return (
        f"{wall(at_s)} ERROR org.apache.kafka.clients.NetworkClient - [broker-1-to-controller] Uncaught error"
        " in request completion:\n"
        "java.lang.IllegalStateException: Failed to enqueue ISR change state LeaderAndIsr(leader=1,"
        f" leaderEpoch=2, isr=List(1), zkVersion=2) for partition {tp}\n"
    )


def roles(at_s: float, controller: int, in_sync: Sequence[int], **others: Any) -> RolesSeen:
    """in_sync: of x-2; that of all other partitions is whole at the end."""
    ends = (1, 2, 3) if at_s > 30 else in_sync
    known: dict[str, Any] = {
        "leaders": {"x-1": 1, "x-2": 1, "__consumer_offsets-0": 1},
        "isr": {"x-1": tuple(ends), "x-2": tuple(in_sync), "__consumer_offsets-0": tuple(ends)},
        "controller": controller,
        "answering": (1, 2, 3),
        "agreed": True,
    }
    return RolesSeen(ns=round(at_s * S), **{**known, **others})


def fault(number: int, from_s: float, until_s: float, *nodes: int) -> tuple[FaultStarted, FaultHealed]:
    begin, end = round(from_s * S), round(until_s * S)
    return (
        FaultStarted(
            begin_ns=begin, ns=begin, fault=number, name="pause:long@controller", nodes=nodes, text="",
            colour="",
        ),
        FaultHealed(begin_ns=end, ns=end, fault=number),
    )  # fmt: skip


STARTS = leads(1, 0, "1,2,3", "x-1", before=-1) + leads(1, 0, "1,2,3", before=-1)
ASKS = shrinks(20, "1,2,3", "1,2") + leads(23, 1, "1,2") + shrinks(24)
AGAIN = leads(26, 2, "1")
OTHERS = changed(28)
LOG = STARTS + ASKS + AGAIN + OTHERS

FIRST = roles(2, 3, (1, 2, 3))
PAUSED = roles(22, 2, (1, 2), agreed=False, answering=(1, 2))
THIRD = roles(27, 1, (1,), agreed=False)
LAST = roles(31, 1, (1,))
FAULTS = (*fault(0, 17, 25, 3), *fault(1, 23.5, 28, 2))


@dataclass(frozen=True)
class Stuck:
    """A run whose cluster did not recover: all its brokers serve, and one partition has one in-sync
    replica."""

    log: str = LOG
    events: Sequence[Event] = (FIRST, *FAULTS, PAUSED, THIRD, LAST)
    why: str = WHY
    version: str = "2.8.2"
    ends: Mapping[int, int] = field(default_factory=lambda: {1: 7, 2: 7, 3: 7})
    """Where the log of x-2 ends, by node."""
    logs: Mapping[int, str] = field(default_factory=dict)
    """Of other brokers."""

    def write(self, folder: Path) -> Run:
        """Its run folder."""
        built = Built(tps=["x"])
        built.processes[0] = Process(slot=0)
        built.ops.append(Op(process=0, f="txn", invoke=10 * S, complete=11 * S))
        gave_up = Recovered(ns=round(GAVE_UP_S * S), recovered=False, seconds=120, why=self.why)
        events = (STARTED, *sorted((*self.events, gave_up), key=lambda one: one.ns))
        settings = {"kafka": {"metadata": "zookeeper", "version": self.version}}
        run = write_run(folder, built.tables(), settings=settings, events=events)
        tp = TopicPartition("x", 2)
        batches = [batch(tp, node, base) for node, end in self.ends.items() for base in range(end)]
        rows = {"partitions": [whole(tp, node) for node in self.ends], "batches": batches}
        evidence.write(run.evidence, tables(rows))
        for node, text in {1: self.log, **self.logs}.items():
            (run.cluster / str(node)).mkdir(parents=True)
            (run.cluster / str(node) / "server.log").write_text(text)
        return run

    def label(self, folder: Path) -> str:
        """Of the finding, which stays forbidden."""
        found = check_run(self.write(folder)).anomalies["not-recovered"]
        assert (found.allowed, found.count) == (False, 1)
        return found.examples[0].known_bug


STUCK = Stuck()


def test_a_leader_that_was_made_leader_again_before_its_answer_never_asks_again(tmp_path: Path) -> None:
    assert STUCK.label(tmp_path / "run") == LABEL


@pytest.mark.parametrize(
    ("version", "labelled"),
    [
        ("2.7.0", True), ("2.7.2", True), ("2.8.0", True),
        ("2.6.3", False), ("2.4.1", False),  # leaders wrote to ZooKeeper themselves
        ("3.0.0", False), ("3.9.1", False),
    ],
)  # fmt: skip
def test_versions(tmp_path: Path, version: str, labelled: bool) -> None:
    label = replace(STUCK, version=version).label(tmp_path / "run")
    assert label == (LABEL if labelled else "")


@pytest.mark.parametrize(
    ("log", "labelled"),
    [
        (STARTS + shrinks(24) + leads(26, 1, "1") + OTHERS, True),
        (STARTS + shrinks(20) + leads(23, 1, "1") + leads(26, 2, "1") + OTHERS, True),
        (STARTS + ASKS + AGAIN + changed(28, by="from AlterIsr "), True),  # as 2.7 says it
        (LOG + gives_up(29, "x-1"), True),  # another partition's
        (LOG + leads(GAVE_UP_S + 1, 3, "1") + changed(GAVE_UP_S + 2, tp="x-2"), True),  # the others end
        (LOG + follows(GAVE_UP_S + 1, 3) + leads(GAVE_UP_S + 2, 4, "1"), True),
        ("", False),
        (STARTS + AGAIN + OTHERS, False),  # it had not asked
        (STARTS + leads(26, 2, "1", before=0) + shrinks(27) + OTHERS, False),  # nor before it led again
        (STARTS + ASKS + changed(25, "1", "x-2") + AGAIN + OTHERS, False),  # it had an answer
        (STARTS + ASKS + OTHERS, False),  # it was made leader before, not after it had asked last
        (LOG + changed(29, "1", "x-2"), False),  # they changed since
        (LOG + changed(29, "1,3", "x-2") + shrinks(30, "1,3"), False),
        (LOG + changed(GAVE_UP_S + 1, "1,3", "x-2"), False),  # they were late
        (LOG + gives_up(29), False),  # that is another bug
        (STARTS + ASKS + AGAIN, False),  # no request is answered at all
        (STARTS + ASKS + OTHERS + AGAIN, False),
        (STARTS + ASKS + AGAIN + changed(GAVE_UP_S + 1), False),
        (STARTS + ASKS + leads(26, 2, "1", before=-1) + OTHERS, False),  # another process
        (STARTS + ASKS + follows(25, 2) + leads(26, 3, "1") + OTHERS, False),  # another leader in between
        (LOG + follows(29, 3), False),
        (STARTS + ASKS + leads(26, 2, "1,2") + OTHERS, False),  # what was lost is another change
    ],
)
def test_what_the_log_of_the_leader_has_to_say(tmp_path: Path, log: str, labelled: bool) -> None:
    assert replace(STUCK, log=log).label(tmp_path / "run") == (LABEL if labelled else "")


@pytest.mark.parametrize(
    "why",
    [
        "x-2 has no leader",
        "brokers [1, 2, 3] answer, and do not all agree on the leaders",
        f"{WHY}; node 2 ended on its own",
        "x-1 has in-sync replicas [1] only",  # which has all of them, and no such log
        "clients [0] have completed nothing since",
        "",
    ],
)
def test_nothing_but_in_sync_replicas_may_be_missing(tmp_path: Path, why: str) -> None:
    assert not replace(STUCK, why=why).label(tmp_path / "run")


LEADERLESS = {"x-1": 1, "x-2": 1, "__consumer_offsets-0": -1}
TWO_FEW = {"x-1": (1, 3), "x-2": (1,), "__consumer_offsets-0": (1, 2, 3)}
NEVER_WHOLE = roles(2, 3, (), isr={**TWO_FEW, "x-2": (1, 2, 3)})
COORDINATOR_FEW = {"x-1": (1, 2, 3), "x-2": (1,), "__consumer_offsets-0": (1, 3)}


@pytest.mark.parametrize(
    ("events", "labelled"),
    [
        ((FIRST, *FAULTS, THIRD, LAST), True),
        ((FIRST, *fault(0, 17, 25, 3), PAUSED, THIRD, LAST), True),
        ((FIRST, FAULTS[0], PAUSED, THIRD, LAST), True),  # not healed by the nemesis
        ((FIRST, *FAULTS, roles(27, 3, (1,)), roles(31, 3, (1,))), False),  # the controller stayed
        ((FIRST, *FAULTS, roles(27, 3, (1,)), roles(40, 1, (1,))), False),  # and changed long after it
        ((roles(2, 1, (1, 2, 3)), *FAULTS, THIRD, LAST), False),
        ((FIRST, *fault(0, 5, 9, 3), PAUSED, THIRD, LAST), False),  # no fault then
        ((FIRST, *fault(0, 27, 29, 3), PAUSED, THIRD, LAST), False),
        ((FIRST, *fault(0, 17, 28, 1), PAUSED, THIRD, LAST), False),  # none that hit a controller before
        ((FIRST, *fault(0, 17, 28), PAUSED, THIRD, LAST), False),  # none on a node
        ((FIRST, PAUSED, THIRD, LAST), False),
        ((roles(2, 3, (1, 2, 3), agreed=False), *FAULTS, PAUSED, THIRD, LAST), False),
        ((PAUSED, *FAULTS, THIRD, LAST), False),  # who was the controller before is not known
        ((FIRST, *FAULTS, PAUSED, THIRD, roles(31, 1, (1,), answering=(1, 3))), False),
        ((FIRST, *FAULTS, PAUSED, THIRD, roles(31, 1, (1,), agreed=False)), False),
        ((FIRST, *FAULTS, PAUSED, THIRD, roles(31, 1, (1,), leaders=LEADERLESS)), False),
        ((FIRST, *FAULTS, PAUSED, THIRD, roles(31, 1, (1,), isr=TWO_FEW)), False),
        ((NEVER_WHOLE, *FAULTS, THIRD, roles(31, 1, (1,), isr=TWO_FEW)), False),
        ((FIRST, *FAULTS, PAUSED, THIRD, roles(31, 1, (1,), isr=COORDINATOR_FEW)), False),
        ((FIRST, *FAULTS, PAUSED, THIRD, roles(31, 1, (1, 3))), False),  # they changed
        ((FIRST, *FAULTS, PAUSED, THIRD, roles(31, 1, (1,), leaders={"x-1": 1, "x-2": 2})), False),
        ((), False),
    ],
)
def test_what_the_harness_has_to_see(tmp_path: Path, events: Sequence[Event], labelled: bool) -> None:
    assert replace(STUCK, events=events).label(tmp_path / "run") == (LABEL if labelled else "")


@pytest.mark.parametrize(
    ("ends", "labelled"),
    [
        ({1: 7, 2: 7, 3: 7}, True),
        ({1: 7, 2: 7, 3: 5}, False),  # it does not fetch
        ({1: 7, 2: 7, 3: 8}, False),
        ({1: 7}, False),
        ({}, False),
    ],
)
def test_replicas_have_all_and_are_not_let_in(tmp_path: Path, ends: dict[int, int], labelled: bool) -> None:
    assert replace(STUCK, ends=ends).label(tmp_path / "run") == (LABEL if labelled else "")


@pytest.mark.parametrize(
    ("since", "labelled"),
    [
        (shrinks(27), True),  # this is the one that was removed
        (shrinks(27) + shrinks(29), False),  # it asks and asks: it does not wait for an answer
        (shrinks(27) + leads(28, 3, "1,2") + changed(30), True),
        (shrinks(27) + leads(28, 3, "1,2"), False),
    ],
)
def test_the_request_that_was_removed_may_take_replicas_off(
    tmp_path: Path, since: str, labelled: bool
) -> None:
    log = STARTS + shrinks(20, "1,2,3", "1,2") + leads(25, 1, "1,2") + leads(26, 2, "1,2") + OTHERS + since
    events = (FIRST, *FAULTS, roles(27, 1, (1, 2), agreed=False), roles(31, 1, (1, 2)))
    stuck = replace(STUCK, log=log, events=events, why="x-2 has in-sync replicas [1, 2] only")
    assert stuck.label(tmp_path / "run") == (LABEL if labelled else "")


@pytest.mark.parametrize(
    ("at_s", "controller", "tp", "since", "labelled"),
    [
        (29, 2, "x-2", "", True),
        (36, 2, "x-2", "", True),
        (36.1, 2, "x-2", "", False),
        (25.9, 2, "x-2", "", False),  # the answer came before
        (29, 3, "x-2", "", False),  # no fault on that one then
        (29, 1, "x-2", "", False),  # which is the next one
        (29, 2, "x-1", "", False),
        (29, 2, "x-2", gives_up(29), False),  # it had asked since it led again
        (29, 2, "x-2", changed(29, "1,2", "x-2"), False),
        (29, 2, "x-2", leads(30, 2, "1") + changed(31), False),  # it may ask again since
    ],
)
def test_a_request_to_let_a_replica_in_is_known_by_the_controller_that_fails(
    tmp_path: Path, at_s: float, controller: int, tp: str, since: str, labelled: bool
) -> None:
    """The leader does not log it."""
    failed = f"{wall(at_s)} ERROR kafka.controller.KafkaController - [Controller id={controller}] Failed to"
    failed += (
        f" update ISR for partition {tp}\nkafka.zookeeper.ZooKeeperClientExpiredException: Session expired\n"
    )
    log = STARTS + leads(26, 1, "1") + OTHERS + since
    own, others = (failed, {}) if controller == 1 else ("", {controller: failed})
    stuck = replace(STUCK, log=log + own, logs=others)
    assert stuck.label(tmp_path / "run") == (LABEL if labelled else "")
    other = STARTS + leads(26, 1, "1", before=-1) + OTHERS
    assert not replace(stuck, log=other).label(tmp_path / "other")


def test_each_partition_that_lacks_replicas_has_such_a_leader(tmp_path: Path) -> None:
    """x-1 has one in-sync replica, too; its leader is broker 2."""
    few = {"x-1": (2,), "x-2": (1,), "__consumer_offsets-0": (1, 2, 3)}
    leaders = {"x-1": 2, "x-2": 1, "__consumer_offsets-0": 1}
    events = (FIRST, *FAULTS, PAUSED, THIRD, roles(31, 1, (1,), isr=few, leaders=leaders))
    assert not replace(STUCK, events=events, logs={2: STARTS}).label(tmp_path / "run")


def test_lines_of_brokers_about_in_sync_replicas(tmp_path: Path) -> None:
    log = leads(1, 4, "3,1") + "something else\n" + shrinks(2) + changed(3) + gives_up(4) + follows(5, 9)
    lines = in_sync_lines(replace(STUCK, log=log).write(tmp_path / "run"))[1]
    assert [(one.kind, one.partition) for one in lines] == [
        (InSyncKind.LEADS, "x-2"),
        (InSyncKind.SHRINKS, "x-2"),
        (InSyncKind.CHANGED, "x-1"),
        (InSyncKind.GIVES_UP, "x-2"),
        (InSyncKind.FOLLOWS, "x-2"),
    ]
    assert (lines[0].epoch, lines[0].previous) == (4, 3)
    assert lines[0].isr == {1, 3}
    assert [one.wall for one in lines if one.wall is None] == [lines[3].wall]
    assert lines[1].wall == BEGAN + timedelta(seconds=2)
