"""The naive judge's rules about applications: what they did not commit, or wrote in another order.

Inputs that they copied twice, or never, are judged as those of other groups. See `tests.adversary.classes`.
"""

from collections.abc import Iterator

from core.op import End
from tests.adversary.excuses import EVER, Span
from tests.adversary.facts import OK, PLAIN, RC, Facts, Found
from tests.adversary.group_classes import copies_of, copying, given, groups_of, output_removed
from tests.adversary.rows import Key, Row

KEYS = 16


def _ahead(f: Facts, group: int, tp: int) -> list[int]:
    """Inputs that were there to be copied, behind the committed position of a group that is not cut."""
    at = -1 if f.cut_group(group) else f.position(group, tp)
    return [o for o in f.order(tp, RC) if o >= at >= 0 and o in f.returned(tp)]


def _copied(f: Facts, group: int) -> set[tuple[int, int]]:
    return {(s["src_tp"], s["src_offset"]) for s in copies_of(f, group) if f.committed(s)}


def _ended(f: Facts, group: int) -> bool:
    """Each slot of the group has an instance that ended in order."""
    own = [p for p in f.processes.values() if p["group"] == group]
    good = {p["slot"] for p in own if p["end"] == End.CLOSED and _in_order(f, p["process"])}
    return all(p["slot"] in good for p in own)


def _in_order(f: Facts, process: int) -> bool:
    ops = [op for op in f.ops.values() if op["process"] == process]
    wrote = any(row["process"] == process for row in (*f.sends, *f.commits))
    return bool(ops) and all(op["outcome"] == OK for op in ops) and not wrote


def eos_uncommitted(f: Facts) -> Found:
    for group in copying(f) if f.app is not None else ():
        if not _ended(f, group) or _stood_still(f, group):
            continue
        copied = _copied(f, group)
        ahead = {(tp, offset) for tp in f.tps for offset in _ahead(f, group, tp)}
        for tp, offset in ahead & copied:
            key: Key = ("eos-uncommitted", tp, group, offset)
            f.spans[key].append(Span(f.beginning(group), EVER, None, internal=given(f, group)))
            yield key, PLAIN


def _stood_still(f: Facts, group: int) -> bool:
    """Before the end of its input: it made nothing of some record; a filter, of one behind all output."""
    copied = _copied(f, group)
    for tp in f.tps:
        last = max((offset for source, offset in copied if source == tp), default=-1)
        last = last if f.app is not None and f.app.may_omit else -1
        if any((tp, offset) not in copied and offset > last for offset in _ahead(f, group, tp)):
            return True
    return False


def unfinished(f: Facts) -> bool:
    """Whether the application left input behind, of which nothing says whether it would have copied it."""
    for group in copying(f) if f.app is not None else ():
        if any(_ahead(f, group, tp) for tp in f.tps) and (not _ended(f, group) or _stood_still(f, group)):
            return True
    return False


def made_nothing(f: Facts) -> bool:
    """Whether an application that makes nothing of some records made nothing of any."""
    omits = f.app is not None and f.app.may_omit
    return omits and not any(_copied(f, group) for group in groups_of(f))


def left_unread(f: Facts) -> bool:
    """Whether the last reader at read_committed did not come to the end of some input or output."""
    if f.app is None:
        return False
    asked = [f.recorded.config.prefix + topic for topic in (f.app.input, f.app.output) if topic]
    return any(row["topic"] in asked and not f.read_whole(row["tp"]) for row in f.rows["tps"])


def _key(f: Facts, tp: int, offset: int) -> int:
    """The key of an input, -1 = not known."""
    values = [
        s["value"]
        for s in f.sends
        if (s["tp"], s["place"]) == (tp, offset) and f.committed(s) and f.group_of(s) < 0
    ]
    return max(values) % KEYS if values else -1


def nonmonotonic_copy(f: Facts) -> Found:
    for key, group, maybe in _reordered(f):
        if not maybe:
            tps = int(key[1]), int(key[3])
            f.spans[key].append(Span(f.beginning(group), EVER, tps, internal=given(f, group)))
            yield key, PLAIN


def maybe_in_order(f: Facts) -> bool:
    """Some copy may stand where the last reader did not come, or have been removed, and keep the order."""
    return any(maybe for *_, maybe in _reordered(f))


def _reordered(f: Facts) -> Iterator[tuple[Key, int, bool]]:
    ordered = f.app is not None and not f.app.effects and f.app.shape != "aggregate"
    for group in groups_of(f) if ordered else ():
        if f.cut_group(group):
            continue
        placed = [s for s in copies_of(f, group) if f.committed(s) and s["place"] >= 0]
        places: dict[tuple[int, int], dict[int, list[Row]]] = {}
        for copy in placed:
            of = places.setdefault((copy["tp"], copy["src_tp"]), {})
            of.setdefault(copy["src_offset"], []).append(copy)
        for (tp, source), of in places.items():
            for a, copies in of.items():
                if any(s["tp"] != tp and (s["src_tp"], s["src_offset"]) == (source, a) for s in placed):
                    continue  # it may have been repeated into this one
                if any(
                    a < b
                    and _key(f, source, a) == _key(f, source, b) >= 0
                    and min(s["place"] for s in copies) > max(s["place"] for s in others)
                    for b, others in of.items()
                ):
                    key: Key = ("nonmonotonic-copy", tp, group, source, a)
                    yield key, group, f.output_unread() or output_removed(f, source, a)
