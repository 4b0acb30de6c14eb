"""The label `aborted-index-skips`: an entry of a leader's aborted index is too high, and hides those behind.

Producer 7 aborts a transaction at 10 to 12, and another one at 20 to 22, whose record at 20 a consumer is
given at 40 s. Node 1 led up to 30 s, node 2 then, node 3 from 50 s on.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from checkers.known_bugs.registry import labels
from checkers.logs import elections
from core.op import Isolation, Outcome, TopicPartition, value_of
from history.evidence import Evidence
from history.reader import load
from tests.checkers.found import check_tables
from tests.checkers.known_bugs.test_uncommitted_state import BEGAN_MS
from tests.checkers.logs.made import at, batch, tables, whole
from tests.histories.built import Built, Op, Process, Read, Send, final_reads
from tests.histories.folders import write_run

S = 1_000_000_000
X = TopicPartition("x", 0)
BUG = "aborted-index-skips"
Index = Sequence[tuple[int, int, int]]
"""First offset, last and last stable offset of each entry."""

RIGHT: Index = [(10, 12, 13), (20, 22, 23), (24, 26, 27)]
HIGH: Index = [(10, 12, 30), (20, 22, 30), (24, 26, 30)]


def label(
    folder: Path,
    indexes: Mapping[int, Index],
    *,
    offset: int = 20,
    segment: int = 0,
    began_s: float = 40,
    elected: bool = True,
    producer: int = 7,
    isolation: Isolation = Isolation.READ_COMMITTED,
    version: str = "4.3.1",
) -> str:
    """Of the read. indexes: by node, RIGHT where none is given. segment: where the one begins that has the
    record; the first one begins at 0. began_s: when the op that read it began. elected: the metadata log is
    there. producer: of the transaction at 20."""
    built = Built(tps=["x"], processes={1: Process(), 2: Process(isolation=isolation, slot=2)})
    value = value_of(1, 0)
    sent = Op(process=1, f="txn", invoke=2 * S, complete=3 * S, outcome=Outcome.FAIL, txn=True)
    sent.mops.append(Send(tp=0, value=value, offset=offset))
    read = Op(process=2, f="poll", invoke=round(began_s * S), complete=41 * S)
    read.mops.append(Read(tp=0, offset=offset, value=value))
    built.ops += [sent, read]
    made = final_reads(built, {}, {0: [(offset, value)]}, end=40).tables()
    history = load(write_run(folder, made, settings={"kafka": {"version": version}}))
    found: dict[str, list[dict[str, Any]]] = {
        "partitions": [whole(elections.METADATA, 1)] + [whole(X, node) for node in (1, 2, 3)],
        "batches": [
            batch(
                X,
                node,
                base,
                segment=segment if base >= segment else 0,
                producer_id=producer if 20 <= base <= 22 else 7,
            )
            for node in (1, 2, 3)
            for base in range(40)
        ],
        "aborted": [
            at(
                X,
                node,
                segment=segment if last >= segment else 0,
                producer_id=producer if first == 20 else 7,
                first=first,
                last=last,
                last_stable=stable,
            )
            for node in (1, 2, 3)
            for first, last, stable in indexes.get(node, RIGHT)
        ],
        "metadata": [
            {"take": 0, "node": 1, "snapshot": -1, "offset": number, **row}
            for number, row in enumerate(METADATA if elected else [])
        ],
    }
    read_too_early = [one for one in check_tables(made, portable=False).findings if one.ops[-1] == 1]
    assert {one.name for one in read_too_early} == {"aborted-read"}
    (label_of_read,) = labels(history, Evidence(tables(found)), read_too_early)
    return label_of_read


def elects(name: str, leader: int, at_s: int) -> dict[str, Any]:
    return {
        "name": name,
        "topic_id": "x",
        "partition": 0,
        "leader": leader,
        "isr": [1, 2, 3],
        "replicas": [1, 2, 3],
        "partition_epoch": leader,
        "partition_leader_epoch": leader,
        "timestamp": BEGAN_MS + at_s * 1000,
    }


METADATA = [
    {"name": "TopicRecord", "topic": "x", "topic_id": "x"},
    elects("PartitionRecord", 1, 1),
    elects("PartitionChangeRecord", 2, 30),
    elects("PartitionChangeRecord", 3, 50),
]


@pytest.mark.parametrize(
    ("index", "more"),
    [
        (HIGH, {}),
        ([(10, 12, 21), (20, 22, 23)], {}),  # as low as the end of a fetch of this record alone
        (HIGH, {"began_s": 29}),  # another node led when it began to read
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
        ({1: HIGH, 3: HIGH}, {}),  # they led before, or later
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
    ],
)
def test_what_only_looks_like_it_stays_open(
    tmp_path: Path, indexes: dict[int, Index], more: dict[str, Any]
) -> None:
    assert label(tmp_path / "run", indexes, **more) == ""


def test_a_node_that_led_before_is_not_asked(tmp_path: Path) -> None:
    assert label(tmp_path / "after", {1: HIGH}, began_s=31) == ""
    assert label(tmp_path / "across", {1: HIGH}, began_s=29) == BUG


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
