"""A cleaner that was stopped before it noted how far it had come."""

import json
from typing import Any

import pytest

from tests.checkers.logs.test_audit import Made, clean, judged, one


def segments(made: Made, *starts: int) -> None:
    for row in made["batches"]:
        row["segment"] = max(start for start in (0, *starts) if start <= row["base"])


def policy(value: str | None, topic: str = "q", name: str = "cleanup.policy") -> dict[str, Any]:
    body = {"resourceType": 2, "resourceName": topic, "name": name, "value": value}
    place = {"take": 1, "node": 1, "snapshot": -1}
    return {**place, "name": "ConfigRecord", "body": json.dumps(body)}


def lacking(base: int, node: int = 2) -> Made:
    """Three segments of each node; one batch of a node is gone."""
    made = clean()
    segments(made, 40, 70)
    made["batches"].remove(one(made, "batches", take=1, node=node, base=base))
    return made


@pytest.mark.parametrize("base", [0, 20, 30, 40, 60])
def test_a_closed_segment_of_a_compacted_topic_may_lack_records(base: int) -> None:
    """Of this log, and so of what others are compared with. 30 and 60 are the ends of segments."""
    made = lacking(base)
    assert {"offsets-dense", "log-matching", "replicas-equal"} & {each.check for each in judged(made).in_logs}
    made["metadata"] = [policy("compact,delete")]
    found = judged(made)
    assert not {"offsets-dense", "log-matching", "replicas-equal"} & {each.check for each in found.in_logs}
    assert "offsets-dense" in {doubt.check for doubt in found.doubts}


@pytest.mark.parametrize(
    "setting", [policy("delete"), policy(None), policy("compact", "other"), policy("compact", name="x")]
)
def test_no_other_topic_may(setting: dict[str, Any]) -> None:
    made = lacking(20)
    made["metadata"] = [setting]
    assert "offsets-dense" in {each.check for each in judged(made).in_logs}


@pytest.mark.parametrize("base", [70, 80])
def test_the_last_segment_is_never_cleaned(base: int) -> None:
    """The first batch of it, and another one."""
    made = lacking(base)
    made["metadata"] = [policy("compact")]
    assert [each.offset for each in judged(made).in_logs if each.check == "offsets-dense"] == [base + 10]
    assert "log-matching" in {each.check for each in judged(made).in_logs}


def test_where_the_cleaner_noted_something_the_topic_is_compacted() -> None:
    made = lacking(50)
    made["ends"].append({**made["ends"][0], "file": "cleaner", "value": 40})
    assert "offsets-dense" not in {each.check for each in judged(made).in_logs}


def test_what_overlaps_was_not_cleaned() -> None:
    made = clean()
    segments(made, 40, 70)
    made["metadata"] = [policy("compact")]
    one(made, "batches", take=1, node=2, base=50).update(last=62, records=13)
    assert "offsets-dense" in {each.check for each in judged(made).in_logs}


def test_a_batch_of_fewer_records_was_cleaned() -> None:
    made = clean()
    segments(made, 40, 70)
    made["metadata"] = [policy("compact")]
    one(made, "batches", take=1, node=1, base=20)["records"] = 9
    assert not judged(made).in_logs
    one(made, "batches", take=1, node=1, base=80)["records"] = 9
    assert [each.offset for each in judged(made).in_logs if each.check == "offsets-dense"] == [80]
