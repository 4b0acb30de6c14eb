"""The ends of all logs, once the clients are closed: what the final reads have to reach."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial

import msgspec

from core.cluster import Cluster
from core.config import RunConfig
from core.flushing import number
from core.op import DATABASE, Isolation, TopicPartition
from core.runtime import Runtime
from core.watermark import still_s
from history.events import BoundsListed

STABLE_S = 2.0
"""The ends of the logs must not change for this long before they are final."""
SCAN = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
"""How often coordinators look for transactions whose time is up; the harness's own do each second."""
MARGIN_S = 5.0
POLL_S = 0.1
LATE_S = 1.0
"""Leaders that need longer to list their ends are late: the machine may be busy, or a disk slow."""
MORE_S = 60.0
"""How much longer than allowed transactions are waited for, while leaders are late or an end still moves."""
DEFAULT_S = 60.0
"""How long a transaction of an application may stay open where no coordinator says: the time-out that Kafka's
clients set where they are given none."""
MOST_S = 130.0
"""Transactions of an application that may stay open for longer are not waited for."""
QUIET_S = 5.0
"""Ends that have not moved for so long do not move any more."""

Rows = tuple[tuple[str, int, int, int, int], ...]
"""(topic, partition, isolation, start, end), as in `BoundsListed`."""


def allowed_s(config: RunConfig, timeout_s: float) -> float:
    """How long a transaction may stay open that nothing ends: beyond its time-out until the coordinator's
    next look, and a margin."""
    return timeout_s + number(config.broker_settings, SCAN, 1000) / 1000 + MARGIN_S


async def of_application(cluster: Cluster, config: RunConfig, rows: Rows) -> tuple[float, str]:
    """How long the transactions that hold back these ends may stay open, since their clients are gone, and in
    words which one does: an application sets their time-outs. 0 where there is no application, or where no
    coordinator will end them."""
    tps = open_ends(rows) if config.app is not None else []
    if not tps:
        return 0.0, ""
    found = await cluster.open_transactions(tps)
    named = [
        (one.timeout_s or DEFAULT_S, f"a transaction of {one.transactional_id or 'an unknown id'}")
        for one in found
        if one.transactional_id or one.silent
    ]
    said = {TopicPartition(one.topic, one.partition) for one in found}
    named += [(DEFAULT_S, f"what is open in {tp}") for tp in tps if tp not in said]
    longest, name = max(named, default=(0.0, ""))
    return (allowed_s(config, longest), f"{name} may stay open for {longest:g} s") if named else (0.0, "")


async def ends_of_run(
    cluster: Cluster,
    tps: Sequence[TopicPartition],
    runtime: Runtime,
    config: RunConfig,
    *,
    stable_s: float,
    cut_short: Callable[[], bool],
    show: Callable[[str], None],
) -> BoundsListed:
    """The ends of all logs of a run whose clients are closed; see `stable_ends`."""
    return await stable_ends(
        cluster,
        tps,
        runtime,
        allowed_s=allowed_s(config, config.transaction_timeout_s),
        longest=partial(of_application, cluster, config),
        stable_s=max(stable_s, 0 if config.acks == -1 else still_s(config)),
        cut_short=cut_short,
        show=show,
    )


async def stable_ends(
    cluster: Cluster,
    tps: Sequence[TopicPartition],
    runtime: Runtime,
    *,
    allowed_s: float,
    stable_s: float,
    longest: Callable[[Rows], Awaitable[tuple[float, str]]],
    quiet_s: float = QUIET_S,
    more_s: float = MORE_S,
    cut_short: Callable[[], bool],
    show: Callable[[str], None],
) -> BoundsListed:
    """The ends of all logs: LSO = HW everywhere and unchanged for `stable_s`; or, after `allowed_s` for the
    transactions to end and `stable_s`, the newest ones seen and why they are not final.

    While leaders answer late or an end still moves (`QUIET_S`), coordinators may not have come to end what is
    open: then they have up to `more_s` more, and `moving` says what still moved at the end of that.
    longest: how long transactions may stay open, by the ends that they hold back, if longer than `allowed_s`
    (`of_application`): so long they are waited for, or, beyond `MOST_S`, not at all, and `moving` says so.
    """
    now = begun = runtime.now_ns()
    deadline = now + int((allowed_s + stable_s) * 1e9)
    last = deadline + int(more_s * 1e9)
    seen: Rows = ()
    since, late = now, now - int(quiet_s * 1e9)
    why, moving, asked_longest = "nothing was listed", "", False
    while not cut_short():
        asked = runtime.now_ns()
        rows = await _listed(cluster, tps)
        now = runtime.now_ns()
        if rows != seen:
            seen, since = rows, now
        if now - asked >= LATE_S * 1e9:
            late = now
        why = _unstable(rows, tps)
        if not why and now - since >= stable_s * 1e9:
            break
        why = why or f"the ends changed less than {stable_s:g} s ago"
        moving = _moving(now, since, late, quiet_s)
        if now >= deadline and not moving and not asked_longest:
            asked_longest, (more, which) = True, await longest(rows)
            moving = which if more > MOST_S else ""
            if moving:
                break
            deadline = max(deadline, begun + int((more + stable_s) * 1e9))
            last = max(last, deadline)
        if now >= last or (now >= deadline and not moving):
            break
        show(why)
        await runtime.until(cut_short, POLL_S)
    if not why or cut_short():
        moving = ""
    return BoundsListed(ns=runtime.now_ns(), rows=seen, stable=not why, why=why, moving=moving)


