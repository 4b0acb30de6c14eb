"""What a share of the nights comes to: the work of one task.

A night is a session. All that the index says of several nights is a sum (of runs, of times) or the newest of
something: each share hands back sums by night or by kind, and `harness.nights.totals` adds them. Medians are
of one night. What a task hands back is small: of the runs the newest ones, and no verdict.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pandas as pd

from harness.nights import runs as rows_of
from harness.nights import session_log as sessions
from harness.nights.headline import SessionView
from harness.nights.runs import COMBINATION, FAULT_COLUMNS, FOUND_COLUMNS, SYSTEM
from harness.nights.session_log import FAILING, SoakSession
from history.tables import TableRow
from history.verdict import NOT_RECOVERED, bugs_of

RUNS_MAX: Final = 2000
"""Runs that the index lists, the newest ones."""
SAMPLE: Final = [*COMBINATION, *SYSTEM]
"""Runs that have a rate together: those of one system, version and client, with a planted bug apart."""
GROUP: Final = ["name", *SAMPLE, "known_bug"]
NEWEST: Final = ["at", "number", "report", "folder"]
"""What is kept of the newest run of a group."""
FOUND: Final = ["session", *GROUP, "runs", "fresh", *NEWEST]
SAMPLES: Final = ["session", *SAMPLE, "judged", "fair"]
BUG: Final = ["finding", "known_bug", "planted"]
"""A known bug, else a class of anomalies; those of systems with a planted bug apart."""
SYSTEM_OF: Final = [name for name in SYSTEM if name not in BUG]
BUGS: Final = ["session", *BUG, *SYSTEM_OF, "runs", "names", *NEWEST]
TESTED: Final = [*SYSTEM, "judged"]
KIND: Final = ["system", "version", "fault"]
COLUMN: Final = ["system", "version", "client"]
SIDE: Final = [*COLUMN, "nemesis"]
"""A cell of the comparison."""
MET: Final = ["session", *COLUMN, "finding", "known_bug", "runs", "first_s"]
RAN: Final = ["session", *COLUMN, "judged", "seconds"]
SUMS: Final = ["judged", "forbidden", "open", "available", "known", "recovery_s", "recovered"]
LIVED: Final = [*KIND, "runs", "failing", "times", "served", "known", "recovered_s", "recovered", "stalled_s"]


def _no(columns: Sequence[str]) -> pd.DataFrame:
    return pd.DataFrame(columns=list(columns))


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What some nights, or some runs made by hand, come to.

    shown: the newest runs, each with its forbidden `classes`; many: how many there are. folders: of runs
    that sessions made. found: runs with a forbidden finding and those of a fair sample among them, by night
    and group, with the newest one. samples: how many there are, by night and sample. bugs: runs with a
    known bug, or a class of anomalies that none explains, by night and system, with the newest one and the
    `names` of the classes. tested: how many runs of each system there are. allowed: by class.
    side: drawn runs of sessions that compare systems, without interrupted ones, by system, client and
    nemesis, `forbidden` and `open` ones (with such a finding) among them; sums of `available` and
    `recovery_s`, and of how many values (`known`, `recovered`).
    met: by session and system of these, the drawn runs with a known bug, or a class that none explains;
    first_s: how long the session had run this system when the first of them ended. ran: how long it did.
    performed: how many draws these systems performed, each draw once.
    lived: sums over the faults of fair runs, by system, version and fault (`known`, `recovered`: how many
    values `served` and `recovered_s` are sums of; `stalled_s`: the longest).
    """

    shown: pd.DataFrame
    many: int
    views: list[SessionView] = field(default_factory=list)
    folders: frozenset[str] = frozenset()
    found: pd.DataFrame = field(default_factory=lambda: _no(FOUND))
    samples: pd.DataFrame = field(default_factory=lambda: _no(SAMPLES))
    bugs: pd.DataFrame = field(default_factory=lambda: _no(BUGS))
    tested: pd.DataFrame = field(default_factory=lambda: _no(TESTED))
    allowed: pd.DataFrame = field(default_factory=lambda: _no(["name", "runs", "findings"]))
    side: pd.DataFrame = field(default_factory=lambda: _no([*SIDE, *SUMS]))
    met: pd.DataFrame = field(default_factory=lambda: _no(MET))
    ran: pd.DataFrame = field(default_factory=lambda: _no(RAN))
    performed: Counter[object] = field(default_factory=Counter)
    lived: pd.DataFrame = field(default_factory=lambda: _no(LIVED))


