"""A former controller that had stood still writes partitions' states: nothing fences it before Kafka 2.1."""

from itertools import pairwise
from typing import Final

from checkers.engine.findings import LogFinding
from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.labelled_run import LabelledRun
from checkers.logs.accept_controllers import CONTROLLER
from checkers.logs.accept_notices import READ
from checkers.logs.accept_znodes import WRITER
from checkers.logs.classes import VIOLATION
from checkers.logs.zookeeper_log import ZooKeeperLog, zookeeper_log


def _by_former_controller(run: LabelledRun, finding: LogFinding) -> bool:
    """The change is of a broker that had been controller, and was no more; and controllers name no epoch that
    fences them."""
    log = run.evidence.once(zookeeper_log)
    if log is None or log.fenced or finding.check not in (CONTROLLER, WRITER, READ):
        return False
    session = next((session for zxid, _, session in log.changes if zxid == finding.zxid), None)
    if session is None or log.may_control(session, finding.zxid):
        return False
    broker = log.broker_of(session)
    if broker not in finding.nodes:
        return False  # it is about another broker than the one that made the change
    mine = [one for one in log.controllers if one.broker == broker and one.since <= finding.zxid]
    left = bool(mine) and all(one.until <= finding.zxid for one in mine)
    return left and (finding.check != CONTROLLER or _by_one(log, finding.zxid))


def _by_one(log: ZooKeeperLog, zxid: int) -> bool:
    """A change raises the controller epoch by one: its broker had read the one before."""
    return any(now[0] == zxid and now[-1] == before[-1] + 1 for before, now in pairwise(log.epochs))


BUG: Final = KnownBug(
    title="A former controller writes to ZooKeeper",
    link="KAFKA-6082",
    versions="Kafka up to 2.0 with ZooKeeper",
    doc="""\
A controller stands still for longer than its session lasts; another broker becomes controller. The first one
wakes up, gets a new session, and continues with what it was about to do: it names a leader, with its old
controller epoch, before it hears of the other one. ZooKeeper takes that where the version of the partition's
znode is still the one that it knows. Since 2.1 whatever a controller writes is conditional on the controller
epoch's znode.""",
    evidence="The log of ZooKeeper has no controller that takes /controller and the next controller epoch by"
    " one request, as since 2.1. The broker whose session made the change had /controller before, and had it"
    " no longer. A controller in office, one that raises the controller epoch by more than one, and a notice"
    " that none deletes, show another bug.",
    in_logs={VIOLATION: _by_former_controller},
)
