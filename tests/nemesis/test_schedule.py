"""Plans: which faults, when, and that they follow from the seed alone."""

import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from core.capabilities import (
    CAPABILITIES,
    Electable,
    Killable,
    Linked,
    Partitionable,
    Pausable,
    Restartable,
    capabilities_of,
)
from core.config import RunConfig, run_config
from core.errors import ConfigError
from core.generator import source
from core.load_clients import Clients, ClientSlot
from core.op import TopicPartition
from nemesis.execute import missing, needs
from nemesis.families.partition import METADATA
from nemesis.registry import NEMESES
from nemesis.schedule import Deck, FaultName, parse, plan
from nemesis.types import Hold, PlannedFault, WorkloadNames
from tests.nemesis.stage import NAMES

UNHURRIED = hypothesis_settings(deadline=None)  # the machine may be loaded

FAMILIES = (
    "partition",
    "kill",
    "pause",
    "restart",
    "failover",
    "elections",
    "client",
    "links",
    "wire",
    "half-open",
    "unclean",
    "power",
    "reassign",
    "upgrade",
    "slow-follower",
    "add-partitions",
    "delete-records",
    "recreate-topics",
    "disk",
    "quorum",
)
RANDOM = tuple(family for family in FAMILIES[:7] if family != "failover")
"""What `random` draws from."""
WISHES = [
    f"{family}{kind and ':'}{kind}{target and '@'}{target}"
    for family in FAMILIES
    if family != "upgrade"  # which needs another version: test_upgrade
    for kind in ("", *NEMESES[family].kinds)
    for target in ("", *NEMESES[family].targets)
    if not (kind and target) or NEMESES[family].kinds[kind].targeted
    if not target or any(kind.targeted for kind in NEMESES[family].kinds.values())
]
WIDE = (
    "partition:metadata",
    "kill:replicas",
    "restart:replicas",
    "failover:lagging",
    "reassign:move",
    "reassign:grow",
    "reassign:cancel",
)
"""Names that need more than three brokers, nodes that are not brokers, or a lag time of their own."""
SLOW = (
    "restart:rolling",
    "restart:replicas",
    "kill:replicas",
    "client",
    "client:pause",
    "unclean",
    "unclean:lagging",
    "failover",
    "failover:lagging",
    "failover:recovering",
)
"""Names one fault of which may fill a short phase."""
QUICK = [wish for wish in WISHES if wish.partition("@")[0] not in (*SLOW, "partition:metadata")]
WISHES = [wish for wish in WISHES if not wish.startswith(("restart:rolling", *WIDE))]
TEXTS = st.just("random") | st.lists(st.sampled_from(WISHES), min_size=1, max_size=4).map(",".join)
TRANSACTIONAL = WorkloadNames(
    data=(TopicPartition("q", 0),),
    transactional_ids=("tx-0",),
    groups=("group",),
    clients=(ClientSlot(slot=0, transactional_id="tx-0", group="group"), ClientSlot(slot=1)),
)


def configured(seed: int = 0, brokers: int = 5, **settings: object) -> RunConfig:
    usual = {
        "brokers": brokers,
        "unclean_leader_election": True,
        "log_dirs": 2,
        "disk_mb": 128,
        "quorum": "dynamic",
    }
    return run_config({"seed": seed, **usual, **settings})


def by_family(steps: tuple[PlannedFault, ...]) -> dict[str, list[PlannedFault]]:
    found: dict[str, list[PlannedFault]] = {}
    for step in steps:
        found.setdefault(step.family, []).append(step)
    return found


def refused(text: str, brokers: int = 5, **settings: object) -> str:
    config = configured(0, brokers, **settings)
    with pytest.raises(ConfigError) as error:
        plan(text, config)
    return str(error.value)


# ---- properties of every plan


@pytest.mark.sampled(2)
@UNHURRIED
@given(
    text=TEXTS,
    seed=st.integers(0, 2**63 - 1),
    duration_s=st.floats(24, 600),  # the longest fault needs 12 s behind the calm before it
    fault_s=st.floats(0.1, 30),
    calm_s=st.floats(0, 30),
    brokers=st.integers(3, 9),
)
def test_every_plan(
    text: str, seed: int, duration_s: float, fault_s: float, calm_s: float, brokers: int
) -> None:
    config = configured(seed, brokers, duration_s=duration_s, fault_s=fault_s, calm_s=calm_s)
    steps = plan(text, config)
    assert [step.fault for step in steps] == list(range(len(steps)))
    assert [step.at_s for step in steps] == sorted(step.at_s for step in steps)
    wished = set(RANDOM) if text == "random" else {wish.family for wish in parse(text)}
    assert steps
    assert {step.family for step in steps} <= wished
    for step in steps:
        assert step.at_s > 0
        assert step.hold_s > 0
        assert step.at_s + applying(step, brokers) + step.hold_s < duration_s
    for mine in by_family(steps).values():
        for before, after in pairwise(mine):
            assert before.at_s + applying(before, brokers) + before.hold_s < after.at_s


