"""Run folders with findings, made by code; and all fixtures of the report by name.

Not here: the clean run that they come from (`report_runs`), their records (`report_histories`).
"""

from typing import Any

import msgspec

from core.cluster import OpenTransaction
from core.op import Outcome
from history import events as ev
from history.tables import OPEN
from history.verdict import (
    Anomaly,
    CheckResult,
    Example,
    Fault,
    FaultLiveness,
    Liveness,
    OpView,
    Stall,
    Verdict,
)
from tests.histories import report_histories
from tests.histories.report_histories import START_NS, History, ns
from tests.histories.report_runs import CHECKS, FAULTS, Folder, clean, empty, interrupted, make_verdict

HOSTILE = "<script>alert(1)</script>\"'&|`{{7*7}}\x07%{y}<b>"
CLIENT_FAULT = Fault(
    fault=5,
    name="client:kill@mid-transaction",
    nodes=[],
    slots=[2],
    begin_s=57.0,
    end_s=59.4,
    colour="#3b7a57",
    text="client 2 (inquest-2) ended by SIGKILL within a transaction",
)


def _op(op: int, f: str, begin: float, end: float | None, **more: Any) -> OpView:
    values: dict[str, Any] = {"process": 4, "slot": 2, "outcome": "ok", "phase": "faults"} | more
    return OpView(op=op, f=f, begin_s=begin, end_s=end, **values)


VALUE = 4 << 32 | 1207


def lost_write(number: int = 0) -> Example:
    """A record that was acknowledged and is not in the log."""
    return Example(
        sentence=f"Record 4/{1207 + number} was acknowledged at offset {5512 + number} of queue-3 at "
        "20.3 s and is not there: complete final reads show another record at that offset.",
        allowed=False,
        why="acks=all with clean leader elections only protects acknowledged records.",
        partition="queue-3",
        offsets=[5512 + number],
        values=[VALUE + number, 7 << 32 | 88 + number],
        leader_epochs=[4, 5],
        at_s=20.31,
        faults=[0],
        producer={"producer_id": 2001, "epoch": 0, "epoch_cnt": 1},
        ops=[
            _op(
                1840,
                "send",
                20.211,
                20.314,
                records=[f"send queue-3 value 4/{1207 + number} -> offset {5512 + number}"],
            ),
            _op(
                1902,
                "send",
                21.9,
                22.04,
                process=7,
                slot=3,
                records=[f"send queue-3 value 7/{88 + number} -> offset {5512 + number}"],
            ),
            _op(
                5980,
                "poll",
                85.1,
                85.16,
                process=31,
                slot=9,
                isolation="read_committed",
                phase="final",
                records=[f"poll queue-3 offset {5512 + number}: value 7/{88 + number}, epoch 5"],
            ),
        ],
    )


def _anomalies() -> dict[str, Anomaly]:
    torn = Example(
        sentence="Transaction op 2210 wrote to queue-1 and queue-4; readers saw its record in queue-1 "
        "and never the one in queue-4, although that partition was read to its end.",
        allowed=False,
        why="A transaction is atomic under every configuration.",
        known_bug="KAFKA-17754",
        partition="queue-4",
        offsets=[901],
        values=[VALUE + 110],
        leader_epochs=[3],
        at_s=48.8,
        faults=[2],
        producer={"producer_id": 2004, "epoch": 3, "epoch_cnt": 2},
        ops=[
            _op(
                2210,
                "txn",
                48.12,
                48.9,
                txn=True,
                transactional_id="inquest-2",
                records=["send queue-1 value 4/1316 -> offset 77", "send queue-4 value 4/1317 -> offset 901"],
            ),
            _op(
                2214,
                "txn",
                49.0,
                None,
                outcome="info",
                error="_TIMED_OUT",
                txn=True,
                transactional_id="inquest-2",
                records=["send queue-4 value 4/1318"],
            ),
        ],
    )
    skip = Example(
        sentence="Process 12 read offset 410 of queue-2 and then 418, although 411 to 417 hold records; "
        "its group was rebalanced in between.",
        allowed=True,
        why="A rebalance moved the position.",
        partition="queue-2",
        offsets=[410, 418],
        values=[VALUE + 30],
        at_s=33.1,
        faults=[1],
        ops=[
            _op(
                2301,
                "poll",
                32.9,
                33.0,
                process=12,
                isolation="read_committed",
                records=["poll queue-2 offset 410", "poll queue-2 offset 418"],
            )
        ],
    )
    return {
        "lost-write": Anomaly(
            title="Lost write",
            literature="lost write (Jepsen)",
            count=37,
            disallowed=37,
            meaning="A record was acknowledged to its producer and is not in the log.",
            allowed=False,
            why="acks=all, min.insync.replicas 2 and clean elections forbid it.",
            examples=[lost_write(number) for number in range(12)],
        ),
        "torn-txn": Anomaly(
            title="Torn transaction",
            literature="fractured read",
            count=1,
            disallowed=1,
            meaning="Some records of a transaction are visible and others never will be.",
            allowed=False,
            why="Kafka never permits it.",
            known_bug="KAFKA-17754",
            known_bug_url="https://issues.apache.org/jira/browse/KAFKA-17754",
            examples=[torn],
        ),
        "poll-skip": Anomaly(
            title="Skipped records",
            literature="poll skip (Jepsen)",
            count=5,
            disallowed=0,
            meaning="A consumer went past records that exist.",
            allowed=True,
            why="A rebalance explains every one of these steps.",
            examples=[skip],
        ),
    }


