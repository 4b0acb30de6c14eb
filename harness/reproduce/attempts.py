"""Attempts: N runs of one side of a known bug; what each showed, and the exit code.

A run of the bad side has to show the bug: a coordinator acknowledged the commit, and a record of the
transaction is lost (its partition is stable beyond it, and readers do not get it) or hidden for good (the
coordinator has completed the transaction, and its partition is not stable beyond it), or read though its
transaction was aborted; or the next group coordinator does not have an acknowledged commit of offsets, or
still has one of a deleted topic, so that the group passes over records of the new one; or a client waits long
for a replica that is not in sync, or for a marker; or a share group delivers what has ended; or a broker
gives a wrong answer. A run of the good side has to show that every record of an acknowledged commit is read,
or that the commit was refused or kept, or that the client does not wait, or that the group delivers the rest
alone, or the right answer.

Apart from that, the rules about logs (`checkers.logs`) judge what the brokers left on disk; they know
nothing of the schedule, nor of what clients saw.
"""

import time
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import cast

from checkers.checks import dead_letters
from checkers.checks.durability import LOST
from checkers.checks.isolation import ABORTED
from checkers.engine.findings import LogFinding
from checkers.engine.pipeline import check_evidence
from checkers.logs.registry import LOG_CHECKS
from core.errors import ClusterError, ExitCode
from core.first_few import few_of
from core.op import Isolation, TopicPartition
from core.runtime import run_blocking
from harness.brokers.admin.connection import AdminError
from harness.processes.waiting import NotYet, until
from harness.reproduce.answers import PerformedRequest
from harness.reproduce.cluster import AT_ONCE_S, LONG_S, PerformedWait, Say, StagedCluster
from harness.reproduce.coordinators import PerformedCommit, PerformedTransaction
from harness.reproduce.dead_letters import PerformedLetters
from harness.reproduce.deleted_topics import NONE, PerformedDeletion
from harness.reproduce.late_requests import PerformedEndings
from harness.reproduce.library_producer import PADDING
from harness.reproduce.producer import TIMEOUT
from harness.reproduce.reproduction import Reproduction
from harness.reproduce.sendings import Sent, anomalies
from harness.reproduce.share_members import PerformedDeliveries
from harness.reproduce.stage import Deaths, FiveBrokers
from harness.reproduce.three_brokers import PerformedReplicas, ThreeBrokers
from history.broker_logs import broker_logs
from history.evidence import Evidence
from history.run_folder import Run

WATCH_S = TIMEOUT.total_seconds() + 30.0
"""How long records may take to appear: the coordinator ends by then what it takes for open."""
COMPLETE_S = 5.0
"""A completed transaction gets no marker any more; one that is on its way arrives much sooner."""
PAUSE_S = 0.5
TOLD = 5
"""Anomalies of one run that its text names."""


class Shows(StrEnum):
    """What one run showed. CLEAN: what was promised holds. UNREACHED: the cluster took another way than the
    schedule."""

    SHOWN = "the bug"
    CLEAN = "no harm"
    UNREACHED = "nothing: the schedule was not reached"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRun:
    """One run: what it shows, and what happened to which record. loading: it tells something only if a broker
    was loading when it heard that the topic was deleted. in_logs: findings of the rules about logs in its
    topic, or about its transactional id."""

    shows: Shows
    text: str
    loading: bool = False
    in_logs: tuple[LogFinding, ...] = ()


def attempts(
    reproduction: Reproduction,
    kafka: str,
    *,
    runs: int,
    good: bool,
    folder: Path,
    say: Say,
    deaths: Deaths = Deaths.KILL,
) -> list[ScheduleRun]:
    """Perform the runs on one cluster, each with a topic and a transactional id of its own.

    folder: for the brokers' logs, and what they leave on disk. Raises: ClusterError, where the cluster cannot
    be started.
    """
    began = time.monotonic()
    settings = reproduction.settings[good]

    def at(text: str) -> None:
        say(f"{time.monotonic() - began:7.2f} s  {text}")

    stage: StagedCluster
    if reproduction.on_zookeeper:
        stage = ThreeBrokers(kafka, folder, at, settings)
    else:
        stage = FiveBrokers(
            kafka,
            folder,
            at,
            settings,
            wire=reproduction.wire,
            between=reproduction.between,
            controllers=reproduction.controllers,
            deaths=deaths,
            log_dirs=reproduction.log_dirs,
            upgrade=reproduction.upgrade[good],
        )
    return on_one_cluster(stage, [(reproduction, f"run-{one}", good) for one in range(1, runs + 1)], folder)


