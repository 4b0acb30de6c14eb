"""Ways to draw runs: replayable, and by features that name mechanisms."""

from collections import Counter

import pytest

from benchmarks.drawn_runs import bugs, planted
from benchmarks.run_features import Faulty, errors, features, keeping_messages
from benchmarks.ways_to_draw import DIMENSIONS, INITIAL, WAYS, Draws, values
from core.config import RunConfig, run_config
from harness.explore.profile import BASE, NEMESES, clean, hunted
from harness.modelled.shared.base_time import BASE_NS
from harness.modelled.virtual.run import simulate
from history import events as ev
from model.errors import KafkaError
from model.mutants.registry import PLANTED
from model.protocol.coordinator_messages import WriteTxnMarkersResponse
from model.protocol.messages import ProduceResponse
from model.protocol.requests import ErrorResponse
from workloads.registry import modelled


def drawn(way: str, first: int, number: int) -> list[RunConfig]:
    """Runs of which each reaches its workload, its nemesis and a number."""
    draws, made = Draws(way, first), list[RunConfig]()
    for _ in range(number):
        made.append(draws.draw())
        draws.learn(made[-1], {made[-1].workload, made[-1].nemesis, str(made[-1].seed % 7)})
    return made


@pytest.mark.sampled(5)
@pytest.mark.parametrize("way", WAYS)
def test_the_same_first_seed_draws_the_same_runs(way: str) -> None:
    made = drawn(way, 100, 25)
    assert made == drawn(way, 100, 25)
    assert [one.seed for one in made] == list(range(100, 125))


def test_runs_that_are_drawn_alone_are_those_of_explore() -> None:
    assert drawn("alone", 7, 12) == [clean(seed) for seed in range(7, 19)]


@pytest.mark.sampled(2)
def test_names_are_shared_out() -> None:
    made = drawn("dealt", 0, len(NEMESES))
    assert {one.workload for one in made[: len(modelled())]} == set(modelled())
    assert max(Counter(one.nemesis for one in made).values()) <= 3  # some runs cannot have what is next
    assert len({one.nemesis for one in made}) > len(NEMESES) / 2


@pytest.mark.sampled(8)
def test_most_runs_come_from_those_with_rare_features() -> None:
    made = drawn("rare", 0, 60)
    assert made[:INITIAL] == drawn("dealt", 0, INITIAL)
    distances = [
        min(sum(a != b for a, b in zip(values(one), values(before), strict=True)) for before in made[:n])
        for n, one in enumerate(made)
        if n >= INITIAL
    ]
    assert sum(far <= 4 for far in distances) > len(distances) / 3


@pytest.mark.sampled(13)
def test_what_yields_more_is_drawn_more_often() -> None:
    draws, found = Draws("yields", 0), Counter[str]()
    for number in range(60):
        config = draws.draw()
        found[config.workload] += 1
        rich = {f"{number} {each}" for each in range(20)} if config.workload == "share" else set[str]()
        draws.learn(config, {"any", *rich})
    assert found["share"] > 2 * 60 / len(modelled())
    assert len(found) == len(modelled())


@pytest.mark.sampled(5)
def test_features_say_what_was_asked_under_which_fault() -> None:
    settings = {"workload": "transactions", "nemesis": "kill:one@leader", "duration_s": 6, "seed": 3}
    with keeping_messages():
        done = simulate(run_config({**BASE, **settings}), invariants=False)
    found = features(done)
    assert any(name.startswith("Produce ") and name.endswith(" of a client, kill:one") for name in found)
    assert {"EndTxn of a client", "transaction Ongoing → PrepareCommit, epoch +1"} <= found
    assert not [bug for bug in PLANTED for name in found if bug in name]


def test_faults_are_in_force_from_their_begin_until_they_are_healed() -> None:
    def began(fault: int, name: str, s: int) -> ev.FaultStarted:
        at = BASE_NS + s * 10**9
        return ev.FaultStarted(
            begin_ns=at, ns=at + 10**8, fault=fault, name=name, nodes=(1,), text="", colour=""
        )

    def healed(fault: int, s: int) -> ev.FaultHealed:
        at = BASE_NS + s * 10**9
        return ev.FaultHealed(begin_ns=at - 10**8, ns=at, fault=fault)

    pause, kill = began(0, "pause:long@leader", 1), began(1, "kill:one@random", 3)
    faulty = Faulty([pause, kill, healed(0, 5), healed(1, 7)])
    names = [faulty.at(seconds * 10**6) for seconds in (0, 1, 2, 3, 5, 6, 7)]
    both = "kill:one+pause:long"
    assert names == ["", "pause:long", "pause:long", both, "kill:one", "kill:one", ""]


def test_errors_of_all_and_of_parts() -> None:
    none, fenced = KafkaError.NONE, KafkaError.PRODUCER_FENCED
    assert errors(ErrorResponse(none)) == []
    assert errors(ErrorResponse(fenced)) == ["PRODUCER_FENCED"]
    assert errors(ProduceResponse({("q", 0): (fenced, -1), ("q", 1): (none, 4)})) == ["PRODUCER_FENCED"]
    assert errors(WriteTxnMarkersResponse({(7, ("q", 0)): fenced})) == ["PRODUCER_FENCED"]


def test_the_halves_share_out_all_bugs_and_plant_them() -> None:
    assert sorted(bugs("design") + bugs("held")) == sorted(bugs(""))
    assert set(bugs("")) <= set(hunted())
    config = run_config({**BASE, "nemesis": "none", "duration_s": 1, "seed": 1})
    with planted("keep-tail", "silence-is-an-ack") as asked:
        done = simulate(config, invariants=False)
    assert done.cluster.settings.bugs == {"keep-tail", "silence-is-an-ack"}
    assert "hw-is-leader-end" in asked
    assert not {name for name in asked if name.startswith("share-")}


@pytest.mark.sampled(10)
def test_each_setting_is_drawn() -> None:
    made = drawn("dealt", 0, 60)
    for name, known in DIMENSIONS.items():
        assert set(known) <= {getattr(one, name) for one in made}, name
