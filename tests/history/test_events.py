"""Events: what is written is read back, and recordings of earlier versions are read as today's."""

import pytest

from core.cluster import NodeEnd
from history import events as ev
from history import jsonl

OLD = b'{"event":"note","ns":1,"text":"evidence is missing: node 2: gone","incomplete":false}\n'
BROKEN = b'{"event":"note","ns":1,"text":"evidence is missing: node 2: gone","incomplete":true}\n'


def test_a_note_about_missing_evidence_of_an_earlier_version_is_the_event_of_today() -> None:
    assert ev.decode(OLD) == [ev.EvidenceMissing(ns=1, why="node 2: gone")]
    (note,) = ev.decode(BROKEN)
    assert isinstance(note, ev.Note)
    assert ev.incomplete(note)


def test_a_lost_client_of_an_earlier_version_has_no_status() -> None:
    assert ev.decode(b'{"event":"worker-lost","ns":1,"slot":3,"why":"ended by SIGKILL"}\n') == [
        ev.WorkerLost(ns=1, slot=3, why="ended by SIGKILL")
    ]
    assert ev.WorkerLost(ns=1, slot=3, why="ended by SIGKILL").who == "client 3"


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (ev.HealFailed(ns=1, why="port taken"), "not everything could be healed: port taken"),
        (ev.HealFailed(ns=1, fault=2, name="kill:one@leader", why="stuck"), ""),
        (ev.NodeEnded(ns=1, end=NodeEnd(node=2, exit_code=1, log=("a", "b"))), ""),
        (ev.ClockJumped(before_ns=0, ns=1, wall_s=-3.5), ""),
        (ev.EndsUnseen(ns=1, why="the engine does not answer"), ""),
        (ev.EvidenceMissing(ns=1, why="gone"), ""),
        (ev.EvidenceTaken(ns=1, tables=("ends", "takes")), ""),
        (ev.Interrupted(ns=1), "interrupted"),
    ],
)
def test_what_makes_a_recording_not_whole(event: ev.Event, why: str) -> None:
    assert ev.decode(jsonl.encode([event])) == [event]
    assert ev.incomplete(event) == why
