"""The naive judge's rules: the classes of docs/checks.md, section 2, over plain rows.

Each rule yields keys with the variants that the finding may have. See `tests.adversary.facts`.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise

from core.op import AssignmentKind, Phase
from history.events import BoundsListed, Event, NodeEnded, Recovered, TransactionsOpen, incomplete
from tests.adversary.application_classes import eos_uncommitted, nonmonotonic_copy
from tests.adversary.compaction import key
from tests.adversary.cycle_classes import cycles
from tests.adversary.excuses import EVER, TEN_S, TRANSACTIONS, Logs, Span, first_sent
from tests.adversary.facts import ACKS, FAIL, INFO, OK, PLAIN, RC, RU, Facts, Found, reads_of_sends
from tests.adversary.group_classes import (
    double_assignment,
    eos_duplicate,
    eos_loss,
    group_duplicate,
    group_skip,
    offset_commit_regression,
    phantom_commit,
    zombie_write,
)
from tests.adversary.registration import given_up, hindered, not_started, without
from tests.adversary.rows import Key, Row
from tests.adversary.share_classes import share_groups


def lost_write(f: Facts) -> Found:
    for send in f.sends:
        if not f.committed(send) or not (passed_over(f, send) if f.portable else f.missing(send)):
            continue
        doubtful = send["txn"] and send["op_outcome"] == INFO and not f.seen(send)
        if f.portable or not doubtful:  # else no client learned of a commit: it is torn off
            key: Key = ("lost-write", send["tp"], send["value"])
            if not f.portable and may_be_hidden(f, send):
                began = first_sent(f.sends, send)
                f.spans[key].append(Span(began, EVER, (send["tp"],), internal=TRANSACTIONS))
                yield key, {f.promised(send)}
                continue
            until = min(
                (
                    t["ack_ns"]
                    for t in f.sends
                    if t["tp"] == send["tp"]
                    and t["place"] > send["place"] >= 0
                    and t["ack_ns"] >= 0
                    and any(
                        r["phase"] == Phase.FINAL and r["offset"] == t["place"]
                        for r in f.reads_of[t["tp"], t["value"]]
                    )
                ),
                default=EVER,
            )
            if until < send["invoke_ns"]:  # of the log of another leader, at the same time
                until = EVER
            behind = tuple(
                (t["offset"] - send["place"], t["invoke_ns"], t["ack_ns"])
                for t in f.sends
                if t["tp"] == send["tp"] and t["ack_ns"] >= 0 and f.acks(t) == -1
                if t["offset"] >= 0 and send["place"] >= 0
            )
            span = Span(
                send["invoke_ns"],
                until,
                (send["tp"],),
                weak=f.weak(send),
                read=f.promise(send) == "read",
                acked=send["ack_ns"],
                behind=behind,
            )
            f.spans[key].append(span)
            yield key, {f.promised(send)}


def may_be_hidden(f: Facts, send: Row) -> bool:
    """What is missing may be in the log, for all that was read, and an aborted record."""
    if send["txn"] == 0:
        return False
    return bool(f.tombstones >= 0 or f.shown(RU, send) or not f.covers(RU, send))


def resurrected_key(f: Facts) -> Found:
    for send in f.sends if f.tombstones >= 0 else ():
        if not (f.committed(send) and f.expired(send) and f.absent(send)) or f.replaced(send):
            continue
        final = f.final(send["tp"])
        older = [
            r
            for r in final
            if r["offset"] < f.last(send)["place"] and key(r) == key(send)
            if max(one["complete_ns"] for one in final) - r["complete_ns"] < f.tombstones
        ]
        writers = [f.send_of.get((r["tp"], r["value"])) for r in older]
        if any(one is not None and f.committed(one) for one in writers) and not f.shown(RU, send):
            found: Key = ("resurrected-key", send["tp"], send["value"])
            known = f.acks(send) == -1 and send["ack_ns"] >= 0 and not send["txn"]
            missed = send["invoke_ns"], send["ack_ns"] if known else EVER
            span = Span(
                send["invoke_ns"],
                EVER,
                (send["tp"],),
                weak=f.weak(send),
                read=f.promise(send) == "read",
                missed=missed,
            )
            f.spans[found].append(span)
            yield found, {f.promise(send)}


def passed_over(f: Facts, send: Row) -> bool:
    """Portable: counting reads went past its place, and none returned it."""
    tp, pairs = send["tp"], f.pairs[send["tp"]]
    bound = max(
        (
            min(o for o, v in pairs if v == r["value"])
            for r in f.reads
            if r["tp"] == tp and f.counts(r, send) and not f.doubted(r, send)
        ),
        default=-1,
    )
    places = [o for o, v in pairs if v == send["value"]]
    got = [r for r in f.reads_of[tp, send["value"]] if r["isolation"] == RC or not send["txn"]]
    return bool(places) and max(places) <= bound and not got


def _acked(send: Row) -> int:
    """When a send was acknowledged; for ever where it was not."""
    return int(send["ack_ns"]) if send["ack_ns"] >= 0 else EVER


def unseen(f: Facts) -> Found:
    for send in f.sends:
        if f.portable and f.committed(send) and not f.seen(send):
            yield ("unseen", send["tp"], send["value"]), PLAIN


def duplicate(f: Facts) -> Found:
    for tp, pairs in f.pairs.items():
        for value in {v for _, v in pairs}:
            if len({o for o, v in pairs if v == value}) > 1:
                key: Key = ("duplicate", tp, value)
                send = f.send_of.get((tp, value))
                if send is None:
                    f.spans[key].append(Span(0, EVER, (tp,)))
                    yield key, {"1" if f.unexplained(value) else _repeats(f.processes.get(value >> 32))}
                    continue
                f.spans[key].append(Span(send["invoke_ns"], _acked(send), (tp,)))
                variant = _repeats(f.processes[send["process"]])
                yield key, {"forgotten" if variant == "1" and f.forgotten(send) else variant}


def _repeats(settings: Row | None) -> str:
    """Whether a process of these settings may write a record again; None = of any."""
    if settings is not None and settings["idempotent"]:
        return "1"
    return "retries" if settings is None or settings["retries"] else "0"


def torn_parts(f: Facts) -> Iterator[tuple[int, list[Row]]]:
    """Transactions with a record that is seen, and their records that are not."""
    for number, op in f.ops.items():
        if op["txn"] and op["outcome"] in (OK, INFO):
            own = [s for s in f.sends if s["op"] == number and s["outcome"] != FAIL]
            hidden = [s for s in own if not f.seen(s)]
            if len(hidden) < len(own):
                yield number, hidden


def torn_txn(f: Facts) -> Found:
    for op, hidden in torn_parts(f):
        if any(f.portable or f.torn_off(s) for s in hidden):
            key: Key = ("torn-txn", -1, op)
            f.torn[key] = [
                Span(
                    first_sent(f.sends, s) if may_be_hidden(f, s) else s["invoke_ns"],
                    EVER,
                    (s["tp"],),
                    internal=TRANSACTIONS,
                )
                for s in hidden
                if f.missing(s)
            ]
            yield key, PLAIN


def _level(read: Row) -> str:
    if read["isolation"] == RC:
        return "rc"
    return "log" if read["phase"] == Phase.FINAL else "ru"


def aborted_read(f: Facts) -> Found:
    for read, send in reads_of_sends(f):
        if f.failed(send):
            never = send["txn"] == 0 or send["op_outcome"] != FAIL
            key: Key = ("aborted-read", read["tp"], read["value"], read["op"])
            cleans = f.tombstones >= 0
            since, until, tps = first_sent(f.sends, send), read["complete_ns"], (read["tp"],)
            missed = (since, until) if cleans else None
            span = Span(since, until, tps, internal=TRANSACTIONS, missed=missed)
            f.spans[key].append(span)
            yield key, {"unsent" if never else _level(read)}


def precommitted_read(f: Facts) -> Found:
    for read, send in reads_of_sends(f):
        open_then = send["invoke_ns"] <= read["complete_ns"] < f.unasked[send["op"]]
        dirty = not f.portable and not f.failed(send) and read["isolation"] == RC and open_then
        if send["txn"] and (send["op"] == read["op"] or dirty):
            key: Key = ("precommitted-read", read["tp"], read["value"], read["op"])
            f.spans[key].append(_decided_again(f, send, read))
            yield key, {_level(read)}
    for d in () if f.portable else f.rows["deliveries"]:
        sent = f.send_of.get((d["tp"], d["value"]))
        if sent is None or not sent["txn"] or f.failed(sent) or not f.is_rc(d):
            continue
        if sent["invoke_ns"] <= d["complete_ns"] < f.unasked[sent["op"]]:
            key = ("precommitted-read", d["tp"], d["value"], d["op"])
            f.spans[key].append(_decided_again(f, sent, d))
            yield key, {"rc"}


def _decided_again(f: Facts, send: Row, seen: Row) -> Span:
    """When coordinators may have forgotten the transaction, and ended the one before it again."""
    return Span(first_sent(f.sends, send), seen["complete_ns"], (), internal=TRANSACTIONS)


def strangers(f: Facts) -> Found:
    """Phantoms, and rows of foreign."""
    for read in f.reads:
        if (read["tp"], read["value"]) not in f.send_of and f.unexplained(read["value"]):
            yield ("phantom-read", read["tp"], read["offset"], read["value"]), PLAIN
    for row in f.rows["foreign"]:
        if row["reason"] in (3, 4):
            key: Key = ("phantom-read", row["tp"], row["offset"], -1)
            place = row["tp"], row["offset"], 3
            if row["reason"] == 4 and named_input(f, row) != "sent":
                continue
            if not any((one["tp"], one["offset"], one["reason"]) == place for one in f.rows["foreign"]):
                f.spans[key] += [*_taken(f, row)] or [Span(1, 0, ())]
            yield key, PLAIN
        else:
            name = "misdirected-record" if row["reason"] == 2 else "corrupt-record"
            yield (name, row["tp"], row["offset"]), PLAIN


def _named(f: Facts, row: Row) -> list[Row]:
    """The sends of the value that output of an application names."""
    if f.portable or not row["payload"].isdigit():
        return []
    return [s for s in f.sends if s["value"] == int(row["payload"])]


def named_input(f: Facts, row: Row) -> str:
    """Whether the record that output names was committed and is removed, or that is open, or neither."""
    sends = _named(f, row)
    if not sends and row["payload"].isdigit() and not f.portable:
        return "sent" if f.unexplained(int(row["payload"])) else "open"
    hidden = [s for s in sends if f.hidden(s)]
    gone = [s for s in hidden if f.removed(s) or f.compacted_away(s)]
    if any(f.committed(s) for s in gone):
        return "removed"
    return "open" if any(not f.failed(s) and (s in gone or f.undecided(s)) for s in sends) else "sent"


def _taken(f: Facts, row: Row) -> Iterator[Span]:
    """When the record that output names may have been taken from the input."""
    for send in _named(f, row):
        if send["outcome"] != FAIL and f.hidden(send):
            yield Span(send["invoke_ns"], EVER, (send["tp"],), internal=TRANSACTIONS)


def future_read(f: Facts) -> Found:
    for read, send in reads_of_sends(f):
        if read["complete_ns"] < send["invoke_ns"]:
            yield ("G1c-realtime", read["tp"], read["value"], read["op"]), PLAIN


def offsets(f: Facts) -> Found:
    """inconsistent-offsets, offset-reuse."""
    for tp in f.tps:
        acked = [s for s in f.sends if s["tp"] == tp and s["offset"] >= 0]
        pairs = f.pairs[tp]
        for offset in {o for o, _ in pairs} | {s["offset"] for s in acked}:
            values = {v for o, v in pairs if o == offset}
            here = [s for s in acked if s["offset"] == offset]
            if len(values) > 1:
                read = {r["value"] for r in f.reads if r["tp"] == tp and r["offset"] == offset}
                levels = [f.acks(s) for s in here if f.committed(s)]
                lowest = next((one for one in (0, 1, -1) if one in levels), -1)
                variant = "reads" if len(read) > 1 else f"ack {ACKS[lowest]}"
                key: Key = ("inconsistent-offsets", tp, offset)
                good = [s for s in here if f.committed(s)]
                seen = [r["complete_ns"] for r in f.reads if r["tp"] == tp and r["offset"] == offset]
                since = min([*(s["invoke_ns"] for s in good), *(ns - TEN_S for ns in seen)])
                until = max([*map(_acked, good), *seen])
                weak = any(row["acks"] in (0, 1) for row in f.processes.values())
                f.spans[key].append(Span(since, until, (tp,), weak=weak))
                yield key, {variant}
            elif len(values | {s["value"] for s in here}) > 1:
                yield ("offset-reuse", tp, offset), PLAIN


def offset_realtime_inversion(f: Facts) -> Found:
    for later in f.sends:
        earlier = [
            s
            for s in f.sends
            if s["tp"] == later["tp"]
            and s["place"] > later["place"]
            and 0 <= s["ack_ns"] < later["invoke_ns"]
        ]
        if later["place"] >= 0 and earlier:
            highest = max(s["place"] for s in earlier)
            key: Key = ("offset-realtime-inversion", later["tp"], later["value"])
            first = [s for s in earlier if s["place"] == highest]
            for s in first:
                weak = f.weak(s) or f.alone(later)
                f.spans[key].append(Span(s["invoke_ns"], _acked(later), (later["tp"],), weak=weak))
            last = [later] if f.alone(later) else []
            yield key, {min(ACKS[f.acks(each)] for each in (s, *last)) for s in first}


def send_order(f: Facts) -> Found:
    for tp in f.tps:
        for process, settings in f.processes.items():
            if settings["group"] >= 0 and f.applied(settings["group"]):
                continue
            own = [s for s in f.sends if (s["tp"], s["process"]) == (tp, process) and s["place"] >= 0]
            for s, t in pairwise(own):
                key = tp, s["value"], t["value"]
                back, inside = t["place"] < s["place"], s["op"] == t["op"]
                variant = "0" if settings["acks"] == -1 else f"acks {settings['acks']}"
                if s["outcome"] != OK:
                    variant = "abandoned"
                if settings["retries"] and settings["in_flight"] != 1:
                    variant = "pipelined"
                if settings["idempotent"]:
                    variant = "1"
                dropped = any(
                    s["invoke_ns"] < row["ns"] <= t["invoke_ns"]
                    for row in f.changes(process, tp, AssignmentKind.MANUAL)
                )
                span = Span(s["invoke_ns"], _acked(t), (tp,), weak=f.weak(s))
                for name in ("int-nonmonotonic-send", "nonmonotonic-send"):
                    f.spans[name, *key].append(span)
                if back and inside:
                    yield ("int-nonmonotonic-send", *key), {variant}
                elif back and not dropped:
                    yield ("nonmonotonic-send", *key), {variant}
                elif inside and t["txn"] and f.between(tp, s["place"], t["place"], RU):
                    yield ("int-send-skip", *key), PLAIN


def poll_order(f: Facts) -> Found:
    for tp in f.tps:
        for process in f.processes:
            own = [r for r in f.reads if (r["tp"], r["process"]) == (tp, process)]
            changes = f.changes(process, tp)
            for at, r in enumerate(own):
                q = own[at - 1] if at else None
                inside = q is not None and q["op"] == r["op"]
                if not inside:
                    q = next((one for one in reversed(own[:at]) if not _undone(f, one, changes)), None)
                if not f.portable:
                    yield from _began_late(f, r, q, changes, inside)
                if q is None or _explained(f, q, r, changes, inside):
                    continue
                if f.portable and not inside and _goes_on(f, q, r, own[:at], changes):
                    continue
                low, high = _position(f, q), _position(f, r)
                name = "int-" if inside else ""
                variant = {"member"} if f.member(process, -1 if inside else tp) else {""}
                key = (tp, r["op"], r["pos"]) if inside else (tp, r["op"])
                for step in ("nonmonotonic-poll", "poll-skip"):
                    gone = step == "poll-skip" and not f.still_there(r)
                    span = Span(q["complete_ns"] - TEN_S, EVER if gone else r["complete_ns"], (tp,))
                    f.spans[f"{name}{step}", *key].append(span)
                if high <= low:
                    yield (f"{name}nonmonotonic-poll", *key), variant
                elif f.between(tp, low, high, r["isolation"]) and not any(
                    q["op"] < op["op"] < r["op"] and op["process"] == process for op in f.doubtful_polls
                ):
                    yield (f"{name}poll-skip", *key), variant


def _goes_on(f: Facts, q: Row, r: Row, before: list[Row], changes: list[Row]) -> bool:
    """r goes on where some op between the two, whose outcome is not OK, ended."""
    last: dict[int, Row] = {one["op"]: one for one in before if one["op"] > q["op"]}
    for one in last.values():
        low, high = _position(f, one), _position(f, r)
        onward = low < high and not f.between(r["tp"], low, high, r["isolation"])
        if onward or _explained(f, one, r, changes, inside=False):
            return True
    return False


def _began_late(f: Facts, r: Row, q: Row | None, changes: list[Row], inside: bool) -> Found:
    """The first read of a partition that its process assigned at the beginning of the log."""
    tp, number = r["tp"], r["assignment"]
    rows = [a for a in changes if a["kind"] == AssignmentKind.BEGINNING and a["assignment"] == number]
    goes_on = q is not None and q["assignment"] >= number
    if not rows or goes_on or r["phase"] == Phase.FINAL or not f.begins_known(tp):
        return
    if f.between(tp, f.given_from(tp, r["complete_ns"]) - 1, r["offset"], r["isolation"]):
        key = ("int-poll-skip", tp, r["op"], r["pos"]) if inside else ("poll-skip", tp, r["op"])
        until = r["complete_ns"] if f.still_there(r) else EVER
        f.spans[key].append(Span(min(a["ns"] for a in rows) - TEN_S, until, (tp,)))
        yield key, {"member"} if f.member(r["process"], -1 if inside else tp) else {""}


def _undone(f: Facts, read: Row, changes: list[Row]) -> bool:
    if read["op_outcome"] == OK:
        return False
    rewinds = [row for row in changes if row["kind"] == AssignmentKind.REWIND and row["op"] == read["op"]]
    return f.portable or bool(rewinds)


def _explained(f: Facts, q: Row, r: Row, changes: list[Row], inside: bool) -> bool:
    for row in changes:
        if row["kind"] != AssignmentKind.REWIND:
            start = f.given_from(r["tp"], r["complete_ns"])
            to_start = not f.between(r["tp"], start - 1, r["offset"], r["isolation"])
            asked = not f.portable and row["kind"] == AssignmentKind.RESET and f.begins_known(r["tp"])
            led_there = to_start or not asked
            if led_there and q["assignment"] < row["assignment"] <= r["assignment"]:
                return True
            if f.portable and inside and row["op"] == r["op"]:
                return True
    return False


def _position(f: Facts, read: Row) -> int:
    if not f.portable:
        return int(read["offset"])
    return max(o for o, v in f.pairs[read["tp"]] if v == read["value"])


# Transactions and the end of the run ------------------------------------------------------------


def settled(events: list[Event]) -> bool:
    """The cluster came to rest, as far as events tell."""
    moving = any(isinstance(e, BoundsListed) and e.moving for e in events)
    return not moving and not any(
        incomplete(e) or (isinstance(e, Recovered) and not e.recovered) for e in events
    )


def stuck_lso(f: Facts) -> Found:
    for tp in f.tps:
        if not f.portable and f.hiding(tp) and settled(f.recorded.events):
            f.spans["stuck-lso", tp].append(_held_since(f, tp, f.ends(tp)[1]))
            yield ("stuck-lso", tp), PLAIN


def hanging_txn(f: Facts) -> Found:
    listed = [e for e in f.recorded.events if isinstance(e, TransactionsOpen)]
    names = {(row["topic"], row["partition"]): row["tp"] for row in f.rows["tps"]}
    rows = listed[-1].rows if listed and not f.portable and settled(f.recorded.events) else ()
    for row in sorted(rows, key=lambda row: row.start):
        tp = names.get((row.topic, row.partition), -1)
        begins = [b["start"] for b in f.rows["bounds"] if (b["tp"], b["isolation"]) == (tp, RC)]
        if tp >= 0 and f.hiding(tp) and max([row.start, *begins]) >= f.ends(tp)[1]:
            found: Key = ("hanging-txn", tp, row.producer_id)
            f.spans[found] = f.spans[found] or [_held_since(f, tp, row.start)]  # of the lowest
            yield found, PLAIN


def _held_since(f: Facts, tp: int, start: int) -> Span:
    """A marker is missing of the transaction that begins there."""
    missed = None
    if f.tombstones >= 0:
        own = [s for s in f.sends if s["tp"] == tp and s["txn"] and s["place"] == start >= f.ends(tp)[1]]
        missed = min((first_sent(f.sends, s) for s in own), default=f.ids_since()), EVER
    return Span(f.ids_since(), EVER, (tp,), internal=TRANSACTIONS, missed=missed)


def node_died(f: Facts) -> Found:
    ends: dict[int, int] = {}
    for event in f.recorded.events:
        if isinstance(event, NodeEnded):
            number = ends[event.end.node] = ends.get(event.end.node, -1) + 1
            if not from_outside(event) and not exit_open(f, event):
                late = given_up(event.end) and not _of_power(f, event)
                yield ("node-died", -1, event.end.node, number), {"hindered"} if late else PLAIN


def exit_open(f: Facts, event: NodeEnded) -> bool:
    """A broker could not register in time, and nothing explains why; or its session expired."""
    if from_outside(event) or _of_power(f, event):
        return False
    if given_up(event.end):
        return not hindered(f.recorded.config, f.recorded.events, event)
    return not_started(event.end)


def _of_power(f: Facts, event: NodeEnded) -> bool:
    names = {row["tp"]: f"{row['topic'].split('~')[0]}-{row['partition']}" for row in f.rows["tps"]}
    return Logs(f.recorded.config, f.recorded.events, names).powerless(event.end, event.ns)


def from_outside(event: NodeEnded) -> bool:
    """Something else than the node's own fault ended it."""
    end = event.end
    return end.oom_killed or end.disk_full or end.signal in (1, 2, 9, 15) or end.own_program


def not_recovered(f: Facts) -> Found:
    seen = [e for e in f.recorded.events if isinstance(e, Recovered)]
    if not f.portable and seen and not seen[-1].recovered:
        for slot in seen[-1].stalled:
            yield ("stalled-client", -1, slot), PLAIN
        if not seen[-1].stalled and not without(f.recorded.events, seen[-1].ns):
            yield ("not-recovered", -1), PLAIN


RULES: tuple[Callable[[Facts], Found], ...] = (
    lost_write, resurrected_key, unseen, duplicate, torn_txn, aborted_read, precommitted_read, strangers,
    future_read, offsets, offset_realtime_inversion, send_order, poll_order, offset_commit_regression,
    eos_duplicate, eos_loss, group_duplicate, group_skip, phantom_commit, double_assignment, stuck_lso,
    hanging_txn, not_recovered, node_died, zombie_write, cycles, share_groups, eos_uncommitted,
    nonmonotonic_copy,
)  # fmt: skip
