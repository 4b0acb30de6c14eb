"""What the checks find in a history that is in memory, in this process."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from checkers import api
from checkers.engine.check import Tally
from checkers.engine.findings import CAP
from core.config import RunConfig
from history.events import Event
from tests.histories.built import F


def check_tables(
    tables: Mapping[str, pa.Table],
    *,
    portable: bool | None = None,
    events: Sequence[Event] = (),
    config: RunConfig | None = None,
    cap: int = CAP,
) -> Tally:
    """portable: None = a history without `bounds` rows is portable."""
    if portable is None:
        portable = tables["bounds"].num_rows == 0
    return api.check_tables(tables, recorded=not portable, events=events, config=config, cap=cap, f=F)


def findings(
    tables: Mapping[str, pa.Table], *, portable: bool | None = None, events: Sequence[Event] = ()
) -> set[tuple[str | int, ...]]:
    """Canonical keys of all findings."""
    found = check_tables(tables, portable=portable, events=events, cap=2**31)
    assert not found.crashed, found.crashed
    return {finding.canonical for finding in found.findings}
