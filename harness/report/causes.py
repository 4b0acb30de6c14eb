"""What is known of how a finding came about, from what the run recorded.

A cause is called likely where the run names one: a bug that is planted in its cluster, a known bug whose
signature every finding bears, a setting that permits the finding; else where brokers' files or the trace show
a step that leads to it. A run that shows neither says so, and what would show it.
"""

from dataclasses import dataclass
from typing import Final

from core.errors import HistoryError
from core.systems import planted_bug
from harness.report.classes import OF_GROUPS, OF_POLLS, OF_REPLICAS, OF_SEQUENCES, OF_SHARES, OF_TRANSACTIONS
from harness.report.facts import FACTS
from harness.report.inputs import Inputs
from harness.report.traces import Traces
from history.verdict import Anomaly, Verdict, bugs_of

NO_FILES: Final = "this run has no copies of brokers’ files"
LACKING: Final[tuple[tuple[frozenset[str], str], ...]] = (
    (OF_REPLICAS, "how far each replica’s log reached when leaders changed"),
    (OF_GROUPS, "the group’s commits in __consumer_offsets, and the answers to its fetches of offsets"),
    (OF_SEQUENCES, "the producer ids and sequences of the batches, and which requests had no answer"),
    (OF_TRANSACTIONS, "the coordinator’s log, and the markers in each partition"),
    (OF_SHARES, "the share group’s deliveries and acknowledgements of the record"),
    (OF_POLLS, "the consumer’s requests (a run with --set capture=true)"),
)
"""Classes -> what would show their cause, the first that fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Of a finding. named: what the run itself names as cause, "" = nothing. facts: what was recorded of the
    mechanism, as sentences. lacking: what would show it; "" where there are facts or a name."""

    named: str
    facts: list[str]
    lacking: str


def build(name: str, anomaly: Anomaly, traces: Traces) -> Cause:
    """Of a class, by its first example."""
    verdict = traces.inputs.verdict
    named = _named(verdict, anomaly)
    facts: list[str] = []
    try:
        for classes, tell in FACTS:
            if name in classes:
                facts += tell(traces)
    except HistoryError as error:
        traces.inputs.gaps.append(f"{error}: what led to {name} is not shown as a whole.")
    return Cause(named=named, facts=facts, lacking="" if named or facts else _lacking(name, traces.inputs))


def _named(verdict: Verdict, anomaly: Anomaly) -> str:
    """What configuration, label or permission names."""
    planted = planted_bug(verdict.config)
    if planted:
        from model.mutants.log_damage import LOG_DAMAGE  # few reports need it
        from model.mutants.registry import MUTANTS

        if planted in MUTANTS:
            bug = MUTANTS[planted]
            return f"the bug planted in this run, {planted}: {bug.wrong}; in Kafka {bug.right}"
        wrong = LOG_DAMAGE[planted].wrong if planted in LOG_DAMAGE else ""
        return f"the bug planted in this run, {planted}" + (f": {wrong}" if wrong else "")
    if anomaly.known_bug:
        from checkers.known_bugs.registry import KNOWN_BUGS  # few reports need it

        bugs = bugs_of(anomaly.known_bug)
        bears = (
            "and every finding bears the signature of one"
            if bugs[1:]
            else "whose signature every finding bears"
        )
        titles = "; ".join(KNOWN_BUGS[bug].title for bug in bugs if bug in KNOWN_BUGS)
        return f"{anomaly.known_bug}, {bears}" + (f": {titles}" if titles else "")
    return "" if anomaly.disallowed else f"what this run permits: {anomaly.why}"


def _lacking(name: str, inputs: Inputs) -> str:
    wanted = next((what for classes, what in LACKING if name in classes), "what brokers logged then")
    none = inputs.evidence is None or not inputs.evidence.table("takes").num_rows
    return f"{wanted} would show it" + (f"; {NO_FILES}" if none else "")
