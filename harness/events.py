"""Events: what the harness itself did and saw during a run (`events.jsonl`, one JSON line each).

Written by the interpreter as it happens, read by the checker (faults, bounds, recovery) and by the
report (timeline). Times are ns of CLOCK_MONOTONIC, the clock of the whole history.

Not here: what clients did (`harness.journal`), what was planned (`schedule.jsonl`).
"""

import msgspec

from harness.op import Phase


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
    """The fault was taken back: healing began at `begin_ns` and was done at `ns`."""

    begin_ns: int
    ns: int
    fault: int


class FaultFailed(msgspec.Struct, frozen=True, kw_only=True, tag="fault-failed", tag_field="event"):
    """A planned fault had no target, or its effect could not be made. What was done of it was taken
    back; where that failed too, `why` says so, and it stays in force until the end of the phase."""

    ns: int
    fault: int
    name: str
    why: str


class RolesSeen(msgspec.Struct, frozen=True, kw_only=True, tag="roles", tag_field="event"):
    """Who led what, written when it changed. Keys are `topic-partition`; -1 = nobody known."""

    ns: int
    leaders: dict[str, int]
    isr: dict[str, tuple[int, ...]]
    controller: int
    answering: tuple[int, ...]
    agreed: bool


class EndsSeen(msgspec.Struct, frozen=True, kw_only=True, tag="ends", tag_field="event"):
    """High watermark (hw) and last stable offset (lso) of the data partitions as their agreed leaders
    listed them, every two seconds. Keys are `topic-partition`; one that could not be listed is left
    out. A listed value may fall with a change of leader epoch: it is no finding by itself."""

    ns: int
    hw: dict[str, int]
    lso: dict[str, int]


class OpenTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction that a partition's leader holds open (DescribeProducers).

    start: its first offset. coordinator: node that coordinates its transactional id, -1 unknown.
    transactional_id: "" where no coordinator that answered claims it, the mark of a hanging transaction.
    """

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    start: int
    coordinator: int = -1
    transactional_id: str = ""


class TransactionsOpen(
    msgspec.Struct, frozen=True, kw_only=True, tag="open-txns", tag_field="event"
):
    """Transactions still open at the end of quiescence, when every one had its time to end."""

    ns: int
    rows: tuple[OpenTransaction, ...]


class Recovered(msgspec.Struct, frozen=True, kw_only=True, tag="recovery", tag_field="event"):
    """The end of the recovery phase; `why` says what was still missing where `recovered` is false."""

    ns: int
    recovered: bool
    seconds: float
    why: str = ""


class BoundsListed(msgspec.Struct, frozen=True, kw_only=True, tag="bounds", tag_field="event"):
    """What the final reads have to reach: rows (topic, partition, isolation, start, end).

    stable: the ends did not change for 2 s, and LSO = HW everywhere; else `why` says what did.
    """

    ns: int
    rows: tuple[tuple[str, int, int, int, int], ...]
    stable: bool
    why: str = ""


class WorkerLost(msgspec.Struct, frozen=True, kw_only=True, tag="worker-lost", tag_field="event"):
    """A worker process ended by itself or had to be killed."""

    ns: int
    slot: int
    why: str


class Note(msgspec.Struct, frozen=True, kw_only=True, tag="note", tag_field="event"):
    """Anything else a reader of the run should know (interrupted, disk full, …).

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
    | RolesSeen
    | EndsSeen
    | TransactionsOpen
    | Recovered
    | BoundsListed
    | WorkerLost
    | Note
)

_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Event)


def encode(event: Event) -> bytes:
    """The event as one line."""
    return _ENCODER.encode(event) + b"\n"


def decode(data: bytes) -> list[Event]:
    """All whole lines of an `events.jsonl`; a last line that a crash cut off is left out.

    Raises: ValueError, where a line that is not the last cannot be read.
    """
    lines = data.split(b"\n")
    found: list[Event] = []
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            found.append(_DECODER.decode(line))
        except msgspec.MsgspecError as error:
            if number == len(lines):
                break
            raise ValueError(f"events.jsonl line {number}: {error}") from None
    return found
