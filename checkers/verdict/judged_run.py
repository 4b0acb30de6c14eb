"""The verdict: what was found, whether it is allowed, what could not be decided, what it comes to."""

import traceback
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal

import msgspec
import numpy as np

from checkers.allowed import Answer, Ground, ground
from checkers.catalogue import ALL_CHECKS, ANOMALIES, INFORMATIONAL, check_of, permission
from checkers.checks import CHECKS, recovery
from checkers.checks.recovery import ServedTimes
from checkers.engine.check import Check, Reads, Tally
from checkers.engine.evidence import fetch
from checkers.engine.findings import FAIL, INFO, OK, Finding, Kind
from checkers.engine.kernel_input import OnRecord, on_record
from checkers.faults.hits import hits
from checkers.faults.in_force import RunFaults
from checkers.faults.liveness import liveness
from checkers.faults.reached import ClientFates, reached, reached_by_run, wanted
from checkers.known_bugs.registry import KNOWN_BUGS, labels
from checkers.verdict import incidents
from checkers.verdict.clients import clients
from checkers.verdict.incidents import ALL
from checkers.verdict.judged_logs import excuse_forgotten, section, undecided
from checkers.verdict.mixed_clusters import mixed
from checkers.verdict.repeat import repro
from checkers.verdict.requirements import required
from checkers.verdict.subjects import SUBJECTS, Held
from checkers.verdict.summary import NOT_ON_RECORD, first_doubts, interruption, summary
from checkers.verdict.witness import EXAMPLES, example
from core.config import RunConfig
from core.errors import ExitCode, HistoryError
from core.first_few import first_few
from core.producer_state import EXPIRATION, forgotten_after_ms
from core.secrets import masked
from core.systems import ImportedSection
from history.columns import numbers
from history.events import FaultFailed, Interrupted, Recovered, WrongClusterSeen, incomplete
from history.evidence import Evidence
from history.reader import History, planned_faults
from history.tables import OPEN
from history.verdict import (
    NOT_RECOVERED,
    Anomaly,
    CheckResult,
    CheckStatus,
    Fault,
    Liveness,
    Logs,
    ReportedIncident,
    Verdict,
)

LABELLED: Final = 32_768
"""Forbidden findings of one class and check that are compared with known bugs; beyond, none is claimed."""


Answers = Mapping[Kind, Answer]
"""Kind of a finding -> whether it is allowed here, and why."""


@dataclass(slots=True, kw_only=True)
class JudgedFinding:
    """One finding with what was decided about it. compared: with the signatures of known bugs."""

    finding: Finding
    allowed: bool
    why: str
    bug: str = ""
    compared: bool = False


@dataclass(kw_only=True)
class JudgedRun:
    """A run under judgement. engine: what judged it, in words. findings: those that were kept, the worst
    first (`judge` fills it)."""

    history: History
    config: RunConfig
    tally: Tally
    seconds: float
    evidence: Evidence = field(default_factory=lambda: Evidence({}))
    engine: str = "this process"
    findings: list[JudgedFinding] = field(default_factory=list)

    @cached_property
    def on_record(self) -> OnRecord:
        """What the history holds."""
        return on_record(self.history.config)

    @cached_property
    def incidents(self) -> list[incidents.Incident]:
        """What happened without being planned."""
        recorded = self.history.tables["processes"] if self.on_record.recovery else incidents.NO_PROCESSES
        return incidents.incidents(self.history.events, self.config, recorded)

    @cached_property
    def mixed(self) -> str:
        """What it holds of another cluster or run, "" = nothing; then nothing is this cluster's doing."""
        return mixed(self.history)

    @cached_property
    def logs(self) -> Logs:
        """What there was of brokers' logs; "" = they were judged."""
        return Logs(why=self.mixed) if self.mixed else section(self.evidence, self.history, self.tally)

    @cached_property
    def checks(self) -> Mapping[str, Check]:
        """The checks that this run can be asked."""
        return CHECKS if self.logs.why else ALL_CHECKS

    @cached_property
    def counts(self) -> Mapping[Kind, int]:
        """What they found."""
        found = self.tally.reported.items()
        return {kind: number for kind, number in found if not kind.check or kind.check in self.checks}

    @cached_property
    def fates(self) -> ClientFates:
        """What its clients went through."""
        return ClientFates(self.history, self.evidence)

    @cached_property
    def faults(self) -> RunFaults:
        """The faults that were in force."""
        return RunFaults(self.history)


