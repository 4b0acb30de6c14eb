"""Rules about logs: in this process and under Spark alike; a rule that crashes is named."""

from pathlib import Path

import pytest

from checkers.engine.engines import chosen
from checkers.logs.engine import judge_all, tasks
from checkers.logs.judgement import Judgement, LogFinding, LogRule
from checkers.logs.registry import LocalRules, WholeRules
from core.errors import HistoryError
from core.op import TopicPartition
from history.evidence import Evidence, write
from history.reader import History
from tests.checkers.logs.made import TP, batch, tables, whole

OTHER = TopicPartition("q", 1)
RULE = LogRule(name="even-offsets", ring=0, anomaly="replica-divergence", claim="…", source="…")
CRASHING = LogRule(name="crashing", ring=0, anomaly="replica-divergence", claim="…", source="…")


def _even(evidence: Evidence, tp: TopicPartition) -> Judgement:
    found = Judgement()
    for row in evidence.of("batches", tp).to_pylist():
        found.asked[RULE.name] += 1
        if row["base"] % 2:
            sentence = f"offset {row['base']} is odd"
            nodes = (row["node"],)
            found.refuse(
                LogFinding(
                    rule=RULE.name,
                    tp=tp,
                    offset=row["base"],
                    take=row["take"],
                    nodes=nodes,
                    sentence=sentence,
                )
            )
    return found


def _crash(evidence: Evidence, tp: TopicPartition) -> Judgement:
    raise ValueError(f"no rule for {tp}")


def _crash_over_all(evidence: Evidence, history: History | None) -> Judgement:
    raise ValueError("nothing over all")


LOCAL = {
    "even": LocalRules(rules=(RULE,), judge=_even),
    "crashing": LocalRules(rules=(CRASHING,), judge=_crash),
}
TABLES = tables(
    {
        "batches": [batch(TP, 1, 0), batch(TP, 2, 0), batch(OTHER, 1, 2), batch(OTHER, 1, 3)],
        "partitions": [whole(TP, 1), whole(TP, 2), whole(OTHER, 1)],
    }
)


def test_each_partition_is_judged_and_a_crash_is_named() -> None:
    found = judge_all(Evidence(TABLES), local=LOCAL, whole={})
    assert [(one.tp, one.offset, one.nodes) for one in found.findings] == [(OTHER, 3, (1,))]
    assert found.asked == {"even-offsets": 4}
    assert found.counts == {"even-offsets": 1}
    assert set(found.crashed) == {"crashing"}
    assert "no rule for q-" in found.crashed["crashing"]


def test_rules_over_all_partitions_crash_alone() -> None:
    rules = WholeRules(rules=(CRASHING,), judge=_crash_over_all)
    found = judge_all(Evidence(TABLES), local={"even": LOCAL["even"]}, whole={"crashing": rules})
    assert found.counts == {"even-offsets": 1}
    assert "nothing over all" in found.crashed["crashing"]


def test_a_run_without_evidence_asks_no_rule() -> None:
    assert judge_all(Evidence({}), local=LOCAL, whole={}) == Judgement()


def test_tasks_take_every_partition_once() -> None:
    assert sorted(tp for some in tasks(Evidence(TABLES)) for tp in some) == [TP, OTHER]


@pytest.mark.parametrize(("rows", "many"), [(0, 2), (1, 2), (10**6, 1)])
def test_partitions_share_a_task_while_it_has_room(
    monkeypatch: pytest.MonkeyPatch, rows: int, many: int
) -> None:
    monkeypatch.setattr("checkers.logs.engine.TASK_ROWS", rows)
    assert len(tasks(Evidence(TABLES))) == many


def test_rows_of_a_partition_that_do_not_stand_together_are_refused() -> None:
    mixed = TABLES | {"batches": TABLES["batches"].take([0, 2, 1])}
    with pytest.raises(HistoryError, match="do not stand together"):
        Evidence(mixed).of("batches", TP)


@pytest.mark.sampled(3)
@pytest.mark.spark
@pytest.mark.slow
def test_spark_comes_to_the_same_judgement(tmp_path: Path) -> None:
    write(tmp_path, TABLES)
    here = judge_all(Evidence(TABLES), local=LOCAL, whole={})
    with chosen(tmp_path, master="local[1]") as choice:
        workers = choice.workers
        there = judge_all(Evidence.load(tmp_path), local=LOCAL, whole={}, workers=workers, folder=tmp_path)
        (tmp_path / "batches.parquet").write_bytes(b"damaged")
        with pytest.raises(HistoryError, match=r"batches\.parquet"):
            judge_all(Evidence(TABLES), local=LOCAL, whole={}, workers=workers, folder=tmp_path)
    assert there.findings == here.findings
    assert there.counts == here.counts
    assert there.asked == here.asked
    assert set(there.crashed) == set(here.crashed)
