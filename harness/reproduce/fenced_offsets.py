"""Offsets of a transaction come when its producer is fenced: does the coordinator of groups store them?"""

from typing import Final

from confluent_kafka import OFFSET_INVALID

from core.wire import Action, WireRule
from harness.reproduce.answers import PerformedRequest
from harness.reproduce.cluster import NotReached
from harness.reproduce.library_producer import LibraryProducer, PlainProducer
from harness.reproduce.three_brokers import ThreeBrokers

ASKED_S: Final = 15.0
ABORTED: Final = 3
"""The offset that the aborted transaction commits."""
OWN: Final = 1
"""The one that the transaction after it commits, of another partition."""


def stored_late(stage: ThreeBrokers, name: str, good: bool) -> PerformedRequest:
    """TxnOffsetCommit of the first instance is late, and its client asks again: the transaction has the
    offset. A second instance fences the first one, which aborts the transaction. Then the late request
    comes, and the second instance commits offsets of its own. Both sides are the same schedule."""
    stage.assign(controller_follows=False)
    p0, p1 = stage.create(name, [stage.cluster.brokers] * 2)
    plain = PlainProducer(stage, {}, says=False)
    for tp, records in ((p0, ABORTED), (p1, OWN)):
        for number in range(records):
            plain.write(tp, f"{number}")
    stage.say(f"the group has offset {stage.committed_offset(name, p0)}")  # its coordinator is there now
    first, wire = LibraryProducer(stage, name), stage.cluster.wire
    late = wire.number()
    wire.add(WireRule(number=late, api="txn_offset_commit", action=Action.DETACH, transactional_id=name))
    first.begin()
    first.commit_offset(name, p0, ABORTED)
    if wire.wait(late, "caught", ASKED_S) is None:
        raise NotReached("the proxy caught no TxnOffsetCommit")
    second = LibraryProducer(stage, name)
    stage.say("a second instance has called init_transactions: the transaction of the first one is aborted")
    wire.release(late)
    answered = wire.wait(late, "answered", ASKED_S)
    if answered is None:
        raise NotReached("no broker answered the late TxnOffsetCommit")
    stage.say(f"the late TxnOffsetCommit (version {answered.version}) comes, after the abort")
    second.begin()
    second.commit_offset(name, p1, OWN)
    second.end(commit=True)
    return PerformedRequest(
        transactional_id=name,
        asked=f"OffsetFetch after the abort of offset {ABORTED} and the next transaction of the producer",
        answer=str(stage.committed_offset(name, p0)),
        wrong=str(ABORTED),
        right=str(OFFSET_INVALID),
    )
