"""Ring 3, flushes: what brokers were set to flush, they had flushed when they died. At the end of a run the
harness kills all that live.

A broker notes each second up to where it has flushed each log (its recovery point), and how far each log is
committed (its high watermark). A loss of power that the harness makes keeps what the settings have flushed,
and so cannot show that nothing was.

A broker that is paused notes nothing, and stays in sync until its session ends. A controller writes something
each half second; while none does, no session ends.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow.compute as pc

from checkers.engine.check import Tally, WholeRun
from checkers.log_settings import MOST_COUNTED
from checkers.logs.classes import UNFLUSHED
from checkers.logs.clocks import nodes_apart_ms
from checkers.logs.elections import Elections, elections, newest_log
from checkers.logs.lineage import acknowledged_sends
from checkers.logs.replicas import ReplicaLog, finding, replicas
from checkers.logs.rule import Rule, checks_of
from core.config import RunConfig, recorded_config
from core.flushing import FIRST_LOOK_MS, Flushing, flushing, number
from core.op import TopicPartition
from core.systems import KafkaSection, is_since
from history.columns import Array
from history.evidence import Evidence

AS_SET: Final = "flushed-as-set"
RULES: Final = {
    AS_SET: Rule(
        "Where brokers flush by number or by time, the recovery point that a broker left when it died, or"
        " was killed at the end of the run, is beyond what it had to flush long enough before, less the"
        " records that may be left unflushed. It had what was sent, and acknowledged with acks=all, while it"
        " was in sync until its death.",
        "UnifiedLog.append, LogManager.flushDirtyLogs, LogManager.checkpointLogRecoveryOffsets; settings"
        " flush.messages, flush.ms",
        UNFLUSHED,
    )
}
NOTES_MS: Final = 1_000
"""A broker notes its recovery points this often, as the harness sets it."""
SLOW_MS: Final = 10_000
"""More, for one that is slow, or paused and still in sync."""
SESSION, SESSION_MS = "broker.session.timeout.ms", 3_000
"""As the harness sets it (`docker/kafka/broker.properties`)."""
STILL_MS: Final = 2_000
"""Of a time in which no controller writes anything, this counts at most."""
DELAY_SET: Final = "3.9"
"""From here on `log.initial.task.delay.ms` is known to be heeded; else a broker first notes anything 30 s
after its start."""


def join(run: WholeRun, result: Tally) -> None:
    """Apply the rule to the topics of a run on brokers that the harness has set up; nothing where they have a
    second log directory, for a log may move there."""
    if run.history is None:
        return
    config = recorded_config(run.history.run.config)
    if not config.has(KafkaSection) or config.section(KafkaSection).log_dirs > 1:
        return
    of = flushing(config, "")
    if not [*_duties(of)]:
        return
    judge = _Judge(
        time=run.evidence.once(_Time),
        noted_ms=_noted_ms(config) + nodes_apart_ms(run.history),
        apart_ms=nodes_apart_ms(run.history),
        delay_ms=_delay_ms(config),
        result=result,
    )
    for tp, sent in acknowledged_sends(run.history).items():
        lineage = elections(run.evidence, tp)
        if lineage.unknown or lineage.topics > 1:
            continue
        for log in replicas(run.evidence, tp):
            stay = _stay(lineage, log, run.evidence.once(_registrations).get(log.node, ()))
            if stay is not None:
                for duty in _duties(of):
                    judge.flushed(tp, log, stay, sent, duty)


CHECKS: Final = checks_of(RULES, ring=3, join=join)


class Duty(NamedTuple):
    """What flushing asks of a log. left: how many records may be left unflushed. after_ms: how long after it
    was appended a record is flushed. text: in words."""

    left: int
    after_ms: int
    text: str


def _duties(of: Flushing) -> Iterator[Duty]:
    if 0 < of.records <= MOST_COUNTED:
        yield Duty(of.records - 1, 0, f"flush.messages {of.records}")
    if of.looks_ms:
        yield Duty(0, of.latest_ms, f"flush.ms {of.after_ms}, which is looked at each {of.looks_ms} ms")


def _delay_ms(config: RunConfig) -> int:
    """How long after its start a broker first notes its recovery points."""
    kept = is_since(config.section(KafkaSection).version, DELAY_SET)
    return number(config.broker_settings, "log.initial.task.delay.ms", 0) if kept else FIRST_LOOK_MS


def _noted_ms(config: RunConfig) -> int:
    """How long it may take until a broker has noted something: a controller that has just been elected gives
    it a whole session again."""
    session_ms = number(config.broker_settings, SESSION, SESSION_MS)
    return NOTES_MS + max(SLOW_MS, 2 * session_ms + 2 * STILL_MS)


class _Time:
    """How much of the time between two moments counts, by the newest metadata log."""

    def __init__(self, evidence: Evidence) -> None:
        log = evidence.once(newest_log)
        times = [] if log is None else log["timestamp"].to_pylist()
        self._ms = np.maximum.accumulate(np.array(times or [0], np.int64))
        counted = np.minimum(np.diff(self._ms), STILL_MS)
        self._counted = np.concatenate([[0], np.cumsum(counted)])

    def passed(self, since_ms: Array, until_ms: int) -> Array:
        """Of each moment until one."""
        return self._at(np.array([until_ms])) - self._at(since_ms)

    def _at(self, moments: Array) -> Array:
        row = np.maximum(np.searchsorted(self._ms, moments, "right") - 1, 0)
        found: Array = self._counted[row] + np.clip(moments - self._ms[row], 0, STILL_MS)
        return found


class Stay(NamedTuple):
    """A replica was in sync, beside another one, until its process died: since when, and until when it had
    heard of the metadata log."""

    since_ms: int
    until_ms: int


def _registrations(evidence: Evidence) -> dict[int, list[tuple[int, int]]]:
    """By broker: offset and time (ms) of each of its registrations in the newest metadata log."""
    found: dict[int, list[tuple[int, int]]] = {}
    log = evidence.once(newest_log)
    if log is not None:
        mine = log.filter(pc.equal(log["name"], "RegisterBrokerRecord"))
        for row in mine.select(["broker", "offset", "timestamp"]).to_pylist():
            found.setdefault(row["broker"], []).append((row["offset"], row["timestamp"]))
    return found


def _stay(lineage: Elections, log: ReplicaLog, registered: Sequence[tuple[int, int]]) -> Stay | None:
    """The last one before a death, of one process: a broker that registers as its session has ended, before
    the controller fences it, stays in sync. None = it was not in sync, or nothing says it, or records may be
    lost."""
    heard, until_ms = lineage.heard.get((log.take, log.node), (-1, -1))
    since_ms = -1
    for offset, (ms, state) in zip(lineage.offsets, lineage.states, strict=True):
        if offset > heard:
            break
        if log.node not in state.isr or len(state.isr) < 2:
            since_ms = -1
        elif since_ms < 0:
            since_ms = ms
    unclean = any(not one.clean and one.ms >= since_ms for one in lineage.found)
    if since_ms < 0 or until_ms < 0 or unclean:
        return None
    return Stay(max([since_ms, *(ms for offset, ms in registered if offset <= heard)]), until_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judge:
    """noted_ms: how long after a record had to be flushed a broker has noted it, for all that is known."""

    time: _Time
    noted_ms: float
    apart_ms: float
    delay_ms: int
    result: Tally

    def flushed(
        self, tp: TopicPartition, log: ReplicaLog, stay: Stay, sent: dict[str, Array], duty: Duty
    ) -> None:
        """Only what was sent in this stay counts: what a log had before its node started is flushed with the
        next append. The high watermark shows that the node noted something after it had the record."""
        due = np.maximum(sent["ack_ms"] + duty.after_ms, stay.since_ms + self.delay_ms)
        known = (sent["offset"] < log.high_watermark) & (sent["offset"] >= duty.left)
        known &= sent["invoke_ms"] >= stay.since_ms + self.apart_ms
        known &= self.time.passed(due, stay.until_ms) >= self.noted_ms
        if not known.any():
            return
        if "recovery-point" not in log.marks:
            self.result.leave_open(AS_SET, tp, f"{log.where()} has no checkpoint of its recovery point")
            return
        self.result.asked[AS_SET] += int(known.sum())
        point = log.marks["recovery-point"]
        last = int(np.argmax(np.where(known, sent["offset"], -1)))
        offset = int(sent["offset"][last])
        if point < offset + 1 - duty.left:
            before = (stay.until_ms - sent["ack_ms"][last]) / 1000
            text = (
                f"{log.where()}: its recovery point is {point}, with {duty.text}; process"
                f" {sent['process'][last]} sent a record that was acknowledged at offset {offset},"
                f" {before:.1f} s or more before the node died, and the node was in sync from then on"
            )
            self.result.refuse(finding(AS_SET, tp, offset, [log], text))
