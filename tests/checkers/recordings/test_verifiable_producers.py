"""What a producer of Kafka's own tools may have sent, where its output does not say it."""

from pathlib import Path
from typing import Any

import pytest

from tests.checkers.recordings import imported
from tests.checkers.recordings.test_formats import GIVEN, START, STOP, acked, consumed, data, found, lines_of
from tests.histories.folders import check_run

Line = tuple[str, dict[str, Any]]


def consumer(*values: str) -> str:
    """Reads these from offset 0 on."""
    read = [data(value, offset) for offset, value in enumerate(values)]
    return lines_of(START, GIVEN, *read, consumed(len(values)), STOP)


@pytest.mark.parametrize(
    ("others", "values", "forbidden"),
    [
        ((), ("0", "1.0"), ["phantom-read"]),
        (((START,),), ("0", "1.0"), []),  # a producer that was killed at once, or an idle consumer
        (((START, STOP),), ("0", "1.0"), ["phantom-read"]),  # no producer ends so
        (((START,),), ("0", "1.0", "1.1"), []),
        (((START,),), ("0", "1.0", "2.0"), ["phantom-read"]),  # one producer has one prefix
        (((START,), (START,)), ("0", "1.0", "2.0"), []),
        (((START,),), ("0", "x"), ["phantom-read"]),
    ],
)
def test_a_tool_that_only_started_may_be_a_producer(
    tmp_path: Path, others: tuple[tuple[Line, ...], ...], values: tuple[str, ...], forbidden: list[str]
) -> None:
    files = [lines_of(START, acked("0", 0), STOP), consumer(*values), *(lines_of(*one) for one in others)]
    run, recording = imported(tmp_path, "verifiable", *files, from_start=True)
    assert recording.reasons == []
    assert found(check_run(run)) == forbidden
