"""The verdict: what was found, what could not be decided, what it comes to.

Not here: finding (`checkers.pipeline`), the findings one by one (`checkers.case`), files
(`checkers.judging`).
"""

import traceback
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np

from checkers.case import Case, sum_up
from checkers.catalogue import CHECKS
from checkers.kernel_types import FAIL, INFO, OK
from checkers.liveness import liveness
from checkers.repeat import repro
from checkers.sealed import numbers
from harness.events import FaultFailed, Note
from harness.history import OPEN
from harness.verdict import CheckResult, Liveness, Verdict

VALID, ANOMALY, UNKNOWN, NOT_RECOVERED, CONTROL_SILENT, INTERRUPTED = 0, 1, 2, 3, 4, 130


def exit_code(
    *, forbidden: Iterable[str], unknown: bool, expect: Mapping[str, bool], interrupted: bool
) -> int:
    """Exit code of a verdict: 130, then 1 > 3 > 4 > 2 > 0 (docs/architecture.md, "Exit codes").

    forbidden: classes with findings that are not allowed. expect: class -> found.
    """
    classes = set(forbidden)
    if interrupted:
        return INTERRUPTED
    if classes - {"not-recovered"}:
        return ANOMALY
    if classes:
        return NOT_RECOVERED
    if not all(expect.values()):
        return CONTROL_SILENT
    return UNKNOWN if unknown else VALID


def judge(case: Case) -> Verdict:
    """The verdict of a run."""
    anomalies = sum_up(case)
    served = _liveness(case)
    forbidden = [name for name, anomaly in anomalies.items() if anomaly.disallowed]
    unknown = _undecided(case)
    checks = _checks(case, forbidden, unknown)
    words = [f"{name}: {why}" for name, reasons in unknown.items() for why in reasons]
    words += [f"{n}: the check crashed" for n, c in checks.items() if c.status == "crashed"]
    notes = [event for event in case.sealed.events if isinstance(event, Note)]
    interrupted = any(n.incomplete and n.text.startswith("interrupted") for n in notes)
    found = {name for name, _ in case.counts}
    expect = {name: name in found for name in case.config.expect}
    valid: bool | Literal["unknown"] = not forbidden
    if valid and words:
        valid = "unknown"
    recovery = case.tally.recovered
    verdict = Verdict(
        run=case.sealed.run.name,
        valid=valid,
        exit_code=exit_code(
            forbidden=forbidden, unknown=bool(words), expect=expect, interrupted=interrupted
        ),
        seed=case.config.seed,
        summary="",
        config=case.sealed.config,
        anomalies=anomalies,
        checks=checks,
        unknown=words,
        expect=expect,
        recovered=None if recovery is None else recovery.recovered,
        recovery_s=recovery.seconds if recovery is not None and recovery.recovered else None,
        interrupted=interrupted,
        faults=case.lookup.faults,
        stats=_stats(case),
        repro=repro(case.config, case.sealed.run),
        liveness=served,
    )
    return msgspec.structs.replace(verdict, summary=_summary(verdict))


def _liveness(case: Case) -> Liveness:
    """How the run was served; a crash is told by the check of recovery."""
    try:
        return liveness(case.lookup, case.tally.progress)
    except Exception:  # noqa: BLE001 (named as crashed, and no reason to lose the verdict)
        case.tally.crashed.setdefault("liveness", traceback.format_exc(limit=-3))
        return Liveness()


def _undecided(case: Case) -> dict[str, list[str]]:
    """Check -> what kept it from deciding. An empty run decides nothing, and where all faults failed
    nothing was decided about a cluster under faults. Causes come before what follows from them."""
    tally, reasons = case.tally, dict[str, list[str]]()

    def doubt(check: str, why: str) -> None:
        reasons.setdefault(check, []).append(why)

    for event in case.sealed.events:
        if isinstance(event, Note) and event.incomplete:
            for name in CHECKS:
                doubt(name, f"the recording is not whole: {event.text}")
    failed = [event for event in case.sealed.events if isinstance(event, FaultFailed)]
    if failed and not case.lookup.faults:
        told = f"none of the planned faults came into force; the first, {failed[0].name}: {failed[0].why}"
        for name in CHECKS:
            doubt(name, told)
    if tally.undecided:
        doubt("durability", f"{tally.undecided} committed records may be lost or not: the final"
                            " reads did not reach them")  # fmt: skip
    if tally.torn_undecided:
        doubt("atomicity", f"{tally.torn_undecided} transactions are partly visible, and the final"
                           " reads did not reach the rest")  # fmt: skip
    if tally.eos_undecided:
        doubt("exactly-once", f"{tally.eos_undecided} inputs may have been copied or not: the final"
                              " reads did not reach the copies")  # fmt: skip
    for group, copies in tally.silent.items():
        for name in ("group-delivery", "exactly-once") if copies else ("group-delivery",):
            doubt(name, f"no commit of group {case.lookup.group(group)} is known to have succeeded")
    if tally.unread:
        where = _listed(case, tally.unread)
        for name, check in CHECKS.items():
            if check.content:
                doubt(name, f"the final reads did not reach the end of {where}")
    if tally.unlisted:
        where = _listed(case, tally.unlisted)
        doubt("stability", f"where the logs of {where} end with all transactions over is not known")
    if tally.recovered is None:
        doubt("recovery", "the run was over before it could be seen whether the cluster recovers")
    if not tally.rows:
        for name in CHECKS:
            doubt(name, "nothing was sent or read")
    return reasons