def applying(step: PlannedFault, brokers: int) -> float:
    kind = NEMESES[step.family].kinds[step.kind]
    return kind.apply_s + brokers * kind.apply_each_s


@pytest.mark.sampled(2)
@UNHURRIED
@given(text=TEXTS, seed=st.integers(0, 2**63 - 1), brokers=st.integers(3, 9))
def test_every_name_is_fully_drawn_and_reads_back(text: str, seed: int, brokers: int) -> None:
    for step in plan(text, configured(seed, brokers)):
        kind = NEMESES[step.family].kinds[step.kind]
        assert not kind.stands_for
        assert bool(step.target) == kind.targeted
        assert parse(step.name) == (FaultName(step.family, step.kind, step.target),)


@UNHURRIED
@given(
    text=st.just("random") | st.lists(st.sampled_from(QUICK), min_size=1, max_size=4).map(",".join),
    seed=st.integers(0, 2**63 - 1),
)
@example(text="random", seed=5_931_280_259_537_754)
@example(text="slow-follower:new-leader@random", seed=17)
def test_a_default_phase_of_20_s_has_two_faults_at_least(text: str, seed: int) -> None:
    steps = plan(text, configured(seed, duration_s=20))
    # A client that outlives its transaction's timeout stands still for more than half of the phase.
    alone = NEMESES[steps[0].family].kinds[steps[0].kind].hold in (Hold.TRANSACTION, Hold.VERB)
    assert len(steps) >= (1 if alone else 2)
    assert 0.9 <= steps[0].at_s <= 2


@UNHURRIED
@given(text=st.sampled_from(WISHES), seed=st.integers(0, 2**63 - 1), target=st.booleans())
def test_what_is_given_is_kept(text: str, seed: int, target: bool) -> None:
    wish = parse(text)[0]
    kinds = NEMESES[wish.family].kinds
    for step in plan(text, configured(seed)):
        assert step.family == wish.family
        assert wish.target in ("", step.target)
        assert not wish.kind or step.kind in (wish.kind, *kinds[wish.kind].stands_for)


@UNHURRIED
@given(text=TEXTS, seed=st.integers(0, 2**63 - 1), duration_s=st.floats(1, 20))
def test_a_short_phase_has_a_fault_of_every_family_or_is_refused(
    text: str, seed: int, duration_s: float
) -> None:
    config = configured(seed, duration_s=duration_s)
    try:
        steps = plan(text, config)
    except ConfigError as error:
        told = str(error)
    else:
        told = ""
    if told:
        (least,) = re.findall(r"lasts at least (\d+) s", told)
        asked = {
            "pause:long": "4",
            "client:pause": "12",
            "unclean": "10",
            "client:crash": "2",
            "restart": "4",
            "failover": "5",
            "failover:recovering": "6",
            "power": "3",
            "half-open": "2",
            "wire:init-producer-id": "2",
            "slow-follower": "6",
            "recreate-topics": "5",
            "disk": "4",
            "quorum": "2",
        }
        assert least in [seconds for name, seconds in asked.items() if name in text]
        assert duration_s < 2.5 * float(least)
        return
    if text != "random":
        assert set(by_family(steps)) == {wish.family for wish in parse(text)}
    assert steps
    assert all(0 < step.at_s < step.at_s + step.hold_s < duration_s for step in steps)
    assert all(step.hold_s >= 3.99 for step in steps if step.kind == "long")


# ---- seeds


def test_the_seed_decides() -> None:
    for text in ("random", "partition", "kill,pause"):
        assert plan(text, configured(1)) == plan(text, configured(1))
        plans = {plan(text, configured(seed)) for seed in range(20)}
        assert len(plans) == 20
        seeds = [step.seed for steps in plans for step in steps]
        assert len(set(seeds)) == len(seeds)


