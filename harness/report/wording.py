"""The verdict and the configuration in words, for all forms of the report.

The verdict itself explains its anomalies; this module names states, settings and numbers.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from core.errors import ExitCode
from core.systems import report_title
from history.verdict import (
    NOT_RECOVERED,
    VERDICT_FORMAT,
    Anomaly,
    Example,
    Fault,
    FaultHits,
    ResultWord,
    Verdict,
)

INCIDENTS_MAX = 4
"""Incidents that stand in the first lines."""
INCIDENT_WIDTH = 300
"""Characters of each of them there."""
ALLOWED_EXAMPLES_MAX = 3
"""Examples of a class whose findings are all permitted."""
OF_DATA = frozenset({"lost-write", "replica-divergence", "damaged-log", "unclean-election"})
"""Classes that say more than that the cluster did not recover."""
MODELLED = {"simulated": "simulated: no Kafka ran", "model": "the model’s brokers: no Kafka ran"}
"""Systems without Kafka, in words."""


def system(config: Mapping[str, object]) -> str:
    """What ran, for the first screen."""
    return MODELLED.get(str(config.get("sut"))) or report_title(config)


@dataclass(frozen=True, slots=True)
class VerdictState:
    """The overall result of a run. `key` names it in the style sheet."""

    key: str
    symbol: str
    word: str
    meaning: str


VALID = VerdictState(
    "valid",
    "✓",
    "Valid",
    "Every check that applies reached a decision, and none found anything that is forbidden here. "
    "This holds for what clients saw in this run; it proves nothing about other runs.",
)
FIRED = VerdictState(
    "valid",
    "✓",
    "Control fired",
    "This run is a control: its configuration must cause a known anomaly, and the checks found it. "
    "They found nothing else that is forbidden.",
)
IDLE = VerdictState(
    "silent",
    "○",
    "Not exercised",
    "The checks found nothing forbidden, but no fault reached what it is for, or no record was acknowledged: "
    "the run tested little or nothing.",
)
KNOWN = VerdictState(
    "anomaly",
    "✕",
    "Known bugs only",
    "Each forbidden finding bears the signature of a known bug of Kafka or a client. "
    "The checks found nothing else that is forbidden.",
)
ANOMALY = VerdictState(
    "anomaly",
    "✕",
    "Anomaly",
    "At least one finding is a violation under this configuration and these faults.",
)
NOT_BACK = VerdictState(
    "not-recovered",
    "!",
    "Did not recover",
    "The harness healed all faults, and the cluster did not serve every partition within the deadline.",
)
SILENT = VerdictState(
    "silent",
    "○",
    "Control did not fire",
    "This run is a control: its configuration must cause a known anomaly, and the checks did not find it. "
    "It says nothing about the checks: the anomaly may not have occurred.",
)
UNKNOWN = VerdictState(
    "unknown",
    "?",
    "Unknown",
    "The checks found nothing forbidden, but could not decide everything that matters.",
)

UNMET = VerdictState(
    "silent",
    "○",
    "Requirement not met",
    "The checks found nothing forbidden, but the run does not show what was required of it.",
)

STATES = {
    ResultWord.VALID: VALID,
    ResultWord.CONTROL_FIRED: FIRED,
    ResultWord.NOT_EXERCISED: IDLE,
    ResultWord.KNOWN_BUGS: KNOWN,
    ResultWord.ANOMALY: ANOMALY,
    ResultWord.NOT_RECOVERED: NOT_BACK,
    ResultWord.CONTROL_SILENT: SILENT,
    ResultWord.UNKNOWN: UNKNOWN,
    ResultWord.UNMET: UNMET,
}


def state(verdict: Verdict) -> VerdictState:
    """The overall result in words."""
    return STATES[verdict.result]


def contradiction(verdict: Verdict) -> str:
    """A sentence if the exit code of the verdict contradicts its findings, else "".

    It fails for verdict files that were edited, merged by hand or written by a version with other
    rules; the report shows both instead of trusting one.
    """
    expected = verdict.result.code
    if verdict.exit_code in (expected, ExitCode.INTERRUPTED):
        return ""
    findings_say = f"its findings say {int(expected)}"
    return f"The verdict contradicts itself: its exit code is {verdict.exit_code}, {findings_say}."


def forbidden(verdict: Verdict) -> dict[str, Anomaly]:
    """Classes with findings that nothing permits, the most severe ones first."""
    return {name: found for name, found in ranked(verdict) if found.disallowed}


def ranked(verdict: Verdict) -> list[tuple[str, Anomaly]]:
    """All classes: forbidden ones first, of these the known bugs last; else as the verdict has them, the most
    severe ones first. That a cluster did not recover stands behind all others where data are damaged; what
    brokers' logs alone show (a group's commit says of a record that it was there) behind what clients saw."""
    damaged = any(name in OF_DATA and one.disallowed for name, one in verdict.anomalies.items())
    seen = any(one.disallowed > found_in_logs(verdict, name) for name, one in verdict.anomalies.items())

    def place(item: tuple[str, Anomaly]) -> tuple[bool, bool, bool]:
        name, one = item
        known = bool(one.disallowed and one.known_bug)
        unseen = seen and 0 < one.disallowed == found_in_logs(verdict, name)
        return not one.disallowed, known, unseen or (name == NOT_RECOVERED and damaged)

    return sorted(verdict.anomalies.items(), key=place)


def found_in_logs(verdict: Verdict, name: str) -> int:
    """Forbidden findings of a class that are those of rules about brokers' logs."""
    return sum(check.disallowed for check in verdict.log_checks.values() if name in check.anomalies)


