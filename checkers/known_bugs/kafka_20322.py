"""In a mixed cluster no transaction ends: brokers refuse their coordinators' markers."""

import re
from typing import Final

from checkers.checks.recovery import STALLED, ClusterNotBack, StalledClient
from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.transaction_fates import Suspicion
from history.verdict import NOT_RECOVERED

STUCK: Final = re.compile(r"clients \[(?P<slots>[\d, ]+)\] have completed nothing since")
"""Why a cluster has not recovered whose brokers all answer and whose partitions are all in sync."""
SENDS: Final = (4, 2)
"""The first version whose coordinators send markers that earlier ones do not know."""
ASKS: Final = (4, 2, 1)
"""The first one whose coordinators ask which version the other broker knows."""
LAST_NS: Final = 10_000_000_000
"""A coordinator sends markers again at once: where they are refused, they are up to the end."""


def _refused(suspicion: Suspicion) -> bool:
    """All clients that complete nothing have transactions, and a broker still refuses markers at the end."""
    finding, history, versions = suspicion.finding, suspicion.history, suspicion.run.versions.known
    asks_nothing = any(SENDS <= version < ASKS for version in versions)
    if not asks_nothing or not any(version < SENDS for version in versions):
        return False
    assert isinstance(finding, ClusterNotBack)
    if isinstance(finding, StalledClient):
        slots = {finding.slot}
    elif (stuck := STUCK.fullmatch(finding.why)) is not None:
        slots = {int(slot) for slot in stuck["slots"].split(",")}
    else:
        return False
    transactional = {one.slot for one in history.processes.values() if one.transactional_id}
    at_the_end = (
        finding.at_ns - LAST_NS <= history.wall_ns(one.wall) <= finding.at_ns
        for one in history.broker_logs.refused
    )
    return slots <= transactional and any(at_the_end)


BUG: Final = KnownBug(
    title="Transactions hang in a mixed cluster: markers of a version that the older brokers do not know",
    link="KAFKA-20322",
    versions="brokers of 4.2.0 beside earlier ones",
    doc="""\
A coordinator of 4.2.0 sends the markers of a transaction (WriteTxnMarkers) in the newest version that it
knows, and does not ask which one the other broker knows. A broker of 4.1 or earlier closes the
connection, and the coordinator sends them again, for ever: the transaction is decided and does not end.
Its client can begin no other one, and consumers at read_committed wait. When all brokers have the later
version, all of that ends; no record is lost. Since 4.2.1 the coordinator asks.

A rolling upgrade hides it: `transactions` under `upgrade` from 4.1.2 to 4.2.0 was valid in 2 of 2 runs,
with refusals in the brokers' logs. Under `upgrade:one@txn-coordinator`, which leaves a mixed cluster, the
cluster did not recover in 2 of 2 runs to 4.2.0, and did in 2 of 2 to 4.2.1.""",
    evidence="Some brokers had 4.2.0, and some an earlier version. All brokers answer and all partitions are"
    " in sync, and the cluster did not recover, because clients have completed nothing since, or clients"
    " stand still; each of these has transactions. In the last 10 s before that, a broker's log says that it"
    " refused a request with markers, for a version that it does not know"
    " (`Received request for api with key 27 (WriteTxnMarkers) and unsupported version …`).",
    anomalies=(NOT_RECOVERED, STALLED),
    match=_refused,
)
