"""uniqueness: records that stand in the log twice (docs/checks.md, "Delivery")."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from checkers.allowed import Answer, Ground, truncation
from checkers.engine.check import AnomalyClass, Check, Early
from checkers.engine.findings import NEVER, Finding, PartitionResult, Variant, What
from checkers.engine.partition_view import KernelView
from checkers.engine.slots import among, distinct
from core.producer_state import EXPIRATION, FIRST, OLD_EXPIRATION
from history.columns import Array
from history.reader import History

DUPLICATE = "duplicate"


class Idempotence(Variant):
    """Whether the sending process is idempotent; if not, whether its client may send a record again; if so,
    whether brokers may have forgotten it by then (FORGOTTEN). UNSENT: no process of an import sent it."""

    ONCE = "0"
    WITH = "1"
    RETRIES = "retries"
    FORGOTTEN = "forgotten"
    UNSENT = "unsent"


_ONCE, _WITH, _RETRIES, _FORGOTTEN, _UNSENT = range(5)
VARIANTS: Final = dict(enumerate(Idempotence))


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate(Finding):
    """A value at several offsets; `copies` of them."""

    copies: int

    def sentence(self, history: History) -> str:
        """Who sent it, and where it stands."""
        reads, sends = self.only(What.READ), self.only(What.SEND)
        offsets = sorted({s.offset for s in self.records if s.offset >= 0})
        places = ", ".join(map(str, offsets[:4]))
        epochs = sorted({s.leader_epoch for s in reads if s.leader_epoch >= 0})
        by = history.client(self.process) if self.process >= 0 else "no process on record"
        word = "epoch" if len(epochs) == 1 else "epochs"
        under = f" (leader {word} {', '.join(map(str, epochs))})" if epochs else ""
        acked = ""
        if sends and sends[0].offset >= 0:
            acked = f", acknowledged at offset {sends[0].offset}"
        return (
            f"{self.records[0].text(history)} was sent once, by {by}{acked}, and stands in the"
            f" log {self.copies} times: at offsets {places}{under}."
        )


def _kernel(p: KernelView, result: PartitionResult) -> None:
    sends, reads = p.sends, p.reads
    writer = p.writer[p.odd]
    unsent = writer < 0
    odd = p.odd[unsent | (sends["place"][writer] != reads["offset"][p.odd])] if len(sends["op"]) else p.odd
    if not len(odd):
        return
    suspects = distinct(reads["value"][odd])
    sent = among(sends["value"], suspects)
    near = np.concatenate((np.flatnonzero(np.append(sent, False)[p.writer]), p.odd[unsent]))
    acks = np.flatnonzero(p.acked & p.committed & sent)
    read = p.reads["value"][near]
    values = np.concatenate((read, sends["value"][acks]))
    offsets = np.concatenate((reads["offset"][near], sends["offset"][acks]))
    pairs = np.unique(np.stack((values, offsets), axis=1), axis=0)
    found, counts = np.unique(pairs[:, 0], return_counts=True)
    found = found[counts > 1]
    if len(found):
        row = _rows_of(p, found)
        plain = np.where(p.known.retries[p.owner] != 0, _RETRIES, _ONCE)
        of_sends = np.where(p.known.idempotent[p.owner] == 1, _WITH, plain)
        codes = np.append(of_sends, _WITH)[row]
        codes[row < 0] = _unsent(p, found[row < 0])
        again = np.flatnonzero(pairs[1:, 0] == pairs[:-1, 0]) + 1
        codes[(codes == _WITH) & _forgotten(p, found, row, pairs[again])] = _FORGOTTEN
        hits = np.arange(len(found))

        def duplicate(at: int) -> Finding:
            value = int(found[at])
            places = pairs[pairs[:, 0] == value, 1].tolist()
            return _duplicate(p, value, places, near[read == value], int(row[at]))

        result.report(DUPLICATE, hits, duplicate, codes, VARIANTS, excuses=_again(p, row))


def _unsent(p: KernelView, values: Array) -> Array:
    """Codes of values without a send: of a phantom, or of a process whose line may be missing."""
    if p.known.on_record.foreign:
        return np.full(len(values), _UNSENT)
    process = values >> 32  # `core.op.process_of`
    codes = np.full(len(values), _WITH)
    on_record, cut = np.isin(process, p.known.processes), np.isin(process, p.known.cut)
    codes[~on_record & (cut | p.known.broke_off)] = _RETRIES
    begun = np.flatnonzero(on_record & cut)
    at = p.known.positions(process[begun])
    plain = np.where(p.known.retries[at] != 0, _RETRIES, _ONCE)
    codes[begun] = np.where(p.known.idempotent[at] == 1, _WITH, plain)
    return codes


def _forgotten(p: KernelView, values: Array, row: Array, copies: Array) -> Array:
    """Flags, of each of these sorted values: its send (a row, -1 = none) belongs to no transaction, and
    before each of its copies (value, offset) brokers may have forgotten its producer."""
    plain = np.append(p.sends["txn"], 1)[row] == 0
    of = np.searchsorted(values, copies[:, 0])
    of, offset = of[plain[of]], copies[plain[of], 1]
    sent, by = p.sends["invoke_ns"][row[of]], _shown_by(p, row[of], offset)
    silent = by - sent >= p.known.forgotten_ns  # few, where brokers remember for long
    for process in distinct(p.owner[row[of[silent]]]).tolist():
        own = np.flatnonzero(p.owner == process)
        mine = np.flatnonzero(silent & (p.owner[row[of]] == process))
        last = np.maximum(sent[mine], _sent_below(p, own, offset[mine]))
        acked = np.minimum(by[mine], _acked_from(p, own, offset[mine]))
        silent[mine] = (acked - last >= p.known.forgotten_ns) & (acked < NEVER)
    plain[of[~silent]] = False
    return np.asarray(plain)


def _shown_by(p: KernelView, row: Array, offset: Array) -> Array:
    """Of each of these sends (rows): by when a read had shown it at this offset, NEVER = none that
    completed did."""
    wanted, place = np.unique(row * p.slots.size + p.slots(offset), return_inverse=True)
    reads = np.flatnonzero(among(p.writer, distinct(row)))
    there = p.writer[reads] * p.slots.size + p.read_slot[reads]
    reads, there = reads[among(there, wanted)], there[among(there, wanted)]
    found = np.full(len(wanted), NEVER)
    np.minimum.at(found, np.searchsorted(wanted, there), p.reads["complete_ns"][reads])
    return np.asarray(found[place])


def _sent_below(p: KernelView, own: Array, offsets: Array) -> Array:
    """Of each of these offsets: when the last of these sends (rows) with a lower place began, -1 = none."""
    placed = own[p.sends["place"][own] >= 0]
    placed = placed[np.argsort(p.sends["place"][placed], kind="stable")]
    latest = np.append(-1, np.maximum.accumulate(p.sends["invoke_ns"][placed]))
    return np.asarray(latest[np.searchsorted(p.sends["place"][placed], offsets)])


def _acked_from(p: KernelView, own: Array, offsets: Array) -> Array:
    """Of each of these offsets: when the first of these sends (rows) that was acknowledged at it or above
    was, NEVER = none."""
    acked = own[(p.sends["offset"][own] >= 0) & (p.sends["ack_ns"][own] >= 0)]
    acked = acked[np.argsort(p.sends["offset"][acked], kind="stable")]
    earliest = np.minimum.accumulate(p.sends["ack_ns"][acked][::-1])[::-1]
    return np.asarray(np.append(earliest, NEVER)[np.searchsorted(p.sends["offset"][acked], offsets)])


def _again(p: KernelView, row: Array) -> Array:
    """Codes of what may have made brokers forget each of these sends (rows; -1: of no process) while its
    client might still send it."""
    if not p.windows:
        return np.zeros(len(row), np.int8)
    acked = np.append(p.sends["ack_ns"], -1)[row]
    since, until = np.append(p.sends["invoke_ns"], 0)[row], np.where(acked < 0, NEVER, acked)
    return p.windows.excuses(since, until, weak=np.zeros(len(row), bool))


def _rows_of(p: KernelView, values: Array) -> Array:
    """Of each of these sorted values: its row in sends, -1 = no process sent it."""
    row = np.full(len(values), -1)
    rows = np.flatnonzero(np.isin(p.sends["value"], values))
    row[np.searchsorted(values, p.sends["value"][rows])] = rows
    return row


def _duplicate(p: KernelView, value: int, places: list[int], reads: Array, row: int) -> Finding:
    shown = [p.sent(row)] if row >= 0 else []
    for place in places[:4]:
        there = reads[p.reads["offset"][reads] == place]
        if len(there):
            shown.append(p.got(int(there[np.argmin(p.reads["complete_ns"][there])])))
    return Duplicate(
        key=(p.tp, value),
        process=p.process_of(row),
        records=tuple(shown),
        at_ns=max((s.done_ns for s in shown if s.what is What.READ), default=-1),
        copies=len(places),
    )


def repeat(ground: Ground, variant: str) -> Answer:
    """A record was written again."""
    if variant == Idempotence.RETRIES:
        return True, "enable.idempotence=false, and the producer retries: a lost answer means a second copy"
    if variant == Idempotence.FORGOTTEN:
        setting = f"{EXPIRATION} (before Kafka {FIRST} {OLD_EXPIRATION})"
        return True, f"{setting}: brokers may have forgotten the producer before the record came again"
    if reason := truncation(ground):
        return True, f"{reason}; what it knew of the producer is gone too"
    if variant == Idempotence.ONCE:
        return False, "the producer does not retry"
    if variant == Idempotence.UNSENT:
        return False, "no producer on record sent it even once"
    return False, "an idempotent producer writes each record once"


CHECK = Check(
    claim="A record that was sent once is in the log at most once.",
    anomalies={
        DUPLICATE: AnomalyClass(
            title="Record written twice",
            meaning="The application sent a record once; the log holds it at several offsets.",
            lacking=(Idempotence.UNSENT,),
            early=Early(("tp", "value")),
            rule=repeat,
        )
    },
    kernel=_kernel,
    content=True,
    subject="sends",
)
