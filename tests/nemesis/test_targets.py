"""From symbolic targets to nodes."""

import random
from dataclasses import replace

import pytest

from core.cluster import Roles
from core.config import run_config
from core.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC
from core.java_hash import java_hash
from core.op import TopicPartition
from nemesis.registry import NEMESES
from nemesis.targets import TARGETS, Aim, described, find, listed, replicas, unnamed, unreplicated
from nemesis.types import ClusterView, NoTarget, WorkloadNames

NODES = (1, 2, 3)
DATA = tuple(TopicPartition("q", number) for number in range(6))
NAMES = WorkloadNames(data=DATA, transactional_ids=("tx-0", "tx-1"), groups=("g",))
INTERNAL = {TopicPartition(TRANSACTION_TOPIC, n): n % 3 + 1 for n in range(5)} | {
    TopicPartition(GROUP_TOPIC, n): (n + 1) % 3 + 1 for n in range(5)
}


def scene(
    leaders: dict[TopicPartition, int] | None = None,
    controller: int = 3,
    answering: tuple[int, ...] = NODES,
    names: WorkloadNames = NAMES,
    controllers: tuple[int, ...] = (),
) -> ClusterView:
    default = {tp: tp.partition % 2 + 1 for tp in DATA}
    known = (default if leaders is None else leaders) | INTERNAL
    roles = Roles(ns=0, leaders=known, controller=controller, answering=answering)
    return ClusterView(nodes=(*NODES, *controllers), brokers=NODES, roles=roles, names=names)


def drawn(
    target: str, at: ClusterView, *, answering: bool = False, brokers: bool = False, times: int = 200
) -> set[Aim]:
    return {find(target, random.Random(i), at, answering=answering, brokers=brokers) for i in range(times)}


def test_random_draws_every_node_that_answers() -> None:
    assert drawn("random", scene()) == {Aim(1), Aim(2), Aim(3)}
    assert drawn("random", scene(answering=(3, 1))) == {Aim(1), Aim(3)}


def test_random_draws_any_node_where_none_answers_unless_it_has_to() -> None:
    assert drawn("random", scene(answering=())) == {Aim(1), Aim(2), Aim(3)}
    with pytest.raises(NoTarget, match="no node answers"):
        find("random", random.Random(0), scene(answering=()), answering=True)


def held(down: tuple[int, ...], at: ClusterView) -> ClusterView:
    return replace(at, down=down)


def test_a_node_that_another_fault_holds_down_is_no_target() -> None:
    """Brokers may still name it, and nothing says of an isolated controller that it is down."""
    at = held((2, 5), scene(controllers=(4, 5)))
    for answering in (False, True):
        assert drawn("random", at, answering=answering) == {Aim(1), Aim(3), Aim(4)}
        assert {aim.node for aim in drawn("leader", at, answering=answering)} == {1}
        with pytest.raises(NoTarget, match="controller: node 5, which another fault holds down"):
            find("controller", random.Random(0), replace(at, roles=replace(at.roles, controller=5)))
    assert drawn("random", held(NODES[:2], scene(answering=()))) == {Aim(3)}
    for answering, why in ((False, "other faults hold nodes 1, 2 and 3 down"), (True, "no node answers")):
        with pytest.raises(NoTarget, match=why):
            find("random", random.Random(0), held(NODES, scene()), answering=answering)


def test_leader_is_one_of_the_workloads_partitions_never_an_internal_ones() -> None:
    assert drawn("leader", scene()) == {Aim(tp.partition % 2 + 1, f"leader of {tp}") for tp in DATA}


def test_a_partition_without_leader_is_passed_over() -> None:
    leaders = dict.fromkeys(DATA, -1) | {DATA[4]: 2}
    assert drawn("leader", scene(leaders)) == {Aim(2, "leader of q-4")}


def test_no_leader_known_is_no_target() -> None:
    for leaders in (dict.fromkeys(DATA, -1), {}):
        with pytest.raises(NoTarget, match="leader: no node is known to have this role now"):
            find("leader", random.Random(0), scene(leaders))


def replica_sets(of: dict[TopicPartition, tuple[int, ...]], names: WorkloadNames = NAMES) -> set[str]:
    """One replica of each partition is in sync."""
    nodes = (1, 2, 3, 4, 5)
    isr = {tp: its[:1] for tp, its in of.items()}
    roles = Roles(ns=0, leaders=INTERNAL, isr=isr, replicas=of, controller=5, answering=nodes)
    at = ClusterView(nodes=nodes, brokers=nodes, roles=roles, names=names)
    drawn = [replicas(random.Random(seed), at) for seed in range(50)]
    assert all(sorted(of[tp]) == nodes_ for tp, nodes_ in drawn)
    return {str(tp) for tp, _ in drawn}


def test_all_replicas_of_a_partition_that_a_coordinator_outlives() -> None:
    """The coordinators of these names are among 1, 2 and 3."""
    of = {DATA[0]: (3, 1, 2), DATA[1]: (5, 4, 3), DATA[2]: (4, 5, 1), DATA[3]: ()}
    assert replica_sets(of) == {"q-1", "q-2"}
    assert replica_sets(of, WorkloadNames(data=DATA)) == {"q-0", "q-1", "q-2"}  # without coordinators
    with pytest.raises(NoTarget, match="no partition has all its replicas beside a coordinator"):
        replica_sets({DATA[0]: (3, 1, 2), DATA[1]: (1, 2, 3, 4, 5)})


@pytest.mark.parametrize(("copies", "refused"), [(3, False), (4, True)])
def test_a_partition_on_all_brokers_leaves_no_coordinator_alive(copies: int, refused: bool) -> None:
    config = run_config({"seed": 1, "brokers": 4, "replication_factor": copies})
    for family in ("kill", "restart"):
        assert bool(NEMESES[family].kinds["replicas"].refuses(config)) == refused


