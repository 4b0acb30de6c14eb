"""The label `pending-expansion`: a leader forgets the replica that it has asked for, acknowledges what that
one lacks, and that one is elected."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from history.replica_lines import LearntLine, learnt_lines
from history.run_folder import Run
from tests.checkers.known_bugs.test_last_replica import CLASSES, NEW_MS, Change, change, recorded
from tests.histories.folders import check_run

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
ALONE: Change = {"name": "PartitionRecord", "leader": 2, "isr": [2], "replicas": [3, 2, 1]}
TWO = change(2, 1, 2, partition_leader_epoch=1)
"""Partition epoch 2."""
THREE = change(2, 1, 2, 3, partition_leader_epoch=1)
PREFERRED = change(3, 1, 2, 3, partition_leader_epoch=2, timestamp=NEW_MS - 10_000)
LATER: Change = {"partition_leader_epoch": 2}
GRANTED = [ALONE, TWO, THREE, PREFERRED]
SHOWN = dict.fromkeys(("lost-write", "inconsistent-offsets"), "pending-expansion")


def wall(at_s: float) -> str:
    return (BEGAN + timedelta(seconds=at_s)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def answered(at_s: float, epoch: int) -> str:
    return (
        f"{wall(at_s)} INFO kafka.cluster.Partition - [Partition x-0 broker=2] ISR updated to 2,1  and"
        f" version updated to {epoch}\n"
    )


def read(at_s: float, epoch: int) -> str:
    return (
        f"{wall(at_s)} INFO state.change.logger - [Broker id=2] Skipped the become-leader state change for"
        " x-0 with topic id Some(x), partition registration PartitionRegistration(replicas=[3, 2, 1],"
        " directories=[a, b, c], isr=[1, 2], removingReplicas=[], addingReplicas=[], elr=[], lastKnownElr=[],"
        f" leader=2, leaderRecoveryState=RECOVERED, leaderEpoch=1, partitionEpoch={epoch}) and isNew=false"
        " since it is already the leader with leader epoch 1. Current high watermark 0, ISR [1,2], adding"
        " replicas [] and removing replicas [].\n"
    )


def follows(at_s: float, epoch: int) -> str:
    return (
        f"{wall(at_s)} INFO state.change.logger - [Broker id=2] Follower x-0 starts at leader epoch 2 from"
        f" offset 1 with partition epoch {epoch} and high watermark 1. Current leader is 3. Previous leader"
        " Some(2) and previous leader epoch was 1.\n"
    )


FORGETS = (answered(5, 2), read(8, 2))


def labels(
    folder: Path, changes: Sequence[Change] = GRANTED, lines: Sequence[str] = FORGETS, **more: Any
) -> dict[str, str]:
    """The label of each class that is found: node 2 logged this."""
    run = recorded(folder, changes, loses_power=False, **more)
    log = run.cluster / "2" / "server.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("".join(lines))
    verdict = check_run(run)
    assert verdict.anomalies["lost-write"].disallowed
    return {name: verdict.anomalies[name].known_bug for name in CLASSES if name in verdict.anomalies}


@pytest.mark.parametrize(
    "lines",
    [
        FORGETS,
        (*FORGETS, read(9, 2)),
        (*FORGETS, follows(32, 4)),
        (*FORGETS, answered(12, 3)),
        (read(4, 1), *FORGETS, read(12, 3)),
    ],
    ids=["to the end", "twice", "until it follows", "until an answer", "until the record"],
)
def test_a_leader_that_had_the_record_after_the_answer_lost_what_a_new_member_lacks(
    tmp_path: Path, lines: Sequence[str]
) -> None:
    assert labels(tmp_path / "run", lines=lines) == SHOWN


@pytest.mark.parametrize(
    ("changes", "lines", "more"),
    [
        (GRANTED, (), {}),
        (GRANTED, (answered(5, 2),), {}),
        (GRANTED, (read(8, 2), answered(9, 2)), {}),
        (GRANTED, (read(8, 2),), {}),
        (GRANTED, (answered(5, 1), read(8, 1)), {}),
        (GRANTED, (*FORGETS, read(9, 3)), {}),
        (GRANTED, (answered(5, 2), answered(6, 3), read(8, 2)), {}),
        (GRANTED, (answered(12, 2), read(13, 2)), {}),
        (GRANTED, FORGETS, {"acked_s": 35, "epoch": 1}),
        ([ALONE, TWO, THREE], FORGETS, {}),
        ([ALONE, TWO, THREE, PREFERRED | {"leader": 1}], FORGETS, {}),
        ([ALONE, TWO, TWO, change(3, 1, 2, 3, partition_leader_epoch=2)], FORGETS, {}),
        ([ALONE, TWO, THREE | LATER, PREFERRED | {"partition_leader_epoch": 3}], FORGETS, {}),
    ],
    ids=[
        "nothing said",
        "no record",
        "record before the answer",
        "no answer",
        "of another change",
        "knew it before",
        "knew it before the record",
        "acknowledged before",
        "older record in its place",
        "never elected",
        "another elected",
        "unclean",
        "granted in another epoch",
    ],
)  # fmt: skip
def test_what_only_looks_like_it_stays_open(
    tmp_path: Path, changes: list[Change], lines: Sequence[str], more: dict[str, Any]
) -> None:
    assert set(labels(tmp_path / "run", changes, lines, **more).values()) == {""}


def test_brokers_say_which_partition_epoch_they_learnt_and_how(tmp_path: Path) -> None:
    run = Run(tmp_path)
    (run.cluster / "2").mkdir(parents=True)
    under = answered(6, 3).replace("2,1 ", "2 (under-min-isr)")
    leads = (
        f"{wall(9)} INFO state.change.logger - [Broker id=2] Leader x-0 with topic id Some(x) starts at"
        " leader epoch 2 from offset 1 with partition epoch 5, high watermark 1, ISR [2], adding replicas []"
        " and removing replicas [] . Previous leader Some(3) and previous leader epoch was 1.\n"
    )
    (run.cluster / "2" / "server.log").write_text(answered(5, 2) + under + read(7, 3) + follows(8, 4) + leads)
    (found,) = learnt_lines(run).items()
    assert found[0] == (2, "x-0")
    assert found[1] == [
        LearntLine(BEGAN + timedelta(seconds=at_s), epoch, answered)
        for at_s, epoch, answered in [(5, 2, True), (6, 3, True), (7, 3, False), (8, 4, False), (9, 5, False)]
    ]


def has_heard(at_s: float) -> str:
    """Node 1, which the old leader counts with, follows the new one."""
    return follows(at_s, 4).replace("id=2]", "id=1]")


@pytest.mark.parametrize(
    ("acked_s", "lines", "heard", "killed_s", "label"),
    [
        (30.5, FORGETS, (), 0, "pending-expansion"),
        (80, FORGETS, (), 0, ""),  # the new leader acknowledged it
        (80, (*FORGETS, follows(82, 4)), (), 0, ""),
        (60, FORGETS, (has_heard(70),), 0, "pending-expansion"),  # both are cut off from the controllers
        (80, FORGETS, (has_heard(70),), 0, ""),
        (60, FORGETS, (has_heard(70),), 50, ""),  # it was dead by then
        (60, FORGETS, (has_heard(29).replace("epoch 4", "epoch 3"), has_heard(70)), 0, "pending-expansion"),
    ],
)
def test_what_the_new_leader_acknowledged_is_lost_by_another_bug(
    tmp_path: Path, acked_s: float, lines: Sequence[str], heard: Sequence[str], killed_s: int, label: str
) -> None:
    """It is elected at 30 s; its log ends at 1 then."""
    run = recorded(
        tmp_path / "run", GRANTED, loses_power=False, acked_s=acked_s, offset=5, starts=[(2, 1)],
        killed_s=killed_s,
    )  # fmt: skip
    for node, some in ((2, lines), (1, heard)):
        (run.cluster / str(node)).mkdir(parents=True, exist_ok=True)
        (run.cluster / str(node) / "server.log").write_text("".join(some))
    assert check_run(run).anomalies["lost-write"].known_bug == label