@pytest.mark.sampled(10)
def test_plans_and_hits_do_not_depend_on_hashes() -> None:
    program = """
from core.cluster import Roles
from core.config import RunConfig
from nemesis.registry import NEMESES
from nemesis.schedule import plan
from nemesis.types import ClusterView, WorkloadNames
from core.load_clients import ClientSlot
from core.op import TopicPartition
nodes = (1, 2, 3, 4, 5)
data = tuple(TopicPartition("q", n) for n in range(9))
roles = Roles(
    ns=0,
    answering=nodes,
    leaders={tp: 2 for tp in data},
    isr={tp: (1, 2, 3) for tp in data},
    replicas={tp: (1, 2, 3) for tp in data},
)
clients = tuple(ClientSlot(slot=n, transactional_id="x", group="g") for n in range(5))
names = WorkloadNames(data=data)
scene = ClusterView(nodes=nodes, brokers=nodes, roles=roles, names=names, clients=clients)
for text in ("random", "partition@random,kill@random,pause@random", "partition", "elections,client",
             "links,restart"):
    for seed in range(5):
        for step in plan(text, RunConfig(seed=seed, brokers=5)):
            print(step)
            if step.target in ("", "random") and step.kind != "crash-after-commit":
                print(NEMESES[step.family].effect.aim(step, scene))
"""
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert outputs[0].count("AimedFault(") > 50


# ---- times


def test_lengths_and_pauses_are_around_their_means() -> None:
    steps = plan("kill:one", configured(duration_s=3000, fault_s=8, calm_s=2))
    holds = [step.hold_s for step in steps[:-1]]
    pauses = [after.at_s - before.at_s - before.hold_s for before, after in pairwise(steps)]
    assert len(steps) == pytest.approx(300, rel=0.05)
    for values, mean in ((holds, 8), (pauses, 2)):
        assert min(values) == pytest.approx(0.75 * mean, rel=0.05)
        assert max(values) == pytest.approx(1.25 * mean, rel=0.05)
        assert sum(values) / len(values) == pytest.approx(mean, rel=0.05)


@pytest.mark.parametrize("fault_s", [0.5, 6, 20])
def test_pauses_lie_on_their_side_of_the_session_timeout(fault_s: float) -> None:
    short = plan("pause:short", configured(duration_s=600, fault_s=fault_s))
    assert all(1.1 <= step.hold_s <= 1.9 for step in short)
    long = plan("pause:long", configured(duration_s=600, fault_s=fault_s))
    assert all(step.hold_s >= 4 for step in long)
    assert max(step.hold_s for step in long) <= max(4, 1.25 * fault_s)


def test_pauses_follow_another_session_timeout() -> None:
    settings = {"broker.session.timeout.ms": "9000"}
    config = configured(duration_s=600, broker_settings=settings)
    assert all(3.3 <= step.hold_s <= 5.7 for step in plan("pause:short", config))
    assert all(step.hold_s >= 10 for step in plan("pause:long", config))
    for wrong in ("soon", "0", "-3000"):
        told = refused("pause", broker_settings={"broker.session.timeout.ms": wrong})
        assert repr(wrong) in told


def test_families_of_a_mix_are_staggered_and_overlap() -> None:
    overlapping = 0
    for seed in range(20):
        steps = plan("partition,kill,pause:long", configured(seed))
        first = {family: mine[0].at_s for family, mine in by_family(steps).items()}
        assert list(first) == ["partition", "kill", "pause"]
        assert first["partition"] + 2 < first["kill"] < first["pause"] - 2
        overlapping += any(before.at_s + before.hold_s > after.at_s for before, after in pairwise(steps))
    assert overlapping == 20


def test_a_family_of_a_mix_is_planned_on_its_own() -> None:
    alone = by_family(plan("partition", configured()))["partition"]
    mixed = by_family(plan("partition,kill", configured()))["partition"]
    assert [step.name for step in mixed] == [step.name for step in alone]


def test_names_of_one_family_take_turns() -> None:
    text = "kill:all,partition:isolate@leader,kill:one@controller"
    names = [step.name for step in by_family(plan(text, configured(duration_s=600)))["kill"]]
    assert set(names[0::2]) == {"kill:all"}
    assert set(names[1::2]) == {"kill:one@controller"}


# ---- what is drawn


def test_everything_is_drawn_and_nothing_is_left_out_for_long() -> None:
    steps = plan("partition", configured(duration_s=1200), TRANSACTIONAL)
    concrete = {name for name, k in NEMESES["partition"].kinds.items() if not k.stands_for} - {METADATA}
    assert {step.kind for step in steps} == concrete
    assert {step.target for step in steps} == {"", *NEMESES["partition"].targets}
    kinds = [re.sub(r"(one-way|clients).*", r"\\1", step.kind) for step in steps]
    window = 2 * sum(kind.weight for kind in NEMESES["partition"].kinds.values())
    for at in range(len(kinds) - window):
        assert len(set(kinds[at : at + window])) >= 5


