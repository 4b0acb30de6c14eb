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
    members = "set p1 group0 acks-2\nset p2 group0 acks-2"
    text = f"share\n{members}\np0 send x:1@0\np1 acquire x{{1@0}}\n{then}\np9 final x[1@0]\nend x rc 1"
    (story,) = stories(f"== case\n{text}")
    run = write_run(tmp_path, story.tables(), events=(STARTED, RECOVERED))
    found = check_run(run).anomalies["share-count"]
    assert found.examples[0].known_bug == ("KAFKA-19972" if labelled else "")
