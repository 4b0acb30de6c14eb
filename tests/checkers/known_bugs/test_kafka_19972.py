"""KAFKA-19972: the label needs a member that ended with the record, and said nothing of it."""

from pathlib import Path

import pytest

from tests.histories.folders import RECOVERED, STARTED, check_run, write_run
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


def label(folder: Path, then: str, version: str) -> str:
    members = "set p1 group0 acks-2\nset p2 group0 acks-2"
    text = f"share\n{members}\np0 send x:1@0\np1 acquire x{{1@0}}\n{then}\np9 final x[1@0]\nend x rc 1"
    (story,) = stories(f"== case\n{text}")
    settings = {"kafka": {"version": version}}
    run = write_run(folder, story.tables(), settings=settings, events=(STARTED, RECOVERED))
    return check_run(run).anomalies["share-count"].examples[0].known_bug
