"""One run of an exploration: simulated in memory, checked in this process, judged."""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from checkers.api import check_tables
from checkers.catalogue import allowed
from checkers.engine.check import Tally
from checkers.engine.findings import Finding, Level, LogFinding
from core.config import RunConfig
from core.presets import NamedSettings
from harness.explore.explained import explained_by
from harness.explore.forked import last_lines
from harness.modelled.virtual.evidence import evidence
from harness.modelled.virtual.run import Simulated, seldom_collecting, simulate
from history import events as ev
from history.journal_rows import rows_of


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one run.

    config: the settings that differ from the defaults. shows: the class that shows its mutant, the principal
    one before others; "" = none does. anomalies: forbidden classes → number of findings. weak: known
    weaknesses of Kafka that did harm → how often; explained: findings that come from them, by class, which
    do not fail the run. unknown: what the checks could not decide. broken: invariants of the model that
    did not hold. refused: rules about brokers' logs → places that they refuse, where they were asked, no
    known weakness did harm, and no marker was left out there. unfinished: what the cluster left undone.
    crashed: the exception that ended the simulation. harness: what kept the harness from making or judging
    the run, checks that crashed among it, which says nothing about the run.
    simulated_s: of the simulated clock.
    """

    seed: int
    config: NamedSettings
    shows: str = ""
    anomalies: dict[str, int] = {}
    weak: dict[str, int] = {}
    explained: dict[str, int] = {}
    unknown: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    refused: dict[str, int] = {}
    unfinished: tuple[str, ...] = ()
    crashed: str = ""
    harness: str = ""
    simulated_s: float = 0.0

    @property
    def failures(self) -> list[str]:
        """Why the run is not clean, in words; empty = it is clean."""
        of_harness = [f"a failure of the harness: {self.harness}"] if self.harness else []
        return self.of_the_run + of_harness

    @property
    def of_the_run(self) -> list[str]:
        """The failures that are not the harness's."""
        found = [f"{name} ({count})" for name, count in self.anomalies.items()]
        found += [f"brokers' logs: {rule} ({count})" for rule, count in self.refused.items()]
        told = {"unknown": self.unknown, "broken": self.broken, "unfinished": self.unfinished}
        found += [f"{word}: {why}" for word, reasons in told.items() for why in reasons]
        return found + ([f"crashed: {self.crashed}"] if self.crashed else [])

    @property
    def why(self) -> str:
        """Its failures in one line."""
        return "; ".join(self.failures)


def trial(config: RunConfig, *, invariants: bool = True, logs: bool = False) -> Trial:
    """Perform the run and judge it. An exception of the simulation becomes part of the result.

    invariants: check those of the model too, after every event. logs: ask the rules about brokers' logs too;
    they take a third of the time of all else.
    """
    with seldom_collecting():
        try:
            done = simulate(config, invariants=invariants)
        except Exception as error:  # noqa: BLE001 (a fault of the model is a failure of this run only)
            return Trial(seed=config.seed, config=settings(config), crashed=last_lines(error))
        return judged(done, logs=logs)


def judged(done: Simulated, *, logs: bool = False) -> Trial:
    """Judge a run that was simulated. logs: as of `trial`."""
    tally = checked(done, logs=logs)
    found = findings(done, tally)
    explained = explained_by(done.weak, done.journals, found)
    return Trial(
        seed=done.config.seed,
        config=settings(done.config),
        anomalies=counted(one for one in found if one not in explained),
        weak=dict(sorted(Counter(one.name for one in done.weak).items())),
        explained=counted(explained),
        unknown=tuple(_undecided(tally, done.events)),
        harness="; ".join(
            f"the check of {name} crashed: {how}" for name, how in sorted(tally.crashed.items())
        ),
        refused=_refused(done, tally),
        broken=tuple(dict.fromkeys(broken.name for broken in done.broken)),
        unfinished=tuple(done.unfinished),
        simulated_s=round(done.simulated_s, 3),
    )


def _refused(done: Simulated, tally: Tally) -> dict[str, int]:
    known = Counter[str]()
    for one in tally.findings:
        if isinstance(one, LogFinding):
            epochs = (one.producer_epoch, one.producer_epoch + 1)  # of the producer, or its marker's
            known[one.check] += any((one.producer_id, each, one.log) in done.left_out for each in epochs)
    return {} if done.weak else dict(sorted((tally.refused - known).items()))


def settings(config: RunConfig) -> NamedSettings:
    """Those that differ from the defaults."""
    return config.model_dump(mode="json", exclude_defaults=True)


def checked(done: Simulated, *, logs: bool = False) -> Tally:
    """All findings of a simulated run. logs: those in brokers' logs, too."""
    rows = rows_of(done.journals)
    bounds = [event for event in done.events if isinstance(event, ev.BoundsListed)]
    rows.add_bounds(bounds[-1].rows if bounds else ())
    found = evidence(done.cluster) if logs else None
    return check_tables(rows.tables(), recorded=True, events=done.events, config=done.config, evidence=found)


def findings(done: Simulated, tally: Tally) -> list[Finding]:
    """The findings of clients that are not allowed in this run."""
    return [
        one
        for one in tally.findings
        if not one.check and one.variant is not Level.LOG and not allowed(done.config, one.kind)[0]
    ]


def counted(found: Iterable[Finding]) -> dict[str, int]:
    """How many there are of each class."""
    return dict(sorted(Counter(one.name for one in found).items()))


def forbidden(done: Simulated, tally: Tally) -> dict[str, int]:
    """How many findings of each class are not allowed in this run."""
    return counted(findings(done, tally))


def _undecided(tally: Tally, events: Sequence[ev.Event]) -> list[str]:
    """What keeps the run from being decided. Unlike in a verdict, faults without a target and groups that
    committed nothing make no run unclean."""
    reasons = [doubt.text() for doubt in tally.doubts if doubt.group < 0 and doubt.log is None]
    if tally.unread:
        reasons.append(f"{len(tally.unread)} partitions were not read to their end")
    reasons += filter(None, map(ev.incomplete, events))
    if not tally.rows:
        reasons.append("nothing was sent or read")
    return reasons
