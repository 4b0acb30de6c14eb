"""Logs of modelled brokers whose clients deleted records: no rule refuses them, and still see damage."""

import pytest
from msgspec import structs

from checkers.api import check_evidence
from checkers.engine.findings import Found
from harness.modelled.shared.disk_copy import DiskCopy, copied
from harness.modelled.shared.evidence import tables
from history.evidence import Evidence
from history.evidence_tables import END, KILLED
from model.protocol.messages import DeleteRecords
from model.settings import Settings
from scenarios.drivers.cluster import CONTROLLER_NODE, data
from scenarios.drivers.raw_producer import RawProducerStage

TP = data(0)
ERA = "4.3"
BROKERS = (1, 2, 3)


def deleted(s: RawProducerStage, offset: int) -> RawProducerStage:
    """Records went on all replicas."""
    answers: list[object] = []
    s.deliver("", DeleteRecords({TP: offset}, 5000), s.leader(TP), answers.append)
    return s.until(lambda: bool(answers))


def disks(s: RawProducerStage, why: str, *nodes: int) -> list[DiskCopy]:
    return [DiskCopy(node=n, ns=s.now * 1_000_000, why=why, durable=copied(s._durable[n])) for n in nodes]


@pytest.fixture(scope="module")
def played() -> tuple[RawProducerStage, list[list[DiskCopy]]]:
    """Transactions and plain records of several leader epochs; records are deleted in between, also those
    that open a transaction, and once all. A follower dies meanwhile; the leader does later."""
    s = RawProducerStage(Settings(), ((1, 2, 3),), (3, 2, 1))
    s.init("A").add("A", 0).write("A", 0, "a0", "a1").write("A", 0, "a2").end("A", commit=True).wait(1000)
    s.identify("B").write("B", 0, "b0").write("B", 0, "b1", "b2").wait(1000)
    deleted(s, 5)
    s.init("A").add("A", 0).write("A", 0, "a3").write("A", 0, "a4").wait(1000)
    deleted(s, 8)
    s.crash(2)
    killed = disks(s, KILLED, 2)
    s.wait(4000).write("B", 0, "b3").end("A", commit=False).wait(1000)
    deleted(s, -1)
    s.restart(2).wait(2000).write("B", 0, "b4").wait(1000).crash(1).wait(5000)
    s.write("B", 0, "b5").wait(1000).restart(1).wait(3000)
    return s, [killed, disks(s, END, *BROKERS, CONTROLLER_NODE)]


def judged(takes: list[list[DiskCopy]]) -> Found:
    return check_evidence(Evidence(tables(takes, Settings(), ERA)))


def test_no_rule_refuses_them(played: tuple[RawProducerStage, list[list[DiskCopy]]]) -> None:
    s, takes = played
    logs = [s._durable[n].logs[TP] for n in BROKERS]
    assert {(log.start, log.end) for log in logs} == {(11, 13)}
    assert takes[0][0].durable.logs[TP].start == 8
    found = judged(takes)
    assert not found.crashed
    assert [(one.check, one.text) for one in found.in_logs] == []
    asked = ("replicas-equal", "log-matching", "offsets-dense", "epoch-checkpoint")
    assert {rule: found.asked[rule] for rule in asked if not found.asked[rule]} == {}


def test_a_replica_that_keeps_another_record_is_refused(
    played: tuple[RawProducerStage, list[list[DiskCopy]]],
) -> None:
    _, (killed, last) = played
    durable = copied(last[0].durable)
    log = durable.logs[TP]
    log.batches[0] = structs.replace(log.batches[0], records=("other",))
    damaged = DiskCopy(node=last[0].node, ns=last[0].ns, why=END, durable=durable)
    found = judged([killed, [damaged, *last[1:]]])
    assert ("replicas-equal", 11) in {(one.check, one.offset) for one in found.in_logs}
