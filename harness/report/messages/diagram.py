"""Space-time diagrams: lanes side by side, time downwards, a row for each message that is sent and each step.

Rows have equal distances, so that messages of less than a millisecond and pauses of seconds stand in one
drawing; the time stands before each row, and a line names each long gap. An arrow ends where its
arrival falls between the rows. The words of a row stand right of the lanes, where no arrow crosses them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.report.messages.steps import TraceStep, lane_words, message_words
from history import trace as tr
from history.verdict import Fault

ROW, HEAD, TIME = 16, 40, 74
"""Pixels: height of a row, of the names of the lanes; width of the times."""
LANE_MOST, LANE_LEAST, WORDS_LEAST, WIDTH = 66, 48, 440, 1096
"""Pixels: widths of a lane, of the words, and of all where that is enough."""
LETTER, BOLD_LETTER = 6.6, 7.2
"""Pixels of a letter of the words, about; those of steps are bold."""
GAP_NS = 20_000_000
"""Least gap between rows that gets a line of its own."""
NAMES_EVERY = 40
"""Rows after which the lanes are named again."""
REPLICATION = frozenset({"OffsetForLeaderEpoch"})
TRANSACTIONS = frozenset(
    {
        "InitProducerId",
        "AddPartitionsToTxn",
        "AddOffsetsToTxn",
        "EndTxn",
        "WriteTxnMarkers",
        "TxnOffsetCommit",
    }
)
GROUPS = frozenset(
    {"JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch", "FindCoordinator"}
)
DATA = frozenset({"Produce", "Fetch", "ListOffsets"})
STYLES = {
    "data": "clients’ records",
    "replication": "replication",
    "transaction": "transactions",
    "group": "groups and coordinators",
    "control": "metadata and controller",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Numbers of the messages, in the order in which they were sent. names: what the scene is about.
    left_out: further messages about the same between the first moment and the last."""

    numbers: list[int]
    names: tuple[str, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class DiagramLane:
    """A vertical line at x. kind: broker, controller, process (of a client), ensemble
    or harness. number: of the node or process."""

    x: float
    kind: str
    number: str

    @property
    def label(self) -> str:
        """Its name."""
        return f"{self.kind} {self.number}".strip()


@dataclass(frozen=True, slots=True)
class Shade:
    """A time in which a process is down or stands still."""

    x: float
    y: float
    height: float
    style: str
    title: str


@dataclass(frozen=True, slots=True)
class Arrow:
    """A message. head: path of the arrow's head, or of the cross where it was lost."""

    path: str
    head: str
    style: str
    title: str


@dataclass(frozen=True, slots=True)
class DiagramRow:
    """Words of a row. step: number of the step in the table, 0 = it is none."""

    y: float
    time: str
    text: str
    title: str
    style: str
    step: int = 0
    x: float = 0.0
    colour: str = ""


@dataclass(slots=True, kw_only=True)
class Diagram:
    """See the module. Pixels. gaps: (y, words). names: where lanes are named. bars: of faults in force:
    (x, y, height, colour, words). styles: those of the messages that are drawn.
    words: where the words begin."""

    width: float
    height: float
    begin: float
    words: float
    lanes: list[DiagramLane]
    rows: list[DiagramRow] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)
    shades: list[Shade] = field(default_factory=list)
    gaps: list[tuple[float, str]] = field(default_factory=list)
    names: list[float] = field(default_factory=list)
    bars: list[tuple[float, float, float, str, str]] = field(default_factory=list)
    styles: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _DiagramEvent:
    """What has a row: a message (its number), a step (its number from 1 on), a fault's begin or end."""

    ns: int
    order: int
    number: int
    fault: Fault | None = None
    begins: bool = False


FAULT, STEP, SENT = 0, 1, 2
"""What comes first in one moment: the fault, the change that it makes, what that sends."""