def exit_code(
    *, forbidden: Iterable[str], unknown: bool, expect: Mapping[str, bool], interrupted: bool, unmet: bool
) -> ExitCode:
    """Exit code of a verdict: 130, then 1 > 3 > 4 > 2 > 5 > 0 (docs/architecture.md, "Exit codes").

    forbidden: classes with findings that are not allowed. expect: class -> found. unmet: a requirement is not
    met.
    """
    classes = set(forbidden)
    if interrupted:
        return ExitCode.INTERRUPTED
    if classes - {NOT_RECOVERED}:
        return ExitCode.ANOMALY
    if classes:
        return ExitCode.NOT_RECOVERED
    if not all(expect.values()):
        return ExitCode.SILENT
    if unknown:
        return ExitCode.UNKNOWN
    return ExitCode.UNMET if unmet else ExitCode.VALID


def judge(run: JudgedRun) -> Verdict:
    """The verdict of a run.

    Raises: HistoryError, where records of an example cannot be read; ConfigError, where what is required says
    nothing.
    """
    history = run.history
    here = replace(ground(run.config), rebalances=run.on_record.positions)
    _forget(run)
    answers = {kind: _answer(run, here, kind) for kind in run.counts}
    anomalies = _anomalies(run, answers)
    served, faults = _served(run)
    unknown = _undecided(run)
    checks = _checks(run, answers, unknown)
    forbidden = [name for name, anomaly in anomalies.items() if anomaly.disallowed]
    reasons = [f"{name}: {why}" for name, some in unknown.items() if name in CHECKS for why in some]
    reasons += [f"{n}: the check crashed" for n, c in checks.items() if c.status == "crashed"]
    reasons += undecided(run.logs, checks)
    interrupted = any(isinstance(event, Interrupted) for event in history.events)
    found = {kind.name for kind in run.counts if not kind.check}  # a control is about what clients see
    # what a check that crashed, or could not decide, would have found is not known to be missing
    without_answer = [name for name in CHECKS if checks[name].status in ("crashed", "unknown")]
    open_ = {name for check in without_answer for name in CHECKS[check].anomalies}
    wanted = [name for name in run.config.expect if not run.mixed and name not in open_ - found]
    expect = {name: name in found for name in wanted}
    valid: bool | Literal["unknown"] = not forbidden
    if valid and reasons:
        valid = "unknown"
    seen = [event for event in history.events if isinstance(event, Recovered) and not run.mixed]
    verdict = Verdict(
        run=history.run.name,
        valid=valid,
        exit_code=ExitCode.VALID,
        seed=run.config.seed,
        summary="",
        config=masked(history.config),
        anomalies=anomalies,
        checks=checks,
        unknown=reasons,
        expect=expect,
        recovered=_recovered(run, seen),
        recovery_s=seen[-1].seconds if seen and seen[-1].recovered else None,
        interrupted=interrupted,
        faults=faults,
        stats=_stats(run, faults),
        repro=repro(run.config, history.run),
        liveness=served,
        logs=run.logs,
        incidents=_told(run),
        engine=run.engine,
        clients=clients(run.history),
        reached=reached_by_run(run.fates, (fault.reached for fault in faults)),
    )
    verdict = msgspec.structs.replace(verdict, requirements=required(run.config.require, verdict))
    code = exit_code(
        forbidden=forbidden,
        unknown=bool(reasons),
        expect=expect,
        interrupted=interrupted,
        unmet=bool(verdict.unmet),
    )
    return msgspec.structs.replace(verdict, exit_code=code, summary=summary(verdict, interruption(history)))


def _recovered(run: JudgedRun, seen: Sequence[Recovered]) -> bool | None:
    """Whether the cluster came back; None = that is not known. seen: whether it did, as far as on record."""
    if not seen or seen[-1].recovered or seen[-1].stalled:
        return True if seen else None
    return False if any(kind.name == NOT_RECOVERED for kind in run.counts) else None


