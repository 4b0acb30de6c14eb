"""When records may have been taken off which log: the windows that events and settings make.

Not here: what findings ask of windows (`tests/checkers/test_kernel_vs_oracle.py`), what an excuse permits
(`tests/harness/cli/test_catalogue.py`).
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from checkers.run_windows import (
    BESIDE_BROKERS,
    BETWEEN_BROKERS,
    Deletion,
    deletions,
    may_move_leaders,
    run_windows,
)
from checkers.windows import EXCUSES, FOREVER, Excuse, LogWindows, PowerLosses, Windows, whenever
from core.cluster import NodeEnd, OpenTransaction
from core.config import RunConfig, run_config
from core.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC
from core.op import AssignmentKind, CommitKind, Isolation, Outcome, value_of
from core.retention import removes
from history.events import (
    BoundsListed,
    Event,
    FaultFailed,
    FaultStarted,
    NodeEnded,
    RecordsDeleted,
    Recovered,
    RolesSeen,
    TransactionsOpen,
)
from nemesis.registry import NEMESES
from nemesis.schedule import plan
from tests.checkers.found import check_tables
from tests.histories.built import Assign, Bound, Built, Commit, Op, Process, Read, Send, final_reads
from tests.histories.fault_events import begun, both
from tests.histories.folders import RECOVERED, STARTED, check_run, write_run

S = 1_000_000_000
X = {0: ("x", 0)}


def fault(name: str, at: float, *nodes: int, number: int = 0, until: float | None = None) -> list[Event]:
    return both(begun(name, at, at + 1, number=number, nodes=nodes), until)


def roles(at: float, leader: int, *isr: int, **internal: int) -> RolesSeen:
    """internal: internal topics whose partition 0 has this leader and these in-sync replicas, too."""
    names = ["x-0", *(f"__{topic}-0" for topic in internal)]
    return RolesSeen(
        ns=round(at * S),
        leaders=dict.fromkeys(names, leader),
        isr=dict.fromkeys(names, isr),
        controller=1,
        answering=(1, 2, 3),
        agreed=True,
    )


def of_x(events: Iterable[Event], **settings: Any) -> LogWindows:
    return run_windows(X, list(events), run_config({"seed": 1, **settings}))[0]


def seconds(windows: Iterable[tuple[int, int]]) -> list[tuple[float, float]]:
    return [(begin / S, end / S if end < FOREVER else FOREVER) for begin, end in windows]


START = roles(0, 1, 1, 2, 3)


def test_spans_that_meet_are_one_window() -> None:
    assert list(Windows.of([(7, 9), (1, 3), (3, 5), (2, 4)])) == [(1, 5), (7, 9)]


@pytest.mark.parametrize(
    ("since", "until", "meets"),
    [
        (0, 9, False),
        (0, 10, True),
        (15, 15, True),
        (20, 99, True),
        (21, 39, False),
        (21, 40, True),
        (51, 99, False),
    ],
)
def test_a_window_between_two_moments_includes_its_ends(since: int, until: int, meets: bool) -> None:
    windows = Windows.of([(10, 20), (40, 50)])
    assert bool(windows.between(np.array([since]), np.array([until]))[0]) is meets


def answered(look: RolesSeen, *nodes: int) -> RolesSeen:
    return msgspec.structs.replace(look, answering=nodes)


@pytest.mark.parametrize(
    ("looks", "kept"),
    [
        ([START, answered(roles(12, 3, 1, 2, 3), 3), roles(13, 3, 3), roles(20, 3, 1, 2, 3)], True),
        ([START, answered(roles(12, 1, 1, 2, 3), 3), roles(13, 3, 3), roles(20, 3, 1, 2, 3)], True),
        ([START, roles(5, 1, 1, 2), roles(12, 3, 3), roles(20, 3, 1, 2, 3)], False),  # 3 was out before
        ([START, roles(12, -1), roles(13, 3, 3), roles(20, 3, 1, 2, 3)], False),  # any may have led
        ([START, roles(12, 1, 1, 3), roles(20, 3, 1, 2, 3)], False),  # 1 led again, with less
        ([START, roles(13, 3, 3), roles(14, 1, 1), roles(20, 1, 1, 2, 3)], False),
        ([START, roles(13, 3, 3), roles(20, 3, 1, 2, 3), roles(25, 1, 1)], True),  # all were back
        ([START], False),  # no look tells what came then
        ([roles(13, 3, 3), roles(20, 3, 1, 2, 3)], False),  # nor what was before
    ],
)
def test_a_replica_that_was_in_sync_all_the_time_keeps_what_the_others_lost(
    looks: list[RolesSeen], kept: bool
) -> None:
    """Nodes 1 and 2 lost their power at 10 s."""
    windows = of_x([*looks, *fault("power:majority", 10, 1, 2, until=15)])
    assert seconds(windows.power) == ([] if kept else [(10, 11)])
    assert seconds(windows.any_power) == [(10, 11)]


def test_power_windows_are_those_of_as_many_replicas_as_a_record_had_to_be_on() -> None:
    both = fault("power:majority", 10, 1, 2, until=15)
    assert seconds(of_x([START, *both]).power) == [(10, 11)]
    assert seconds(of_x([START, *fault("power:one", 10, 1, until=15)]).power) == []
    assert seconds(of_x([START, *fault("power:one", 10, 1, until=15)]).any_power) == [(10, 11)]
    assert seconds(of_x([START, *fault("kill:all", 10, 1, 2, 3, until=15)]).any_power) == []


def test_brokers_that_lose_power_one_after_the_other_take_nothing_if_the_first_was_back_in_sync() -> None:
    one, other = fault("power:one", 10, 1, until=15), fault("power:one", 60, 2, number=1, until=65)
    without, back = roles(12, 2, 2, 3), roles(20, 2, 1, 2, 3)
    assert seconds(of_x([START, *one, without, back, *other]).power) == []
    assert seconds(of_x([START, *one, without, *other]).power) == [(60, 61)]
    # it stands in sync until the controller notices that it died: that is no return
    assert seconds(of_x([START, *one, roles(16, 2, 1, 2, 3), *other]).power) == [(60, 61)]
    # nobody led in between, and it was in sync afterwards
    assert seconds(of_x([START, *one, roles(12, -1, 1), back, *other]).power) == []
    # it was in sync again before it was started: a look that came too late
    assert seconds(of_x([START, *one, without, roles(14, 2, 1, 2, 3), *other]).power) == [(60, 61)]
    # looks in the very moment of the loss, or of the start, came too early
    assert seconds(of_x([START, *one, roles(11, 2, 2, 3), back, *other]).power) == [(60, 61)]
    assert seconds(of_x([START, *one, without, roles(15, 2, 1, 2, 3), *other]).power) == [(60, 61)]


def test_a_broker_that_was_out_of_sync_before_its_power_was_lost_comes_back_as_well() -> None:
    one, other = fault("power:one", 10, 1, until=15), fault("power:one", 60, 2, number=1, until=65)
    before, back = roles(5, 2, 2, 3), roles(20, 2, 1, 2, 3)
    assert seconds(of_x([START, before, *one, back, *other]).power) == []
    assert seconds(of_x([START, before, *one, *other]).power) == [(60, 61)]
    # it came in before it lost its power
    again = roles(8, 2, 1, 2, 3)
    assert seconds(of_x([START, before, again, *one, back, *other]).power) == [(60, 61)]
    meanwhile = roles(10.5, 2, 1, 2, 3)
    assert seconds(of_x([START, before, *one, meanwhile, back, *other]).power) == [(60, 61)]
    # nobody led then
    assert seconds(of_x([START, roles(5, -1, 2, 3), *one, back, *other]).power) == [(60, 61)]
    # it was in sync again before it was started
    assert seconds(of_x([START, before, *one, roles(14, 2, 1, 2, 3), *other]).power) == [(60, 61)]


def test_only_replicas_of_the_partition_count() -> None:
    four = fault("power:majority", 10, 4, 5, until=15)
    assert not of_x([START, *four], brokers=5).any_power
    assert seconds(of_x([START, *fault("power:majority", 10, 1, 4, until=15)], brokers=5).power) == []
    assert seconds(of_x(fault("power:majority", 10, 4, 5), brokers=5).power) == [(10, 11)]  # unknown which


@pytest.mark.parametrize(
    ("settings", "nodes", "window"),
    [
        ({}, (1,), False),
        ({}, (1, 2), True),
        ({"min_insync_replicas": 1}, (1,), True),
        ({"topic_settings": {"min.insync.replicas": "1"}}, (1,), True),
        ({"min_insync_replicas": 1, "topic_settings": {"min.insync.replicas": "3"}}, (1, 2), False),
        ({"topic_settings": {"min.insync.replicas": "3"}}, (1, 2, 3), True),
        ({"topic_settings": {"flush.messages": "1"}}, (1, 2, 3), False),
        ({"broker_settings": {"log.flush.interval.messages": "1"}}, (1, 2, 3), False),
        (
            {
                "broker_settings": {"log.flush.interval.messages": "1"},
                "topic_settings": {"flush.messages": "9"},
            },
            (1, 2, 3),
            True,
        ),
    ],
)
def test_the_settings_of_the_topic_decide(
    settings: dict[str, Any], nodes: tuple[int, ...], window: bool
) -> None:
    assert bool(of_x([START, *fault("power:…", 10, *nodes, until=15)], **settings).power) is window


@pytest.mark.parametrize(
    ("settings", "nodes", "window"),
    [
        ({}, (1, 2), True),
        ({"topic_settings": {"min.insync.replicas": "1"}}, (1,), False),
        ({"topic_settings": {"flush.messages": "1"}}, (1, 2), True),
        ({"min_insync_replicas": 3}, (1, 2), True),  # of decisions: 2
        ({"min_insync_replicas": 1}, (1,), True),  # of offsets: 1
        ({"broker_settings": {"transaction.state.log.min.isr": "1"}}, (1,), True),
        ({"broker_settings": {"log.flush.interval.messages": "1"}}, (1, 2, 3), False),
    ],
)
def test_internal_topics_have_settings_of_their_own(
    settings: dict[str, Any], nodes: tuple[int, ...], window: bool
) -> None:
    seen = roles(0, 1, 1, 2, 3, transaction_state=1, consumer_offsets=1)
    config = run_config({"seed": 1, **settings})
    windows = run_windows(X, [seen, *fault("power:…", 10, *nodes, until=15)], config)
    assert bool(windows[TRANSACTION_TOPIC].power or windows[GROUP_TOPIC].power) is window


def test_unclean_elections_of_decisions_are_never_on() -> None:
    changes = [START, roles(30, 2, 2, 3), roles(31, 2, 2, 3, transaction_state=1)]
    windows = run_windows(X, changes, run_config({"seed": 1, "unclean_leader_election": True}))
    assert seconds(windows[0].unclean) == [(0, 0), (20, 40)]
    of_topic = {"topic_settings": {"unclean.leader.election.enable": "true"}}
    windows = run_windows(X, [roles(0, 1, 1, transaction_state=1)], run_config({"seed": 1, **of_topic}))
    assert windows[0].unclean
    assert not windows[TRANSACTION_TOPIC].unclean


@pytest.mark.parametrize(
    ("settings", "elects"),
    [
        ({"kafka": "3.8.1"}, False),
        ({"kafka": "3.8.1", "upgrade": "3.9.0"}, True),
        ({"kafka": "3.8.1", "metadata": "zookeeper"}, True),
        ({"sut": "simulated", "era": "3.6"}, False),
        ({"sut": "simulated", "era": "3.9"}, True),
    ],
)
def test_no_election_is_unclean_where_controllers_do_not_look_at_the_setting(
    settings: dict[str, Any], elects: bool
) -> None:
    config = run_config({"seed": 1, "unclean_leader_election": True, **settings})
    windows = run_windows(X, [START, roles(0, 1, 1, consumer_offsets=1)], config)
    assert bool(windows[0].unclean) is bool(windows[GROUP_TOPIC].unclean) is elects


def test_an_excuse_from_anywhere_counts_from_a_moment_on() -> None:
    looks = [roles(0, 1, 1, 2, 3, consumer_offsets=1)]
    windows = run_windows(X, looks, run_config({"seed": 1, "unclean_leader_election": True}))
    assert seconds(windows[0].unclean) == [(0, 0)]
    assert EXCUSES[windows.anywhere()] == EXCUSES[windows.ever(0)] == "unclean"
    assert EXCUSES[windows.anywhere(since=1)] == EXCUSES[windows.ever(0, since=1)] == ""


def test_a_loss_of_power_of_one_replica_excuses_what_one_replica_had() -> None:
    windows = of_x([START, *fault("power:one", 10, 1, until=15)])
    for weak in ([True], [False], [True, False], [False, True]):
        at = np.full(len(weak), 10 * S)
        codes = windows.excuses(at, at, weak=np.array(weak)).tolist()
        assert [EXCUSES[code] for code in codes] == ["power" if one else "" for one in weak]


@pytest.mark.parametrize(
    ("looks", "away"),
    [
        ([roles(0, 1, 1, 2), roles(100, 1, 1, 2), roles(150, 2, 1, 2)], []),  # nothing changed for long
        ([roles(0, 1, 1, 2), roles(50, 1, 1), roles(61, 1, 1, 2)], [(40, 61)]),
        ([roles(0, 1, 1, 2), roles(50, 1, 1), roles(60, 1, 1, 2)], []),
        ([roles(45, 1, 1, 2), roles(50, 1, 1), roles(66, 1, 1, 2)], [(45, 66)]),
        ([roles(0, 1, 1, 2), roles(50, 1, 1), roles(55, 1, 1, 3), roles(61, 1, 1, 2, 3)], [(40, 61)]),
        ([roles(0, 1, 1, 2), roles(50, 1, 1)], []),  # it never came back
        ([roles(0, 1, 1), roles(50, 1, 1, 2)], []),  # it was no replica before, as far as is known
    ],
)
def test_a_replica_that_misses_a_tombstone_was_out_of_sync_for_as_long_as_it_is_kept(
    looks: list[Event], away: list[tuple[int, int]]
) -> None:
    settings = {"cleanup.policy": "compact", "delete.retention.ms": "20000"}
    config = run_config({"seed": 1, "workload": "compacted", "topic_settings": settings})
    found = [*run_windows(X, looks, config)[0].away]
    assert found == [(a * S, b * S) for a, b in away]


@pytest.mark.parametrize(
    ("back_s", "compacted", "excused"), [(25, True, True), (15, True, False), (25, False, False)]
)
def test_a_replica_that_was_away_may_have_missed_the_marker_of_an_aborted_transaction(
    back_s: int, *, compacted: bool, excused: bool
) -> None:
    """A consumer at read_committed gets a record that was aborted, and a transaction stays open.
    Before that a replica was out of sync for longer than markers are kept, or not."""
    built = Built(tps=["x"], processes={1: Process(txn_id=0), 2: Process(acks=-2, slot=2)})
    aborted = Op(
        process=1, f="txn", invoke=S, complete=2 * S, txn=True, outcome=Outcome.FAIL, deliberate=True
    )
    aborted.mops = [Send(tp=0, value=value_of(1, 1), offset=0)]
    read = Op(process=2, f="poll", invoke=60 * S, complete=61 * S)
    read.mops = [Read(tp=0, offset=0, value=value_of(1, 1))]
    built.ops = [aborted, read]
    for level, end in ((Isolation.READ_UNCOMMITTED, 6), (Isolation.READ_COMMITTED, 4)):
        built.bounds.append(Bound(tp=0, isolation=level, end=end, read_to=end))
    settings = {"cleanup.policy": "compact", "delete.retention.ms": "20000"} if compacted else {}
    config = run_config({"seed": 1, "topic_settings": settings})
    row = OpenTransaction(topic="x", partition=0, producer_id=7, producer_epoch=0, start=4)
    looks = [roles(0, 1, 1, 2), roles(10, 1, 1), roles(back_s, 1, 1, 2), roles(50, 2, 1, 2)]
    events: list[Event] = [*looks, TransactionsOpen(ns=100 * S, rows=(row,))]
    found = check_tables(built.tables(), portable=False, events=events, config=config).findings
    mine = {one.name: one.excuse for one in found if one.name in ("aborted-read", "stuck-lso", "hanging-txn")}
    expected = Excuse.AWAY if excused else Excuse.NONE
    assert mine == dict.fromkeys(("aborted-read", "stuck-lso", "hanging-txn"), expected)


def test_when_topics_were_made_again_last() -> None:
    def remade_ns(*events: Event) -> int:
        return run_windows(X, events, run_config({"seed": 1})).remade_ns

    first, second = fault("recreate-topics:all", 1, number=1), fault("recreate-topics:away", 4, 1, number=3)
    assert remade_ns(*fault("kill:one", 7, 1)) == -1
    assert remade_ns(*first, *second, *fault("kill:one", 7, 1)) == 5 * S
    # What took it back may have made them again.
    assert remade_ns(*first, failed("recreate-topics:away", 9, 7)) == FOREVER
    untouched = msgspec.structs.replace(failed("recreate-topics:all", 9, 7), why="NoTarget: no broker …")
    assert remade_ns(*first, untouched, failed("kill:one", 9, 8)) == 2 * S


def test_a_deleted_topic_has_the_windows_of_its_name() -> None:
    led = [roles(0, 1, 1, 2, 3), roles(50, 2, 1, 2, 3), roles(80, 2, 1, 2, 3)]
    made = run_windows({0: ("x", 0), 1: ("x~1", 0), 2: ("y~1", 0)}, led, run_config({"seed": 1}))
    assert list(made[1].leader) == list(made[0].leader) == [(0, 0), (40 * S, 60 * S)]
    assert list(made[2].leader) == [(0, FOREVER)]  # nothing names its leader


def test_a_node_is_back_in_a_topic_that_was_made_again_when_events_name_it_in_sync() -> None:
    """They have the topic's name, and not what tells its lives apart."""
    internal = {"transaction_state": 1, "consumer_offsets": 1}
    nodes = (1, 2, 3)
    looks = [roles(0, 1, *nodes, **internal), roles(22, -1, **internal), roles(40, 1, *nodes, **internal)]
    events = [*looks, *fault("power:all", 20, *nodes, until=30)]
    made = run_windows({0: ("x", 0), 1: ("x~1", 0)}, events, run_config({"seed": 1}))
    assert made.lost_power(2, 35 * S)
    assert not made.lost_power(2, 45 * S)


