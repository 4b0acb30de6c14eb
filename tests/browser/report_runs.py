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

from harness import events as ev
from harness.config import run_config
from harness.history import OPEN, TABLES
from harness.op import Outcome, Phase
from harness.store import Run
from harness.verdict import Anomaly, CheckResult, Example, Fault, OpView, Verdict

START_NS = 5_000_000_000_000
WALL = "2026-03-01T10:15:00+00:00"
HOSTILE = "<script>alert(1)</script>\"'&|`{{7*7}}\x07%{y}<b>"
ERRORS = ("_MSG_TIMED_OUT", "REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS", "_TRANSPORT", "_FENCED")
F = ("send", "poll", "txn", "commit")
PHASES = {
    Phase.SETUP: 0.0, Phase.WARMUP: 13.2, Phase.FAULTS: 16.0, Phase.HEAL: 76.0,
    Phase.RECOVER: 77.1, Phase.QUIESCE: 81.4, Phase.FINAL: 84.0, Phase.COLLECT: 88.0,
    Phase.SEAL: 89.0,
}  # fmt: skip
FAULTS = (
    Fault(fault=0, name="partition:isolate@leader", nodes=[2], begin_s=19.0, end_s=26.5,
          colour="#b3541e", text="node 2 (leader of queue-0 and queue-3) cut off from nodes 1 and 3"),
    Fault(fault=1, name="kill@controller", nodes=[1], begin_s=31.0, end_s=37.2, colour="#7a3b9a",
          text="node 1 (controller) ended by SIGKILL, started again 6 s later"),
    Fault(fault=2, name="pause:long@txn-coordinator", nodes=[3], begin_s=44.0, end_s=57.0,
          colour="#1f77b4", text="node 3 (coordinator of 2 transactional ids) frozen"),
    Fault(fault=3, name="partition:one-way@random", nodes=[1, 3], begin_s=52.0, end_s=63.0,
          colour="#c28a00", text="node 1 drops what node 3 sends; the other way is open"),
)  # fmt: skip


@dataclass(kw_only=True)
class Folder:
    """What goes into a run folder; change it, then `write`. None leaves a file out."""

    verdict: Verdict | None
    events: list[ev.Event] | None
    ops: pa.Table | None
    names: dict[str, Any] | None
    extra: dict[str, bytes] = field(default_factory=dict)

    def write(self, folder: Path) -> Run:
        """Make the run folder."""
        run = Run(folder)
        run.history.mkdir(parents=True)
        if self.verdict is not None:
            run.verdict.write_bytes(msgspec.json.encode(self.verdict))
        if self.events is not None:
            run.events.write_bytes(b"".join(map(ev.encode, self.events)))
        if self.ops is not None:
            pq.write_table(self.ops, run.table("ops"))
        if self.names is not None:
            run.names.write_bytes(msgspec.json.encode(self.names))
        for name, data in self.extra.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        return run


def ops_table(rows: Mapping[str, list[int] | np.ndarray]) -> pa.Table:
    """A table of ops from the columns that matter; the others are filled in."""
    n = len(rows["f"])
    columns: dict[str, Any] = {
        "op": np.arange(n), "process": np.zeros(n), "phase": np.full(n, Phase.FAULTS),
        "txn": np.zeros(n), "deliberate": np.zeros(n), "error": np.full(n, -1),
        "n_sends": np.zeros(n), "n_reads": np.zeros(n),
    } | dict(rows)  # fmt: skip
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
    return ops_table({
        "f": f, "outcome": outcome, "deliberate": deliberate,
        "error": np.where(bad, chance.integers(0, len(ERRORS), n), -1),
        "n_sends": np.where(f == 1, 0, np.where(f == 3, 0, chance.integers(1, 20, n))),
        "n_reads": np.where(f == 1, chance.integers(0, 40, n), 0),
        "invoke_ns": invoke, "complete_ns": np.where(never, OPEN, complete),
    })  # fmt: skip


def _ns(seconds: float) -> int:
    return START_NS + int(seconds * 1e9)


