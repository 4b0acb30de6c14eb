"""The naive judge: findings, what is permitted, what could not be decided, and the verdict.

Written from docs/checks.md, without a look at the checker's code. See `tests.adversary.facts`.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

from core.config import RunConfig
from core.op import Isolation, Phase
from history.events import (
    BoundsListed,
    ClockJumped,
    EndsUnseen,
    Event,
    FaultFailed,
    FaultStarted,
    Interrupted,
    NodeEnded,
    Recovered,
    WrongClusterSeen,
    incomplete,
)
from tests.adversary.application_classes import left_unread, made_nothing, maybe_in_order, unfinished
from tests.adversary.classes import RULES, exit_open, from_outside, named_input, settled, torn_parts
from tests.adversary.excuses import Logs, fences
from tests.adversary.facts import OK, Facts
from tests.adversary.group_classes import copying, groups_of, uncopied
from tests.adversary.registration import without
from tests.adversary.rows import Key, Recorded, Said
from tests.adversary.share_classes import unlisted

CHECKS = {
    "durability": ("lost-write", "unseen"),
    "compaction": ("resurrected-key",),
    "uniqueness": ("duplicate",),
    "atomicity": ("torn-txn",),
    "isolation": ("aborted-read", "precommitted-read"),
    "integrity": ("phantom-read", "corrupt-record", "misdirected-record"),
    "consistency": ("inconsistent-offsets", "offset-reuse"),
    "real-time": ("offset-realtime-inversion",),
    "send-order": ("nonmonotonic-send", "int-nonmonotonic-send", "int-send-skip"),
    "poll-order": ("nonmonotonic-poll", "int-nonmonotonic-poll", "poll-skip", "int-poll-skip"),
    "group-offsets": ("offset-commit-regression", "phantom-commit"),
    "stability": ("stuck-lso", "hanging-txn"),
    "exactly-once": ("eos-duplicate", "eos-loss", "eos-uncommitted"),
    "copy-order": ("nonmonotonic-copy",),
    "group-delivery": ("group-duplicate", "group-skip", "double-assignment"),
    "share-groups": (
        "share-redelivery",
        "share-two-holders",
        "share-skip",
        "share-aborted-read",
        "share-count",
        "share-over-limit",
    ),
    "fencing": ("zombie-write",),
    "cycles": ("G1c", "G1c-realtime", "G1c-ww", "G0", "G0-realtime"),
    "recovery": ("not-recovered", "stalled-client", "node-died"),
}
CONTENT = (
    "exactly-once",
    "copy-order",
    "group-delivery",
    "durability",
    "compaction",
    "atomicity",
    "uniqueness",
    "isolation",
    "integrity",
    "consistency",
)
"""Checks that read the logs' content."""
INFORMATIONAL = ("offset-reuse", "int-send-skip", "G1c-ww", "G0", "G0-realtime")
OF_THE_LEADER = ("lost-write", "offset-realtime-inversion", "inconsistent-offsets", "resurrected-key")
"""Classes that the leader alone may bring about where it alone had a record."""
NEVER_PERMITTED = (
    "unseen", "corrupt-record", "misdirected-record", "not-recovered", "stalled-client",
)  # fmt: skip