def of_nights(results: Path, names: Sequence[str]) -> Share:
    """Of these sessions, oldest first. One whose log cannot be read is left out."""
    found = [one for name in names if (one := sessions.read(results / sessions.FOLDER / name)) is not None]
    runs, findings = rows_of.of_sessions(results, found)
    judged = runs[runs["judged"].astype(bool)]
    forbidden = findings[findings["disallowed"] > 0].merge(runs, left_on="row", right_index=True)
    by_bug = forbidden["known_bug"].map(lambda known: bugs_of(known) or [""])
    forbidden = forbidden.assign(known_bug=by_bug).explode("known_bug", ignore_index=True)
    numbers = [_numbers(session, runs, forbidden) for session in found]
    of_judged = forbidden[forbidden["judged"].astype(bool)]
    drawn = _drawn(judged[judged["session"].isin([one.name for one in found if _compares(one)])])
    return Share(
        shown=_shown(runs, findings),
        many=len(runs),
        views=[SessionView.of(results, one, row) for one, row in zip(found, numbers, strict=True)],
        folders=frozenset(a.outcome.folder for one in found for a in one.attempts if a.outcome),
        found=_found(of_judged),
        samples=judged.groupby(["session", *SAMPLE], as_index=False).agg(
            judged=("judged", "size"), fair=("fair", "sum")
        ),
        bugs=_bugs(of_judged),
        tested=judged.groupby(SYSTEM, as_index=False).agg(judged=("judged", "size")),
        allowed=_allowed(findings),
        side=_side(drawn, forbidden),
        met=_met(drawn, forbidden),
        ran=drawn.groupby(RAN[:-2], as_index=False).agg(judged=("seed", "size"), seconds=("seconds", "sum")),
        performed=_performed(drawn),
        lived=_lived(results, judged, set(forbidden["row"])),
    )


def of_hand(results: Path, names: Sequence[str]) -> Share:
    """Of runs that people made, in these folders: they are listed, and counted nowhere."""
    runs, findings = rows_of.of_hand(results, names)
    return Share(shown=_shown(runs, findings), many=len(runs))


def _shown(runs: pd.DataFrame, findings: pd.DataFrame) -> pd.DataFrame:
    shown = rows_of.newest_first(runs).head(RUNS_MAX)
    forbidden = findings[(findings["disallowed"] > 0) & findings["row"].isin(shown.index)]
    classes = {row: records(part[FOUND_COLUMNS]) for row, part in forbidden.groupby("row")}
    return shown.assign(classes=pd.Series({row: classes.get(row, []) for row in shown.index}, dtype=object))


def _numbers(session: SoakSession, runs: pd.DataFrame, forbidden: pd.DataFrame) -> TableRow:
    """The row of a session in the trend: `session`, `runs` (judged), `failing`, `errors`; how many classes of
    anomalies are `open`, bugs `known`, and classes `planted` (`not-recovered` is in none); medians
    `available` and `recovery_s` (NaN = not known)."""
    mine = runs[runs["session"] == session.name]
    seen = forbidden[forbidden["session"] == session.name]
    failing = mine["state"].isin(FAILING) | mine.index.isin(seen["row"])
    seen = _named(seen[seen["name"] != NOT_RECOVERED]).drop_duplicates(BUG)
    medians = {name: float(mine[name].dropna().median()) for name in ("available", "recovery_s")}
    return {
        "session": session.name,
        "runs": int(mine["judged"].sum()),
        "failing": int(failing.sum()),
        "errors": int((mine["state"] == "error").sum()),
        "open": int(((seen["known_bug"] == "") & (seen["planted"] == "")).sum()),
        "planted": int(((seen["known_bug"] == "") & (seen["planted"] != "")).sum()),
        "known": int((seen["known_bug"] != "").sum()),
        **medians,
    }


def _found(forbidden: pd.DataFrame) -> pd.DataFrame:
    ordered = forbidden.drop_duplicates(["row", *GROUP]).sort_values(["at", "number"], kind="stable")
    newest: dict[str, tuple[str, str]] = {name: (name, "last") for name in NEWEST}
    return ordered.groupby(["session", *GROUP], as_index=False).agg(
        runs=("row", "size"), fresh=("fair", "sum"), **newest
    )[FOUND]


def _named(forbidden: pd.DataFrame) -> pd.DataFrame:
    """With `finding`: the known bug, else the class. Oldest runs first."""
    finding = forbidden["known_bug"].where(forbidden["known_bug"] != "", forbidden["name"])
    return forbidden.assign(finding=finding).sort_values(["at", "number"], kind="stable")