@pytest.mark.parametrize(
    ("at", "known"), [(9, []), (10, [Deletion(8 * S, 10 * S, 5)]), (40, [Deletion(8 * S, 40 * S, 5)])]
)
def test_what_was_deleted_before_a_topic_was_made_again_is_not_missing_from_the_new_one(
    at: float, known: list[Deletion]
) -> None:
    asked = RecordsDeleted(ns=round(at * S), fault=1, offsets={"x-0": 5})
    again = [*fault("recreate-topics:all", 10, until=20), *fault("kill:one", 50, 1, number=2), asked]
    again += fault("delete-records:half", 8, 1, number=1)
    gone = deletions({0: ("x", 0), 1: ("x~1", 0)}, again)
    assert [*gone.pop(1)] == [Deletion(8 * S, round(at * S), 5), Deletion(10 * S, FOREVER, FOREVER)]
    assert gone == ({0: tuple(known)} if known else {})


def failed(name: str, at: float, number: int, why: str = "NoEffect: no leader") -> FaultFailed:
    return FaultFailed(begin_ns=round(at * S), ns=round(at * S) + S, fault=number, name=name, why=why)


def aimless(name: str, at: float, number: int) -> FaultFailed:
    return failed(name, at, number, "NoTarget: leader: node 2, which does not answer")


