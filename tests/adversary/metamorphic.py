"""Changes of a history that change no verdict, or turn a valid one into an unknown one at most.

They need no judge: the checker is compared with itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

import msgspec

from core.op import DATABASE, CommitKind, End, Outcome, Phase, process_of
from history.events import (
    BoundsListed,
    Event,
    FaultStarted,
    JournalsListed,
    RecordsDeleted,
    Recovered,
    RolesSeen,
    ShareOffsetsListed,
    TransactionsOpen,
    WorkerLost,
)
from history.tables import GONE, OPEN
from tests.adversary.facts import Facts
from tests.adversary.rows import Key, Recorded, Row, Said, answer
from tests.adversary.sealed import settle
from tests.adversary.world import MS

NANOS = ("invoke_ns", "complete_ns", "ack_ns", "since_ns", "start_ns", "end_ns", "ns")
THROUGH_TIME = ("G0-realtime", "G1c-realtime")
"""Classes whose circles close through ops that have nothing to do with them."""


def _copy(recorded: Recorded) -> dict[str, list[Row]]:
    return {name: [dict(row) for row in rows] for name, rows in recorded.tables.items()}


def shift(recorded: Recorded, rng: Random) -> Recorded:
    """Everything happens later."""
    tables, by = _copy(recorded), rng.randint(1, 10**6) * MS
    for rows in tables.values():
        for row in rows:
            for name in NANOS:
                if name in row and 0 <= row[name] < OPEN:
                    row[name] += by
    events: list[Event] = []
    for event in recorded.events:
        changed = {
            name: getattr(event, name) + by for name in ("ns", "begin_ns") if name in event.__struct_fields__
        }
        events.append(msgspec.structs.replace(event, **changed))
    return replace(recorded, tables=tables, events=events)


def rename(recorded: Recorded, rng: Random) -> Recorded:
    """Processes, with the values that they sent, and ids have other numbers, topics other names."""
    tables, others = _copy(recorded), _other_numbers(recorded)
    for rows in tables.values():
        for row in rows:
            if "process" in row:
                row["process"] = others.get(row["process"], row["process"])
            if "value" in row:
                row["value"] = _of_process(row["value"], others)
    for row in tables["foreign"]:
        if row["payload"].isdigit():
            row["payload"] = b"%d" % _of_process(int(row["payload"]), others)
    for row in tables["processes"]:
        row["txn_id"] = 63 - row["txn_id"] if row["txn_id"] >= 0 else -1
        row["slot"] += 7
    for row in tables["tps"]:
        row["topic"] = row["topic"] if row["topic"] == DATABASE else f"other{row['topic']}"
    tables["reads"].sort(key=lambda row: (row["tp"], row["process"], row["op"], row["pos"]))
    config, app = recorded.config, recorded.config.app
    if app is not None:
        output = app.output and f"other{app.output}"
        app = app.model_copy(update={"input": f"other{app.input}", "output": output})
        config = config.model_copy(update={"app": app})
    events = [_renamed(event, others) for event in recorded.events]
    return replace(recorded, tables=tables, config=config, events=events)


def _other_numbers(recorded: Recorded) -> dict[int, int]:
    """Of each process its other number: never 0, so that each value of it is too great for another number."""
    numbers = [row["process"] for row in recorded.tables["processes"]]
    rng = Random(f"numbers/{recorded.seed}")
    return dict(zip(numbers, rng.sample(range(1, 100), len(numbers)), strict=True))


def _of_process(value: int, others: Mapping[int, int]) -> int:
    """The value that a process of another number sends in the place of this one."""
    process = process_of(value)
    return value + (others.get(process, process) - process << 32)


def _back(key: Key, others: Mapping[int, int]) -> Key:
    """The key of a finding before its processes had other numbers: of these, values alone stand in keys."""
    before = {other: number for number, other in others.items()}
    return tuple(
        _of_process(part, before) if isinstance(part, int) and process_of(part) > 0 else part for part in key
    )


def _other(name: str) -> str:
    """Another name of a partition; those of internal topics keep theirs."""
    return name if name.startswith("__") else f"other{name}"


def _renamed(event: Event, processes: Mapping[int, int]) -> Event:
    if isinstance(event, JournalsListed):
        others = tuple(processes.get(number, number) for number in event.processes)
        return msgspec.structs.replace(event, processes=others)
    if isinstance(event, FaultStarted | WorkerLost):
        return _of_slots(event, 7)
    if isinstance(event, RolesSeen):
        leaders = {_other(name): node for name, node in event.leaders.items()}
        isr = {_other(name): nodes for name, nodes in event.isr.items()}
        return msgspec.structs.replace(event, leaders=leaders, isr=isr)
    if isinstance(event, ShareOffsetsListed):
        shares = tuple((group, f"other{topic}", n, offset) for group, topic, n, offset in event.rows)
        return msgspec.structs.replace(event, rows=shares)
    if isinstance(event, RecordsDeleted):
        offsets = {_other(name): offset for name, offset in event.offsets.items()}
        return msgspec.structs.replace(event, offsets=offsets)
    if isinstance(event, TransactionsOpen):
        rows = tuple(msgspec.structs.replace(row, topic=f"other{row.topic}") for row in event.rows)
        return msgspec.structs.replace(event, rows=rows)
    return event


def add_partition(recorded: Recorded, rng: Random) -> Recorded:
    """A partition more, in which all is well: a record was acknowledged, and read at the end."""
    tables = _copy(recorded)
    tp, process = len(tables["tps"]), 1000
    at = max((row["invoke_ns"] for row in tables["ops"]), default=0) + 10_000 * MS
    op = len(tables["ops"])
    settings = {
        "slot": 500, "group": -1, "txn_id": -1, "idempotent": 1, "auto_commit": 0, "retries": 5,
        "in_flight": 5, "socket_timeout_ms": 3000, "start_ns": at, "end_ns": at, "end": End.CLOSED,
    }  # fmt: skip
    tables["tps"].append({"tp": tp, "topic": "clean", "partition": 0})
    value = process << 32
    levels: tuple[int, ...] = (1, 1) if recorded.portable else (-1, 0, 1)
    for n, level in enumerate(levels):
        mine = {"process": process + n, "isolation": level, "acks": -1 if n == 0 or recorded.portable else -2}
        tables["processes"].append(settings | mine)
        invoke, complete = at + 10 * n * MS, at + (10 * n + 5) * MS
        phase = Phase.FINAL if n and not recorded.portable else Phase.FAULTS
        tables["ops"].append(
            {
                "op": op + n, "process": process + n, "f": 0 if n == 0 else 4, "outcome": Outcome.OK,
                "phase": phase, "txn": 0, "deliberate": 0, "error": -1, "n_sends": int(n == 0),
                "n_reads": int(n > 0), "invoke_ns": invoke, "complete_ns": complete,
            }
        )  # fmt: skip
        base = {
            "tp": tp,
            "op": op + n,
            "process": process + n,
            "pos": 0,
            "value": value,
            "offset": 0,
            "op_outcome": Outcome.OK,
            "invoke_ns": invoke,
        }
        if n == 0:
            more = {
                "place": 0,
                "outcome": Outcome.OK,
                "txn": 0,
                "op_sends": 1,
                "ack_ns": complete,
                "src_tp": -1,
                "src_offset": -1,
            }
            tables["sends"].append(base | more)
            continue
        tables["reads"].append(
            base
            | {
                "isolation": level,
                "phase": phase,
                "assignment": 0,
                "leader_epoch": -1,
                "complete_ns": complete,
            }
        )
        if not recorded.portable:
            tables["bounds"].append(
                {"tp": tp, "isolation": level, "start": 0, "end": 1, "read_to": 1, "complete": True}
            )
    first = recorded.tables["tps"][0]
    beside = f"{first['topic'].split('~')[0]}-{first['partition']}"
    return replace(recorded, tables=tables, events=[_beside(event, beside) for event in recorded.events])


def _beside(event: Event, name: str) -> Event:
    """The partition of `add_partition` has the replicas of this one."""
    if not isinstance(event, RolesSeen) or name not in event.leaders:
        return event
    leaders = event.leaders | {"clean-0": event.leaders[name]}
    return msgspec.structs.replace(event, leaders=leaders, isr=event.isr | {"clean-0": event.isr[name]})


def split(recorded: Recorded, rng: Random) -> Recorded:
    """A process without a group or transactional id ends after some op; another one of its slot continues."""
    tables = _copy(recorded)
    plain = [row for row in tables["processes"] if row["group"] < 0 and row["txn_id"] < 0]
    plain = [row for row in plain if row["end"] != End.CRASHED]  # the fault is one of the last of its slot
    if not plain:
        return recorded
    row = rng.choice(plain)
    own = sorted(
        (op for op in tables["ops"] if op["process"] == row["process"]), key=lambda op: op["invoke_ns"]
    )
    if len(own) < 2:
        return recorded
    at = rng.randint(1, len(own) - 1)
    later = {op["op"] for op in own[at:]}
    if _goes_back(tables, row["process"], later):
        return recorded
    number = max(one["process"] for one in tables["processes"]) + 1
    tables["processes"].append(row | {"process": number, "start_ns": own[at]["invoke_ns"]})
    for rows in tables.values():
        for one in rows:
            if one.get("op") in later and one.get("process") == row["process"]:
                one["process"] = number
    tables["reads"].sort(key=lambda one: (one["tp"], one["process"], one["op"], one["pos"]))
    return replace(recorded, tables=tables)


def _goes_back(tables: dict[str, list[Row]], process: int, later: set[int]) -> bool:
    """Noise made a later read one of an earlier assignment, whose row a new process would not have; or a
    later commit one of a process that has begun anew there, which explains a lower offset."""
    rows = [row for row in tables["assignments"] if row["process"] == process and row["op"] not in later]
    begun = {row["tp"] for row in rows}
    return any(
        read["assignment"] < row["assignment"]
        for read in tables["reads"]
        if read["op"] in later and read["process"] == process
        for row in rows
        if row["tp"] == read["tp"]
    ) or any(
        one["op"] in later and one["process"] == process and one["tp"] in begun for one in tables["commits"]
    )


def twice(recorded: Recorded, rng: Random) -> Recorded:
    """Two such runs at the same time, on other partitions, by other processes."""
    if {"shares", "application"} & recorded.more:
        return recorded  # of two share groups no offset is listed, and no run has two applications
    tables = _copy(recorded)
    partitions = len(tables["tps"])
    other = _copy(recorded)
    for rows in tables.values():
        for row in rows:
            if "op" in row:
                row["op"] *= 2
    for name, rows in other.items():
        for row in rows:
            if "tp" in row:
                row["tp"] += partitions
            if "op" in row:
                row["op"] = 2 * row["op"] + 1
            if row.get("src_tp", -1) >= 0:
                row["src_tp"] += partitions
            for column, by in (("process", 500), ("group", 3), ("txn_id", 100), ("slot", 1000)):
                if row.get(column, -1) >= 0:
                    row[column] += by
            if name == "tps":
                row["topic"] = f"second{row['topic']}"
        tables[name] += rows
    for rows in tables.values():
        if rows and "op" in rows[0]:
            rows.sort(key=lambda row: (row.get("tp", -1), row["op"]) if "tp" in row else (-1, row["op"]))
    tables["reads"].sort(key=lambda row: (row["tp"], row["process"], row["op"], row["pos"]))
    tables["sends"].sort(key=lambda row: (row["tp"], row["op"], row["pos"]))
    tables["ops"].sort(key=lambda row: row["op"])
    events = [_doubled(event) for event in recorded.events]
    deaths = [event for event in recorded.events if isinstance(event, FaultStarted | WorkerLost)]
    events += [_of_slots(event, 1000) for event in deaths if getattr(event, "slots", True)]
    return replace(recorded, tables=tables, events=events)


def _of_slots(event: FaultStarted | WorkerLost, by: int) -> Event:
    """The same of other clients."""
    if isinstance(event, WorkerLost):
        return msgspec.structs.replace(event, slot=event.slot + by)
    return msgspec.structs.replace(event, slots=tuple(slot + by for slot in event.slots))


def _doubled(event: Event) -> Event:
    if isinstance(event, TransactionsOpen):
        more = tuple(msgspec.structs.replace(row, topic=f"second{row.topic}") for row in event.rows)
        return msgspec.structs.replace(event, rows=event.rows + more)
    if isinstance(event, RolesSeen):
        leaders = event.leaders | {f"second{name}": node for name, node in event.leaders.items()}
        isr = event.isr | {f"second{name}": nodes for name, nodes in event.isr.items()}
        return msgspec.structs.replace(event, leaders=leaders, isr=isr)
    if isinstance(event, RecordsDeleted):
        offsets = event.offsets | {f"second{name}": offset for name, offset in event.offsets.items()}
        return msgspec.structs.replace(event, offsets=offsets)
    return event


def forget(recorded: Recorded, rng: Random) -> Recorded:
    """Some evidence is missing: a final read of a partition, a bounds row, or what events say."""
    tables, events = _copy(recorded), list(recorded.events)
    kind = rng.randrange(4)
    listed = [row for row in tables["bounds"] if row["start"] != GONE]
    if kind == 0 and listed:
        bound = rng.choice(listed)
        tables["bounds"].remove(bound)
        gone = {
            id(row)
            for row in tables["reads"]
            if row["phase"] == Phase.FINAL
            and (row["tp"], row["isolation"]) == (bound["tp"], bound["isolation"])
        }
        tables["reads"] = [row for row in tables["reads"] if id(row) not in gone]
    elif kind == 1 and listed:
        bound = rng.choice(listed)
        bound["complete"], bound["end"] = False, -1
    elif kind == 2:
        events = [event for event in events if not isinstance(event, Recovered)]
    else:
        events = [
            event for event in events if not isinstance(event, TransactionsOpen | BoundsListed | RolesSeen)
        ]
    return replace(recorded, tables=tables, events=events)


def cut(recorded: Recorded, rng: Random) -> Recorded:
    """The last lines of a journal are gone: of a process that was closed, and nothing killed."""
    tables = _copy(recorded)
    known = [row for row in tables["processes"] if row["end"] != End.CRASHED]
    if not known:
        return recorded
    row = rng.choice(known)
    own = [op for op in tables["ops"] if op["process"] == row["process"]]
    own.sort(key=lambda op: op["invoke_ns"])
    at = rng.randint(0, len(own))
    row["end"], gone = End.CRASHED, {op["op"] for op in own[at:]}
    if at < len(own) and rng.random() < 0.6:
        gone.remove(own[at]["op"])
        _leave_open(tables, own[at], rng)
    for bound in tables["bounds"] if at < len(own) else ():  # what a reader reached is in its journal
        if (row["slot"], bound["isolation"]) == (100 + row["isolation"], row["isolation"]):
            bound |= {"read_to": -1, "complete": False}
    for name, rows in tables.items():
        tables[name] = [one for one in rows if one.get("op") not in gone]
    order = sorted(tables["ops"], key=lambda op: (op["complete_ns"], op["invoke_ns"]))
    numbers = {op["op"]: number for number, op in enumerate(order)}
    for rows in tables.values():
        for one in rows:
            if "op" in one:
                one["op"] = numbers[one["op"]]
    tables["ops"].sort(key=lambda op: op["op"])
    settle(tables)
    return replace(recorded, tables=tables)


def _leave_open(tables: dict[str, list[Row]], op: Row, rng: Random) -> None:
    """Of an op the journal has the line of its invocation, and some of its polls."""
    op |= {"complete_ns": OPEN, "outcome": Outcome.INFO}
    until = rng.randint(op["invoke_ns"], op["invoke_ns"] + 2000 * MS)
    mine = {"op_outcome": Outcome.INFO}
    sent = {"outcome": Outcome.INFO, "offset": -1, "ack_ns": -1, "invoke_ns": op["invoke_ns"]}
    for send in tables["sends"]:
        if send["op"] == op["op"]:
            send |= mine | ({} if 0 <= send["ack_ns"] < until else sent)
    ends = ("reads", "commits", "deliveries")
    for name, ns in (*((name, "complete_ns") for name in ends), ("assignments", "ns")):
        tables[name] = [one for one in tables[name] if one["op"] != op["op"] or one[ns] < until]
    for read in tables["reads"]:
        if read["op"] == op["op"]:
            read |= mine
    for row in tables["acknowledgements"]:
        if row["op"] == op["op"] and row["complete_ns"] >= until:
            row |= {"outcome": Outcome.INFO, "complete_ns": OPEN}
    for commit in tables["commits"]:
        if commit["op"] == op["op"] and commit["kind"] == CommitKind.TXN:
            commit["outcome"] = Outcome.INFO
    op["n_reads"] = sum(read["op"] == op["op"] for read in tables["reads"])


SHOWS_AS = {
    "lost-write": ("torn-txn", "int-poll-skip", "poll-skip"),
    "inconsistent-offsets": ("offset-realtime-inversion",),
    "aborted-read": ("int-poll-skip", "poll-skip"),
}
"""As what an anomaly may show once a journal is cut. Without the final reader that proved a loss, the record
is in the log, and a reader passed it, or saw the rest of its transaction. Without its acknowledgement, a
record that was read at another offset stands there. Without its abort, a transaction of which a record is
shown counts as committed, and readers passed those that are not."""

CHANGES: dict[str, Callable[[Recorded, Random], Recorded]] = {
    "shift": shift, "rename": rename, "add-partition": add_partition, "split": split, "twice": twice,
    "forget": forget, "cut": cut,
}  # fmt: skip


def changed(recorded: Recorded, name: str, said: Said) -> list[str]:
    """What a change made the checker say that it must not. said: of the history as it was."""
    rng = Random(f"{name}/{recorded.seed}")
    if name in ("forget", "cut") and (recorded.portable or not recorded.quiet):
        return []
    after = CHANGES[name](recorded, rng)
    if name == "cut" and not Facts(after).cut - Facts(recorded).cut:
        return []  # a fault accounts for it
    other = answer(after)
    found = [f"{name}: crashed: {one}" for one in other.crashed if one not in said.crashed]
    if name == "forget":
        if said.valid is True and other.valid is False:
            found.append(f"forget: a valid run is invalid: {dict(other.forbidden)}")
        return found
    if name == "cut":
        appeared = sorted(set(other.forbidden) - set(said.forbidden))
        known = {name for before in said.forbidden for name in SHOWS_AS.get(before, ())}
        found += [f"cut: {name} appeared" for name in appeared if name not in known]
        return found + ["cut: the verdict is valid"] * (other.valid is True)
    after_keys = set(other.findings)
    if name == "rename":
        others = _other_numbers(recorded)
        after_keys = {_back(key, others) for key in after_keys}
    found += _changed(name, set(said.findings), after_keys)
    if not found and name not in ("split", "twice", "add-partition") and _verdict(said) != _verdict(other):
        found.append(f"{name}: verdict {_verdict(said)} became {_verdict(other)}")
    if not found and name == "add-partition" and said.valid is not other.valid and said.valid != "unknown":
        found.append(f"{name}: verdict {said.valid} became {other.valid}")
    if not found and name == "twice" and said.valid is not other.valid and said.valid != other.valid:
        found.append(f"{name}: verdict {said.valid} became {other.valid}")
    return found


def _changed(name: str, before: set[Key], after: set[Key]) -> list[str]:
    """What is found of a changed history that was not of the first, and the reverse."""
    if name == "twice":
        before, after = ({_collapsed(key) for key in some} for some in (before, after))
        before = {key for key in before if key[0] not in THROUGH_TIME}
        after = {key for key in after if key[0] not in THROUGH_TIME}
    if name == "split":
        ordered = ("poll", "send")
        before = {key for key in before if key in after or not str(key[0]).endswith((*ordered, "skip"))}
    found = [f"{name}: finding lost: {key}" for key in sorted(before - after, key=str)]
    return found + [f"{name}: finding appeared: {key}" for key in sorted(after - before, key=str)]


def _verdict(said: Said) -> tuple[object, ...]:
    return said.valid, said.code, sorted(said.forbidden.items()), sorted(said.statuses.items())


def _collapsed(key: Key) -> Key:
    """A key by its class alone: numbers of two runs differ."""
    return (key[0],)
