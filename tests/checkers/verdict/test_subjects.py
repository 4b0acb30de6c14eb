"""What a run has to hold, at the least, for a check to be asked; and what does not suffice."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from checkers.checks import CHECKS
from checkers.engine.check import Tally
from checkers.verdict.subjects import SUBJECTS, Held
from core.config import Application, RunConfig
from core.op import Acknowledgement, Isolation, Outcome, Phase
from history.events import DeadLettersListed, Event
from history.reader import load
from tests.checkers.found import check_tables
from tests.histories.built import Bound, Built, Commit, Delivery, Mop, Op, Process, Read, Said, Send
from tests.histories.folders import write_run
from tests.histories.notation import stories

SEND = Send(tp=0, value=0, outcome=Outcome.INFO)
ACKNOWLEDGED = Send(tp=0, value=0, offset=0)
READ = Read(tp=0, offset=0, value=0)
COMMIT = Commit(tp=0, offset=0)
MEMBER, COPIER = Process(group=0, acks=-2), Process(group=0)
PLAIN, READER = Process(), Process(acks=-2)
OTHERS = {7: READER, 8: PLAIN}
WHOLE = Bound(tp=0, isolation=Isolation.READ_COMMITTED, end=2, read_to=2)
COMPACTED = RunConfig(seed=0, topic_settings={"cleanup.policy": "compact"})
APPLIED = RunConfig(seed=0, workload="application", app=Application())


def did(*mops: Mop, process: int = 1, txn: bool = False, phase: Phase = Phase.FAULTS) -> Op:
    """An op of a process that has a settled end."""
    return Op(
        process=process, f="send", invoke=process, complete=process + 1, txn=txn, phase=phase, mops=[*mops]
    )


def made(ops: Iterable[Op] = (), processes: Mapping[int, Process] | None = None) -> Built:
    return Built(tps=["x"], ops=[*ops], processes={**OTHERS, **(processes or {})})


def copies(*of: int) -> Iterator[Send]:
    """Output records of input records at these offsets."""
    return (Send(tp=0, value=n, offset=n, source=(0, at)) for n, at in enumerate(of))


def story(text: str) -> Built:
    """Of compacted topics, where value 257 is of the key of value 1."""
    return next(stories(f"== case\n{text}")).built


LEAST: Mapping[str, tuple[Built, Built]] = {
    "sends": (made([did(SEND)]), made([did(COMMIT)])),
    "reads": (made([did(READ, phase=Phase.FINAL)]), made([did(SEND)])),
    "acknowledgements": (made([did(ACKNOWLEDGED)]), made([did(SEND)])),
    "compaction": (
        story("p0 send x:1@0 x:257@1\np9 final x[257@1]\nend x rc 2"),
        story("p0 send x:1@0 x:257@1\np9 final x[1@0,257@1]\nend x rc 2"),
    ),
    "polls": (made([did(READ)]), made([did(READ, phase=Phase.FINAL), did(SEND)])),
    "transactions": (made([did(SEND, txn=True), did(process=2, txn=True)]), made([did(SEND), did(txn=True)])),
    "offsets": (made([did(COMMIT)], {1: MEMBER}), made([did(READ)], {1: MEMBER})),
    "groups": (
        made([did(READ), did(process=2)], {1: MEMBER}),
        made([did(READ, phase=Phase.FINAL), did(READ, process=2), did(COMMIT)], {1: MEMBER}),
    ),
    "shares": (
        made([did(Delivery(tp=0, offset=0, value=0))], {1: MEMBER}),
        made([did(READ, Said(tp=0, offset=0, kind=Acknowledgement.ACCEPT))], {1: MEMBER}),
    ),
    "dead letters": (
        made([did(Delivery(tp=0, offset=0, value=0))], {1: MEMBER}),
        made([did(READ, Said(tp=0, offset=0, kind=Acknowledgement.ACCEPT))], {1: MEMBER}),
    ),
    "copies": (made([], {1: COPIER}), made([], {1: MEMBER, 2: Process(group=0, isolation=Isolation(-1))})),
    "applications": (
        replace(made([did(*copies(0, 1))], {1: COPIER}), bounds=[WHOLE]),
        replace(made([did(*copies(0, 0))], {1: COPIER}), bounds=[WHOLE]),
    ),
    "successors": (
        made([], {1: Process(txn_id=3), 2: Process(txn_id=3)}),
        made([], {n: Process(txn_id=n) for n in range(1, 4)}),
    ),
}
"""Subject -> a history that holds it and hardly more, and one that all but holds it."""


LISTED: Mapping[str, Sequence[Event]] = {"dead letters": [DeadLettersListed(ns=9, rows=())]}
"""Subject -> the events that either history has."""


def held(folder: Path, built: Built, events: Sequence[Event] = ()) -> set[str]:
    acknowledged = sum(send.offset >= 0 for _, send in built.sends())
    tables = built.tables()
    parts = check_tables(tables, portable=False, config=COMPACTED).parts
    parts |= check_tables(tables, portable=False, config=APPLIED).parts
    what = Held(load(write_run(folder, tables, events=events)), Tally(acknowledged=acknowledged, parts=parts))
    return {name for name, (_, has) in SUBJECTS.items() if has(what)}


def test_each_subject_is_of_some_check() -> None:
    assert {check.subject for check in CHECKS.values()} - {""} == {*SUBJECTS} == {*LEAST}


@pytest.mark.parametrize("subject", LEAST)
def test_what_suffices_and_what_does_not(tmp_path: Path, subject: str) -> None:
    least, less = LEAST[subject]
    events = LISTED.get(subject, ())
    assert subject in held(tmp_path / "least", least, events)
    assert subject not in held(tmp_path / "less", less, events)
