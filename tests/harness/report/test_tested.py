"""What was tested, in the words that a user gives."""

import pytest

from core.config import run_config
from harness.report.tested import configuration


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"acks": "all", "isolation": "read_committed"}, {"acks": "all", "isolation": "read_committed"}),
        ({"acks": 1, "isolation": "read_uncommitted"}, {"acks": 1, "isolation": "read_uncommitted"}),
    ],
)
def test_a_configuration_reads_as_it_is_given(given: dict[str, object], shown: dict[str, object]) -> None:
    config = run_config({"preset": "acks1", "seed": 1, "idempotent": False} | given)
    listed = configuration(config.model_dump(mode="json"))
    assert {name: listed[name] for name in shown} == shown
    again = {name: value for name, value in listed.items() if name not in ("sut", "kafka")}
    assert run_config(again) == config  # nothing else was reworded


def test_sections_of_other_systems_are_left_out() -> None:
    config = run_config({"preset": "safe", "seed": 1}).model_dump(mode="json")
    assert [name for name, value in configuration(config).items() if value is None] == []
    assert {name for name, value in config.items() if value is None}  # they are in the record
