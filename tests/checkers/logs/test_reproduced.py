"""Known bugs of Kafka, from real brokers' logs alone: each is found at its place, and nothing else is.

`golden/NAME-SIDE.zip` is the evidence of one run of `inquest reproduce NAME`: of its topic, of the partition
of `__transaction_state` that decided, of the first kill and of the end, with one controller's metadata log.
"""

from pathlib import Path
from zipfile import ZipFile

import pytest

from checkers.logs import decisions
from checkers.logs.engine import judge_all
from checkers.logs.judgement import Judgement
from history.evidence import Evidence

GOLDEN = Path(__file__).with_name("golden")


def judged(name: str, folder: Path) -> Judgement:
    with ZipFile(GOLDEN / f"{name}.zip") as archive:
        archive.extractall(folder)
    return judge_all(Evidence.load(folder))


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("kafka-14402-bad", [("partitions-marked", "run-1-0", 2)]),
        ("kafka-14402-good", []),
        ("kafka-20734-bad", [("partitions-marked", "run-1-1", 0)]),
        ("uncommitted-abort-bad", [("decisions-agree", "run-1-0", 1), ("marker-decided", "run-1-0", 1)]),
        ("uncommitted-partition-bad", [("partitions-named", "run-1-1", 0)]),
    ],
)
def test_logs_alone_show_the_bug_at_its_place(
    name: str, found: list[tuple[str, str, int]], tmp_path: Path
) -> None:
    judgement = judged(name, tmp_path)
    assert sorted((one.rule, str(one.tp), one.offset) for one in judgement.findings) == found
    assert not judgement.crashed
    assert all(judgement.asked[rule.name] for rule in decisions.RULES if rule is not decisions.AGREE)


@pytest.mark.parametrize(
    ("name", "witness"),
    [
        ("kafka-14402-bad", "the records came after the end of their transaction (KAFKA-14402)"),
        ("kafka-20734-bad", "the partition had no leader (KAFKA-20734)"),
        ("uncommitted-abort-bad", "acted upon a decision that was not committed"),
        ("uncommitted-partition-bad", "answered from a record that was not committed"),
    ],
)
def test_the_finding_says_what_a_dead_node_or_the_metadata_log_shows(
    name: str, witness: str, tmp_path: Path
) -> None:
    assert all(witness in one.sentence for one in judged(name, tmp_path).findings)
