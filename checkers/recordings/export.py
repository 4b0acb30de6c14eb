"""A sealed history as events of the portable format, for other checkers: as JSON, or as Jepsen's EDN.

    exported = events_of(history)
    WRITERS["portable"](name, exported.events, file)

A key is `topic-partition`, a value its number in the tables. Portable histories know neither isolation
levels nor commits nor the ends of logs: reads at read_uncommitted (where there are transactions), records
that failed in a transaction which did not, committed offsets and ops that moved no record are left out, and
`left_out` says so. The whole history is in memory.
Not here: reading either format.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, TextIO

from core.op import AssignmentKind, Isolation, Outcome
from history.reader import History
from history.tables import OPEN, TableRow

Event = dict[str, Any]
_REBALANCES: Final = {
    AssignmentKind.ASSIGNED: "assigned",
    AssignmentKind.REVOKED: "revoked",
    AssignmentKind.LOST: "lost",
    AssignmentKind.RESET: "assigned",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """Events in real-time order; left_out: what of the history they do not hold, in words."""

    events: list[Event]
    left_out: list[str]


def events_of(history: History) -> Exported:
    """The events of a history. Raises: HistoryError."""
    sends, reads = (history.whole(name).to_pylist() for name in ("sends", "reads"))
    ops = history.tables["ops"].to_pylist()
    left = []
    if any(row["txn"] for row in ops):  # else both levels show the same
        left = [row for row in reads if row["isolation"] != Isolation.READ_COMMITTED]
        reads = [row for row in reads if row["isolation"] == Isolation.READ_COMMITTED]
    # In a transaction the op decides for all its records: one that was never written has no form there.
    unwritten = [row for row in sends if _unwritten(row)]
    sends = [row for row in sends if not _unwritten(row)]
    records: dict[int, list[TableRow]] = defaultdict(list)
    for row in sends:
        records[row["op"]].append(row)
    for row in reads:
        records[row["op"]].append(row)
    changes: dict[int, list[TableRow]] = defaultdict(list)
    for row in history.tables["assignments"].to_pylist():
        changes[row["op"]].append(row)
    makes = _Makes(history, records, changes)
    stamped: list[tuple[tuple[int, int], Event]] = []
    order = _Order()
    skipped = 0
    for op in sorted(ops, key=lambda row: (row["invoke_ns"], row["op"])):
        pair = makes.pair(op)
        if pair is None:
            skipped += 1
            continue
        invoked, completed = order.of(op)
        stamped.append((invoked, pair[0]))
        if op["complete_ns"] != OPEN:
            stamped.append((completed, pair[1]))
    stamped.sort(key=lambda each: each[0])
    events = [{"index": n, **event} for n, (_, event) in enumerate(stamped)]
    notes = [(len(left), "reads at read_uncommitted"), (skipped, "ops that moved no record")]
    notes.append((len(unwritten), "records that failed in a transaction which did not"))
    notes.append((history.tables["commits"].num_rows, "committed offsets"))
    return Exported(events=events, left_out=[f"{number} {what}" for number, what in notes if number])


def _unwritten(row: TableRow) -> bool:
    return bool(row["txn"]) and row["outcome"] == Outcome.FAIL and row["op_outcome"] != Outcome.FAIL


class _Order:
    """Where an invocation and its completion stand: by time; at the same time invocations first, so that
    ops that
    touch count as concurrent, unless they are of one process."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[int, int]] = {}

    def of(self, op: TableRow) -> tuple[tuple[int, int], tuple[int, int]]:
        """Of an op; ops of one process in order."""
        invoked = self._after(op["process"], op["invoke_ns"], 0)
        return invoked, self._after(op["process"], op["complete_ns"], 1)

    def _after(self, process: int, ns: int, rank: int) -> tuple[int, int]:
        last = self._last.get(process, (-1, 0))
        at = (ns, rank)
        if at <= last:
            at = (last[0], last[1] + 2)
        self._last[process] = at
        return at