def _moving(now: int, since: int, late: int, quiet_s: float) -> str:
    """Why an end that is not final may still become so; "" = nothing happens any more. since: when an end
    moved last; late: when leaders answered late."""
    if now - late < quiet_s * 1e9:
        return f"leaders listed their ends late {(now - late) / 1e9:.1f} s before"
    if now - since < quiet_s * 1e9:
        return f"an end moved {(now - since) / 1e9:.1f} s before"
    return ""


async def after_reads(cluster: Cluster, bounds: BoundsListed) -> BoundsListed:
    """The same, once the final reads have ended, where retention removed records meanwhile: what lies below
    where a log begins by now was not there to be read. What cannot be listed any more is not known."""
    tps = sorted({TopicPartition(topic, p) for topic, p, *_ in bounds.rows if topic != DATABASE})
    starts = {(t, p, level): start for t, p, level, start, _ in await _listed(cluster, tps)}
    rows = tuple(
        (t, p, level, min(max(start, starts.get((t, p, level), start)), end), end)
        for t, p, level, start, end in bounds.rows
        if t == DATABASE or end < 0 or (t, p, level) in starts
    )
    return msgspec.structs.replace(bounds, rows=rows, moving="")


def with_rows(bounds: BoundsListed, ends: Mapping[TopicPartition, int]) -> BoundsListed:
    """Beside the logs' ends those of the database, which has no levels of isolation."""
    rows = [(*tp, int(level), 0, end) for level in Isolation if level >= 0 for tp, end in ends.items()]
    return msgspec.structs.replace(bounds, rows=(*bounds.rows, *rows))


def to_read(rows: Rows, config: RunConfig) -> dict[int, list[tuple[str, int, int]]]:
    """Of each level: topic, partition and end of what the final reads read. Of an application that is its
    input and, at read_committed, what it left: only what it committed is its output. What it keeps in other
    topics of its own, no check knows. Of an aggregate a partition of the output whose last results an open
    transaction hides is not read at all: those before them say nothing."""
    app = config.app
    output = (config.prefix + app.output, DATABASE) if app else ()
    hidden = set(open_ends(rows)) if app and app.shape == "aggregate" else set()
    ends: dict[int, list[tuple[str, int, int]]] = {int(level): [] for level in Isolation if level >= 0}
    for topic, partition, isolation, _, end in rows:
        left = topic in output and isolation == Isolation.READ_COMMITTED
        left &= TopicPartition(topic, partition) not in hidden
        if end < 0:
            continue  # nothing says how far it is to be read
        if app is None or left or topic == config.prefix + app.input:
            ends[isolation].append((topic, partition, end))
    return ends


def with_unlisted(bounds: BoundsListed, tps: Iterable[TopicPartition], config: RunConfig) -> BoundsListed:
    """Beside the ends that were listed, those of an application's output that could not be listed, as unknown
    (-1): no client names these partitions, and what stands there may be what other partitions lack."""
    if config.app is None or not config.app.output:
        return bounds
    output, listed = config.prefix + config.app.output, {row[:3] for row in bounds.rows}
    wanted = [
        (*tp, int(level)) for tp in sorted(tps) if tp.topic == output for level in Isolation if level >= 0
    ]
    rows = [(*one, -1, -1) for one in wanted if one not in listed]
    return msgspec.structs.replace(bounds, rows=(*bounds.rows, *rows))


def open_ends(rows: Rows) -> list[TopicPartition]:
    """The partitions whose last stable offset is below their high watermark."""
    ends = _ends(rows)
    tps = [TopicPartition(topic, p) for topic, p, isolation in ends if isolation == 1]
    return [tp for tp in tps if ends[*tp, 1] < ends.get((*tp, 0), -1)]


async def _listed(cluster: Cluster, tps: Sequence[TopicPartition]) -> Rows:
    rows = []
    for isolation in (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED):
        offsets = await cluster.offsets(tps, isolation)
        rows += [
            (tp.topic, tp.partition, int(isolation), start, end)
            for tp, (start, end) in sorted(offsets.items())
        ]
    return tuple(rows)


def _unstable(rows: Rows, tps: Iterable[TopicPartition]) -> str:
    """Why these ends are not final yet, apart from their age."""
    ends = _ends(rows)
    for tp in tps:
        hw, lso = ends.get((*tp, 0)), ends.get((*tp, 1))
        if hw is None or lso is None:
            return f"the end of {tp} could not be listed"
        if lso < hw:
            return f"the last stable offset of {tp} is {lso}, its high watermark {hw}"
    return ""


def _ends(rows: Rows) -> dict[tuple[str, int, int], int]:
    return {(topic, p, isolation): end for topic, p, isolation, _, end in rows}
