"""A sealed history as events of the portable format, for other checkers: as JSON, or as Jepsen's EDN.

    exported = events_of(history)
    WRITERS["portable"](name, exported.events, file)

A key is `topic-partition`, a value its number in the tables. Portable histories know neither isolation
levels nor commits nor the ends of logs: reads at read_uncommitted (where there are transactions), records
that failed in a transaction which did not, committed offsets and ops that moved no record are left out, and
`left_out` says so. Outside of transactions, a record that ended otherwise than its op stands in an op of its
own. The whole history is in memory.
Not here: reading either format.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
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
_OF_OTHERS: Final = {
    "commits": "committed offsets",
    "foreign": "records that are not those of this run and partition",
    "deliveries": "records that share groups were given",
    "acknowledgements": "acknowledgements of share groups",
}
"""Tables whose rows have no form here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """Events in real-time order; left_out: what of the history they do not hold, in words. claimed: what they
    say, by the rules of the format, that the history does not."""

    events: list[Event]
    left_out: list[str]
    claimed: list[str]


def events_of(history: History) -> Exported:
    """The events of a history. Raises: HistoryError."""
    sends, reads = (history.whole(name).to_pylist() for name in ("sends", "reads"))
    ops = history.tables["ops"].to_pylist()
    left: list[TableRow] = []
    if any(row["txn"] for row in ops):  # else both levels show the same
        left = [row for row in reads if row["isolation"] != Isolation.READ_COMMITTED]
        reads = [row for row in reads if row["isolation"] == Isolation.READ_COMMITTED]
    # In a transaction the op decides for all its records: one that was never written has no form there.
    unwritten = [row for row in sends if _unwritten(row)]
    sends = [row for row in sends if not _unwritten(row)]
    records: dict[int, list[TableRow]] = defaultdict(list)
    for row in (*sends, *reads):
        records[row["op"]].append(row)
    changes, unread = _changes(history.tables["assignments"].to_pylist(), reads)
    makes = _Makes(history, records, changes)
    stamped: list[tuple[tuple[int, int], Event]] = []
    order, skipped = _Order(), []
    for op in sorted(_parted(ops, records), key=lambda row: (row["invoke_ns"], row["op"])):
        pair = makes.pair(op)
        if pair is None:
            skipped.append(op["op"])
            continue
        invoked, completed = order.of(op)
        stamped.append((invoked, pair[0]))
        if op["complete_ns"] != OPEN:
            stamped.append((completed, pair[1]))
    stamped.sort(key=lambda each: each[0])
    of_share = {
        op for name in ("deliveries", "acknowledgements") for op in history.tables[name]["op"].to_pylist()
    }
    notes = [(len(left), "reads at read_uncommitted")]
    notes.append((len(set(skipped) - of_share), "ops that moved no record"))
    notes.append((len(unwritten), "records that failed in a transaction which did not"))
    notes.append((unread, "changes of assignments, of partitions that their process did not read afterwards"))
    notes += [(history.tables[name].num_rows, what) for name, what in _OF_OTHERS.items()]
    return Exported(
        events=[{"index": n, **event} for n, (_, event) in enumerate(stamped)],
        left_out=[f"{number} {what}" for number, what in notes if number],
        claimed=list(_claimed(history, sends)),
    )


def _claimed(history: History, sends: Sequence[TableRow]) -> Iterator[str]:
    unsafe = {
        row["process"]
        for row in history.tables["processes"].to_pylist()
        if row["acks"] in (0, 1) or not row["idempotent"]
    }
    if number := sum(row["process"] in unsafe for row in sends):
        yield (
            f"{number} records of producers with acks 0 or 1, or without idempotence: this format takes each"
            " for acks=all"
        )


def _unwritten(row: TableRow) -> bool:
    return bool(row["txn"]) and row["outcome"] == Outcome.FAIL and row["op_outcome"] != Outcome.FAIL


def _changes(rows: Sequence[TableRow], reads: Sequence[TableRow]) -> tuple[dict[int, list[TableRow]], int]:
    """Changes of assignments, by op; those between ops are of the first op that reads the partition under
    them. And how many are of none."""
    found: dict[int, list[TableRow]] = defaultdict(list)
    first: dict[tuple[int, int, int], int] = {}
    for read in reads:
        key = read["process"], read["tp"], read["assignment"]
        first[key] = min(read["op"], first.get(key, read["op"]))
    numbers: dict[tuple[int, int], list[int]] = defaultdict(list)
    for process, tp, number in sorted(first):
        numbers[process, tp].append(number)
    unread = 0
    before: Counter[tuple[int, int]] = Counter()
    for row in sorted(rows, key=lambda row: int(row["assignment"])):
        whose = row["process"], row["tp"]
        moved, before[whose] = row["assignment"] > before[whose], row["assignment"]
        if row["op"] >= 0:
            found[row["op"]].append(row)
        elif moved:
            under = next((number for number in numbers[whose] if number >= row["assignment"]), None)
            if under is None:
                unread += 1
            else:
                kind = row["kind"] if row["kind"] in _REBALANCES else AssignmentKind.ASSIGNED
                found[first[(*whose, under)]].append({**row, "kind": kind})
    return found, unread


def _parted(ops: Sequence[TableRow], records: dict[int, list[TableRow]]) -> list[TableRow]:
    """The ops; of those outside of transactions whose records ended in several ways, further ones, each of a
    process of its own at the same time, with the records that did not end as the op. It takes these records
    from the op."""
    parted = [{**op} for op in ops]
    free, number = (1 + max((row[name] for row in ops), default=-1) for name in ("process", "op"))
    last = max((row["complete_ns"] for row in ops if row["complete_ns"] != OPEN), default=0)
    processes: dict[tuple[int, int], int] = {}
    for op in parted[:]:
        rows = records[op["op"]]
        ends = {row["outcome"] for row in rows if "place" in row}
        if op["txn"] or not ends:
            continue
        if ends == {Outcome.FAIL} and len(rows) == op["n_sends"]:
            op["outcome"], op["complete_ns"] = (
                Outcome.FAIL,
                min(op["complete_ns"], max(op["invoke_ns"], last)),
            )
        elif op["outcome"] == Outcome.FAIL and ends != {Outcome.FAIL}:
            op["outcome"] = Outcome.INFO  # each record with an offset is acknowledged
        for outcome in sorted(ends - {op["outcome"]}):
            others = [row for row in rows if "place" in row and _apart(op, row, outcome)]
            if not others:
                continue
            process = processes.setdefault((op["process"], outcome), free + len(processes))
            made = {**op, "op": number, "process": process, "outcome": outcome}
            if op["complete_ns"] == OPEN and outcome != Outcome.INFO:
                made["complete_ns"] = max(op["invoke_ns"], last)
            records[op["op"]] = rows = [row for row in rows if row not in others]
            records[number] = others
            parted.append(made)
            number += 1
    return parted


def _apart(op: TableRow, row: TableRow, outcome: int) -> bool:
    """A record with this outcome, which its op says otherwise: in one in doubt an offset acknowledges."""
    return bool(row["outcome"] == outcome) and not (op["outcome"] == Outcome.INFO and row["offset"] >= 0)


class _Order:
    """Where an invocation and its completion stand: by time; at the same time invocations first, so that
    ops that touch count as concurrent, unless they are of one process."""

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
        done: Event = {"time": op["complete_ns"], "type": Outcome(op["outcome"]).name.lower(), **head}
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
