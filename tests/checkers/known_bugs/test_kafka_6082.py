"""KAFKA-6082: the label needs a writer that was controller, and controllers that nothing fences."""

from pathlib import Path

import pytest

from checkers.known_bugs.registry import labels
from history.evidence import Evidence
from history.reader import load
from tests.checkers.logs.made import of_all, tables
from tests.checkers.logs.test_accept_znodes import CHECKS, FIRST, THIRD, Rows, log, put, state
from tests.histories.built import Built, Op, Process
from tests.histories.folders import write_run


def unfenced(rows: Rows) -> Rows:
    """The controller epoch rises by a request of its own, as before 2.1."""
    later = {"1": 7, "2": 11}
    return [row | ({"zxid": later[row["data"]]} if row["data"] in later else {}) for row in rows]


FORMER = put(13, state(13, FIRST + 1, 3, 2, [2, 3], by=2))
"""Broker 1, which was the first controller, writes by the session that it has since."""
STRANGER = put(13, state(13, THIRD, 2, 2, [2, 3], by=2))
"""Broker 3 never was controller."""


@pytest.mark.parametrize(
    ("rows", "label"),
    [
        (unfenced(FORMER(log())), "KAFKA-6082"),
        (FORMER(log()), ""),  # since 2.1 nothing lets it
        (unfenced(STRANGER(log())), ""),
    ],
)
def test_a_former_controller_that_nothing_fences(tmp_path: Path, rows: Rows, label: str) -> None:
    op = Op(process=0, f="send", invoke=1, complete=2, mops=[])
    built = Built(tps=["t"], ops=[op], processes={0: Process(acks=-1)})
    history = load(write_run(tmp_path / "run", built.tables()))
    evidence = Evidence(tables({"znodes": rows}))
    found = [one for one in of_all(CHECKS, evidence).in_logs if one.check == "znode-writer"]
    assert labels(history, evidence, found) == [label]
