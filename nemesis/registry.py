"""The registry of nemeses: every name that a run can be asked for."""

from core.extensions import extensions
from nemesis.families.add_partitions import ADD_PARTITIONS
from nemesis.families.client import CLIENT
from nemesis.families.delete_records import DELETE_RECORDS
from nemesis.families.disk import DISK
from nemesis.families.elections import ELECTIONS
from nemesis.families.failover import FAILOVER
from nemesis.families.half_open import HALF_OPEN
from nemesis.families.links import LINKS
from nemesis.families.partition import PARTITION
from nemesis.families.power import POWER
from nemesis.families.process import KILL, PAUSE
from nemesis.families.quorum import QUORUM
from nemesis.families.reassign import REASSIGN
from nemesis.families.recreate_topics import RECREATE_TOPICS
from nemesis.families.restart import RESTART
from nemesis.families.slow_follower import SLOW_FOLLOWER
from nemesis.families.unclean import UNCLEAN
from nemesis.families.upgrade import UPGRADE
from nemesis.families.wire import WIRE
from nemesis.types import Nemesis

NONE = Nemesis(
    name="none",
    doc="""\
No faults.

The baseline: cluster and clients without faults. An anomaly of such a run is a bug that needs no fault, or a
false alarm.""",
    colour="#999999",
)

FAMILIES = (
    PARTITION,
    KILL,
    PAUSE,
    RESTART,
    FAILOVER,
    ELECTIONS,
    CLIENT,
    LINKS,
    WIRE,
    HALF_OPEN,
    UNCLEAN,
    POWER,
    REASSIGN,
    UPGRADE,
    SLOW_FOLLOWER,
    ADD_PARTITIONS,
    DELETE_RECORDS,
    RECREATE_TOPICS,
    DISK,
    QUORUM,
)

DRAWN = tuple(one for one in FAMILIES if one.in_random)
"""The families that `random` draws from."""
RANDOM = Nemesis(
    name="random",
    doc=f"""\
Phases with one fault or two that overlap, and calm phases.

Drawn are {", ".join(f"`{one.name}`" for one in DRAWN)} and extensions.
All of it follows from the seed. The two faults of a phase are of different families. Families, kinds
and targets are dealt like cards, so that none is left out for long. About every fourth phase is calm.
What the cluster or the workload cannot have is left out; so are rolling restarts, beside which no other
fault could begin or end.

The calm phases matter: under faults without a pause a cluster is simply down, and what it does
wrong when it comes back is never seen.""",
    colour="#999999",
    needs=tuple(dict.fromkeys(need for one in DRAWN for need in one.needs)),
)

SCHEDULE = Nemesis(
    name="schedule",
    doc="""\
The faults of a file: `--schedule FILE`.

A person wrote it, or a run recorded it (`schedule.jsonl` of its folder). Each line is one fault as JSON:
`{"name": "partition:isolate@leader", "at_s": 2, "hold_s": 6}`. Names are those of `--nemesis`; times are in
seconds from the begin of the phase of faults. Lines that begin with `#` are skipped.

Use it to repeat a recorded or shrunk schedule, or to write down a rare sequence by hand.""",
    colour="#999999",
)

NEMESES: dict[str, Nemesis] = {
    **{nemesis.name: nemesis for nemesis in (NONE, *FAMILIES, RANDOM, SCHEDULE)},
    **extensions("nemeses"),
}
"""Name -> nemesis, extensions last. The ones with an `effect` are families of faults, and can be mixed."""