@pytest.mark.parametrize(
    ("remade", "begun"),
    [
        ([*fault("recreate-topics:all", 10), *fault("recreate-topics:all", 1000, number=1)], [10, 1000]),
        ([*fault("recreate-topics:all", 10), failed("recreate-topics:all", 12, 0)], [10, 0]),
        # One that failed may have made topics again, or not.
        ([failed("recreate-topics:away", 5, 0), *fault("recreate-topics:all", 9, number=1)], [5, 9]),
        ([*fault("kill:one", 3, 1, number=4), *fault("recreate-topics:all", 9)], [9, 0]),
        # One that found no target deleted none.
        ([aimless("recreate-topics:away", 5, 0), *fault("recreate-topics:all", 9, number=1)], [9, 0]),
    ],
)
def test_each_deleted_topic_was_deleted_by_another_fault(remade: list[Event], begun: list[float]) -> None:
    gone = deletions({0: ("x~1", 0), 1: ("x~2", 0)}, remade)
    assert [[one.begin / S for one in gone[tp]] for tp in (0, 1)] == [[begun[0]], [begun[1]]]
    assert all((one.ns, one.offset) == (FOREVER, FOREVER) for tp in (0, 1) for one in gone[tp])


def test_the_leader_may_have_changed_between_two_looks_and_under_faults_of_its_replicas() -> None:
    assert seconds(of_x([]).leader) == [(0, FOREVER)]
    assert seconds(of_x([START, roles(70, 1, 1)]).leader) == [(0, 0)]
    assert seconds(of_x([START, roles(70, 2, 1)]).leader) == [(0, 0), (60, 80)]
    assert seconds(of_x([START, roles(65, 1, 1), roles(70, 2, 1)]).leader) == [(0, 0), (65, 80)]
    assert seconds(of_x([START, roles(70, -1), roles(99, 1, 1)]).leader) == [(0, 0), (60, 109)]
    assert seconds(of_x([START, roles(70, -1)]).leader) == [(0, 0), (60, FOREVER)]
    assert seconds(of_x([roles(0, -1), roles(7, 1, 1)]).leader) == [(0, 7)]
    assert seconds(of_x([START, *fault("pause:short", 70, 3, until=75)]).leader) == [(0, 0), (70, 85)]
    assert seconds(of_x([START, *fault("pause:short", 70, 3)]).leader) == [(0, 0), (70, FOREVER)]
    assert seconds(of_x([START, *fault("pause:short", 70, 4)]).leader) == [(0, 0)]
    ended = NodeEnded(ns=70 * S, end=NodeEnd(node=2, exit_code=1))
    assert seconds(of_x([START, ended]).leader) == [(0, 0), (60, 80)]