def test_controller() -> None:
    assert drawn("controller", scene(controller=2)) == {Aim(2, "controller")}
    with pytest.raises(NoTarget, match="controller: no node is known"):
        find("controller", random.Random(0), scene(controller=-1))


@pytest.mark.parametrize(
    ("target", "role", "ids", "shift"),
    [
        ("txn-coordinator", "transaction coordinator", ("tx-0", "tx-1"), 0),
        ("group-coordinator", "group coordinator", ("g",), 1),
    ],
)
def test_coordinators_are_found_by_kafkas_hash(
    target: str, role: str, ids: tuple[str, ...], shift: int
) -> None:
    expected = {Aim((java_hash(name) % 5 + shift) % 3 + 1, f"{role} of {name}") for name in ids}
    assert drawn(target, scene()) == expected


@pytest.mark.parametrize("target", ["leader", "txn-coordinator", "group-coordinator"])
def test_a_workload_without_such_names_has_no_such_target(target: str) -> None:
    with pytest.raises(NoTarget, match=f"{target}: the workload has no"):
        find(target, random.Random(0), scene(names=WorkloadNames()))


def test_who_has_to_answer() -> None:
    at = scene(answering=(1, 3))
    assert {aim.node for aim in drawn("leader", at)} == {1, 2}
    assert {aim.node for aim in drawn("leader", at, answering=True)} == {1}
    with pytest.raises(NoTarget, match="leader: node 2, which does not answer"):
        find("leader", random.Random(0), scene({DATA[0]: 2}, answering=(1, 3)), answering=True)


def test_the_same_seed_finds_the_same_whatever_the_order_of_what_is_known() -> None:
    leaders = {tp: tp.partition % 3 + 1 for tp in DATA}
    turned = dict(reversed(leaders.items()))
    names = WorkloadNames(data=DATA[::-1])
    for seed in range(20):
        first = find("leader", random.Random(seed), scene(leaders))
        assert find("leader", random.Random(seed), scene(turned, names=names)) == first


def test_every_target_in_the_registry_is_found() -> None:
    for target in TARGETS:
        assert find(target, random.Random(0), scene()).node in NODES
    with pytest.raises(ValueError, match="unknown target 'follower'"):
        find("follower", random.Random(0), scene())


def test_what_a_workload_lacks() -> None:
    assert {target: unnamed(target, WorkloadNames()) for target in TARGETS} == {
        "random": "",
        "leader": "partitions",
        "controller": "",
        "txn-coordinator": "transactional ids",
        "group-coordinator": "consumer groups",
    }
    assert [unnamed(target, NAMES) for target in TARGETS] == [""] * 5


def test_described_lists_all_roles_and_the_aimed_one_first() -> None:
    names = WorkloadNames(data=DATA, groups=("g",))  # hash 103: partition 3, led by node 2
    at = scene(dict.fromkeys(DATA, 1), controller=1, names=names)
    assert described(1, at) == "node 1 (leader of q-0, q-1, q-2 and 3 more; controller)"
    assert described(1, at, "leader of q-4") == ("node 1 (leader of q-4, q-0, q-1 and 3 more; controller)")
    assert described(1, at, "controller").startswith("node 1 (controller; leader of q-0")
    assert described(2, at) == "node 2 (group coordinator of g)"
    assert described(3, at) == "node 3"


def test_described_names_the_coordinated_id_that_was_drawn() -> None:
    ids = tuple(f"tx-{n}" for n in range(20))
    at = scene({}, controller=-1, names=WorkloadNames(transactional_ids=ids))
    mine = sorted(name for name in ids if java_hash(name) % 5 % 3 + 1 == 1)
    assert len(mine) > 1
    role = f"transaction coordinator of {mine[-1]}"
    assert described(1, at, role) == f"node 1 ({role} and {len(mine) - 1} more)"


def test_listed() -> None:
    assert listed([2]) == "node 2"
    assert listed([1, 3]) == "nodes 1 and 3"
    assert listed([1, 2, 3]) == "nodes 1, 2 and 3"


# ---- isolated controllers


def test_random_draws_isolated_controllers_where_they_count_as_answering() -> None:
    at = scene(controllers=(4, 5), answering=(1, 3))
    assert {aim.node for aim in drawn("random", at)} == {1, 3, 4, 5}
    assert {aim.node for aim in drawn("random", at, answering=True)} == {1, 3, 4, 5}
    assert {aim.node for aim in drawn("random", at, brokers=True)} == {1, 3}
    silent = scene(controllers=(4, 5), answering=())
    assert {aim.node for aim in drawn("random", silent)} == {1, 2, 3, 4, 5}
    with pytest.raises(NoTarget, match="no node answers"):
        find("random", random.Random(0), silent, answering=True)


def test_an_isolated_controller_has_its_role_and_is_no_broker() -> None:
    at = scene(controllers=(4, 5), controller=5)
    assert drawn("controller", at) == {Aim(5, "controller")}
    assert drawn("controller", at, answering=True) == {Aim(5, "controller")}
    with pytest.raises(NoTarget, match="controller: node 5, which is not a broker"):
        find("controller", random.Random(0), at, brokers=True)


def test_a_partition_of_one_replica_has_nobody_else_to_lead_it() -> None:
    lone = run_config({"seed": 1, "replication_factor": 1, "min_insync_replicas": 1})
    assert "set replication_factor" in unreplicated(lone)
    assert unreplicated(run_config({"seed": 1, "replication_factor": 2})) == ""
