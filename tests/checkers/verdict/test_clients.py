"""How many clients of which kind a run had, counted in its history."""

from pathlib import Path

import pytest

from checkers.verdict.clients import clients
from core.op import Isolation, Phase
from history.reader import load
from history.tables import NO_PRODUCER
from tests.histories.built import Built, Op, Process, Read, Send
from tests.histories.folders import write_run

RU = Isolation.READ_UNCOMMITTED
NONE = -1


def sent(process: int, number: int) -> Op:
    send = Send(tp=0, value=number, offset=number)
    return Op(process=process, f="send", invoke=number * 10, complete=number * 10 + 5, mops=[send])


def test_slots_are_counted_by_kind_and_final_readers_left_out(tmp_path: Path) -> None:
    processes = {
        0: Process(slot=0, isolation=NONE),  # type: ignore[arg-type]
        1: Process(slot=0, isolation=NONE),  # type: ignore[arg-type]  # its client, started again
        2: Process(slot=1, isolation=NONE),  # type: ignore[arg-type]
        3: Process(slot=2, isolation=NONE, acks=1, idempotent=False),  # type: ignore[arg-type]
        4: Process(slot=3, acks=NO_PRODUCER, idempotent=False, group=0),
        5: Process(slot=4, acks=NO_PRODUCER, idempotent=False, isolation=RU),
        6: Process(slot=5, txn_id=0),
    }
    ops = [sent(process, number) for number, process in enumerate((0, 1, 2, 3))]
    ops.append(
        Op(
            process=5,
            f="poll",
            invoke=90,
            complete=95,
            mops=[Read(tp=0, value=0, offset=0)],
            phase=Phase.FINAL,
        )
    )
    ops.append(Op(process=4, f="poll", invoke=90, complete=95, mops=[Read(tp=0, value=1, offset=1)]))
    built = Built(tps=["t"], ops=ops, processes=processes)
    found = clients(load(write_run(tmp_path / "run", built.tables())))
    assert [(one.count, one.produces, one.acks, one.transactional, one.isolation) for one in found] == [
        (2, True, -1, False, ""),
        (1, True, -1, True, "read_committed"),
        (1, True, 1, False, ""),
        (1, False, None, False, "read_committed"),
    ]


@pytest.mark.parametrize("foreign", [True, False])
def test_of_a_recording_of_others_who_sent_produces_and_who_polled_consumes(
    tmp_path: Path, foreign: bool
) -> None:
    """An import takes each process for both; a client of the harness is what its settings say."""
    ops = [
        sent(0, 0),
        Op(process=1, f="poll", invoke=20, complete=25, mops=[Read(tp=0, value=0, offset=0)]),
        Op(process=2, f="poll", invoke=30, complete=35, mops=[]),  # nothing was there
        sent(3, 4),
        Op(process=3, f="poll", invoke=50, complete=55, mops=[Read(tp=0, value=0, offset=0)]),
    ]
    built = Built(tps=["t"], ops=ops, processes={one: Process(slot=one) for one in range(4)})
    settings = {"workload": "imported", "sut": "imported", "imported": {"format": "jsonl"}} if foreign else {}
    found = clients(load(write_run(tmp_path / "run", built.tables(), settings=settings)))
    level = "read_committed"
    assert [(one.count, one.produces, one.acks, one.isolation) for one in found] == (
        [(2, False, None, level), (1, True, -1, ""), (1, True, -1, level)]
        if foreign
        else [(4, True, -1, level)]
    )