@pytest.mark.parametrize(
    ("brokers", "text", "kinds"),
    [
        (1, "partition", {"clients-requests", "clients-responses"}),
        (
            3,
            "partition",
            {"isolate", "bridge", "one-way-in", "one-way-out", "clients-requests", "clients-responses"},
        ),
        (
            5,
            "partition@leader",
            {
                "isolate",
                "bridge",
                "one-way-in",
                "one-way-out",
                "halves",
                "clients-requests",
                "clients-responses",
            },
        ),
        (1, "kill", {"one", "all"}),
        (3, "kill@controller", {"one", "majority"}),
        (3, "kill", {"one", "majority", "all"}),
        (4, "kill", {"one", "majority", "all", "replicas"}),
        (3, "pause", {"short", "long"}),
    ],
)
def test_only_kinds_that_mean_something_are_drawn(brokers: int, text: str, kinds: set[str]) -> None:
    config = configured(brokers=brokers, duration_s=1200, replication_factor=1, min_insync_replicas=1)
    assert {step.kind for step in plan(text, config)} == kinds


def test_kinds_can_be_asked_for_where_they_would_not_be_drawn() -> None:
    for text in ("partition:ring", "partition:halves@leader"):
        assert {step.kind for step in plan(text, configured(brokers=3))} == {parse(text)[0].kind}


def test_targets_that_the_workload_cannot_have_are_not_drawn_but_refused() -> None:
    bare = WorkloadNames(data=(TopicPartition("q", 0),))
    config = configured(duration_s=600)
    for text in ("kill", "random"):
        drawn = {step.target for step in plan(text, config, bare)}
        assert drawn == {"", "random", "leader", "controller"}
    with pytest.raises(ConfigError, match="kill@group-coordinator: this workload has no consumer"):
        plan("kill@group-coordinator", config, bare)
    assert plan("kill@group-coordinator", config, TRANSACTIONAL)


def test_requests_that_the_workload_never_sends_are_not_drawn_but_refused() -> None:
    bare = WorkloadNames(data=(TopicPartition("q", 0),))
    config = configured(duration_s=600)
    assert {step.kind for step in plan("wire", config, bare)} == {"produce", "fetch"}
    for kind in ("endtxn", "add-partitions", "markers"):
        with pytest.raises(ConfigError, match=f"wire:{kind}: this workload has no transactional ids"):
            plan(f"wire:{kind}", config, bare)
    with pytest.raises(ConfigError, match="wire:share-state: this workload has no share groups"):
        plan("wire:share-state", config, TRANSACTIONAL)
    assert {step.kind for step in plan("wire", config, TRANSACTIONAL)} >= {"endtxn", "add-partitions"}


def test_an_init_producer_id_is_taken_by_name_and_where_a_client_sends_one() -> None:
    config = configured(duration_s=600)
    assert "init-producer-id" not in {step.kind for step in plan("wire", config, NAMES)}
    assert {step.kind for step in plan("wire:init-producer-id", config, NAMES)} == {"init-producer-id"}
    bare = WorkloadNames(data=(TopicPartition("q", 0),), clients=(ClientSlot(slot=0, group="g"),))
    with pytest.raises(ConfigError, match="wire:init-producer-id: this workload has no producers"):
        plan("wire:init-producer-id", config, bare)
    assert "ask for no producer id: set idempotent=true" in refused("wire:init-producer-id", idempotent=False)


# ---- random


def test_random_rotates_families_kinds_and_calm() -> None:
    pairs = calm = phases = 0
    families: Counter[str] = Counter()
    for seed in range(10):
        steps = plan("random", configured(seed, duration_s=300))
        families.update(step.family for step in steps)
        assert {step.family for step in steps[:12]} == set(RANDOM)
        ends = 0.0
        for step in steps:
            if step.at_s < ends:
                pairs += 1
            else:
                phases += 1
                calm += ends > 0 and step.at_s - ends > 5.1
            ends = max(ends, step.at_s + applying(step, 5) + step.hold_s)
    assert set(families) == set(RANDOM)
    assert min(families.values()) > 0.1 * families.total()
    assert 0.15 < calm / phases < 0.35
    assert 0.25 < pairs / phases < 0.6