def _bugs(forbidden: pd.DataFrame) -> pd.DataFrame:
    """A run counts once for a bug, in whatever classes it shows itself."""
    ordered = _named(forbidden)
    by = ["session", *BUG, *SYSTEM_OF]
    newest: dict[str, tuple[str, str]] = {name: (name, "last") for name in NEWEST}
    once = ordered.drop_duplicates(["row", *BUG])
    runs = once.groupby(by, as_index=False).agg(runs=("row", "size"), **newest)
    names = ordered.groupby(by)["name"].agg(_together).rename("names")
    return runs.join(names, on=by)[BUGS]


def _together(names: "pd.Series[str]") -> object:
    return tuple(sorted(set(names)))


def _allowed(findings: pd.DataFrame) -> pd.DataFrame:
    permitted = findings.assign(permitted=findings["count"] - findings["disallowed"])
    permitted = permitted[permitted["permitted"] > 0]
    return permitted.groupby("name", as_index=False).agg(
        runs=("row", "nunique"), findings=("permitted", "sum")
    )


def _compares(session: SoakSession) -> bool:
    """Several systems performed the same drawn runs."""
    systems = session.started.matrix.get("systems")
    return isinstance(systems, list) and len(systems) > 1


def _drawn(judged: pd.DataFrame) -> pd.DataFrame:
    """Drawn runs, without interrupted ones, which are repeated; ran_s: how long their session had run their
    system when they ended."""
    fair = judged["fair"].astype(bool)
    drawn = judged[fair & (judged["why"] == "matrix") & (judged["planted"] == "")].sort_values(
        "number", kind="stable"
    )
    return drawn.assign(ran_s=drawn.groupby(RAN[:-2])["seconds"].cumsum())


def _performed(drawn: pd.DataFrame) -> Counter[object]:
    columns: list[object] = list(zip(*(drawn[name] for name in COLUMN), strict=True))
    made = drawn.assign(column=pd.Series(columns, drawn.index, dtype=object))
    return Counter(made.groupby(["session", *COMBINATION, "seed"])["column"].agg(_together))


def _met(drawn: pd.DataFrame, forbidden: pd.DataFrame) -> pd.DataFrame:
    of_drawn = _named(forbidden[forbidden["row"].isin(drawn.index)]).join(drawn["ran_s"], on="row")
    once = of_drawn.drop_duplicates(["row", "finding"])
    return once.groupby(MET[:-2], as_index=False).agg(runs=("row", "size"), first_s=("ran_s", "min"))


def _side(drawn: pd.DataFrame, forbidden: pd.DataFrame) -> pd.DataFrame:
    bad = set(forbidden["row"])
    new = set(forbidden.loc[(forbidden["known_bug"] == "") & (forbidden["name"] != NOT_RECOVERED), "row"])
    rows = drawn.assign(forbidden=drawn.index.isin(list(bad)), open=drawn.index.isin(list(new)))
    return rows.groupby(SIDE, as_index=False).agg(
        judged=("seed", "size"), forbidden=("forbidden", "sum"), open=("open", "sum"),
        available=("available", "sum"), known=("available", "count"),
        recovery_s=("recovery_s", "sum"), recovered=("recovery_s", "count"),
    )  # fmt: skip


def _lived(results: Path, judged: pd.DataFrame, forbidden: set[int]) -> pd.DataFrame:
    lived: list[TableRow] = []
    fair = judged[judged["fair"].astype(bool) & (judged["folder"] != "") & (judged["planted"] == "")]
    for row, state, verdict in zip(fair.index, fair["state"], fair["folder"], strict=True):
        failing = state in FAILING or row in forbidden
        faults = rows_of.faults_of(results / verdict)
        lived += [{"row": row, "failing": failing, **fault} for fault in faults]
    every = pd.DataFrame(lived, columns=list(FAULT_COLUMNS))
    for name in ("served", "recovered_s", "stalled_s"):
        every[name] = every[name].astype(float)
    sums = every.groupby(KIND).agg(
        runs=("row", "nunique"), times=("row", "size"), stalled_s=("stalled_s", "max"),
        served=("served", "sum"), known=("served", "count"),
        recovered_s=("recovered_s", "sum"), recovered=("recovered_s", "count"),
    )  # fmt: skip
    failing_runs = every[every["failing"].astype(bool)].groupby(KIND)["row"].nunique()
    sums["failing"] = failing_runs.reindex(sums.index, fill_value=0)
    return sums.reset_index()[LIVED]


def records(table: pd.DataFrame) -> list[TableRow]:
    """The rows, by column name."""
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]
