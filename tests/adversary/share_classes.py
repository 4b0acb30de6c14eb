"""The naive judge's rules about share groups (docs/checks.md, "Share groups").

See `tests.adversary.classes`.
"""

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise

from core.op import Acknowledgement
from history.events import FaultHealed, FaultStarted, NodeEnded, RolesSeen, ShareOffsetsListed
from tests.adversary.excuses import EVER, SHARES, TEN_S, TRANSACTIONS, Span, first_sent
from tests.adversary.facts import FAIL, INFO, OK, PLAIN, RC, Facts, Found
from tests.adversary.rows import Key, Row

Time = tuple[int, int]


class ShareFacts:
    """Deliveries and acknowledgements by record, and times that disturb a group."""

    def __init__(self, f: Facts) -> None:
        self.f = f
        rows, config = f.rows, f.recorded.config
        self.given: dict[Key, list[Row]] = {}
        for row in sorted(rows["deliveries"], key=lambda row: (row["complete_ns"], row["op"])):
            self.given.setdefault(_record(row), []).append(row)
        self.acknowledged: list[Row] = rows["acknowledgements"]
        self.lock = (2_000 if config.workload == "share" else 30_000) * 10**6
        self.limit = int(config.broker_settings.get("group.share.delivery.count.limit", 5))
        self.roles = [e for e in f.recorded.events if isinstance(e, RolesSeen)]

    def said_of(self, record: Key) -> list[Row]:
        return [a for a in self.acknowledged if _record(a) == record]

    def about(self, a: Row) -> Row | None:
        """The delivery that an acknowledgement is about."""
        own = [d for d in self.given.get(_record(a), ()) if d["process"] == a["process"]]
        known = [d for d in own if d["complete_ns"] <= a["invoke_ns"]]
        return known[-1] if known else None

    @cached_property
    def replaced(self) -> dict[int, list[Time]]:
        """Of each partition, when a leader that was replaced may not have heard of it."""
        found: dict[int, list[Time]] = {}
        for row in self.f.rows["tps"]:
            name = f"{row['topic'].split('~')[0]}-{row['partition']}"
            found[row["tp"]] = [*self._replaced(name)]
        return found

    def _replaced(self, name: str) -> Iterator[Time]:
        looks = [e for e in self.roles if name in e.leaders]
        for a, b in pairwise(looks):
            old, new = a.leaders[name], b.leaders[name]
            epochs = (a.epochs.get(name), b.epochs.get(name))
            again = None not in epochs and (epochs[1] or 0) > (epochs[0] or 0) + 1
            if old < 0 or (old == new and not again):
                continue
            over = [e.ns for e in looks if e.ns >= b.ns and e.agreed and e.leaders[name] >= 0]
            yield max(a.ns, b.ns - TEN_S), (over[0] + TEN_S if over else EVER)

    @cached_property
    def disturbed(self) -> list[Time]:
        events = self.f.recorded.events
        healed = {e.fault: e.ns for e in events if isinstance(e, FaultHealed)}
        found: list[Time] = [time for times in self.replaced.values() for time in times]
        for e in events:
            if isinstance(e, FaultStarted) and (e.nodes or not e.slots):
                found.append((e.begin_ns, healed[e.fault] + TEN_S if e.fault in healed else EVER))
            if isinstance(e, NodeEnded):
                found.append((e.ns - TEN_S, e.ns + TEN_S))
        for a, b in pairwise(self.roles):
            if any(b.leaders[n] >= 0 and a.leaders.get(n, -1) not in (-1, b.leaders[n]) for n in b.leaders):
                found.append((max(a.ns, b.ns - TEN_S), b.ns + TEN_S))
        for at, e in enumerate(self.roles):
            if any(node < 0 for node in e.leaders.values()):
                later = self.roles[at + 1 : at + 2]
                found.append((e.ns, later[0].ns + TEN_S if later else EVER))
        return found

    def calm(self, since: int, until: int) -> bool:
        return not any(begin <= until and end >= since for begin, end in self.disturbed)

    def perhaps_of_replaced(self, d: Row, t: int) -> bool:
        """A leader that was replaced may have made the delivery, after a moment."""
        times = sorted(self.replaced[d["tp"]])
        good = [
            a["complete_ns"]
            for a in self.said_of(_record(d))
            if a["outcome"] == OK and a["kind"] != Acknowledgement.RENEW and self.about(a) is d
        ]
        for at, (begin, end) in enumerate(times):
            following = times[at + 1][0] if at + 1 < len(times) else EVER
            if begin <= t <= end and begin <= d["since_ns"] <= end and not any(ns < following for ns in good):
                return True
        return False


def _record(row: Row) -> Key:
    return row["tp"], row["group"], row["offset"]


def _ends(a: Row) -> bool:
    return a["kind"] in (Acknowledgement.ACCEPT, Acknowledgement.REJECT)


def _ordered(given: list[Row]) -> Iterator[tuple[Row, Row]]:
    return ((d1, d2) for d1, d2 in pairwise(given) if d1["complete_ns"] < d2["since_ns"])


