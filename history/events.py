"""Events: what the harness itself did and saw during a run (`events.jsonl`, one JSON line each).

The run program writes them as they happen; the checker reads faults, bounds and recovery, the report shows a
timeline. Times are ns of CLOCK_MONOTONIC, the clock of the whole history.
"""

import threading
from pathlib import Path
from typing import Final

import msgspec

from core.cluster import NodeEnd, OpenTransaction
from core.op import Phase
from core.wire import Seen
from history import jsonl


class RunStarted(msgspec.Struct, frozen=True, kw_only=True, tag="run", tag_field="event"):
    """First line. `wall` is the UTC time (ISO 8601) at `ns`: the run's one wall-clock anchor."""

    ns: int
    wall: str
    run: str
    versions: dict[str, str]


class PhaseStarted(msgspec.Struct, frozen=True, kw_only=True, tag="phase", tag_field="event"):
    """A phase of the run began."""

    ns: int
    phase: Phase


class FaultStarted(msgspec.Struct, frozen=True, kw_only=True, tag="fault", tag_field="event"):
    """A fault is in force: injecting began at `begin_ns` and was done at `ns`.

    name: `family:kind@target` as on the command line; nodes: who was hit; slots: which clients were
    hit; text: one sentence with the roles that they had; colour: of its band in the report.
    """

    begin_ns: int
    ns: int
    fault: int
    name: str
    nodes: tuple[int, ...]
    text: str
    colour: str
    slots: tuple[int, ...] = ()


class FaultHealed(msgspec.Struct, frozen=True, kw_only=True, tag="heal", tag_field="event"):
    """The nemesis healed the fault, from `begin_ns` to `ns`."""

    begin_ns: int
    ns: int
    fault: int


NO_TARGET: Final = "NoTarget:"
"""How the reason of a fault begins that failed and changed nothing."""


class FaultFailed(msgspec.Struct, frozen=True, kw_only=True, tag="fault-failed", tag_field="event"):
    """A planned fault had no target, or injecting it failed. The nemesis took back what it had done of it;
    where that failed too, `why` says so, and the fault stays in force until the end of the phase. One that
    took nodes or links away before it failed was in force, perhaps: it has a `fault` event, too.

    begin_ns: when it was first tried; -1 in recordings of earlier versions.
    """

    ns: int
    fault: int
    name: str
    why: str
    begin_ns: int = -1


class HealFailed(msgspec.Struct, frozen=True, kw_only=True, tag="heal-failed", tag_field="event"):
    """Healing failed. fault, name: of the one fault that was to be healed then; it stays in force, and is
    healed again at the end of the phase. fault -1: what healing everything left in force at that end."""

    ns: int
    fault: int = -1
    name: str = ""
    why: str


class RecordsDeleted(msgspec.Struct, frozen=True, kw_only=True, tag="deleted", tag_field="event"):
    """A fault asked for the deletion of records below `offsets` (keys are `topic-partition`), by `ns`. They
    may be gone, also where the fault failed."""

    ns: int
    fault: int
    offsets: dict[str, int]


class NodeEnded(msgspec.Struct, frozen=True, kw_only=True, tag="node-ended", tag_field="event"):
    """A node ended, and no fault and no healing had ended it; `ns`: when that was seen."""

    ns: int
    end: NodeEnd


class EndsUnseen(msgspec.Struct, frozen=True, kw_only=True, tag="ends-unseen", tag_field="event"):
    """Nodes could not be watched, and one may have ended on its own unseen: before the harness ended or
    started it itself, or by the end of the run. `why`: what failed."""

    ns: int
    why: str


class ClockJumped(msgspec.Struct, frozen=True, kw_only=True, tag="clock-jumped", tag_field="event"):
    """The clocks of the machine went apart since the last look at them, which was at `before_ns`.

    wall_s: seconds by which CLOCK_REALTIME went further than CLOCK_MONOTONIC (negative: less far).
    suspended_s: seconds for which the machine slept (CLOCK_BOOTTIME against CLOCK_MONOTONIC), while the
    wall's clock continued.
    """

    before_ns: int
    ns: int
    wall_s: float
    suspended_s: float = 0.0