class Permission:
    """What configuration and faults let Kafka do."""

    def __init__(self, f: Facts) -> None:
        config: RunConfig = f.recorded.config
        self.f, self.commit = f, config.commit
        self.begins_late = config.client_settings.get("consumer.auto.offset.reset") == "latest"
        self.sink = config.sink if config.workload == "sink" else ""
        self.omits = config.app is not None and config.app.may_omit
        self.unstable = config.isolation is Isolation.READ_UNCOMMITTED
        self.unfenced = config.app is None and not fences(config)
        names = {row["tp"]: f"{row['topic'].split('~')[0]}-{row['partition']}" for row in f.rows["tps"]}
        self.logs = Logs(config, f.recorded.events, names)

    def excuses(self, key: Key) -> set[str]:
        """What may have taken what a finding misses, "" = nothing; of several witnesses, several."""
        if key in self.f.torn:
            each = [self.logs.excuse(span) for span in self.f.torn[key]]
            return {next((one for one in ("unclean", "power") if one in each), "") if all(each) else ""}
        if key[0] == "node-died":
            ends = [e for e in self.logs.ended if e.end.node == key[2]]
            end = ends[int(key[3])]
            return {"power" if self.logs.powerless(end.end, end.ns) else ""}
        return {self.logs.excuse(span) for span in self.f.spans.get(key, ())} or {""}

    def of(self, name: str, variant: str, excuse: str) -> bool:
        """Whether a finding of this class, variant and excuse is permitted."""
        if name in NEVER_PERMITTED or (name, variant) == ("lost-write", "hole"):
            return False
        if name in INFORMATIONAL:
            return True
        match name, variant:
            case (_, ("0" | "ack 0")) if name in OF_THE_LEADER:
                return True
            case (_, ("1" | "ack 1")) if name in OF_THE_LEADER:
                return bool(excuse)
            case ("duplicate", "retries" | "forgotten") | ("node-died", "hindered"):
                return True
            case (("aborted-read" | "precommitted-read"), "ru"):
                return True
            case "aborted-read", "unsent":
                return False
            case (("nonmonotonic-send" | "int-nonmonotonic-send"), ("pipelined" | "acks 0" | "abandoned")):
                return True
            case (("nonmonotonic-send" | "int-nonmonotonic-send"), "acks 1"):
                return bool(excuse)
            case "eos-duplicate", _ if self.sink in ("plain", "unique-id", "offset-in-transaction"):
                return self.sink == "plain"
            case "eos-duplicate", _ if self.sink:
                return excuse in ("unclean", "power")
            case (("eos-duplicate" | "eos-loss"), _) if self.commit in ("automatic", "automatic-beside"):
                return True
            case "eos-duplicate", _ if self.commit == "after":
                return True
            case "eos-duplicate", _ if self.commit in ("transaction", "without-rewind") and (
                self.unstable or self.unfenced
            ):
                return True
            case (("resurrected-key" | "aborted-read" | "stuck-lso" | "hanging-txn"), _) if excuse == "away":
                return True
            case "eos-loss", _ if self.commit in ("before", "without-rewind", "beside") and not self.sink:
                return True
            case "eos-loss", _ if self.omits:
                return True
            case "eos-uncommitted", _ if self.commit in ("after", "automatic", "automatic-beside"):
                return True
            case "nonmonotonic-copy", _ if self.commit in (
                "before", "beside", "automatic", "automatic-beside",
            ):  # fmt: skip
                return True
            case "group-skip", "auto":
                return True
            case (("group-skip" | "eos-loss"), "late") if self.begins_late:
                return True
        return excuse in ("unclean", "power")


def judge(recorded: Recorded) -> Said:
    """What is to be said of a history."""
    f = Facts(recorded)
    found: dict[Key, set[str]] = defaultdict(set)
    for rule in RULES:
        for key, variants in rule(f):
            found[key] |= variants
    if recorded.portable:
        return Said(findings={key: frozenset(f"{one}/" for one in some) for key, some in found.items()})
    permission = Permission(f)
    findings = {
        key: frozenset(f"{one}/{excuse}" for one in some for excuse in permission.excuses(key))
        for key, some in found.items()
    }
    forbidden: Counter[str] = Counter()
    permitted: set[str] = set()
    open_to: Counter[str] = Counter()
    for key, some in findings.items():
        name = str(key[0])
        kinds = [one.split("/") for one in some if not one.startswith("log/")]
        may = {mixed(f) or permission.of(name, variant, excuse) for variant, excuse in kinds}
        if True in may:
            permitted.add(name)
        forbidden[name] += False in may
        open_to[name] += len(may) > 1
    unknown = doubts(f)
    statuses = {}
    for check, classes in CHECKS.items():
        if any(forbidden[name] for name in classes):
            statuses[check] = "invalid"
        elif check in unknown:
            statuses[check] = "unknown"
        elif any(name in permitted and name not in INFORMATIONAL for name in classes):
            statuses[check] = "permitted"
        else:
            statuses[check] = "quiet"
    shown = {str(key[0]) for key, some in findings.items() if any(not one.startswith("log/") for one in some)}
    bad = set(+forbidden)
    valid: bool | str = False if bad else "unknown" if unknown else True
    return Said(
        findings=findings,
        forbidden=dict(+forbidden),
        either=frozenset(+open_to),
        statuses=statuses,
        valid=valid,
        code=_code(recorded, bad, shown, bool(unknown), _open(statuses)),
    )


