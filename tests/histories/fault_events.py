"""Events of faults, for runs that are made by hand. Times are seconds of the run."""

from history.events import Event, FaultHealed, FaultStarted

S = 1_000_000_000


def begun(
    name: str,
    begin: float,
    made: float | None = None,
    *,
    number: int = 0,
    nodes: tuple[int, ...] = (),
    slots: tuple[int, ...] = (),
) -> FaultStarted:
    """A fault that comes into force. made: when injecting it was done; None = at once."""
    ns = round((begin if made is None else made) * S)
    return FaultStarted(
        begin_ns=round(begin * S),
        ns=ns,
        fault=number,
        name=name,
        nodes=nodes,
        slots=slots,
        text="x",
        colour="red",
    )


def both(started: FaultStarted, end: float | None) -> list[Event]:
    """A fault that comes into force, and its end; None = it has none."""
    if end is None:
        return [started]
    return [started, FaultHealed(begin_ns=round(end * S), ns=round(end * S), fault=started.fault)]
