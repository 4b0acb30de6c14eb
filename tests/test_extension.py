"""A workload, a nemesis, checks: the module and a line of its registry (a check also: rule and tests).

This test puts the examples of docs/extending.md into the registries, and makes a simulated run with them.
"""

from pathlib import Path

import pytest

from checkers.catalogue import ANOMALIES
from checkers.checks import CHECKS
from checkers.logs.registry import LOG_CHECKS
from core.config import run_config
from core.op import Isolation, Phase, Send
from harness.modelled.virtual.run import simulate
from history import events as ev
from history import journal as j
from history.evidence import write
from nemesis.registry import NEMESES
from tests.checkers.logs.made import TP, batch, tables, whole
from tests.harness.cli.test_docs import example
from tests.histories import built as built_histories
from tests.histories.built import Bound, Built, Op, Read
from tests.histories.folders import check_run, write_run
from workloads.registry import WORKLOADS, workload_of


@pytest.mark.sampled(5)
def test_a_workload_and_a_nemesis_run_once_they_are_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = workload_of(example("workloads/pairs.py"))
    assert workload.name == "pairs"
    monkeypatch.setitem(WORKLOADS, workload.name, workload)
    monkeypatch.setitem(NEMESES, "blink", example("nemesis/families/blink.py").BLINK)
    config = run_config(
        {"sut": "simulated", "workload": "pairs", "nemesis": "blink@leader", "seed": 1, "duration_s": 10}
    )
    done = simulate(config)
    started = [event for event in done.events if isinstance(event, ev.FaultStarted)]
    healed = [event for event in done.events if isinstance(event, ev.FaultHealed)]
    assert len(started) == len(healed) == len(done.steps) > 0
    assert all("was killed and started again" in event.text for event in started)
    assert [event.recovered for event in done.events if isinstance(event, ev.Recovered)] == [True]
    lines = [line for _, journal in done.journals for line in journal]
    sent = [mop for line in lines if isinstance(line, j.Invoked) for mop in line.mops]
    assert {mop.tp.topic for mop in sent if isinstance(mop, Send)} == {"pairs"}
    acknowledged = [line for line in lines if isinstance(line, j.SendResults)]
    assert len(acknowledged) > 10


LEVELS = (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED)


@pytest.mark.parametrize(("waited_s", "found"), [(119, 0), (121, 1)])
def test_a_check_judges_once_it_is_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waited_s: int, found: int
) -> None:
    late = example("checkers/checks/late_answers.py").CHECK
    monkeypatch.setitem(CHECKS, "late-answers", late)
    monkeypatch.setitem(ANOMALIES, "late-answer", late.anomalies["late-answer"])
    built = Built(tps=["x"])
    sent = Op(process=1, f="send", invoke=0, complete=waited_s * 1_000_000_000)
    sent.mops = [built_histories.Send(tp=0, value=7, offset=0)]
    ended = sent.complete or 0
    final = Op(process=2, f="final", invoke=ended, complete=ended + 1, phase=Phase.FINAL)
    final.mops = [Read(tp=0, offset=0, value=7)]
    built.ops = [sent, final]
    built.bounds = [Bound(tp=0, isolation=level, end=1, read_to=1) for level in LEVELS]
    verdict = check_run(write_run(tmp_path / "run", built.tables()))
    assert verdict.checks["late-answers"].status == ("invalid" if found else "valid")
    assert len(verdict.anomalies) == found
    for anomaly in verdict.anomalies.values():
        (shown,) = anomaly.examples
        assert shown.sentence == "Record 0/7 of x-0 was acknowledged after 121 s."
        assert shown.ops[0].records == ["send x-0 0/7 -> offset 0"]


@pytest.mark.parametrize(("older_ms", "found"), [(3_600_000, 0), (3_600_001, 1)])
def test_a_check_of_evidence_judges_once_it_is_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, older_ms: int, found: int
) -> None:
    for name, check in example("checkers/logs/times.py").CHECKS.items():
        monkeypatch.setitem(LOG_CHECKS, name, check)
    batches = [batch(TP, 1, 0, max_timestamp=2 * older_ms), batch(TP, 1, 1, max_timestamp=older_ms)]
    run = write_run(tmp_path / "run", Built(tps=["x"]).tables())
    write(run.evidence, tables({"batches": batches, "partitions": [whole(TP, 1)]}, nodes=(1,)))
    verdict = check_run(run)
    check = verdict.checks["times-rise"]
    assert (check.status, check.rows, check.found) == ("invalid" if found else "valid", 1, found)
    shown = [one for one in verdict.log_examples if one.check == "times-rise"]
    assert [one.sentence for one in shown] == [
        "q-0: the batch at offset 1 is an hour older than one before it."
    ] * found
