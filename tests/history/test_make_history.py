"""The synthetic run folder: sealed as a recorded one, and exactly what is planted is found in it."""

import json
from collections import Counter

import pytest

from benchmarks.check_scale import INFORMATIONAL
from benchmarks.duckdb_checks import by_checker, by_duckdb
from benchmarks.make_history import write
from benchmarks.synthetic import PLANTED, TPS, Synthetic
from checkers.api import check_history
from history.reader import History, load
from history.run_folder import Run

SEED = 5


MESSAGES = 12_000
"""Of a part."""


@pytest.fixture(scope="module", params=[1, 2])
def parts(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory, parts: int) -> History:
    folder = tmp_path_factory.mktemp("synthetic") / "run"
    folder.mkdir()
    write(Run(folder), parts * MESSAGES, SEED, parts=parts)
    return load(Run(folder))


@pytest.mark.sampled(2)
def test_exactly_what_is_planted_is_found(sealed: History) -> None:
    tally = check_history(sealed)
    assert not tally.crashed
    found: Counter[str] = Counter()
    for (name, variant, *_), count in tally.counts.items():
        if variant != "log":  # final reads show aborted records, as they should
            found[name] += count
    expected = json.loads((sealed.run.folder / "expected.json").read_text())
    assert {name: found[name] for name in sorted(found) if name not in INFORMATIONAL} == expected
    assert [doubt for doubt in tally.doubts if doubt.check in ("durability", "atomicity")] == []


@pytest.mark.sampled(8)
def test_ten_checks_in_sql_count_what_the_checker_counts(sealed: History) -> None:
    found, wanted = by_checker(sealed.run), by_duckdb(sealed.run)
    assert wanted["lost-write"], "there is something to compare"
    assert {name: found[name] for name in wanted} == wanted


def test_the_tables_fit_together(sealed: History, parts: int) -> None:
    ops, bounds = sealed.tables["ops"].to_pandas(), sealed.tables["bounds"].to_pandas()
    units = sealed.names.units
    assert ops["op"].tolist() == list(range(len(ops)))
    assert ops["complete_ns"].is_monotonic_increasing
    assert ops["n_sends"].sum() == sum(unit.sends for unit in units) == parts * MESSAGES
    assert ops["n_reads"].sum() == sum(unit.reads for unit in units)
    assert bounds["complete"].all()
    assert sorted(tp for unit in units for tp in unit.tps) == list(range(parts * TPS))
    assert len(sealed.tps) == len(set(sealed.tps.values())) == parts * TPS


def test_the_seed_decides_and_every_kind_is_planted() -> None:
    one, same, other = (Synthetic(MESSAGES, seed) for seed in (1, 1, 2))
    assert one.plan == same.plan != other.plan
    assert (one.messages.offset == same.messages.offset).all()
    assert set(one.plan.one) | set(one.plan.two) == set(PLANTED)
    assert all([*one.plan.one.values(), *one.plan.two.values()])
