"""Clusters that recovered but for in-sync replicas: which partitions lack some."""

import re
from collections.abc import Callable, Collection, Iterator
from typing import Final

from checkers.checks.recovery import ClusterNotBack
from checkers.known_bugs.labelled_run import LabelledRun
from checkers.known_bugs.transaction_fates import Suspicion
from core.internal_topics import internal
from core.op import TopicPartition
from history.events import RolesSeen
from history.reader import History

FEW: Final = re.compile(r"(?P<tp>\S+-\d+) has in-sync replicas \[(?P<isr>[\d, ]+)\] only")
"""Why a cluster has not recovered whose brokers all answer, and agree."""
Stuck = Callable[[str, RolesSeen], bool]
"""Whether a partition, as these roles have it, bears a bug's signature."""


def all_stuck(suspicion: Suspicion, stuck: Stuck) -> bool:
    """In-sync replicas are all that is missing, and each partition that lacks some bears the signature."""
    finding, history = suspicion.finding, suspicion.history
    assert isinstance(finding, ClusterNotBack)
    said = FEW.fullmatch(finding.why)
    roles = _all_there(history, finding.at_ns)
    if said is None or roles is None:
        return False
    few = _few(history, roles)
    return said["tp"] in few and all(stuck(tp, roles) for tp in few)


def same_logs(run: LabelledRun, partition: str, isr: Collection[int]) -> bool:
    """Replicas that are not in sync have all that the others have: they fetch, and are not let in."""
    topic, _, number = partition.rpartition("-")
    ends = {log.node: log.end for log in run.logs(TopicPartition(topic, int(number))) if log.at_end}
    return {*isr} < ends.keys() and len(set(ends.values())) == 1


def roles_seen(history: History) -> Iterator[RolesSeen]:
    """In the order of time."""
    return (one for one in history.events if isinstance(one, RolesSeen))


def _all_there(history: History, at_ns: int) -> RolesSeen | None:
    """The roles at a time; None = a broker did not answer, they did not agree, or a partition had no
    leader."""
    roles = [one for one in roles_seen(history) if one.ns <= at_ns][-1:]
    brokers = range(1, int(history.config["brokers"]) + 1)
    if not roles or not roles[0].agreed or sorted(roles[0].answering) != [*brokers]:
        return None
    return roles[0] if all(leader >= 0 for leader in roles[0].leaders.values()) else None


def _few(history: History, roles: RolesSeen) -> list[str]:
    """Partitions whose replicas are not all in sync. Internal ones have as many as were in sync once."""
    most: dict[str, int] = {}
    for one in roles_seen(history):
        for tp, isr in one.isr.items():
            most[tp] = max(most.get(tp, 0), len(isr))
    factor = int(history.config["replication_factor"])
    wanted = {tp: n if internal(tp.rpartition("-")[0]) else max(n, factor) for tp, n in most.items()}
    return [tp for tp in roles.leaders if len(roles.isr.get(tp, ())) < wanted.get(tp, factor)]
