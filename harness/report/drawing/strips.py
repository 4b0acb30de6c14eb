"""What a drawing consists of: strips above each other on one axis of time.

A strip is drawn in a box that the page stretches to its place: one unit across is a second after the begin
of the axis, `HEIGHT` units are its height. So zooming changes which part of the box is shown, and nothing in
it. Words stand beside and above the box, never in it: they would be stretched.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from harness.report.drawing import scales
from harness.report.timeline.lanes import Span, clients_only, fault_span
from history.verdict import Fault

HEIGHT = 100
WHOLE, ABOVE, LOW = (0, 1), (0, 0.58), (0.64, 0.36)
"""Upper edge and height of a bar, as shares of the strip: all of it; most of it; what that leaves."""
LEAST = 1e-5
"""Least width of a bar, as a share of the axis: without width there is no element. Its outline, which is not
stretched, keeps it visible."""
TICKS = 8


@dataclass(frozen=True, slots=True)
class Box:
    """One bar of a strip, or one band behind strips.

    x, width: seconds, from the begin of the axis. name: what it is, in a word or two; detail: more about it.
    style: classes of the style sheet, or "" with a `colour`. word: drawn on the bar where it fits into `room`
    seconds from `x`.
    """

    x: float
    width: float
    y: float
    height: float
    name: str
    detail: str = ""
    colour: str = ""
    style: str = ""
    word: str = ""
    ink: str = ""
    room: float = 0.0


@dataclass(frozen=True, slots=True)
class Line:
    """Values over time: an SVG path, its classes, and the values as text, one for each time of the strip."""

    path: str
    style: str
    values: str


@dataclass(frozen=True, slots=True)
class Series:
    """Lines of one colour and one name: a value and, say, its 99th percentile. note: beside the name, until a
    cursor puts the values there."""

    name: str
    colour: str
    lines: list[Line]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """One row: words at its left, bars or a panel of lines, a note at its right.

    behind: bars behind this strip alone. unit: of a panel's values. at: times of its values, as text. scale:
    (per cent from the top, text).
    """

    label: str
    note: str = ""
    bars: list[Box] = field(default_factory=list)
    behind: list[Box] = field(default_factory=list)
    series: list[Series] = field(default_factory=list)
    unit: str = ""
    at: str = ""
    scale: list[tuple[float, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """The time from `begin` to `end`, in seconds of the run."""

    begin: float
    end: float

    @property
    def length(self) -> float:
        """Seconds from begin to end."""
        return self.end - self.begin

    @property
    def digits(self) -> int:
        """Decimals that distinguish a hundred-thousandth of the axis from the next."""
        return max(0, min(9, math.ceil(5 - math.log10(self.length))))

    def x(self, at: float) -> float:
        """Where a time stands."""
        return round(at - self.begin, self.digits)

    def share(self, seconds: float) -> float:
        """A length of time in per cent of the axis."""
        return round(100 * seconds / self.length, 4)

    def bar(
        self,
        begin: float,
        end: float,
        name: str,
        detail: str = "",
        part: tuple[float, float] = WHOLE,
        room: float | None = None,
        *,
        colour: str = "",
        style: str = "",
        word: str = "",
        ink: str = "",
    ) -> list[Box]:
        """One bar for what lies on the axis at some time, or none. room: until when its word may go."""
        if end < self.begin or begin > self.end:
            return []
        x, width = self.x(begin), round(max(end - begin, LEAST * self.length), self.digits)
        y, height = round(part[0] * HEIGHT, 1), round(part[1] * HEIGHT, 1)
        more = width if room is None else round(max(room - begin, width), self.digits)
        return [Box(x, width, y, height, name, detail, colour, style, word, ink, more)]

    def bands(self, spans: Iterable[Span]) -> list[Box]:
        """Faults behind strips, in their colours."""
        return [b for s in spans for b in self.bar(s.begin, s.end, s.label, s.text, colour=s.colour)]

    def in_force(self, faults: Sequence[Fault]) -> list[Box]:
        """The faults of the cluster, behind all strips."""
        return self.bands(fault_span(fault, self.end) for fault in faults if not clients_only(fault))

    def of_client(self, faults: Sequence[Fault], slot: int) -> list[Box]:
        """The faults that hit this client and no node, behind its strip alone (-1 = it has no client)."""
        mine = (fault for fault in faults if clients_only(fault) and slot in fault.slots)
        return self.bands(fault_span(fault, self.end) for fault in mine)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Round times as (per cent, text)."""
        step = scales.step(self.length, TICKS)
        digits = scales.decimals(step)
        first, last = math.ceil(self.begin / step), math.floor(self.end / step)
        times = [number * step for number in range(first, last + 1)]
        return [(self.share(at - self.begin), f"{at:.{digits}f} s") for at in times]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Strips on one axis of time.

    behind: bands and lines behind all of them. key: what colours mean, as (colour, text). linked: it shows
    the whole run, and zooms together with the other drawings that do.
    """

    axis: TimeAxis
    strips: list[Strip]
    behind: list[Box] = field(default_factory=list)
    key: list[tuple[str, str]] = field(default_factory=list)
    linked: bool = False