def _open(statuses: dict[str, str]) -> set[str]:
    """Classes of checks that could not decide: whether what was not found is there is not known."""
    return {name for check, status in statuses.items() if status == "unknown" for name in CHECKS[check]}


def _code(recorded: Recorded, bad: set[str], shown: set[str], unknown: bool, open_: set[str]) -> int:
    if any(isinstance(e, Interrupted) for e in recorded.events):
        return 130
    if bad:
        return 3 if bad == {"not-recovered"} else 1
    expected = () if mixed(Facts(recorded)) else recorded.config.expect
    if any(name not in shown | open_ for name in expected):
        return 4
    return 2 if unknown else 0


def _incidents(events: Sequence[Event]) -> set[str]:
    """What happened without being planned."""
    found: set[str] = set()
    for event in events:
        if isinstance(event, NodeEnded) and from_outside(event):
            asked = event.end.oom_killed or event.end.signal in (1, 2, 9, 15)
            found |= set(CHECKS) if event.end.own_program and not asked else {"recovery"}
        if isinstance(event, EndsUnseen):
            found.add("recovery")
        if isinstance(event, ClockJumped) and (event.suspended_s or abs(event.wall_s) >= 0.5):
            found |= {"recovery", "stability"}
        if isinstance(event, BoundsListed) and event.moving:
            found.add("stability")
    return found


def mixed(f: Facts) -> bool:
    """What was read need not be of this cluster."""
    wrong = any(isinstance(e, WrongClusterSeen) for e in f.recorded.events)
    return wrong or any(row["reason"] == 3 for row in f.rows["foreign"])


def doubts(f: Facts) -> set[str]:
    """Checks that something kept from deciding (docs/checks.md, section 3)."""
    events = f.recorded.events
    failed = {e.fault for e in events if isinstance(e, FaultFailed)}
    in_force = [e for e in events if isinstance(e, FaultStarted) and e.fault not in failed]
    if mixed(f) or any(map(incomplete, events)) or not (f.sends or f.reads):
        return set(CHECKS)
    if failed and not in_force:
        return set(CHECKS)
    found = _incidents(events)
    if f.cut:
        found |= set(CHECKS) - {"recovery", "stability"}
    if any(f.unread(tp) for tp in f.tps):
        found |= set(CONTENT)
    if not any(s["outcome"] == OK for s in f.sends):
        found |= {"durability", "real-time"}
    if any(f.committed(s) and f.undecided(s) for s in f.sends):
        found.add("durability")
    for _, hidden in torn_parts(f):
        unsure = [s for s in hidden if f.undecided(s) or (f.missing(s) and not f.torn_off(s))]
        if unsure and not any(f.torn_off(s) for s in hidden):
            found.add("atomicity")
    if any((r["tp"], r["value"]) not in f.send_of and not f.unexplained(r["value"]) for r in f.reads):
        found.add("integrity")
    if any(row["reason"] == 4 and named_input(f, row) == "open" for row in f.rows["foreign"]):
        found.add("integrity")
    if any(maybe for _, maybe in uncopied(f)) or unfinished(f) or left_unread(f) or made_nothing(f):
        found.add("exactly-once")
    if maybe_in_order(f):
        found.add("copy-order")
    if unlisted(f):
        found.add("share-groups")
    for group in groups_of(f):
        given = any(f.group_of(r) == group and r["phase"] != Phase.FINAL for r in f.reads)
        given = given or f.applied(group)
        if given and not any(f.position(group, tp) >= 0 for tp in f.tps):
            found |= {"group-delivery"} | ({"exactly-once"} if group in copying(f) else set())
    for tp in sorted(set(f.tps) - f.deleted_topics):
        if min(f.ends(tp)) < 0 or (f.hiding(tp) and not settled(events)):
            found.add("stability")
    if not any(isinstance(e, Recovered) for e in events):
        found.add("recovery")
    if any(isinstance(e, NodeEnded) and exit_open(f, e) for e in events):
        found.add("recovery")
    last = [e for e in events if isinstance(e, Recovered)][-1:]
    if any(not e.recovered and not e.stalled and without(events, e.ns) for e in last):
        found.add("recovery")
    return found
