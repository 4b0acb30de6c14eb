"""The verdict and the configuration in words, for all forms of the report.

Not here: how anomalies are explained (that stands in the verdict), markup.
"""

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from harness.op import Isolation
from harness.verdict import Anomaly, Fault, Verdict

NOT_RECOVERED = "not-recovered"
COMMITS = {
    "transaction": "committed in the transaction of their output",
    "after": "committed by themselves after the output",
    "before": "committed by themselves before the output",
}
ACKS = {0: "0 (none)", 1: "1 (leader only)", -1: "all"}


@dataclass(frozen=True, slots=True)
class State:
    """What a verdict comes to. `key` names it in the style sheet."""

    key: str
    symbol: str
    word: str
    meaning: str


VALID = State(
    "valid", "✓", "Valid",
    "Every check that applies decided, and none found anything that is forbidden here. "
    "This says what was seen in this run; it is no proof for other runs.",
)  # fmt: skip
FIRED = State(
    "valid", "✓", "Control fired",
    "This run is a control: it had to misbehave in a known way, and the checks saw it do so. "
    "Nothing else that is forbidden was found.",
)  # fmt: skip
ANOMALY = State(
    "anomaly", "✕", "Anomaly found",
    "At least one finding is permitted neither by the configuration nor by the faults.",
)  # fmt: skip
NOT_BACK = State(
    "not-recovered", "!", "Did not recover",
    "After all faults were taken back the cluster did not work again within the deadline.",
)  # fmt: skip
SILENT = State(
    "silent", "○", "Control did not fire",
    "This run is a control: it had to misbehave in a known way, and the checks did not see it. "
    "Nothing can be concluded from it about the checks.",
)  # fmt: skip
UNKNOWN = State(
    "unknown", "?", "Unknown",
    "Nothing forbidden was found, but something that matters could not be decided.",
)  # fmt: skip

EXIT_CODES = {"anomaly": 1, "not-recovered": 3, "silent": 4, "unknown": 2, "valid": 0}
INTERRUPTED = 130


def state(verdict: Verdict) -> State:
    """What the verdict comes to: anomaly before not recovered, control silent, unknown, valid.

    Judged by all fields, the worst first, so that none of them can be painted over by another.
    """
    found = any(
        anomaly.disallowed for name, anomaly in verdict.anomalies.items() if name != NOT_RECOVERED
    )
    if found or (verdict.valid is False and verdict.recovered is not False):
        return ANOMALY
    if verdict.recovered is False:
        return NOT_BACK
    if not all(verdict.expect.values()):
        return SILENT
    if verdict.valid == "unknown":
        return UNKNOWN
    return FIRED if verdict.expect else VALID


def contradiction(verdict: Verdict) -> str:
    """What the exit code says against the rest of the verdict, or ""."""
    expected = EXIT_CODES[state(verdict).key]
    if verdict.exit_code in (expected, INTERRUPTED):
        return ""
    return (
        f"The verdict contradicts itself: its exit code is {verdict.exit_code}, "
        f"its findings say {expected}."
    )


def forbidden(verdict: Verdict) -> dict[str, Anomaly]:
    """Classes with findings that nothing permits, most findings first."""
    return {name: found for name, found in ranked(verdict) if found.disallowed}


def ranked(verdict: Verdict) -> list[tuple[str, Anomaly]]:
    """All classes: forbidden ones first, then by count, then by name."""
    return sorted(
        verdict.anomalies.items(), key=lambda item: (-item[1].disallowed, -item[1].count, item[0])
    )


def number(value: float, digits: int = 0) -> str:
    """A number for people, thousands apart; a dash for none."""
    if math.isnan(value):
        return "–"
    return f"{value:,.{digits}f}".replace(",", "\u202f")


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


def value(code: int) -> str:
    """A record's value with the process that sent it, which its high half names."""
    return f"{code >> 32}/{code & 0xFFFFFFFF}"


def isolation(setting: Any) -> str:
    """Kafka's name of an isolation level, however the config spells it."""
    if isinstance(setting, int) and setting in list(Isolation):
        setting = Isolation(setting).name
    return str(setting).lower()


def hit(fault: Fault) -> str:
    """Whom a fault hit."""
    parts = [
        f"{one if len(numbers) == 1 else one + 's'} {', '.join(map(str, numbers))}"
        for one, numbers in (("node", fault.nodes), ("client", fault.slots))
        if numbers
    ]
    return "; ".join(parts)


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
    """What could not be decided: checks that lack the same thing are told together."""
    reasons: dict[str, list[str]] = {}
    for told in verdict.unknown:
        check, colon, why = told.partition(": ")
        known = colon and check in verdict.checks
        reasons.setdefault(why if known else told, []).extend([check] if known else [])
    return [
        sentence(f"{', '.join(checks)}: {why}" if checks else why)
        for why, checks in reasons.items()
    ]


def held(verdict: Verdict) -> str:
    """How many checks came to what, in one sentence."""
    statuses = [check.status for check in verdict.checks.values()]
    if not statuses:
        return "No check was run."
    parts = [f"{statuses.count('valid')} of {count(len(statuses), 'check')} hold"]
    for status, word in (("invalid", "broken"), ("unknown", "unknown"), ("crashed", "crashed")):
        if status in statuses:
            parts.append(f"{statuses.count(status)} {word}")
    return ", ".join(parts) + "."


def tested(config: dict[str, Any]) -> list[tuple[str, str]]:
    """What was tested: term and description. Settings that the config lacks are left out."""

    def has(*names: str) -> bool:
        return all(name in config for name in names)

    rows: list[tuple[str, str]] = []
    if has("sut", "kafka", "brokers"):
        system = f"Apache Kafka {config['kafka']}"
        if config["sut"] != "kafka":
            system = str(config["sut"]) + f", era {config['era']}" * ("era" in config)
            system += f", mutant {config['mutant']}" if config.get("mutant") else ""
        nodes = _brokers(config["brokers"])
        if config.get("controllers"):
            nodes += f", {count(config['controllers'], 'isolated controller')}"
        rows.append(("System", f"{system}, {nodes}"))
    if has("partitions", "replication_factor", "min_insync_replicas"):
        unclean = config.get("unclean_leader_election")
        rows.append((
            "Topics",
            f"{config['partitions']} partitions, replication factor "
            f"{config['replication_factor']}, min.insync.replicas {config['min_insync_replicas']}, "
            f"unclean leader election {'ON' if unclean else 'off'}",
        ))  # fmt: skip
    if has("workload", "preset"):
        rows.append(("Workload", f"{config['workload']}, preset {config['preset']}"))
    if has("producers", "acks", "idempotent"):
        idempotent = "idempotent" if config["idempotent"] else "not idempotent"
        acks = ACKS.get(config["acks"], str(config["acks"]))
        rows.append(("Producers", f"{config['producers']}, acks {acks}, {idempotent}"))
    if has("consumers", "isolation"):
        rows.append(("Consumers", f"{config['consumers']}, {isolation(config['isolation'])}"))
    if config.get("commit", "transaction") in COMMITS and config.get("workload") == "copier":
        rows.append(("Input offsets", COMMITS[config.get("commit", "transaction")]))
    if has("nemesis", "duration_s"):
        rows.append(("Nemesis", f"{config['nemesis']}, for {plain(float(config['duration_s']))} s"))
    return rows


def _brokers(many: Any) -> str:
    return "1 broker" if many == 1 else f"{many} brokers"