def test_random_never_has_more_than_two_faults_at_once() -> None:
    for seed in range(20):
        steps = plan("random", configured(seed, duration_s=300))
        for step in steps:
            at_once = [s for s in steps if s.at_s <= step.at_s < s.at_s + s.hold_s]
            assert len(at_once) <= 2


# ---- names


def test_none_plans_nothing() -> None:
    assert plan("none", configured()) == ()
    assert needs(()) == ()


def test_spaces_around_commas_do_not_matter() -> None:
    assert parse(" kill , pause:long@leader ") == (FaultName("kill"), FaultName("pause", "long", "leader"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("partion", "unknown nemesis 'partion'"),
        ("", "a name is empty"),
        ("kill,", "a name is empty"),
        ("kill,@leader", "a name is empty"),
        ("kill:two", "kill has no kind 'two'"),
        ("kill:", "kill has no kind ''"),
        ("kill:one:all", "kill has no kind 'one:all'"),
        ("kill@", "kill has no target ''"),
        ("kill@follower", "kill has no target 'follower'"),
        ("Kill", "unknown nemesis 'Kill'"),
        ("random:isolate", "random has no kind 'isolate'"),
        ("none@leader", "none has no target 'leader'"),
        ("kill:all@leader", "kill:all hits the whole cluster and takes no target"),
        ("partition:ring@random", "partition:ring hits the whole cluster and takes no target"),
    ],
)
def test_a_wrong_name_is_refused_with_the_known_ones(text: str, why: str) -> None:
    told = refused(text)
    assert "\n" not in told
    if why == f"unknown nemesis {text!r}":
        assert told.startswith(why)
        assert told.count(repr(text)) == 1
    else:
        assert f"nemesis {text!r}: {why}" in told
    known: set[str] = set()
    if why.startswith(("unknown", "a name is empty")):
        known = set(NEMESES)
    elif " has no " in why:
        nemesis = NEMESES[why.split()[0]]
        known = set(nemesis.kinds if " kind " in why else nemesis.targets) or {"none"}
    assert known <= set(re.split(r"[\s,;]+", told))


@pytest.mark.parametrize("text", ["none,kill", "kill,random", "random,none", "random,random"])
def test_none_and_random_stand_alone(text: str) -> None:
    assert "cannot be mixed" in refused(text)


def test_too_few_brokers_are_refused() -> None:
    few: dict[str, object] = {"replication_factor": 1, "min_insync_replicas": 1}
    assert "needs at least 2 brokers, there are 1" in refused("partition:isolate", brokers=1, **few)
    assert "needs at least 3 brokers, there are 2" in refused("partition:ring", brokers=2, **few)


# ---- capabilities


def test_needs_are_listed_once_in_the_order_of_the_registry() -> None:
    assert needs(plan("kill", configured())) == (Killable,)
    assert needs(plan("pause,partition", configured())) == (Partitionable, Pausable)
    assert needs(plan("links", configured())) == (Linked,)
    assert needs(plan("unclean,client", configured())) == (Clients, Partitionable, Killable)
    assert set(NEMESES["random"].needs) == {
        Partitionable,
        Killable,
        Pausable,
        Restartable,
        Electable,
        Clients,
    }
    assert set(needs(plan("random", configured(duration_s=300)))) <= set(NEMESES["random"].needs)


def test_a_need_of_two_families_is_listed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = plan("kill,pause", configured())
    pause = replace(NEMESES["pause"], needs=(Pausable, Killable))
    monkeypatch.setitem(NEMESES, "pause", pause)
    assert needs(steps) == (Killable, Pausable)


def test_missing_names_what_a_cluster_lacks() -> None:
    class OnlyKills:
        async def kill(self, nodes: object) -> None: ...
        async def revive(self, nodes: object) -> None: ...

    steps = plan("kill,pause,partition", configured())
    only_kills = capabilities_of(OnlyKills)
    assert missing(steps, only_kills) == ["Partitionable", "Pausable"]
    assert missing(plan("kill", configured()), only_kills) == []
    assert missing(plan("client,kill", configured()), only_kills) == []  # the stage has clients


# ---- registry


def test_registry_is_complete_documentation() -> None:
    assert list(NEMESES) == ["none", *FAMILIES, "random", "schedule"]
    for name, nemesis in NEMESES.items():
        assert nemesis.name == name
        first, blank, *rest = nemesis.doc.split("\n")
        assert first.endswith(".")
        assert blank == ""
        assert rest
        assert re.fullmatch("#[0-9A-F]{6}", nemesis.colour)
        assert (nemesis.effect is not None) == bool(nemesis.kinds)
        for kind in nemesis.kinds.values():
            assert kind.doc
            assert set(kind.stands_for) <= set(nemesis.kinds)
    colours = [NEMESES[family].colour for family in FAMILIES]
    assert len(set(colours)) == len(colours)