def worst(verdict: Verdict) -> tuple[str, Anomaly] | None:
    """The most severe class with a forbidden finding; those that a known bug explains come last."""
    return next(((name, one) for name, one in ranked(verdict) if one.disallowed), None)


def told(verdict: Verdict) -> tuple[str, Anomaly] | None:
    """The class that a run is about: the most severe with a forbidden finding, else the first of those that a
    control has to find."""
    expected = ((name, verdict.anomalies[name]) for name in verdict.expect if name in verdict.anomalies)
    return worst(verdict) or next(((name, one) for name, one in expected if one.count), None)


def shown_examples(anomaly: Anomaly) -> Sequence[Example]:
    """The forbidden examples of a class; where none of them was kept, all."""
    return [one for one in anomaly.examples if not one.allowed] or anomaly.examples


Key = tuple[str, int]
"""Class and position of an example in the verdict."""


def in_turn(verdict: Verdict) -> Iterator[tuple[Key, Example]]:
    """The first example of every class, then the second of every class, and so on; few where nothing is
    forbidden, unless the run is about it: the story may be of any of its examples."""
    about = told(verdict)
    whole = {name for name, one in verdict.anomalies.items() if one.disallowed} | {about[0] if about else ""}
    classes = [
        (name, anomaly.examples if name in whole else anomaly.examples[:ALLOWED_EXAMPLES_MAX])
        for name, anomaly in ranked(verdict)
    ]
    for number in range(max((len(examples) for _, examples in classes), default=0)):
        for name, examples in classes:
            if number < len(examples):
                yield (name, number), examples[number]


def number(value: float, digits: int = 0) -> str:
    """A number for people, thousands apart; a dash for none."""
    if math.isnan(value):
        return "–"
    return f"{value:,.{digits}f}".replace(",", "\u202f")


SHARE_DIGITS = 4
"""Digits of a share behind the point, at most."""


def share(value: float) -> str:
    """A share in per cent, with a decimal near 0 and near 100; only nothing is 0, and only the whole 100."""
    percent = round(100 * value, 12)  # a computed share of 0 or 1 may be off in the last bits
    digits = 1 if 0 < percent < 10 or 90 < percent < 100 else 0
    while 0 < percent < 100 and round(percent, digits) in (0, 100):
        if digits == SHARE_DIGITS:
            return "< 0.0001" if percent < 1 else "> 99.9999"
        digits += 1
    return number(percent, digits)


def plain(value: float) -> str:
    """A number without digits that say nothing: whole if it is, else three significant."""
    if not math.isfinite(value):
        return "–"
    if value == int(value):
        return number(value)
    return number(value, 0 if abs(value) >= 1000 else 1 if abs(value) >= 10 else 3)


def moment(wall: str) -> str:
    """An ISO 8601 time to the second, in UTC; as it stands where it is none."""
    try:
        when = datetime.fromisoformat(wall)
    except ValueError:
        return wall
    return when.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if when.tzinfo else wall


def count(many: int, one: str, more: str = "") -> str:
    """`1 op`, `2 ops`."""
    return f"{number(many)} {one if many == 1 else more or one + 's'}"


def ms(value: float) -> str:
    """Milliseconds with as many digits as they deserve; a dash for none."""
    return number(value, 0 if value >= 100 else 1)


