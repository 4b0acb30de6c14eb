"""The log of ZooKeeper, controller by controller: who they are, and how soon one follows the other.

Where the log does not say that a broker could have acted, nothing is asked: one that stands still keeps its
session until that runs out. Which leaders controllers choose: `accept_leaders`.
"""

import itertools
from typing import Final

from checkers.engine.check import Tally, WholeRun
from checkers.engine.findings import NOWHERE
from checkers.logs.rule import Rule, checks_of
from checkers.logs.zookeeper_log import FOREVER, EphemeralZnode, ZooKeeperLog, refuse, whole_log
from checkers.logs.zookeeper_time import LONGEST_SESSION_MS, ZooKeeperTime, held_up_ms

CONTROLLER: Final = "controller-epoch-rises"
NAMED: Final = "controller-names-its-broker"
SUCCEEDS: Final = "controller-succeeds"
SUCCEEDS_MS: Final = 15_000
"""Brokers watch /controller: one that runs takes it at once."""
RULES: Final = {
    CONTROLLER: Rule(
        "The controller epoch rises by one with each new controller, by the session that has /controller.",
        "KAFKA-6082; KafkaZkClient.registerControllerAndIncrementControllerEpoch",
    ),
    NAMED: Rule(
        "/controller names the broker whose znode in /brokers/ids belongs to the same session.",
        "KafkaController.elect, KafkaZkClient.registerBroker",
    ),
    SUCCEEDS: Rule(
        f"Within {SUCCEEDS_MS / 1000:g} s of its end /controller is there again, where another broker's"
        " session lasts all that time and longer.",
        "KafkaController, ControllerChangeHandler",
    ),
}


def join(run: WholeRun, result: Tally) -> None:
    """The rules of this module; nothing where the evidence has no log of ZooKeeper."""
    log = whole_log(run.evidence, RULES, result)
    if log is None:
        return
    time = ZooKeeperTime(log, run.events)
    _epochs(log, result)
    for tenure in log.controllers:
        _named(tenure, log, result)
    _succeeded(log, time, SUCCEEDS_MS + held_up_ms(run.history), result)


CHECKS: Final = checks_of(RULES, ring=1, join=join)


def _epochs(log: ZooKeeperLog, result: Tally) -> None:
    for (*_, before), (zxid, ms, session, after) in itertools.pairwise(log.epochs):
        result.asked[CONTROLLER] += 1
        broker = log.broker_of(session)
        if after != before + 1:
            why = f"controller epoch {after} follows {before}"
        elif not log.may_control(session, zxid):
            why = f"broker {broker} raises the controller epoch to {after}, and does not have /controller"
        else:
            continue
        refuse(CONTROLLER, NOWHERE, (zxid, ms), why, log.writers(session), result)


def _named(tenure: EphemeralZnode, log: ZooKeeperLog, result: Tally) -> None:
    """A controller's session may have no broker's znode: before 2.0 brokers register later, and may die."""
    owners = {one.broker for one in log.brokers if one.session == tenure.session}
    result.asked[NAMED] += bool(owners)
    if owners - {tenure.broker}:
        why = f"/controller names broker {tenure.broker}, by the session of broker {min(owners)}"
        refuse(NAMED, NOWHERE, (tenure.since, tenure.since_ms), why, sorted(owners), result)


def _succeeded(log: ZooKeeperLog, time: ZooKeeperTime, succeeds_ms: int, result: Tally) -> None:
    """An end of the session is the latest moment at which its broker was heard of: one whose znode lasts for
    the longest session more ran before the time was up, and had the watch. One that was the controller before
    may still be held up."""
    tenures = sorted(log.controllers, key=lambda one: one.since)
    for tenure in tenures:
        if tenure.until == FOREVER:
            continue
        late = time.after(tenure.until_ms, succeeds_ms)
        came = next((one.since_ms for one in tenures if one.since >= tenure.until), None)
        if came is not None and (late is None or came <= late):
            result.asked[SUCCEEDS] += 1
            continue
        heard = None if late is None else time.after(late, LONGEST_SESSION_MS)
        if heard is None:
            continue
        ran = sorted(
            one.broker
            for one in log.brokers
            if one.session != tenure.session and one.since < tenure.until and one.until_ms > heard
        )
        if ran:
            result.asked[SUCCEEDS] += 1
            names = ", ".join(map(str, ran))
            why = (
                f"/controller of broker {tenure.broker} is gone, and {succeeds_ms / 1000:g} s later no broker"
            )
            why += f" has it; the session of {names} lasts"
            refuse(SUCCEEDS, NOWHERE, (tenure.until, tenure.until_ms), why, ran, result)
