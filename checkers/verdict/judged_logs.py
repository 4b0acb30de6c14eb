"""What brokers' logs add to the verdict of a run: its section `logs`, anomalies, and what is undecided."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import msgspec

from checkers.allowed import Answer, ground
from checkers.catalogue import ANOMALIES, permission
from checkers.checks.durability import LOST
from checkers.engine.findings import Acks, Kind, Plain, Variant
from checkers.known_bugs.registry import KNOWN_BUGS, labels_of_logs
from checkers.logs import accept_offsets
from checkers.logs.elections import METADATA
from checkers.logs.judgement import NOWHERE, Judgement, LogFinding, LogRule
from checkers.logs.producer_files import PRODUCER_SNAPSHOT
from checkers.logs.registry import RULES
from checkers.verdict.witness import EXAMPLES
from checkers.windows import EXCUSES, NO_EXCUSE, run_windows
from core.config import RunConfig
from history.events import EvidenceMissing
from history.evidence import Evidence
from history.reader import History
from history.verdict import Anomaly, Example, LogPlace, LogRuleResult, Logs, LogTake
from model.accepting.data_partition import (
    COORDINATOR_EPOCH,
    EPOCH_BEGINS,
    MARKER_EPOCH,
    NO_REPEAT,
    PRODUCER_EPOCH,
    SEQUENCE,
    UNKNOWN_BEGINS,
)

Answers = Mapping[LogFinding, Answer]
"""Finding -> whether it is allowed, and why."""

VARIANTS: Final[Mapping[str, Variant]] = {LOST: Acks.ALL}
"""Of classes whose permission depends on more: rules about logs judge acks=all alone."""
DOUBTS: Final = 8
"""Doubts of one rule that a verdict has in words."""
REMEMBERED: Final = frozenset(
    {
        *(SEQUENCE, NO_REPEAT, EPOCH_BEGINS, UNKNOWN_BEGINS, PRODUCER_EPOCH),
        *(MARKER_EPOCH, COORDINATOR_EPOCH, PRODUCER_SNAPSHOT),
    }
)
"""Rules by which a log remembers its producers from their first batch on."""
GROUPS: Final = frozenset(rule.name for rule in accept_offsets.RULES if rule.name != "group-place")
"""Rules by which a group coordinator's log has the end of each member and group."""
DAY_MS: Final = 86_400_000
FORGETFUL: Final = (
    ("producer.id.expiration.ms", REMEMBERED, "brokers forget producers after {} ms"),
    (
        "log.cleaner.delete.retention.ms",
        GROUPS,
        "compaction takes tombstones away after {} ms, and a broker that was down for longer never has them",
    ),
)
"""Settings of brokers with a default of a day: what rules they may explain findings of, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedLogs:
    """The logs of a run under judgement. seconds: spent on it."""

    evidence: Evidence = field(default_factory=lambda: Evidence({}))
    judgement: Judgement = field(default_factory=Judgement)
    seconds: float = 0.0


def section(judged: JudgedLogs, history: History, config: RunConfig) -> Logs:
    """The section `logs`. Raises: HistoryError, where a label needs a file that cannot be read."""
    if lacks := judged.evidence.lacks:
        return Logs(why=f"evidence is missing: {lacks}", lacks=lacks)
    takes = _takes(judged.evidence, history)
    told = [event.why for event in history.events if isinstance(event, EvidenceMissing)]
    if not takes:
        return Logs(why=told[0] if told else "the run kept no evidence of its brokers' logs")
    last_s = max(history.seconds(row["at_ns"]) for row in judged.evidence.table("takes").to_pylist())
    found = configured(judged.judgement, history.config.get("broker_settings") or {}, round(1000 * last_s))
    judged = replace(judged, judgement=found)
    answers = _answers(found, history, config)
    results = {name: _result(rule, found, answers) for name, rule in RULES.items()}
    if told:
        results = {name: _of_a_part(result, told[0]) for name, result in results.items()}
    return Logs(
        takes=takes,
        rules=results,
        exercised=round(sum(one.asked > 0 for one in results.values()) / max(1, len(results)), 4),
        places=_places(judged, history, answers),
        missing=told,
        seconds=round(judged.seconds, 3),
    )


def _answers(found: Judgement, history: History, config: RunConfig) -> Answers:
    """Whether what may have happened to the logs of its partition permits each finding. The metadata log is
    flushed always; what is in no partition may come from any."""
    places = {one.tp for one in found.findings} - {METADATA, NOWHERE}
    windows = run_windows({tp: (tp.topic, tp.partition) for tp in places}, history.events, config)
    excuses = {tp: windows.ever(tp) for tp in places} | {NOWHERE: windows.anywhere(), METADATA: NO_EXCUSE}
    answers = {}
    for one in found.findings:
        anomaly = RULES[one.rule].anomaly
        kind = Kind(anomaly, VARIANTS.get(anomaly, Plain.PLAIN), EXCUSES[excuses[one.tp]])
        answers[one] = permission(ground(config), kind)
    return answers


def configured(found: Judgement, settings: Mapping[str, str], run_ms: int) -> Judgement:
    """With doubts in the place of findings that the settings of the brokers may explain. run_ms: how long the
    run took."""
    excuses = {
        name: why.format(after)
        for setting, rules, why in FORGETFUL
        if (after := settings.get(setting, str(DAY_MS))).isdecimal() and int(after) < run_ms
        for name in rules
    }
    kept = Judgement(
        findings=[one for one in found.findings if one.rule not in excuses],
        doubts=list(found.doubts),
        asked=found.asked,
        counts=Counter({name: many for name, many in found.counts.items() if name not in excuses}),
        crashed=found.crashed,
    )
    for one in found.findings:
        if one.rule in excuses:
            kept.doubt(one.rule, one.tp, f"{one.sentence}; {excuses[one.rule]}")
    return kept


def _takes(evidence: Evidence, history: History) -> list[LogTake]:
    rows = defaultdict(list)
    for row in evidence.table("takes").to_pylist():
        rows[row["take"]].append(row)
    return [
        LogTake(
            take=take,
            why=some[0]["why"],
            nodes=sorted(row["node"] for row in some),
            at_s=round(history.seconds(min(row["at_ns"] for row in some)), 3),
        )
        for take, some in sorted(rows.items())
    ]


def _result(rule: LogRule, found: Judgement, answers: Answers) -> LogRuleResult:
    many, asked = found.counts[rule.name], found.asked[rule.name]
    mine = [answers[one] for one in found.findings if one.rule == rule.name]
    allowed = [why for permitted, why in mine if permitted]
    forbidden = [why for permitted, why in mine if not permitted]
    # of those that were not kept, none is known to be permitted where a kept one is not
    disallowed = many - len(allowed) if forbidden else 0
    doubts = [doubt for doubt in found.doubts if doubt.rule == rule.name]
    status: Literal["valid", "invalid", "unknown", "crashed", "unasked"] = "valid" if asked else "unasked"
    why = ""
    if rule.name in found.crashed:
        status, why = "crashed", found.crashed[rule.name]
    elif disallowed:
        status, why = "invalid", "; ".join(dict.fromkeys(forbidden))
    elif doubts:
        status = "unknown"
    elif many:
        why = f"allowed here: {'; '.join(dict.fromkeys(allowed))}"
    told = [f"{doubt.tp}: {doubt.why}" if doubt.tp else doubt.why for doubt in doubts[:DOUBTS]]
    if len(doubts) > DOUBTS:
        told.append(f"and {len(doubts) - DOUBTS} more")
    return LogRuleResult(
        ring=rule.ring,
        anomaly=rule.anomaly,
        claim=rule.claim,
        status=status,
        asked=asked,
        found=many,
        disallowed=disallowed,
        doubts=told,
        why=why,
    )


def _of_a_part(result: LogRuleResult, missing: str) -> LogRuleResult:
    """The result of a rule where some of the evidence is missing: what it did not see may refute it."""
    if result.status != "valid":
        return result
    doubts = [*result.doubts, f"evidence is missing: {missing}"]
    return msgspec.structs.replace(result, status="unknown", doubts=doubts)


def _places(judged: JudgedLogs, history: History, answers: Answers) -> list[LogPlace]:
    """Examples of each rule: forbidden ones first, then by place."""
    shown: dict[str, list[LogFinding]] = defaultdict(list)
    by_place = sorted(judged.judgement.findings, key=lambda one: (one.tp, one.offset, one.take))
    for one in sorted(by_place, key=lambda one: answers[one][0]):
        if len(shown[one.rule]) < EXAMPLES:
            shown[one.rule].append(one)
    findings = [one for name in sorted(shown) for one in shown[name]]
    findings = sorted(findings, key=lambda one: answers[one][0])
    bugs = labels_of_logs(history, judged.evidence, findings)
    return [_place(one, answers[one], bug) for one, bug in zip(findings, bugs, strict=True)]


def _place(one: LogFinding, answer: Answer, bug: str) -> LogPlace:
    return LogPlace(
        rule=one.rule,
        sentence=one.sentence,
        partition="" if one.tp == NOWHERE else str(one.tp),
        offset=one.offset,
        take=one.take,
        nodes=list(one.nodes),
        allowed=answer[0],
        why=answer[1],
        before=one.before,
        known_bug=bug,
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        transactional_id=one.transactional_id,
    )


def undecided(logs: Logs) -> list[str]:
    """What keeps the verdict from being valid, in words. A doubt of a single rule does not: rules overlap,
    and logs do not say everything; a ring that decided nothing does, and evidence that is not whole."""
    reasons = [f"brokers' logs: evidence is missing: {logs.lacks}"] if logs.lacks else []
    for name, rule in logs.rules.items():
        if rule.status == "crashed":
            reasons.append(f"brokers' logs: the rule {name} crashed")
    for ring in sorted({rule.ring for rule in logs.rules.values()}):
        mine = [rule for rule in logs.rules.values() if rule.ring == ring]
        doubts = [why for rule in mine for why in rule.doubts]
        if doubts and not any(rule.asked for rule in mine):
            reasons.append(f"brokers' logs: no rule of ring {ring} could be asked: {doubts[0]}")
    return reasons


def with_logs(anomalies: Mapping[str, Anomaly], logs: Logs) -> dict[str, Anomaly]:
    """The anomalies that clients saw, and those that brokers' logs show."""
    merged = dict(anomalies)
    for anomaly in {rule.anomaly for rule in logs.rules.values() if rule.found}:
        merged[anomaly] = _added(anomaly, merged.get(anomaly), logs)
    return {name: merged[name] for name in ANOMALIES if name in merged}


