"""What the page tells of a share group's record."""

import re
from pathlib import Path

import pytest

from core.op import Acknowledgement, Outcome
from harness.report import causes, inputs
from harness.report import facts as recorded
from harness.report.traces import Traces
from history.verdict import Example, OpView
from tests.histories.report_findings import anomalous
from tests.histories.report_histories import ns, table

OFFSET = 7


def of(op: int) -> OpView:
    return OpView(op=op, process=1, slot=1, f="acquire", outcome="ok", phase="faults", begin_s=1, end_s=2)


def fact(path: Path, monkeypatch: pytest.MonkeyPatch, releases: int, ops: list[int]) -> str:
    """A record was given and released so often, and given once more: op n is the n-th of these."""
    read = inputs.read(anomalous().write(path / "run"))
    assert read.history is not None
    key = {"tp": read.history.tp_numbers["queue-3"], "group": 0, "offset": OFFSET, "process": 1}
    given = [
        {**key, "op": 2 * n, "complete_ns": ns(2 * n), "delivery_count": n + 1} for n in range(releases + 1)
    ]
    said = [
        {**key, "op": 2 * n + 1, "invoke_ns": ns(2 * n + 1), "kind": Acknowledgement.RELEASE}
        | {"outcome": Outcome.OK}
        for n in range(releases)
    ]
    rows = {"deliveries": given, "acknowledgements": said}
    monkeypatch.setattr(recorded, "read_table", lambda path, name: table(name, rows[name]))
    views = [of(op) for op in ops]
    example = Example(sentence="", allowed=False, why="", partition="queue-3", offsets=[OFFSET], ops=views)
    traces = Traces(
        inputs=read, example=example, leaders=[], ends=None, side=None, decided=None, offsets=None
    )
    anomaly = next(iter(read.verdict.anomalies.values()))
    found = causes.build("share-over-limit", anomaly, traces).facts
    return next(one for one in found if one.startswith("offset 7 was"))


@pytest.mark.parametrize(
    ("releases", "ops", "shown"),
    [
        (2, [4], [0, 1, 2, 3, 4]),
        (5, [10], [5, 6, 7, 8, 9, 10]),  # the newest before the finding
        (5, [0, 10], [0, 6, 7, 8, 9, 10]),
        (5, [2], [0, 1, 2, 3, 4, 5]),  # what followed, where little came before
        (5, [4], [0, 1, 2, 3, 4, 5]),
    ],
)
def test_the_steps_of_the_finding_are_told(
    releases: int, ops: list[int], shown: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = fact(tmp_path, monkeypatch, releases, ops)
    assert [int(op) for op in re.findall(r"\(op (\d+)", told)] == shown
    left_out = re.search(r"; of (\d+) deliveries and acknowledgements, (\d+) are shown$", told)
    assert (left_out and left_out.groups()) == (("11", "6") if releases == 5 else None)
