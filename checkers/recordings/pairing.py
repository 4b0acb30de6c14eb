"""The events of a history, in real-time order, paired to ops: each invocation with its completion.

    pairing = Pairing()
    for at, event in enumerate(events):
        op = pairing.take(at, event)          # an op that this event completes, else None
    for op in pairing.open(): …               # those that never completed

It holds only the invocations that wait for a completion: one a process.
"""

from collections.abc import Iterator

from checkers.recordings.portable import Event, PortableOp, SendMop


class PairingError(ValueError):
    """An event that fits to none before it; the message says why, without the place of the event itself."""


class Pairing:
    """Pairs events; `where` names the place of an earlier event in messages."""

    def __init__(self, where: str = "history[{}]") -> None:
        self._pending: dict[int, tuple[int, Event]] = {}
        self._where = where

    def take(self, at: int, event: Event) -> PortableOp | None:
        """The op that this event completes; None for an invocation.

        Raises: PairingError; the event then has no effect.
        """
        waiting = self._pending.get(event.process)
        if event.type == "invoke":
            if waiting is not None:
                raise PairingError(
                    f"process {event.process} invokes an op while its op invoked at "
                    f"{self._where.format(waiting[0])} has not completed"
                )
            self._pending[event.process] = (at, event)
            return None
        if waiting is None:
            raise PairingError(f"a completion, but process {event.process} has no op invoked")
        invoked_at, invoked = waiting
        if type(invoked) is not type(event):
            raise PairingError(f"f differs from its invocation at {self._where.format(invoked_at)}")
        asked, done = _sends(invoked), _sends(event)
        if event.value is not None and asked != done:
            raise PairingError(
                f"{len(done)} sends in value, expected the {len(asked)} of its invocation at "
                f"{self._where.format(invoked_at)} in the same order"
            )
        del self._pending[event.process]
        return PortableOp(invoked=invoked, completed=event, invoked_at=invoked_at, completed_at=at)

    def abandon(self, process: int) -> PortableOp | None:
        """The op that the process has invoked, as one that never completed; None where it has none."""
        waiting = self._pending.pop(process, None)
        return None if waiting is None else _open(*waiting)

    def open(self) -> Iterator[PortableOp]:
        """Ops without completion."""
        for at, event in self._pending.values():
            yield _open(at, event)


def _open(at: int, event: Event) -> PortableOp:
    return PortableOp(invoked=event, completed=None, invoked_at=at, completed_at=None)


def _sends(event: Event) -> list[tuple[str, object]]:
    """Key and value of each send; a completion may hold more polls than its invocation asked for."""
    found: list[tuple[str, object]] = []
    for mop in event.value or ():
        if isinstance(mop, SendMop):
            value = mop.value[1] if isinstance(mop.value, tuple) else mop.value
            found.append((str(mop.key), value))
    return found
