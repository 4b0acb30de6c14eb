"""Write a sealed run folder of any size, with planted anomalies of known number.

    python -m benchmarks.make_history --messages 1000000 --seed 1 results/synthetic-1m

32 partitions (or `--partitions`), 20 transactional producers (4 records a transaction), 8 consumers
that read committed and 8 that do not, each record read by one of either kind, then final reads at both
levels: four reads a message. `expected.json` beside the history tells how many findings of each class
there are, all but the informational ones.

With `--parts N` the history is N of these side by side, each with its own seed, producers, consumers and
partitions. One part is in memory, the rows of one unit, and the ops of all.

Not here: what the producers did and what is planted (`benchmarks.synthetic`), who read what
(`benchmarks.synthetic_reads`).
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from benchmarks.synthetic import PER_TXN, SLOTS, START_NS, TPS, Array, Synthetic
from benchmarks.synthetic_reads import FIRST_READER, RC, RU, VIEWS, Edits, Polls
from core.config import RunConfig
from core.op import AssignmentKind, CommitKind, End, Outcome, Phase, value_of
from history import events as ev
from history import jsonl
from history.reader import Unit
from history.run_folder import FORMAT, Run
from history.tables import TABLES
from history.units import UNIT_ROWS, largest_first, write_table, write_unit

F: Final = ("txn", "poll", "final")
EARLY_READER: Final = 1_000_300
PROCESSES: Final = 10_000_000
"""The processes of a part are numbered below."""
GROUP: Final = 0


class History:
    """All ops with their numbers, and the rows of each partition: part `part` of a whole history.

    Tables have the numbers of the whole history, everything else those of the part. `number`: of each op.
    """

    def __init__(self, synthetic: Synthetic, part: int = 0) -> None:
        self.synthetic = synthetic
        self.moved = {
            "tp": part * synthetic.partitions, "partition": part * synthetic.partitions,
            "process": part * PROCESSES, "value": value_of(part * PROCESSES, 0),
            "txn_id": part * SLOTS, "slot": part * 1000,
        }  # fmt: skip
        self.plan = synthetic.plan
        self.expected: Counter[str] = Counter()
        txns, messages = synthetic.txns, synthetic.messages
        self.polls = [Polls(synthetic, view, synthetic.end_ns + 10**9) for view in VIEWS]
        early = self.plan.one["early"]
        self.early_ns = messages.begin[early] - 10_000
        blocks = [
            (txns.process, txns.invoke, txns.complete),
            *((polls.process, polls.invoke, polls.complete) for polls in self.polls),
            (EARLY_READER + np.arange(len(early)), self.early_ns, self.early_ns + 1_000),
        ]
        self.first = np.concatenate([[0], np.cumsum([len(block[0]) for block in blocks])])
        self.process, self.invoke, self.complete = (
            np.concatenate([block[column] for block in blocks]) for column in range(3)
        )
        self.number = ranks(self.complete)
        self.n_reads = np.zeros(len(self.complete), np.int64)
        self.place = self._places()
        self.foreign: list[dict[str, Any]] = []
        self.commits: list[pa.Table] = []
        self.assigned: list[dict[str, Any]] = []

    def op_of_poll(self, view: int, tp: int, chunk: Array) -> Array:
        """Unnumbered ops of chunks of a partition."""
        return np.asarray(self.first[1 + view] + self.polls[view].first[tp] + chunk)

    def _places(self) -> Array:
        """Where each message is, as the sends tell: in doubt and unread is nowhere."""
        place = self.synthetic.messages.offset.copy()
        for pair in self.plan.two["torn in doubt"]:
            place[list(pair)] = -1
        for m, lost in self.plan.two["inconsistent"]:
            place[lost] = place[m]
        return place

    # sends -----------------------------------------------------------------------------------

    def sends(self, tp: int) -> pa.Table:
        """The sends to one partition, sorted."""
        messages, txns = self.synthetic.messages, self.synthetic.txns
        m = np.flatnonzero(messages.tp == tp)
        txn = m // PER_TXN
        outcome = txns.outcome[txn]
        known = outcome != Outcome.INFO
        rows = {
            "tp": np.full(len(m), tp), "op": self.number[txn], "process": txns.process[txn],
            "pos": m % PER_TXN, "value": messages.value[m],
            "offset": np.where(known, messages.offset[m], -1), "place": self.place[m],
            "outcome": np.where(known, Outcome.OK, Outcome.INFO), "op_outcome": outcome,
            "txn": np.ones(len(m)), "op_sends": np.full(len(m), PER_TXN),
            "invoke_ns": messages.begin[m], "ack_ns": np.where(known, messages.ack[m], -1),
            "src_tp": np.full(len(m), -1), "src_offset": np.full(len(m), -1),
        }  # fmt: skip
        return self._table("sends", rows, ("pos", "op"))

    # reads -----------------------------------------------------------------------------------

    def reads(self, tp: int) -> pa.Table:
        """The reads of one partition, sorted."""
        blocks = [self._view_rows(number, tp) for number in range(len(VIEWS))]
        blocks.append(self._single_reads(tp))
        rows = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
        np.add.at(self.n_reads, rows["op"], 1)
        rows["process"] = self.process[rows["op"]]
        is_view = rows["op"] >= self.first[1]
        rows["invoke_ns"] = np.where(is_view, self.invoke[rows["op"]], rows["ns"] - 100)
        rows["complete_ns"] = np.where(is_view, self.complete[rows["op"]], rows["ns"])
        rows["op_outcome"] = np.where(
            is_view, Outcome.OK, self.synthetic.txns.outcome[np.where(is_view, 0, rows["op"])]
        )
        rows["op"] = self.number[rows["op"]]
        rows |= {"tp": np.full(len(rows["op"]), tp), "leader_epoch": np.zeros(len(rows["op"]))}
        return self._table("reads", rows, ("pos", "op", "process"))

    def _view_rows(self, number: int, tp: int) -> dict[str, Array]:
        view = VIEWS[number]
        messages = self.synthetic.messages
        log = messages.log[messages.starts[tp] : messages.starts[tp + 1]]
        if view.level == RC:
            log = log[self.synthetic.txns.committed[log // PER_TXN]]
        edits = Edits(self.synthetic, view, tp, log)
        offset, value, chunk = edits.rows()
        op = self.op_of_poll(number, tp, chunk)
        start = np.r_[True, op[1:] != op[:-1]]
        pos = np.arange(len(op)) - np.maximum.accumulate(np.where(start, np.arange(len(op)), 0))
        if view.level == RC and not view.final:
            self._commit(number, tp, op, offset, edits)
        return {
            "op": op, "pos": pos, "offset": offset, "value": value,
            "assignment": edits.assignments(chunk), "isolation": np.full(len(op), view.level),
            "phase": np.full(len(op), Phase.FINAL if view.final else Phase.FAULTS),
            "ns": np.zeros(len(op), np.int64),
        }  # fmt: skip

    def _single_reads(self, tp: int) -> dict[str, Array]:
        """Reads outside of the views: relays, and what is planted there."""
        messages, txns, plan = self.synthetic.messages, self.synthetic.txns, self.plan
        relays = np.flatnonzero(txns.relay & (txns.slot == tp))
        log = messages.log[messages.starts[tp] : messages.starts[tp + 1]]
        committed = log[txns.committed[log // PER_TXN]][: len(relays)]
        found = [(int(op), int(m)) for op, m in zip(relays, committed, strict=True)]
        pairs = [(m // PER_TXN, n) for a, b in plan.two["cycle"] for m, n in ((a, b), (b, a))]
        pairs += [(m // PER_TXN, m) for m in plan.one["precommitted"]]
        pairs += [(int(self.first[-2]) + n, m) for n, m in enumerate(plan.one["early"])]
        found += [(op, m) for op, m in pairs if messages.tp[m] == tp]
        op = np.array([op for op, _ in found], np.int64)
        m = np.array([m for _, m in found], np.int64)
        in_txn = op < self.first[1]
        return {
            "op": op, "pos": np.where(in_txn, PER_TXN, 0), "offset": messages.offset[m],
            "value": messages.value[m], "assignment": np.ones(len(op), np.int64),
            "isolation": np.full(len(op), RC), "phase": np.full(len(op), Phase.FAULTS),
            "ns": self.complete[op] - 1_000,
        }  # fmt: skip

    def _commit(self, view: int, tp: int, op: Array, offset: Array, edits: Edits) -> None:
        """Each poll commits where it got to; some of these are planted to go back."""
        last = np.flatnonzero(np.r_[op[1:] != op[:-1], True])
        committed = offset[last] + 1
        back = edits.chunks("commit goes back")
        committed[back] = committed[np.array(back, np.int64) - 1] - 1
        ops = op[last]
        rows = {
            "group": np.full(len(ops), GROUP), "tp": np.full(len(ops), tp),
            "op": self.number[ops], "process": self.process[ops],
            "generation": np.ones(len(ops)), "offset": committed,
            "kind": np.full(len(ops), CommitKind.SYNC), "outcome": np.full(len(ops), Outcome.OK),
            "invoke_ns": self.complete[ops] - 500, "complete_ns": self.complete[ops] - 100,
        }  # fmt: skip
        self.commits.append(self._table("commits", rows, ()))
        for m in edits.planted("foreign"):
            reason = len(self.foreign) % 3  # one of another run would leave the whole history undecided
            at = {"tp": tp, "offset": int(self.synthetic.messages.offset[m]) + 1}
            number = int(self.number[ops[edits.chunk_of(m)]])
            self.foreign.append({**at, "op": number, "reason": reason, "payload": b"?"})
            name = ("corrupt-record", "corrupt-record", "misdirected-record")
            self.expected[name[reason]] += 1
        for assignment, chunk in enumerate(edits.chunks("explained rewind"), 2):
            op_number = int(self.op_of_poll(view, tp, np.array([chunk + 1]))[0])
            self._assignment(op_number, tp, assignment, AssignmentKind.ASSIGNED)
        self._assignment(int(ops[0]), tp, 1, AssignmentKind.ASSIGNED)

    def _assignment(self, op: int, tp: int, number: int, kind: AssignmentKind) -> None:
        self.assigned.append(
            {
                "process": int(self.process[op]), "tp": tp, "generation": 1,
                "op": int(self.number[op]), "assignment": number, "kind": kind,
                "ns": int(self.invoke[op]),
            }
        )  # fmt: skip

    # the rest --------------------------------------------------------------------------------

    def others(self) -> dict[str, pa.Table]:
        """The tables of one file each; call it after all `reads`."""
        tps = self.synthetic.partitions
        tables = {
            "tps": self._table(
                "tps", {"tp": np.arange(tps), "topic": ["bench"] * tps, "partition": np.arange(tps)}, ()
            ),
            "ops": self._ops(),
            "processes": self._processes(),
            "bounds": self._bounds(),
            "commits": pa.concat_tables(self.commits),
        }
        for name, rows in (("foreign", self.foreign), ("assignments", self.assigned)):
            columns = {column: [row[column] for row in rows] for column in TABLES[name].names}
            tables[name] = self._table(name, columns, ())
        unused = ("producers", "deliveries", "acknowledgements")
        return tables | {name: TABLES[name].empty_table() for name in unused}

    def _ops(self) -> pa.Table:
        count, txns = len(self.number), self.synthetic.txns
        is_txn = np.arange(count) < self.first[1]
        final = (np.arange(count) >= self.first[3]) & (np.arange(count) < self.first[5])
        outcome = np.zeros(count, np.int8)
        outcome[: len(txns.outcome)] = txns.outcome
        rows = {
            "op": self.number, "process": self.process,
            "f": np.select([is_txn, final], [F.index("txn"), F.index("final")], F.index("poll")),
            "outcome": outcome, "phase": np.where(final, Phase.FINAL, Phase.FAULTS),
            "txn": is_txn, "deliberate": outcome == Outcome.FAIL, "error": np.full(count, -1),
            "n_sends": np.where(is_txn, PER_TXN, 0), "n_reads": self.n_reads,
            "invoke_ns": self.invoke, "complete_ns": self.complete,
        }  # fmt: skip
        return self._table("ops", rows, ("op",))

    def _processes(self) -> pa.Table:
        process, index = np.unique(self.process, return_inverse=True)
        start = np.full(len(process), 2**62)
        np.minimum.at(start, index, self.invoke)
        end = np.zeros(len(process), np.int64)
        np.maximum.at(end, index, self.complete)
        producer = process < FIRST_READER[RC, False]
        uncommitted = (process >= FIRST_READER[RU, False]) & (process < FIRST_READER[RC, True])
        uncommitted |= process == FIRST_READER[RU, True]
        grouped = (process >= FIRST_READER[RC, False]) & (process < FIRST_READER[RU, False])
        slot = np.where(producer, process % SLOTS, np.arange(len(process)) % 1000)
        rows = {
            "process": process, "slot": slot, "group": np.where(grouped, GROUP, -1),
            "isolation": np.where(uncommitted, RU, RC), "txn_id": np.where(producer, slot, -1),
            "acks": np.where(producer, -1, -2), "idempotent": producer,
            "auto_commit": np.zeros(len(process)), "retries": np.full(len(process), 2**31 - 1),
            "in_flight": np.full(len(process), 5),
            "socket_timeout_ms": np.full(len(process), 3000),
            "start_ns": start, "end_ns": end, "end": np.full(len(process), End.CLOSED),
        }  # fmt: skip
        return self._table("processes", rows, ("process",))

    def ends(self) -> Array:
        """End of each partition's log."""
        messages = self.synthetic.messages
        return np.asarray(messages.offset[messages.log[messages.starts[1:] - 1]] + 2)

    def listed(self) -> list[tuple[str, int, int, int, int]]:
        """What the listing of the ends says of this part."""
        return [
            ("bench", tp + self.moved["tp"], int(level), 0, int(offset))
            for tp, offset in enumerate(self.ends())
            for level in (RU, RC)
        ]

    def _bounds(self) -> pa.Table:
        end = np.repeat(self.ends(), 2)
        rows = {
            "tp": np.repeat(np.arange(len(end) // 2), 2), "isolation": np.tile([RU, RC], len(end) // 2),
            "start": np.zeros(len(end)), "end": end, "read_to": end,
            "complete": np.ones(len(end)),
        }  # fmt: skip
        return self._table("bounds", rows, ())

    def _table(self, name: str, rows: dict[str, Any], order: tuple[str, ...]) -> pa.Table:
        """A table of the right schema, sorted by the last of `order` first."""
        if order:
            by = np.lexsort([rows[column] for column in order])
            rows = {column: values[by] for column, values in rows.items()}
        arrays = []
        for field in TABLES[name]:
            values = np.asarray(rows[field.name]).astype(field.type.to_pandas_dtype())
            if further := self.moved.get(field.name, 0):
                values = np.where(values >= 0, values + further, values).astype(values.dtype)
            arrays.append(pa.array(values, field.type))
        return pa.Table.from_arrays(arrays, schema=TABLES[name])


def ranks(complete: Array) -> Array:
    """The number of each op, by the time of its completion."""
    number = np.empty(len(complete), np.int64)
    number[np.argsort(complete, kind="stable")] = np.arange(len(complete))
    return number


def expected(history: History) -> dict[str, int]:
    """Exact number of findings of each class that is not informational."""
    counts = {kind: len(found) for kind, found in history.plan.one.items()}
    counts |= {kind: len(found) for kind, found in history.plan.two.items()}
    txns, messages = history.synthetic.txns, history.synthetic.messages
    aborted = int((txns.outcome[messages.log // PER_TXN] == Outcome.FAIL).sum())
    found = Counter(history.expected)
    found.update(
        {
            "lost-write": counts["lost"] + counts["lost after it was read"],
            "torn-txn": counts["lost"] + counts["torn in doubt"],
            "duplicate": counts["duplicate"],
            # by uncommitted consumers; what final reads show of them no verdict counts
            "aborted-read": aborted + counts["aborted read"],
            "precommitted-read": counts["precommitted"],
            "phantom-read": counts["phantom"],
            "inconsistent-offsets": counts["inconsistent"],
            "int-nonmonotonic-poll": counts["swapped in a poll"],
            "int-poll-skip": 2 * counts["swapped in a poll"] + counts["skipped in a poll"],
            "poll-skip": counts["skipped between polls"],
            "nonmonotonic-poll": counts["repeated between polls"],
            "nonmonotonic-send": counts["producer reorder"],
            "offset-realtime-inversion": _inversions(history),
            "G1c": counts["cycle"],
            "G1c-realtime": counts["early"],
            "offset-commit-regression": counts["commit goes back"],
            # the only member of its group was given them again, or never
            "group-duplicate": counts["explained rewind"],
            "group-skip": counts["skipped between polls"],
        }
    )  # fmt: skip
    return dict(sorted(found.items()))


def _inversions(history: History) -> int:
    """Messages that began after a reordered one was acknowledged, and lie below it."""
    messages, inverted = history.synthetic.messages, set[int]()
    for early, _ in history.plan.two["producer reorder"]:
        place = history.place
        below = (messages.tp == messages.tp[early]) & (place >= 0)
        below &= (place < messages.offset[early]) & (messages.begin > messages.ack[early])
        inverted |= set(np.flatnonzero(below).tolist())
    return len(inverted)


def write(run: Run, messages: int, seed: int, *, partitions: int = TPS, parts: int = 1) -> dict[str, int]:
    """Write the whole run folder; the expected findings. messages: of all parts; partitions: of each."""

    def made(part: int) -> History:
        return History(Synthetic(messages // parts, seed + part, partitions), part)

    for name in ("sends", "reads"):
        (run.history / name).mkdir(parents=True)
    numbers = _numbers([made(part).complete for part in range(parts)]) if parts > 1 else []
    units: list[Unit] = []
    found: Counter[str] = Counter()
    others: dict[str, list[pa.Table]] = {}
    end_ns, bounds = 0, list[tuple[str, int, int, int, int]]()
    for part in range(parts):
        history = made(part)
        history.number = numbers[part] if numbers else history.number
        units += _write_units(run, history)
        for name, table in history.others().items():
            others.setdefault(name, []).append(table)
        found.update(expected(history))
        end_ns = max(end_ns, history.synthetic.end_ns)
        bounds += history.listed()
    for name in tuple(others):
        whole = pa.concat_tables(others.pop(name))
        if name == "ops" and parts > 1:
            whole = whole.take(pa.array(np.argsort(whole.column("op").to_numpy())))
        write_table(whole.combine_chunks(), run.table(name))
    _write_events(run, end_ns, tuple(bounds))
    config = RunConfig(workload="transactions", nemesis="none", seed=seed, partitions=partitions * parts)
    run.config.write_text(config.model_dump_json(indent=2) + "\n")
    (run.folder / "expected.json").write_text(json.dumps(found, indent=2, sort_keys=True) + "\n")
    names = {
        "format": FORMAT, "run": run.name, "start_ns": START_NS,
        "start_wall": "2026-01-01T00:00:00+00:00", "units": largest_first(units), "f": list(F), "error": [],
        "group": ["readers"], "txn_id": [f"producer-{slot}" for slot in range(parts * SLOTS)],
    }  # fmt: skip
    run.names.write_bytes(msgspec.json.encode(names))
    return dict(found)


def _numbers(complete: list[Array]) -> list[Array]:
    """The numbers of the ops of each part in the whole history."""
    ends = np.cumsum([len(each) for each in complete])
    return np.split(ranks(np.concatenate(complete)), ends[:-1])


def _write_units(run: Run, history: History) -> Iterator[Unit]:
    """Write the partitions of a part."""
    group: list[tuple[int, pa.Table, pa.Table]] = []
    last = history.synthetic.partitions - 1
    for tp in range(last + 1):
        group.append((tp + history.moved["tp"], history.sends(tp), history.reads(tp)))
        rows = sum(sends.num_rows + reads.num_rows for _, sends, reads in group)
        if rows >= UNIT_ROWS or tp == last:
            sends, reads = (pa.concat_tables([each[n] for each in group]) for n in (1, 2))
            yield write_unit(run.history, [tp for tp, _, _ in group], sends, reads)
            group = []


def _write_events(run: Run, end: int, bounds: tuple[tuple[str, int, int, int, int], ...]) -> None:
    events: list[ev.Event] = [
        ev.RunStarted(ns=START_NS, wall="2026-01-01T00:00:00+00:00", run=run.name, versions={}),
        ev.PhaseStarted(ns=START_NS, phase=Phase.FAULTS),
        ev.PhaseStarted(ns=end, phase=Phase.RECOVER),
        ev.Recovered(ns=end, recovered=True, seconds=0.0),
        ev.BoundsListed(ns=end, rows=bounds, stable=True),
        ev.PhaseStarted(ns=end + 1, phase=Phase.FINAL),
        ev.PhaseStarted(ns=end + 2, phase=Phase.COLLECT),
    ]
    run.events.write_bytes(jsonl.encode(events))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--partitions", type=int, default=TPS, help="of each part")
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("run", type=Path, help="folder to write; must not exist")
    options = parser.parse_args()
    if options.run.exists():
        parser.error(f"{options.run} exists already")
    begin = time.monotonic()
    options.run.mkdir(parents=True)
    found = write(
        Run(options.run), options.messages, options.seed, partitions=options.partitions, parts=options.parts
    )
    print(json.dumps(found))
    print(f"written in {time.monotonic() - begin:.1f} s")


if __name__ == "__main__":
    main()
