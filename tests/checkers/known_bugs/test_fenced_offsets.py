"""Offsets that came behind the marker that fenced their producer."""

from pathlib import Path

import pytest

from checkers.known_bugs.registry import labels
from checkers.logs import accept_data, decisions
from checkers.logs.decisions import AGREE
from core.op import TopicPartition
from model.accepting.data_partition import PRODUCER_EPOCH
from tests.checkers.known_bugs.test_log_findings import FAIL, OK, T1, T2, T3, Logs, recorded
from tests.checkers.logs.made import at, of_all
from tests.checkers.logs.test_decisions import BEGAN_MS, P0, PRODUCER, offsets

BAD = "1.1.1"
CHECKS = PRODUCER_EPOCH, AGREE


def fenced(*, late: bool = True, topic: str = "", producer_id: int = PRODUCER) -> Logs:
    """T2 is aborted, its offsets come behind the marker, and T3 commits.
    late: they come behind it. topic: of a partition in the place of that of offsets. producer_id: of the
    offsets on record."""
    logs = Logs()
    group = offsets(logs)
    tp = TopicPartition(topic, 1) if topic else group
    logs.transaction(T1, P0, tp)
    logs.coordinator("Ongoing", T2, P0, tp, start_ms=T2)
    logs.records(P0, T2 + 1)
    stored = -1 if late else logs.records(tp, T2 + 5)
    logs.coordinator("PrepareAbort", T2 + 20, P0, tp, start_ms=T2, epoch=1)
    for each in (P0, tp):
        logs.marker(each, T2 + 30, "ABORT", epoch=1)
    logs.coordinator("CompleteAbort", T2 + 40, start_ms=T2, epoch=1)
    if late:
        stored = logs.records(tp, T2 + 50)
    logs.coordinator("Ongoing", T3, tp, start_ms=T3, epoch=1)
    logs.records(tp, T3 + 1, epoch=1)
    logs.coordinator("PrepareCommit", T3 + 20, tp, start_ms=T3, epoch=1)
    logs.marker(tp, T3 + 30, "COMMIT", epoch=1)
    logs.coordinator("CompleteCommit", T3 + 40, start_ms=T3, epoch=1)
    known = {"producer_id": producer_id, "producer_epoch": 0, "transactional": True, "group": "group-0"}
    known |= {"committed_topic": "q", "committed_partition": 0, "committed": 9, "take": 1}
    logs.made["offset_log"] = [at(tp, 1, offset=stored, timestamp=BEGAN_MS + T2 + 50, **known)]
    return logs


def found_by(folder: Path, logs: Logs, kafka: str = BAD) -> dict[str, str]:
    """Check -> the label of what it finds, with brokers of this version."""
    settings = {"kafka": {"version": kafka, "metadata": "kraft" if kafka > "3" else "zookeeper"}}
    history, kept = recorded(folder, logs, OK, FAIL, OK, settings=settings)
    found = [*of_all(decisions.CHECKS, kept).in_logs, *of_all(accept_data.CHECKS, kept, history).in_logs]
    found = [one for one in found if one.check in CHECKS]
    return dict(zip((one.check for one in found), labels(history, kept, found), strict=True))


def test_they_are_stored_and_a_later_commit_ends_them(tmp_path: Path) -> None:
    found = found_by(tmp_path / "run", fenced())
    assert found == dict.fromkeys(CHECKS, "fenced-offsets")


@pytest.mark.parametrize(
    ("kafka", "bug"), [("0.11.0.1", ""), ("0.11.0.3", "fenced-offsets"), ("2.4.1", ""), ("4.4.0", "")]
)
def test_other_versions_check_the_epoch(tmp_path: Path, kafka: str, bug: str) -> None:
    found = found_by(tmp_path / "run", fenced(), kafka)
    assert found == dict.fromkeys(CHECKS, bug)


@pytest.mark.parametrize("logs", [fenced(topic="q"), fenced(producer_id=PRODUCER + 1)])
def test_other_records_behind_the_marker_are_another_bug(tmp_path: Path, logs: Logs) -> None:
    found = found_by(tmp_path / "run", logs)
    assert found == dict.fromkeys(CHECKS, "")


def test_offsets_before_the_marker_are_in_order(tmp_path: Path) -> None:
    assert found_by(tmp_path / "run", fenced(late=False)) == {}
