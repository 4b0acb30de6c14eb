"""What compaction may have removed from one partition (docs/checks.md, section 1, "Compacted").

A record may be gone because a later one of its key stands above it; a tombstone, too, when its time has
ended.
"""

from dataclasses import dataclass

import numpy as np

from checkers.engine.findings import FINAL, NEVER
from core.keys import KEYS
from history.columns import Array, Columns


@dataclass(frozen=True, slots=True)
class Compacted:
    """Of each send, flags.

    succeeded: a later record of its key may stand above it. replaced: a committed one may, so that it matters
    no more whether the key was deleted before; a tombstone only where it is known to have stood there.
    expired: it is a tombstone that may be gone at the end. older: final reads show an older committed record
    of its key, and they did not take so long that the tombstone may have been removed during them.
    """

    succeeded: Array
    replaced: Array
    expired: Array
    older: Array

    @property
    def removable(self) -> Array:
        """It may be gone."""
        return np.asarray(self.succeeded | self.expired)


def keys_of(values: Array) -> Array:
    """The key of each value (`core.keys`)."""
    return np.asarray(values % KEYS)


def compacted(
    sends: Columns,
    reads: Columns,
    writer: Array,
    committed: Array,
    failed: Array,
    covered: Array,
    kept_ns: int,
    unheard: bool,
) -> Compacted:
    """The rows of a partition, joined as a `KernelView` has them. covered: flags, were the send in the log,
    final reads would show it wherever it stood. kept_ns: `delete.retention.ms`. unheard: sends may be
    missing, of any key."""
    key, tombstone = keys_of(sends["value"]), sends["value"] // KEYS % 2 == 1
    heirs = ~failed & (committed | tombstone)
    final, written = np.flatnonzero(reads["phase"] == FINAL), writer >= 0
    top = sends["place"].copy()  # a second copy of a record outlives the first one
    np.maximum.at(top, writer[written], reads["offset"][written])
    last = int(reads["complete_ns"][final].max(initial=-1))
    over = NEVER if last < 0 else last - kept_ns
    there = tombstone & covered & (top < 0)  # it would be there until its time has ended
    succeeded = _succeeded(sends, key, heirs & ~there, top)
    succeeded |= _succeeded(sends, key, heirs & there, top) & (sends["invoke_ns"] <= over)
    replaced = _succeeded(sends, key, committed & ~(tombstone & (top < 0)), top)
    return Compacted(
        succeeded=succeeded | unheard,
        replaced=replaced | unheard,
        expired=tombstone & (sends["invoke_ns"] <= over),
        older=_older(top, reads, key, final[np.append(committed, False)[writer[final]]], last - kept_ns),
    )


def _succeeded(sends: Columns, key: Array, heirs: Array, place: Array) -> Array:
    """Flags, by send: an heir of its key may stand above it: it does, or, where one of the two places is not
    known, it was not acknowledged before the send began. place: the highest of each, -1 = not known."""
    invoke, ack = sends["invoke_ns"], sends["ack_ns"]
    reach = np.where(ack < 0, NEVER, ack)
    highest, latest = np.full(KEYS, -1), np.full(KEYS, -1)
    placed = heirs & (place >= 0)
    np.maximum.at(highest, key[placed], place[placed])
    np.maximum.at(latest, key[heirs & ~placed], reach[heirs & ~placed])
    found = (place >= 0) & ((highest[key] > place) | (latest[key] >= invoke))
    for row in np.flatnonzero(place < 0).tolist():
        others = heirs & (key == key[row]) & (reach >= invoke[row])
        others[row] = False
        found[row] = others.any()
    return np.asarray(found)


def _older(place: Array, reads: Columns, key: Array, shown: Array, since: int) -> Array:
    """Flags, by send: one of the final reads `shown`, not before `since`, is of a lower offset of its key.
    place: the highest of each."""
    lowest = np.full(KEYS, NEVER)
    timely = shown[reads["complete_ns"][shown] > since]
    np.minimum.at(lowest, keys_of(reads["value"][timely]), reads["offset"][timely])
    return np.asarray(lowest[key] < place)
