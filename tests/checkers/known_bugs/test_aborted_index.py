"""The label `aborted-index-skips`: an entry of a leader's aborted index is too high, and hides those behind.

Producer 7 aborts a transaction at 10 to 12, and another one at 20 to 22, whose record at 20 was sent at 2 s,
and a consumer is given it at 40 s. Node 1 led up to 1 s, node 2 up to 30 s, node 3 up to 50 s, then node 1.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from checkers.checks.integrity import PHANTOM
from checkers.known_bugs.registry import labels
from checkers.logs import elections
from core.config import run_config
from core.op import Isolation, Outcome, Phase, TopicPartition, value_of
from history.evidence import Evidence
from history.evidence_tables import END, KILLED
from history.reader import load
from tests.checkers.found import check_tables
from tests.checkers.known_bugs.test_uncommitted_state import BEGAN_MS
from tests.checkers.known_bugs.upgrades import upgrade_of
from tests.checkers.logs.made import at, batch, tables, whole
from tests.histories.built import Built, Delivery, Foreign, Op, Process, Read, Send, final_reads
from tests.histories.folders import write_run

S = 1_000_000_000
X = TopicPartition("x", 0)
BUG = "aborted-index-skips"
Index = Sequence[tuple[int, int, int]]
"""First offset, last and last stable offset of each entry."""

RIGHT: Index = [(10, 12, 13), (20, 22, 23), (24, 26, 27)]
HIGH: Index = [(10, 12, 30), (20, 22, 30), (24, 26, 30)]


def aborted(offset: int, isolation: Isolation, group: int) -> Built:
    """The record was aborted, as its client knows, and was read, or delivered to a share group."""
    reader = Process(isolation=isolation, slot=2, group=group, acks=-2)
    built = Built(tps=["x"], processes={1: Process(), 2: reader})
    value = value_of(1, 0)
    sent = Op(process=1, f="txn", invoke=2 * S, complete=3 * S, outcome=Outcome.FAIL, txn=True)
    sent.mops.append(Send(tp=0, value=value, offset=offset))
    read = Op(process=2, f="poll" if group < 0 else "acquire", invoke=40 * S, complete=41 * S)
    one: Read | Delivery = Read(tp=0, offset=offset, value=value)
    read.mops.append(one if group < 0 else Delivery(tp=0, offset=offset, value=value))
    built.ops += [sent, read]
    return final_reads(built, {}, {0: [(offset, value)]}, end=40)


def label(
    folder: Path,
    indexes: Mapping[int, Index],
    *,
    offset: int = 20,
    isolation: Isolation = Isolation.READ_COMMITTED,
    group: int = -1,
    version: str = "4.3.1",
    upgraded_s: float | None = None,
    **more: Any,
) -> str:
    """Of a record that is known to be aborted. indexes: by node, RIGHT where none is given. group: the share
    group that it was delivered to. upgraded_s: when all brokers had 4.4.0. more: of `evidence`."""
    made = aborted(offset, isolation, group).tables()
    settings, events = upgrade_of(version, upgraded_s)
    history = load(write_run(folder, made, settings=settings, events=events))
    read_too_early = [one for one in check_tables(made, portable=False).findings if one.ops[-1] == 1]
    assert {one.name for one in read_too_early} == {"aborted-read" if group < 0 else "share-aborted-read"}
    (label_of_read,) = labels(history, evidence(indexes, **more), read_too_early)
    return label_of_read


def evidence(
    indexes: Mapping[int, Index],
    *,
    segment: int = 0,
    elected: bool = True,
    producer: int = 7,
    dead: Mapping[int, Index] = {},
) -> Evidence:
    """segment: where the one begins that has the record; the first one begins at 0. elected: the metadata log
    is there. producer: of the transaction at 20. dead: of node 2 when it had died, by second."""
    places = {(0, node): indexes.get(node, RIGHT) for node in (1, 2, 3)}
    places |= {(take, 2): index for take, index in enumerate(dead.values(), -len(dead))}
    takes = [{"take": 0, "node": node, "at_ns": 99 * S, "why": END} for node in (1, 2, 3)]
    for take, second in enumerate(dead, -len(dead)):
        takes.append({"take": take, "node": 2, "at_ns": second * S, "why": KILLED})
    found: dict[str, list[dict[str, Any]]] = {
        "takes": takes,
        "partitions": [whole(elections.METADATA, 1)]
        + [{**whole(X, node), "take": take} for take, node in places],
        "batches": [
            batch(
                X,
                node,
                base,
                take=take,
                segment=segment if base >= segment else 0,
                producer_id=producer if 20 <= base <= 22 else 7,
            )
            for take, node in places
            for base in range(40)
        ],
        "aborted": [
            at(
                X,
                node,
                take=take,
                segment=segment if last >= segment else 0,
                producer_id=producer if first == 20 else 7,
                first=first,
                last=last,
                last_stable=stable,
            )
            for (take, node), index in places.items()
            for first, last, stable in index
        ],
        "metadata": [
            {"take": 0, "node": 1, "snapshot": -1, "offset": number, **row}
            for number, row in enumerate(METADATA if elected else [])
        ],
    }
    return Evidence(tables(found))


def elects(name: str, leader: int, at_s: int, epoch: int) -> dict[str, Any]:
    return {
        "name": name,
        "topic_id": "x",
        "partition": 0,
        "leader": leader,
        "isr": [1, 2, 3],
        "replicas": [1, 2, 3],
        "partition_epoch": epoch,
        "partition_leader_epoch": epoch,
        "timestamp": BEGAN_MS + at_s * 1000,
    }


METADATA = [
    {"name": "TopicRecord", "topic": "x", "topic_id": "x"},
    elects("PartitionRecord", 1, 0, 1),
    elects("PartitionChangeRecord", 2, 1, 2),
    elects("PartitionChangeRecord", 3, 30, 3),
    elects("PartitionChangeRecord", 1, 50, 4),
]


@pytest.mark.parametrize(
    ("index", "more"),
    [
        (HIGH, {}),
        ([(10, 12, 21), (20, 22, 23)], {}),  # as low as the end of a fetch of this record alone
        (HIGH, {"producer": 9}),  # the entry in front is of another producer
        (HIGH, {"segment": 10}),
    ],
)
def test_a_leader_looks_no_further_than_an_entry_that_is_too_high(
    tmp_path: Path, index: Index, more: dict[str, Any]
) -> None:
    assert label(tmp_path / "run", {2: index}, **more) == BUG


@pytest.mark.parametrize(
    ("indexes", "more"),
    [
        ({}, {}),
        ({1: HIGH}, {}),  # it led before, and later
        ({2: [(10, 12, 13), (20, 22, 30), (24, 26, 30)]}, {}),  # its own entry, and one behind it
        ({2: [(10, 12, 4), (20, 22, 23)]}, {}),  # a transaction was open at the marker
        ({2: [(10, 21, 22), (20, 22, 23), (24, 26, 30)]}, {"producer": 9}),  # none too high in front
        ({2: [(10, 12, 20), (20, 22, 23)]}, {}),  # no fetch of this record ends so early
        ({2: [(10, 12, 21), (20, 22, 23)]}, {"offset": 21}),
        ({2: [(10, 12, 30), (24, 26, 30)]}, {}),  # it lacks the transaction: that is another bug
        ({2: HIGH}, {"segment": 15}),  # the index of another segment
        ({2: HIGH}, {"offset": 23}),  # a record of no aborted transaction
        ({2: HIGH}, {"elected": False}),  # who led is not known
        ({2: HIGH}, {"isolation": Isolation.READ_UNCOMMITTED}),
        ({2: HIGH, 3: HIGH}, {"version": "4.0.0"}),
    ],
)
def test_what_only_looks_like_it_stays_open(
    tmp_path: Path, indexes: dict[int, Index], more: dict[str, Any]
) -> None:
    assert label(tmp_path / "run", indexes, **more) == ""


@pytest.mark.parametrize("node", [2, 3])
def test_a_record_may_have_been_fetched_long_before_its_poll(tmp_path: Path, node: int) -> None:
    """From either of the nodes that led since it was sent."""
    assert label(tmp_path / "run", {node: HIGH}) == BUG


@pytest.mark.parametrize(
    ("dead", "index", "bug"),
    [
        ({20: HIGH}, RIGHT, ""),  # it built its index again before the read
        ({20: RIGHT}, HIGH, BUG),
        ({60: HIGH}, RIGHT, BUG),  # and after it
        ({20: HIGH, 60: RIGHT, 70: HIGH}, HIGH, ""),
    ],
)
def test_the_index_is_that_of_the_time_of_the_read(
    tmp_path: Path, dead: dict[int, Index], index: Index, bug: str
) -> None:
    assert label(tmp_path / "run", {2: index}, dead=dead) == bug


def test_a_share_group_is_given_what_its_leader_takes_for_committed(tmp_path: Path) -> None:
    assert label(tmp_path / "high", {3: HIGH}, group=0) == BUG
    assert label(tmp_path / "right", {}, group=0) == ""


def in_doubt(folder: Path, indexes: Mapping[int, Index], more: Sequence[int] = ()) -> dict[str, str]:
    """Labels of what is found, where it is unknown how the transaction ended: of two readers one got
    its record at 20, and neither got those at offsets `more`."""
    values = {offset: value_of(1, offset) for offset in (18, *more, 20, 23)}
    built = Built(tps=["x"], processes={number: Process(slot=number) for number in (1, 2, 3)})
    before = Op(process=1, f="txn", invoke=S, complete=2 * S, txn=True)
    before.mops.append(Send(tp=0, value=values[18], offset=18))
    doubtful = Op(process=1, f="txn", invoke=2 * S, complete=3 * S, outcome=Outcome.INFO, txn=True)
    doubtful.mops += [Send(tp=0, value=values[offset], offset=offset) for offset in (*more, 20)]
    after = Op(process=1, f="txn", invoke=4 * S, complete=5 * S, txn=True)
    after.mops.append(Send(tp=0, value=values[23], offset=23))
    built.ops += [before, doubtful, after]
    for process, offsets in ((2, (18, 20, 23)), (3, (18, 23))):
        read = Op(process=process, f="poll", invoke=40 * S, complete=41 * S)
        read.mops += [Read(tp=0, offset=offset, value=values[offset]) for offset in offsets]
        built.ops.append(read)
    shown = [(offset, values[offset]) for offset in (18, 23)]
    hidden = [(offset, values[offset]) for offset in (*more, 20)]
    made = final_reads(built, {0: shown}, {0: hidden}, end=40).tables()
    history = load(write_run(folder, made, settings={"kafka": {"version": "4.3.1"}}))
    found = check_tables(made, portable=False).findings
    return {one.name: bug for one, bug in zip(found, labels(history, evidence(indexes), found), strict=True)}


def test_a_transaction_in_doubt_that_was_aborted_counts_as_committed_by_what_was_read(tmp_path: Path) -> None:
    assert in_doubt(tmp_path / "high", {3: HIGH}) == {"int-poll-skip": BUG, "lost-write": BUG}
    assert in_doubt(tmp_path / "right", {}) == {"int-poll-skip": "", "lost-write": ""}
    all_of_it = {"int-poll-skip": BUG, "lost-write": BUG, "torn-txn": BUG}
    assert in_doubt(tmp_path / "torn", {3: HIGH}, more=(19,)) == all_of_it


def test_an_entry_is_of_the_producer_of_the_record(tmp_path: Path) -> None:
    """Transactions of several producers overlap: that of the record is not in the index."""
    spans: Index = [(10, 12, 30), (18, 26, 30)]
    assert label(tmp_path / "own", {2: spans}) == BUG
    assert label(tmp_path / "other", {2: spans}, producer=9) == ""


@pytest.mark.parametrize(
    ("version", "bug"), [("3.9.0", ""), ("3.9.1", BUG), ("4.0.0", ""), ("4.0.1", BUG), ("4.4.0", BUG)]
)
def test_older_brokers_look_on(tmp_path: Path, version: str, bug: str) -> None:
    assert label(tmp_path / "run", {2: HIGH}, version=version) == bug


@pytest.mark.parametrize(("upgraded_s", "bug"), [(60, ""), (41.5, BUG), (30, BUG), (1.5, BUG)])
def test_brokers_look_no_further_once_some_has_a_later_version(
    tmp_path: Path, upgraded_s: float, bug: str
) -> None:
    """The record was sent at 2 s, and read by 41 s: a reader may have fetched it long before."""
    assert label(tmp_path / "run", {2: HIGH}, version="4.0.0", upgraded_s=upgraded_s) == bug


def copied(folder: Path, indexes: Mapping[int, Index], *, offset: int = 20, **more: Any) -> str:
    """Of output that an application made of a record that was aborted."""
    value = value_of(1, 0)
    built = Built(tps=["x", "y"], processes={1: Process(), 3: Process(slot=3, acks=-2)})
    sent = Op(process=1, f="txn", invoke=2 * S, complete=3 * S, outcome=Outcome.FAIL, txn=True)
    sent.mops.append(Send(tp=0, value=value, offset=offset))
    final = Op(process=3, f="final", invoke=80 * S, complete=81 * S, phase=Phase.FINAL)
    final.mops.append(Foreign(tp=1, offset=0, reason="uncommitted", payload=b"%d" % value))
    built.ops += [sent, final]
    made = final_reads(built, {1: []}, {0: [(offset, value)]}, end=40).tables()
    app = {"workload": "application", "app": {"input": "x", "output": "y"}}
    history = load(write_run(folder, made, settings={"kafka": {"version": "4.3.1"}, **app}))
    config = run_config({"seed": 0, **app})
    found = [one for one in check_tables(made, portable=False, config=config).findings if one.name == PHANTOM]
    (label_of_output,) = labels(history, evidence(indexes, **more), found)
    return label_of_output


@pytest.mark.parametrize(
    ("indexes", "more", "bug"),
    [
        ({2: HIGH}, {}, BUG),
        ({3: HIGH}, {}, BUG),  # it may have read it at any time until the end
        ({2: RIGHT}, {"dead": {20: HIGH}}, BUG),  # before that node built its index again, too
        ({2: RIGHT}, {"dead": {20: HIGH, 60: RIGHT}}, BUG),
        ({}, {}, ""),
        ({2: HIGH}, {"offset": 23}, ""),  # a record of no aborted transaction
        ({2: HIGH}, {"elected": False}, ""),
    ],
)
def test_an_application_copies_what_a_leader_takes_for_committed(
    tmp_path: Path, indexes: dict[int, Index], more: dict[str, Any], bug: str
) -> None:
    """Node 2 led from before the record was sent on, node 3 later, node 1 leads at the end."""
    assert copied(tmp_path / "run", indexes, **more) == bug


def test_output_that_names_no_record_has_another_cause(tmp_path: Path) -> None:
    built = Built(tps=["x"], processes={3: Process(slot=3, acks=-2)})
    final = Op(process=3, f="final", invoke=80 * S, complete=81 * S, phase=Phase.FINAL)
    final.mops += [Foreign(tp=0, offset=0, reason="other-run"), Foreign(tp=0, offset=1, reason="uncommitted")]
    built.ops.append(final)
    made = final_reads(built, {0: []}, end=40).tables()
    history = load(write_run(tmp_path / "run", made, settings={"kafka": {"version": "4.3.1"}}))
    found = [one for one in check_tables(made, portable=False).findings if one.name == PHANTOM]
    assert labels(history, evidence({2: HIGH, 3: HIGH}), found) == ["", ""]
