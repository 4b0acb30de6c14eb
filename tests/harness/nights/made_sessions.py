"""Sessions of soak made by code: their files, and run folders that go with them."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.nights.session_log import (
    FILE,
    FOLDER,
    STATES,
    AnomalyCount,
    PlannedRun,
    RunBegun,
    RunEnded,
    RunResult,
    SessionEnded,
    SessionStarted,
    SoakSession,
    State,
    Tested,
    read,
)
from history.jsonl import Appender
from history.verdict import Anomaly, Example, Fault, FaultLiveness, Liveness, Verdict

CODES = {state: code for code, state in STATES.items()} | {"error": 70}
LOST = AnomalyCount(name="lost-write", count=3, disallowed=3)
TORN = AnomalyCount(name="torn-txn", count=1, disallowed=1, known_bug="KAFKA-17754")
SKIPPED = AnomalyCount(name="poll-skip", count=4, disallowed=0)
MATRIX = {
    "workloads": ["queue", "transactions"], "nemeses": ["none", "kill"], "presets": ["safe"],
    "canary": "acks1",
}  # fmt: skip


def task(workload: str = "queue", nemesis: str = "kill", **more: Any) -> PlannedRun:
    """A run of the matrix, unless said otherwise."""
    values: dict[str, Any] = {"why": "matrix", "preset": "safe", "seed": 7} | more
    return PlannedRun(workload=workload, nemesis=nemesis, **values)


def canary(**more: Any) -> PlannedRun:
    """A run of the canary."""
    return task("queue", "partition:isolate@leader", why="canary", preset="acks1", **more)


def outcome(state: State = "valid", *anomalies: AnomalyCount, **more: Any) -> RunResult:
    """What came of a run."""
    judged = state not in ("error", "interrupted")
    values: dict[str, Any] = {
        "code": CODES[state], "seconds": 60.0, "judged": judged, "anomalies": list(anomalies),
        "error": "exit code 70: Boom" if state == "error" else "",
    } | more  # fmt: skip
    return RunResult(state=state, **values)


Run = tuple[PlannedRun, RunResult | None]


def write(
    results: Path,
    name: str,
    runs: Sequence[Run],
    *,
    over: bool = True,
    budget_s: float = 1800.0,
    seed: int = 1,
    spent_s: float | None = None,
    canary: str = "acks1",
    matrix: dict[str, Any] | None = None,
    numbers: Sequence[int] = (),
) -> SoakSession:
    """Write the file of a session; each run takes a minute of it, or what its outcome says. numbers: of the
    runs, where some are attempts at the same one."""
    at = f"{name[:4]}-{name[4:6]}-{name[6:8]}T{name[9:11]}:{name[11:13]}:{name[13:15]}.000+00:00"
    folder = results / FOLDER / name
    folder.mkdir(parents=True)
    log = Appender(folder / FILE)
    log.append(SessionStarted(at=at, seed=seed, budget_s=budget_s, canary=canary, matrix=matrix or MATRIX))
    spent = 0.0
    for number, (made, came) in zip(numbers or range(1, len(runs) + 1), runs, strict=True):
        log.append(RunBegun(at=at, spent_s=spent, number=number, task=made, command=["inquest"]))
        if came is not None:
            spent += came.seconds
            log.append(RunEnded(at=at, spent_s=spent, number=number, outcome=came))
    if over:
        session = read(folder)
        assert session is not None
        session.ended = SessionEnded(at=at, spent_s=spent, code=0)
        log.append(SessionEnded(at=at, spent_s=spent_s or spent, code=session.code))
    log.close()
    found = read(folder)
    assert found is not None
    return found


WORKLOADS = ("queue", "transactions", "copier", "groups")
NEMESES = ("none", "partition", "kill", "pause", "random")


def many(results: Path, sessions: int = 6, runs: int = 24) -> None:
    """Sessions with findings of all kinds. Numbers look like those of real sessions; none was measured."""
    chance = random.Random(4)
    for session in range(sessions):
        made: list[Run] = []
        name = f"202603{session + 1:02}T220000Z"
        void = session == 2
        made.append((canary(seed=session), outcome("silent" if void else "valid", available=0.9)))
        for number in range(runs):
            what = task(chance.choice(WORKLOADS), chance.choice(NEMESES), seed=chance.randrange(2**31))
            came = _came(chance, what, session, number)
            if came.state == "anomaly":
                folder = by_hand(
                    results,
                    f"{name[:9]}2{number:05}Z-{what.workload}-{what.seed}",
                    **_lived(chance, what),
                    **_broken(came),
                )
                tested = Tested(
                    system="kafka", version=chance.choice(["4.0.2", "4.3.1"]), client="librdkafka"
                )
                came = msgspec.structs.replace(came, tested=tested)
                came = msgspec.structs.replace(came, folder=folder.name)
            made.append((what, came))
        write(results, name, made, spent_s=1790.0, seed=session * 1000 + 17)


def _came(chance: random.Random, what: PlannedRun, session: int, number: int) -> RunResult:
    numbers: dict[str, Any] = {
        "seconds": chance.uniform(45, 70), "available": chance.uniform(0.8, 1),
        "recovery_s": chance.uniform(1, 6), "summary": "no forbidden anomaly in 6000 ops",
    }  # fmt: skip
    if what.workload == "transactions" and what.nemesis == "pause":
        return outcome("anomaly", TORN, **numbers)
    if session > 2 and what.workload == "groups" and chance.random() < 0.3:
        skip = AnomalyCount(name="group-skip", count=2, disallowed=2)
        return outcome("anomaly", skip, LOST, **numbers)
    if number == 5 and session in (1, 4):
        return outcome("error", seconds=12.0)
    if number == 7 and session == 5:
        return outcome("unknown", **numbers)
    return outcome("valid", *([SKIPPED] if what.workload == "groups" else []), **numbers)


def _lived(chance: random.Random, what: PlannedRun) -> dict[str, Any]:
    """Of a verdict: a fault that the run lived through, and what it cost."""
    fault = Fault(
        fault=0, name=f"{what.nemesis}:one@leader", text="", nodes=[1], begin_s=1, end_s=4, colour=""
    )
    cost = FaultLiveness(
        fault=0, stalled_s=chance.uniform(0, 4), partition="", partition_stalled_s=4.0,
        recovered_s=chance.uniform(1, 6), served=chance.random(),
    )  # fmt: skip
    config = {"sut": "kafka", "kafka": {"version": chance.choice(["4.0.2", "4.3.1"])}}
    config |= {name: getattr(what, name) for name in ("workload", "nemesis", "preset")}
    return {"config": config, "faults": [fault], "liveness": Liveness(faults=[cost])}


def _broken(came: RunResult) -> dict[str, Any]:
    """Of a verdict: the anomalies of its run, each with a time."""
    example = Example(sentence="value 1/7 was acknowledged", allowed=False, why="", at_s=12.5)
    anomalies = {
        one.name: Anomaly(
            title=one.name, literature="", meaning="", count=one.count, disallowed=one.disallowed,
            allowed=False, why="", known_bug=one.known_bug, examples=[example],
        )
        for one in came.anomalies
    }  # fmt: skip
    return {"valid": False, "exit_code": 1, "anomalies": anomalies}


def hostile(results: Path, text: str) -> None:
    """One session with markup in every text."""
    found = AnomalyCount(name=text, count=1, disallowed=1, known_bug="")
    known = msgspec.structs.replace(found, known_bug=text)
    what = PlannedRun(why="matrix", workload=text, nemesis=text, preset=text, seed=3)
    write(
        results,
        "20260301T220000Z",
        [
            (canary(), outcome("silent", summary=text)),
            (what, outcome("anomaly", found, summary=text)),
            (what, outcome("anomaly", known, summary=text)),
            (what, outcome("error", error=text)),
        ],
        canary=text,
    )


def by_hand(results: Path, name: str = "20260301T101500Z-queue-kill-42", **changes: Any) -> Path:
    """The folder of a run that a person made: verdict, configuration, a report and a journal. owner: the
    run of a soak that it was made for."""
    owner = changes.pop("owner", "")
    values: dict[str, Any] = {
        "run": name, "valid": True, "exit_code": 0, "seed": 42, "summary": "no forbidden anomaly",
        "config": {"workload": "queue", "nemesis": "kill", "preset": "safe", "seed": 42},
        "anomalies": {}, "checks": {}, "unknown": [], "expect": {}, "recovered": True,
        "recovery_s": 2.5, "interrupted": False, "faults": [], "repro": "inquest run",
        "stats": {"seconds recorded": 61.0},
    } | changes  # fmt: skip
    folder = results / name
    (folder / "journal").mkdir(parents=True)
    if owner:
        (folder / "soak").write_text(owner)
    (folder / "journal" / "0.jsonl").write_text("{}\n")
    (folder / "report.html").write_text("<!doctype html><title>a report</title>")
    (folder / "config.json").write_bytes(msgspec.json.encode(values["config"]))
    (folder / "verdict.json").write_bytes(msgspec.json.encode(Verdict(**values)))
    return folder
