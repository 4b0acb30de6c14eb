"""KAFKA-19972: the label needs a member that ended with the record, and said nothing of it. A member that
leaves ends its sessions first: its journal ends later."""

from pathlib import Path

import pyarrow as pa
import pytest

from tests.checkers.known_bugs.upgrades import upgrade_of
from tests.histories.folders import check_run, write_run
from tests.histories.notation import stories


@pytest.mark.parametrize(
    ("then", "died", "left"),
    [
        ("p2 acquire x{1@0}", True, True),
        ("p1 acknowledge x~0\np2 acquire x{1@0}", False, False),  # it was released
        ("p1? acknowledge x+0?\np2 acquire x{1@0}", False, False),
        ("p2 acquire x{1@0}\np1 acquire x{2@1}", False, False),  # its member lives
        ("p2 acquire x{1@0}\np1* acquire", False, False),
        ("p1 acquire x{2@1}\np2 acquire x{1@0}", True, True),
        ("p1* acquire\np2 acquire x{1@0}", True, False),  # an op lasts as long as its member, at most
        ("p1 acquire x{1@0}", False, False),
    ],
)
def test_the_label_needs_a_member_that_ended_with_the_record(
    tmp_path: Path, then: str, died: bool, left: bool
) -> None:
    expected = tuple("KAFKA-19972" if labelled else "" for labelled in (died, left))
    found = (label(tmp_path / "died", then, "4.1.2"), label(tmp_path / "left", then, "4.1.2", leaves=True))
    assert found == expected


@pytest.mark.parametrize(
    ("first", "second", "labelled"), [(1, 1, True), (4, 4, True), (4, 1, False), (5, 2, False), (3, 2, False)]
)
def test_the_bug_takes_back_one_delivery(tmp_path: Path, first: int, second: int, labelled: bool) -> None:
    """A count that falls by more is of a leader that forgot the record's state."""
    found = label(tmp_path, f"p2 acquire x{{1@0*{second}}}", "4.1.2", first=first)
    assert found == ("KAFKA-19972" if labelled else "")


@pytest.mark.parametrize(
    ("then", "labelled"),
    [
        ("p2 acquire x{1@0*3}\np3 acquire x{1@0*3}", True),  # two members ended with it
        ("p2 acquire x{1@0*3}\np3 acquire x{1@0*1}", False),
        ("p2 acquire x{1@0*3}\np3 acquire x{1@0*3}\np2 acquire x{2@1}", False),  # the second one lives
        ("p2 acquire x{1@0*3}\np3 acquire x{1@0*4}\np2 acquire x{2@1}", True),  # its count rose
    ],
)
def test_the_bug_has_to_explain_every_fall_of_a_record(tmp_path: Path, then: str, labelled: bool) -> None:
    """One finding stands for all of them: what it says is of the first one."""
    found = label(tmp_path, then, "4.1.2", first=3)
    assert found == ("KAFKA-19972" if labelled else "")


def test_brokers_that_count_on_have_no_label(tmp_path: Path) -> None:
    assert label(tmp_path, "p2 acquire x{1@0}", "4.2.0") == ""


@pytest.mark.parametrize(("upgraded_s", "labelled"), [(-20, False), (60, True)])
def test_brokers_that_were_all_upgraded_by_then_count_on(
    tmp_path: Path, upgraded_s: int, labelled: bool
) -> None:
    found = label(tmp_path, "p2 acquire x{1@0}", "4.1.2", upgraded_s=upgraded_s)
    assert found == ("KAFKA-19972" if labelled else "")


def label(
    folder: Path,
    then: str,
    version: str,
    upgraded_s: float | None = None,
    leaves: bool = False,
    first: int = 1,
) -> str:
    """The label of what p2 is given. leaves: p1 ended its sessions, and its journal ends with the run. first:
    the delivery count with which p1 was given the record."""
    members = "set p1 group0 acks-2\nset p2 group0 acks-2\nset p3 group0 acks-2"
    given, read = f"p0 send x:1@0 x:2@1\np1 acquire x{{1@0*{first}}}", "p9 final x[1@0,2@1]\nend x rc 2"
    text = f"share\n{members}\n{given}\n{then}\n{read}"
    (story,) = stories(f"== case\n{text}")
    settings, events = upgrade_of(version, upgraded_s)
    tables = story.tables()
    if leaves:
        processes = tables["processes"].to_pylist()
        last_ns = max(row["end_ns"] for row in processes)
        for row in processes:
            row["end_ns"] = last_ns if row["process"] == 1 else row["end_ns"]
        tables = tables | {"processes": pa.Table.from_pylist(processes, tables["processes"].schema)}
    run = write_run(folder, tables, settings=settings, events=events)
    return check_run(run).anomalies["share-count"].examples[0].known_bug