LIVENESS = Liveness(
    available=0.87,
    faults=[
        FaultLiveness(
            fault=0, stalled_s=5.2, partition="queue-3", partition_stalled_s=6.9, recovered_s=1.4, served=0.47
        ),
        FaultLiveness(fault=1, stalled_s=0.3, partition="queue-1", partition_stalled_s=3.1, recovered_s=0.8),
        FaultLiveness(fault=2, stalled_s=2.4, partition="queue-0", partition_stalled_s=2.9, recovered_s=None),
    ],
    stalls=[
        Stall(partition="queue-3", begin_s=19.2, end_s=26.1, faults=[0]),
        Stall(partition="", begin_s=19.9, end_s=25.1, faults=[0]),
        Stall(partition="queue-1", begin_s=31.2, end_s=34.3, faults=[1]),
        Stall(partition="queue-0", begin_s=44.9, end_s=47.8, faults=[2]),
        Stall(partition="", begin_s=45.0, end_s=47.4, faults=[2]),
        Stall(partition="queue-5", begin_s=67.0, end_s=68.5),
    ],
)
TXNS: dict[int, dict[str, Any]] = {
    **{2200 + n: {"process": 2, "begin": 47.5 + n / 5, "took": 0.18} for n in range(10)},
    2210: {"process": 4, "begin": 48.12, "took": 0.78},
    2212: {"process": 3, "begin": 39.9, "took": 0.2, "outcome": Outcome.FAIL, "deliberate": 1},
    2214: {"process": 4, "begin": 49.0, "took": None, "outcome": Outcome.INFO},
    **{2112 + n: {"process": 2, "begin": 48.0 + n / 100, "took": 0.009} for n in range(14)},
    2230: {"process": 36, "begin": 60.28, "took": 0.05},
    2231: {"process": 4, "begin": 60.30, "took": 0.04, "outcome": Outcome.INFO},
    2232: {"process": 36, "begin": 60.32, "took": 0.3},
}
"""Transactions that the findings are about: times in seconds; took None = never completed."""
POLLS = {5000: (12, 48.4), 5001: (13, 48.5), 2301: (12, 32.9), 2302: (13, 32.9), 2303: (13, 48.95)}


def _recorded(history: History, seed: int) -> Folder:
    """The clean run with the ops and records of a history."""
    folder = clean(seed=seed)
    rows: dict[int, dict[str, int]] = {}
    for op, told in TXNS.items():
        begin, took = told["begin"], told["took"]
        rows[op] = {
            "process": told["process"],
            "txn": 1,
            "f": 2,
            "n_sends": 2,
            "n_reads": 0,
            "outcome": told.get("outcome", Outcome.OK),
            "deliberate": told.get("deliberate", 0),
            "invoke_ns": ns(begin),
            "complete_ns": OPEN if took is None else ns(begin + took),
            "error": -1,
        }
    for op, (process, at) in POLLS.items():
        rows[op] = {
            "process": process,
            "f": 1,
            "n_sends": 0,
            "n_reads": 20,
            "error": -1,
            "outcome": Outcome.OK,
            "invoke_ns": ns(at),
            "complete_ns": ns(at + 0.1),
            "deliberate": 0,
        }
    assert folder.ops is not None
    folder.ops = report_histories.changed(folder.ops, rows)
    folder.tables = history.tables()
    return folder


