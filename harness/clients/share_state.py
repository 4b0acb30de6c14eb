"""What one member of a share group holds, and its journal lines.

It holds each record that its group gave it until it has acknowledged it, whatever the answer.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from core.generator import source
from core.op import Acknowledge, Acknowledgement, Outcome, TopicPartition
from core.payload import Foreign, decode
from core.session import Acquisition, Answers
from history import journal as j
from history.journal import JournalWriter

Acknowledged = dict[TopicPartition, list[tuple[int, Acknowledgement]]]
"""Offsets, and what is said of the record at each."""


@dataclass(slots=True, kw_only=True)
class ShareProcess:
    """One process."""

    run: str
    journal: JournalWriter
    now_ns: Callable[[], int]
    _held: dict[TopicPartition, list[int]] = field(default_factory=dict)
    """Offsets in the order of delivery."""

    @property
    def holds(self) -> bool:
        """It was given records that it has not acknowledged."""
        return bool(self._held)

    def acquired(self, op: int, at: int, begin: int, got: Acquisition) -> int:
        """Journal what micro-op `at` acquired; how many records."""
        runs: dict[TopicPartition, tuple[str, int, list[int], list[int], list[int]]] = {}
        foreign: list[tuple[str, int, int, int, bytes]] = []
        for record in got.records:
            tp = record.tp
            held = self._held.setdefault(tp, [])
            if record.offset not in held:  # else a record that it has renewed too late came again
                held.append(record.offset)
            value = decode(self.run, tp, record.payload)
            if isinstance(value, Foreign):
                foreign.append((*tp, record.offset, int(value), record.payload[:1024]))
                continue
            run = runs.setdefault(tp, (*tp, [], [], []))
            run[2].append(record.offset)
            run[3].append(value)
            run[4].append(record.count)
        line = j.Acquired(op, at, begin, got.since_ns, self.now_ns(), [*runs.values()], foreign)
        self.journal.write(line)
        return len(got.records)

    def to_acknowledge(self, op: int, at: int, mop: Acknowledge) -> Acknowledged:
        """Draw what a micro-op says, and of what records. They are no longer held, but for renewed ones.
        Journals it."""
        rng, chosen = source(mop.seed, "acknowledge"), Acknowledged()
        renews = source(mop.seed, "renew")
        for tp, offsets in self._held.items():
            for offset in offsets:
                if rng.random() < mop.share:
                    drawn = _drawn(rng.random(), mop)
                    kind = Acknowledgement.RENEW if renews.random() < mop.renew else drawn
                    chosen.setdefault(tp, []).append((offset, kind))
        for tp, taken in chosen.items():
            gone = {offset for offset, kind in taken if kind is not Acknowledgement.RENEW}
            self._held[tp] = [offset for offset in self._held[tp] if offset not in gone]
        self._held = {tp: offsets for tp, offsets in self._held.items() if offsets}
        if chosen:
            records = [(*tp, [o for o, _ in of], [int(kind) for _, kind in of]) for tp, of in chosen.items()]
            self.journal.write(j.Acknowledging(op, at, self.now_ns(), records))
        return chosen

    def acknowledged(self, op: int, at: int, begin: int, asked: Acknowledged, answers: Answers) -> str:
        """Journal the answers; the first code that is not OK, or ""."""
        results = [answers[tp] for tp in asked]
        lines = [(int(outcome), code) for outcome, code in results]
        self.journal.write(j.Acknowledged(op, at, begin, self.now_ns(), lines))
        return next((code for outcome, code in results if outcome is not Outcome.OK), "")


def _drawn(at: float, mop: Acknowledge) -> Acknowledgement:
    if at < mop.accept:
        return Acknowledgement.ACCEPT
    return Acknowledgement.RELEASE if at < mop.accept + mop.release else Acknowledgement.REJECT
