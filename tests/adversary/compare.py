"""Judge against checker: differences, the smallest history that still shows one, and that history as text."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from core.op import Acknowledgement, AssignmentKind, CommitKind, End, Outcome, Phase
from history.events import FaultStarted, WrongClusterSeen
from history.tables import OPEN
from tests.adversary.excuses import fences
from tests.adversary.judge import judge
from tests.adversary.rows import Recorded, Row, Said, answer
from tests.adversary.sealed import settle
from tests.adversary.shares import LIMIT
from tests.adversary.world import MS

QUIET = {"valid": "quiet", "unasked": "quiet"}
"""Statuses of checks that the judge does not distinguish."""


def differences(recorded: Recorded, said: Said | None = None) -> list[str]:
    """What checker and judge say differently of a history, and which promises the checker breaks."""
    said = answer(recorded) if said is None else said
    due = judge(recorded)
    one, other = said.findings, due.findings
    found = [f"crashed: {name}" for name in said.crashed]
    found += [f"only the checker finds {key}" for key in sorted(one.keys() - other.keys(), key=str)]
    found += [f"only the judge finds {key}" for key in sorted(other.keys() - one.keys(), key=str)]
    found += [
        f"{key}: checker {set(one[key])}, judge {set(other[key])}"
        for key in sorted(one.keys() & other.keys(), key=str)
        if not one[key] <= other[key]
    ]
    for name in sorted(said.forbidden.keys() | due.forbidden.keys()):
        counted, wanted = said.forbidden.get(name, 0), due.forbidden.get(name, 0)
        if counted != wanted and name not in due.either:
            found.append(f"forbidden {name}: checker {counted}, judge {wanted}")
    for name, status in due.statuses.items() if not due.either else ():
        if (of := QUIET.get(said.statuses[name], said.statuses[name])) != status:
            found.append(f"status of {name}: checker {of}, judge {status}")
    if not recorded.portable and not due.either and (said.valid, said.code) != (due.valid, due.code):
        found.append(f"verdict: checker {said.valid} ({said.code}), judge {due.valid} ({due.code})")
    return found + broken(recorded, said)


def broken(recorded: Recorded, said: Said) -> list[str]:
    """What the cluster did by the truth of the run, and the checker does not say, or the reverse."""
    if recorded.portable or not recorded.quiet:
        return []
    names = said.forbidden if strict(recorded) else {str(key[0]) for key in said.findings}
    found = [
        f"the bug {bug} struck, and none of {', '.join(classes)} is found"
        for bug, classes in recorded.promises
        if not set(classes) & set(names)
    ]
    if not recorded.planted:
        alarms = set(said.forbidden) - {"not-recovered", "stalled-client", "node-died"}
        found += [f"a correct cluster, and {name} is forbidden" for name in sorted(alarms)]
    return found


def strict(recorded: Recorded) -> bool:
    """Whether Kafka promises everything in this run."""
    config, brokers = recorded.config, recorded.config.broker_settings
    brokers = {name: value for name, value in brokers.items() if name != LIMIT}
    each = brokers == {"log.flush.interval.messages": "1"}
    loose = config.unclean_leader_election or config.topic_settings or (brokers and not each)
    power = any(isinstance(e, FaultStarted) and e.name.startswith("power") for e in recorded.events)
    mixed = any(isinstance(e, WrongClusterSeen) for e in recorded.events)
    loose = loose or not fences(config)
    return config.acks == -1 and config.idempotent and not (loose or mixed or (power and not each))


# Shrinking --------------------------------------------------------------------------------------


def shrunk(recorded: Recorded, wrong: Callable[[Recorded], list[str]]) -> Recorded:
    """A smaller history that is wrong in the same way: its first difference, numbers left out, stays. (What
    the truth of a run promises is of the whole run alone.)"""
    recorded = replace(recorded, quiet=False)
    kind, again = _kind(wrong(recorded)), True
    while again:
        again = False
        for smaller in _smaller(recorded):
            try:
                same = _kind(wrong(smaller)) == kind
            except Exception:  # noqa: BLE001 (a history that cannot be judged is no smaller witness)
                continue
            if same:
                recorded, again = smaller, True
                break
    return recorded


def _kind(found: list[str]) -> str:
    return "".join(letter for letter in found[0] if not letter.isdigit()) if found else ""


def _smaller(recorded: Recorded) -> Iterator[Recorded]:
    for op in range(len(recorded.tables["ops"]) - 1, -1, -1):
        yield _without_op(recorded, op)
    for at in range(len(recorded.events) - 1, -1, -1):
        yield replace(recorded, events=recorded.events[:at] + recorded.events[at + 1 :])
    for table in (
        "reads", "sends", "commits", "assignments", "deliveries", "acknowledgements", "foreign", "bounds",
    ):  # fmt: skip
        for at in range(len(recorded.tables[table]) - 1, -1, -1):
            rows = recorded.tables[table]
            yield _settled(recorded, {**recorded.tables, table: rows[:at] + rows[at + 1 :]})
    used = {row["process"] for row in recorded.tables["ops"]}
    kept = [row for row in recorded.tables["processes"] if row["process"] in used]
    if len(kept) < len(recorded.tables["processes"]):
        yield replace(recorded, tables={**recorded.tables, "processes": kept})


def _without_op(recorded: Recorded, op: int) -> Recorded:
    tables = {}
    for name, rows in recorded.tables.items():
        if rows and "op" in rows[0]:
            rows = [row | {"op": row["op"] - (row["op"] > op)} for row in rows if row["op"] != op]
        tables[name] = rows
    return _settled(recorded, tables)


def _settled(recorded: Recorded, tables: dict[str, list[Row]]) -> Recorded:
    tables = {name: [dict(row) for row in rows] for name, rows in tables.items()}
    settle(tables)
    sends = [row["op"] for row in tables["sends"]]
    reads = [row["op"] for row in tables["reads"]]
    for row in tables["ops"]:
        row["n_sends"], row["n_reads"] = sends.count(row["op"]), reads.count(row["op"])
    for row in tables["sends"]:
        row["op_sends"] = sends.count(row["op"])
    return replace(recorded, tables=tables)


# Text -------------------------------------------------------------------------------------------

SETTINGS = ("slot", "group", "txn_id", "acks", "idempotent", "auto_commit", "retries", "in_flight")


def text(recorded: Recorded) -> str:
    """A history for people: ops with their rows; times in ms."""
    kind = "portable" if recorded.portable else "recorded"
    lines = [f"seed {recorded.seed}, {kind}, planted: {recorded.planted}"]
    if not recorded.portable:
        changed = recorded.config.model_dump(mode="json", exclude_defaults=True, exclude={"kafka", "seed"})
        lines.append(f"config: {changed}")
    for row in recorded.tables["processes"]:
        settings = ", ".join(f"{name} {int(row[name])}" for name in SETTINGS)
        level, ended = int(row["isolation"]), End(row["end"]).name
        lines.append(
            f"process {row['process']} from {_ms(row['start_ns'])} {ended}, level {level}, {settings}"
        )
    for op in recorded.tables["ops"]:
        span = f"{_ms(op['invoke_ns'])}-{_ms(op['complete_ns'])}"
        outcome, phase = Outcome(op["outcome"]).name, Phase(op["phase"]).name
        txn = " txn" if op["txn"] else ""
        lines.append(f"op {op['op']} by {op['process']} {span} {outcome} {phase}{txn}:")
        lines += [f"    {line}" for line in _records(recorded, op["op"])]
    for row in recorded.tables["bounds"]:
        ends = f"{row['start']} to {row['end']}, read to {row['read_to']}, complete {row['complete']}"
        lines.append(f"bounds of t{row['tp']} at {int(row['isolation'])}: {ends}")
    return "\n".join([*lines, *(str(event) for event in recorded.events)])


def _records(recorded: Recorded, op: int) -> Iterator[str]:
    for name in ("sends", "reads", "commits", "assignments", "deliveries", "acknowledgements", "foreign"):
        for row in recorded.tables[name]:
            if row["op"] == op:
                yield _record(name, row)


def _record(name: str, row: Row) -> str:
    where = f"t{row['tp']}"
    end = "ack_ns" if name == "sends" else "complete_ns"
    span = f"{_ms(row.get('invoke_ns', -1))}-{_ms(row.get(end, -1))}"
    match name:
        case "sends":
            copy = f" copy of t{row['src_tp']} {row['src_offset']}" if row["src_offset"] >= 0 else ""
            outcome = Outcome(row["outcome"]).name
            return f"send {where} {row['value']} -> {row['offset']} {outcome} {span}{copy}"
        case "reads":
            more = f"assignment {row['assignment']} pos {row['pos']}"
            return f"read {where} {row['offset']}: {row['value']} {span} {more}"
        case "commits":
            of = f"group {row['group']} generation {row['generation']} {Outcome(row['outcome']).name}"
            return f"{CommitKind(row['kind']).name} {where} {row['offset']} {of} {span}"
        case "deliveries":
            span = f"since {_ms(row['since_ns'])} until {_ms(row['complete_ns'])}"
            return f"delivery {where} {row['offset']}: {row['value']} number {row['delivery_count']} {span}"
        case "acknowledgements":
            kind, outcome = Acknowledgement(row["kind"]).name, Outcome(row["outcome"]).name
            return f"{kind} {where} {row['offset']} {outcome} {span}"
        case "assignments":
            kind = AssignmentKind(row["kind"]).name
            return f"{kind} {where} assignment {row['assignment']} at {_ms(row['ns'])}"
    return f"foreign {where} {row['offset']} reason {row['reason']}"


def _ms(ns: int) -> str:
    return "never" if ns == OPEN else "-" if ns < 0 else str(ns // MS)