class RequestSeen(msgspec.Struct, frozen=True, kw_only=True, tag="request", tag_field="event"):
    """What a rule of the wire did, or what happened to a request that it took. The rule has the number of its
    fault. Written at the end of the run, each with its own time."""

    seen: Seen

    @property
    def ns(self) -> int:
        """When it happened."""
        return self.seen.ns


class RolesSeen(
    msgspec.Struct, frozen=True, kw_only=True, tag="roles", tag_field="event", omit_defaults=True
):
    """The leaders, written when one changed. Keys are `topic-partition`; -1 = no leader is known.

    epochs: leader epochs, in runs with share groups, or with acks 0 or 1; none in recordings of earlier
    versions.
    """

    ns: int
    leaders: dict[str, int]
    isr: dict[str, tuple[int, ...]]
    controller: int
    answering: tuple[int, ...]
    agreed: bool
    epochs: dict[str, int] = {}


class EndsSeen(msgspec.Struct, frozen=True, kw_only=True, tag="ends", tag_field="event"):
    """High watermark (hw) and last stable offset (lso) of the data partitions as their agreed leaders
    listed them, every two seconds. Keys are `topic-partition`; one that could not be listed is left
    out. A listed value may fall with a change of leader epoch: that alone is not a finding."""

    ns: int
    hw: dict[str, int]
    lso: dict[str, int]


class TransactionsOpen(msgspec.Struct, frozen=True, kw_only=True, tag="open-txns", tag_field="event"):
    """Transactions still open at the end of quiescence, after each had had its time to end."""

    ns: int
    rows: tuple[OpenTransaction, ...]


class EvidenceMissing(msgspec.Struct, frozen=True, kw_only=True, tag="evidence-missing", tag_field="event"):
    """Some of what nodes left on disk, or of the messages between them, could not be taken; `why`, in words.

    Recordings of earlier versions have a `Note` instead; `decode` gives this event for it.
    """

    ns: int
    why: str


class Recovered(msgspec.Struct, frozen=True, kw_only=True, tag="recovery", tag_field="event"):
    """The end of the recovery phase; `why` says what was still missing where `recovered` is false.

    stalled: all that was missing are these clients (slots), which stood still while one like each of them
    worked.
    """

    ns: int
    recovered: bool
    seconds: float
    why: str = ""
    stalled: tuple[int, ...] = ()


class BoundsListed(msgspec.Struct, frozen=True, kw_only=True, tag="bounds", tag_field="event"):
    """What the final reads have to reach: rows (topic, partition, isolation, start, end).

    stable: the ends did not change for 2 s (longer with acks 0 or 1, `core.watermark`), and LSO = HW
    everywhere; else `why` says what did.
    moving: when the wait ended, brokers still answered late or a last stable offset still moved, so that one
    below its high watermark may have been about to get there; says which, "" = neither.
    """

    ns: int
    rows: tuple[tuple[str, int, int, int, int], ...]
    stable: bool
    why: str = ""
    moving: str = ""


class ShareOffsetsListed(msgspec.Struct, frozen=True, kw_only=True, tag="share-offsets", tag_field="event"):
    """Once all members of share groups had ended: rows (group, topic, partition, offset below which the group
    is done with every record)."""

    ns: int
    rows: tuple[tuple[str, str, int, int], ...]


class DeadLettersListed(msgspec.Struct, frozen=True, kw_only=True, tag="dead-letters", tag_field="event"):
    """What was in the dead-letter queue of share groups after the listing of their offsets (KIP-1191): rows
    (group, topic, partition, offset and delivery count of the record, its value, partition and offset of the
    letter, and its time in ms since 1970 by the clock of a broker). why: what is missing, "" = nothing.

    Value: `core.dead_letters.HEADERS_ONLY`, where the record was not copied; `ANOTHER`, where the copy is not
    a record of that partition.
    """

    ns: int
    rows: tuple[tuple[str, str, int, int, int, int, int, int, int], ...]
    why: str = ""


class JournalsListed(msgspec.Struct, frozen=True, kw_only=True, tag="journals", tag_field="event"):
    """All clients have ended; these processes have a journal. Recordings of earlier versions have no list."""

    ns: int
    processes: tuple[int, ...]


class EvidenceTaken(msgspec.Struct, frozen=True, kw_only=True, tag="evidence-taken", tag_field="event"):
    """The run has ended; its folder has these tables of evidence (`history.evidence`). No such event: it has
    none, or the recording is of an earlier version."""

    ns: int
    tables: tuple[str, ...]


