"""KAFKA-19972: the label needs a member that ended with the record, and said nothing of it."""

from pathlib import Path

import pytest

from tests.checkers.known_bugs.upgrades import upgrade_of
from tests.histories.folders import check_run, write_run
from tests.histories.notation import stories


@pytest.mark.parametrize(
    ("then", "labelled"),
    [
        ("p2 acquire x{1@0}", True),
        ("p1 acknowledge x~0\np2 acquire x{1@0}", False),  # it was released
        ("p1? acknowledge x+0?\np2 acquire x{1@0}", False),
        ("p2 acquire x{1@0}\np1 leave", False),  # its member lives
        ("p1 acquire x{1@0}", False),
    ],
)
def test_the_label_needs_a_member_that_ended_with_the_record(
    tmp_path: Path, then: str, labelled: bool
) -> None:
    assert label(tmp_path, then, "4.1.2") == ("KAFKA-19972" if labelled else "")


def test_brokers_that_count_on_have_no_label(tmp_path: Path) -> None:
    assert label(tmp_path, "p2 acquire x{1@0}", "4.2.0") == ""


@pytest.mark.parametrize(("upgraded_s", "labelled"), [(-20, False), (60, True)])
def test_brokers_that_were_all_upgraded_by_then_count_on(
    tmp_path: Path, upgraded_s: int, labelled: bool
) -> None:
    found = label(tmp_path, "p2 acquire x{1@0}", "4.1.2", upgraded_s=upgraded_s)
    assert found == ("KAFKA-19972" if labelled else "")


def label(folder: Path, then: str, version: str, upgraded_s: float | None = None) -> str:
    members = "set p1 group0 acks-2\nset p2 group0 acks-2"
    text = f"share\n{members}\np0 send x:1@0\np1 acquire x{{1@0}}\n{then}\np9 final x[1@0]\nend x rc 1"
    (story,) = stories(f"== case\n{text}")
    settings, events = upgrade_of(version, upgraded_s)
    run = write_run(folder, story.tables(), settings=settings, events=events)
    return check_run(run).anomalies["share-count"].examples[0].known_bug
