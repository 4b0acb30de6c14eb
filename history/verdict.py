"""The verdict of a run: `verdict.json`, written by the checker, read by the report and by people.

Everything that the report says about anomalies stands here, in words, so that a run can be reported
without the checker. `valid` is True only where every check that applies decided, and found nothing
that is forbidden.
"""

from enum import StrEnum
from typing import Final, Literal

import msgspec

from core.errors import ExitCode
from core.presets import NamedSettings


class OpView(msgspec.Struct, frozen=True, kw_only=True):
    """One op of a witness. Times are seconds since the start of the run; end_s None = never.

    records: at most 8 of its records that matter here, as text (`send q-3 value 12 -> offset 7`).
    """

    op: int
    process: int
    slot: int
    f: str
    outcome: str
    phase: str
    error: str = ""
    txn: bool = False
    transactional_id: str = ""
    isolation: str = ""
    begin_s: float
    end_s: float | None
    records: list[str] = []


class LogPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The place in brokers' logs that a finding is about.

    offset: -1 = the partition as a whole. take, nodes: where it stands; take -1 = it is about messages of
    these nodes. before: the state before it, "" = there is none. transactional_id: "" = it is about none.
    """

    offset: int
    take: int
    nodes: list[int]
    before: str = ""
    transactional_id: str = ""


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """One finding with its minimal witness.

    sentence: the whole story in one plain sentence. faults: ids of the faults in force then. producer:
    identity as the client's statistics reported it (producer_id, epoch, epoch_cnt), or as brokers' logs have
    it, if known. check: that of evidence which found it, "" = one of the history. log: its place then.
    """

    sentence: str
    allowed: bool
    why: str
    known_bug: str = ""
    partition: str = ""
    offsets: list[int] = []
    values: list[int] = []
    leader_epochs: list[int] = []
    at_s: float | None = None
    faults: list[int] = []
    ops: list[OpView] = []
    producer: dict[str, int] = {}
    check: str = ""
    log: LogPlace | None = None


def bugs_of(known_bug: str) -> list[str]:
    """The ids in a `known_bug` of a class, which are separated by commas."""
    return [bug for bug in known_bug.split(", ") if bug]


class Anomaly(msgspec.Struct, frozen=True, kw_only=True):
    """All findings of one class. `count` is exact; `examples` are capped: those of the history together, and
    those of each check of evidence.

    disallowed: findings that nothing in configuration or faults permits. allowed: disallowed == 0.
    why: why it is allowed, or forbidden, here. known_bug: ids (`bugs_of`) of known bugs, where every
    disallowed finding bears the signature of one (they stay disallowed), else "". known_bug_url: of one.
    """

    title: str
    literature: str
    meaning: str
    count: int
    disallowed: int
    allowed: bool
    why: str
    known_bug: str = ""
    known_bug_url: str = ""
    examples: list[Example] = []


CheckStatus = Literal["valid", "permitted", "invalid", "unknown", "crashed", "unasked"]
"""permitted: the claim does not hold, and nothing here promises it. unasked: the run has nothing that the
check could have refused, or the recording does not hold what it needs."""


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check. `why` says what it found, what kept it from deciding, or how it crashed.

    rows: that it was applied to; of a check of evidence: rows or pairs of rows that it could have refused.
    anomalies: the classes of its findings. found: exact. disallowed: of those, what nothing in configuration
    or faults permits. doubts: what it could not decide, capped, in words. ring: of a check of evidence
    (docs/log-rules.md), -1 = it reads the history.
    """

    claim: str
    status: CheckStatus
    seconds: float
    rows: int
    why: str = ""
    anomalies: list[str] = []
    found: int = 0
    disallowed: int = 0
    doubts: list[str] = []
    ring: int = -1