def hit(fault: Fault) -> str:
    """The nodes and clients that a fault hit."""
    parts = [
        f"{one if len(numbers) == 1 else one + 's'} {', '.join(map(str, numbers))}"
        for one, numbers in (("node", fault.nodes), ("client", fault.slots))
        if numbers
    ]
    return "; ".join(parts)


def hits(found: FaultHits | None) -> str:
    """What a fault hit, in words."""
    if found is None:
        return "not measured"
    if found.nothing:
        return "nothing"
    at = ", ".join(f"{number(n)} {what}" for n, what in _at(found) if n)
    parts = [
        _of(found.records_hit, found.records, "record in flight", "records in flight"),
        _of(found.transactions_hit, found.transactions, "transaction open", "transactions open")
        + (f" ({at})" if at else ""),
        found.ops_hit and f"{count(found.ops_hit, 'op')} of its clients under way",
        found.members and f"{count(found.members, 'member')} of a group",
        found.leaders and f"{count(found.leaders, 'leader')} moved",
        found.coordinators and f"{count(found.coordinators, 'coordinator')} moved",
        found.controller and "the controller moved",
        found.failed and f"{count(found.failed, 'op')} failed",
        found.in_doubt and f"{count(found.in_doubt, 'op')} in doubt",
    ]
    told = "; ".join(filter(None, map(str, filter(None, parts))))
    return told or ("not known" if found.nothing is None else "a record waited for a second or more")


def _at(found: FaultHits) -> tuple[tuple[int, str], ...]:
    return (found.sending, "sending"), (found.ending, "ending")


def _of(some: int | None, all_of_them: int, one: str, more: str) -> str:
    """`2 of 7 records in flight`; "" where there were none, or none of them was hit."""
    if not all_of_them or some == 0:
        return ""
    known = "an unknown number" if some is None else number(some)
    return f"{known} of {count(all_of_them, one, more)}"


def faults_line(verdict: Verdict) -> str:
    """The faults of a run in one line: how many, which took no effect or not the one that they are for, how
    much of their time was served."""
    failed = int(verdict.stats.get("faults that were not made", 0))
    unmade = [f"{count(failed, 'planned fault was', 'planned faults were')} not made"] * bool(failed)
    if verdict.config.get("imported") is not None:
        return "not on record"
    if not verdict.faults:
        return ", ".join(["none", *unmade])
    found = [fault for fault in verdict.faults if fault.hits]
    idle, hollow = sum(fault.idle for fault in found), sum(fault.without_effect for fault in found)
    unknown = sum(
        not fault.wanted and fault.hits is not None and fault.hits.nothing is None for fault in found
    )
    effects = [f"{number(hollow)} took no effect"] * bool(hollow)
    effects += [
        f"{number(idle - hollow)} did not reach what {'it is' if idle - hollow == 1 else 'they are'} for"
    ] * (idle > hollow)
    effects += [f"the effect of {number(unknown)} is not known"] * bool(unknown)
    if found and not effects:
        effects = ["it took effect" if len(verdict.faults) == 1 else "all took effect"]
    told = ", ".join([f"{count(len(verdict.faults), 'fault')} injected", *effects, *unmade])
    served = verdict.liveness.under_faults
    if served is not None:
        told += f"; writes were acknowledged during {share(served)} % of the fault time"
    return told


def reached_line(verdict: Verdict) -> str:
    """The facts that the run reached, and in how many faults; where there is none, what a fault hit: by that
    a run can be exercised without a fact. "" = an older version judged."""
    if verdict.reached is None:
        return ""
    many = Counter(name for fault in verdict.faults for name in fault.reached)
    told = [f"{name} ({number(many[name])})" if many[name] else name for name in verdict.reached]
    return ", ".join(told) or _without_facts(verdict)


def _without_facts(verdict: Verdict) -> str:
    struck = [fault.hits for fault in verdict.faults if fault.hits and fault.hits.nothing is False]
    if not struck:
        return "nothing"
    one = (
        "a fault hit something"
        if len(struck) == 1
        else f"{count(len(struck), 'fault')} hit something, the first"
    )
    return f"no fact, but {one}: {hits(struck[0])}"


def required_line(verdict: Verdict) -> str:
    """What was required, what the run has of it, and whether that suffices; "" = nothing was."""
    return "; ".join(
        f"{one.text}: {'met' if one.met else 'NOT MET'} ({one.why})" for one in verdict.requirements
    )


