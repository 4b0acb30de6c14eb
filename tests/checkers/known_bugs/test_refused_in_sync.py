"""refused-in-sync: the label needs a controller that was refused what ZooKeeper has of itself, and nothing
since."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from core.op import TopicPartition
from history import evidence
from history.events import Recovered, RolesSeen
from history.replica_lines import isr_refused_lines
from history.run_folder import Run
from tests.checkers.logs.made import batch, tables, whole
from tests.checkers.logs.test_accept_znodes import change
from tests.histories.built import Built, Op, Process
from tests.histories.folders import STARTED, check_run, write_run

S = 1_000_000_000
BEGAN_MS = 1_767_225_600_000
FIRST, SECOND = 10, 20
"""Sessions of brokers 1 and 2; broker 1 is the controller."""
LABEL = "refused-in-sync"
TP = TopicPartition("x", 0)
STATE = "/brokers/topics/x/partitions/0/state"
Rows = list[dict[str, Any]]


def refused(at_s: float = 22, isr: str = "2, 3", version: int = 4, leader: int = 2, node: int = 1) -> str:
    """As 2.8 to 3.3 say it."""
    return (
        f"2026-01-01T00:00:{at_s:06.3f}Z INFO kafka.controller.KafkaController - [Controller id={node}]"
        f" Failed to update ISR to LeaderAndIsr(leader={leader}, leaderEpoch=1, isr=List({isr}),"
        f" zkVersion={version}) for partition x-0, bad ZK version.\n"
    )


NEWER = (
    "2026-01-01T00:00:22.000Z INFO kafka.controller.KafkaController - [Controller id=1] Failed to update ISR"
    " to LeaderAndIsr(leader=2, leaderEpoch=1, isrWithBrokerEpoch=List(BrokerState(brokerId=2,"
    " brokerEpoch=-1), BrokerState(brokerId=3, brokerEpoch=-1)), leaderRecoveryState=RECOVERED,"
    " partitionEpoch=4) for partition x-0, bad ZK version.\n"
)


def state(
    at_s: float, isr: list[int], version: int, *, session: int = FIRST, epoch: int = 1
) -> dict[str, Any]:
    said = {"leader": 2, "leader_epoch": epoch, "isr": isr, "controller_epoch": 1}
    ms = BEGAN_MS + round(at_s * 1000)
    return change(100 + version, session, "set", STATE, said, version=version, ms=ms)


def znodes(*states: dict[str, Any]) -> Rows:
    return [
        change(1, FIRST, "create", "/brokers"),
        change(2, FIRST, "create", "/brokers/ids/1", {}, owner=FIRST),
        change(3, SECOND, "create", "/brokers/ids/2", {}, owner=SECOND),
        change(4, FIRST, "create", "/controller", {"brokerid": 1}, owner=FIRST),
        change(5, FIRST, "create", "/brokers/topics/x", {"partitions": {"0": [1, 2, 3]}}),
        *states,
    ]


BEFORE = state(10, [1, 2, 3], 4)
WRITTEN = state(20, [2, 3], 5)


@dataclass(frozen=True)
class Waiting:
    """A run whose cluster did not recover: x-0 lacks broker 1 among its in-sync replicas."""

    log: str = refused()
    znodes: Rows = field(default_factory=lambda: znodes(BEFORE, WRITTEN))
    ends: Mapping[int, int] = field(default_factory=lambda: {1: 7, 2: 7, 3: 7})

    def write(self, folder: Path) -> Run:
        built = Built(tps=["x"])
        built.processes[0] = Process(slot=0)
        built.ops.append(Op(process=0, f="txn", invoke=10 * S, complete=11 * S))
        known: dict[str, Any] = {
            "leaders": {"x-0": 2},
            "controller": 1,
            "answering": (1, 2, 3),
            "agreed": True,
        }
        roles = [
            RolesSeen(ns=2 * S, isr={"x-0": (1, 2, 3)}, **known),
            RolesSeen(ns=59 * S, isr={"x-0": (2, 3)}, **known),
        ]
        gave_up = Recovered(
            ns=60 * S, recovered=False, seconds=30, why="x-0 has in-sync replicas [2, 3] only"
        )
        settings = {"kafka": {"metadata": "zookeeper", "version": "3.9.1"}}
        run = write_run(folder, built.tables(), settings=settings, events=(STARTED, *roles, gave_up))
        batches = [batch(TP, node, base) for node, end in self.ends.items() for base in range(end)]
        rows = {
            "partitions": [whole(TP, node) for node in self.ends],
            "batches": batches,
            "znodes": self.znodes,
        }
        evidence.write(run.evidence, tables(rows))
        (run.cluster / "1").mkdir(parents=True)
        (run.cluster / "1" / "server.log").write_text(self.log)
        return run

    def label(self, folder: Path) -> str:
        found = check_run(self.write(folder)).anomalies["not-recovered"]
        assert (found.allowed, found.count) == (False, 1)
        return found.examples[0].known_bug


WAITING = Waiting()


@pytest.mark.parametrize(
    ("log", "labelled"),
    [
        (refused(), True),
        (NEWER, True),
        (refused() * 2, True),  # the leader asked twice
        ("", False),
        (refused(isr="2"), False),  # other replicas
        (refused(version=3), False),  # it was behind: a change of another broker
        (refused(leader=3), False),
        (refused(node=2), False),  # it did not write that
        (refused(19), False),  # before the write
        (refused(22).replace("00:00:22", "00:01:22"), False),
    ],
)
def test_what_the_log_of_the_controller_has_to_say(tmp_path: Path, log: str, labelled: bool) -> None:
    assert replace(WAITING, log=log).label(tmp_path / "run") == (LABEL if labelled else "")


@pytest.mark.parametrize(
    ("states", "labelled"),
    [
        ([BEFORE, WRITTEN], True),
        ([BEFORE, WRITTEN, state(61, [1, 2, 3], 6)], True),  # the run had given up by then
        ([BEFORE], False),
        ([BEFORE, state(20, [2, 3], 5, session=SECOND)], False),  # written by another broker
        ([BEFORE, state(20, [2, 3], 5, epoch=2)], False),
        ([BEFORE, WRITTEN, state(30, [2, 3], 6, epoch=2)], False),  # the leader has heard since
        ([], False),
    ],
)
def test_what_zookeeper_has_to_have(tmp_path: Path, states: Rows, labelled: bool) -> None:
    assert replace(WAITING, znodes=znodes(*states)).label(tmp_path / "run") == (LABEL if labelled else "")


def test_replicas_have_all_and_are_not_let_in(tmp_path: Path) -> None:
    assert replace(WAITING, ends={1: 5, 2: 7, 3: 7}).label(tmp_path / "run") == ""


def test_lines_of_both_kinds_say_the_same(tmp_path: Path) -> None:
    old, new = isr_refused_lines(replace(WAITING, log=refused() + NEWER).write(tmp_path / "run"))
    assert old == new
    assert old.isr == {2, 3}