def anomalous() -> Folder:
    """A run with several classes of anomalies, allowed and forbidden, and one undecided check."""
    folder = _recorded(report_histories.lossy(), 2)
    checks = {
        name: CheckResult(claim=claim, status="valid", seconds=0.4, rows=39_870)
        for name, claim in CHECKS.items()
    }
    for name, why in (("acknowledged", "37 findings"), ("atomicity", "1 finding")):
        checks[name] = CheckResult(claim=CHECKS[name], status="invalid", seconds=0.52, rows=39_870, why=why)
    checks["consumers"] = CheckResult(
        claim=CHECKS["consumers"],
        status="unknown",
        seconds=0.2,
        rows=11_402,
        why="the final read of queue-5 stopped at offset 1 200 of 1 344 at its deadline",
    )
    folder.verdict = make_verdict(
        valid=False,
        exit_code=1,
        anomalies=_anomalies(),
        checks=checks,
        summary="37 acknowledged records were lost and 1 transaction was torn, "
        "under a configuration that forbids both.",
        unknown=["Whether consumers skipped records of queue-5: its final read stopped short."],
        faults=[*FAULTS, CLIENT_FAULT],
        liveness=LIVENESS,
    )
    assert folder.events is not None
    folder.events += [
        ev.FaultFailed(
            ns=ns(66.0), fault=4, name="kill@group-coordinator", why="no two nodes named the same coordinator"
        ),
        ev.WorkerLost(ns=ns(70.1), slot=3, why="did not answer in 12 s and was ended"),
    ]
    return folder


def _found(title: str, *examples: Example, allowed: bool = False) -> Anomaly:
    many = len(examples)
    return Anomaly(
        title=title,
        literature="",
        count=many,
        disallowed=0 if allowed else many,
        allowed=allowed,
        meaning=f"What {title.lower()} means.",
        why="Kafka never permits it.",
        examples=list(examples),
    )


def _example(
    sentence: str, partition: str, offsets: list[int], values: list[int], *ops: OpView, **more: Any
) -> Example:
    return Example(
        sentence=sentence,
        allowed=False,
        why="Kafka never permits it.",
        partition=partition,
        offsets=offsets,
        values=values,
        ops=list(ops),
        **more,
    )


def _txn(op: int, client: str = "inquest-2", **more: Any) -> OpView:
    told = TXNS[op]
    took = told["took"]
    end = None if took is None else told["begin"] + took
    outcome = Outcome(told.get("outcome", Outcome.OK)).name.lower()
    return _op(
        op,
        "txn",
        told["begin"],
        end,
        process=told["process"],
        outcome=outcome,
        txn=True,
        transactional_id=client,
        **more,
    )


