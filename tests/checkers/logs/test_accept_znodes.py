"""The log of ZooKeeper: each rule fires at what Kafka never writes there, and is silent on what it does."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from checkers.engine.check import Tally
from checkers.logs import accept_controllers, accept_leaders, accept_notices, accept_znodes
from checkers.logs.elections import elections
from checkers.logs.zookeeper_log import zookeeper_log
from core.config import run_config
from core.op import TopicPartition
from harness.explore.profile import BASE
from harness.explore.trial import checked
from harness.modelled.virtual.run import simulate
from history.evidence import Evidence
from history.evidence_tables import KILLED, LOST_POWER
from tests.checkers.logs.made import of_all, tables

TP = TopicPartition("t", 0)
TOPIC = "/brokers/topics/t"
CHECKS = {
    **accept_znodes.CHECKS,
    **accept_controllers.CHECKS,
    **accept_leaders.CHECKS,
    **accept_notices.CHECKS,
}
STATE = f"{TOPIC}/partitions/0/state"
SETTINGS = "/config/topics/t"
FIRST, SECOND, THIRD = 10, 20, 30
"""Sessions of brokers 1, 2 and 3; the first has /controller until it ends, and broker 2 gets it then."""
Rows = list[dict[str, Any]]


def change(zxid: int, session: int, op: str, path: str, data: object = "", **more: Any) -> dict[str, Any]:
    text = data if isinstance(data, str) or data is None else json.dumps(data)
    row = {"zxid": zxid, "ms": 1000 * zxid, "session": session, "op": op, "path": path, "data": text}
    return {"take": 0, "node": 4, "owner": 0 if op == "create" else None} | row | more


def state(zxid: int, session: int, leader: int, epoch: int, isr: list[int], **more: Any) -> dict[str, Any]:
    said = {"leader": leader, "leader_epoch": epoch, "isr": isr, "controller_epoch": more.pop("by", 1)}
    return change(zxid, session, "set", STATE, said, version=zxid) | more


def log() -> Rows:
    """Broker 1 leads and dies, and the new controller lets broker 2 lead, then broker 3, which it prefers
    since the replicas were reordered. That one changes the in-sync replicas; much later the log ends."""
    replicas = {"version": 1, "partitions": {"0": [1, 2, 3]}}
    notice = {"version": 1, "partitions": [{"topic": "t", "partition": 0}]}
    isr = "/isr_change_notification/isr_change_"
    return [
        change(1, FIRST, "create", "/brokers"),
        change(2, FIRST, "create", "/controller_epoch", "0"),
        *(
            change(2 + broker, session, "create", f"/brokers/ids/{broker}", {}, owner=session)
            for broker, session in ((1, FIRST), (2, SECOND), (3, THIRD))
        ),
        change(6, FIRST, "create", "/controller", {"brokerid": 1}, owner=FIRST),
        change(6, FIRST, "set", "/controller_epoch", "1", version=1),
        change(7, FIRST, "create", SETTINGS, {"config": {"unclean.leader.election.enable": "false"}}),
        change(7, FIRST, "create", TOPIC, replicas),
        change(8, FIRST, "create", STATE, json.loads(state(8, FIRST, 1, 0, [1, 2, 3])["data"])),
        change(9, FIRST, "delete", "/brokers/ids/1", None),
        change(9, FIRST, "delete", "/controller", None),
        change(10, SECOND, "create", "/controller", {"brokerid": 2}, owner=SECOND),
        change(10, SECOND, "set", "/controller_epoch", "2", version=2),
        state(11, SECOND, 2, 1, [2, 3], by=2),
        change(12, FIRST + 1, "create", "/brokers/ids/1", {}, owner=FIRST + 1),
        change(12, SECOND, "set", TOPIC, {"version": 1, "partitions": {"0": [3, 2, 1]}}),
        state(13, SECOND, 3, 2, [2, 3], by=2),
        state(14, THIRD, 3, 2, [3], by=2),
        change(15, THIRD, "create", f"{isr}0", notice, ms=20_000),
        state(16, THIRD, 3, 2, [3, 1], by=2, ms=21_000),
        change(17, THIRD, "create", f"{isr}1", notice, ms=27_000),
        *(change(18, SECOND, "delete", f"{isr}{n}", None, ms=28_000) for n in range(2)),
        change(200, SECOND, "create", "/admin/delete_topics/other"),
    ]


def judged(rows: Rows, **others: Rows) -> Tally:
    return of_all(CHECKS, Evidence(tables({"znodes": rows} | others)))


def refused(rows: Rows) -> dict[str, int]:
    found = judged(rows)
    assert not found.doubts
    return dict(+found.refused)


def test_what_kafka_writes_is_accepted_and_each_rule_is_asked() -> None:
    found = judged(log())
    assert (found.in_logs, found.doubts) == ([], [])
    assert set(found.asked) == set(CHECKS)
    assert found.asked["znode-writer"] == 5
    assert found.asked["in-sync-change-noticed"] == 2


def put(zxid: int, row: dict[str, Any]) -> Callable[[Rows], Rows]:
    """Another row in place of that with this zxid."""
    return lambda rows: [row if one["zxid"] == zxid else one for one in rows]


def without(*zxids: int) -> Callable[[Rows], Rows]:
    return lambda rows: [one for one in rows if one["zxid"] not in zxids]


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        (put(13, state(13, SECOND, 3, 1, [2, 3], by=2)), "znode-leader-epoch-rises"),  # another leader
        (put(13, state(13, SECOND, 2, 0, [2, 3], by=2)), "znode-leader-epoch-rises"),  # it falls
        (put(13, state(13, SECOND, 3, 2, [2, 3], by=0)), "znode-leader-epoch-rises"),  # the controller's
        (put(11, state(11, SECOND, 2, 1, [3], by=2)), "znode-in-sync-set"),  # the leader is not in sync
        (put(11, state(11, SECOND, 2, 1, [2, 9], by=2)), "znode-in-sync-set"),  # 9 never was a replica
        (put(16, state(16, SECOND, 2, 3, [2], by=2)), "znode-unclean-election"),  # 2 was out of sync
        (put(13, state(13, FIRST + 1, 3, 2, [2, 3], by=2)), "znode-writer"),  # neither controller nor leader
        (put(11, state(11, FIRST, 2, 1, [2, 3], by=2)), "znode-writer"),  # a former controller
    ],
)
def test_each_rule_refuses_what_breaks_it_alone(wrong: Callable[[Rows], Rows], rule: str) -> None:
    found = refused(wrong(log()))
    # the state of zxid 11 is judged again as its replicas are reordered
    assert found.pop(rule) == (2 if rule == "znode-in-sync-set" else 1)
    assert not found.keys() - {"znode-unclean-election", "znode-leader-epoch-rises"}, "a consequence"


def test_an_unclean_election_is_judged_by_the_settings_of_the_topic() -> None:
    """As they were then. Where the topic has none, those of the brokers count, if they are known."""
    rows = put(16, state(16, SECOND, 2, 3, [2], by=2))(log())

    def said(zxid: int, enabled: str) -> dict[str, Any]:
        return change(zxid, SECOND, "set", SETTINGS, {"config": {"unclean.leader.election.enable": enabled}})

    def at(*settings: dict[str, Any]) -> dict[str, int]:
        """The log with other settings of the topic."""
        return refused(sorted([*rows, *settings], key=lambda row: row["zxid"]))

    assert at(said(9, "true")) == at(said(15, "true")) == {}
    assert at(said(15, "true"), said(200, "false")) == {}, "it was allowed then"
    assert at(said(200, "true")) == at(said(9, "true"), said(10, "false")) == {"znode-unclean-election": 1}
    silent = [row for row in rows if row["path"] != SETTINGS]
    assert {doubt.check for doubt in judged(silent).doubts} == {"znode-unclean-election"}


def test_a_broker_that_dies_need_not_tell() -> None:
    gone = change(19, THIRD, "delete", "/brokers/ids/3", None)
    assert refused([*without(15, 16, 17, 200)(log()), gone, *log()[-1:]]) == {}


def test_a_session_of_no_broker_leaves_the_writer_open() -> None:
    found = judged(put(13, state(13, 99, 3, 2, [2, 3], by=2))(log()))
    assert {doubt.check for doubt in found.doubts} == {"znode-writer"}


@pytest.mark.parametrize("data", ["{", '{"leader":3}', '{"leader":3,"leader_epoch":2,"controller_epoch":2}'])
def test_a_state_that_cannot_be_read_leaves_its_partition_open(data: str) -> None:
    rows = put(13, state(13, SECOND, 3, 2, [2, 3], by=2) | {"data": data})(log())
    about_notices = {accept_notices.NOTICE, accept_notices.HELD_BACK}
    expected = {*accept_znodes.CHECKS, *accept_leaders.CHECKS, *about_notices}
    assert {doubt.check for doubt in judged(rows).doubts} == expected
    assert elections(Evidence(tables({"znodes": rows})), TP).unknown == "a znode of t-0 cannot be read"


def test_a_log_that_begins_later_is_not_judged() -> None:
    found = judged(log()[1:])
    assert not found.in_logs
    assert {doubt.check for doubt in found.doubts} == set(CHECKS)


def test_of_an_ensemble_the_log_that_goes_furthest_counts() -> None:
    behind = [row | {"node": 5} for row in log() if row["zxid"] < 11]
    assert judged([*behind, *log()]).asked == judged(log()).asked


def after(zxid: int, node: int) -> Rows:
    """The log of a node of ZooKeeper that has nothing up to there: it got a snapshot."""
    return [row | {"node": node} for row in log() if row["zxid"] > zxid]


def test_of_an_ensemble_a_log_without_its_beginning_does_not_count() -> None:
    """The first node was away for long; both go as far."""
    whole = [row | {"node": 5} for row in log()]
    assert judged([*after(12, 4), *whole]).asked == judged(log()).asked
    assert not judged([*after(12, 4), *whole]).doubts


def test_of_an_ensemble_none_counts_that_lacks_what_another_one_has() -> None:
    """What came after its end: that is unknown where no log has both."""
    some = [row | {"node": 5} for row in log() if row["zxid"] < 13]
    assert {doubt.check for doubt in judged([*some, *after(12, 4)]).doubts} == set(CHECKS)
    longer = [row | {"node": 5} for row in log() if row["zxid"] < 19]
    found = judged([*longer, *after(12, 4)])
    assert (found.asked["znode-writer"], found.doubts) == (5, [])


def cut(node: int) -> dict[str, Any]:
    """A file of a node of ZooKeeper that cannot be read to its end."""
    return {"take": 0, "node": node, "file": "version-2/log.1", "position": 900, "why": "it is cut"}


def test_a_log_that_is_damaged_may_lack_its_end() -> None:
    """A leader epoch that it does not have may have been given all the same."""
    rows = [row for row in log() if row["zxid"] < 13]
    found = judged(rows, damage=[cut(4)])
    assert (found.in_logs, found.asked.total()) == ([], 0)
    assert {doubt.check for doubt in found.doubts} == set(CHECKS)
    evidence = Evidence(tables({"znodes": rows, "damage": [cut(4)]}))
    assert elections(evidence, TP).unknown
    assert {doubt.check for doubt in judged([], damage=[cut(4)]).doubts} == set(CHECKS), "nothing of it"
    of_a_broker = cut(3) | {"file": "version-2/00000000000000000000.log"}
    assert not judged(log(), damage=[of_a_broker]).doubts


@pytest.mark.parametrize(("others", "known"), [((5,), False), ((5, 6), True)])
def test_of_an_ensemble_a_majority_has_what_a_damaged_log_lacks(others: tuple[int, ...], known: bool) -> None:
    whole = [row | {"node": node} for node in others for row in log()]
    found = judged([*whole, *log()], damage=[cut(4)])
    assert found.asked == (judged(log()).asked if known else {})
    assert bool(found.doubts) is not known


@pytest.mark.parametrize(
    ("path", "data"),
    [
        (STATE, {"leader": True, "leader_epoch": 3, "controller_epoch": 2, "isr": [3]}),
        (STATE, {"leader": None, "leader_epoch": 3, "controller_epoch": 2, "isr": [3]}),
        (STATE, [1]),
        (TOPIC, {"partitions": {"0": None, "x": [1]}}),
        (SETTINGS, {"config": {"min.insync.replicas": 2, "unclean.leader.election.enable": False}}),
        (SETTINGS, {"config": []}),
        ("/controller", {"brokerid": "2"}),
        ("/controller_epoch", "two"),
        ("/isr_change_notification/isr_change_9", {"partitions": [{"topic": "t", "partition": None}, 1]}),
        ("/admin/reassign_partitions", {"partitions": [{"topic": "t"}, {"partition": "0"}]}),
        ("/brokers/ids/2", "{"),
    ],
)
def test_what_no_broker_writes_is_read_without_a_crash(path: str, data: object) -> None:
    op = "create" if path.startswith(("/isr", "/admin")) else "set"
    rows = [*log(), change(201, SECOND, op, path, data, version=9)]
    judged(rows)  # raises where a rule crashes
    assert elections(Evidence(tables({"znodes": rows})), TP).topics == 1


# ---- what others make of it


def test_elections_are_those_of_the_znodes() -> None:
    found = elections(Evidence(tables({"znodes": log()})), TP)
    assert [(one.epoch, one.leader) for one in found.found] == [(0, 1), (1, 2), (2, 3)]
    assert all(one.clean for one in found.found)
    assert (found.unknown, set(found.in_sync), found.topics, found.removed) == ("", {1, 3}, 1, False)
    assert not found.may_lose()
    unclean = put(16, state(16, SECOND, 2, 3, [2], by=2))(log())
    assert "unclean" in elections(Evidence(tables({"znodes": unclean})), TP).may_lose()
    of_another = elections(Evidence(tables({"znodes": log()})), TopicPartition("u", 0))
    assert of_another.unknown == "the log of ZooKeeper has no partition u-0"


@pytest.mark.parametrize(("minimum", "lost"), [("1", True), ("2", False)])
def test_a_loss_of_power_takes_what_too_few_others_have(minimum: str, lost: bool) -> None:
    said = {"config": {"min.insync.replicas": minimum}}
    rows = [*log(), change(201, SECOND, "set", SETTINGS, said)]
    takes = [
        {"take": 0, "node": node, "at_ns": 1, "why": why} for node, why in ((1, LOST_POWER), (2, KILLED))
    ]
    found = elections(Evidence(tables({"znodes": rows, "takes": takes})), TP)
    assert bool(found.may_lose()) is lost


def test_the_lowest_minimum_is_that_since_the_partitions_were_made() -> None:
    """What was set later was not in force before; the settings of a topic go with it."""

    def least(rows: Rows) -> tuple[int, int]:
        found = elections(Evidence(tables({"znodes": rows})), TP)
        return found.minimum, found.least

    def minimum(zxid: int, how: str, value: int) -> dict[str, Any]:
        return change(zxid, SECOND, how, SETTINGS, {"config": {"min.insync.replicas": str(value)}})

    rows = [row for row in log() if row["path"] != SETTINGS]
    (made,) = [at for at, row in enumerate(rows) if (row["path"], row["op"]) == (TOPIC, "create")]
    begun = [*rows[:made], minimum(7, "create", 3), *rows[made:]]
    assert least(begun) == (3, 3)
    assert least([*begun, minimum(201, "set", 2), minimum(202, "set", 4)]) == (4, 2)
    assert least([*rows, minimum(201, "create", 3)]) == (3, 1)
    gone = [change(201, SECOND, "delete", path, None) for path in (SETTINGS, STATE, TOPIC)]
    again = [change(203, SECOND, "create", TOPIC, {"partitions": {"0": [2, 3]}})]
    state_again = state(204, SECOND, 2, 0, [2], by=2) | {"op": "create"}
    assert least([*begun, *gone, *again, state_again]) == (1, 1)


def test_a_topic_that_is_made_again_has_a_new_life_in_the_log() -> None:
    first = {"leader": 2, "leader_epoch": 0, "isr": [2], "controller_epoch": 2}
    again = [
        change(201, SECOND, "delete", STATE, None),
        change(202, SECOND, "delete", TOPIC, None),
        change(203, SECOND, "create", TOPIC, {"partitions": {"0": [2, 3]}}),
        change(204, SECOND, "create", STATE, first),
    ]
    assert refused([*log(), *again]) == {}
    found = elections(Evidence(tables({"znodes": [*log(), *again]})), TP)
    assert ([one.leader for one in found.found], found.topics, found.removed) == ([2], 2, False)
    assert elections(Evidence(tables({"znodes": [*log(), *again[:2]]})), TP).removed


def test_topics_have_ids_since_2_8_and_keep_them_when_they_are_gone() -> None:
    rows = [
        *log(),
        change(201, SECOND, "create", "/brokers/topics/u", {"partitions": {"0": [2]}, "topic_id": "U"}),
        change(202, SECOND, "delete", "/brokers/topics/u", None),
    ]
    found = zookeeper_log(Evidence(tables({"znodes": rows})))
    assert found is not None
    assert found.names == {"U": "u"}


def test_a_coordinator_that_remains_leader_keeps_the_epoch_since_which_it_leads() -> None:
    rows = [*log(), state(205, SECOND, 3, 3, [3], by=2), state(206, SECOND, -1, 4, [3], by=2)]
    found = elections(Evidence(tables({"znodes": [*rows, state(207, SECOND, 3, 5, [3], by=2)]})), TP)
    assert [found.led_since(epoch) for epoch in (0, 1, 2, 3, 5)] == [0, 1, 2, 2, 2]


def test_replicas_come_and_go_by_the_znode_of_the_topic() -> None:
    moved = change(201, SECOND, "set", TOPIC, {"partitions": {"0": [1, 2]}, "adding_replicas": {"0": [2]}})
    states = zookeeper_log(Evidence(tables({"znodes": [*log(), moved]})))
    assert states is not None
    last = states.states[TP][-1]
    assert (last.state.replicas, last.state.adding, last.own) == ((1, 2), (2,), False)


@pytest.mark.sampled(32)
@pytest.mark.parametrize("era", ["0.11", "2.4"])
def test_a_simulated_cluster_with_zookeeper_is_accepted(era: str) -> None:
    given = {"workload": "transactions", "preset": "safe", "nemesis": "kill:one@leader,partition", "seed": 3}
    done = simulate(run_config({**BASE, **given, "era": era, "duration_s": 8}))
    tally = checked(done, logs=True)
    assert not +tally.refused
    asked = {"znode-leader-epoch-rises", "znode-writer", "controller-epoch-rises", "placed-in-turn"}
    asked |= {"controller-names-its-broker", "first-live-in-sync-leads", "gone-leads-nothing"}
    assert asked <= {name for name, many in tally.asked.items() if many}