class FaultHits(msgspec.Struct, frozen=True, kw_only=True):
    """What was under way where a fault began, and what happened under it (docs/checks.md, "Hits").

    records, records_hit: in flight when it began; of those to partitions that its nodes led, or of its
        clients. transactions, transactions_hit: open then; of those coordinated by its nodes, or of its
        clients. None = no leader was known. sending, ending: the transactions hit by what they were at.
    ops_hit: ops of its clients under way then. members: those of its clients that are in a group.
    leaders, coordinators: data partitions, and partitions that coordinate an id or a group of this run,
        that another node led afterwards. controller: whether another node was the active controller.
    failed, in_doubt: ops that ended so while it was in force.
    nothing: none of all that, and no partition made a record wait for a second; None = not known.
    """

    records: int
    records_hit: int | None
    transactions: int
    transactions_hit: int | None
    sending: int
    ending: int
    ops_hit: int
    members: int
    leaders: int
    coordinators: int
    controller: bool
    failed: int
    in_doubt: int
    nothing: bool | None


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One fault as it was in force, seconds since the start of the run; end_s None = never healed.

    hits: None = not measured (a verdict of an older version). reached: facts (docs/checks.md, "Reached").
    wanted: its nemesis is there to reach one of these; none = whatever it hits.
    """

    fault: int
    name: str
    text: str
    nodes: list[int]
    begin_s: float
    end_s: float | None
    colour: str
    slots: list[int] = []
    hits: FaultHits | None = None
    reached: list[str] = []
    wanted: list[str] = []

    @property
    def idle(self) -> bool:
        """It reached nothing of what its nemesis is for: where that is not said, it hit nothing."""
        if self.wanted:
            return not set(self.wanted) & set(self.reached)
        return self.hits is not None and self.hits.nothing is True

    @property
    def without_effect(self) -> bool:
        """It is idle, and hit nothing."""
        return self.idle and self.hits is not None and self.hits.nothing is True

    @property
    def known_to_reach(self) -> bool:
        """It reached something of that. Of some faults neither is known."""
        if self.wanted:
            return not self.idle
        return self.hits is not None and self.hits.nothing is False


class Stall(msgspec.Struct, frozen=True, kw_only=True):
    """A time in which nothing was acknowledged: in the whole run (partition "") or in one partition.

    Seconds since the start of the run; only stalls of at least a second, longest first, capped.
    faults: ids of the faults that were in force at some time of it.
    """

    partition: str
    begin_s: float
    end_s: float
    faults: list[int] = []


STALLS_KEPT: Final = 64
"""Stalls in a verdict."""


class FaultLiveness(msgspec.Struct, frozen=True, kw_only=True):
    """What one fault cost, in seconds.

    stalled_s: longest time without any acknowledgement while it was in force or within recovery.
    partition, partition_stalled_s: the partition that waited longest, and how long.
    recovered_s: from healing until every partition had an acknowledgement of a record sent after it;
        None = not before the end of the load, or before the next fault.
    back_s: the same, also where the next fault had begun; None = not before the end of the load, or an older
        version judged.
    served: share of the time from injecting to the end of healing (else of the load) that lies within
        1 s after an acknowledgement; None = it was in force for no time, or an older version judged.
    """

    fault: int
    stalled_s: float
    partition: str
    partition_stalled_s: float
    recovered_s: float | None
    back_s: float | None = None
    served: float | None = None


class Liveness(msgspec.Struct, frozen=True, kw_only=True):
    """How the cluster kept serving.

    Served time lies within 1 s after an acknowledgement of any record. available: its share of the phase
    of faults. under_faults: its share of the time in which a fault was in force. None = no such time.
    stalls: the longest; stall_count: of all there were, None = an older version judged.
    """

    faults: list[FaultLiveness] = []
    stalls: list[Stall] = []
    stall_count: int | None = None
    available: float | None = None
    under_faults: float | None = None


COMPARED: Final = {
    0: "copies of a log",
    1: "a log with the model",
    3: "logs with each other",
    4: "messages with logs",
}
"""Ring of rules about logs -> what they compare, for tables."""


class LogTake(msgspec.Struct, frozen=True, kw_only=True):
    """One look at nodes' files (`history.evidence`). at_s: the earliest of its nodes, seconds of the run."""

    take: int
    why: str
    nodes: list[int]
    at_s: float


class Logs(msgspec.Struct, frozen=True, kw_only=True):
    """What the checks of evidence had before them (docs/checks.md, section "Brokers' logs").

    why: why nothing was judged, "" = it was. lacks: what cannot be read of the evidence that the run had; the
    verdict is unknown then. missing: what part of the evidence could not be taken; checks that found nothing
    are unknown then. exercised: share of the checks of evidence that were asked. seconds: spent.
    """

    why: str = ""
    lacks: str = ""
    takes: list[LogTake] = []
    exercised: float = 0.0
    seconds: float = 0.0
    missing: list[str] = []