def share_groups(f: Facts) -> Found:
    if f.portable or not (f.rows["deliveries"] or f.rows["acknowledgements"] or _listed(f)):
        return
    shares = ShareFacts(f)
    yield from _redelivered(f, shares)
    yield from _skipped(f, shares)
    for record, given in shares.given.items():
        if any(d["delivery_count"] > shares.limit for d in given):
            yield ("share-over-limit", *record), PLAIN
        for d1, d2 in _ordered(given):
            quiet = shares.calm(d1["since_ns"], d2["complete_ns"])
            if quiet and d2["delivery_count"] <= d1["delivery_count"]:
                yield ("share-count", *record), PLAIN
            if quiet and not f.cut_group(int(record[1])) and _held(shares, d1, d2):
                yield ("share-two-holders", *record), PLAIN
        yield from _aborted(f, record, given)


def _redelivered(f: Facts, shares: ShareFacts) -> Found:
    for a in shares.acknowledged:
        d = shares.about(a)
        if not _ends(a) or a["outcome"] != OK or d is None or a["complete_ns"] > d["since_ns"] + shares.lock:
            continue
        again = [
            x["complete_ns"]
            for x in shares.given[_record(a)]
            if x["since_ns"] > a["complete_ns"] and not shares.perhaps_of_replaced(x, a["complete_ns"])
        ]
        if again:
            key: Key = ("share-redelivery", *_record(a))
            f.spans[key].append(Span(a["invoke_ns"], min(again), (a["tp"],), internal=SHARES))
            yield key, PLAIN


def _held(shares: ShareFacts, d1: Row, d2: Row) -> bool:
    """A record was given away while a member held it."""
    said = [a for a in shares.said_of(_record(d1)) if a["process"] == d1["process"]]
    begun = d1["since_ns"]
    for a in said:
        good = a["kind"] == Acknowledgement.RENEW and a["outcome"] == OK
        own = d2["process"] == d1["process"]  # then it may be d2 that was renewed
        early = a["complete_ns"] < d2["since_ns"] if own else a["complete_ns"] <= d2["complete_ns"]
        if good and early and shares.about(a) is d1:
            begun = max(begun, a["invoke_ns"])
    if d2["complete_ns"] >= begun + shares.lock:
        return False
    others = [a for a in said if a["kind"] != Acknowledgement.RENEW and a["invoke_ns"] <= d2["complete_ns"]]
    if any(a["outcome"] == INFO or a["complete_ns"] >= d1["since_ns"] for a in others):
        return False
    for a in shares.acknowledged:
        if (a["tp"], a["group"]) == (d1["tp"], d1["group"]) and a["outcome"] != INFO:
            of = shares.about(a)
            if a["complete_ns"] >= d2["complete_ns"] and of is not None and of["op"] == d1["op"]:
                return True
    return False


def _aborted(f: Facts, record: Key, given: list[Row]) -> Found:
    for d in given:
        send = f.send_of.get((d["tp"], d["value"]))
        if send is not None and send["txn"] and send["op_outcome"] == FAIL and f.is_rc(d):
            key: Key = ("share-aborted-read", *record)
            since = first_sent(f.sends, send)
            f.spans[key].append(Span(since, d["complete_ns"], (d["tp"],), internal=TRANSACTIONS))
            yield key, PLAIN
            return


def unlisted(f: Facts) -> bool:
    """Up to where the only group is done with some partition is not on record, and it has stored something of
    that one."""
    known, names = _listed(f), {row["tp"]: row["topic"] for row in f.rows["tps"]}
    stored = (a for a in f.rows["acknowledgements"] if a["outcome"] == OK)
    return any(isinstance(e, ShareOffsetsListed) for e in f.recorded.events) and any(
        a["kind"] != Acknowledgement.RENEW and a["tp"] not in known and "~" not in names[a["tp"]]
        for a in stored
    )


def _listed(f: Facts) -> dict[int, int]:
    """Below which offset the only share group is done, by partition."""
    rows = [row for e in f.recorded.events if isinstance(e, ShareOffsetsListed) for row in e.rows]
    names = {(row["topic"], row["partition"]): row["tp"] for row in f.rows["tps"]}
    if len({group for group, *_ in rows}) != 1:
        return {}
    return {names[topic, n]: offset for _, topic, n, offset in rows if (topic, n) in names}


def _skipped(f: Facts, shares: ShareFacts) -> Found:
    groups = {row["group"] for row in (*f.rows["deliveries"], *f.rows["acknowledgements"])}
    for group in sorted(groups) if len(groups) == 1 and not f.cut_group(*groups) else ():
        for tp, start in _listed(f).items():
            if f.retention or f.given_from(tp, EVER) > 0:
                continue
            for offset in range(start):
                if _passed(f, shares, tp, group, offset):
                    key: Key = ("share-skip", tp, group, offset)
                    f.spans[key].append(Span(0, EVER, (tp,), internal=SHARES))
                    yield key, PLAIN


def _passed(f: Facts, shares: ShareFacts, tp: int, group: int, offset: int) -> bool:
    record = tp, group, offset
    if any(_ends(a) and a["outcome"] != FAIL for a in shares.said_of(record)):
        return False
    most = max((d["delivery_count"] for d in shares.given.get(record, ())), default=0)
    for r in f.final(tp):
        send = f.send_of.get((tp, r["value"]))
        if r["offset"] != offset or r["isolation"] != RC or send is None:
            continue
        sent = send["invoke_ns"]
        unseen = sum(p["group"] == group and p["end_ns"] > sent for p in f.processes.values())
        if most + unseen < shares.limit and shares.calm(sent, EVER):
            return True
    return False
