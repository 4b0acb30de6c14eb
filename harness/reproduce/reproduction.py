"""What a reproduction is: a schedule with two sides, and what it leaves to be judged."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.reproduce.answers import PerformedRequest
from harness.reproduce.cluster import PerformedWait
from harness.reproduce.coordinators import PerformedCommit, PerformedTransaction
from harness.reproduce.dead_letters import PerformedLetters
from harness.reproduce.deleted_topics import PerformedDeletion
from harness.reproduce.late_requests import PerformedEndings
from harness.reproduce.sendings import Sent
from harness.reproduce.share_members import PerformedDeliveries
from harness.reproduce.stage import Deaths
from harness.reproduce.three_brokers import PerformedReplicas

Performed = (
    PerformedTransaction
    | PerformedCommit
    | PerformedDeletion
    | PerformedDeliveries
    | PerformedEndings
    | PerformedLetters
    | PerformedReplicas
    | PerformedRequest
    | PerformedWait
    | Sent
)
"""What a schedule left, to be judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """A known bug.

    title: what a user loses. bad, good: what the sides are. versions: of Kafka, for bad and good. settings:
    of the brokers on the bad and the good side.
    play: performs a run (its name, whether it is the good side). left_out: the coordinator's log says so when
    the bug happens: it leaves out markers (`history.broker_logs`). label: of the findings that the bug causes
    in runs of a workload (`checkers.known_bugs`), or of what Kafka permits (`rates`). wire: clients reach the
    brokers through the proxy that knows frames. between: brokers reach each other through such proxies, too;
    controllers: and the controller. deaths: how its coordinators may lose their partition (--deaths). shows:
    the classes of anomalies of the bad side, of records whose fate tells: these and no others. on_zookeeper:
    its cluster is that of `three_brokers`, else that of `stage`. log_dirs: log directories of each broker
    there. upgrade: the later version that some brokers get on the bad and the good side.
    """

    title: str
    bad: str
    good: str
    versions: tuple[str, str]
    play: Callable[[Any, str, bool], Performed]
    label: str
    left_out: bool = False
    settings: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})
    wire: bool = False
    between: bool = False
    controllers: bool = False
    deaths: tuple[Deaths, ...] = (Deaths.KILL,)
    shows: frozenset[str] = frozenset()
    on_zookeeper: bool = False
    log_dirs: int = 1
    upgrade: tuple[str, str] = ("", "")