def _forget(run: JudgedRun) -> None:
    """See `excuse_forgotten`."""
    if not run.logs.why:
        last_s = max(run.history.seconds(row["at_ns"]) for row in run.evidence.table("takes").to_pylist())
        producers = {EXPIRATION: str(forgotten_after_ms(run.config))}
        settings = run.history.config.get("broker_settings", {}) | producers
        excuse_forgotten(run.tally, settings, round(1000 * last_s))


def _anomalies(run: JudgedRun, answers: Answers) -> dict[str, Anomaly]:
    """Every class that was found. Leaves its findings in `run.findings`."""
    found = [name for name in ANOMALIES if any(kind.name == name for kind in answers)]
    judged = {name: _judged(run, answers, name) for name in found}
    shown = {name: _shown(judged[name]) for name in found}
    every = [each for some in shown.values() for each in some]
    fetched = fetch(run.history, (each.finding.wanted for each in every))
    for each in every:
        each.finding = each.finding.completed(fetched)
    run.findings = [each for name in found for each in judged[name]]
    return {name: _anomaly(run, answers, name, judged[name], shown[name]) for name in found}


def _of_each_check(judged: Iterable[JudgedFinding], at_most: int) -> Iterator[JudgedFinding]:
    """The first ones that the history shows, and the first ones of each check of evidence."""
    many: Counter[str] = Counter()
    for one in judged:
        many[one.finding.check] += 1
        if many[one.finding.check] <= at_most:
            yield one


def _shown(judged: Sequence[JudgedFinding]) -> list[JudgedFinding]:
    """The examples, in their order: among the first of each check, those of each partition in turn."""
    turns: Counter[tuple[object, ...]] = Counter()
    keyed = []
    for number, one in enumerate(judged):
        alike = one.finding.check, one.allowed, one.compared, bool(one.bug)
        turns[*alike, one.finding.tp] += 1
        keyed.append((_order(one)[:-1], turns[*alike, one.finding.tp], number))
    ordered = [judged[number] for *_, number in sorted(keyed)]
    chosen = {id(one) for one in _of_each_check(ordered, EXAMPLES)}
    return [one for one in judged if id(one) in chosen]


def _answer(run: JudgedRun, here: Ground, kind: Kind) -> Answer:
    if run.mixed:
        return True, run.mixed
    foreign = run.config.has(ImportedSection)
    of = ANOMALIES[kind.name]
    if (of.absence or kind.variant in of.lacking) and foreign and any(map(incomplete, run.history.events)):
        return (
            True,
            "the import could not read everything, and this rests on what the recording does not show",
        )
    return permission(here, kind)


def _judged(run: JudgedRun, answers: Answers, name: str) -> list[JudgedFinding]:
    """The findings of a class that were kept: forbidden ones first, then those that were compared with known
    bugs, then unexplained, then early."""
    judged = []
    for finding in run.tally.findings:
        if finding.name == name and finding.kind in answers:
            permitted, why = answers[finding.kind]
            judged.append(JudgedFinding(finding=finding, allowed=permitted, why=why))
    compared = list(_of_each_check((each for each in judged if not each.allowed), LABELLED))
    bugs = labels(run.history, run.evidence, [each.finding for each in compared])
    for each, bug in zip(compared, bugs, strict=True):
        each.bug, each.compared = bug, True
    return sorted(judged, key=_order)


def _order(judged: JudgedFinding) -> tuple[object, ...]:
    finding, bug = judged.finding, bool(judged.bug)
    # what was not compared may bear a bug, too: as an example it would pass for a finding of its own
    return bool(finding.check), judged.allowed, not judged.compared, bug, finding.check, finding.order