class _Makes:
    """Makes the two events of each op."""

    def __init__(
        self, history: History, records: dict[int, list[TableRow]], changes: dict[int, list[TableRow]]
    ) -> None:
        self._history = history
        self._records, self._changes = records, changes
        self._drops = history.config.get("sut") == "imported"  # its assignments name what was dropped
        self._keys: dict[int, set[int]] = defaultdict(set)

    def pair(self, op: TableRow) -> tuple[Event, Event] | None:
        """Invocation and completion; None for an op that this format has no form for."""
        f = self._history.names.f[op["f"]]
        rows = sorted(self._records[op["op"]], key=lambda row: int(row["pos"]))
        process = op["process"]
        head = {"process": process, "txn": bool(op["txn"])}
        begun: Event = {"time": op["invoke_ns"], "type": "invoke", **head}
        outcome = _outcome(op, rows)
        done: Event = {"time": op["complete_ns"], "type": outcome, **head}
        if f in ("assign", "subscribe"):
            keys = self._assigned(process, self._changes[op["op"]])
            return _both(begun, done, f, keys, keys)
        if f == "crash":
            return _both(begun, done, f, None, None)
        self._keys[process].update(row["tp"] for row in rows)
        sent, read = any("place" in row for row in rows), any("place" not in row for row in rows)
        if not rows and f != "poll":
            return None
        asked, results = self._mops(rows, completed=op["complete_ns"] != OPEN)
        if log := list(self._rebalances(self._changes[op["op"]])):
            done["rebalance_log"] = log
        if not rows:
            asked, results = [["poll"]], [["poll", {}]]
        return _both(begun, done, "txn" if sent and read else "send" if sent else "poll", asked, results)

    def _mops(self, rows: list[TableRow], *, completed: bool) -> tuple[list[object], list[object]]:
        """Micro-ops as invoked and as completed."""
        asked: list[object] = []
        results: list[object] = []
        for is_send, some in groupby(rows, key=lambda row: "place" in row):
            if is_send:
                for row in some:
                    key, value = self._history.tp(row["tp"]), row["value"]
                    asked.append(["send", key, value])
                    offset = row["offset"]
                    results.append(["send", key, [offset, value] if offset >= 0 else value])
            else:
                polled: dict[str, list[list[int]]] = defaultdict(list)
                for row in some:
                    polled[self._history.tp(row["tp"])].append([row["offset"], row["value"]])
                asked.append(["poll"])
                results.append(["poll", dict(polled)])
        return asked, results

    def _assigned(self, process: int, changes: list[TableRow]) -> list[str]:
        named = {row["tp"] for row in changes if row["kind"] in (AssignmentKind.MANUAL, AssignmentKind.RESET)}
        kept = self._keys[process] - named if self._drops else named
        self._keys[process] |= named
        return [self._history.tp(tp) for tp in sorted(kept)]

    def _rebalances(self, changes: list[TableRow]) -> Iterator[Event]:
        for row in changes:
            if row["kind"] in _REBALANCES:
                yield {"type": _REBALANCES[row["kind"]], "keys": [self._history.tp(row["tp"])]}


def _outcome(op: TableRow, rows: list[TableRow]) -> str:
    """The op's own; where its records, outside of a transaction, ended in several ways: in doubt, so that
    each
    record with an offset is acknowledged."""
    own = Outcome(op["outcome"])
    records = {row["outcome"] for row in rows if "place" in row}
    if not op["txn"] and records and records != {int(own)}:
        own = Outcome.INFO
    return own.name.lower()


def _both(begun: Event, done: Event, f: str, asked: object, results: object) -> tuple[Event, Event]:
    return {**begun, "f": f, "value": asked}, {**done, "f": f, "value": results}


def _portable(name: str, events: Iterable[Event], file: TextIO) -> None:
    file.write(f'{{"name": {json.dumps(name)}, "history": [')
    for n, event in enumerate(events):
        file.write((",\n " if n else "\n ") + json.dumps(event))
    file.write("\n]}\n")


def _jepsen(name: str, events: Iterable[Event], file: TextIO) -> None:
    file.write(f"; {name}\n")
    for event in events:
        shown = {key.replace("_", "-"): value for key, value in event.items()}
        shown["type"], shown["f"] = _Keyword(event["type"]), _Keyword(event["f"])
        if event["f"] in ("send", "poll", "txn"):
            shown["value"] = [[_Keyword(mop[0]), *mop[1:]] for mop in event["value"]]
        if log := event.get("rebalance_log"):
            shown["rebalance-log"] = [{**each, "type": _Keyword(each["type"])} for each in log]
        file.write(edn(shown, keywords=True) + "\n")


class _Keyword(str):
    """Text that EDN writes as a keyword."""


def edn(value: object, *, keywords: bool = False) -> str:
    """A value as EDN. keywords: keys of this map, and of maps in its vectors, are keywords."""
    if value is None or isinstance(value, bool):
        return {None: "nil", True: "true", False: "false"}[value]
    if isinstance(value, _Keyword):
        return f":{value}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        pairs = (
            f"{':' + key if keywords else edn(key)} {edn(each, keywords=keywords and key != 'value')}"
            for key, each in value.items()
        )
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{' '.join(edn(each, keywords=keywords) for each in value)}]"
    return str(value)


WRITERS: Final[dict[str, Callable[[str, Iterable[Event], TextIO], None]]] = {
    "portable": _portable,
    "jepsen": _jepsen,
}
"""Name on the command line -> writer: (name of the run, events, file)."""
