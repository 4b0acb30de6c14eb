"""What a test and its run say to each other: one JSON object a line."""

import msgspec

from core.presets import NamedSettings
from harness.processes.child import ChildLine


class Start(msgspec.Struct, frozen=True, kw_only=True, tag="start"):
    """Start the cluster and its load; the first command. settings: of the run (`core.config.RunConfig`).
    results: folder for run folders. cluster: file of an external one, "" = none; owned: it is ours to
    break."""

    settings: NamedSettings
    results: str
    cluster: str = ""
    owned: bool = False


class Break(msgspec.Struct, frozen=True, tag="break"):
    """Begin the phase of faults. nemesis, seed: of the plan. "" = that of the run's settings; a seed that is
    None is theirs too, where they name the nemesis, else 0."""

    nemesis: str
    seed: int | None


class Mend(msgspec.Struct, frozen=True, tag="mend"):
    """End the phase of faults."""


class EndRun(msgspec.Struct, frozen=True, tag="end"):
    """Read everything back, remove the cluster, and end. The first part is left out where standard input ends
    without this command."""


Command = Start | Break | Mend | EndRun


class Told(ChildLine, frozen=True, kw_only=True):
    """What became true. folder: that of the run. bootstrap: addresses of the brokers; all clients work.
    refused: why there are no such faults. first_s: when the first fault is planned to be in force, in seconds
    since the phase of faults began; 0 = none is planned. hit: a fault is in force, or none is planned.
    healed: no fault is, and the cluster has recovered or had its time for it. recorded: all is on disk, the
    cluster removed. of_caller: `error` is about what was asked for, and no failure of the cluster."""

    folder: str = ""
    bootstrap: str = ""
    refused: str = ""
    first_s: float = 0.0
    hit: bool = False
    healed: bool = False
    recorded: bool = False
    of_caller: bool = False
