"""Known bugs of Kafka and its clients, recognised by evidence in the history of a run.

A label explains a finding; it never makes it allowed. A bug is claimed only where its mechanism left
traces: the client's statistics, the durations and outcomes of the ops around it, the exact pattern of
what is missing. A finding that merely resembles one stays open.

Not here: how findings are made (docs/checks.md). docs/known-bugs.md is made of the registry.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from checkers.checks.group_offsets import PhantomCommit
from checkers.checks.integrity import ForeignRecord
from checkers.checks.poll_order import Skipped
from checkers.checks.share_groups import CountFell, Redelivery
from checkers.engine.evidence import fetch
from checkers.engine.findings import Finding, LogFinding
from checkers.known_bugs import (
    aborted_index,
    deleted_topic_offsets,
    fenced_offsets,
    kafka_6082,
    kafka_12686,
    kafka_14402,
    kafka_15591,
    kafka_17754,
    kafka_19367,
    kafka_19446,
    kafka_19632,
    kafka_19846,
    kafka_19972,
    kafka_20322,
    kafka_20734,
    last_replica,
    late_offset_query,
    late_share_writes,
    letters_by_former_leader,
    letters_of_markers,
    librdkafka_4953,
    pending_expansion,
    refused_in_sync,
    removed_replica,
    share_start_falls,
    uncommitted_state,
)
from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.labelled_run import Input, LabelledRun
from checkers.known_bugs.transaction_fates import Fates, Suspicion
from history.evidence import Evidence
from history.reader import History

KNOWN_BUGS: Final[dict[str, KnownBug]] = {
    "librdkafka-4953": librdkafka_4953.BUG,
    "KAFKA-17754": kafka_17754.BUG,
    "KAFKA-19367": kafka_19367.BUG,
    "KAFKA-19446": kafka_19446.BUG,
    "KAFKA-15591": kafka_15591.BUG,
    "KAFKA-6082": kafka_6082.BUG,
    "KAFKA-12686": kafka_12686.BUG,
    "KAFKA-14402": kafka_14402.BUG,
    "KAFKA-19632": kafka_19632.BUG,
    "KAFKA-19846": kafka_19846.BUG,
    "KAFKA-19972": kafka_19972.BUG,
    "KAFKA-20322": kafka_20322.BUG,
    "KAFKA-20734": kafka_20734.BUG,
    "aborted-index-skips": aborted_index.BUG,
    "deleted-topic-offsets": deleted_topic_offsets.BUG,
    "fenced-offsets": fenced_offsets.BUG,
    "last-replica": last_replica.BUG,
    "letters-by-former-leader": letters_by_former_leader.BUG,
    "late-share-writes": late_share_writes.BUG,
    "letters-of-markers": letters_of_markers.BUG,
    "outdated-offset-query": late_offset_query.BUG,
    "pending-expansion": pending_expansion.BUG,
    "refused-in-sync": refused_in_sync.BUG,
    "removed-replica": removed_replica.BUG,
    "share-start-falls": share_start_falls.BUG,
    "uncommitted-state": uncommitted_state.BUG,
}
"""Id -> bug."""


def labels(history: History, evidence: Evidence, findings: Sequence[Finding]) -> list[str]:
    """Of each finding: the id of the known bug whose signature it bears, "" = none. One that stands for
    further ones has a label only where each of these has one, too.

    Raises: HistoryError, where a file cannot be read.
    """
    further = [
        (at, replace(one, name=of.name))
        for at, of in enumerate(findings)
        if isinstance(of, Redelivery | CountFell)
        for one in of.further
    ]
    found = _each(history, evidence, [*findings, *(one for _, one in further)])
    open_ = {at for (at, _), label in zip(further, found[len(findings) :], strict=True) if not label}
    return ["" if at in open_ else label for at, label in enumerate(found[: len(findings)])]


def _each(history: History, evidence: Evidence, findings: Sequence[Finding]) -> list[str]:
    run = LabelledRun(
        history,
        evidence,
        skips=[one for one in findings if isinstance(one, Skipped)],
        inputs=[
            one
            for one in findings
            if isinstance(one, Input) and not (isinstance(one, PhantomCommit) and one.log_end < 0)
        ],
        strangers=[one for one in findings if isinstance(one, ForeignRecord) and one.source >= 0],
    )
    suspected = [
        (number, name, wanted)
        for number, finding in enumerate(findings)
        for name, bug in KNOWN_BUGS.items()
        if not isinstance(finding, LogFinding)
        and finding.name in bug.anomalies
        and (wanted := bug.wanted(run, finding)) is not None
    ]
    fetched = fetch(history, (wanted for _, _, wanted in suspected))
    found = [_in_logs(run, one) if isinstance(one, LogFinding) else "" for one in findings]
    known: dict[int, Fates] = {}
    for number, name, _ in suspected:
        suspicion = Suspicion(run, findings[number], fetched, known)
        if not found[number] and KNOWN_BUGS[name].match(suspicion):
            found[number] = name
    _drop_too_many(run, findings, found)
    return found


def _drop_too_many(run: LabelledRun, findings: Sequence[Finding], found: list[str]) -> None:
    """Take the labels off findings that a bug does not explain together."""
    for name, bug in KNOWN_BUGS.items():
        numbers = [number for number, label in enumerate(found) if label == name]
        kept = bug.together(run, [findings[number] for number in numbers]) if numbers else ()
        for number, keeps in zip(numbers, kept, strict=True):
            found[number] = name if keeps else ""


def _in_logs(run: LabelledRun, finding: LogFinding) -> str:
    matches = ((name, bug.in_logs.get(finding.name)) for name, bug in KNOWN_BUGS.items())
    return next((name for name, match in matches if match and match(run, finding)), "")
