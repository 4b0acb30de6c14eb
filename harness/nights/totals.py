"""What all nights come to: workers read shares of them (Spark's, or this process), and these are added up.

every = totals(Path("results"), workers)        # in this process: history.tasks.Here()
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pandas as pd

from core.progress import ProgressStage
from harness.nights import runs as rows_of
from harness.nights import session_log as sessions
from harness.nights import shares
from harness.nights.findings import Findings
from harness.nights.headline import SessionView
from harness.nights.shares import GROUP, KIND, RUNS_MAX, SAMPLE, Share, records
from harness.nights.side_by_side import SideBySide, rate
from history.tables import TableRow
from history.tasks import Workers
from history.verdict import NOT_RECOVERED

LOG_BYTES: Final = 400_000
"""Logs of a share: about three hundred runs."""
BY_HAND: Final = 200
"""Runs of a share."""
STANDING: Final = ["open", "last", "newest", "all", *GROUP]
"""What groups are ordered by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """All that the index shows. views: sessions, oldest first. shown: the newest runs of `many`. groups:
    findings by combination; findings: by bug and system."""

    views: list[SessionView]
    shown: pd.DataFrame
    many: int
    groups: list[TableRow]
    findings: Findings
    allowed: list[TableRow]
    side: SideBySide
    lived: list[TableRow]


def totals(results: Path, workers: Workers, newest: str = "") -> Totals:
    """Of a results folder: first its nights, then the runs that people made. newest: the session that groups
    call so; "" = the last one.

    Raises: OSError, HistoryError; SparkError, where its jobs cannot be done.
    """
    nights = _nights(results)
    stage = ProgressStage(
        name="reading nights", tasks="shares", sizes=[size for size, _ in nights], measure="bytes"
    )
    found = workers.map(stage, partial(_of_nights, results, [names for _, names in nights]))
    ours = frozenset[str]().union(*(share.folders for share in found))
    hand = _by_hand(results, ours)
    stage = ProgressStage(
        name="reading runs", tasks="shares", sizes=[len(names) for names in hand], measure="runs"
    )
    found += workers.map(stage, partial(_of_hand, results, hand))
    views = [view for share in found for view in share.views]
    newest = newest or (views[-1].name if views else "")
    return Totals(
        views=views,
        shown=rows_of.newest_first(_joined(share.shown for share in found)).head(RUNS_MAX),
        many=sum(share.many for share in found),
        groups=_groups(
            _joined(share.found for share in found), _joined(share.samples for share in found), newest
        ),
        findings=Findings.of(
            _joined(share.bugs for share in found),
            _joined(share.tested for share in found),
            newest,
            compared=len(views) > 1,
        ),
        allowed=_allowed(_joined(share.allowed for share in found)),
        side=SideBySide.of(
            _joined(share.side for share in found),
            _joined(share.met for share in found),
            _joined(share.ran for share in found),
            sum((share.performed for share in found), Counter()),
        ),
        lived=_lived(_joined(share.lived for share in found)),
    )


def _of_nights(results: Path, names: Sequence[Sequence[str]], number: int) -> Share:
    return shares.of_nights(results, names[number])


def _of_hand(results: Path, names: Sequence[Sequence[str]], number: int) -> Share:
    return shares.of_hand(results, names[number])


def _nights(results: Path) -> list[tuple[int, list[str]]]:
    """Shares of the sessions, oldest first: bytes of their logs, and their names. Always one."""
    made: list[tuple[int, list[str]]] = [(0, [])]
    for folder in sessions.folders(results):
        size, names = made[-1]
        if size >= LOG_BYTES:
            size, names = 0, []
            made.append((size, names))
        made[-1] = (size + sessions.size_of(folder), [*names, folder.name])
    return made


def _by_hand(results: Path, ours: frozenset[str]) -> list[list[str]]:
    """Shares of the folders of runs that no session made."""
    found = [
        verdict.parent.name
        for verdict in sorted(results.glob("*/verdict.json"))
        if verdict.parent.name not in ours and not verdict.parent.is_symlink() and verdict.is_file()
    ]
    return [found[at : at + BY_HAND] for at in range(0, len(found), BY_HAND)]


def _joined(tables: Iterable[pd.DataFrame]) -> pd.DataFrame:
    every = list(tables)
    return pd.concat([table for table in every if len(table)] or every[:1], ignore_index=True)


def _groups(found: pd.DataFrame, samples: pd.DataFrame, newest: str) -> list[TableRow]:
    """Forbidden findings of sessions, by class, combination, planted and known bug; open ones first.

    Columns: those of the group; `newest`, `newest_of`: runs of the newest session with it, and of that
    combination; `all`, `all_of`: of all sessions; `fresh`, `fresh_of`: the same of runs that are a fair
    sample; `rate`, `low`, `high`: of the fresh ones, with the Wilson
    interval of 95 % (NaN without any); `first`, `last`: sessions; `report`, `folder`: of the newest run;
    `open`: of no known or planted bug, and more than a cluster that did not recover.
    """
    if found.empty:
        return []
    last = found.sort_values(["at", "number"]).groupby(GROUP)[["report", "folder"]].last()
    table = found.groupby(GROUP).agg(
        all=("runs", "sum"), fresh=("fresh", "sum"), first=("session", "min"), last=("session", "max")
    )
    table = table.assign(newest=found[found["session"] == newest].groupby(GROUP)["runs"].sum()).join(last)
    every = samples.groupby(SAMPLE).agg(all_of=("judged", "sum"), fresh_of=("fair", "sum"))
    mine = samples[samples["session"] == newest].groupby(SAMPLE)["judged"].sum()
    table = table.reset_index().join(every.assign(newest_of=mine), on=SAMPLE)
    counts = ["all", "fresh", "newest", "all_of", "fresh_of", "newest_of"]
    table = table.fillna(dict.fromkeys(counts, 0)).astype(dict.fromkeys(counts, int))
    unexplained = (table["known_bug"] == "") & (table["planted"] == "")
    table["open"] = unexplained & (table["name"] != NOT_RECOVERED)
    ordered = table.sort_values(STANDING, ascending=[False] * 4 + [True] * len(GROUP))
    return [row | rate(row["fresh"], row["fresh_of"]) for row in records(ordered)]


def _allowed(allowed: pd.DataFrame) -> list[TableRow]:
    """Classes that sessions found where they are allowed: `name`, `runs`, `findings`."""
    found = allowed.groupby("name")[["runs", "findings"]].sum()
    return records(found.sort_values("findings", ascending=False, kind="stable").reset_index())


def _lived(lived: pd.DataFrame) -> list[TableRow]:
    """What faults did, by system, version and fault: `runs` with it, `failing` ones of these, `times` it was
    in force; means `served` and `recovered_s`, the latter of those that `recovered` (NaN = not known), the
    longest `stalled_s`."""
    sums = lived.groupby(KIND, as_index=False).agg(
        {name: "max" if name == "stalled_s" else "sum" for name in shares.LIVED if name not in KIND}
    )
    sums["served"] /= sums["known"].where(sums["known"] > 0)
    sums["recovered_s"] /= sums["recovered"].where(sums["recovered"] > 0)
    return records(sums.drop(columns="known"))