def _events(faults: tuple[Fault, ...]) -> list[ev.Event]:
    found: list[ev.Event] = [
        ev.RunStarted(
            ns=START_NS, wall=WALL, run="a-run",
            versions={"inquest": "0.1.0", "Apache Kafka": "4.3.1", "confluent-kafka": "2.16.1",
                      "librdkafka": "2.16.1", "Python": "3.11.7", "Linux": "6.1"},
        ),
        *(ev.PhaseStarted(ns=_ns(at), phase=phase) for phase, at in PHASES.items()),
        ev.Recovered(ns=_ns(81.3), recovered=True, seconds=4.2),
    ]  # fmt: skip
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
    return sorted(found, key=lambda event: event.ns)


def _roles(at: float, leaders: dict[str, int], controller: int) -> ev.RolesSeen:
    return ev.RolesSeen(
        ns=_ns(at), leaders=leaders, isr={}, controller=controller, answering=(1, 2, 3), agreed=True
    )


CHECKS = {
    "acknowledged": "An acknowledged record is in the log, once, at the offset that was told.",
    "order": "Records of one producer stand in the log in the order in which they were sent.",
    "atomicity": "A transaction is seen whole or not at all.",
    "consumers": "A consumer neither skips a record nor goes back.",
    "recovery": "After the faults every partition can be written and read again.",
}


def _verdict(**changes: Any) -> Verdict:
    config = run_config({"seed": 42, "workload": "transactions", "nemesis": "random"})
    values: dict[str, Any] = {
        "run": "20260301T101500Z-transactions-random-42",
        "valid": True, "exit_code": 0, "seed": 42,
        "summary": "No anomaly in 6 000 ops under 4 faults; the cluster recovered in 4.2 s.",
        "config": config.model_dump(mode="json"), "anomalies": {},
        "checks": {
            name: CheckResult(claim=claim, status="valid", seconds=0.31, rows=41_273)
            for name, claim in CHECKS.items()
        },
        "unknown": [], "expect": {}, "recovered": True, "recovery_s": 4.2, "interrupted": False,
        "faults": list(FAULTS),
        "stats": {"ops": 6000.0, "records_read": 57_218.0, "check_seconds": 6.418},
        "repro": "inquest run --workload transactions --nemesis random --seed 42 --duration 60",
    }  # fmt: skip
    return Verdict(**(values | changes))


def clean(ops: int = 6000, seed: int = 1) -> Folder:
    """A valid run under four faults."""
    return Folder(
        verdict=_verdict(),
        events=_events(FAULTS),
        ops=_ops(FAULTS, ops, 0.15, seed),
        names={"format": 1, "run": "a-run", "f": list(F), "error": list(ERRORS), "group": [],
               "txn_id": [], "units": [], "start_ns": START_NS, "start_wall": WALL},
    )  # fmt: skip


def _op(op: int, f: str, begin: float, end: float | None, **more: Any) -> OpView:
    values: dict[str, Any] = {"process": 4, "slot": 2, "outcome": "ok", "phase": "faults"} | more
    return OpView(op=op, f=f, begin_s=begin, end_s=end, **values)


VALUE = 4 << 32 | 1207


def lost_write(number: int = 0) -> Example:
    """A record that was acknowledged and is not in the log."""
    return Example(
        sentence=f"Record 4/{1207 + number} was acknowledged at offset {5512 + number} of queue-3 at "
        "20.3 s and is not there: complete final reads show another record at that offset.",
        allowed=False, why="acks=all with clean leader elections only protects acknowledged records.",
        partition="queue-3", offsets=[5512 + number], values=[VALUE + number, 7 << 32 | 88],
        leader_epochs=[4, 5], at_s=20.31, faults=[0],
        producer={"producer_id": 2001, "epoch": 0, "epoch_cnt": 1},
        ops=[
            _op(1840, "send", 20.211, 20.314,
                records=[f"send queue-3 value 4/{1207 + number} -> offset {5512 + number}"]),
            _op(1902, "send", 21.9, 22.04, process=7, slot=3,
                records=[f"send queue-3 value 7/88 -> offset {5512 + number}"]),
            _op(5980, "poll", 85.1, 85.16, process=31, slot=9, isolation="read_committed",
                phase="final", records=[f"poll queue-3 offset {5512 + number}: value 7/88, epoch 5"]),
        ],
    )  # fmt: skip