class WorkerLost(msgspec.Struct, frozen=True, kw_only=True, tag="worker-lost", tag_field="event"):
    """A worker process ended unasked, or the harness had to kill it. It is not started again.

    status: its exit status (negative: the signal); None = the harness killed it, or a recording of an earlier
    version. level: of a final reader, what it reads at; "" = a load client, or such a recording.
    """

    ns: int
    slot: int
    why: str
    status: int | None = None
    level: str = ""

    @property
    def who(self) -> str:
        """The worker, in a sentence."""
        return f"the final reader at {self.level}" if self.level else f"client {self.slot}"


class WrongClusterSeen(msgspec.Struct, frozen=True, kw_only=True, tag="wrong-cluster", tag_field="event"):
    """A broker of another cluster answered at an address of this run's, as the id of its cluster proves: what
    the recording shows need not be this cluster's doing. `text`: who noticed it, where, and both ids.

    slot: of the client that noticed it, -1 = the harness's own question. The run ends there.
    """

    ns: int
    text: str
    slot: int = -1


class Interrupted(msgspec.Struct, frozen=True, kw_only=True, tag="interrupted", tag_field="event"):
    """The user ended the run before its time: the recording is not whole, and the verdict says so (130).

    Recordings of earlier versions have an incomplete `Note` instead; their verdict is unknown (2).
    """

    ns: int


class Note(msgspec.Struct, frozen=True, kw_only=True, tag="note", tag_field="event"):
    """Anything else a reader of the run should know (a full disk, …).

    incomplete: the recording is not whole, so a clean check is only worth `unknown`.
    """

    ns: int
    text: str
    incomplete: bool = False


Event = (
    RunStarted
    | PhaseStarted
    | FaultStarted
    | FaultHealed
    | FaultFailed
    | HealFailed
    | NodeEnded
    | EndsUnseen
    | ClockJumped
    | RequestSeen
    | RolesSeen
    | EndsSeen
    | TransactionsOpen
    | RecordsDeleted
    | Recovered
    | BoundsListed
    | ShareOffsetsListed
    | DeadLettersListed
    | EvidenceMissing
    | JournalsListed
    | EvidenceTaken
    | WorkerLost
    | WrongClusterSeen
    | Interrupted
    | Note
)


def incomplete(event: Event) -> str:
    """Why the recording is not whole, as this event says; "" where it says nothing of the kind."""
    match event:
        case Interrupted():
            return "interrupted"
        case WrongClusterSeen():
            return event.text
        case HealFailed(fault=-1):
            return f"not everything could be healed: {event.why}"
        case Note(incomplete=True):
            return event.text or "for a reason that was not recorded"
    return ""


_DECODER: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


def decode(data: bytes, name: str = "events.jsonl") -> list[Event]:
    """All whole lines of an `events.jsonl`. name: of the file, for the message. Raises: HistoryError."""
    return [_today(event) for event in jsonl.decode(data, _DECODER, name)]


_MISSING = "evidence is missing: "
"""How a note of an earlier version began in the place of `EvidenceMissing`."""


def _today(event: Event) -> Event:
    """The event that stands for this one since a later version."""
    if isinstance(event, Note) and event.text.startswith(_MISSING) and not event.incomplete:
        return EvidenceMissing(ns=event.ns, why=event.text.removeprefix(_MISSING))
    return event


class Recorder:
    """Writes `events.jsonl`; may be used from any thread. With each phase that begins, it makes durable what
    is recorded until then, the journals of processes too.

    A write that fails (a full disk) does not raise: the recording is broken from then on, `broken` says
    why, and the run is stopped.
    """

    def __init__(self, path: Path) -> None:
        self._file: jsonl.Appender | None = jsonl.Appender(path)
        self._journals = path.with_name("journal")
        self._lock = threading.Lock()
        self.broken = ""

    def write(self, event: Event) -> None:
        """Append one event."""
        with self._lock:
            if self.broken or self._file is None:
                return
            try:
                self._file.append(event)
                if isinstance(event, PhaseStarted):
                    self._file.sync()
                    jsonl.sync(self._journals)
            except OSError as error:
                self.broken = f"events.jsonl: {error.strerror or error}"

    def close(self) -> None:
        """Close the file; idempotent."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None
