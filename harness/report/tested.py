"""What was tested, as terms and descriptions: system, topics, clients, faults."""

from core.op import Isolation
from core.presets import NamedSettings
from core.systems import report_title
from harness.report import wording
from history.verdict import RecordedClients, Verdict
from workloads.registry import having

COMMITS = {
    "transaction": "committed in the transaction of their output",
    "without-rewind": "committed in the transaction of their output; after an abort copiers read on",
    "beside": "committed by hand beside the transaction of their output; after an abort copiers read on",
    "automatic-beside": "committed by the client itself, beside the transactions of their output;"
    " after an abort copiers read on",
    "after": "committed on their own, after the output",
    "before": "committed on their own, before the output",
    "automatic": "committed by the client itself, now and then",
}
PROMISES = {
    "transaction": "exactly once",
    "beside": "at most once",
    "after": "at least once",
    "before": "at most once",
}
"""By `commit`: what the user says of an application."""
ACKS = {0: "0 (none)", 1: "1 (leader only)", -1: "all"}
ASSUMED = (
    "imported", "acks", "idempotent", "isolation", "min_insync_replicas", "replication_factor",
    "unclean_leader_election", "broker_settings", "topic_settings", "client_settings",
)  # fmt: skip
"""Settings that the verdict about an import rests on, where the recording does not say it."""


def configuration(config: NamedSettings) -> NamedSettings:
    """The settings that the run had, as a user gives them, without sections of other systems; of an import,
    which has defaults of all, only those that it assumed."""
    if config.get("imported") is not None:
        config = {name: value for name, value in config.items() if name in ASSUMED}
    known = {name: value for name, value in config.items() if value is not None}
    if known.get("acks") == -1:
        known["acks"] = "all"
    if "isolation" in known:
        known["isolation"] = Isolation(known["isolation"]).name.lower()
    return known


def described(verdict: Verdict) -> list[tuple[str, str]]:
    """What was tested: term and description. Of a recording of another program, only what it holds."""
    config = verdict.config
    foreign = config.get("imported") is not None
    rows = [] if foreign else _settings(config)
    if foreign:
        partitions = int(verdict.stats.get("partitions", 0))
        rows = [
            ("System", report_title(config)),
            ("Topics", f"{wording.count(partitions, 'partition')}; their settings are not on record"),
        ]
    # of an application's instances the history has no settings, only what they are: members of the group
    instances = sum(kind.count for kind in verdict.clients if kind.group) if config.get("app") else 0
    clients = [kind for kind in verdict.clients if not (instances and kind.group)]
    producing = [kind for kind in clients if kind.produces]
    consuming = [kind for kind in clients if kind.isolation]
    if producing:
        rows.append(("Producers", "; ".join(_producers(kind, foreign) for kind in producing)))
    if consuming:
        rows.append(("Consumers", "; ".join(_consumers(kind, foreign) for kind in consuming)))
    if instances:
        many = wording.count(instances, "instance")
        rows.append(("Application", f"{many}; their settings are not on record"))
    term, said = ("Promised", PROMISES) if config.get("app") else ("Input offsets", COMMITS)
    if config.get("commit", "transaction") in said and config.get("workload") in having("commit"):
        rows.append((term, said[config.get("commit", "transaction")]))
    if foreign:
        rows += _assumed(config)
        rows.append(("Faults", "not on record"))
    elif "nemesis" in config and "duration_s" in config:
        rows.append(("Nemesis", f"{config['nemesis']}, for {wording.plain(float(config['duration_s']))} s"))
    return rows


def _assumed(config: NamedSettings) -> list[tuple[str, str]]:
    """What an import assumed of clients, where the recording says nothing."""
    if not {"acks", "idempotent", "isolation"} <= config.keys():
        return []
    acks = ACKS.get(config["acks"], str(config["acks"]))
    idempotent = "idempotent" if config["idempotent"] else "not idempotent"
    isolation = Isolation(config["isolation"]).name.lower()
    return [("Assumed", f"acks {acks}, {idempotent}, {isolation}, where the recording does not say it")]


def _many(kind: RecordedClients, foreign: bool) -> str:
    """How many: of another program a client that continues may have a new number (docs/importing.md)."""
    return wording.count(kind.count, "process", "processes") if foreign else wording.number(kind.count)


def _producers(kind: RecordedClients, foreign: bool) -> str:
    acks = "acks not on record" if kind.acks is None else f"acks {ACKS.get(kind.acks, str(kind.acks))}"
    words = [_many(kind, foreign), acks, "idempotent" if kind.idempotent else "not idempotent"]
    words += ["transactional"] * kind.transactional
    return ", ".join(words + ["also reading"] * (kind.isolation != ""))


def _consumers(kind: RecordedClients, foreign: bool) -> str:
    words = [_many(kind, foreign), kind.isolation, "in a group" if kind.group else "without a group"]
    return ", ".join(words + ["also producing"] * kind.produces)


def _settings(config: NamedSettings) -> list[tuple[str, str]]:
    """System, topics and workload of a run of ours. Settings that the config lacks are left out."""

    def has(*names: str) -> bool:
        return all(name in config for name in names)

    rows: list[tuple[str, str]] = []
    if has("sut", "brokers"):
        system = f"{report_title(config)}, {wording.count(config['brokers'], 'broker')}"
        if config.get("controllers"):
            system += f", {wording.count(config['controllers'], 'isolated controller')}"
        rows.append(("System", system))
    if has("partitions", "replication_factor", "min_insync_replicas"):
        unclean = config.get("unclean_leader_election")
        rows.append(
            (
                "Topics",
                f"{wording.count(config['partitions'], 'partition')}, replication factor "
                f"{config['replication_factor']}, min.insync.replicas {config['min_insync_replicas']}, "
                f"unclean leader election {'ON' if unclean else 'off'}",
            )
        )
    if has("workload", "preset"):
        rows.append(("Workload", f"{config['workload']}, preset {config['preset']}"))
    return rows
