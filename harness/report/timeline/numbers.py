"""The run over time, as numbers: what was done per bin, how long it took, what went wrong.

All times are seconds since the start of the run. An op counts where it completed; one that never
completed counts, as unknown, where it was invoked. So the bins add up to the ops.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.op import Outcome
from core.systems import UNTIMED
from harness.report.inputs import Floats, Inputs, Ints, Mask, OpColumns
from harness.report.timeline import partitions
from harness.report.timeline.lanes import ClientCount, TimelineLane
from harness.report.timeline.lanes import build as build_lanes
from history.events import PhaseStarted

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
    `info`: errors. `aborts`: transactions that the application meant to abort, and did.
    `seconds`: from the first invocation to the last completion."""

    edges: Floats
    seconds: float
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
    lanes: list[TimelineLane]
    kinds: list[KindRow]
    errors: list[ErrorRow]
    clients: ClientCount
    untimed: bool
    """When ops began is not on record, so latencies are NaN: Kafka's Verifiable tools print ends only."""
    cluster: partitions.ClusterTimeline


def build(inputs: Inputs) -> Timeline:
    """The timeline of a run; parts without data are empty."""
    ops = inputs.ops if inputs.ops is not None and len(inputs.ops.f) else None
    end = _end(inputs, ops)
    begin = _begin(inputs, ops)
    lanes, clients = build_lanes(inputs, begin, end)
    untimed = _untimed(inputs)
    return Timeline(
        begin=begin,
        end=end,
        rates=rates(ops, untimed=untimed) if ops is not None else None,
        lanes=lanes,
        kinds=kind_rows(ops, untimed=untimed) if ops is not None else [],
        errors=error_rows(ops) if ops is not None else [],
        clients=clients,
        untimed=untimed,
        cluster=partitions.build(inputs, end),
    )


def _untimed(inputs: Inputs) -> bool:
    imported = inputs.verdict.config.get("imported")
    return isinstance(imported, dict) and imported.get("format") in UNTIMED


def _took(ops: OpColumns, rows: Ints | Mask, untimed: bool) -> Floats:
    """How long these ops took, in ms; NaN: not on record."""
    took: Floats = (ops.complete[rows] - ops.invoke[rows]) * 1e3
    return np.full_like(took, np.nan) if untimed else took


def _when(ops: OpColumns) -> Floats:
    """When each op counts."""
    return np.where(np.isfinite(ops.complete), ops.complete, ops.invoke)


def _begin(inputs: Inputs, ops: OpColumns | None) -> float:
    """Start of the phase in which the first op was invoked: setting up is long and empty."""
    if ops is None:
        return 0.0
    first = float(ops.invoke.min())
    starts = [inputs.seconds(e.ns) for e in inputs.events if isinstance(e, PhaseStarted)]
    return max([start for start in starts if start <= first], default=first)


def _end(inputs: Inputs, ops: OpColumns | None) -> float:
    times = [1.0, *(inputs.seconds(event.ns) for event in inputs.events)]
    times += [
        fault.end_s if fault.end_s is not None else fault.begin_s + 1 for fault in inputs.verdict.faults
    ]
    if ops is not None:
        times.append(float(_when(ops).max()))
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


def rates(ops: OpColumns, *, untimed: bool = False) -> Rates:
    """Counts, records and latencies of all ops by bin. One pass over each column that it needs."""
    when = _when(ops)
    edges = bin_edges(float(when.min()), float(when.max()))
    n = len(edges) - 1
    bins = np.clip(np.searchsorted(edges, when, side="right") - 1, 0, n - 1).astype(np.int16)
    ok, aborts = ops.outcome == Outcome.OK, _deliberate(ops)
    fail = (ops.outcome == Outcome.FAIL) & ~aborts

    def total(counts: Ints) -> Ints:
        return np.bincount(bins[ok], np.maximum(counts[ok], 0), minlength=n).astype(np.int64)

    labels, of_kind = _frequent(ops.f, ops.names, np.ones(len(ops.f), dtype=bool), KINDS_MAX)
    keys = of_kind[ok] * n + bins[ok]
    latencies = _latencies(_took(ops, ok, untimed), keys, n, len(labels))
    return Rates(
        edges=edges,
        seconds=float(when.max() - ops.invoke.min()),
        ok=_by_label(labels, keys, n),
        fail=_by_error(ops, fail, bins, n),
        info=_by_error(ops, ops.outcome == Outcome.INFO, bins, n),
        aborts=np.bincount(bins[aborts], minlength=n),
        written=total(ops.n_sends),
        read=total(ops.n_reads),
        latency=dict(zip(labels, latencies, strict=True)),
    )


