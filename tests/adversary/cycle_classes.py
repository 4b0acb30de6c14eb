"""The naive judge's rules about cycles of dependencies. See `tests.adversary.classes`."""

from itertools import pairwise

from tests.adversary.excuses import TRANSACTIONS, Span
from tests.adversary.facts import INFO, OK, PLAIN, RC, Facts, Found, reads_of_sends
from tests.adversary.rows import Key

# Cycles -----------------------------------------------------------------------------------------


def cycles(f: Facts) -> Found:
    vertices = {
        n
        for n, op in f.ops.items()
        if op["outcome"] in (OK, INFO)
        and (op["txn"] or op["n_sends"] == 0 or (op["n_sends"] == 1 and op["n_reads"] == 0))
    }
    relays = {n for n in vertices if f.ops[n]["txn"] and f.ops[n]["n_sends"] and f.ops[n]["n_reads"]}
    wr = set()
    for read, send in reads_of_sends(f):
        w, r = send["op"], read["op"]
        if read["isolation"] == RC and w in vertices and r in vertices and w != r and relays & {w, r}:
            wr.add((w, r))
    ww = _written(f, vertices)
    soon = {(w, r) for w, r in wr if f.ops[r]["complete_ns"] >= f.ops[w]["invoke_ns"]}
    of_wr, of_ww = components(wr), components(ww)
    both = {c for c in components(wr | ww) if any(w in c and r in c for w, r in wr)}
    named = {
        "G1c": of_wr,
        "G0": of_ww,
        "G1c-ww": both - of_wr - of_ww,
        "G1c-realtime": components(soon | _rt(f, soon)) - of_wr,
        "G0-realtime": components(ww | _rt(f, ww)) - of_ww,
    }
    for name, found in named.items():
        for component in found:
            key: Key = (name, -1, min(component), len(component))
            if name in ("G1c", "G1c-realtime"):  # a lost decision may show records too early
                ops = [f.ops[op] for op in component]
                since, until = min(op["invoke_ns"] for op in ops), max(op["complete_ns"] for op in ops)
                f.spans[key].append(Span(since, until, (), internal=TRANSACTIONS))
            yield key, PLAIN


def _written(f: Facts, vertices: set[int]) -> set[tuple[int, int]]:
    edges = set()
    for pairs in ((tp, f.pairs[tp]) for tp in f.tps):
        tp, all_pairs = pairs
        mine: dict[int, set[int]] = {}
        for offset, value in all_pairs:
            send = f.send_of.get((tp, value))
            if send is not None and f.committed(send) and send["op"] in vertices:
                mine.setdefault(offset, set()).add(value)
        line = [f.send_of[tp, min(mine[o])]["op"] for o in sorted(mine) if len(mine[o]) == 1]
        edges |= {(a, b) for a, b in pairwise(line) if a != b}
    return edges


def _rt(f: Facts, edges: set[tuple[int, int]]) -> set[tuple[int, int]]:
    ops = {op for edge in edges for op in edge}
    done = [op for op in ops if f.ops[op]["outcome"] == OK]
    return {(a, b) for a in done for b in ops if a != b and f.ops[a]["complete_ns"] < f.ops[b]["invoke_ns"]}


def components(edges: set[tuple[int, int]]) -> set[frozenset[int]]:
    """Strongly connected components of at least two vertices."""
    onward: dict[int, set[int]] = {}
    for a, b in edges:
        onward.setdefault(a, set()).add(b)
    reached: dict[int, set[int]] = {}
    for start in onward:
        seen: set[int] = set()
        waiting = [start]
        while waiting:
            for b in onward.get(waiting.pop(), ()):
                if b not in seen:
                    seen.add(b)
                    waiting.append(b)
        reached[start] = seen
    found = {
        frozenset(b for b in some if a in reached.get(b, ())) | {a}
        for a, some in reached.items()
        if a in some
    }
    return {one for one in found if len(one) > 1}
