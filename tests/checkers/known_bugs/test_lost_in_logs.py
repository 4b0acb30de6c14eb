"""Records that only brokers' logs miss. The labels of leaders that lacked them ask in which leader epoch, or
by when, a record was there: what a later leader wrote is lost by another bug."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from checkers.known_bugs.registry import labels as labels_of
from checkers.logs.lineage import CHECKS
from history.evidence import Evidence
from history.evidence_tables import END, KILLED, LOST_POWER
from history.reader import load
from tests.checkers.known_bugs import test_last_replica
from tests.checkers.known_bugs.test_last_replica import AGAIN, ALONE, DOWN, Change, change
from tests.checkers.known_bugs.test_removed_replica import EVERY, LOWERED, RAISED
from tests.checkers.logs.made import TP, at, batch, of_all, tables, whole
from tests.checkers.logs.test_lineage import BEGAN_MS, read_to
from tests.histories.built import Built, Op, Process, Send
from tests.histories.folders import write_run

S: Final = 10**9
STATES: Final[Mapping[str, Sequence[tuple[int, Change]]]] = {
    "removed-replica": [
        (1, EVERY), (10, LOWERED), (20, RAISED), (30, change(3, 3, elr=[1, 2])),
        (40, change(3, 2, 3, elr=[])), (60, change(2, 2, 3)), (71, change(3, 3)),
    ],
    "last-replica": [
        (1, test_last_replica.EVERY), (10, ALONE), (21, DOWN), (29, AGAIN), (30, ALONE),
        (40, change(2, 2, 3)), (60, change(3, 2, 3)), (71, change(2, 2)),
    ],
}  # fmt: skip
"""Label -> changes of a partition, each with its second and, but for the registration, a leader epoch of its
own. The leader of epoch 4, at 30 s, lacks what was there. The other node leads epoch 6, and in epoch 7 the
first one again, which is in sync then."""
LEADS: Final = {"removed-replica": 3, "last-replica": 2}


def labels(folder: Path, name: str, *, acked_s: float = -1, **more: Any) -> set[str]:
    """Rules whose finding has the label, of those that miss the record at offset 5. acked_s: when a client
    had the acknowledgement of it, which it had sent at 19 s."""
    op = Op(process=0, f="send", invoke=19 * S, complete=round(acked_s * S))
    op.mops.append(Send(tp=0, value=0, offset=5))
    built = Built(tps=[TP.topic], ops=[op] * (acked_s >= 0), processes={0: Process(acks=-1)})
    history = load(write_run(folder / "run", built.tables()))
    found = recorded(name, **more)
    lost = [one for one in of_all(CHECKS, found, history).in_logs if one.name == "lost-write"]
    rules = {"committed-kept", "consumed-kept", *["acknowledged-held"] * (acked_s >= 0)}
    assert {(one.check, one.offset) for one in lost} == {(rule, 5) for rule in rules}
    given = zip(lost, labels_of(history, found, lost), strict=True)
    return {one.check for one, label in given if label == name}


def recorded(name: str, *, epoch: int = 3, epochs: int = -1, commit: tuple[int, int] = (3, 19)) -> Evidence:
    """One node died when its disk had that of a leader
    epoch, below its high watermark; in the log of the end one of leader epoch 7 is there. epochs: the newest
    one that the dead node had noted. commit: leader epoch and second of the commit of a group that had read
    it."""
    main = LEADS[name]
    dead = 5 - main
    setting = {"resourceType": 2, "resourceName": TP.topic, "name": "min.insync.replicas", "value": "2"}
    metadata: list[Change] = [
        {"name": "TopicRecord", "topic": TP.topic, "topic_id": "id"},
        {"name": "ConfigRecord", "body": json.dumps(setting)},
    ]
    number = 0
    for s, one in STATES[name]:
        number += "leader" in one
        mine = {"topic_id": "id", "partition": 0, "partition_leader_epoch": number} if "leader" in one else {}
        metadata.append(mine | one | {"timestamp": BEGAN_MS + s * 1000})
    log = [{"snapshot": -1, "offset": place} | row for place, row in enumerate(metadata)]
    taken = [*((1, dead, base, 1) for base in range(5)), (1, dead, 5, epoch)]
    taken += [*((2, main, base, 1) for base in range(5)), (2, main, 5, 7)]
    lost_power = {"take": 0, "node": main, "at_ns": 20 * S, "why": LOST_POWER}
    found = {
        "takes": [
            *[lost_power] * (name == "last-replica"),
            {"take": 1, "node": dead, "at_ns": 70 * S, "why": KILLED},
            {"take": 2, "node": main, "at_ns": 90 * S, "why": END},
        ],
        "partitions": [whole(TP, dead) | {"take": 1}, whole(TP, main) | {"take": 2}],
        "batches": [_batch(*row) for row in taken],
        "ends": [at(TP, dead, file="replication", value=6, take=1)],
        "epochs": [at(TP, dead, epoch=epochs, start=6, take=1)] if epochs >= 0 else [],
        "metadata": [row | {"take": n, "node": main} for n, some in ((0, log[:4]), (2, log)) for row in some],
        "offset_log": [read_to(6, *commit) | {"node": main, "take": 2}],
    }
    return Evidence(tables(found))


def _batch(take: int, node: int, base: int, epoch: int) -> dict[str, Any]:
    ms = BEGAN_MS + 10 * epoch * 1000
    times = {"base_timestamp": ms, "max_timestamp": ms}
    return batch(TP, node, base, take=take, leader_epoch=epoch, crc=base + 100 * epoch, **times)


BOTH: Final = {"committed-kept", "consumed-kept"}


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize(
    ("epoch", "epochs", "commit", "labelled"),
    [
        (3, -1, (3, 19), BOTH),
        (6, -1, (6, 66), set()),  # a later leader wrote it, and a clean election lost it
        (3, 4, (3, 19), {"consumed-kept"}),  # the dead node began to lead that epoch, and had the record
        (3, -1, (4, 19), {"committed-kept"}),  # the record that the group read was of that epoch
        (3, -1, (-1, 19), BOTH),  # of messages and clients that know no epoch the time tells
        (3, -1, (-1, 66), {"committed-kept"}),
    ],
    ids=["before", "after", "noted later", "read later", "by time", "too late"],
)
def test_what_a_later_leader_wrote_is_lost_by_another_bug(
    tmp_path: Path, name: str, epoch: int, epochs: int, commit: tuple[int, int], labelled: set[str]
) -> None:
    assert labels(tmp_path, name, epoch=epoch, epochs=epochs, commit=commit) == labelled


@pytest.mark.parametrize(
    ("name", "acked_s", "labelled"),
    [
        ("removed-replica", 29.5, True),
        ("removed-replica", 30.5, False),  # it was sent before the election, and acknowledged after it
        ("last-replica", 19.5, True),
        ("last-replica", 20.5, False),
    ],
)
def test_a_record_was_acknowledged_before_not_only_sent(
    tmp_path: Path, name: str, acked_s: float, labelled: bool
) -> None:
    assert ("acknowledged-held" in labels(tmp_path, name, acked_s=acked_s)) is labelled
