"""Grudges as data: who still hears whom after the cuts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.capabilities import Cut, Direction, Listener
from core.cluster import Roles
from core.op import TopicPartition
from nemesis.families.partition import METADATA, PARTITION, Grudge, every_cut, ordered, ring, split, unfed
from nemesis.registry import NEMESES
from nemesis.types import AimedFault, ClusterView, NoTarget, PlannedFault, WorkloadNames

UNHURRIED = settings(deadline=None)  # the machine may be loaded

FIVE = (1, 2, 3, 4, 5)
CONCRETE = [name for name, kind in PARTITION.kinds.items() if not kind.stands_for]


def cut(node: int, direction: str, peer: int | None) -> Cut:
    return Cut(node=node, direction=Direction(direction), peer=peer)


def heard(nodes: tuple[int, ...], cuts: Grudge) -> dict[int, set[int]]:
    """Whose packets reach each node, its own included."""
    return {
        node: {
            peer
            for peer in nodes
            if peer == node or not (cut(node, "in", peer) in cuts or cut(peer, "out", node) in cuts)
        }
        for node in nodes
    }


def linked(nodes: tuple[int, ...], cuts: Grudge) -> dict[int, set[int]]:
    """With whom each node can hold a connection, itself included."""
    hears = heard(nodes, cuts)
    return {node: {peer for peer in hears[node] if node in hears[peer]} for node in nodes}


def symmetric(cuts: Grudge) -> bool:
    return all(c.peer is not None and cut(c.peer, c.direction, c.node) in cuts for c in cuts)


def test_a_split_cuts_both_ends_of_every_link_between_its_sides() -> None:
    assert split([2], [1, 3]) == {cut(2, "in", 1), cut(2, "in", 3), cut(1, "in", 2), cut(3, "in", 2)}


def test_one_node_alone_has_nobody_to_be_cut_off_from() -> None:
    assert split([1], []) == frozenset()


def test_split_leaves_each_side_whole() -> None:
    assert linked(FIVE, split((1, 4), (2, 3, 5))) == {
        1: {1, 4},
        4: {1, 4},
        2: {2, 3, 5},
        3: {2, 3, 5},
        5: {2, 3, 5},
    }


def test_bridge_of_three_cuts_one_link() -> None:
    assert set(aimed("bridge", "controller", (1, 2, 3)).cuts) == {cut(1, "in", 2), cut(2, "in", 1)}


def test_ring_of_five_links_neighbours() -> None:
    assert linked(FIVE, ring([1, 3, 5, 2, 4])) == {
        1: {4, 1, 3},
        3: {1, 3, 5},
        5: {3, 5, 2},
        2: {5, 2, 4},
        4: {2, 4, 1},
    }


def test_ring_of_three_leaves_no_connection() -> None:
    nodes = (1, 2, 3)
    assert heard(nodes, ring([1, 2, 3])) == {1: {1, 2}, 2: {2, 3}, 3: {3, 1}}
    assert linked(nodes, ring([1, 2, 3])) == {1: {1}, 2: {2}, 3: {3}}


@UNHURRIED
@given(st.integers(3, 9).flatmap(lambda n: st.permutations(range(1, n + 1))))
def test_ring_each_hears_a_majority_and_no_two_the_same(order: list[int]) -> None:
    nodes = tuple(sorted(order))
    cuts = ring(order)
    sets = (heard if len(nodes) == 3 else linked)(nodes, cuts)
    assert all(len(peers) > len(nodes) // 2 for peers in sets.values())
    assert len({frozenset(peers) for peers in sets.values()}) == len(nodes)
    assert symmetric(cuts) == (len(nodes) > 3)


@UNHURRIED
@given(st.integers(2, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n))))
def test_isolated_node_is_linked_to_nobody_and_the_rest_is_whole(case: tuple[int, int]) -> None:
    nodes, alone = tuple(range(1, case[0] + 1)), case[1]
    cuts = split([alone], set(nodes) - {alone})
    assert symmetric(cuts)
    rest = set(nodes) - {alone}
    assert linked(nodes, cuts) == {node: {alone} if node == alone else rest for node in nodes}


@pytest.mark.parametrize("direction", Direction)
def test_one_way_acts_on_the_target_only_and_in_one_direction(direction: Direction) -> None:
    cuts = frozenset(aimed(f"one-way-{direction}", "leader").cuts)
    assert {(c.node, c.direction) for c in cuts} == {(2, direction)}
    hears = heard(FIVE, cuts)
    if direction is Direction.IN:
        assert hears[2] == {2}
        assert all(2 in hears[node] for node in FIVE)
    else:
        assert hears[2] == set(FIVE)
        assert all(2 not in hears[node] for node in FIVE if node != 2)


def test_clients_cut_leaves_links_between_nodes_whole() -> None:
    for kind, direction in (("clients-requests", "in"), ("clients-responses", "out")):
        cuts = frozenset(aimed(kind, "leader").cuts)
        assert cuts == {cut(2, direction, None)}
        assert linked(FIVE, cuts) == {node: set(FIVE) for node in FIVE}


def test_order_of_cuts_is_fixed() -> None:
    cuts = [cut(2, "out", None), cut(2, "in", 1), cut(1, "in", 2), cut(2, "in", None)]
    assert ordered(cuts) == ordered(reversed(cuts)) == (cuts[2], cuts[3], cuts[0], cuts[1])


# ---- aimed


def aimed(
    kind: str, target: str, nodes: tuple[int, ...] = FIVE, seed: int = 0, *, controllers: tuple[int, ...] = ()
) -> AimedFault:
    leaders = {TopicPartition("q", 0): 2, TopicPartition("q", 1): 3}
    controller = controllers[-1] if controllers else 3
    roles = Roles(ns=0, leaders=leaders, controller=controller, answering=nodes, agreed=True)
    step = PlannedFault(
        fault=0,
        name=f"partition:{kind}@{target}",
        family="partition",
        kind=kind,
        target=target,
        at_s=1,
        hold_s=6,
        seed=seed,
    )
    effect = NEMESES["partition"].effect
    assert effect is not None
    names = WorkloadNames(data=(TopicPartition("q", 0),))
    return effect.aim(
        step, ClusterView(nodes=(*nodes, *controllers), brokers=nodes, roles=roles, names=names)
    )


def test_every_kind_can_be_aimed() -> None:
    hits = {kind: aimed(kind, "controller") for kind in CONCRETE if kind != METADATA}
    assert {kind for kind, hit in hits.items() if not hit.cuts} == set()
    assert hits["isolate"].nodes == hits["one-way-in"].nodes == (3,)
    assert set(hits["isolate"].cuts) == split([3], [1, 2, 4, 5])
    assert set(hits["one-way-in"].cuts) == {cut(3, "in", peer) for peer in (1, 2, 4, 5)}
    assert set(hits["one-way-out"].cuts) == {cut(3, "out", peer) for peer in (1, 2, 4, 5)}


def test_what_aimed_cuts_can_be_is_what_a_full_heal_mends() -> None:
    everything = every_cut(FIVE)
    assert len(set(everything)) == len(everything) == 5 * 2 * 5 + 5 * 4 + 5
    assert set(unfed(2, FIVE)) <= set(everything)
    assert Cut(node=3, direction=Direction.IN, opening=True) in everything
    for kind in CONCRETE:
        if kind == METADATA:
            continue
        for seed in range(20):
            assert set(aimed(kind, "random", seed=seed).cuts) <= set(everything)


@UNHURRIED
@given(st.integers(2, 9), st.integers(0, 2**32 - 1))
def test_halves_put_the_target_in_the_smaller_half(size: int, seed: int) -> None:
    nodes = tuple(range(1, size + 1))
    hit = aimed("halves", "leader", nodes, seed)
    assert 2 in hit.nodes
    assert len(hit.nodes) == size // 2
    assert set(hit.cuts) == split(hit.nodes, set(nodes) - set(hit.nodes))


@UNHURRIED
@given(st.integers(3, 9), st.integers(0, 2**32 - 1))
def test_bridge_joins_two_sides_of_nearly_one_size(size: int, seed: int) -> None:
    nodes = tuple(range(1, size + 1))
    cuts = frozenset(aimed("bridge", "controller", nodes, seed).cuts)
    links = linked(nodes, cuts)
    assert links[3] == set(nodes)
    sides = {frozenset(peers) for node, peers in links.items() if node != 3}
    assert len(sides) == 2
    small, large = sorted(len(side) - 1 for side in sides)
    assert (small, large) == ((size - 1) // 2, size // 2)


def test_another_seed_divides_otherwise() -> None:
    assert len({aimed("halves", "leader", seed=seed).nodes for seed in range(30)}) == 4
    assert len({aimed("ring", "", seed=seed).cuts for seed in range(30)}) > 4


def test_texts_say_what_a_kind_comes_to_with_few_nodes() -> None:
    assert "one node alone" in aimed("halves", "leader", (1, 2, 3)).text
    assert "every connection is cut" in aimed("ring", "", (1, 2, 3)).text
    assert "neither half is a majority" in aimed("halves", "leader", (1, 2, 3, 4)).text
    assert "one node alone" not in aimed("halves", "leader").text
    assert "every connection is cut" not in aimed("ring", "").text


def test_text_names_the_roles_that_are_hit() -> None:
    assert aimed("isolate", "leader").text == (
        "node 2 (leader of q-0) is cut off from all other nodes, not from clients"
    )
    assert aimed("clients-responses", "controller").text == (
        "node 3 (controller) drops all its responses to clients, and is linked to all nodes"
    )


def test_a_role_that_nobody_has_is_no_target() -> None:
    with pytest.raises(NoTarget, match="group-coordinator: the workload has no consumer groups"):
        aimed("isolate", "group-coordinator")


def test_a_leader_is_unfed_at_its_own_end_of_the_listener_between_brokers() -> None:
    assert unfed(2, (1, 2, 3)) == {
        Cut(node=2, direction=Direction.IN, peer=1, listener=Listener.BROKER),
        Cut(node=2, direction=Direction.IN, peer=3, listener=Listener.BROKER),
    }


# ---- isolated controllers

THREE = (1, 2, 3)


def test_an_isolated_broker_is_cut_off_the_controllers_too() -> None:
    hit = aimed("isolate", "leader", THREE, controllers=(4, 5, 6))
    assert set(hit.cuts) == split([2], [1, 3, 4, 5, 6])
    assert linked((1, 2, 3, 4, 5, 6), frozenset(hit.cuts))[2] == {2}


def test_a_broker_can_be_cut_off_from_those_who_keep_the_metadata_alone() -> None:
    hit = aimed(METADATA, "leader", THREE, controllers=(4, 5))
    assert linked((1, 2, 3, 4, 5), frozenset(hit.cuts)) == {
        1: {1, 2, 3, 4, 5},
        2: {1, 2, 3},
        3: {1, 2, 3, 4, 5},
        4: {1, 3, 4, 5},
        5: {1, 3, 4, 5},
    }
    assert set(hit.cuts) <= set(every_cut((1, 2, 3, 4, 5)))
    assert hit.text == "node 2 (leader of q-0) is cut off from the controllers alone"
    with pytest.raises(NoTarget, match="all nodes of the cluster are brokers"):
        aimed(METADATA, "leader", THREE)
    with pytest.raises(NoTarget, match="not a broker"):
        aimed(METADATA, "controller", THREE, controllers=(4,))


def test_an_isolated_controller_can_be_cut_off() -> None:
    for kind in ("isolate", "one-way-in", "one-way-out"):
        hit = aimed(kind, "controller", THREE, controllers=(4, 5, 6))
        assert hit.nodes == (6,)
        assert {peer for cut in hit.cuts for peer in (cut.node, cut.peer)} == {1, 2, 3, 4, 5, 6}
    assert aimed("isolate", "controller", THREE, controllers=(4,)).text == (
        "node 4 (controller) is cut off from all other nodes"
    )


def test_clients_are_cut_off_brokers_only() -> None:
    for kind in ("clients-requests", "clients-responses"):
        with pytest.raises(NoTarget, match="controller: node 6, which is not a broker"):
            aimed(kind, "controller", THREE, controllers=(4, 5, 6))
        nodes = {aimed(kind, "random", THREE, s, controllers=(4, 5, 6)).nodes for s in range(30)}
        assert nodes == {(1,), (2,), (3,)}


@UNHURRIED
@given(st.integers(2, 9), st.sampled_from([1, 3]), st.booleans(), st.integers(0, 2**32 - 1))
def test_halves_divide_brokers_and_controllers(
    size: int, voters: int, at_controller: bool, seed: int
) -> None:
    nodes = tuple(range(1, size + 1))
    controllers = tuple(range(size + 1, size + voters + 1))
    target = "controller" if at_controller else "leader"
    hit = aimed("halves", target, nodes, seed, controllers=controllers)
    small = set(hit.nodes)
    assert (controllers[-1] if at_controller else 2) in small
    assert len(small & set(nodes)) == size // 2
    assert len(small & set(controllers)) == (1 if at_controller else voters // 2)
    assert set(hit.cuts) == split(small, {*nodes, *controllers} - small)
    assert f"{len(small & set(controllers))} of {voters} controllers" in hit.text


@UNHURRIED
@given(st.integers(3, 9), st.sampled_from([1, 3]), st.integers(0, 2**32 - 1))
def test_a_bridge_divides_brokers_and_controllers(size: int, voters: int, seed: int) -> None:
    nodes = tuple(range(1, size + 1))
    controllers = tuple(range(size + 1, size + voters + 1))
    hit = aimed("bridge", "leader", nodes, seed, controllers=controllers)
    links = linked((*nodes, *controllers), frozenset(hit.cuts))
    assert links[2] == {*nodes, *controllers}
    sides = {frozenset(peers - {2}) for node, peers in links.items() if node != 2}
    assert len(sides) == 2
    for sort in (set(nodes) - {2}, set(controllers)):
        small, large = sorted(len(side & sort) for side in sides)
        assert large - small <= 1


def test_a_ring_is_one_of_brokers_and_leaves_controllers_alone() -> None:
    hit = aimed("ring", "", FIVE, controllers=(6, 7, 8))
    assert {peer for cut in hit.cuts for peer in (cut.node, cut.peer)} == set(FIVE)
    assert hit.text.endswith("; the controllers are linked to all")
