"""Run folders made by code, for the tests of the report.

Numbers look like those of real runs (rates dip and latencies rise under faults), but nothing here was
measured: a fixture says what the report has to show, and how much of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from core.config import run_config
from core.op import Outcome, Phase
from history import events as ev
from history import jsonl
from history.run_folder import FORMAT, Run
from history.tables import OPEN, TABLES
from history.verdict import CheckResult, Fault, FaultHits, FaultLiveness, Liveness, Verdict
from tests.histories import report_histories
from tests.histories.report_histories import START_NS, TXN_IDS, UNITS, ns

WALL = "2026-03-01T10:15:00+00:00"
ERRORS = ("_MSG_TIMED_OUT", "REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS", "_TRANSPORT", "_FENCED")
F = ("send", "poll", "txn", "commit")
PHASES = {
    Phase.SETUP: 0.0,
    Phase.WARMUP: 13.2,
    Phase.FAULTS: 16.0,
    Phase.HEAL: 76.0,
    Phase.RECOVER: 77.1,
    Phase.QUIESCE: 81.4,
    Phase.FINAL: 84.0,
    Phase.COLLECT: 88.0,
    Phase.SEAL: 89.0,
}
IDLE = FaultHits(
    records=0,
    records_hit=0,
    transactions=0,
    transactions_hit=0,
    sending=0,
    ending=0,
    ops_hit=0,
    members=0,
    leaders=0,
    coordinators=0,
    controller=False,
    failed=0,
    in_doubt=0,
    nothing=True,
)
FAULTS = (
    Fault(
        fault=0,
        name="partition:isolate@leader",
        nodes=[2],
        begin_s=19.0,
        end_s=26.5,
        colour="#b3541e",
        text="node 2 (leader of queue-0 and queue-3) cut off from nodes 1 and 3",
        hits=msgspec.structs.replace(
            IDLE,
            records=7,
            records_hit=3,
            transactions=2,
            transactions_hit=1,
            ending=1,
            failed=4,
            nothing=False,
        ),
    ),
    Fault(
        fault=1,
        name="kill@controller",
        nodes=[1],
        begin_s=31.0,
        end_s=37.2,
        colour="#7a3b9a",
        text="node 1 (controller) ended by SIGKILL, started again 6 s later",
    ),
    Fault(
        fault=2,
        name="pause:long@txn-coordinator",
        nodes=[3],
        begin_s=44.0,
        end_s=57.0,
        colour="#1f77b4",
        text="node 3 (coordinator of 2 transactional ids) frozen",
    ),
    Fault(
        fault=3,
        name="partition:one-way@random",
        nodes=[1, 3],
        begin_s=52.0,
        end_s=63.0,
        colour="#c28a00",
        text="node 1 drops what node 3 sends; the other way is open",
    ),
)


@dataclass(kw_only=True)
class Folder:
    """What goes into a run folder; change it, then `write`. None leaves a file out."""

    verdict: Verdict | None
    events: list[ev.Event] | None
    ops: pa.Table | None
    names: dict[str, Any] | None
    extra: dict[str, bytes] = field(default_factory=dict)
    tables: dict[str, pa.Table] = field(default_factory=dict)

    def write(self, folder: Path) -> Run:
        """Make the run folder."""
        run = Run(folder)
        run.history.mkdir(parents=True)
        if self.verdict is not None:
            run.verdict.write_bytes(msgspec.json.encode(self.verdict))
        if self.events is not None:
            run.events.write_bytes(jsonl.encode(self.events))
        if self.ops is not None:
            pq.write_table(self.ops, run.table("ops"))
        if self.names is not None:
            run.names.write_bytes(msgspec.json.encode(self.names))
        for name, table in self.tables.items():
            path = run.history / f"{name}.parquet"
            path.parent.mkdir(exist_ok=True)
            pq.write_table(table, path)
        for name, data in self.extra.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        return run


def ops_table(rows: Mapping[str, list[int] | np.ndarray]) -> pa.Table:
    """A table of ops from the columns that matter; the others are filled in."""
    n = len(rows["f"])
    columns: dict[str, Any] = {
        "op": np.arange(n),
        "process": np.zeros(n),
        "phase": np.full(n, Phase.FAULTS),
        "txn": np.zeros(n),
        "deliberate": np.zeros(n),
        "error": np.full(n, -1),
        "n_sends": np.zeros(n),
        "n_reads": np.zeros(n),
    } | dict(rows)
    schema = TABLES["ops"]
    arrays = [pa.array(np.asarray(columns[f.name]).astype(np.int64)).cast(f.type) for f in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _ops(faults: tuple[Fault, ...], n: int, aborts: float, seed: int) -> pa.Table:
    """Ops of a minute or so: slower and failing more while a fault is in force."""
    chance = np.random.default_rng(seed)
    begin = np.sort(chance.uniform(PHASES[Phase.WARMUP], PHASES[Phase.HEAL], n))
    f = chance.choice([0, 1, 2, 3], n, p=[0.3, 0.5, 0.17, 0.03])
    took = chance.lognormal(np.where(f == 1, np.log(20), np.log(6)), 0.5) / 1e3
    hit = np.zeros(n, dtype=bool)
    for fault in faults:
        end = fault.end_s if fault.end_s is not None else 90.0
        hit |= (begin >= fault.begin_s) & (begin < min(end, fault.begin_s + 4))
    took = np.where(hit, took * chance.lognormal(2.2, 0.9, n), took)
    outcome = np.where(hit & (chance.random(n) < 0.08), Outcome.INFO, Outcome.OK)
    outcome = np.where(hit & (chance.random(n) < 0.05), Outcome.FAIL, outcome)
    deliberate = ((f == 2) & (chance.random(n) < aborts)).astype(int)
    outcome = np.where((deliberate == 1) & (outcome == Outcome.OK), Outcome.FAIL, outcome)
    bad = (outcome != Outcome.OK) & (deliberate == 0)
    invoke = (begin * 1e9).astype(np.int64) + START_NS
    complete = ((begin + took) * 1e9).astype(np.int64) + START_NS
    never = (outcome == Outcome.INFO) & (chance.random(n) < 0.2)
    return ops_table(
        {
            "f": f,
            "outcome": outcome,
            "deliberate": deliberate,
            "error": np.where(bad, chance.integers(0, len(ERRORS), n), -1),
            "n_sends": np.where(f == 1, 0, np.where(f == 3, 0, chance.integers(1, 20, n))),
            "n_reads": np.where(f == 1, chance.integers(0, 40, n), 0),
            "invoke_ns": invoke,
            "complete_ns": np.where(never, OPEN, complete),
        }
    )


def _events(faults: tuple[Fault, ...]) -> list[ev.Event]:
    found: list[ev.Event] = [
        ev.RunStarted(
            ns=START_NS,
            wall=WALL,
            run="a-run",
            versions={
                "inquest": "0.1.0",
                "Apache Kafka": "4.3.1",
                "confluent-kafka": "2.16.1",
                "librdkafka": "2.16.1",
                "Python": "3.11.7",
                "Linux": "6.1",
            },
        ),
        *(ev.PhaseStarted(ns=ns(at), phase=phase) for phase, at in PHASES.items()),
        ev.Recovered(ns=ns(81.3), recovered=True, seconds=4.2),
    ]
    leaders = {f"queue-{number}": number % 3 + 1 for number in range(6)}
    leaders["__transaction_state-0"] = 3
    found.append(_roles(13.0, leaders, 1))
    for fault in faults:
        victim = fault.nodes[0]
        for key in sorted(leaders):
            if leaders[key] == victim:
                leaders = leaders | {key: -1 if key == "queue-4" else victim % 3 + 1}
        found.append(_roles(fault.begin_s + 1.4, leaders, victim % 3 + 1))
        leaders = {key: 2 if node < 0 else node for key, node in leaders.items()}
        found.append(_roles(fault.begin_s + 4.0, leaders, victim % 3 + 1))
    return sorted([*found, *_ends()], key=lambda event: event.ns)


def _roles(at: float, leaders: dict[str, int], controller: int) -> ev.RolesSeen:
    """Roles of a moment: a node that leads nothing is out of sync."""
    isr: dict[str, tuple[int, ...]] = {
        key: (1, 2, 3) if at < 14 else (1, 3) if key == "queue-4" else (1, 2) for key in leaders
    }
    return ev.RolesSeen(
        ns=ns(at), leaders=leaders, isr=isr, controller=controller, answering=(1, 2, 3), agreed=True
    )


def _ends() -> list[ev.Event]:
    """Logs that grow; that of queue-3 falls once, at its new leader, and queue-5 lags for a while."""
    found: list[ev.Event] = []
    for at in range(14, 84, 2):
        hw = {f"queue-{number}": 80 * (at - 13) + 7 * number for number in range(6)}
        hw["queue-3"] -= 600 if at > 24 else 0
        lso = hw | ({"queue-5": hw["queue-5"] - 90} if 44 < at < 60 else {})
        found.append(ev.EndsSeen(ns=ns(at), hw=hw, lso=lso))
    return found


CHECKS = {
    "acknowledged": "An acknowledged record is in the log, once, at the offset that was told.",
    "order": "Records of one producer stand in the log in the order in which they were sent.",
    "atomicity": "A transaction is seen whole or not at all.",
    "consumers": "A consumer neither skips a record nor goes back.",
    "recovery": "After the faults every partition can be written and read again.",
}


def make_verdict(**changes: Any) -> Verdict:
    config = run_config({"seed": 42, "workload": "transactions", "nemesis": "random"})
    values: dict[str, Any] = {
        "run": "20260301T101500Z-transactions-random-42",
        "valid": True,
        "exit_code": 0,
        "seed": 42,
        "summary": "No anomaly in 6 000 ops under 4 faults; the cluster recovered in 4.2 s.",
        "config": config.model_dump(mode="json"),
        "anomalies": {},
        "checks": {
            name: CheckResult(claim=claim, status="valid", seconds=0.31, rows=41_273)
            for name, claim in CHECKS.items()
        },
        "unknown": [],
        "expect": {},
        "recovered": True,
        "recovery_s": 4.2,
        "interrupted": False,
        "faults": list(FAULTS),
        "liveness": Liveness(
            available=1.0,
            faults=[
                FaultLiveness(
                    fault=f.fault,
                    stalled_s=0.4 + f.fault / 10,
                    partition="queue-3",
                    partition_stalled_s=0.7,
                    recovered_s=1.2,
                )
                for f in FAULTS
            ],
        ),
        "stats": {"ops": 6000.0, "records_read": 57_218.0, "check_seconds": 6.418},
        "repro": "inquest run --workload transactions --nemesis random --seed 42 --duration 60",
    }
    return Verdict(**(values | changes))


def clean(ops: int = 6000, seed: int = 1) -> Folder:
    """A valid run under four faults."""
    return Folder(
        tables=report_histories.quiet().tables(),
        verdict=make_verdict(),
        events=_events(FAULTS),
        ops=_ops(FAULTS, ops, 0.15, seed),
        names={
            "format": FORMAT,
            "run": "a-run",
            "f": list(F),
            "error": list(ERRORS),
            "group": [],
            "txn_id": list(TXN_IDS),
            "units": list(UNITS),
            "start_ns": START_NS,
            "start_wall": WALL,
        },
    )


def empty() -> Folder:
    """A run in which nothing was invoked: unknown, without history and events."""
    verdict = make_verdict(
        valid="unknown",
        exit_code=2,
        summary="Nothing was tested: no op was invoked.",
        unknown=["Everything: the history is empty."],
        faults=[],
        checks={},
        stats={},
        recovered=None,
        recovery_s=None,
        liveness=Liveness(),
    )
    return Folder(verdict=verdict, events=None, ops=None, names=None)


def interrupted() -> Folder:
    """A run that was cut short under a fault that was never healed; its last event is half a line."""
    folder = clean()
    assert folder.events is not None
    assert folder.ops is not None
    cut = ns(50.0)
    kept = [event for event in folder.events if event.ns < cut]
    folder.events = None
    folder.extra = {"events.jsonl": jsonl.encode(kept) + b'{"event":"heal","begin_'}
    folder.ops = folder.ops.filter(pa.compute.less(folder.ops["invoke_ns"], cut))
    faults = [*FAULTS[:2], msgspec.structs.replace(FAULTS[2], end_s=None)]
    folder.verdict = make_verdict(
        valid="unknown",
        exit_code=130,
        interrupted=True,
        recovered=None,
        recovery_s=None,
        summary="Interrupted after 50 s: nothing forbidden was found in what was recorded.",
        unknown=["Whether records were lost: there were no final reads."],
        faults=faults,
        liveness=Liveness(),
    )
    return folder