def _anomalies() -> dict[str, Anomaly]:
    torn = Example(
        sentence="Transaction op 2210 wrote to queue-1 and queue-4; readers saw its record in queue-1 "
        "and never the one in queue-4, although that partition was read to its end.",
        allowed=False, why="A transaction is atomic under every configuration.",
        known_bug="KAFKA-17754", partition="queue-4", offsets=[901], values=[VALUE + 9],
        leader_epochs=[3], at_s=48.8, faults=[2],
        producer={"producer_id": 2004, "epoch": 3, "epoch_cnt": 2},
        ops=[
            _op(2210, "txn", 48.12, 48.9, txn=True, transactional_id="inquest-2",
                records=["send queue-1 value 4/1216 -> offset 77", "send queue-4 value 4/1217"]),
            _op(2214, "txn", 49.0, None, outcome="info", error="_TIMED_OUT", txn=True,
                transactional_id="inquest-2", records=["send queue-4 value 4/1218"]),
        ],
    )  # fmt: skip
    skip = Example(
        sentence="Process 12 read offset 410 of queue-2 and then 418, although 411 to 417 hold records; "
        "its group was rebalanced in between.",
        allowed=True, why="A rebalance moved the position.", partition="queue-2",
        offsets=[410, 418], values=[VALUE + 30], at_s=33.1, faults=[1],
        ops=[_op(2301, "poll", 32.9, 33.0, process=12, isolation="read_committed",
                 records=["poll queue-2 offset 410", "poll queue-2 offset 418"])],
    )  # fmt: skip
    return {
        "lost-write": Anomaly(
            title="Lost write", literature="lost write (Jepsen)", count=37, disallowed=37,
            meaning="A record was acknowledged to its producer and is not in the log.",
            allowed=False, why="acks=all, min.insync.replicas 2 and clean elections forbid it.",
            examples=[lost_write(number) for number in range(12)],
        ),
        "torn-txn": Anomaly(
            title="Torn transaction", literature="fractured read", count=1, disallowed=1,
            meaning="Some records of a transaction are visible and others never will be.",
            allowed=False, why="Kafka never permits it.", known_bug="KAFKA-17754",
            known_bug_url="https://issues.apache.org/jira/browse/KAFKA-17754", examples=[torn],
        ),
        "poll-skip": Anomaly(
            title="Skipped records", literature="poll skip (Jepsen)", count=5, disallowed=0,
            meaning="A consumer went past records that exist.", allowed=True,
            why="A rebalance explains every one of these steps.", examples=[skip],
        ),
    }  # fmt: skip


def anomalous() -> Folder:
    """A run with several classes of anomalies, allowed and forbidden, and one undecided check."""
    folder = clean(seed=2)
    checks = {
        name: CheckResult(claim=claim, status="valid", seconds=0.4, rows=39_870)
        for name, claim in CHECKS.items()
    }
    for name, why in (("acknowledged", "37 findings"), ("atomicity", "1 finding")):
        checks[name] = CheckResult(
            claim=CHECKS[name], status="invalid", seconds=0.52, rows=39_870, why=why
        )
    checks["consumers"] = CheckResult(
        claim=CHECKS["consumers"], status="unknown", seconds=0.2, rows=11_402,
        why="the final read of queue-5 stopped at offset 1 200 of 1 344 at its deadline",
    )  # fmt: skip
    folder.verdict = _verdict(
        valid=False, exit_code=1, anomalies=_anomalies(), checks=checks,
        summary="37 acknowledged records were lost and 1 transaction was torn, "
        "under a configuration that forbids both.",
        unknown=["Whether consumers skipped records of queue-5: its final read stopped short."],
    )  # fmt: skip
    assert folder.events is not None
    folder.events += [
        ev.FaultFailed(ns=_ns(66.0), fault=4, name="kill@group-coordinator",
                       why="no two nodes named the same coordinator"),
        ev.WorkerLost(ns=_ns(70.1), slot=3, why="did not answer in 12 s and was ended"),
    ]  # fmt: skip
    return folder


