"""KAFKA-6082: the label needs a writer that was controller, and controllers that nothing fences."""

from pathlib import Path

import pytest

from checkers.engine.check import Tally
from checkers.known_bugs.registry import labels
from checkers.logs import accept_controllers
from checkers.logs.accept_controllers import CONTROLLER
from checkers.logs.accept_notices import READ
from checkers.logs.accept_znodes import WRITER
from history.evidence import Evidence
from history.reader import load
from tests.checkers.logs.made import of_all, tables
from tests.checkers.logs.test_accept_controllers import later
from tests.checkers.logs.test_accept_notices import judged as by_notices
from tests.checkers.logs.test_accept_notices import long_in_office, notice, read
from tests.checkers.logs.test_accept_znodes import CHECKS, FIRST, SECOND, THIRD, Rows, log, put, state
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
    assert labelled(tmp_path, rows, of_all(CHECKS, Evidence(tables({"znodes": rows})))) == [
        ("znode-writer", label)
    ]


def labelled(folder: Path, rows: Rows, tally: Tally) -> list[tuple[str, str]]:
    """Each finding about what a session wrote, with its label."""
    op = Op(process=0, f="send", invoke=1, complete=2, mops=[])
    built = Built(tps=["t"], ops=[op], processes={0: Process(acks=-1)})
    history = load(write_run(folder / "run", built.tables()))
    about = (WRITER, CONTROLLER, READ)
    found = [one for one in tally.in_logs if one.check in about]
    known = labels(history, Evidence(tables({"znodes": rows})), found)
    return [(one.check, label) for one, label in zip(found, known, strict=True)]


def raised(session: int, by: str) -> Rows:
    """The epoch that broker 2 took at its election: that session raised it, from 1 to this one."""
    rows = unfenced(log())
    return [one | ({"data": by, "session": session} if one["data"] == "2" else {}) for one in rows]


@pytest.mark.parametrize(
    ("session", "by", "label"),
    [
        (FIRST, "2", "KAFKA-6082"),  # broker 1 had /controller until then
        (FIRST, "5", ""),
        (SECOND, "5", ""),  # the controller in office
        (THIRD, "2", ""),
    ],
)
def test_a_former_controller_raises_the_epoch_by_one(
    tmp_path: Path, session: int, by: str, label: str
) -> None:
    rows = raised(session, by)
    found = labelled(tmp_path, rows, of_all(accept_controllers.CHECKS, Evidence(tables({"znodes": rows}))))
    assert found == [(CONTROLLER, label)]


def test_a_notice_that_the_controller_in_office_leaves_has_another_cause(tmp_path: Path) -> None:
    rows = unfenced([*long_in_office(), notice(15, 60_000), later(16, 91_000)])
    assert labelled(tmp_path, rows, by_notices(rows)) == [(READ, "")]


@pytest.mark.parametrize(("session", "label"), [(FIRST + 1, "KAFKA-6082"), (THIRD, "")])
def test_a_former_controller_deletes_a_notice(tmp_path: Path, session: int, label: str) -> None:
    """Broker 1 by the session that it has since, or broker 3, which never was controller."""
    rows = unfenced([*long_in_office(), notice(15, 60_000), read(16, 61_000, 15, session)])
    assert labelled(tmp_path, rows, by_notices(rows)) == [(READ, label)]