@pytest.mark.parametrize(
    ("name", "nodes", "moves"),
    [
        ("links:latency@all", (1, 2, 3), False),
        ("half-open:clients@leader", (1,), False),
        ("partition:clients-requests@leader", (1,), False),
        ("partition:clients-responses@leader", (1,), False),
        ("wire:produce", (1,), False),
        ("wire:random", (1,), False),
        ("wire:init-producer-id", (1,), False),
        ("delete-records:all@leader", (1,), False),
        ("add-partitions:all", (), False),
        ("partition:one-way-in@leader", (1,), True),
        ("partition:isolate@leader", (1,), True),
        ("wire:markers", (1,), True),
        ("wire:share-state", (1,), True),
        ("slow-follower:lead@random", (1,), True),
        ("pause:short@leader", (1,), True),
        ("elections:shuffle", (1,), True),
        ("elections:preferred", (), True),
        ("links2:latency@leader", (1,), True),
    ],
)
def test_what_leaves_brokers_and_their_links_alone_moves_no_leader(
    name: str, nodes: tuple[int, ...], moves: bool
) -> None:
    made = [START, *fault(name, 100, *nodes, until=107)]
    assert seconds(of_x(made).leader) == [(0, 0), (100, 117)][: 1 + moves]
    moved = of_x([*made, roles(120, 2, 2, 3)], unclean_leader_election=True)
    assert seconds(moved.leader) == seconds(moved.unclean) == [(0, 0), (100 if moves else 110, 130)]


def test_the_names_of_faults_beside_the_brokers_are_those_of_nemeses() -> None:
    """A kind that gets another name is not forgotten here."""
    every = [f"{family}:{kind}" for family, its in NEMESES.items() for kind in its.kinds]
    for begin in (*BESIDE_BROKERS, *BETWEEN_BROKERS):
        assert any(name.startswith(begin) for name in every), begin
    spared = {name.partition(":")[0] for name in every if not may_move_leaders(named(name))}
    assert spared == {one.partition(":")[0] for one in BESIDE_BROKERS}


def named(name: str) -> FaultStarted:
    (started,) = (event for event in fault(name, 1, 1) if isinstance(event, FaultStarted))
    return started


@pytest.mark.parametrize(("name", "young"), [("links:reset@leader", False), ("kill:one@leader", True)])
def test_what_leaves_brokers_alone_makes_no_replica_late(name: str, young: bool) -> None:
    before = [START, *fault(name, 90, 1, number=7, until=95)]
    flusher = {"log.flush.scheduler.interval.ms": "1000"}
    windows = of_x([*before, *fault("power:all@random", 100, 1, 2, 3)], broker_settings=flusher)
    assert bool(windows.power.young) == young


def test_a_flusher_limits_what_a_loss_of_power_may_take() -> None:
    brokers = {"log.flush.scheduler.interval.ms": "1000", "log.initial.task.delay.ms": "0"}
    windows = of_x([START, *fault("power:all", 60, 1, 2, 3)], broker_settings=brokers)
    assert windows.flushed_ns == 13 * S
    for acked, excuse in ((46, ""), (47, "power"), (-1, "power")):
        code = windows.excuses(
            np.array([S]),
            np.array([FOREVER]),
            weak=np.array([False]),
            acked=np.array([acked * S if acked > 0 else -1]),
        )
        assert EXCUSES[int(code[0])] == excuse
    assert of_x([START]).flushed_ns == FOREVER


TIMED = run_config({"seed": 0, "preset": "flush-timed"})


def test_a_loss_of_power_takes_what_the_flusher_of_the_preset_may_not_have_had(tmp_path: Path) -> None:
    """Sends of `lost` are acknowledged at 50 s."""
    given = {"broker_settings": TIMED.broker_settings}
    assert of_x([START], **given).flushed_ns == 12 * S
    for begin, forbidden in ((61, 0), (63, 3)):
        run = write_run(
            tmp_path / str(begin),
            lost(2, 3, 4).tables(),
            settings=given,
            events=[STARTED, START, *power(begin, 1, 2, 3), RECOVERED],
        )
        loss = check_run(run).anomalies["lost-write"]
        assert (loss.count, loss.disallowed) == (3, forbidden)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("calm_s", "young"), [(TIMED.calm_s, False), (4.0, True)])
def test_no_fault_of_the_preset_makes_the_next_one_young(seed: int, calm_s: float, *, young: bool) -> None:
    """Of its losses of power, none may take older records than the first one. Brokers take 15 s to start."""
    steps = plan(TIMED.nemesis, TIMED.model_copy(update={"seed": seed, "calm_s": calm_s}))
    assert len(steps) >= 3
    faults: list[Event] = []
    for step in steps:
        healed = step.at_s + NEMESES["power"].kinds["all"].apply_s + step.hold_s + 15
        faults += fault(step.name, step.at_s, 1, 2, 3, number=step.fault, until=healed)
    windows = of_x([START, *faults], broker_settings=TIMED.broker_settings)
    assert len([*windows.power]) == len(steps)
    assert bool(windows.power.young) is young


@pytest.mark.parametrize(
    ("before", "young"),
    [
        ([START, *fault("kill:one", 10, 1, until=46)], False),
        ([START, *fault("kill:one", 10, 1, until=47)], True),  # it may have had it for 13 s
        ([START, *fault("kill:one", 10, 1)], True),
        ([START, *fault("kill:one", 10, 4, until=50)], False),
        ([START, *fault("kill:one", 61, 1, until=65)], False),
        ([START, roles(20, 1, 1, 2), roles(46, 1, 1, 2, 3)], False),
        ([START, roles(20, 1, 1, 2), roles(47, 1, 1, 2, 3)], True),
        ([START, roles(20, 1, 1, 2), roles(61, 1, 1, 2, 3)], True),  # it came some time between
        ([START, roles(20, 1, 1, 2), roles(70, 1, 1, 2, 3)], True),
        ([START, roles(20, 1, 1, 2), roles(71, 1, 1, 2, 3)], False),  # shortly before 71 s
        ([START, roles(20, 1, 1, 2)], False),
        ([START, NodeEnded(ns=5 * S, end=NodeEnd(node=2, exit_code=1))], True),
        ([START, NodeEnded(ns=5 * S, end=NodeEnd(node=4, exit_code=1))], False),
        (fault("kill:one", 10, 1, until=47), True),  # of which partition is not known
    ],
)
def test_a_replica_that_came_in_late_is_flushed_late(before: list[Event], young: bool) -> None:
    """A record of 2 s; all lose power at 60 s, and the flusher takes 13 s at most."""
    brokers = {"log.flush.scheduler.interval.ms": "1000", "log.initial.task.delay.ms": "0"}
    events = [*before, *fault("power:all", 60, 1, 2, 3, number=1)]
    windows = of_x(events, broker_settings=brokers)
    moments = np.array([S]), np.array([FOREVER])
    (code,) = windows.excuses(*moments, weak=np.array([False]), acked=np.array([2 * S])).tolist()
    assert EXCUSES[code] == (Excuse.POWER if young else Excuse.NONE)