def _listed(case: Case, tps: Sequence[int]) -> str:
    names = [case.lookup.tp(tp) for tp in tps[:4]]
    return ", ".join(names) + (f" and {len(tps) - 4} more" if len(tps) > 4 else "")


def _checks(
    case: Case, forbidden: Sequence[str], unknown: Mapping[str, Sequence[str]]
) -> dict[str, CheckResult]:
    results: dict[str, CheckResult] = {}
    for name, check in CHECKS.items():
        crashed = [case.tally.crashed[s] for s in check.subjects if s in case.tally.crashed]
        bad = [a for a in check.anomalies if a in forbidden]
        status: Literal["valid", "invalid", "unknown", "crashed"] = "valid"
        why = ""
        if crashed:
            status, why = "crashed", crashed[0]
        elif bad:
            status, why = "invalid", f"found {', '.join(bad)}"
        elif name in unknown:
            status, why = "unknown", "; ".join(unknown[name])
        seconds = sum(case.tally.seconds.get(subject, 0.0) for subject in check.subjects)
        results[name] = CheckResult(
            claim=check.claim,
            status=status,
            seconds=round(seconds, 4),
            rows=case.tally.rows,
            why=why,
        )
    return results


def _stats(case: Case) -> dict[str, float]:
    ops = case.sealed.tables["ops"]
    outcome, begin, end = (numbers(ops, n) for n in ("outcome", "invoke_ns", "complete_ns"))
    done = end[end != OPEN]
    lasted = (max(done.max(initial=0), begin.max(initial=0)) - begin.min(initial=OPEN)) / 1e9
    return {
        "ops": len(outcome),
        "ok": int((outcome == OK).sum()),
        "fail": int((outcome == FAIL).sum()),
        "info": int((outcome == INFO).sum()),
        "records sent": int(np.sum(numbers(ops, "n_sends"))),
        "records acknowledged": case.tally.acknowledged,
        "records read": int(np.sum(numbers(ops, "n_reads"))),
        "partitions": case.sealed.tables["tps"].num_rows,
        "faults": len(case.lookup.faults),
        "seconds recorded": round(float(lasted), 3) if len(outcome) else 0.0,
        "seconds to check": round(case.seconds, 3),
        "checked by Spark": int(case.spark),
    }


def _summary(verdict: Verdict) -> str:
    """The verdict in one sentence."""
    bad = {name: a for name, a in verdict.anomalies.items() if a.disallowed}
    told = ", ".join(f"{name} ({a.disallowed})" for name, a in bad.items())
    legal = ", ".join(f"{name} ({a.count})" for name, a in verdict.anomalies.items() if a.allowed)
    also = f"; allowed here: {legal}" if legal else ""
    missing = [name for name, found in verdict.expect.items() if not found]
    if bad:
        bugs = {a.known_bug for a in bad.values()}
        known = f"; all bear the signature of {', '.join(sorted(bugs))}" if "" not in bugs else ""
        cut = "the run was interrupted; " if verdict.interrupted else ""
        return f"{cut}forbidden here, and found: {told}{known}{also}"
    if missing:
        return f"this control had to find {', '.join(missing)}, and did not{also}"
    if verdict.valid == "unknown":
        first = verdict.unknown[0]
        more = f" (and {len(verdict.unknown) - 1} more)" if len(verdict.unknown) > 1 else ""
        return f"nothing forbidden was found, but not everything was decided: {first}{more}{also}"
    s = verdict.stats
    fired = (
        f"; the control found {', '.join(verdict.expect)}, as it had to" if verdict.expect else ""
    )
    return (
        f"no forbidden anomaly in {s['ops']:.0f} ops, {s['records acknowledged']:.0f} records"
        f" acknowledged and {s['records read']:.0f} read under {s['faults']:.0f} faults{also}{fired}"
    )