# ---- what cannot happen here


def test_a_rolling_restart_needs_its_time_and_is_drawn_alone_only() -> None:
    assert "lasts at least 51 s" in refused("restart:rolling", duration_s=50)
    assert {step.kind for step in plan("restart", configured(duration_s=50))} == {"graceful", "replicas"}
    alone = plan("restart", configured(duration_s=600))
    assert {step.kind for step in alone} == {"graceful", "replicas", "rolling"}
    for text in ("restart,kill", "random"):
        steps = plan(text, configured(duration_s=600))
        assert {step.kind for step in steps if step.family == "restart"} == {"graceful", "replicas"}
    by_name = plan("restart:rolling,kill", configured(duration_s=600))
    assert {step.kind for step in by_name if step.family == "restart"} == {"rolling"}


def test_random_leaves_out_what_it_is_not_asked_for() -> None:
    steps = plan("random", configured(duration_s=3600), TRANSACTIONAL)
    assert {step.family for step in steps} == set(RANDOM)


def test_a_deck_keeps_the_cards_that_are_not_wanted() -> None:
    deck = Deck(source(1), ["a", "b", "c"], [])
    dealt = [deck.draw(["a"]) for _ in range(3)]
    assert dealt == ["a", "a", "a"]
    rest = [deck.draw() for _ in range(6)]
    assert sorted(rest) == ["b", "b", "b", "c", "c", "c"]


def test_isolated_controllers_are_targets_where_the_fault_reaches_them() -> None:
    config = configured(duration_s=1200, controllers=3)
    steps = plan("partition", config)
    aimed_at_controller = {step.kind for step in steps if step.target == "controller"}
    assert aimed_at_controller == {"isolate", "halves", "bridge", "one-way-in", "one-way-out"}
    with pytest.raises(ConfigError, match=r"clients do not talk to isolated controllers \(3 here\)"):
        plan("partition:clients@controller", config)
    assert plan("kill@controller,restart@controller,pause@controller", config)


def test_what_keeps_the_metadata_is_cut_off_by_name_where_it_is_no_broker() -> None:
    assert "set controllers=1 or 3" in refused("partition:metadata")
    steps = plan("partition:metadata", configured(duration_s=1200, controllers=1))
    assert {step.kind for step in steps} == {METADATA}
    assert "controller" not in {step.target for step in steps}
    old = configured(duration_s=1200, kafka={"version": "2.8.2"})
    assert "controller" in {step.target for step in plan("partition:metadata", old)}


def test_random_means_the_same_whatever_the_order_of_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    config = run_config({"seed": 11, "nemesis": "random", "duration_s": 120})
    before = plan("random", config)
    turned = dict(reversed(NEMESES.items()))
    monkeypatch.setattr("nemesis.schedule.NEMESES", turned)
    assert plan("random", config) == before


@pytest.mark.parametrize("seed", range(5))
def test_random_draws_nothing_that_the_cluster_cannot_have(seed: int) -> None:
    has = set(CAPABILITIES) - {Electable}
    config = run_config({"seed": seed, "duration_s": 900, "brokers": 5})
    steps = plan("random", config, NAMES, has)
    assert missing(steps, has) == []
    kinds = {(step.family, step.kind) for step in steps}
    assert {("restart", "graceful"), ("restart", "replicas")} <= kinds
    assert {"elections"} == {step.family for step in plan("random", config, NAMES)} - {f for f, _ in kinds}


def test_a_kind_that_is_left_out_is_drawn_among_those_that_the_cluster_can_have() -> None:
    has = set(CAPABILITIES) - {Electable}
    config = run_config({"seed": 1, "duration_s": 900, "brokers": 5})
    assert {step.kind for step in plan("restart", config, NAMES, has)} == {"graceful", "replicas"}
    assert missing(plan("restart:rolling", config, NAMES, has), has) == ["Electable"]
    assert missing(plan("elections", config, NAMES, has), has) == ["Electable"]
    every = plan("restart", config, NAMES, set(CAPABILITIES))
    assert {step.kind for step in every} == {"graceful", "replicas", "rolling"}
    assert every == plan("restart", config, NAMES)