def hostile() -> Folder:
    """The anomalous run with markup in every name and text that comes from outside."""
    folder = anomalous()
    assert folder.verdict is not None
    assert folder.events is not None
    assert folder.names is not None
    data = msgspec.json.decode(msgspec.json.encode(folder.verdict))
    for key in ("run", "summary", "repro"):
        data[key] = HOSTILE
    data["unknown"] = [HOSTILE]
    data["expect"] = {HOSTILE: True}
    data["stats"] = {HOSTILE: 1.5}
    data["config"] = {**data["config"], "workload": HOSTILE, "nemesis": HOSTILE, HOSTILE: HOSTILE}
    for fault in data["faults"]:
        fault |= {"name": HOSTILE, "text": HOSTILE, "colour": "red;background:url(//evil.example/)"}
    data["checks"] = {
        HOSTILE: dict.fromkeys(("claim", "why"), HOSTILE)
        | {"status": "unknown", "seconds": 1, "rows": 1}
    }
    for anomaly in data["anomalies"].values():
        anomaly |= dict.fromkeys(("title", "literature", "meaning", "why", "known_bug"), HOSTILE)
        anomaly["known_bug_url"] = "javascript:alert(1)//" + HOSTILE
        for example in anomaly["examples"]:
            example |= dict.fromkeys(("sentence", "why", "known_bug", "partition"), HOSTILE)
            example["producer"] = {HOSTILE: 1}
            for op in example["ops"]:
                op |= dict.fromkeys(("f", "outcome", "phase", "error"), HOSTILE)
                op |= {"transactional_id": HOSTILE, "isolation": HOSTILE, "records": [HOSTILE]}
    data["anomalies"] = {
        f"{number}{HOSTILE}": anomaly for number, anomaly in enumerate(data["anomalies"].values())
    }
    folder.verdict = msgspec.convert(data, Verdict)
    roles = ev.RolesSeen(
        ns=_ns(14), leaders={f"{HOSTILE}-0": 1}, isr={}, controller=1, answering=(), agreed=True
    )
    started = ev.RunStarted(ns=START_NS, wall=HOSTILE, run=HOSTILE, versions={HOSTILE: HOSTILE})
    note = ev.Note(ns=_ns(50), text=HOSTILE, incomplete=True)
    folder.events = [started, *folder.events[1:], roles, note]
    folder.names |= {"f": [HOSTILE] * 4, "error": [HOSTILE] * 5, "start_wall": HOSTILE}
    return folder


def empty() -> Folder:
    """A run in which nothing was invoked: unknown, without history and events."""
    verdict = _verdict(
        valid="unknown", exit_code=2, summary="Nothing was tested: no op was invoked.",
        unknown=["Everything: the history is empty."], faults=[], checks={}, stats={},
        recovered=None, recovery_s=None,
    )  # fmt: skip
    return Folder(verdict=verdict, events=None, ops=None, names=None)


def interrupted() -> Folder:
    """A run that was cut short under a fault that was never healed; its last event is half a line."""
    folder = clean()
    assert folder.events is not None
    assert folder.ops is not None
    cut = _ns(50.0)
    kept = [event for event in folder.events if event.ns < cut]
    folder.events = None
    folder.extra = {"events.jsonl": b"".join(map(ev.encode, kept)) + b'{"event":"heal","begin_'}
    folder.ops = folder.ops.filter(pa.compute.less(folder.ops["invoke_ns"], cut))
    faults = [*FAULTS[:2], msgspec.structs.replace(FAULTS[2], end_s=None)]
    folder.verdict = _verdict(
        valid="unknown", exit_code=130, interrupted=True, recovered=None, recovery_s=None,
        summary="Interrupted after 50 s: nothing forbidden was found in what was recorded.",
        unknown=["Whether records were lost: there were no final reads."], faults=faults,
    )  # fmt: skip
    return folder


FOLDERS = {
    "clean": clean, "anomalous": anomalous, "hostile": hostile, "empty": empty,
    "interrupted": interrupted,
}  # fmt: skip