def _by_error(ops: OpColumns, mask: Mask, bins: Ints, n: int) -> dict[str, Ints]:
    """Counts by bin of the most frequent errors among these ops."""
    labels, of_error = _frequent(ops.error, ops.errors, mask, ERRORS_MAX)
    return _by_label(labels, of_error[mask] * n + bins[mask], n)


def _by_label(labels: Sequence[str], keys: Ints, n: int) -> dict[str, Ints]:
    """Counts by bin of each label. keys: position of the label * n + bin, one for each op."""
    counts = np.bincount(keys, minlength=len(labels) * n).reshape(-1, n)
    return dict(zip(labels, counts, strict=True))


def _deliberate(ops: OpColumns) -> Mask:
    """Ops that the application meant to abort, and did."""
    return np.asarray((ops.outcome == Outcome.FAIL) & (ops.deliberate == 1))


def _name(names: Sequence[str], code: int) -> str:
    if 0 <= code < len(names) and names[code]:
        return names[code]
    return "no error code" if code < 0 else f"code {code}"


def _by_frequency(codes: Ints) -> list[tuple[int, int]]:
    """(code, how often), the most frequent first."""
    found, counts = np.unique(codes, return_counts=True)
    order = np.lexsort((found, -counts))
    return [(int(code), int(many)) for code, many in zip(found[order], counts[order], strict=True)]


def _frequent(codes: Ints, names: Sequence[str], mask: Mask, most: int) -> tuple[list[str], Ints]:
    """Names of the most frequent codes among `mask`, the rest as `OTHER`; and the position of each
    row's code in that list."""
    kept = [code for code, _ in _by_frequency(codes[mask])]
    labels = [_name(names, code) for code in kept]
    if len(kept) > most:
        kept, labels = kept[: most - 1], [*labels[: most - 1], OTHER]
    position = np.full(int(codes.max(initial=-1)) + 2, len(kept), dtype=np.int64)
    position[np.array(kept, dtype=np.int64) + 1] = np.arange(len(kept))
    return labels, position[codes.astype(np.int64) + 1]


def _latencies(took: Floats, keys: Ints, n: int, kinds: int) -> list[Latency]:
    """Median and 99th percentile (nearest rank) by kind and bin. keys: kind * n + bin of each op."""
    order = np.argsort(keys.astype(np.int16 if kinds * n < 2**15 else np.int64), kind="stable")
    took = took[order]
    size = np.bincount(keys, minlength=kinds * n)
    first = np.cumsum(size) - size
    found = np.full((2, kinds * n), np.nan)
    for key in np.flatnonzero(size):
        mine = took[first[key] : first[key] + size[key]]
        ranks = [max(int(np.ceil(share * size[key])), 1) - 1 for share in (0.5, 0.99)]
        found[:, key] = np.partition(mine, ranks)[ranks]
    median, p99 = found.reshape(2, kinds, n)
    return [Latency(median=median[kind], p99=p99[kind]) for kind in range(kinds)]


def kind_rows(ops: OpColumns, *, untimed: bool = False) -> list[KindRow]:
    """One row a kind of op, most frequent first."""
    aborts = _deliberate(ops)
    rows = []
    for code, _ in _by_frequency(ops.f):
        mine = np.flatnonzero(ops.f == code)
        outcome = ops.outcome[mine]
        aborted = int(aborts[mine].sum())
        ok = mine[outcome == Outcome.OK]
        took = _took(ops, ok, untimed)
        p99 = np.quantile(took, 0.99, method="inverted_cdf") if len(took) else np.nan
        rows.append(
            KindRow(
                kind=_name(ops.names, code),
                ok=len(ok),
                fail=int((outcome == Outcome.FAIL).sum()) - aborted,
                info=int((outcome == Outcome.INFO).sum()),
                aborts=aborted,
                written=int(np.maximum(ops.n_sends[ok], 0).sum()),
                read=int(np.maximum(ops.n_reads[ok], 0).sum()),
                median_ms=float(np.median(took)) if len(took) else np.nan,
                p99_ms=float(p99),
                max_ms=float(took.max()) if len(took) else np.nan,
            )
        )
    return rows


def error_rows(ops: OpColumns) -> list[ErrorRow]:
    """What did not end well by error, most frequent first."""
    bad = np.flatnonzero((ops.outcome != Outcome.OK) & ~_deliberate(ops))
    rows = []
    for code, many in _by_frequency(ops.error[bad]):
        mine = bad[ops.error[bad] == code]
        failed = int((ops.outcome[mine] == Outcome.FAIL).sum())
        kinds = [(_name(ops.names, kind), count) for kind, count in _by_frequency(ops.f[mine])]
        rows.append(
            ErrorRow(error=_name(ops.errors, code), failed=failed, unknown=many - failed, kinds=kinds)
        )
    return sorted(rows, key=lambda row: (-row.failed - row.unknown, row.error))
