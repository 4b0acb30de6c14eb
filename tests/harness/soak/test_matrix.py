"""The matrix of a soak: what is refused, what is drawn and in which order."""

from itertools import islice
from pathlib import Path

import pytest

from core.config import Application
from core.errors import ConfigError
from core.extensions import APP
from core.presets import PRESETS
from harness.nights.session_log import PlannedRun
from harness.soak.matrix import (
    APPLICATIONS,
    Combination,
    Matrix,
    canary_run,
    check,
    config_of,
    draws,
    load,
    parse,
    topologies,
)
from harness.soak.systems import Named
from nemesis.registry import NEMESES
from workloads.registry import WORKLOADS

SMALL = """
workloads = ["queue", "transactions"]
nemeses = ["none", "kill", "pause"]
presets = ["safe", "safe-legacy"]
canary = ["acks1", "read-uncommitted"]
[settings]
duration_s = 20
[[exclude]]
workload = "transactions"
preset = ["safe-legacy"]
"""


def small(more: str = "") -> Matrix:
    return parse(SMALL + more, "m.toml")


@pytest.mark.sampled(8)
def test_the_default_covers_every_workload_and_every_nemesis_and_can_be_run() -> None:
    matrix = load(None)
    check(matrix, Named())
    combinations = matrix.combinations()
    assert {c.workload for c in combinations} == set(WORKLOADS)
    left_out = {"unclean", "power", "upgrade", "recreate-topics", "quorum", "schedule"}
    assert {c.nemesis for c in combinations} >= set(NEMESES) - left_out
    pairs = {(c.workload, c.nemesis) for c in combinations if c.workload != "compacted"}
    assert len(pairs) == (len(WORKLOADS) - 1) * (len(NEMESES) - len(left_out))
    assert {c[1:] for c in combinations if c.workload == "compacted"} == {
        (nemesis, "compacted") for nemesis in ("none", "partition", "kill", "add-partitions", "disk")
    }
    of_presets = {"compacted": "compacted", "share": "share", "share-limit": "share"}
    for name, workload in of_presets.items():
        assert {c.workload for c in combinations if c.preset == name} == {workload}
    assert all(PRESETS[name].get("expect") for name in matrix.canaries())
    assert ("copier", "kill", "exactly-once") in combinations
    assert ("queue", "kill", "exactly-once") not in combinations


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("workloads = [", ["m.toml", "TOML"]),
        ("", ["presets", "required"]),
        (SMALL.replace("[settings]", "colour = 1\n[settings]"), ["colour"]),
        (SMALL.replace('"none", "kill", "pause"', ""), ["nemeses"]),
        (SMALL + "[weights]\nmoon = 2\n", ["moon"]),
        (SMALL + "[weights]\nkill = 0\n", ["weights.kill"]),
        (SMALL + '[[exclude]]\nworkload = "moon"\n', ["moon", "nothing"]),
        (SMALL + "[[exclude]]\n", ["exclude"]),
        (SMALL + '[[exclude]]\nworkload = ["queue", "transactions"]\n', ["all combinations"]),
        (SMALL.replace("duration_s = 20", "seed = 1"), ["seed"]),
        (SMALL + '[[runs]]\nworkload = "queue"\n', ["runs.0.nemesis"]),
        (SMALL + "[[topologies]]\nseed = 3\n", ["seed"]),
        (SMALL.replace("[settings]", "topologies = []\n[settings]"), ["topologies"]),
        (SMALL + '[accept]\nKAFKA-1 = "a typing error"\n', ["KAFKA-1", "KAFKA-20734"]),
        (SMALL + '[accept]\nKAFKA-20734 = ""\n', ["accept.KAFKA-20734"]),
    ],
)
def test_a_matrix_that_makes_no_sense(text: str, said: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text, "m.toml")
    assert all(word in str(caught.value) for word in said), caught.value


