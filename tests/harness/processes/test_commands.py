"""Programs that run for a bounded time: what they say, or one clear error."""

import os
import sys

import pytest

from core.errors import ClusterError
from harness.processes.commands import output


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_what_it_writes_is_the_answer() -> None:
    code = "import os, sys; print(sys.stdin.read() + os.environ['WORD']); print('noise', file=sys.stderr)"
    environment = {**os.environ, "WORD": "world"}
    assert output(python(code), 60, "it failed", given="hello ", environment=environment) == "hello world\n"


@pytest.mark.parametrize(
    ("code", "options", "said"),
    [
        ("import sys; sys.exit('1\\n2\\n3')", {}, "it failed: 1\n2\n3"),
        ("import sys; sys.exit('1\\n2\\n3')", {"lines": 1, "instead": "; do so"}, "it failed: 3; do so"),
        ("import sys; sys.exit(7)", {}, "it failed: exit code 7"),
    ],
)
def test_a_bad_end_is_one_error_with_its_last_lines(code: str, options: dict[str, int], said: str) -> None:
    with pytest.raises(ClusterError) as told:
        output(python(code), 60, "it failed", **options)  # type: ignore[arg-type]
    assert str(told.value) == said


def test_one_that_does_not_end_in_time_is_ended() -> None:
    with pytest.raises(ClusterError, match=r"^it failed: .* timed out after 0.2 seconds"):
        output(python("import time; time.sleep(600)"), 0.2, "it failed")


def test_one_that_is_not_there_is_one_error() -> None:
    with pytest.raises(ClusterError, match=r"^it failed: .*No such file"):
        output(["no-such-program"], 60, "it failed")