def draw(
    trace: tr.Trace, chosen: Chosen, steps: Sequence[TraceStep], faults: Sequence[Fault], start_ns: int
) -> Diagram:
    """The diagram of the chosen messages and steps. start_ns: zero of the times that are shown."""
    drawing = _Drawing(trace, chosen, steps, faults, start_ns)
    return drawing.made()


class _Drawing:
    def __init__(
        self,
        trace: tr.Trace,
        chosen: Chosen,
        steps: Sequence[TraceStep],
        faults: Sequence[Fault],
        start_ns: int,
    ) -> None:
        self.trace, self.chosen, self.steps, self.start_ns = trace, chosen, steps, start_ns
        events = [_DiagramEvent(s.ns, STEP, n) for n, s in enumerate(steps, 1)]
        events += [_DiagramEvent(trace.messages[n].sent, SENT, n) for n in chosen.numbers]
        low = min((e.ns for e in events), default=0)
        high = max((e.ns for e in events), default=0)
        self.faults = [
            f for f in faults if self._ns(f.begin_s) <= high and (f.end_s is None or self._ns(f.end_s) >= low)
        ]
        for fault in self.faults:
            for second, begins in ((fault.begin_s, True), (fault.end_s, False)):
                if second is not None and low <= self._ns(second) <= high:
                    events.append(_DiagramEvent(self._ns(second), FAULT, fault.fault, fault, begins))
        self.events = sorted(events, key=lambda e: (e.ns, e.order, e.number))
        self.lanes = self._lanes()
        room = (WIDTH - TIME - WORDS_LEAST) / max(1, len(self.lanes))
        self.width = min(LANE_MOST, max(LANE_LEAST, room))
        self.x = {lane: TIME + self.width * (n + 0.5) for n, lane in enumerate(self.lanes)}
        self.words = TIME + self.width * len(self.lanes) + 14
        self.right = max(WIDTH, self.words + WORDS_LEAST)
        self.ys: list[float] = []
        self.times = [event.ns for event in self.events]

    def _ns(self, second: float) -> int:
        return self.start_ns + round(second * 1e9)

    def _lanes(self) -> list[str]:
        """Brokers, controllers, clients of the chosen messages; the harness last."""
        ends = [
            lane
            for n in self.chosen.numbers
            for lane in (self.trace.messages[n].sender, self.trace.messages[n].receiver)
        ]
        clients = sorted({lane for lane in ends if lane[0] == "c"}, key=lambda c: int(c[1:]))
        opened = self.trace.header
        nodes = [*opened.brokers, *(n for n in opened.controllers if n not in opened.brokers)]
        known = [tr.node_lane(node) for node in nodes]
        others = sorted({lane for lane in ends if lane[0] != "c" and lane not in known})
        return [
            *known,
            *(lane for lane in others if lane[0] == "n"),
            *clients,
            *(lane for lane in others if lane[0] != "n"),
        ]

    def made(self) -> Diagram:
        diagram = Diagram(
            width=self.right,
            height=0,
            begin=TIME,
            words=self.words,
            lanes=[self._lane(lane) for lane in self.lanes],
        )
        self._place(diagram)
        for event, y in zip(self.events, self.ys, strict=True):
            diagram.rows.append(self._row(event, y))
        for number in self.chosen.numbers:
            arrow = self._arrow(number, diagram.height)
            if arrow is not None:
                diagram.arrows.append(arrow)
        diagram.shades = self._shades(diagram.height)
        used = {arrow.style.split()[0] for arrow in diagram.arrows}
        diagram.styles = [(style, said) for style, said in STYLES.items() if style in used]
        for n, fault in enumerate(self.faults):
            top = max(HEAD, self._y(self._ns(fault.begin_s)))
            end = diagram.height - HEAD if fault.end_s is None else self._y(self._ns(fault.end_s))
            bar = (3.0 + 5 * (n % 3), top, max(3.0, end - top), fault.colour, fault.name)
            diagram.bars.append(bar)
        return diagram

    def _lane(self, lane: str) -> DiagramLane:
        opened = self.trace.header
        kind = {"c": "process", "h": "harness"}.get(lane[0], "")
        if not kind:
            node = int(lane[1:])
            kind = "broker" if node in opened.brokers else "controller"
            if node not in (*opened.brokers, *opened.controllers):
                kind = "ensemble"
        return DiagramLane(self.x[lane], kind, lane[1:])

    def _place(self, diagram: Diagram) -> None:
        """Heights of all rows, with room for lines of gaps and names of lanes."""
        y, since = float(HEAD), 0
        diagram.names.append(12)
        last = self.times[0] if self.times else 0
        for ns in self.times:
            if ns - last > GAP_NS:
                y += ROW
                diagram.gaps.append((y, f"{(ns - last) / 1e9:.3f} s later"))
                if since >= NAMES_EVERY:
                    diagram.names.append(y + ROW)
                    y += 2 * ROW
                    since = 0
            y += ROW
            since += 1
            self.ys.append(y)
            last = ns
        diagram.height = y + 2 * ROW + HEAD
        if len(self.ys) > NAMES_EVERY // 2:
            diagram.names.append(diagram.height - 26)

    def _y(self, ns: int) -> float:
        """Height of a time: of the first row with it, else between its neighbours."""
        at = bisect_left(self.times, ns)
        if at < len(self.times) and self.times[at] == ns:
            return self.ys[at]
        return self._between(ns)

    def _between(self, ns: int) -> float:
        after = bisect_right(self.times, ns)
        if after == 0:
            return HEAD
        if after == len(self.times):
            return self.ys[-1] + ROW * 0.8
        low, high = self.times[after - 1], self.times[after]
        return self.ys[after - 1] + (self.ys[after] - self.ys[after - 1]) * (ns - low) / (high - low)

    # ---- rows

    def _time(self, ns: int) -> str:
        return f"{(ns - self.start_ns) / 1e9:.4f}"

    def _row(self, event: _DiagramEvent, y: float) -> DiagramRow:
        time = self._time(event.ns)
        if event.fault is not None:
            fault = event.fault
            what = "fault" if event.begins else "healed:"
            words = f"{what} {fault.name}" + (f": {fault.text}" if event.begins else "")
            return DiagramRow(y, time, self._clip(words), words, "fault", colour=fault.colour)
        if event.order == STEP:
            step = self.steps[event.number - 1]
            whose = self._lane(tr.node_lane(step.node)).label
            words = f"{whose}: {step.what}"
            title = f"{time} s: {words}" + (f" (on {step.why})" if step.why else "")
            style = "damage" if step.weight == 0 else "step"
            x = self.x[tr.node_lane(step.node)]
            return DiagramRow(y, time, self._clip(words, BOLD_LETTER), title, style, event.number, x)
        message = self.trace.messages[event.number]
        return DiagramRow(y, time, self._clip(self._words(message)), self._title(message), "sent")

    def _clip(self, words: str, letter: float = LETTER) -> str:
        most = int((self.right - self.words) / letter)
        return words if len(words) <= most else f"{words[: most - 1]}…"

    def _words(self, message: tr.TracedMessage) -> str:
        said = message_words(message, self.chosen.names)
        ends = f"{self._lane(message.sender).label} → {self._lane(message.receiver).label}"
        name = f"{message.name} answered" if message.answers >= 0 else message.name
        lost = ", lost" if message.arrived == tr.LOST else ""
        return f"{ends}: {name}{f', {said}' if said else ''}{lost}"

    def _title(self, message: tr.TracedMessage) -> str:
        """Everything that a message says."""
        ends = f"{self._time(message.sent)} s, {lane_words(message.sender)} to {lane_words(message.receiver)}"
        name = f"answer to {message.name}" if message.answers >= 0 else message.name
        parts = [f"{subject}: {said}" for subject, said in message.parts.items()]
        said = "; ".join([*parts[:12], *([f"{len(parts) - 12} more"] if len(parts) > 12 else [])])
        end = (
            "never arrived"
            if message.arrived == tr.LOST
            else (f"arrived {(message.arrived - message.sent) / 1e6:.2f} ms later")
        )
        return ". ".join(filter(None, (f"{ends}: {name}", message.text, said, end)))

    # ---- arrows and shades

    def _arrow(self, number: int, bottom: float) -> Arrow | None:
        message = self.trace.messages[number]
        begin, end = self.x.get(message.sender), self.x.get(message.receiver)
        at = bisect_left(self.events, (message.sent, SENT, number), key=_key)
        if begin is None or end is None or at >= len(self.ys):
            return None
        top = self.ys[at]
        style = f"{kind_of(message)}{' answer' if message.answers >= 0 else ''}"
        if message.arrived == tr.LOST:
            end, low = begin + (end - begin) * 0.6, top + 6
            cross = f"M{end - 4:.1f} {low - 4:.1f}l8 8m0 -8l-8 8"
            path = f"M{begin:.1f} {top:.1f}L{end:.1f} {low:.1f}"
            return Arrow(path, cross, f"{style} lost", self._title(message))
        low = min(max(self._y(message.arrived), top + 2), bottom - HEAD)
        path = f"M{begin:.1f} {top:.1f}L{end:.1f} {low:.1f}"
        return Arrow(path, _head(begin, top, end, low), style, self._title(message))

    def _shades(self, bottom: float) -> list[Shade]:
        """When processes were down or stood still, as far as that is drawn."""
        found: list[Shade] = []
        since: dict[int, tuple[int, str]] = {}
        processes = [state for state in self.trace.states if isinstance(state, tr.TracedNode)]
        last = self.times[-1] if self.times else 0
        for state in processes:
            before = since.get(state.node)
            if before is not None and before[1] != state.state:
                self._shade(found, state.node, *before, state.ns, bottom)
            if before is None or before[1] != state.state:
                since[state.node] = (state.ns, state.state)
        for node, (ns, how) in since.items():
            self._shade(found, node, ns, how, last + 1, bottom)
        return found

    def _shade(self, found: list[Shade], node: int, begin: int, how: str, end: int, bottom: float) -> None:
        lane = tr.node_lane(node)
        if how == tr.UP or lane not in self.x or not self.times:
            return
        if end <= self.times[0] or begin > self.times[-1]:
            return
        top = HEAD if begin < self.times[0] else self._y(begin)
        low = bottom - HEAD if end > self.times[-1] else self._y(end)
        words = "down" if how == tr.DOWN else "standing still"
        title = f"node {node} {words} from {self._time(begin)} s"
        found.append(Shade(self.x[lane] - 16, top, max(low - top, 4.0), how, title))


def _key(event: _DiagramEvent) -> tuple[int, int, int]:
    return event.ns, event.order, event.number


def _head(x0: float, y0: float, x1: float, y1: float) -> str:
    """An arrow's head at (x1, y1)."""
    length = max(((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5, 1e-6)
    dx, dy = (x1 - x0) / length, (y1 - y0) / length
    back, side = 7.0, 3.2
    left = (x1 - back * dx - side * dy, y1 - back * dy + side * dx)
    right = (x1 - back * dx + side * dy, y1 - back * dy - side * dx)
    return f"M{x1:.1f} {y1:.1f}L{left[0]:.1f} {left[1]:.1f}L{right[0]:.1f} {right[1]:.1f}Z"


def kind_of(message: tr.TracedMessage) -> str:
    """Style of a message by what it is for."""
    if message.name in REPLICATION:
        return "replication"
    if message.name in DATA:
        clients = "c" in (message.sender[0], message.receiver[0])
        return "data" if clients or message.name != "Fetch" else "replication"
    if message.name in TRANSACTIONS:
        return "transaction"
    return "group" if message.name in GROUPS else "control"
