"""Journals and sealing: what was recorded is what stands in the tables."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.client_settings import SessionSpec
from core.errors import HistoryError, UsageError
from core.op import (
    Acknowledge,
    Acquire,
    Assign,
    AssignmentKind,
    CommitKind,
    CommitOffsets,
    Copy,
    End,
    Isolation,
    Outcome,
    Phase,
    Poll,
    Send,
    TopicPartition,
)
from history import events as ev
from history import journal as j
from history import jsonl, storage
from history.journal import Journal, JournalHeader
from history.reader import History, load, read_names
from history.run_folder import FORMAT, Run, write_atomically
from history.seal import published, recorded, seal
from history.tables import CLUSTERED, OPEN, TABLES
from tests.history.test_parts import Apart, files

TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """A run without journals; what a test seals, tasks seal to the same bytes."""
    run = Run(tmp_path / "run")
    run.journal.mkdir(parents=True)
    run.events.touch()
    yield run
    if run.names.exists():
        here = files(run)
        run.history.rename(tmp_path / "sealed in this process")
        seal(run, Apart())
        assert files(run) == here


def test_a_late_attempt_at_a_task_leaves_nothing_in_the_history(tmp_path: Path) -> None:
    """It still writes when another attempt's file is whole and the history is published: under it, the
    folder's name changes. An attempt that was killed leaves its file, too."""
    run = Run(tmp_path)
    with published(run) as folder:
        table = folder / "sends" / "00000.parquet"
        table.parent.mkdir()
        storage.write_whole(table, b"whole")
        late = storage._appearing(table)
        late.__enter__().write_bytes(b"half")
        (table.parent / ".00001.parquet.0123").write_bytes(b"killed")
    with pytest.raises(FileNotFoundError):
        late.__exit__(None, None, None)
    assert [path for path in run.history.rglob("*") if path.is_file()] == [
        run.history / "sends" / "00000.parquet"
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["history"]


Writer = Callable[..., None]


@pytest.fixture
def write(run: Run) -> Writer:
    """Write one journal: `write(process, *lines, **spec)`."""

    def write(process: int, *lines: j.Line, **spec: Any) -> None:
        settings = SessionSpec(slot=process, process=process, **spec)
        header = JournalHeader(1, "run", process, process, 0, settings)
        journal = Journal(run.journal / f"{process}.jsonl", header)
        for line in lines:
            journal.write(line)
        journal.close()

    return write


def table(run: Run, name: str) -> list[dict[str, Any]]:
    path, schema = run.table(name), TABLES[name]
    for file in path.glob("*.parquet") if path.is_dir() else [path]:
        assert pq.read_schema(file).equals(schema)
    if name not in CLUSTERED:
        read = pq.read_table(path)
    else:
        read = History(run=run, names=read_names(run), tables={}).whole(name)
        assert read.schema.equals(TABLES[name])
    found: list[dict[str, Any]] = read.to_pylist()
    return found


def sent(op: int, at: int, *results: tuple[int, int, int, str]) -> j.SendResults:
    return j.SendResults(op, at, 20, 30, list(results))


def test_an_acknowledged_a_failed_an_unknown_and_an_unanswered_record(run: Run, write: Writer) -> None:
    mops = tuple(Send(TP, n) for n in range(3))
    write(
        0,
        j.Invoked(1, 10, Phase.FAULTS, "send", False, False, mops),
        sent(1, 0, (0, 7, 25, ""), (1, -1, 30, "A"), (2, -1, 30, "B")),
        j.OpCompleted(1, 40, Outcome.INFO, "B"),
        j.Invoked(2, 50, Phase.FAULTS, "send", False, False, (Send(OTHER, 9),)),
        acks=-1,
    )
    seal(run)
    rows = table(run, "sends")
    assert [(r["value"], r["outcome"], r["offset"], r["ack_ns"]) for r in rows] == [
        (0, 0, 7, 25),
        (1, 1, -1, -1),
        (2, 2, -1, -1),
        (9, 2, -1, -1),
    ]
    assert [r["place"] for r in rows] == [7, -1, -1, -1]
    ops = table(run, "ops")
    assert [(o["op"], o["outcome"], o["complete_ns"]) for o in ops] == [(0, 2, 40), (1, 2, OPEN)]
    assert table(run, "processes")[0]["end"] == End.CRASHED


def test_ops_rank_by_completion_across_processes(run: Run, write: Writer) -> None:
    def op(n: int, begin: int, end: int) -> tuple[j.Line, j.Line]:
        return (
            j.Invoked(n, begin, Phase.FAULTS, "poll", False, False, (Poll(),)),
            j.OpCompleted(n, end, Outcome.OK),
        )

    write(0, *op(1, 0, 100), *op(2, 110, 120))
    write(1, *op(1, 1, 50), *op(2, 60, 115), j.Closed(130, End.CLOSED))
    seal(run)
    assert [(o["op"], o["process"], o["complete_ns"]) for o in table(run, "ops")] == [
        (0, 1, 50),
        (1, 0, 100),
        (2, 1, 115),
        (3, 0, 120),
    ]


def test_place_is_the_lowest_offset_read_where_none_was_acknowledged(run: Run, write: Writer) -> None:
    write(0, j.Invoked(1, 1, Phase.FAULTS, "send", False, False, (Send(TP, 5), Send(OTHER, 5))), acks=-1)
    write(
        1,
        j.Invoked(1, 2, Phase.FAULTS, "poll", False, False, (Poll(),)),
        j.Polled(1, 0, 3, 4, [("t", 0, [8, 6], [5, 5], [0, 0])]),
        j.OpCompleted(1, 5, Outcome.OK),
        isolation=Isolation.READ_COMMITTED,
    )
    seal(run)
    assert {(r["tp"], r["place"]) for r in table(run, "sends")} == {(0, 6), (1, -1)}
    assert [r["pos"] for r in table(run, "reads")] == [0, 1]


def test_assignments_are_numbered_where_the_position_is_not_kept(run: Run, write: Writer) -> None:
    def polled(op: int, offset: int) -> tuple[j.Line, ...]:
        return (
            j.Invoked(op, 1, Phase.FAULTS, "poll", False, False, (Poll(),)),
            j.Polled(op, 0, 1, 1, [("t", 0, [offset], [offset], [0])]),
            j.OpCompleted(op, 1, Outcome.OK),
        )

    def manual(op: int, *tps: TopicPartition) -> tuple[j.Line, ...]:
        names = [(tp.topic, tp.partition) for tp in tps]
        return (
            j.Invoked(op, 1, Phase.FAULTS, "assign", False, False, (Assign(tps),)),
            j.AssignmentChanged(op, 1, AssignmentKind.MANUAL, -1, names),
            j.OpCompleted(op, 1, Outcome.OK),
        )

    write(
        0,
        *manual(1, TP),
        *polled(2, 0),
        *manual(3, TP, OTHER),  # keeps the position of TP
        *polled(4, 1),
        j.AssignmentChanged(4, 1, AssignmentKind.REWIND, -1, [("t", 0)]),
        *polled(5, 1),
        *manual(6, OTHER),
        *manual(7, TP),  # dropped in between
        *polled(8, 0),
        isolation=Isolation.READ_COMMITTED,
    )
    seal(run)
    assert [r["assignment"] for r in table(run, "reads")] == [1, 1, 1, 2]


def test_a_poll_that_a_reset_parts_has_two_assignments(run: Run, write: Writer) -> None:
    reset = [("t", 0)]
    write(
        0,
        j.Invoked(1, 1, Phase.FAULTS, "poll", False, False, (Poll(),)),
        j.Polled(1, 0, 1, 1, [("t", 0, [8, 9], [8, 9], [0, 0])]),
        j.AssignmentChanged(1, 1, AssignmentKind.RESET, -1, reset),
        j.Polled(1, 0, 1, 1, [("t", 0, [5], [5], [0])]),
        j.OpCompleted(1, 1, Outcome.OK),
        isolation=Isolation.READ_COMMITTED,
    )
    seal(run)
    reads = [(r["pos"], r["offset"], r["assignment"]) for r in table(run, "reads")]
    assert reads == [(0, 8, 0), (1, 9, 0), (2, 5, 1)]
    assert table(run, "ops")[0]["n_reads"] == 3


def test_a_subscription_in_between_drops_the_position(run: Run, write: Writer) -> None:
    manual = j.AssignmentChanged(1, 1, AssignmentKind.MANUAL, -1, [("t", 0)])
    subscribed = j.AssignmentChanged(1, 1, AssignmentKind.MANUAL, -1, [])
    write(0, manual, manual, subscribed, manual, isolation=Isolation.READ_COMMITTED)
    seal(run)
    assert [a["assignment"] for a in table(run, "assignments")] == [1, 1, 2]


def test_what_is_read_from_the_beginning_has_the_number_that_its_assignment_raised(
    run: Run, write: Writer
) -> None:
    kinds = (AssignmentKind.MANUAL, AssignmentKind.BEGINNING)
    write(0, *(j.AssignmentChanged(1, 1, kind, -1, [("t", 0)]) for kind in kinds))
    seal(run)
    assert [(a["kind"], a["assignment"]) for a in table(run, "assignments")] == [(3, 1), (6, 1)]


def test_records_that_an_op_never_came_to_were_not_written(run: Run, write: Writer) -> None:
    mops = (Send(TP, 5), Poll(), Send(TP, 6))
    invoked = j.Invoked(1, 1, Phase.FAULTS, "txn", True, False, mops)
    first = j.SendResults(1, 0, 2, 3, [(0, 4, 3, "")])
    write(0, invoked, first, j.OpCompleted(1, 9, Outcome.INFO, "_TRANSPORT"), acks=-1)
    write(1, invoked, first, acks=-1)  # killed: the second may have been under way
    seal(run)
    outcomes = {(s["process"], s["value"]): s["outcome"] for s in table(run, "sends")}
    assert outcomes == {(0, 5): 0, (0, 6): 1, (1, 5): 0, (1, 6): 2}


def test_a_journal_of_a_newer_format_is_refused(run: Run, write: Writer) -> None:
    write(0)
    path = run.journal / "0.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"format":1', b'"format":999'))
    with pytest.raises(HistoryError, match=r"0\.jsonl has format 999"):
        seal(run)


def test_bounds_join_what_was_listed_with_what_final_readers_reached(run: Run, write: Writer) -> None:
    rows = tuple(("t", p, level, 0, 10) for p in (0, 1) for level in (0, 1))
    run.events.write_bytes(
        jsonl.encode(
            [
                ev.RunStarted(ns=5, wall="w", run="run", versions={}),
                ev.BoundsListed(ns=6, rows=rows, stable=True),
            ]
        )
    )
    reached = [j.EndSeen(1, "t", 0, 10), j.EndSeen(1, "t", 1, 9)]
    write(0, *reached, isolation=Isolation.READ_COMMITTED, report_end=True)
    seal(run)
    found = {(r["tp"], r["isolation"]): (r["read_to"], r["complete"]) for r in table(run, "bounds")}
    assert found == {(0, 0): (-1, False), (0, 1): (10, True), (1, 0): (-1, False), (1, 1): (9, False)}


def test_a_run_cut_short_has_incomplete_bounds(run: Run, write: Writer) -> None:
    write(0, j.Invoked(1, 1, Phase.FAULTS, "send", False, False, (Send(TP, 5),)), acks=-1)
    seal(run)
    assert [(b["end"], b["complete"]) for b in table(run, "bounds")] == [(-1, False)] * 2


def test_offsets_in_a_transaction_share_its_fate(run: Run, write: Writer) -> None:
    for process, kind in ((0, CommitKind.TXN), (1, CommitKind.SYNC)):
        write(
            process,
            j.Invoked(1, 1, Phase.FAULTS, "txn", True, True, ()),
            j.OffsetsCommitted(1, 0, 2, 3, kind, 1, Outcome.OK, [("t", 0, 4)]),
            j.OpCompleted(1, 5, Outcome.FAIL),
            group="g",
        )
    seal(run)
    assert [(c["kind"], c["outcome"]) for c in table(run, "commits")] == [(1, 1), (0, 0)]


def test_a_last_line_cut_off_by_a_crash_is_left_out(run: Run, write: Writer) -> None:
    write(0, j.Invoked(1, 1, Phase.FAULTS, "send", False, False, (Send(TP, 5),)), acks=-1)
    path = run.journal / "0.jsonl"
    path.write_bytes(path.read_bytes() + b'{"event":"comple')
    seal(run)
    assert table(run, "ops")[0]["complete_ns"] == OPEN


def test_damage_inside_a_journal_is_refused_by_name(run: Run, write: Writer) -> None:
    write(0, j.Invoked(1, 1, Phase.FAULTS, "send", False, False, (Send(TP, 5),)), acks=-1)
    path = run.journal / "0.jsonl"
    path.write_bytes(b"garbage\n" + path.read_bytes())
    with pytest.raises(HistoryError, match=r"0\.jsonl line 1"):
        j.read(path)
    with pytest.raises(HistoryError, match=r"0\.jsonl line 1"):
        seal(run)
    assert not run.history.exists()


def test_a_run_that_records_nothing_yet_is_not_sealed_and_later_is_sealed_whole(
    run: Run, write: Writer
) -> None:
    run.events.unlink()
    write_atomically(run.config, "{}")
    with pytest.raises(UsageError, match="nothing is recorded there"):
        recorded(run.folder)
    with pytest.raises(HistoryError, match=r"events\.jsonl"):
        seal(run)
    assert sorted(path.name for path in run.folder.iterdir()) == ["config.json", "journal"]
    write(0, j.Invoked(1, 1, Phase.FAULTS, "send", False, False, (Send(TP, 5),)), acks=-1)
    run.events.touch()
    seal(recorded(run.folder))
    assert len(table(run, "ops")) == 1


@pytest.mark.parametrize(("many", "fits"), [(64, True), (65, False)])
def test_more_names_than_a_history_can_number_are_refused_and_none_becomes_another(
    run: Run, write: Writer, many: int, fits: bool
) -> None:
    """Those of each journal are few enough. Kinds of ops have numbers of 8 bits."""
    for process, of in enumerate((range(64), range(64, 64 + many))):
        write(process, *(j.Invoked(n, n, Phase.FAULTS, f"f{n}", False, False, (Poll(),)) for n in of))
    if not fits:
        with pytest.raises(HistoryError, match=r"1\.jsonl: .*more than the column f can number"):
            seal(run)
        assert not run.history.exists()
        return
    seal(run)
    names = read_names(run).f
    assert [names[op["f"]] for op in table(run, "ops")] == [f"f{n}" for n in range(128)]


def test_sealing_twice_changes_nothing(run: Run, write: Writer) -> None:
    write(0, j.Invoked(1, 1, Phase.FAULTS, "send", False, False, (Send(TP, 5),)), acks=-1)
    seal(run)
    before = run.names.stat().st_mtime_ns
    seal(run)
    assert run.names.stat().st_mtime_ns == before
    assert not list(run.folder.glob(".history-*"))


def test_tables_of_an_older_format_are_made_again_where_the_journals_are_there(
    run: Run, write: Writer
) -> None:
    write(0, j.Invoked(1, 1, Phase.FAULTS, "send", False, False, (Send(TP, 5),)), acks=-1)
    seal(run)
    sealed = files(run)
    older = run.names.read_text().replace(f'"format":{FORMAT}', f'"format":{FORMAT - 1}')
    run.names.write_text(older)
    pq.write_table(pa.table({"number": [5]}), next(run.table("sends").glob("*")))
    seal(run)
    assert files(run) == sealed
    run.names.write_text(older)
    kept = run.journal.rename(run.folder / "kept")
    seal(run)
    assert run.names.read_text() == older, "nothing to make them from"
    with pytest.raises(HistoryError, match=f"format {FORMAT - 1} is older .* the version that recorded it"):
        read_names(run)
    kept.rename(run.journal)
    with pytest.raises(HistoryError, match=f"format {FORMAT - 1} is older .* inquest check .*/run makes it"):
        read_names(run)
    seal(run)


def test_a_journal_of_a_process_that_never_began(run: Run, write: Writer) -> None:
    (run.journal / "3.jsonl").write_bytes(b'{"event":"open","for')
    seal(run)
    assert table(run, "processes") == []


def copying(op: int, at: int, *records: tuple[str, int, int, str, int, int]) -> j.Copying:
    return j.Copying(op, at, 15, list(records))


def test_copies_are_sends_that_know_their_input(run: Run, write: Writer) -> None:
    source = TopicPartition("zin", 0)  # its number is the highest of all, and was given first
    mops = (Send(TP, 1), Poll(), Copy("t", 10, 5), Poll(), Copy("t", 20, 5))
    write(
        0,
        j.Invoked(1, 10, Phase.FAULTS, "copy", True, False, mops),
        sent(1, 0, (0, 4, 21, "")),
        j.Polled(1, 1, 12, 14, [(*source, [7, 8], [70, 80], [0, 0])]),
        copying(1, 2, ("t", 0, 10, *source, 7), ("t", 1, 11, *source, 8)),
        sent(1, 2, (0, 5, 25, ""), (2, -1, 30, "B")),
        j.Polled(1, 3, 32, 34, [(*source, [9], [90], [0])]),
        copying(1, 4, ("t", 0, 20, *source, 9)),
        sent(1, 4, (1, -1, 30, "C")),
        j.OpCompleted(1, 40, Outcome.OK),
        acks=-1,
        isolation=Isolation.READ_COMMITTED,
        auto_commit=True,
    )
    seal(run)
    rows = sorted(table(run, "sends"), key=lambda row: int(row["pos"]))
    assert [(r["pos"], r["value"], r["src_tp"], r["src_offset"]) for r in rows] == [
        (0, 1, -1, -1),
        (3, 10, 2, 7),
        (4, 11, 2, 8),
        (6, 20, 2, 9),
    ]
    assert [(r["tp"], r["outcome"], r["offset"], r["ack_ns"]) for r in rows] == [
        (0, 0, 4, 21),
        (0, 0, 5, 25),
        (1, 2, -1, -1),
        (0, 1, -1, -1),
    ]
    assert {(r["op_sends"], r["txn"], r["invoke_ns"]) for r in rows} == {(4, 1, 20)}
    assert [r["pos"] for r in table(run, "reads")] == [1, 2, 5]
    (op,) = table(run, "ops")
    assert (op["n_sends"], op["n_reads"]) == (4, 3)
    assert [row["auto_commit"] for row in table(run, "processes")] == [1]


def test_a_copy_without_results_is_in_doubt_and_one_never_come_to_is_no_row(run: Run, write: Writer) -> None:
    mops = (Poll(), Copy("t", 10, 5))
    write(
        0,
        j.Invoked(1, 10, Phase.FAULTS, "copy", True, False, mops),
        j.OpCompleted(1, 20, Outcome.FAIL, "X"),
        j.Invoked(2, 30, Phase.FAULTS, "copy", True, False, mops),
        copying(2, 1, ("t", 0, 10, "zin", 0, 7)),
        acks=-1,
    )
    seal(run)
    (row,) = table(run, "sends")
    assert (row["outcome"], row["op_outcome"], row["invoke_ns"]) == (2, 2, 15)
    assert (row["ack_ns"], row["place"]) == (-1, -1)
    assert [(o["n_sends"], o["outcome"]) for o in table(run, "ops")] == [(0, 1), (1, 2)]


def test_a_commit_told_as_the_client_closed_belongs_to_its_last_op(run: Run, write: Writer) -> None:
    write(
        0,
        j.Invoked(1, 10, Phase.FAULTS, "poll", False, False, (Poll(), CommitOffsets())),
        j.OffsetsCommitted(1, 1, 12, 13, CommitKind.SYNC, 1, Outcome.OK, [("t", 0, 4)]),
        j.OpCompleted(1, 20, Outcome.OK),
        j.OffsetsCommitted(1, -1, 15, 30, CommitKind.AUTO, 1, Outcome.INFO, [("t", 0, 5)]),
        j.Closed(31, End.CLOSED),
        group="g",
    )
    seal(run)
    rows = [(c["op"], c["kind"], c["outcome"], c["offset"]) for c in table(run, "commits")]
    assert rows == [(0, 0, 0, 4), (0, 2, 2, 5)]


def test_deliveries_and_acknowledgements_of_a_share_group(run: Run, write: Writer) -> None:
    def ops(number: int, ns: int, answered: bool) -> tuple[j.Line, ...]:
        mops = (Acquire(), Acknowledge(seed=1, accept=1, release=0))
        lines: tuple[j.Line, ...] = (
            j.Invoked(number, ns, Phase.FAULTS, "share", False, False, mops),
            j.Acquired(number, 0, ns + 1, ns - 1, ns + 2, [("t", 0, [4, 5], [40, 50], [1, 2])]),
            j.Acknowledging(number, 1, ns + 3, [("t", 0, [4, 5], [1, 3])]),
        )
        if not answered:
            return lines
        done = j.Acknowledged(number, 1, ns + 4, ns + 5, [(0, "")])
        return (*lines, done, j.OpCompleted(number, ns + 6, Outcome.OK))

    write(0, *ops(1, 10, answered=True), *ops(2, 20, answered=False), group="g", share=True)
    seal(run)
    given = table(run, "deliveries")
    assert [(r["op"], r["offset"], r["value"], r["delivery_count"]) for r in given] == [
        (0, 4, 40, 1), (0, 5, 50, 2), (1, 4, 40, 1), (1, 5, 50, 2),
    ]  # fmt: skip
    assert {(r["group"], r["since_ns"], r["invoke_ns"], r["complete_ns"]) for r in given[:2]} == {
        (0, 9, 11, 12)
    }
    said = table(run, "acknowledgements")
    assert [(r["op"], r["offset"], r["kind"], r["outcome"]) for r in said] == [
        (0, 4, 1, 0), (0, 5, 3, 0), (1, 4, 1, 2), (1, 5, 3, 2),
    ]  # fmt: skip
    assert [(r["invoke_ns"], r["complete_ns"]) for r in said] == [(14, 15)] * 2 + [(23, OPEN)] * 2
    assert {row["n_reads"] for row in table(run, "ops")} == {0}


def one_record(write: Writer) -> None:
    op = j.Invoked(1, 10, Phase.FAULTS, "send", False, False, (Send(TP, 1),))
    write(0, op, sent(1, 0, (0, 7, 25, "")), j.OpCompleted(1, 40, Outcome.OK), acks=-1)


def test_all_files_are_on_the_disk_before_the_history_has_its_name(
    run: Run, write: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_record(write)
    done: list[tuple[str, Path]] = []
    fsync, replace = os.fsync, os.replace

    def flushed(handle: int) -> None:
        done.append(("flushed", Path(os.readlink(f"/proc/self/fd/{handle}"))))
        fsync(handle)

    def replaced(old: Path | str, new: Path | str) -> None:
        done.append(("replaced", Path(new)))
        replace(old, new)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", flushed)
        patched.setattr(os, "replace", replaced)
        seal(run)
    named = done.index(("replaced", run.history))
    made = next(path for what, path in done if what == "flushed" and path.parent == run.folder)
    there = {path.relative_to(run.history) for path in (run.history, *run.history.rglob("*"))}
    assert {made / path for path in there} <= {path for what, path in done[:named] if what == "flushed"}
    assert done[named + 1] == ("flushed", run.folder)


@pytest.mark.parametrize("name", ["ops.parquet", "sends"])
def test_a_table_that_cannot_be_read_beside_journals_says_how_it_is_made_again(
    run: Run, write: Writer, name: str
) -> None:
    def emptied() -> None:
        path = run.history / name
        (path if path.is_file() else next(path.iterdir())).write_bytes(b"")

    one_record(write)
    run.config.write_text("{}")
    seal(run)
    emptied()
    with pytest.raises(HistoryError, match=f"remove {run.history}, and inquest check {run.folder} makes it"):
        load(run)
    shutil.rmtree(run.history)
    seal(run)
    load(run)
    emptied()
    shutil.rmtree(run.journal)
    with pytest.raises(HistoryError) as refused:
        load(run)
    assert "remove" not in str(refused.value)
    shutil.rmtree(run.history)