def incident_lines(verdict: Verdict) -> list[str]:
    """What happened without being planned, a line each, and how much more there is."""
    told = [f"at {number(one.at_s, 1)} s {_short(one.text)}" for one in verdict.incidents[:INCIDENTS_MAX]]
    more = len(verdict.incidents) - len(told)
    return [*told, f"{number(more)} more, see the report"] if more else told


def _short(text: str) -> str:
    return text if len(text) <= INCIDENT_WIDTH else f"{text[:INCIDENT_WIDTH]}…"


def logs_line(verdict: Verdict) -> str:
    """What the brokers' logs say, in one line."""
    logs, checks = verdict.logs, verdict.log_checks
    if logs is None or verdict.format < VERDICT_FORMAT:
        return "not judged: the verdict is of an older version"
    if logs.why:
        return f"not judged: {logs.why}"
    by: dict[str, list[str]] = {}
    for name, check in checks.items():
        by.setdefault(check.status, []).append(name)
    nodes = {node for take in logs.takes for node in take.nodes}
    applied = sum(check.rows > 0 for check in checks.values())
    refused = sum(check.disallowed for check in checks.values())
    permitted = sum(check.found - check.disallowed for check in checks.values())
    parts = ["no violation"]
    if refused:
        bug = known_bug_in_logs(verdict)
        known = f", all match known bug{'s' * (',' in bug)} {bug}" if bug else ""
        parts = [f"{count(refused, 'violation')}: {', '.join(by['invalid'])}{known}"]
    parts += [f"{number(permitted)} more that this configuration permits"] * bool(permitted)
    parts += [f"{count(len(by.get('unknown', ())), 'rule')} undecided"] * ("unknown" in by)
    parts += [f"evidence is missing: {why}" for why in logs.missing[:1]]
    parts += [f"crashed: {', '.join(by.get('crashed', ()))}"] * ("crashed" in by)
    idle = len(checks) - applied
    unused = f" ({number(idle)} not applicable)" if idle else ""
    on = f"{count(applied, 'rule')} applied to {count(len(nodes), 'node')}{unused}"
    return f"{on}: {'; '.join(parts)}"


def known_bug_in_logs(verdict: Verdict) -> str:
    """The known bugs, where each forbidden finding in brokers' logs bears the signature of one; "" = not all
    do, or not all of them are among the examples."""
    examples = [one for one in verdict.log_examples if not one.allowed]
    bugs = {one.known_bug for one in examples}
    whole = len(examples) == sum(check.disallowed for check in verdict.log_checks.values())
    return ", ".join(sorted(bugs)) if "" not in bugs and whole else ""


def findings(anomaly: Anomaly) -> str:
    """How many findings, and how many of them are forbidden where only some are."""
    many = count(anomaly.count, "finding")
    if anomaly.disallowed in (0, anomaly.count):
        return many
    return f"{many}, {number(anomaly.disallowed)} of them forbidden"


def sentence(value: str) -> str:
    """The text with a capital letter first, unless it is a name or setting, and a full stop last."""
    stop = "." if value and value[-1] not in ".!?…" else ""
    word = value.split(" ", 1)[0].rstrip(",:;")
    return (value[:1].upper() + value[1:] if word.isalpha() else value) + stop


def undecided(verdict: Verdict) -> list[str]:
    """What the checks could not decide; checks with the same reason share a sentence."""
    reasons: dict[str, list[str]] = {}
    for reason in verdict.unknown:
        check, colon, why = reason.partition(": ")
        known = colon and check in verdict.checks
        reasons.setdefault(why if known else reason, []).extend([check] if known else [])
    return [sentence(f"{', '.join(checks)}: {why}" if checks else why) for why, checks in reasons.items()]


def held(verdict: Verdict) -> str:
    """How many checks have which result, in one sentence."""
    statuses = [check.status for check in verdict.client_checks.values()]
    if not statuses:
        return "No check was run."
    valid = statuses.count("valid")
    parts = [f"{valid} of {count(len(statuses), 'check')} {'holds' if valid == 1 else 'hold'}"]
    for status, word in (
        ("invalid", "broken"),
        ("unknown", "unknown"),
        ("crashed", "crashed"),
        ("permitted", "not promised here"),
        ("unasked", "with nothing to judge"),
    ):
        if status in statuses:
            parts.append(f"{statuses.count(status)} {word}")
    return ", ".join(parts) + "."
