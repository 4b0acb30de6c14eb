"""The label outdated-offset-query: two assignments, nothing between them, and half a second."""

from pathlib import Path
from typing import Any

import pytest

from core.op import AssignmentKind
from tests.histories.built import Assign, Built, Op, Process, Read, Send, final_reads
from tests.histories.folders import check_run, write_run

MS = 1_000_000
MANUAL, BEGINNING = AssignmentKind.MANUAL, AssignmentKind.BEGINNING


def story(*, between: bool = False, begins: bool = True, again_ms: int = 1500, back: int = 0) -> Built:
    """Three records; a consumer assigns x at 1 s, and at `again_ms`, is given all of them at 2 s, and from
    offset `back` on at 2.2 s. between: it was given the first one before it assigned x again. begins: it
    asked for the beginning."""
    built = Built(tps=["x"])
    built.processes[1] = Process(acks=-2, slot=1)
    send = Op(process=0, f="send", invoke=100 * MS, complete=200 * MS)
    send.mops = [Send(tp=0, value=10 + at, offset=at) for at in range(3)]
    at_the_beginning = [Assign(tp=0, kind=BEGINNING)] if begins else []
    first = Op(process=1, f="assign", invoke=1000 * MS, complete=1001 * MS)
    first.mops = [Assign(tp=0, kind=MANUAL), *at_the_beginning]
    second = Op(process=1, f="assign", invoke=again_ms * MS, complete=(again_ms + 1) * MS)
    second.mops = [Assign(tp=0, kind=MANUAL, kept=True), *at_the_beginning]
    built.ops = [send, first, second]
    if between:
        built.ops.append(poll(again_ms - 100, 0))
    built.ops += [poll(2000, *range(between, 3)), poll(2200, back)]
    return final_reads(built, {0: [(at, 10 + at) for at in range(3)]}, end=3)


def poll(at_ms: int, *offsets: int) -> Op:
    op = Op(process=1, f="poll", invoke=(at_ms - 5) * MS, complete=at_ms * MS)
    op.mops = [Read(tp=0, offset=at, value=10 + at) for at in offsets]
    return op


@pytest.mark.parametrize(
    ("built", "settings", "labelled"),
    [
        (story(), {}, True),
        (story(again_ms=1699), {}, True),
        (story(again_ms=1701), {}, False),  # sooner than the timer
        (story(between=True), {}, False),  # the first one was answered
        (story(begins=False), {}, False),
        (story(back=1), {}, False),  # not the first record
        (story(), {"clients": "command"}, False),
    ],
)
def test_the_label_needs_an_answer_that_a_new_assignment_made_outdated(
    tmp_path: Path, built: Built, settings: dict[str, Any], *, labelled: bool
) -> None:
    found = check_run(write_run(tmp_path, built.tables(), settings=settings)).anomalies
    assert {name for name, each in found.items() if each.disallowed} == {"nonmonotonic-poll"}
    bug = found["nonmonotonic-poll"].examples[0].known_bug
    assert bug == ("outdated-offset-query" if labelled else "")
