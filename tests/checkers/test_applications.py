"""What an application made of its input: kernel and oracle say the same of random histories.

`INQUEST_SEEDS=5000 pytest tests/checkers/test_applications.py` compares more.
"""

import os
from collections import Counter
from typing import Any

import pytest

from checkers.allowed import Ground
from checkers.catalogue import ANOMALIES
from checkers.windows import Excuse
from core.config import RunConfig, run_config
from tests.checkers.found import check_tables
from tests.checkers.undecided import undecided
from tests.histories.random_applications import application
from tests.oracle import anomalies

SEEDS = int(os.environ.get("INQUEST_SEEDS", "300"))
CHUNK = 50
APPS: tuple[dict[str, Any], ...] = ({}, {}, {"shape": "filter"}, {"effects": True, "output": ""})


def config(seed: int) -> RunConfig:
    return run_config({"seed": 0, "workload": "application", "app": APPS[seed % len(APPS)]})


def difference(seed: int) -> str:
    """What the two say differently of one seed; empty if nothing."""
    tables = application(seed)[0].tables()
    tally = check_tables(tables, portable=False, config=config(seed), cap=2**31)
    assert not tally.crashed, tally.crashed
    fast = {each.canonical for each in tally.findings if each.name != "not-recovered"}
    fast |= {("undecided", name) for name in undecided(tally)}
    slow = anomalies.findings(tables, portable=False, config=config(seed))
    slow |= {("undecided", name) for name in anomalies.undecided(tables, portable=False, config=config(seed))}
    only = f"only the kernel: {sorted(fast - slow)}; only the oracle: {sorted(slow - fast)}"
    return "" if fast == slow else f"seed {seed}: {only}"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_kernel_and_oracle_agree_about_applications(first: int) -> None:
    wrong = [found for seed in range(first, first + CHUNK) if (found := difference(seed))]
    assert wrong == []


def test_each_wrong_is_found_often_and_a_right_application_is_clean() -> None:
    counts: Counter[str] = Counter()
    for seed in range(300):
        built, wrongs = application(seed)
        found = anomalies.findings(built.tables(), portable=False, config=config(seed))
        if not wrongs:
            assert found == set(), seed
        counts.update({str(key[0]) for key in found})
    assert {name: counts[name] for name in ("eos-loss", "eos-duplicate", *anomalies.APPLIED)} == {
        name: counts[name] for name in ("eos-loss", "eos-duplicate", *anomalies.APPLIED) if counts[name] >= 10
    }


@pytest.mark.parametrize(
    ("name", "commit", "excuse", "allowed"),
    [
        ("nonmonotonic-copy", "transaction", Excuse.NONE, False),
        ("nonmonotonic-copy", "after", Excuse.NONE, False),
        ("nonmonotonic-copy", "before", Excuse.NONE, True),
        ("nonmonotonic-copy", "after", Excuse.POWER, True),
        ("eos-uncommitted", "transaction", Excuse.NONE, False),
        ("eos-uncommitted", "before", Excuse.NONE, False),
        ("eos-uncommitted", "after", Excuse.NONE, True),
        ("eos-uncommitted", "transaction", Excuse.POWER, True),
    ],
)
def test_where_it_is_permitted(name: str, commit: str, excuse: Excuse, allowed: bool) -> None:
    assert ANOMALIES[name].rule(Ground(commit=commit, excuse=excuse), "")[0] is allowed
