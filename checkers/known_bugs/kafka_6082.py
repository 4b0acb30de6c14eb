"""A former controller that had stood still writes partitions' states: nothing fences it before Kafka 2.1."""

from typing import Final

from checkers.engine.findings import LogFinding
from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.labelled_run import LabelledRun
from checkers.logs.accept_controllers import CONTROLLER
from checkers.logs.accept_notices import READ
from checkers.logs.accept_znodes import WRITER
from checkers.logs.classes import VIOLATION
from checkers.logs.zookeeper_log import zookeeper_log


def _by_former_controller(run: LabelledRun, finding: LogFinding) -> bool:
    """The broker had been controller, and what controllers write names no epoch that fences them."""
    log = run.evidence.once(zookeeper_log)
    if log is None or log.fenced or finding.check not in (CONTROLLER, WRITER, READ):
        return False
    return any(one.broker in finding.nodes and one.since_ms <= finding.ms for one in log.controllers)


BUG: Final = KnownBug(
    title="A former controller writes to ZooKeeper",
    url="https://issues.apache.org/jira/browse/KAFKA-6082",
    link="KAFKA-6082",
    versions="Kafka up to 2.0 with ZooKeeper",
    doc="""\
A controller stands still for longer than its session lasts; another broker becomes controller. The first one
wakes up, gets a new session, and continues with what it was about to do: it names a leader, with its old
controller epoch, before it hears of the other one. ZooKeeper takes that where the version of the partition's
znode is still the one that it knows. Since 2.1 whatever a controller writes is conditional on the controller
epoch's znode.""",
    evidence="The log of ZooKeeper has no controller that takes /controller and the next controller epoch by"
    " one request, as since 2.1. The broker whose session wrote had /controller before, and has it no"
    " longer.",
    anomalies=(),
    match=lambda _: False,
    in_logs={VIOLATION: _by_former_controller},
)
