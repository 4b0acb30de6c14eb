"""The faults of a run, and when each was in force."""

from dataclasses import dataclass
from functools import cached_property

from history.events import FaultHealed, FaultStarted
from history.reader import History
from history.verdict import Fault


@dataclass
class RunFaults:
    """The faults of a run that were in force, in seconds since its start."""

    history: History

    @cached_property
    def faults(self) -> list[Fault]:
        """In order of their beginnings."""
        events, seconds = self.history.events, self.seconds
        healed = {e.fault: seconds(e.ns) for e in events if isinstance(e, FaultHealed)}
        return [
            Fault(
                fault=e.fault,
                name=e.name,
                text=e.text,
                nodes=list(e.nodes),
                colour=e.colour,
                begin_s=seconds(e.begin_ns),
                end_s=healed.get(e.fault),
                slots=list(e.slots),
            )
            for e in events
            if isinstance(e, FaultStarted)
        ]

    def seconds(self, ns: int) -> float:
        """Seconds since the start of the run, to the microsecond."""
        return round(self.history.seconds(ns), 6)

    def during(self, begin_ns: int, end_ns: int) -> list[int]:
        """Ids of the faults that were in force at some moment of an interval."""
        begin, end = self.seconds(begin_ns), self.seconds(end_ns)
        return [
            fault.fault
            for fault in self.faults
            if fault.begin_s <= end and (fault.end_s is None or fault.end_s >= begin)
        ]