def on_one_cluster(
    stage: StagedCluster, wanted: Sequence[tuple[Reproduction, str, bool]], folder: Path
) -> list[ScheduleRun]:
    """Start the cluster, perform these runs (reproduction, name of the topic, whether it is the good side),
    stop the cluster; then look at what it left in the folder.

    Raises: ClusterError, where the cluster cannot be started.
    """
    done: list[tuple[ScheduleRun, str]] = []
    try:
        stage.start()
        for reproduction, name, good in wanted:
            stage.say(f"{name}, of {len(wanted)} runs")
            done.append(perform(stage, reproduction, name, good))
            stage.say(f"{name} shows {done[-1][0].shows}: {done[-1][0].text}")
    finally:
        try:
            leave(stage, folder)
        finally:
            run_blocking(stage.cluster.stop())
    findings = from_logs(folder, stage.say)
    return [
        replace(
            reached(confirmed(attempt, transactional_id, reproduction.left_out, folder), name, folder),
            in_logs=about(findings, name, transactional_id),
        )
        for (reproduction, name, _), (attempt, transactional_id) in zip(wanted, done, strict=True)
    ]


def leave(stage: StagedCluster, folder: Path) -> None:
    """Bring the brokers' logs and the evidence into the folder; that ends all nodes. Raises: ClusterError."""
    run = Run(folder)
    run_blocking(stage.cluster.collect(run.cluster))
    for why in run_blocking(stage.cluster.take_evidence(run.evidence)):
        stage.say(f"evidence is missing: {why}")


def from_logs(folder: Path, say: Say) -> list[LogFinding]:
    """What the rules about logs find in the evidence, and nothing else; say each finding and crash.

    Raises: HistoryError.
    """
    tally = check_evidence(Evidence.load(Run(folder).evidence), LOG_CHECKS)
    for finding in tally.in_logs:
        say(f"in logs alone, {finding.check}, at offset {finding.offset}: {finding.text}")
    for rule, how in tally.crashed.items():
        say(f"the rule {rule} crashed: {how}")
    return tally.in_logs


def about(findings: Iterable[LogFinding], topic: str, transactional_id: str) -> tuple[LogFinding, ...]:
    """Those in the topic or about the transactional id of one run."""
    return tuple(
        one
        for one in findings
        if one.log.topic == topic or (transactional_id and one.transactional_id == transactional_id)
    )


def exit_code(done: list[ScheduleRun], good: bool) -> ExitCode:
    """0: each run showed what its side says. 1: the good side shows the bug. 4: the bad side does not. 2: a
    run showed nothing."""
    outcomes = {attempt.shows for attempt in done}
    wrong = Shows.SHOWN if good else Shows.CLEAN
    if wrong in outcomes:
        return ExitCode.ANOMALY if good else ExitCode.SILENT
    return ExitCode.UNKNOWN if Shows.UNREACHED in outcomes else ExitCode.VALID


def perform(
    stage: StagedCluster, reproduction: Reproduction, name: str, good: bool
) -> tuple[ScheduleRun, str]:
    """One run, and its transactional id ("" where it has none). name: of its topic."""
    try:
        stage.restore()
        performed = reproduction.play(stage, name, good)
        stage.restore()
        match performed:
            case PerformedCommit():
                return judge_commit(performed, good), ""
            case PerformedDeletion():
                return judge_deletion(performed), ""
            case PerformedEndings():
                judged = judge_endings(stage, performed, reproduction.shows, good)
                return judged, performed.transactional_id
            case Sent():
                return judge_sent(stage, performed, reproduction.shows, good), ""
            case PerformedLetters():
                return judge_letters(performed, reproduction.shows, good), ""
            case PerformedDeliveries():
                return judge_deliveries(performed), ""
            case PerformedReplicas():
                return judge_replicas(performed), ""
            case PerformedWait():
                return judge_wait(performed), ""
            case PerformedRequest():
                return judge_request(performed), performed.transactional_id
            case PerformedTransaction():
                return judge(cast(FiveBrokers, stage), performed), performed.producer.transactional_id
    except (ClusterError, AdminError) as error:
        return ScheduleRun(shows=Shows.UNREACHED, text=str(error)), ""


def judge_commit(performed: PerformedCommit, good: bool) -> ScheduleRun:
    """What happened to a group's commit of offsets."""
    if not performed.acknowledged and performed.early and not good:
        text = "the commit was refused before the next coordinator had one that could be taken for it"
        return ScheduleRun(shows=Shows.UNREACHED, text=text)
    if not performed.acknowledged:
        return ScheduleRun(shows=Shows.CLEAN, text="the commit was refused, so that nothing was promised")
    text = f"the commit of offset {performed.offset} by {performed.group} was acknowledged"
    if performed.found == performed.offset:
        return ScheduleRun(shows=Shows.CLEAN, text=text)
    return ScheduleRun(shows=Shows.SHOWN, text=f"{text}; the next coordinator has {performed.found}")


