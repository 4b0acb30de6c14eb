"""copy-order: what an application made of two inputs of one key, the other way round (docs/checks.md,
"Exactly once").

The kernel finds inputs whose copies stand behind those of later inputs, whatever their keys; the join keeps
those of one key. An input's key is known where the input stands: it stays there, and the join asks for it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from checkers.allowed import Answer, Ground, truncated
from checkers.checks.exactly_once import outputs_not_read, sent_after
from checkers.engine.check import AnomalyClass, Check, Tally, WholeRun
from checkers.engine.evidence import FetchedRecords, InputRecords, Wanted
from checkers.engine.findings import Finding, PartitionResult, Runs, Shown, What, offsets_of, runs, sent
from checkers.engine.partition_view import KernelView
from checkers.engine.slots import distinct
from core.config import AUTOMATIC
from core.keys import INPUT_KEYS
from history.columns import Array
from history.reader import History

BACK = "nonmonotonic-copy"
NONE: Final = np.zeros(0, np.int64)
LATER = 2
"""Copies of each of the two inputs in a witness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputKeys:
    """Of the partition `tp`: offsets of its input records, sorted, and their keys. late: flags: it was sent
    after all output that may have been removed."""

    tp: int
    offsets: Array
    keys: Array
    late: Array

    def of(self, wanted: Mapping[int, Array]) -> "InputKeys":
        """Those that are wanted of this partition."""
        mine = np.isin(self.offsets, wanted.get(self.tp, NONE))
        return InputKeys(tp=self.tp, offsets=self.offsets[mine], keys=self.keys[mine], late=self.late[mine])


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Of one partition: its inputs, and the copies in it, as offsets by their group and source."""

    inputs: InputKeys
    copied: Mapping[tuple[int, int], Runs]

    def of(self, wanted: Mapping[int, Array]) -> "Kept":
        """What concerns these offsets of sources."""
        copied = {
            (group, source): runs(np.intersect1d(offsets_of(copies), wanted[source]))
            for (group, source), copies in self.copied.items()
            if source in wanted
        }
        return Kept(inputs=self.inputs.of(wanted), copied=copied)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disorder:
    """Inputs of a partition `source` that a group copied to one partition, not all in their order: sorted
    offsets, and where the first and the last copy of each stand."""

    group: int
    source: int
    offsets: Array
    first: Array
    last: Array

    def late(self) -> Array:
        """Flags: each copy of the input stands behind all copies of some later one."""
        return np.asarray(self.first > self._after())

    def _after(self) -> Array:
        """Of each input: where the last copy stands of that later input whose last copy comes first."""
        lowest = np.minimum.accumulate(self.last[::-1])[::-1]
        return np.append(lowest[1:], np.iinfo(np.int64).max)

    def part(self, flags: Array) -> "Disorder":
        """Some of the inputs."""
        return Disorder(
            group=self.group,
            source=self.source,
            offsets=self.offsets[flags],
            first=self.first[flags],
            last=self.last[flags],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedLate(Finding):
    """An input whose copies stand behind those of the input `later`."""

    later: int

    @property
    def wanted(self) -> Wanted:
        """Both inputs and their copies."""
        _, _, source, offset = self.key
        return Wanted(inputs=((source, offset), (source, self.later)))

    def more(self, fetched: FetchedRecords) -> list[Shown]:
        """Who sent the inputs, and the copies in this partition."""
        _, _, source, offset = self.key
        both = [fetched.inputs.get((source, one), InputRecords()) for one in (offset, self.later)]
        copies = [[row for row in one.copies if row.tp == self.tp][:LATER] for one in both]
        rows = (*(row for one in both for row in one.sends[:1]), *copies[0], *copies[1])
        return [sent(row) for row in rows]

    def sentence(self, history: History) -> str:
        """Both inputs, and where their copies stand."""
        tp, group, source, offset = self.key
        mine, other = (self._copies(source, one) for one in (offset, self.later))
        return (
            f"Offsets {offset} and {self.later} of {history.tp(source)} have one key; group"
            f" {history.group(group)} wrote what it made of them to {history.tp(tp)} in the other order:"
            f" of offset {offset} at {mine}, of offset {self.later} at {other}."
        )

    def _copies(self, source: int, offset: int) -> str:
        own = (s for s in self.only(What.SEND) if s.source == (source, offset))
        return ", ".join(f"offset {s.offset} (op {s.op})" for s in own)


def _kernel(p: KernelView, result: PartitionResult) -> None:
    ordered = p.known.ordered - p.known.cut_groups
    if not ordered:
        return
    placed = p.committed & (p.sends["place"] >= 0)
    group, source = p.known.group[p.owner], p.sends["src_tp"]
    inputs = np.flatnonzero(placed & (group < 0))
    inputs = inputs[np.lexsort((p.sends["value"][inputs], p.sends["place"][inputs]))]
    offsets, after = np.unique(p.sends["place"][inputs][::-1], return_index=True)
    keys = p.sends["value"][inputs][::-1][after] % INPUT_KEYS
    removed = p.known.removed_ns
    late = offsets_of(sent_after(p, removed)) if removed >= 0 else offsets
    copies = np.flatnonzero(placed & (p.sends["src_offset"] >= 0) & np.isin(group, [*ordered]))
    pair = group[copies].astype(np.int64) << 32 | source[copies]
    of_pairs = {(one >> 32, one & 0xFFFFFFFF): copies[pair == one] for one in distinct(pair).tolist()}
    copied = {of: distinct(p.sends["src_offset"][rows]) for of, rows in of_pairs.items()}
    result.kept[NAME] = Kept(
        inputs=InputKeys(tp=p.tp, offsets=offsets, keys=keys.astype(np.int8), late=np.isin(offsets, late)),
        copied={of: runs(each) for of, each in copied.items()},
    )
    several = [rows for of, rows in of_pairs.items() if len(copied[of]) > 1]
    if several:
        each = (_disorder(p, rows) for rows in several)
        result.parts[NAME] = [one for one in each if len(one.offsets)]


def _disorder(p: KernelView, rows: Array) -> Disorder:
    """Of copies (rows of sends) that one group made of one partition: the inputs that stand before or behind
    another one wrongly, whatever their keys."""
    offsets, which = np.unique(p.sends["src_offset"][rows], return_inverse=True)
    place = p.sends["place"][rows]
    first, last = np.full(len(offsets), np.iinfo(np.int64).max), np.full(len(offsets), -1)
    np.minimum.at(first, which, place)
    np.maximum.at(last, which, place)
    group, source = int(p.known.group[p.owner[rows[0]]]), int(p.sends["src_tp"][rows[0]])
    every = Disorder(group=group, source=source, offsets=offsets, first=first, last=last)
    before = np.append(-1, np.maximum.accumulate(first)[:-1])[: len(first)]
    return every.part(every.late() | (before > last))


def _join(run: WholeRun, tally: Tally) -> None:
    found = [(tp, one) for tp, part in tally.parts_of(NAME, list) for one in part]
    if not found:
        return
    wanted: dict[int, Array] = {}
    for _, one in found:
        wanted[one.source] = np.union1d(wanted.get(one.source, one.offsets), one.offsets)
    kept = dict(run.ask(NAME, partial(_asked, wanted)))
    blind, undecided = outputs_not_read(run), 0
    for tp, one in found:
        logs = run.known.logs_of(one.group, records=True)
        excuse = run.known.windows.ever(tp, one.source, *logs, since=run.known.begun(one.group))
        its, of = kept[one.source].inputs, (one.group, one.source)
        back = {finding.key[3]: finding for finding in _of_keys(tp, one, its)}
        # an input with copies in other partitions may have been repeated into this one
        apart = [
            offsets_of(other.copied[of]) for at, other in kept.items() if at != tp and of in other.copied
        ]
        offsets = np.setdiff1d(np.array([*back], np.int64), np.concatenate([*apart, NONE]))
        open_ = np.isin(offsets, its.offsets[~its.late]) | bool(blind)
        undecided += int(open_.sum())
        tally.report(BACK, offsets[~open_], back.__getitem__, excuses=excuse)
    tally.doubt(
        NAME,
        undecided,
        "{number} of the inputs may have copies before those of later ones, which the final reads did not"
        " reach, or which were removed",
        tps=blind,
    )


def _asked(wanted: Mapping[int, Array], kept: object) -> Kept:
    assert isinstance(kept, Kept)
    return kept.of(wanted)


def _of_keys(tp: int, every: Disorder, inputs: InputKeys) -> Iterator[CopiedLate]:
    for key in distinct(inputs.keys).tolist():
        one = every.part(np.isin(every.offsets, inputs.offsets[inputs.keys == key]))
        for at in np.flatnonzero(one.late()).tolist():
            later = at + 1 + int(np.argmin(one.last[at + 1 :]))
            yield CopiedLate(
                key=(tp, one.group, one.source, int(one.offsets[at])), later=int(one.offsets[later])
            )


def copied_late(ground: Ground, variant: str) -> Answer:
    """What was made of two inputs of one key stands the other way round."""
    if ground.commit in ("before", "beside", *AUTOMATIC):
        return True, "offsets are committed before the copies are made: a successor may be ahead of a member"
    return truncated(ground, "a successor begins at the committed offset, and repeats all that is behind it")


NAME = "copy-order"
CHECK = Check(
    claim="What an application makes of input records of one key stands in the order of these.",
    anomalies={
        BACK: AnomalyClass(
            title="Output of one key out of order",
            meaning="In the output of an application each record made of one input record stands behind all"
            " those made of a later input record of the same key.",
            literature="violation of order per key; nonmonotonic",
            rule=copied_late,
        )
    },
    kernel=_kernel,
    join=_join,
    content=True,
    needs="commits",
    subject="applications",
)