@pytest.mark.parametrize(
    ("counted", "losses", "excuse"),
    [
        (19, [(20, 21)], Excuse.NONE),
        (20, [(20, 21)], Excuse.POWER),
        (FOREVER // S, [(20, 21)], Excuse.POWER),
        (19, [(20, 21), (30, 31)], Excuse.POWER),  # the first cut the log, so that a second may take more
        (19, [(20, 21), (21, 22)], Excuse.NONE),  # they are one
        (20, [(9, 9), (30, 31)], Excuse.NONE),  # before it was sent
        (31, [(30, 31), (40, 41)], Excuse.POWER),
    ],
)
def test_enough_records_behind_a_record_flush_it(
    counted: int, losses: list[tuple[int, int]], excuse: Excuse
) -> None:
    windows = LogWindows(power=PowerLosses(Windows.of((a * S, b * S) for a, b in losses)))
    moments = np.array([10 * S]), np.array([FOREVER])
    (code,) = windows.excuses(*moments, weak=np.array([False]), counted=np.array([counted * S])).tolist()
    assert EXCUSES[code] == excuse


@pytest.mark.parametrize(
    ("settings", "number"),
    [
        ({}, 0),
        ({"topic_settings": {"flush.messages": "1"}}, 0),
        ({"topic_settings": {"flush.messages": "2"}}, 2),
        ({"broker_settings": {"log.flush.interval.messages": "3"}}, 3),
        ({"topic_settings": {"flush.messages": "65536"}}, 65_536),
        ({"topic_settings": {"flush.messages": "9223372036854775807"}}, 0),
    ],
)
def test_the_number_of_records_that_are_flushed_together(settings: dict[str, Any], number: int) -> None:
    assert of_x([START], **settings).flushed_records == number


BYTES = {"log.retention.bytes": "1000"}


@pytest.mark.parametrize(
    ("settings", "may"),
    [
        ({}, False),
        ({"topic_settings": {"retention.ms": "0"}}, True),
        ({"topic_settings": {"retention.ms": "60000"}}, True),
        ({"topic_settings": {"retention.ms": "172799999"}}, True),
        ({"topic_settings": {"retention.ms": "172800000"}}, False),  # two days
        ({"topic_settings": {"retention.ms": "604800000"}}, False),
        ({"topic_settings": {"retention.ms": "-1"}}, False),
        ({"topic_settings": {"retention.bytes": "0"}}, True),
        ({"topic_settings": {"retention.bytes": "-1"}}, False),
        ({"broker_settings": {"log.retention.hours": "1"}}, True),
        ({"broker_settings": {"log.retention.hours": "168"}}, False),
        ({"broker_settings": {"log.retention.minutes": "5"}}, True),
        ({"broker_settings": BYTES}, True),
        ({"topic_settings": {"retention.bytes": "-1"}, "broker_settings": BYTES}, False),
        # the topic's own limit of time is the one that counts, then the brokers' finest one
        ({"topic_settings": {"retention.ms": "-1"}, "broker_settings": {"log.retention.ms": "9"}}, False),
        ({"topic_settings": {"retention.ms": "9"}, "broker_settings": {"log.retention.ms": "-1"}}, True),
        ({"broker_settings": {"log.retention.ms": "-1", "log.retention.minutes": "1"}}, False),
        ({"broker_settings": {"log.retention.minutes": "9999", "log.retention.hours": "1"}}, False),
        ({"broker_settings": {"log.retention.hours": "168", "log.retention.ms": "9"}}, True),
        # the cleaner alone has no limits
        ({"topic_settings": {"cleanup.policy": "compact", "retention.ms": "9"}}, False),
        ({"topic_settings": {"cleanup.policy": "compact", "retention.bytes": "9"}}, False),
        ({"topic_settings": {"cleanup.policy": "compact,delete", "retention.ms": "9"}}, True),
    ],
)
def test_only_limits_within_a_run_remove_records(settings: dict[str, Any], may: bool) -> None:
    assert removes(RunConfig.model_construct(**RunConfig(seed=1).model_dump() | settings)) is may


def test_what_may_still_come_is_taken_to_have_been_at_all_times() -> None:
    windows = whenever([3], unclean=False, power=True)
    assert EXCUSES[windows.ever(3)] == "power"
    assert EXCUSES[whenever([3], unclean=True, power=True).ever(3)] == "unclean"
    assert EXCUSES[whenever([3], unclean=False, power=False).ever(3)] == ""


# ---- whole verdicts


def lost(*gone: int, at: int = 50, start: int = 0, acks: int = -1, read: bool = False) -> Built:
    """Records 0..4 of x, sent at `at` seconds; the complete final reads lack those that are gone."""
    built = Built(tps=["x"])
    built.processes[1] = Process(acks=acks, idempotent=acks == -1)
    for n in range(5):
        op = Op(process=1, f="send", invoke=at * S + 2 * n, complete=at * S + 2 * n + 1)
        op.mops = [Send(tp=0, value=value_of(1, n), offset=n)]
        built.ops.append(op)
    if read:
        op = Op(process=2, f="poll", invoke=(at + 1) * S, complete=(at + 2) * S)
        op.mops = [Read(tp=0, offset=n, value=value_of(1, n)) for n in range(5)]
        built.ops.append(op)
    shown = [(n, value_of(1, n)) for n in range(start, 5) if n not in gone]
    end = 5 if start or 4 not in gone else min(gone)
    return final_reads(built, {0: shown}, end=end, start=start, at_s=190)


def allowed(folder: Path, built: Built, *events: Event, **settings: Any) -> bool:
    """Whether the lost records are permitted; all of them are found."""
    run = write_run(folder / "run", built.tables(), settings=settings, events=[STARTED, *events, RECOVERED])
    loss = check_run(run).anomalies["lost-write"]
    assert loss.disallowed in (0, loss.count)
    return loss.allowed


def power(at: float, *nodes: int) -> list[Event]:
    return fault("power:…", at, *nodes, until=at + 4)


@pytest.mark.parametrize(
    ("built", "events", "may"),
    [
        (lost(3, 4), power(55, 1, 2, 3), True),
        (lost(3, 4), power(40, 1, 2, 3), False),  # before they were sent
        (lost(2), power(55, 1, 2, 3), False),  # a hole
        (lost(3, 4), power(55, 1), False),
        (lost(3, 4), power(55, 4, 5), False),
        (lost(3, 4), [*power(1, 1), *fault("power:one", 55, 2, number=1)], True),  # 1 never came back
        (lost(3, 4), [], False),
    ],
)
def test_a_loss_of_power_permits_what_it_can_have_taken(
    tmp_path: Path, built: Built, events: list[Event], may: bool
) -> None:
    assert allowed(tmp_path, built, START, *events) is may


@pytest.mark.parametrize(
    ("built", "events", "may"),
    [
        (lost(3, 4, acks=1), [START], False),  # nothing happened at all
        (lost(3, 4, acks=1), [], True),  # nothing of leaders is on record
        (lost(3, 4, acks=1), [START, roles(30, 2, 2, 3)], False),
        (lost(3, 4, acks=1), [START, roles(58, 2, 2, 3)], True),
        (lost(3, 4, acks=1), [START, *fault("partition:isolate", 49, 1, until=55)], True),
        (lost(3, 4, acks=1), [START, *fault("partition:isolate", 20, 1, until=30)], False),
        (lost(3, 4, acks=1), [START, *power(55, 1)], True),
        (lost(3, 4, acks=1, read=True), [START, *fault("partition:isolate", 49, 1, until=55)], False),
        (lost(3, 4, acks=1, read=True), [START, *power(55, 1)], True),
        (lost(2, acks=1), [START, *fault("partition:isolate", 49, 1, until=55)], False),  # a hole
        (lost(3, 4, acks=0), [START], True),
        (lost(3, 4, acks=0, read=True), [START], False),
    ],
)
def test_one_acknowledgement_is_lost_with_a_leader_alone(
    tmp_path: Path, built: Built, events: list[Event], may: bool
) -> None:
    assert allowed(tmp_path, built, *events) is may


@pytest.mark.parametrize(
    ("acks", "read", "cut_off", "may"),
    [
        (1, False, True, True),
        (0, False, False, True),
        (1, True, True, False),  # what consumers get, each in-sync replica has
        (1, False, False, False),
        (-1, False, True, False),
    ],
)
def test_a_replaced_leader_answers_below_what_its_successor_acknowledged_those_that_wait_for_it_alone(
    tmp_path: Path, acks: int, read: bool, cut_off: bool, may: bool
) -> None:
    """Broker 1 had record 0 when broker 2 took over, which acknowledged records 1 and 2 to another client."""
    built = lost()
    built.processes[2] = Process(acks=acks, idempotent=acks == -1, slot=2)
    op = Op(process=2, f="send", invoke=52 * S, complete=53 * S)
    op.mops = [Send(tp=0, value=value_of(2, 0), offset=1)]
    built.ops.append(op)
    if read:
        got = Read(tp=0, offset=1, value=value_of(2, 0))
        built.ops.append(Op(process=3, f="poll", invoke=54 * S, complete=55 * S, mops=[got]))
    events = fault("partition:isolate", 45, 1, until=60) if cut_off else []
    run = write_run(tmp_path / "run", built.tables(), events=[STARTED, START, *events, RECOVERED])
    found = check_run(run).anomalies["offset-realtime-inversion"]
    assert (found.count, found.allowed) == (1, may)


@pytest.mark.parametrize(("read_to", "found"), [(5, True), (4, True), (3, False)])
def test_a_record_acknowledged_without_offset_is_lost_where_a_final_read_passed_its_place(
    tmp_path: Path, read_to: int, found: bool
) -> None:
    """A consumer had read it, at offset 3; what stands above `read_to` is not known."""
    built = lost(3, read=True)
    built.ops[3].mops = [Send(tp=0, value=value_of(1, 3), outcome=Outcome.OK)]
    for bound in built.bounds:
        bound.end, bound.read_to = -1, read_to
    verdict = check_run(write_run(tmp_path / "run", built.tables(), events=[STARTED, START, RECOVERED]))
    assert ("lost-write" in verdict.anomalies, verdict.checks["durability"].status) == (
        (True, "invalid") if found else (False, "unknown")
    )


def ends_listed(at: float) -> Event:
    return BoundsListed(ns=round(at * S), rows=(), stable=True)


NOT_RECOVERED = Recovered(ns=70 * S, recovered=False, seconds=60, why="x-0 is not in sync")


@pytest.mark.parametrize(
    ("acks", "lag", "read", "end", "found"),
    [
        (1, "30000", False, ends_listed(96), "unknown"),  # acknowledged at 50 s
        (1, "30000", False, ends_listed(98), "invalid"),
        (1, "10000", False, ends_listed(68), "invalid"),
        (1, "10000", False, ends_listed(66), "unknown"),
        (1, "30000", True, ends_listed(96), "invalid"),  # a consumer got it
        (-1, "30000", False, ends_listed(96), "invalid"),
        (1, "1000", False, NOT_RECOVERED, "unknown"),  # the watermark waits for min.insync.replicas
        (1, "1000", False, RECOVERED, "invalid"),
    ],
)
def test_what_a_leader_alone_had_may_lie_above_a_high_watermark_that_stands_still(
    tmp_path: Path, acks: int, lag: str, read: bool, end: Event, found: str
) -> None:
    """Record 4 is not in the final reads, which end at 4."""
    built = lost(4, acks=acks, read=read)
    settings = {"broker_settings": {"replica.lag.time.max.ms": lag}}
    run = write_run(tmp_path / "run", built.tables(), settings=settings, events=[STARTED, START, end])
    verdict = check_run(run)
    assert (verdict.checks["durability"].status, "lost-write" in verdict.anomalies) == (
        found,
        found == "invalid",
    )


def test_a_record_below_the_end_lay_below_the_high_watermark(tmp_path: Path) -> None:
    events: list[Event] = [STARTED, START, ends_listed(61), RECOVERED]
    assert check_run(write_run(tmp_path / "run", lost(2, acks=1).tables(), events=events)).exit_code == 1


@pytest.mark.parametrize(
    ("events", "may"), [([START], False), ([START, roles(58, 2, 2)], True), ([START, roles(30, 2, 2)], False)]
)
def test_an_unclean_election_permits_what_was_there_when_the_leader_changed(
    tmp_path: Path, events: list[Event], may: bool
) -> None:
    assert allowed(tmp_path, lost(3, 4), *events, unclean_leader_election=True) is may
    assert not allowed(tmp_path / "hole", lost(2), *events, unclean_leader_election=True)


@pytest.mark.sampled(2)
def test_a_log_that_begins_later_has_lost_its_records_unless_retention_may_have_removed_them(
    tmp_path: Path,
) -> None:
    for start in (4, 5):
        run = write_run(tmp_path / f"{start}", lost(start=start).tables(), events=[STARTED, RECOVERED])
        found = check_run(run)
        assert (found.exit_code, found.anomalies["lost-write"].disallowed) == (1, start)
        limit = {"topic_settings": {"retention.bytes": "100"}}
        run = write_run(tmp_path / f"limit {start}", lost(start=start).tables(), settings=limit)
        assert check_run(run).anomalies == {}


@pytest.mark.parametrize(
    ("number", "acks", "events", "forbidden"),
    [
        (2, -1, power(55, 1, 2, 3), 2),  # of the last three: the last one alone was not flushed
        (3, -1, power(55, 1, 2, 3), 1),
        (4, -1, power(55, 1, 2, 3), 0),
        (2, 1, power(55, 1, 2, 3), 0),  # no look says that the others had anything
        (2, -1, power(49.5, 1, 2, 3), 0),  # it went on until 50.5
        (2, -1, [*power(55, 1, 2, 3), *fault("power:all", 70, 1, 2, 3, number=1)], 0),
        (2, -1, [], 3),
    ],
)
def test_a_loss_of_power_takes_less_than_the_number_of_records_that_is_flushed(
    tmp_path: Path, number: int, acks: int, events: list[Event], forbidden: int
) -> None:
    run = write_run(
        tmp_path / "run",
        lost(2, 3, 4, acks=acks).tables(),
        settings={"topic_settings": {"flush.messages": str(number)}},
        events=[STARTED, START, *events, RECOVERED],
    )
    loss = check_run(run).anomalies["lost-write"]
    assert (loss.count, loss.disallowed) == (3, forbidden)


def test_the_first_record_of_a_log_is_flushed_as_any_other(tmp_path: Path) -> None:
    run = write_run(
        tmp_path / "run",
        lost(0, 1, 2, 3, 4).tables(),
        settings={"topic_settings": {"flush.messages": "5"}},
        events=[STARTED, START, *power(55, 1, 2, 3), RECOVERED],
    )
    loss = check_run(run).anomalies["lost-write"]
    assert (loss.count, loss.disallowed) == (5, 1)


@pytest.mark.parametrize("powerless", [False, True])
def test_a_loss_of_power_makes_room_for_a_successor_below_an_older_record(powerless: bool) -> None:
    """Its record was acknowledged at 2 s, the power went at 20 s, the successor came at 30 s."""
    ops = []
    for process, second, offset in ((1, 1, 2), (2, 30, 1)):
        op = Op(process=process, f="txn", invoke=second * S, complete=(second + 2) * S, txn=True)
        span = (second * S, (second + 1) * S)
        op.mops = [Send(tp=0, value=value_of(process, 0), offset=offset, ns=span)]
        ops.append(op)
    built = Built(tps=["x"], ops=ops, processes={1: Process(txn_id=0), 2: Process(txn_id=0)})
    events = [START, *(fault("power:all", 20, 1, 2, 3, until=25) if powerless else [])]
    found = check_tables(built.tables(), portable=False, events=events).findings
    (zombie,) = (one for one in found if one.name == "zombie-write" and one.key[0] == 0)
    assert zombie.excuse == (Excuse.POWER if powerless else Excuse.NONE)


def in_doubt() -> Built:
    """What transactions and groups may do wrong: an aborted record is read, half a transaction is there, one
    stays open, a partition has two owners, one commits behind the end, a fenced one writes."""
    built = Built(tps=["x"])
    for process in (1, 2):
        built.processes[process] = Process(txn_id=0, slot=process)
        built.processes[process + 2] = Process(acks=-2, slot=process + 2, group=0)
    aborted = Op(
        process=1, f="txn", invoke=S, complete=2 * S, txn=True, outcome=Outcome.FAIL, deliberate=True
    )
    aborted.mops = [Send(tp=0, value=value_of(1, 0), offset=0)]
    torn = Op(process=1, f="txn", invoke=3 * S, complete=4 * S, txn=True)
    torn.mops = [Send(tp=0, value=value_of(1, n), offset=n + 1) for n in (1, 2)]
    heir = Op(process=2, f="txn", invoke=5 * S, complete=6 * S, txn=True)
    heir.mops = [Send(tp=0, value=value_of(2, 0), offset=5)]
    fenced = Op(process=1, f="txn", invoke=30 * S, complete=31 * S, txn=True)
    fenced.mops = [Send(tp=0, value=value_of(1, 3), offset=7)]
    built.ops = [aborted, torn, heir, fenced]
    for process in (3, 4):
        op = Op(process=process, f="poll", invoke=40 * S, complete=41 * S)
        op.mops = [Assign(tp=0, generation=4), Commit(tp=0, offset=99)]
        built.ops.append(op)
    read = Op(process=5, f="poll", invoke=42 * S, complete=43 * S)
    read.mops = [Read(tp=0, offset=0, value=value_of(1, 0))]
    built.processes[5] = Process(acks=-2, slot=5)
    built.ops.append(read)
    shown = [(2, value_of(1, 1)), (5, value_of(2, 0)), (7, value_of(1, 3))]
    final_reads(built, {0: shown}, end=9, at_s=190)
    built.bounds[-1].end = 8
    return built


OF_TRANSACTIONS = {"aborted-read", "torn-txn", "stuck-lso", "zombie-write"}


@pytest.mark.parametrize(
    ("topic", "excused"),
    [
        ("__transaction_state", OF_TRANSACTIONS),  # the group has no transaction
        ("__consumer_offsets", {"double-assignment", "phantom-commit"}),
        ("__share_group_state", set()),
        ("y", set()),
        ("x", {*OF_TRANSACTIONS, "phantom-commit"}),
    ],
)
def test_what_a_coordinator_lost_excuses_what_it_keeps(topic: str, excused: set[str]) -> None:
    """Each topic lies on a node of its own, and one of them loses its power; each has a minimum of one."""
    topics = ["x", "y", "__transaction_state", "__consumer_offsets", "__share_group_state"]
    of = {f"{name}-0": node for node, name in enumerate(topics, 1)}
    look = RolesSeen(
        ns=0,
        leaders=of,
        isr={name: (node,) for name, node in of.items()},
        controller=1,
        answering=(1, 2, 3, 4, 5),
        agreed=True,
    )
    names = ("transaction.state.log", "share.coordinator.state.topic")
    brokers = {f"{name}.min.isr": "1" for name in names}
    config = run_config({"seed": 1, "min_insync_replicas": 1, "broker_settings": brokers})
    events = [look, *fault("power:one", 42, of[f"{topic}-0"], until=50)]
    found = check_tables(in_doubt().tables(), portable=False, events=events, config=config).findings
    wanted = {*OF_TRANSACTIONS, "phantom-commit", "double-assignment"}
    mine = {(one.name, one.excuse) for one in found if one.name in wanted}
    assert mine == {(name, Excuse.POWER if name in excused else Excuse.NONE) for name in wanted}


@pytest.mark.parametrize(("at", "excuse"), [(8, Excuse.NONE), (9, Excuse.POWER), (19, Excuse.POWER)])
def test_what_a_consumer_was_given_it_may_have_fetched_some_time_before(at: int, excuse: Excuse) -> None:
    """Two consumers get two records, both in doubt, at one offset: the first at 20 s. The power is gone for a
    second."""
    built = Built(tps=["x"])
    for n, got_s in ((0, 20), (1, 30)):
        send = Op(process=1, f="send", invoke=S + n, complete=2 * S + n, outcome=Outcome.INFO)
        send.mops = [Send(tp=0, value=value_of(1, n))]
        poll = Op(process=2 + n, f="poll", invoke=got_s * S - 1, complete=got_s * S)
        poll.mops = [Read(tp=0, offset=0, value=value_of(1, n))]
        built.ops += [send, poll]
    final_reads(built, {0: [(0, value_of(1, 1))]}, end=1, at_s=190)
    events = [START, *fault("power:all", at, 1, 2, 3, until=at + 4)]
    findings = check_tables(built.tables(), portable=False, events=events).findings
    (found,) = (one for one in findings if one.name == "inconsistent-offsets")
    assert (found.variant, found.excuse) == ("reads", excuse)


def passed_over(shown: dict[int, int]) -> Built:
    """A consumer read the records 0 and 2 at 10 s: those of process 1 at the offsets 0 and 3. shown: offset
    -> record, by the final reads."""
    built = Built(tps=["x"])
    for n, (at, offset) in enumerate(((1, 0), (30, 1), (2, 3), (31, 3))):
        op = Op(process=1 + (at > 9), f="send", invoke=at * S, complete=(at + 1) * S)
        op.mops = [Send(tp=0, value=value_of(1 + (at > 9), n), offset=offset)]
        built.ops.append(op)
    poll = Op(process=3, f="poll", invoke=9 * S, complete=10 * S)
    poll.mops = [Read(tp=0, offset=offset, value=value_of(1, n)) for offset, n in ((0, 0), (3, 2))]
    built.ops.append(poll)
    return final_reads(built, {0: [(at, value_of(1 + n % 2, n)) for at, n in shown.items()]}, end=4, at_s=190)


@pytest.mark.parametrize(
    ("shown", "at", "excuse"),
    [
        ({0: 0, 1: 1, 3: 3}, 20, Excuse.POWER),  # what it read at 3 is gone: 1 may be younger
        ({0: 0, 1: 1, 3: 2}, 20, Excuse.NONE),  # it is still there, and so was what lies below
        ({0: 0, 1: 1, 3: 3}, None, Excuse.NONE),
    ],
)
def test_a_consumer_skipped_nothing_that_came_after_a_loss(
    shown: dict[int, int], at: int | None, excuse: Excuse
) -> None:
    events = [START, *(fault("power:all", at, 1, 2, 3, until=at + 4) if at is not None else [])]
    found = check_tables(passed_over(shown).tables(), portable=False, events=events).findings
    (skip,) = (one for one in found if one.name == "int-poll-skip")
    assert skip.excuse == excuse


def forgetful() -> Built:
    """A group begins at 10 s, is not given the records 0 and 1, and forgets at 40 s what it committed."""
    built = Built(tps=["x"], processes={1: Process(group=0), 2: Process(group=0), 3: Process(slot=9)})
    sent = Op(process=3, f="send", invoke=1 * S, complete=2 * S)
    sent.mops = [Send(tp=0, value=value_of(3, n), offset=n) for n in range(2)]
    given = Assign(tp=0, kind=AssignmentKind.ASSIGNED, generation=4)
    first = Op(process=1, f="poll", invoke=10 * S, complete=12 * S)
    first.mops = [given, Commit(tp=0, offset=2), Commit(tp=0, offset=9)]
    second = Op(process=2, f="poll", invoke=40 * S, complete=42 * S)
    second.mops = [Commit(tp=0, offset=1, kind=CommitKind.FETCHED), given]
    second.mops += [Read(tp=0, offset=0, value=value_of(3, 0))]
    built.ops = [sent, first, second]
    return final_reads(built, {0: [(n, value_of(3, n)) for n in range(2)]}, end=2, at_s=190)


OF_GROUPS = {"offset-commit-regression", "group-duplicate"}
OF_GROUPS_UNTIL_THE_END = {"group-skip", "phantom-commit", "double-assignment", "eos-loss"}


@pytest.mark.parametrize(
    ("at", "excused"),
    [
        (8, set()),  # until 9 s: the group began at 10
        (9, OF_GROUPS | OF_GROUPS_UNTIL_THE_END),
        (41, OF_GROUPS | OF_GROUPS_UNTIL_THE_END),
        (43, OF_GROUPS_UNTIL_THE_END),
    ],
)
def test_a_group_loses_nothing_before_it_begins(at: int, excused: set[str]) -> None:
    events = [START, *fault("power:all", at, 1, 2, 3, until=at + 4)]
    found = check_tables(forgetful().tables(), portable=False, events=events).findings
    of_groups = [one for one in found if one.name in OF_GROUPS | OF_GROUPS_UNTIL_THE_END]
    assert {one.name for one in of_groups} == OF_GROUPS | OF_GROUPS_UNTIL_THE_END
    assert {one.name for one in of_groups if one.excuse == Excuse.POWER} == excused
    assert {one.excuse for one in of_groups} <= {Excuse.POWER, Excuse.NONE}


def coordinators_of_transactions_lost_power() -> list[Event]:
    """They are on node 4, and all else is on others."""
    look = roles(0, 1, 1, 2, 3, consumer_offsets=1)
    look = RolesSeen(
        ns=0,
        leaders=look.leaders | {f"{TRANSACTION_TOPIC}-0": 4},
        isr=look.isr | {f"{TRANSACTION_TOPIC}-0": (4,)},
        controller=1,
        answering=(1, 2, 3, 4),
        agreed=True,
    )
    return [look, *fault("power:one", 41, 4, until=45)]


@pytest.mark.parametrize(
    ("kind", "txn_id", "excused"),
    [
        (CommitKind.SYNC, -1, set()),
        (CommitKind.SYNC, 0, {"group-skip", "eos-loss"}),  # a producer outside of the group has transactions
        (
            CommitKind.TXN,
            0,
            {"offset-commit-regression", "group-duplicate", "group-skip", "eos-loss", "phantom-commit"},
        ),
    ],
)
def test_a_group_without_transactions_loses_nothing_with_their_coordinators(
    kind: CommitKind, txn_id: int, excused: set[str]
) -> None:
    built = forgetful()
    built.processes[3].txn_id = txn_id
    built.ops[1].mops.append(Commit(tp=0, offset=3, kind=kind))
    config = RunConfig(seed=1, broker_settings={"transaction.state.log.min.isr": "1"})
    events = coordinators_of_transactions_lost_power()
    found = check_tables(built.tables(), portable=False, events=events, config=config).findings
    of_groups = [one for one in found if one.name in OF_GROUPS | OF_GROUPS_UNTIL_THE_END]
    assert {one.name for one in of_groups} == OF_GROUPS | OF_GROUPS_UNTIL_THE_END
    assert {one.name for one in of_groups if one.excuse == Excuse.POWER} == excused


def test_a_partition_that_lost_records_may_have_two_owners_no_more_than_another() -> None:
    """One broker's loss of power takes records of x alone: coordinators have them on two."""
    config = RunConfig(seed=1, topic_settings={"min.insync.replicas": "1"})
    events = [START, *fault("power:one", 41, 1, until=45)]
    found = check_tables(forgetful().tables(), portable=False, events=events, config=config).findings
    excuses = {one.name: one.excuse for one in found}
    assert excuses["group-skip"] == excuses["phantom-commit"] == Excuse.POWER
    assert excuses["double-assignment"] == Excuse.NONE


def unfenced() -> Built:
    """Process 3 has an id of its own from 3 s on. Process 1 has another one from 10 s on, process 2 takes it
    over at 20 s, and process 1 still writes; a transaction is left open."""
    ids = {1: 0, 2: 0, 3: 1}
    built = Built(tps=["x"], processes={n: Process(txn_id=held, slot=n) for n, held in ids.items()})
    for n, (process, at) in enumerate(((3, 3), (1, 10), (2, 20), (1, 30))):
        op = Op(process=process, f="txn", invoke=at * S, complete=(at + 2) * S, txn=True)
        op.mops = [Send(tp=0, value=value_of(process, n), offset=n)]
        built.ops.append(op)
    for level, end in ((Isolation.READ_UNCOMMITTED, 6), (Isolation.READ_COMMITTED, 4)):
        built.bounds.append(Bound(tp=0, isolation=level, end=end, read_to=end))
    return built


ZOMBIES, HELD = {("zombie-write", 0), ("zombie-write", -1)}, {("stuck-lso", 0), ("hanging-txn", 0)}


@pytest.mark.parametrize(
    ("at", "excused"),
    [
        (1, set()),  # until 2 s: no process had an id yet
        (2, HELD),
        (8, HELD),  # until 9 s: process 1 began at 10
        (9, HELD | ZOMBIES),
        (41, HELD | ZOMBIES),
    ],
)
def test_a_transactional_id_loses_nothing_before_it_begins(at: int, excused: set[tuple[str, int]]) -> None:
    row = OpenTransaction(topic="x", partition=0, producer_id=7, producer_epoch=0, start=4)
    opened = TransactionsOpen(ns=100 * S, rows=(row,))
    events = [START, *fault("power:all", at, 1, 2, 3, until=at + 4), opened]
    found = check_tables(unfenced().tables(), portable=False, events=events).findings
    mine = {
        (one.name, one.key[0]): one.excuse
        for one in found
        if one.name in ("stuck-lso", "hanging-txn", "zombie-write")
    }
    assert mine.keys() == HELD | ZOMBIES
    assert {key for key, excuse in mine.items() if excuse == Excuse.POWER} == excused
    assert set(mine.values()) <= {Excuse.POWER, Excuse.NONE}


@pytest.mark.parametrize(("txn_id", "known", "forbidden"), [(0, False, 0), (0, True, 1), (-1, False, 1)])
def test_a_record_above_the_end_that_readers_at_read_committed_have_may_be_hidden(
    tmp_path: Path, txn_id: int, known: bool, forbidden: int
) -> None:
    """It was acknowledged at 4; final reads at read_committed end at 4. known: so does the log."""
    built = lost(4)
    built.processes[1].txn_id = txn_id
    if not known:
        built.ops = [op for op in built.ops if op.process != 80]
        built.bounds = [bound for bound in built.bounds if bound.isolation == Isolation.READ_COMMITTED]
    verdict = check_run(write_run(tmp_path / "run", built.tables(), events=[STARTED, START, RECOVERED]))
    lost_writes = verdict.anomalies.get("lost-write")
    assert (0 if lost_writes is None else lost_writes.disallowed) == forbidden
    assert verdict.exit_code == (1 if forbidden else 2)