def _anomaly(
    run: JudgedRun,
    answers: Answers,
    name: str,
    judged: Sequence[JudgedFinding],
    shown: Iterable[JudgedFinding],
) -> Anomaly:
    of = ANOMALIES[name]
    counts = {kind: n for kind, n in run.counts.items() if kind.name == name}
    disallowed = sum(n for kind, n in counts.items() if not answers[kind][0])
    told = [answers[kind] for kind in sorted(counts)]
    reasons = dict.fromkeys(why for permitted, why in told if permitted == (not disallowed))
    forbidden = [each for each in judged if not each.allowed]
    bugs = {each.bug for each in forbidden}
    # claimed for the class only where every single finding was kept, and bears one
    known = sorted(bugs) if len(forbidden) == disallowed and "" not in bugs else []
    return Anomaly(
        title=of.title,
        literature=of.literature,
        meaning=of.meaning,
        count=sum(counts.values()),
        disallowed=disallowed,
        allowed=disallowed == 0,
        why="; ".join(reasons),
        known_bug=", ".join(known),
        known_bug_url=KNOWN_BUGS[known[0]].address if len(known) == 1 else "",
        examples=[
            example(run.faults, each.finding, allowed=each.allowed, why=each.why, bug=each.bug)
            for each in shown
        ],
    )


def _served(run: JudgedRun) -> tuple[Liveness, list[Fault]]:
    """How the run was served, and its faults with what they hit; a crash is one of the check of recovery."""
    served, faults = Liveness(), run.faults.faults
    try:
        served = liveness(run.faults, dict(run.tally.parts_of(recovery.NAME, ServedTimes)))
        found = hits(run.history, served)
        facts = reached(run.fates, found)
    except HistoryError:
        raise
    except Exception:  # noqa: BLE001 (named as crashed, and no reason to lose the verdict)
        run.tally.crashed.setdefault(recovery.NAME, traceback.format_exc(limit=-3))
        return served, faults
    return served, [
        msgspec.structs.replace(
            fault, hits=found[fault.fault], reached=facts[fault.fault], wanted=wanted(fault.name)
        )
        for fault in faults
    ]


def _undecided(run: JudgedRun) -> dict[str, list[str]]:
    """Check -> what kept it from deciding. An empty run decides nothing, and where all faults failed
    nothing was decided about a cluster under faults. Causes come before what follows from them."""
    history, tally = run.history, run.tally
    causes = [f"not only this run's own: {run.mixed}"] if run.mixed else []
    events = [event for event in history.events if not isinstance(event, WrongClusterSeen)]
    cut = interruption(history)
    whys = [cut if isinstance(event, Interrupted) else incomplete(event) for event in events]
    causes += [f"the recording is not whole: {why}" for why in whys if why]
    causes += [_unmade(run)] * bool(_unmade(run))
    reasons = {name: list(causes) for name in CHECKS} if causes else {}
    for name in CHECKS:
        if told := [one.text for one in run.incidents if name in one.checks]:
            reasons.setdefault(name, []).extend(told)
    for doubt in tally.doubts:
        reasons.setdefault(doubt.check, []).append(doubt.text(history))
    for name in run.checks.keys() - CHECKS.keys() if run.logs.missing else ():
        if tally.asked[name]:  # what it did not see may refute it
            reasons.setdefault(name, []).append(f"evidence is missing: {run.logs.missing[0]}")
    if tally.unread:
        names = first_few([*map(history.tp, tally.unread)], 4)
        for name, check in CHECKS.items():
            if check.content:
                why = f"the final reads did not reach the end of {names}"
                reasons.setdefault(name, []).append(why)
    for name, check in CHECKS.items():
        if not tally.rows:
            reasons.setdefault(name, []).append("nothing was sent or read")
        elif run.config.has(ImportedSection):
            continue
        elif not tally.acknowledged and check.subject == "acknowledgements":
            reasons.setdefault(name, []).append("no record was acknowledged")
    return reasons


def _unmade(run: JudgedRun) -> str:
    """Why faults were planned and none came into force; "" = one did, or none was planned."""
    failed = [event for event in run.history.events if isinstance(event, FaultFailed)]
    if {one.fault for one in run.faults.faults} - {event.fault for event in failed}:
        return ""
    if failed:
        return f"none of the planned faults came into force; the first, {failed[0].name}: {failed[0].why}"
    planned = planned_faults(run.history.run)
    return f"none of the {planned} planned faults came into force" if planned else ""