def judge_deletion(performed: PerformedDeletion) -> ScheduleRun:
    """What a group's offset of a deleted topic does to its reading of the next one."""
    if performed.found == NONE and not performed.passed:
        text = "the group has no offset in the new topic"
        return ScheduleRun(shows=Shows.CLEAN, text=text, loading=performed.while_loading)
    text = (
        f"{performed.group} committed offset {performed.offset} in the topic that was deleted, and has offset"
        f" {performed.found} in the new one; it is not given {', '.join(performed.passed) or 'any less'}"
    )
    survived = performed.found == performed.offset and performed.passed
    return ScheduleRun(shows=Shows.SHOWN if survived else Shows.UNREACHED, text=text)


def judge_endings(
    stage: StagedCluster, performed: PerformedEndings, shows: Set[str], good: bool
) -> ScheduleRun:
    """Which records the endings that were acknowledged do not explain. shows: the classes of anomalies of the
    bad side. Raises: ClusterError."""
    last = dict(sorted(performed.records))

    def ended() -> None:
        for tp, offset in last.items():
            if stage.stable(tp) <= offset:
                raise NotYet(f"{tp} is not stable beyond offset {offset}")

    until(WATCH_S, PAUSE_S, ended)
    read = stage.committed(list(last))
    wrong = [
        (
            LOST if committed else ABORTED,
            f"{value.rstrip(PADDING)!r} at {tp}, offset {offset},"
            f" is {'lost' if committed else 'read, though it was aborted'}",
        )
        for (tp, offset), (value, committed) in sorted(performed.records.items())
        if committed is not ((tp, offset) in read)
    ]
    if not wrong:
        return ScheduleRun(shows=Shows.CLEAN, text="the endings on record were acknowledged")
    text = "; ".join(("the endings on record were acknowledged", *few_of([told for _, told in wrong], TOLD)))
    return ScheduleRun(shows=_as_said({name for name, _ in wrong}, shows, good), text=text)


def _as_said(found: Set[str], shows: Set[str], good: bool) -> Shows:
    """The bad side shows its classes and no others; whatever the good side shows is one bug too many."""
    return Shows.SHOWN if good or found == shows else Shows.UNREACHED


def judge_sent(stage: StagedCluster, performed: Sent, shows: Set[str], good: bool) -> ScheduleRun:
    """What the logs have of a producer's records. shows: the classes of anomalies of the bad side.

    Raises: ClusterError.
    """
    found = stage.read(performed.tps, Isolation.READ_UNCOMMITTED)
    logs = {tp: [value for at, value in found.items() if at[0] == tp] for tp in performed.tps}
    wrong = list(anomalies(performed, logs))
    if not wrong:
        acknowledged, sent = len(performed.acknowledged), len(performed.sent)
        return ScheduleRun(shows=Shows.CLEAN, text=f"{acknowledged} of {sent} records were acknowledged")
    text = "; ".join(few_of([f"{name}: {sentence}" for name, sentence in wrong], TOLD))
    return ScheduleRun(shows=_as_said({name for name, _ in wrong}, shows, good), text=text)


def judge_letters(performed: PerformedLetters, shows: Set[str], good: bool) -> ScheduleRun:
    """Of what there are dead letters that should have none. shows: the classes of anomalies of the bad
    side."""
    wrong = [
        (name, f"offset {offset} of {performed.tp}, {what}, has a dead letter (delivery count {times})")
        for offset, times in sorted(performed.letters.items())
        for name, what, offsets in (
            (dead_letters.ACCEPTED, "which a member accepted", performed.accepted),
            (dead_letters.PHANTOM, "the marker of a transaction", performed.markers),
        )
        if offset in offsets
    ]
    if not wrong:
        text = "the dead-letter queue has no letter of an accepted record, and none of a marker"
        return ScheduleRun(shows=Shows.CLEAN, text=text)
    text = "; ".join(few_of([sentence for _, sentence in wrong], TOLD))
    return ScheduleRun(shows=_as_said({name for name, _ in wrong}, shows, good), text=text)


def judge_deliveries(performed: PerformedDeliveries) -> ScheduleRun:
    """What a share group gave to a member though it should not have."""
    wrong = sorted(performed.ended & performed.given)
    shown = Shows.SHOWN if wrong else Shows.CLEAN
    offsets = ", ".join(map(str, wrong or sorted(performed.given)))
    text = f"the last member is given {performed.tp}, offset {offsets}"
    return ScheduleRun(shows=shown, text=f"{text}: {performed.why}" if wrong else f"{text} alone")


