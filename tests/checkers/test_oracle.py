"""The words of the oracle, one by one: what is seen, committed, in order, missing.

The classes are tested by the golden histories.
"""

import pytest

from history.events import Note
from tests.histories.notation import Story, stories
from tests.oracle import anomalies
from tests.oracle.variants import variants
from tests.oracle.words import RC, RU, History, Partition


def story(text: str) -> Story:
    (one,) = stories(f"== case\n{text}")
    return one


def history(text: str) -> History:
    one = story(text)
    return History(one.tables(), portable=one.portable, config=one.config)


def partition(text: str) -> Partition:
    return history(text).partitions[0]


def values(p: Partition, word: str) -> set[int]:
    return {send["value"] for send in p.sends if getattr(p, word)(send)}


def test_uncommitted_reads_prove_plain_records_only() -> None:
    p = partition("set p8 ru\np0? send x:1\np1? txn x:2\np8 poll x[1@0,2@1]")
    assert values(p, "seen") == {1}
    assert values(p, "committed") == {1}


def test_only_polls_of_ok_ops_and_final_reads_count() -> None:
    p = partition("p0? send x:1 x:2 x:3\np1! txn x[1@0]\np2? poll x[2@1]\np9? final x[3@2]")
    assert values(p, "seen") == {3}


def test_one_visible_record_proves_a_transaction_in_all_partitions() -> None:
    for p in history("p0? txn x:1 y:2\np0? txn x:3 y:4\np1 poll x[1@0]").partitions:
        assert values(p, "committed") == {1} if p.tp == 0 else {2}


def test_a_record_that_was_never_written_is_not_committed_with_its_transaction() -> None:
    p = partition("p0? txn x:1@0 x:2!\np1 poll x[1@0]")
    assert values(p, "committed") == {1}


def test_outside_of_transactions_each_record_stands_for_itself() -> None:
    p = partition("p0? send x:1@0 x:2? x:3!")
    assert values(p, "committed") == {1}


def test_log_pairs_leave_out_acknowledgements_of_what_did_not_commit() -> None:
    p = partition("p0! txn x:1@0\np0 txn x:2@1\np1 poll x[3@2]")
    assert p.log() == {(1, 2), (2, 3)}


LEVELS = """
set p8 ru
p0! txn x:1@0
p0 txn x:2@2
p0 send x:3@4
p8 final x[1@0,2@2,3@4]
end x ru 5
"""


def test_order_of_a_committed_reader_has_no_aborted_records() -> None:
    p = partition(LEVELS)
    assert p.order(RU) == {0, 2, 4}
    assert p.order(RC) == {2, 4}


def test_order_of_a_recorded_partition_is_what_the_final_reads_say() -> None:
    reads = "p0 send x:1@0 x:2@1\np1 poll x[1@0,2@1]\np9 final x[1@0]\n"
    assert partition(reads + "end x rc 2").order(RC) == {0}
    assert partition(reads + "end x rc 2 read 1").order(RC) == {0, 1}
    assert partition(reads).order(RC) == {0, 1}


def test_order_of_a_portable_partition_has_acknowledged_offsets() -> None:
    assert partition("p0 send x:1@3\np0 send x:2\np0? txn x:4@5").order(RC) == {3}
    assert partition("recorded\np0 send x:1@3").order(RC) == set()


@pytest.mark.parametrize(
    ("end", "missing", "undecided", "removed"),
    [
        ("end x rc 9", {1, 2, 3}, set(), set()),
        ("end x rc 9 read 6", {1}, {2, 3}, set()),
        ("end x rc 3", {1, 2, 3}, set(), set()),
        ("retention\nend x rc 9 from 6", {2}, {3}, {1}),
        ("end x rc 9 from 6", {1, 2, 3}, set(), set()),
        ("end x rc 6\nend x ru 9 read 2", {1}, {2, 3}, set()),
        ("end x rc 9\nend x ru 9 read 2", {1, 2, 3}, set(), set()),
        ("end x ru 9", {1, 2, 3}, set(), set()),
        ("recorded", set(), {1, 2, 3}, set()),
    ],
)
def test_what_final_reads_that_show_nothing_decide(
    end: str, missing: set[int], undecided: set[int], removed: set[int]
) -> None:
    p = partition(f"p0 send x:1@5 x:2@7 x:3\n{end}")
    assert values(p, "missing") == missing
    assert values(p, "undecided") == undecided
    assert values(p, "removed") == removed


def test_a_transaction_is_shown_to_committed_readers_only_at_their_level() -> None:
    p = partition("set p8 ru\np0 txn x:1@0\np0 send x:2@2\np8 final x[1@0,2@2]")
    assert {send["value"] for send in p.sends if p.shown(RU, send)} == {1, 2}
    assert {send["value"] for send in p.sends if p.shown(RC, send)} == {2}


def test_every_finding_is_of_a_class_that_is_listed() -> None:
    text = "p0 send x:1@1\np0 send x:2@0\np1 poll x[2@0,2@0,7@3]\np9 final x[]\nend x rc 1"
    found = {key[0] for key in anomalies.findings(story(text).built.tables())}
    assert found
    assert found <= set(anomalies.CLASSES)


@pytest.mark.parametrize(("incomplete", "settled"), [(False, True), (True, False)])
def test_transactions_had_their_time_unless_the_recording_is_not_whole(
    incomplete: bool, settled: bool
) -> None:
    note = Note(ns=1, text="a word", incomplete=incomplete)
    tables = story("p0 send x:1@0").built.tables()
    assert History(tables, portable=False, events=[note]).settled() is settled


def test_the_variant_of_an_inversion_is_the_acks_of_the_highest_record_before() -> None:
    key = ("offset-realtime-inversion", 0, 3)
    text = (
        "set p0 acks1\nset p3 acks0\np0 send x:1@5\np1 send x:2@3\np3 send x:4\np2 send x:3@4\np1 send x:5@9"
    )
    assert variants(history(text), key) == {("1", "leader")}
    assert variants(history(text.replace("x:2@3", "x:2@6")), key) == {("all", "")}
