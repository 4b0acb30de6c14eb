"""What kernels, oracle and judge say of a history that is built by hand: the same, and what is permitted."""

from typing import Any, NamedTuple

from checkers.catalogue import allowed
from core.config import run_config
from history.events import Event
from tests.adversary.compare import differences
from tests.adversary.rows import Recorded
from tests.checkers.found import check_tables
from tests.histories.built import Built
from tests.histories.folders import RECOVERED, STARTED
from tests.oracle import anomalies


class Said(NamedTuple):
    """Of findings of a class: what decides, and whether they are permitted."""

    variant: str
    excuse: str
    permitted: bool


def said(built: Built, *events: Event, **settings: Any) -> dict[str, set[Said]]:
    """Classes with what is said of their findings. All three programs agree on each."""
    config = run_config({"seed": 1, **settings})
    tables, every = built.tables(), [STARTED, *events, RECOVERED]
    tally = check_tables(tables, portable=False, events=every, config=config, cap=2**31)
    assert not tally.crashed
    due = anomalies.variants(tables, portable=False, events=every, config=config)
    assert {each.canonical for each in tally.findings} == due.keys()
    assert all((each.variant, each.excuse) in due[each.canonical] for each in tally.findings)
    rows = {name: table.to_pylist() for name, table in tables.items()}
    assert differences(Recorded(seed=0, tables=rows, config=config, events=every, quiet=False)) == []
    found: dict[str, set[Said]] = {}
    for kind in tally.counts:
        one = Said(kind.variant.value, kind.excuse.value, allowed(config, kind)[0])
        found.setdefault(kind.name, set()).add(one)
    return found
