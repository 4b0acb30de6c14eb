"""One run of an exploration: simulated in memory, checked in this process, judged.

Not here: which config (`profile`), runs with files (`harness.run`), the whole verdict (`checkers.verdict`).
"""

import traceback
from collections.abc import Sequence
from typing import Any

import msgspec

from checkers.catalogue import allowed
from checkers.kernel_types import LOG
from checkers.pipeline import check_tables
from checkers.whole import Tally
from harness import events as ev
from harness.config import RunConfig
from harness.process_rows import rows_of
from harness.simulate import Simulated, simulate


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one run.

    anomalies: forbidden classes -> findings. unknown: what could not be decided. broken: invariants of the
    model that did not hold, by name. unfinished: what the cluster left undone. crashed: how the simulation
    ended before its time. simulated_s: seconds of the simulated clock.
    """

    seed: int
    config: dict[str, Any]
    anomalies: dict[str, int] = {}
    unknown: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()
    crashed: str = ""
    simulated_s: float = 0.0

    @property
    def failures(self) -> list[str]:
        """Why it is no clean run, in words; empty = it is one."""
        found = [f"{name} ({count})" for name, count in self.anomalies.items()]
        told = {"unknown": self.unknown, "broken": self.broken, "unfinished": self.unfinished}
        found += [f"{word}: {why}" for word, reasons in told.items() for why in reasons]
        return found + ([f"crashed: {self.crashed}"] if self.crashed else [])


def trial(config: RunConfig, *, invariants: bool = True) -> Trial:
    """Make the run and judge it. What breaks in the simulation is told, not raised.

    invariants: look at those of the model too, after every event.
    """
    told = config.model_dump(mode="json", exclude_defaults=True)
    try:
        done = simulate(config, invariants=invariants)
    except Exception as error:  # noqa: BLE001 (a fault of the model is a failure of this run only)
        where = "".join(traceback.format_exception(error, limit=-2)).strip().splitlines()
        return Trial(seed=config.seed, config=told, crashed=" | ".join(map(str.strip, where[-3:])))
    tally = checked(done)
    return Trial(
        seed=config.seed,
        config=told,
        anomalies=forbidden(config, done.events, tally),
        unknown=tuple(_undecided(tally, done.events)),
        broken=tuple(dict.fromkeys(broken.name for broken in done.broken)),
        unfinished=tuple(done.unfinished),
        simulated_s=round(done.simulated_s, 3),
    )


def checked(done: Simulated) -> Tally:
    """Everything that was found in a simulated run."""
    rows = rows_of(done.journals)
    bounds = [event for event in done.events if isinstance(event, ev.BoundsListed)]
    rows.add_bounds(bounds[-1].rows if bounds else ())
    return check_tables(rows.tables(), portable=False, events=done.events)


def forbidden(config: RunConfig, events: Sequence[ev.Event], tally: Tally) -> dict[str, int]:
    """Findings that are not allowed in this run, by class."""
    faults = [event for event in events if isinstance(event, ev.FaultStarted)]
    found: dict[str, int] = {}
    for finding in tally.findings:
        if finding.variant != LOG and not allowed(config, faults, finding)[0]:
            found[finding.name] = found.get(finding.name, 0) + 1
    return dict(sorted(found.items()))


def _undecided(tally: Tally, events: Sequence[ev.Event]) -> list[str]:
    """What keeps the run from being decided (as `checkers.verdict` has it, but for faults that found no
    target: they make no run unclean)."""
    reasons = [f"the check of {subject} crashed" for subject in sorted(tally.crashed)]
    counted = {
        "committed records may be lost or not": tally.undecided,
        "transactions may be torn or not": tally.torn_undecided,
        "inputs may have been copied or not": tally.eos_undecided,
        "partitions were not read to their end": len(tally.unread),
        "partitions' ends are not known": len(tally.unlisted),
    }
    reasons += [f"{count} {what}" for what, count in counted.items() if count]
    if tally.recovered is None:
        reasons.append("whether the cluster recovered")
    reasons += [e.text for e in events if isinstance(e, ev.Note) and e.incomplete]
    if not tally.rows:
        reasons.append("nothing was sent or read")
    return reasons
