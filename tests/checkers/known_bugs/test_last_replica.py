"""The label `last-replica`: a node lost its power, and is elected without having fetched what it lost, as no
other may lead; what was acknowledged before that is not in its log."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from checkers.known_bugs import last_replica
from checkers.logs import elections
from core.op import TopicPartition, value_of
from history import evidence
from history.evidence_tables import END, KILLED, LOST_POWER
from history.run_folder import Run
from tests.checkers.logs.made import batch, tables, whole
from tests.histories.built import Assign, Built, Commit, Op, Process, Read, Send, final_reads
from tests.histories.folders import check_run, write_run

S = 1_000_000_000
NEW_MS = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() + 40) * 1000
"""When the newer record was sent, by the clock of the nodes."""
X = TopicPartition("x", 0)
CLASSES = ("lost-write", "offset-realtime-inversion", "inconsistent-offsets", "phantom-commit")
Change = dict[str, Any]

EVERY: Change = {"name": "PartitionRecord", "leader": 2, "isr": [1, 2, 3], "replicas": [1, 2, 3]}
AGAIN: Change = {"name": "RegisterBrokerRecord", "broker": 2}


def change(leader: int, *isr: int, **more: object) -> Change:
    return {"name": "PartitionChangeRecord", "leader": leader, "isr": [*isr], **more}


ALONE, DOWN = change(2, 2), change(-1, 2)
LAST_KNOWN = [change(-1, elr=[], last_known_elr=[2]), AGAIN, change(2, 2, last_known_elr=[])]
"""None is in sync or eligible; node 2 led last (KIP-966)."""


def labels(folder: Path, changes: Sequence[Change], **more: Any) -> dict[str, str]:
    """The label of each class that is found, of `recorded`."""
    verdict = check_run(recorded(folder, changes, **more))
    assert verdict.anomalies["lost-write"].disallowed
    return {name: verdict.anomalies[name].known_bug for name in CLASSES if name in verdict.anomalies}


def start_line(epoch: int, end: int) -> str:
    return (
        "2026-01-01T00:00:30.000Z INFO state.change.logger - [Broker id=3] Leader x-0 with topic id Some(x)"
        f" starts at leader epoch {epoch} from offset {end} with partition epoch 9, high watermark 0, ISR"
        " [3], adding replicas [] and removing replicas [] . Previous leader Some(2), previous leader epoch"
        f" was {epoch - 1}.\n"
    )


def recorded(
    folder: Path,
    changes: Sequence[Change],
    *,
    epoch: int = 9,
    acked_s: float = 10,
    offset: int = 0,
    later: Sequence[int] = (),
    loses_power: bool = True,
    committed: int = 0,
    starts: Sequence[tuple[int, int]] = (),
    reread: tuple[float, float] | None = None,
    sends: Sequence[tuple[float, int]] = (),
    killed_s: int = 0,
) -> Run:
    """A run. Node 2, which leads, lost its power at 20 s, when its disk had the first two of these records. A
    record that was acknowledged at 10 s is gone; now another one stands at offset 0, of this leader epoch.
    later: offsets that the log has beside that. committed: by a group, at 50 s. starts: leader epochs that
    nodes say they began, each with the end of the log then. reread: when a consumer was assigned the
    partition, and was given the record (s). sends: of further records, when each was sent, and its offset.
    killed_s: when node 2 was killed, 0 = it was not."""
    built = Built(tps=["x"], processes={1: Process(in_flight=1)})
    old, new = value_of(1, 0), value_of(1, 1)
    for value, at_s, place in ((old, acked_s, offset), (new, 40, 0)):
        op = Op(process=1, f="send", invoke=round(at_s * S), complete=round(at_s * S) + 1)
        op.mops.append(Send(tp=0, value=value, offset=place))
        built.ops.append(op)
    shown = [(0, new)]
    for number, (at_s, place) in enumerate(sends, 4):
        built.processes[number] = Process(slot=number)
        op = Op(process=number, f="send", invoke=round(at_s * S), complete=round(at_s * S) + 1)
        op.mops.append(Send(tp=0, value=value_of(number, 0), offset=place))
        built.ops.append(op)
        shown.append((place, value_of(number, 0)))
    if committed:
        built.processes[2] = Process(slot=2, group=0)
        commit = Op(process=2, f="poll", invoke=50 * S, complete=50 * S + 1)
        commit.mops.append(Commit(tp=0, offset=committed))
        built.ops.append(commit)
    if reread:
        built.processes[3] = Process(slot=3, acks=-2)
        assigned, given = (round(at_s * S) for at_s in reread)
        read = Op(process=3, f="poll", invoke=given - 1, complete=given)
        read.mops += [Assign(tp=0, ns=assigned), Read(tp=0, offset=offset, value=old)]
        built.ops.append(read)
    run = write_run(
        folder, final_reads(built, {0: sorted(shown)}, end=1 + max(place for place, _ in shown)).tables()
    )
    if starts:
        (run.cluster / "3").mkdir(parents=True)
        (run.cluster / "3/server.log").write_text("".join(start_line(*one) for one in starts))
    epochs = 0
    rows: list[Change] = [{"name": "TopicRecord", "topic": "x", "topic_id": "x"}]
    for one in changes:
        epochs += "leader" in one
        of_partition = {
            "topic_id": "x",
            "partition": 0,
            "partition_epoch": epochs,
            "partition_leader_epoch": epochs,
        }
        rows.append(of_partition | one if "leader" in one else one)
    disk = [{"take": 0, "node": 2, "snapshot": -1, "offset": at, **row} for at, row in enumerate(rows[:2])]
    log = [{"take": 1, "node": 1, "snapshot": -1, "offset": at, **row} for at, row in enumerate(rows)]
    takes = [
        *[{"take": 0, "node": 2, "at_ns": 20 * S, "why": LOST_POWER}] * loses_power,
        *[{"take": 0, "node": 2, "at_ns": killed_s * S, "why": KILLED}] * (killed_s > 0),
        {"take": 1, "node": 1, "at_ns": 90 * S, "why": END},
        {"take": 1, "node": 2, "at_ns": 90 * S, "why": END},
    ]
    found = {
        "takes": takes,
        "metadata": [*disk * loses_power, *log],
        "partitions": [whole(X, 2) | {"take": 1}, whole(elections.METADATA, 1) | {"take": 1}],
        "batches": [
            batch(X, 2, at, leader_epoch=epoch, base_timestamp=NEW_MS, max_timestamp=NEW_MS) | {"take": 1}
            for at in (0, *later)
        ],
    }
    evidence.write(run.evidence, tables(found))
    return run


def test_the_last_replica_in_sync_that_lost_its_power_leads(tmp_path: Path) -> None:
    found = labels(tmp_path / "run", [EVERY, ALONE, DOWN, AGAIN, ALONE])
    assert found == dict.fromkeys(("lost-write", "inconsistent-offsets"), "last-replica")


def test_the_last_known_leader_leads_where_none_is_in_sync_or_eligible(tmp_path: Path) -> None:
    found = labels(tmp_path / "run", [EVERY, ALONE, *LAST_KNOWN], offset=5)
    assert found == dict.fromkeys(("lost-write", "offset-realtime-inversion"), "last-replica")


@pytest.mark.parametrize(
    ("changes", "more"),
    [
        (
            [EVERY, change(3, 1, 3), AGAIN, change(3, 1, 2, 3), change(3, 2), DOWN, change(2, 2)],
            {},
        ),  # it had fetched what it lost: another leader let it in, before it was the last one
        ([EVERY, change(3, 1, 3), AGAIN], {}),  # it never led
        ([EVERY, DOWN, change(1, 1, 2), AGAIN], {}),  # another one was elected
        (
            [EVERY, ALONE, DOWN, change(2, 2)],
            {},
        ),  # it has not registered again: nothing says that it was away
        ([EVERY, change(-1, 1, 2, 3), AGAIN, change(2, 2)], {}),  # others were in sync: no bug of these
        ([EVERY, ALONE, DOWN, AGAIN, ALONE], {"acked_s": 30}),  # it was sent after the loss
        ([EVERY, ALONE, DOWN, AGAIN, ALONE], {"epoch": 1}),  # what stands there is older than the election
    ],
)
def test_what_only_looks_like_it_stays_open(
    tmp_path: Path, changes: list[Change], more: dict[str, Any]
) -> None:
    assert set(labels(tmp_path / "run", changes, **more).values()) == {""}


@pytest.mark.parametrize(
    ("offset", "later", "label"),
    [
        (5, [3], "last-replica"),  # the log ends below it
        (5, [7], ""),  # a hole: no log was cut there
    ],
)
def test_a_record_is_cut_off_where_the_log_ends(
    tmp_path: Path, offset: int, later: list[int], label: str
) -> None:
    found = labels(tmp_path / "run", [EVERY, ALONE, DOWN, AGAIN, ALONE], offset=offset, later=later)
    assert found["lost-write"] == label


@pytest.mark.parametrize(("epoch", "label"), [(4, "last-replica"), (3, "")])
def test_what_the_node_wrote_as_soon_as_it_led_stands_in_the_place_of_what_it_lost(
    tmp_path: Path, epoch: int, label: str
) -> None:
    """It is elected in epoch 4."""
    found = labels(tmp_path / "run", [EVERY, ALONE, DOWN, AGAIN, ALONE], epoch=epoch)
    assert set(found.values()) == {label}


def test_a_record_whose_place_is_not_known_was_not_seen_to_be_cut_off(tmp_path: Path) -> None:
    found = labels(tmp_path / "run", [EVERY, ALONE, DOWN, AGAIN, ALONE], offset=-1)
    assert found["lost-write"] == ""


def test_elections_are_asked_for_once_however_many_findings_need_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[TopicPartition] = []

    def counted(found: evidence.Evidence, tp: TopicPartition) -> elections.Elections:
        asked.append(tp)
        return elections.elections(found, tp)

    monkeypatch.setattr(last_replica, "elections", counted)
    found = labels(tmp_path / "run", [EVERY, ALONE, DOWN, AGAIN, ALONE])
    assert len(found) == 2
    assert asked.count(X) == 1


@pytest.mark.parametrize(
    ("offset", "label"),
    [
        (5, "last-replica"),  # the record below it was acknowledged before, and cut off
        (4, ""),  # whether there was such a record is not known
    ],
)
def test_a_group_committed_behind_the_place_where_the_log_was_cut(
    tmp_path: Path, offset: int, label: str
) -> None:
    found = labels(tmp_path / "run", [EVERY, ALONE, DOWN, AGAIN, ALONE], offset=offset, committed=6)
    assert found["phantom-commit"] == label


def test_a_commit_behind_a_log_that_was_not_cut_stays_open(tmp_path: Path) -> None:
    found = labels(tmp_path / "run", [EVERY, ALONE, DOWN, AGAIN, ALONE], acked_s=30, offset=5, committed=6)
    assert found["phantom-commit"] == ""


@pytest.mark.parametrize(
    ("starts", "label"),
    [
        ([(4, 5)], "last-replica"),  # its log ended where the record had been
        ([(4, 6)], ""),  # it had the record
        ([(4, 5), (4, 9)], "last-replica"),  # it began the epoch again, with what it wrote in it
        ([(2, 9)], "last-replica"),  # of another epoch
    ],
)
def test_the_leader_says_where_its_log_ended(
    tmp_path: Path, starts: list[tuple[int, int]], label: str
) -> None:
    changes = [EVERY, ALONE, DOWN, AGAIN, ALONE]
    found = labels(tmp_path / "run", changes, offset=5, starts=starts)
    assert found["lost-write"] == label


@pytest.mark.parametrize(
    ("reread", "elected_ms", "label"),
    [
        ((31, 60), NEW_MS - 10_000, ""),  # the leader that is said to lack the record gave it to a reader
        ((29, 60), NEW_MS - 10_000, "last-replica"),  # the reader may have had it in its queue since
        ((31, 60), -1, "last-replica"),  # simulated controllers do not say when that was
    ],
)
def test_a_record_that_was_fetched_from_the_leader_was_cut_off_later(
    tmp_path: Path, reread: tuple[float, float], elected_ms: int, label: str
) -> None:
    elected = ALONE | {"timestamp": elected_ms}
    found = labels(tmp_path / "run", [EVERY, ALONE, DOWN, AGAIN, elected], offset=5, reread=reread)
    assert found["lost-write"] == label


@pytest.mark.parametrize(
    ("sends", "label"),
    [
        ([(45, 10)], "last-replica"),
        ([(41, 20), (45, 10)], ""),  # the log has both: it grew in its middle
        ([(45, 20), (41, 10)], "last-replica"),  # these stand in their order
    ],
)
def test_a_record_that_is_gone_explains_no_inversion_of_two_that_the_log_has(
    tmp_path: Path, sends: list[tuple[float, int]], label: str
) -> None:
    """All are sent after the one that was cut off at offset 50 was acknowledged."""
    changes = [EVERY, ALONE, DOWN, AGAIN, ALONE]
    later = sorted(place for _, place in sends)
    found = labels(tmp_path / "run", changes, offset=50, later=later, sends=sends)
    assert found["offset-realtime-inversion"] == label