def judge_replicas(performed: PerformedReplicas) -> ScheduleRun:
    """Whether the replicas of a partition have the same."""
    if not (wrong := performed.differences):
        counts = ", ".join(f"{len(log)} on broker {node}" for node, log in performed.logs.items())
        return ScheduleRun(shows=Shows.CLEAN, text=f"the replicas are equal: {counts}")
    return ScheduleRun(shows=Shows.SHOWN, text="; ".join(few_of(wrong, TOLD)))


def judge_wait(performed: PerformedWait) -> ScheduleRun:
    """How long the brokers let a client wait."""
    text = f"{performed.who} waited for {performed.waited_s:.1f} s"
    if performed.waited_s < AT_ONCE_S:
        return ScheduleRun(shows=Shows.CLEAN, text=text)
    shown = performed.waited_s >= LONG_S
    return ScheduleRun(shows=Shows.SHOWN if shown else Shows.UNREACHED, text=text)


def judge_request(performed: PerformedRequest) -> ScheduleRun:
    """Whether a broker gave the wrong answer, or the right one; else the schedule went another way."""
    outcomes = {performed.wrong: Shows.SHOWN, performed.right: Shows.CLEAN}
    shows = outcomes.get(performed.answer, Shows.UNREACHED)
    return ScheduleRun(shows=shows, text=f"{performed.asked}: {performed.answer}")


def judge(stage: FiveBrokers, performed: PerformedTransaction) -> ScheduleRun:
    """What happened to the records. Raises: ClusterError."""
    if not performed.acknowledged:
        return ScheduleRun(shows=Shows.CLEAN, text="the commit was refused, so that nothing was promised")
    coordinator = stage.leader(stage.log, stage.d)

    def missing() -> dict[tuple[TopicPartition, int], str]:
        read = stage.committed(performed.tps)
        return {at: value for at, value in performed.producer.acknowledged.items() if at not in read}

    def decided() -> str:
        gone = missing()
        if not gone:
            return ""
        state = performed.producer.described(coordinator)
        if any(stage.stable(tp) <= offset for tp, offset in gone) and state != "CompleteCommit":
            raise NotYet(f"hidden for {WATCH_S:g} s, the coordinator says {state}")
        return state

    try:
        if not until(WATCH_S, PAUSE_S, decided):
            return ScheduleRun(shows=Shows.CLEAN, text="the commit was acknowledged")
    except NotYet as error:
        hidden = str(error)
    else:
        hidden = "the coordinator has completed the transaction"
        time.sleep(COMPLETE_S)
    told = []
    for (tp, offset), value in sorted(missing().items()):
        stable = stage.stable(tp)
        what = "lost (aborted)" if stable > offset else f"hidden: {hidden}"
        told.append(f"{value!r} at {tp}, offset {offset}, last stable offset {stable}, is {what}")
    if not told:
        return ScheduleRun(shows=Shows.CLEAN, text="the commit was acknowledged")
    return ScheduleRun(shows=Shows.SHOWN, text="the commit was acknowledged; " + "; ".join(told))


def confirmed(attempt: ScheduleRun, transactional_id: str, left_out: bool, folder: Path) -> ScheduleRun:
    """The run, where `left_out` is false or a coordinator's log says that it left out markers of this id;
    else it showed something else."""
    if attempt.shows is not Shows.SHOWN or not left_out:
        return attempt
    for line in broker_logs(Run(folder)).left_out:
        if line.transactional_id == transactional_id:
            who = f"broker {line.node} left out markers in {', '.join(sorted(line.partitions))}"
            return replace(attempt, text=f"{attempt.text}; {who}")
    why = "but no broker's log says that it left out a marker"
    return ScheduleRun(shows=Shows.UNREACHED, text=f"{attempt.text}; {why}")


def reached(attempt: ScheduleRun, topic: str, folder: Path) -> ScheduleRun:
    """The run, if it did no harm to a group whose coordinator was loading when it heard of the topic's
    deletion, as its log says; one that had loaded removes the offset as it should, and shows nothing."""
    if attempt.shows is not Shows.CLEAN or not attempt.loading:
        return attempt
    if any(line.loading and topic in line.topics for line in broker_logs(Run(folder)).deleted):
        return attempt
    why = f"no broker's log says that it was loading when {topic} was deleted"
    return replace(attempt, shows=Shows.UNREACHED, text=f"{attempt.text}; {why}")