def _told(run: JudgedRun) -> list[ReportedIncident]:
    """The incidents as the verdict has them."""
    return [
        ReportedIncident(
            at_s=round(run.history.seconds(one.ns), 3),
            text=one.text,
            checks=["all"] if one.checks == ALL else sorted(one.checks),
        )
        for one in run.incidents
    ]


def _checks(run: JudgedRun, answers: Answers, unknown: Mapping[str, Sequence[str]]) -> dict[str, CheckResult]:
    tally, held = run.tally, Held(run.history, run.tally)
    found: dict[str, dict[Kind, int]] = defaultdict(dict)
    for kind, number in run.counts.items():
        found[check_of(kind)][kind] = number
    results: dict[str, CheckResult] = {}
    for name, check in run.checks.items():
        mine, doubts = found[name], first_doubts(unknown.get(name, ()))
        forbidden = [kind for kind in sorted(mine) if not answers[kind][0]]
        lacks, asked = _asked(check, name, held)
        status: CheckStatus = "valid"
        why = ""
        if name in tally.crashed:
            status, why = "crashed", tally.crashed[name]
        elif forbidden:
            bad = dict.fromkeys(
                anomaly for anomaly in check.anomalies for kind in forbidden if kind.name == anomaly
            )
            status, why = "invalid", f"found {', '.join(bad)}"
        elif doubts:
            status, why = "unknown", "; ".join(doubts)
        elif check.needs and not getattr(run.on_record, check.needs):
            status, why = "unasked", NOT_ON_RECORD
        elif told := list(_permitted(check, mine, answers)):
            status, why = "permitted", "; ".join(told)
        elif not asked:
            status, why = "unasked", lacks
        results[name] = CheckResult(
            claim=check.claim_of(run.config),
            status=status,
            seconds=round(tally.seconds.get(name, 0.0), 4),
            rows=tally.rows if check.reads is Reads.HISTORY else tally.asked[name],
            why=why,
            anomalies=list(check.anomalies),
            found=sum(mine.values()),
            disallowed=sum(mine[kind] for kind in forbidden),
            doubts=doubts,
            ring=check.ring,
        )
    return results


def _asked(check: Check, name: str, held: Held) -> tuple[str, bool]:
    """Whether the run has something that the check could have refused; what is missing else, in words."""
    if check.reads is not Reads.HISTORY:
        return "", held.tally.asked[name] > 0
    lacks, has = SUBJECTS[check.subject] if check.subject else ("", None)
    return f"nothing to judge: {lacks}", has is None or has(held)


def _permitted(check: Check, found: Mapping[Kind, int], answers: Answers) -> Iterator[str]:
    """What a check found and nothing here forbids, in words."""
    for anomaly in check.anomalies:
        whys = [answers[kind][1] for kind in sorted(found) if kind.name == anomaly]
        if whys and anomaly not in INFORMATIONAL:
            yield f"found {anomaly}: {'; '.join(dict.fromkeys(whys))}"


def _stats(run: JudgedRun, faults: Sequence[Fault]) -> dict[str, float]:
    ops = run.history.tables["ops"]
    outcome, begin, end = (numbers(ops, n) for n in ("outcome", "invoke_ns", "complete_ns"))
    done = end[end != OPEN]
    lasted = (max(done.max(initial=0), begin.max(initial=0)) - begin.min(initial=OPEN)) / 1e9
    return {
        "ops": len(outcome),
        "ok": int((outcome == OK).sum()),
        "fail": int((outcome == FAIL).sum()),
        "info": int((outcome == INFO).sum()),
        "records sent": int(np.sum(numbers(ops, "n_sends"))),
        "records acknowledged": run.tally.acknowledged,
        "records read": int(np.sum(numbers(ops, "n_reads"))),
        "partitions": run.history.tables["tps"].num_rows,
        "faults": len(faults),
        "idle faults": sum(fault.idle for fault in faults),
        "faults that were not made": sum(isinstance(event, FaultFailed) for event in run.history.events),
        "seconds recorded": round(float(lasted), 3) if len(outcome) else 0.0,
        "seconds to check": round(run.seconds, 3),
    }