def transactional() -> Folder:
    """A run with findings about transactions: one hangs, a zombie wrote, a copy stands twice."""
    folder = _recorded(report_histories.hanging(), 3)
    stuck = "the last stable offset of queue-5 stayed at 20, its high watermark at 26."
    anomalies = {
        "hanging-txn": _found(
            "Hanging transaction",
            _example(
                f"Producer id 2004 (epoch 1) holds a transaction open in queue-5: {stuck}",
                "queue-5",
                [],
                [],
                producer={"producer_id": 2004, "epoch": 1},
                at_s=83.9,
            ),
        ),
        "stuck-lso": _found(
            "Last stable offset stuck", _example(f"After all clients were gone {stuck}", "queue-5", [], [])
        ),
        "duplicate": _found(
            "Record written twice",
            _example("Record 3/9 stands at offsets 8 and 15 of queue-0.", "queue-0", [8, 15], [3 << 32 | 9]),
        ),
        "aborted-read": _found(
            "Aborted record read",
            _example(
                "Record 3/1011 was aborted, and process 12 got it.",
                "queue-0",
                [11],
                [3 << 32 | 1011],
                _txn(2212, "inquest-1"),
                _op(5000, "poll", 40.1, 40.2, process=12, slot=5),
            ),
        ),
        "eos-duplicate": _found(
            "Input processed twice",
            _example(
                "Offset 55 of queue-2 was copied to offsets 30 and 32 of queue-1.",
                "queue-1",
                [30, 32],
                [36 << 32 | 730, 36 << 32 | 732],
                _txn(2230),
                _txn(2232),
            ),
        ),
        "zombie-write": _found(
            "Zombie wrote",
            _example(
                "Process 4 wrote to offset 31 of queue-1 after process 36 had fenced it.",
                "queue-1",
                [31],
                [4 << 32 | 731],
                _txn(2231),
                _txn(2230),
            ),
        ),
        "lost-write": _found(
            "Lost record",
            _example("Record 5/5 has a partition that the history lacks.", "elsewhere-0", [3], [5 << 32 | 5]),
        ),
    }
    folder.verdict = make_verdict(
        valid=False,
        exit_code=1,
        anomalies=anomalies,
        faults=[*FAULTS, CLIENT_FAULT],
        summary="7 findings, none of which the configuration permits.",
        liveness=LIVENESS,
    )
    assert folder.events is not None
    rows = (
        OpenTransaction(
            topic="queue", partition=5, producer_id=2004, producer_epoch=1, start=20, coordinator=3
        ),
    )
    folder.events.append(ev.TransactionsOpen(ns=ns(83.9), rows=rows))
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
        HOSTILE: dict.fromkeys(("claim", "why"), HOSTILE) | {"status": "unknown", "seconds": 1, "rows": 1}
    }
    for anomaly in data["anomalies"].values():
        anomaly |= dict.fromkeys(("title", "literature", "meaning", "why", "known_bug"), HOSTILE)
        anomaly["known_bug_url"] = "javascript:alert(1)//" + HOSTILE
        for example in anomaly["examples"]:
            example |= dict.fromkeys(("sentence", "why", "known_bug"), HOSTILE)
            example["partition"] = f"{HOSTILE}-{(example['partition'] or '0')[-1]}"
            example["producer"] = {HOSTILE: 1}
            for op in example["ops"]:
                op |= dict.fromkeys(("f", "outcome", "phase", "error"), HOSTILE)
                op |= {"transactional_id": HOSTILE, "isolation": HOSTILE, "records": [HOSTILE]}
    data["anomalies"] = {
        f"{number}{HOSTILE}": anomaly for number, anomaly in enumerate(data["anomalies"].values())
    }
    for stall in data["liveness"]["stalls"]:
        stall["partition"] = HOSTILE
    for cost in data["liveness"]["faults"]:
        cost["partition"] = HOSTILE
    folder.verdict = msgspec.convert(data, Verdict)
    rows = [{"tp": tp, "topic": HOSTILE, "partition": tp} for tp in range(6)]
    folder.tables["tps"] = report_histories.table("tps", rows)
    roles = ev.RolesSeen(
        ns=ns(14),
        leaders={f"{HOSTILE}-0": 1},
        isr={f"{HOSTILE}-0": (1,)},
        controller=1,
        answering=(),
        agreed=True,
    )
    ends = ev.EndsSeen(ns=ns(15), hw={f"{HOSTILE}-0": 7}, lso={f"{HOSTILE}-0": 6})
    started = ev.RunStarted(ns=START_NS, wall=HOSTILE, run=HOSTILE, versions={HOSTILE: HOSTILE})
    note = ev.Note(ns=ns(50), text=HOSTILE, incomplete=True)
    folder.events = [started, *folder.events[1:], roles, ends, note]
    folder.names |= {
        "f": [HOSTILE] * 4,
        "error": [HOSTILE] * 5,
        "start_wall": HOSTILE,
        "txn_id": [HOSTILE] * 3,
    }
    return folder


FOLDERS = {
    "clean": clean,
    "anomalous": anomalous,
    "hostile": hostile,
    "empty": empty,
    "interrupted": interrupted,
    "transactional": transactional,
}
