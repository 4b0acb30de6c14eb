"""The run over time, as numbers: what was done per bin, how long it took, what went wrong.

All times are seconds since the start of the run. An op counts where it completed; one that never
completed counts, as unknown, where it was invoked. So the bins add up to the ops.

Not here: reading files (`inputs`), what held when (`lanes`, `partitions`), drawing (`figures`, `static`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.events import PhaseStarted
from harness.op import Outcome
from harness.report import partitions
from harness.report.inputs import Floats, Inputs, Ints, Ops
from harness.report.lanes import Clients, Lane
from harness.report.lanes import build as build_lanes

BINS_MAX = 240
WIDTHS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600)
KINDS_MAX = 6
ERRORS_MAX = 4
OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Latency of ok ops of one kind, in ms by bin; NaN where none completed."""

    median: Floats
    p99: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Counts by bin. Keys of `ok` and `latency`: kinds of op, most frequent first; of `fail` and
    `info`: errors. `aborts`: transactions that the application meant to abort, and did."""

    edges: Floats
    ok: dict[str, Ints]
    fail: dict[str, Ints]
    info: dict[str, Ints]
    aborts: Ints
    written: Ints
    read: Ints
    latency: dict[str, Latency]

    @property
    def width(self) -> float:
        """Length of a bin in seconds."""
        return float(self.edges[1] - self.edges[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRow:
    """All ops of one kind: counts by outcome, records, latency of the ok ones in ms (NaN: none)."""

    kind: str
    ok: int
    fail: int
    info: int
    aborts: int
    written: int
    read: int
    median_ms: float
    p99_ms: float
    max_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRow:
    """All ops that ended with one error; `kinds`: (kind, ops), most frequent first."""

    error: str
    failed: int
    unknown: int
    kinds: list[tuple[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """What the report draws. `begin`, `end`: the part that is shown first (the whole is there)."""

    begin: float
    end: float
    rates: Rates | None
    lanes: list[Lane]
    kinds: list[KindRow]
    errors: list[ErrorRow]
    clients: Clients
    cluster: partitions.Cluster


def build(inputs: Inputs) -> Timeline:
    """The timeline of a run; parts without data are empty."""
    ops = inputs.ops if inputs.ops is not None and len(inputs.ops.f) else None
    end = _end(inputs, ops)
    begin = _begin(inputs, ops)
    lanes, clients = build_lanes(inputs, begin, end)
    return Timeline(
        begin=begin,
        end=end,
        rates=rates(ops) if ops is not None else None,
        lanes=lanes,
        kinds=kind_rows(ops) if ops is not None else [],
        errors=error_rows(ops) if ops is not None else [],
        clients=clients,
        cluster=partitions.build(inputs, end),
    )


def _last(ops: Ops) -> float:
    """When the last thing happened that the ops know of."""
    done = ops.complete[np.isfinite(ops.complete)]
    return float(max(ops.invoke.max(), done.max() if len(done) else 0.0))


def _begin(inputs: Inputs, ops: Ops | None) -> float:
    """Start of the phase in which the first op was invoked: setting up is long and empty."""
    if ops is None:
        return 0.0
    first = float(ops.invoke.min())
    starts = [inputs.seconds(e.ns) for e in inputs.events if isinstance(e, PhaseStarted)]
    return max([start for start in starts if start <= first], default=first)


def _end(inputs: Inputs, ops: Ops | None) -> float:
    times = [1.0, *(inputs.seconds(event.ns) for event in inputs.events)]
    times += [fault.end_s if fault.end_s is not None else fault.begin_s + 1
              for fault in inputs.verdict.faults]  # fmt: skip
    if ops is not None:
        times.append(_last(ops))
    return max(times)


def bin_edges(first: float, last: float) -> Floats:
    """Edges of equal bins that cover [first, last], at most `BINS_MAX` of them unless the run is
    longer than 10 days; widths are round numbers and edges their multiples."""
    wanted = max(last - first, 0.1) / (BINS_MAX - 2)
    width = next((width for width in WIDTHS if width >= wanted), float(np.ceil(wanted)))
    start = int(np.floor(first / width))
    stop = int(np.floor(last / width)) + 1
    edges: Floats = np.arange(start, stop + 1, dtype=np.float64) * width
    return edges


def rates(ops: Ops) -> Rates:
    """Counts, records and latencies of all ops by bin."""
    when = np.where(np.isfinite(ops.complete), ops.complete, ops.invoke)
    edges = bin_edges(float(when.min()), float(when.max()))
    n = len(edges) - 1
    bins = np.clip(np.searchsorted(edges, when, side="right") - 1, 0, n - 1)
    ok = ops.outcome == Outcome.OK
    aborts = _deliberate(ops)
    fail = (ops.outcome == Outcome.FAIL) & ~aborts
    kinds, of_kind = _frequent(ops.f, ops.names, np.ones(len(ops.f), bool), KINDS_MAX)

    def count(mask: np.ndarray, weights: Ints | None = None) -> Ints:
        weight = None if weights is None else np.maximum(weights[mask], 0)
        return np.bincount(bins[mask], weights=weight, minlength=n).astype(np.int64)

    def by_error(mask: np.ndarray) -> dict[str, Ints]:
        labels, of_label = _frequent(ops.error, ops.errors, mask, ERRORS_MAX)
        return {label: count(mask & (of_label == code)) for code, label in enumerate(labels)}

    return Rates(
        edges=edges,
        ok={kind: count(ok & (of_kind == code)) for code, kind in enumerate(kinds)},
        fail=by_error(fail),
        info=by_error(ops.outcome == Outcome.INFO),
        aborts=count(aborts),
        written=count(ok, ops.n_sends),
        read=count(ok, ops.n_reads),
        latency={
            kind: _latency(ops, ok & (of_kind == code), bins, n) for code, kind in enumerate(kinds)
        },
    )


def _deliberate(ops: Ops) -> np.ndarray:
    """Ops that the application meant to abort, and did."""
    mask: np.ndarray = (ops.outcome == Outcome.FAIL) & (ops.deliberate == 1)
    return mask


def _name(names: Sequence[str], code: int) -> str:
    if 0 <= code < len(names) and names[code]:
        return names[code]
    return "no error code" if code < 0 else f"code {code}"


def _frequent(
    codes: Ints, names: Sequence[str], mask: np.ndarray, most: int
) -> tuple[list[str], Ints]:
    """Names of the most frequent codes among `mask`, the rest as `OTHER`; and for every row the
    position of its code in that list."""
    found, counts = np.unique(codes[mask], return_counts=True)
    order = np.lexsort((found, -counts))
    kept = [int(found[position]) for position in order]
    labels = [_name(names, code) for code in kept]
    if len(kept) > most:
        kept, labels = kept[: most - 1], [*labels[: most - 1], OTHER]
    position = np.full(len(codes), len(kept), dtype=np.int64)
    for place, code in enumerate(kept):
        position[codes == code] = place
    return labels, position


def _latency(ops: Ops, mask: np.ndarray, bins: Ints, n: int) -> Latency:
    """Median and 99th percentile (nearest rank) of each bin."""
    took = (ops.complete[mask] - ops.invoke[mask]) * 1e3
    where = bins[mask]
    order = np.lexsort((took, where))
    took, where = took[order], where[order]
    first = np.searchsorted(where, np.arange(n))
    size = np.bincount(where, minlength=n)

    def rank(share: float) -> Floats:
        values = np.full(n, np.nan)
        some = size > 0
        place = first + np.maximum(np.ceil(share * size).astype(np.int64), 1) - 1
        values[some] = took[place[some]]
        return values

    return Latency(median=rank(0.5), p99=rank(0.99))


def kind_rows(ops: Ops) -> list[KindRow]:
    """One row a kind of op, most frequent first."""
    ok, aborts = ops.outcome == Outcome.OK, _deliberate(ops)
    found, counts = np.unique(ops.f, return_counts=True)
    rows = []
    for position in np.lexsort((found, -counts)):
        mine = ops.f == found[position]
        took = (ops.complete[mine & ok] - ops.invoke[mine & ok]) * 1e3
        done = len(took) > 0
        rows.append(
            KindRow(
                kind=_name(ops.names, int(found[position])),
                ok=int((mine & ok).sum()),
                fail=int((mine & (ops.outcome == Outcome.FAIL) & ~aborts).sum()),
                info=int((mine & (ops.outcome == Outcome.INFO)).sum()),
                aborts=int((mine & aborts).sum()),
                written=int(np.maximum(ops.n_sends[mine & ok], 0).sum()),
                read=int(np.maximum(ops.n_reads[mine & ok], 0).sum()),
                median_ms=float(np.median(took)) if done else np.nan,
                p99_ms=float(np.percentile(took, 99, method="inverted_cdf")) if done else np.nan,
                max_ms=float(took.max()) if done else np.nan,
            )
        )
    return rows


def error_rows(ops: Ops) -> list[ErrorRow]:
    """What did not end well by error, most frequent first."""
    bad = (ops.outcome != Outcome.OK) & ~_deliberate(ops)
    rows = []
    for code in np.unique(ops.error[bad]):
        mine = bad & (ops.error == code)
        found, counts = np.unique(ops.f[mine], return_counts=True)
        failed = int((mine & (ops.outcome == Outcome.FAIL)).sum())
        rows.append(
            ErrorRow(
                error=_name(ops.errors, int(code)),
                failed=failed,
                unknown=int(mine.sum()) - failed,
                kinds=[
                    (_name(ops.names, int(found[place])), int(counts[place]))
                    for place in np.lexsort((found, -counts))
                ],
            )
        )
    return sorted(rows, key=lambda row: (-row.failed - row.unknown, row.error))