def _added(name: str, before: Anomaly | None, logs: Logs) -> Anomaly:
    """A class with what the clients' history showed of it before, and what logs show."""
    kind = ANOMALIES[name]
    rules = {key: rule for key, rule in logs.rules.items() if rule.anomaly == name and rule.found}
    places = [place for place in logs.places if place.rule in rules]
    disallowed = sum(rule.disallowed for rule in rules.values())
    bug = logs.known_bug(*rules)
    if before and before.disallowed:
        bug = before.known_bug if not disallowed or before.known_bug == bug else ""
    whys = [*([before.why] if before else []), *(place.why for place in places)]
    return Anomaly(
        title=kind.title,
        literature=kind.literature,
        meaning=kind.meaning,
        count=sum(rule.found for rule in rules.values()) + (before.count if before else 0),
        disallowed=disallowed + (before.disallowed if before else 0),
        allowed=not disallowed and (before is None or before.allowed),
        why="; ".join(dict.fromkeys(whys)),
        known_bug=bug,
        known_bug_url=KNOWN_BUGS[bug].address if bug else "",
        examples=(before.examples if before else []) + [_example(place) for place in places[:EXAMPLES]],
    )


def _example(place: LogPlace) -> Example:
    known = place.producer_id >= 0
    return Example(
        sentence=place.sentence,
        allowed=place.allowed,
        why=place.why,
        known_bug=place.known_bug,
        partition=place.partition,
        offsets=[place.offset] if place.offset >= 0 else [],
        producer={"producer_id": place.producer_id, "epoch": place.producer_epoch} if known else {},
    )