class ReportedIncident(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened in a run without being planned. at_s: seconds since its start. checks: those
    that it kept from deciding, "all" = every one."""

    at_s: float
    text: str
    checks: list[str] = []


class RecordedClients(msgspec.Struct, frozen=True, kw_only=True):
    """Clients of one kind, as the history has them. acks: None = it does not produce, or not on record.
    isolation: "" = it does not consume. group: it is a member of a consumer group."""

    count: int
    produces: bool
    acks: int | None
    idempotent: bool
    transactional: bool
    isolation: str
    group: bool


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """What the user required of the run (`--require`), as written. why: what the run has of it."""

    text: str
    met: bool
    why: str


class ResultWord(StrEnum):
    """What a run came to: the one word for it on the terminal, in pages, in summaries, in a soak.

    KNOWN_BUGS: all forbidden findings bear the signature of known bugs (the exit code is 1 all the same).
    NOT_EXERCISED: nothing forbidden, but no fault reached anything of what its nemesis is for, or no record
    was acknowledged. UNMET: nothing forbidden, but something was required that the run does not meet.
    """

    VALID = "valid"
    CONTROL_FIRED = "control fired"
    NOT_EXERCISED = "not exercised"
    KNOWN_BUGS = "known bugs only"
    ANOMALY = "anomaly"
    NOT_RECOVERED = "did not recover"
    CONTROL_SILENT = "control did not fire"
    UNKNOWN = "unknown"
    UNMET = "requirement not met"

    @property
    def code(self) -> ExitCode:
        """The exit code of a run that came to this, unless it was interrupted."""
        match self:
            case ResultWord.ANOMALY | ResultWord.KNOWN_BUGS:
                return ExitCode.ANOMALY
            case ResultWord.NOT_RECOVERED:
                return ExitCode.NOT_RECOVERED
            case ResultWord.CONTROL_SILENT:
                return ExitCode.SILENT
            case ResultWord.UNKNOWN:
                return ExitCode.UNKNOWN
            case ResultWord.UNMET:
                return ExitCode.UNMET
        return ExitCode.VALID


VERDICT_FORMAT = 2
"""Of verdict.json. Those of format 1 have the results of checks of evidence elsewhere: they are read
without."""

IN_THE_LOG: Final = "the final reads at read_uncommitted returned it"
"""Words of the sentence about a record that is lost to readers at read_committed, and that its log has."""
NOT_RECOVERED = "not-recovered"
"""The anomaly class with a result and an exit code of its own."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The whole of verdict.json.

    anomalies: the most severe class first. checks: those of evidence only where the run has some.
    exit_code: docs/architecture.md, "Exit codes". summary: the verdict in one plain sentence.
    unknown: what could not be decided, in words. expect: class -> found (controls).
    stats: numbers by name (ops, ok, fail, info, records sent, acknowledged, read, seconds, …).
    logs: None = a verdict of an older version.
    incidents: the earliest first. engine: what judged, as "Spark 4.3.0, local[2], 41 tasks", "this process".
    recovered: None = it is not on record, or not only this run's cluster is. recovery_s: None where the run
    did not recover or did not get that far. reached: facts that a fault or the
    run as a whole reached; None = a verdict of an older version. requirements: in the order of `--require`.
    """

    format: int = VERDICT_FORMAT
    run: str
    valid: bool | Literal["unknown"]
    exit_code: int
    seed: int
    summary: str
    config: NamedSettings
    anomalies: dict[str, Anomaly]
    checks: dict[str, CheckResult]
    unknown: list[str]
    expect: dict[str, bool]
    recovered: bool | None
    recovery_s: float | None
    interrupted: bool
    faults: list[Fault]
    stats: dict[str, float]
    repro: str
    liveness: Liveness = msgspec.field(default_factory=Liveness)
    logs: Logs | None = None
    incidents: list[ReportedIncident] = []
    engine: str = ""
    clients: list[RecordedClients] = []
    reached: list[str] | None = None
    requirements: list[Requirement] = []

    @property
    def client_checks(self) -> dict[str, CheckResult]:
        """Checks of the history."""
        return {name: one for name, one in self.checks.items() if one.ring < 0}

    @property
    def log_checks(self) -> dict[str, CheckResult]:
        """Checks of evidence."""
        return {name: one for name, one in self.checks.items() if one.ring >= 0}

    @property
    def log_examples(self) -> list[Example]:
        """What checks of evidence found, those that nothing permits first, then by check."""
        examples = (one for anomaly in self.anomalies.values() for one in anomaly.examples)
        found = [one for one in examples if one.log is not None]
        return sorted(found, key=lambda one: (one.allowed, one.check))

    @property
    def result(self) -> ResultWord:
        """It follows from the findings, the worst first, and not from the exit code: a verdict file that
        another program wrote or edited must not look better than what it contains."""
        every = {name: one for name, one in self.anomalies.items() if one.disallowed}
        bad = [name for name in every if name != NOT_RECOVERED]
        if bad and all(one.known_bug for one in every.values()) and self.valid is False and not self.unknown:
            return ResultWord.KNOWN_BUGS
        if bad or (self.valid is False and self.recovered is not False):
            return ResultWord.ANOMALY
        if self.recovered is False:
            return ResultWord.NOT_RECOVERED
        if not all(self.expect.values()):
            return ResultWord.CONTROL_SILENT
        if self.valid == "unknown":
            return ResultWord.UNKNOWN
        if self.unmet:
            return ResultWord.UNMET
        if self.expect:
            return ResultWord.CONTROL_FIRED
        return ResultWord.VALID if self.exercised else ResultWord.NOT_EXERCISED

    @property
    def unmet(self) -> list[Requirement]:
        """What was required and is not met."""
        return [one for one in self.requirements if not one.met]

    @property
    def exercised(self) -> bool:
        """Records were acknowledged or read, and a fault, if there was one, reached something of what its
        nemesis is for."""
        idle = bool(self.faults) and all(fault.idle for fault in self.faults)
        names = ("records acknowledged", "records read")
        return not idle and any(self.stats.get(name, 1) for name in names)