def test_settings_of_an_application_are_of_its_runs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over the common ones; what a run of an application usually has is under these."""
    monkeypatch.setenv(APP, "true")
    section = '[application]\ncommit = "after"\napp = { shape = "filter", input = "bids" }\n'
    text = SMALL.replace('["queue", ', '["application", "queue", ').replace("= 20", "= 20\nrate = 7.0")
    matrix = parse(text + section, "m.toml").performing({"input": "orders"})
    check(matrix, Named())
    some = [Combination(workload, "kill", "safe") for workload in ("application", "queue")]
    app, queue = (matrix.planned("matrix", one, 1) for one in some)
    assert app.settings == {
        **{"producers": 4, "home_producers": 0, "batch_max": 20, "rate": 7.0, "duration_s": 20},
        **{"commit": "after", "app": {"shape": "filter", "input": "orders"}},
    }
    assert queue.settings == canary_run(matrix, "acks1", 1).settings == {"rate": 7.0, "duration_s": 20}
    assert config_of(app).app == Application(shape="filter", input="orders")
    plain = parse(text, "m.toml").planned("matrix", some[0], 1)
    assert config_of(plain).app == Application()
    with pytest.raises(ConfigError, match="--app: the matrix has no run of workload application"):
        small().performing({})


def test_the_matrix_of_an_application_can_be_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(APP, "true")
    matrix = load(None, APPLICATIONS)
    check(matrix, Named())
    assert {one.workload for one in matrix.combinations()} == {"application"}
    monkeypatch.delenv(APP)
    with pytest.raises(ConfigError, match="name the program with --app"):
        check(matrix, Named())


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"kill", ', '"earthquake", ', ["earthquake", "queue"]),
        ('"queue", "transactions"]\nn', '"juggling", "transactions"]\nn', ["juggling"]),
        ('"safe", ', '"reckless", ', ["reckless"]),
        ('"acks1", ', '"safe", ', ["safe", "cannot be a canary"]),
        ('"acks1", ', '"moon", ', ["moon"]),
        ("duration_s = 20", "duration_s = -1", ["duration_s"]),
        ("duration_s = 20", "colour = 1", ["colour"]),
    ],
)
def test_names_and_settings_are_checked_before_the_session(old: str, new: str, said: list[str]) -> None:
    matrix = parse(SMALL.replace(old, new), "m.toml")
    with pytest.raises(ConfigError) as caught:
        check(matrix, Named())
    assert all(word in str(caught.value) for word in said), caught.value


def test_a_new_workload_and_a_new_nemesis_are_in_the_default_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WORKLOADS, "juggling", WORKLOADS["queue"])
    monkeypatch.setitem(NEMESES, "earthquake", NEMESES["kill"])
    combinations = set(load(None).combinations())
    assert ("juggling", "earthquake", "safe") in combinations
    assert ("juggling", "earthquake", "exactly-once") not in combinations
    assert ("copier", "earthquake", "exactly-once") in combinations


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml"):
        load(tmp_path / "none.toml")


def test_all_pairs_come_before_any_comes_again() -> None:
    matrix = small()
    pairs = {(c.workload, c.nemesis) for c in matrix.combinations()}
    for seed in range(20):
        drawn = list(islice(draws(matrix, seed), 3 * len(pairs)))
        for turn in range(3):
            part = drawn[turn * len(pairs) : (turn + 1) * len(pairs)]
            assert {(c.workload, c.nemesis) for c in part} == pairs
        assert set(drawn) <= set(matrix.combinations())
        assert set(drawn[: 2 * len(pairs)]) == set(matrix.combinations())  # two presets: two turns


def test_the_order_follows_from_the_seed() -> None:
    matrix = small()
    first = list(islice(draws(matrix, 1), 12))
    assert list(islice(draws(matrix, 1), 12)) == first
    assert len({tuple(islice(draws(matrix, seed), 6)) for seed in range(10)}) > 5


def test_heavier_names_come_earlier_and_heavier_presets_more_often() -> None:
    heavy = small("[weights]\npause = 8\nsafe-legacy = 3\n")
    first = [next(draws(heavy, seed)).nemesis for seed in range(300)]
    assert first.count("pause") > 2 * first.count("kill")
    drawn = list(islice(draws(heavy, 1), 6 * 8))
    queue = [c.preset for c in drawn if (c.workload, c.nemesis) == ("queue", "kill")]
    assert (queue.count("safe"), queue.count("safe-legacy")) == (2, 6)


def test_what_a_preset_sets_wins_over_the_common_settings() -> None:
    matrix = parse(
        SMALL.replace("duration_s = 20", "duration_s = 20\nabort_share = 0.5")
        + "[canary_settings]\nduration_s = 33\n",
        "m.toml",
    )
    task = canary_run(matrix, "read-uncommitted", 9)
    assert (task.workload, task.preset, task.seed) == ("transactions", "read-uncommitted", 9)
    config = config_of(task)
    assert (config.duration_s, config.abort_share) == (33, 0.3)
    assert config.expect == ("aborted-read",)
    combination = Combination("queue", "kill", "safe")
    settings = matrix.settings_for(combination.preset)
    plain = config_of(PlannedRun(why="matrix", seed=1, settings=settings, **combination._asdict()))
    assert (plain.duration_s, plain.abort_share) == (20, 0.5)


def test_each_codec_is_in_a_topology_of_the_usual_matrix() -> None:
    matrix, name = load(None), "producer.compression.type"
    codecs = [some["client_settings"].get(name) for some in matrix.topologies if "client_settings" in some]
    assert sorted(filter(None, codecs)) == ["gzip", "lz4", "snappy", "zstd"]
    for topology in matrix.topologies:
        placed = matrix.placed("safe", topology)
        assert placed.get("client_settings") == topology.get("client_settings")


def test_what_a_preset_and_a_session_require_a_run_has_to_show() -> None:
    matrix = parse(SMALL, "m.toml").requiring("recovery<=10s")
    assert matrix.settings_for("no-retries")["require"] == f"recovery<=10s,{PRESETS['no-retries']['require']}"
    assert matrix.settings_for("safe")["require"] == "recovery<=10s"
    assert "require" not in parse(SMALL, "m.toml").settings_for("no-retries")


TOPOLOGIES = """
[[topologies]]
brokers = 3
[[topologies]]
brokers = 5
controllers = 1
[[topologies]]
brokers = 5
min_insync_replicas = 1
"""


def test_topologies_take_turns_in_a_drawn_order() -> None:
    matrix = small(TOPOLOGIES)
    check(matrix, Named())
    orders = set()
    for seed in range(30):
        drawn = list(islice(topologies(matrix, seed), 6))
        for some in (drawn[:3], drawn[3:]):
            assert all(topology in some for topology in matrix.topologies)
        orders.add(str(drawn))
        assert drawn == list(islice(topologies(matrix, seed), 6))
    assert len(orders) > 10


def test_a_preset_wins_over_a_topology() -> None:
    matrix = small(TOPOLOGIES + "[[topologies]]\nbrokers = 3\nidempotent = true\n")
    assert matrix.placed("safe-legacy", matrix.topologies[3]) == {"brokers": 3}
    assert matrix.placed("safe", matrix.topologies[1]) == {"brokers": 5, "controllers": 1}


def test_a_topology_that_a_combination_cannot_have_is_refused() -> None:
    with pytest.raises(ConfigError, match="queue x none x safe"):
        check(small("[[topologies]]\nbrokers = 2\n"), Named())
