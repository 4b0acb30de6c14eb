"""Space-time diagrams: lanes side by side, time downwards, a row for each message that is sent and each step.

Rows have equal distances, so that messages of less than a millisecond and pauses of seconds stand in one
drawing; the time stands before each row, and a line names each long gap. An arrow ends where its
arrival falls between the rows. The words of a row stand right of the lanes, where no arrow crosses them.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.report.messages.steps import DAMAGE, TraceStep, lane_words, message_words
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
STYLES = {
    "data": "clients’ records",
    "replication": "replication",
    "transaction": "transactions",
    "group": "groups and coordinators",
    "control": "metadata and controller",
}
MESSAGES = {
    "data": "Produce Fetch ListOffsets ShareFetch ShareAcknowledge",
    "replication": "OffsetForLeaderEpoch",
    "transaction": "InitProducerId AddPartitionsToTxn AddOffsetsToTxn EndTxn WriteTxnMarkers TxnOffsetCommit",
    "group": "JoinGroup SyncGroup Heartbeat LeaveGroup OffsetCommit OffsetFetch FindCoordinator"
    " ShareGroupHeartbeat ReadShareGroupState WriteShareGroupState",
}
STYLE_OF = {name: style for style, names in MESSAGES.items() for name in names.split()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMessages:
    """Numbers of the messages, in the order in which they were sent. names: what the scene is about.
    left_out: further messages about the same between the first moment and the last."""

    numbers: list[int]
    names: tuple[str, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class Missing:
    """From this time on messages may be missing. text: between which ends, and why."""

    ns: int
    text: str


@dataclass(frozen=True, slots=True)
class DiagramLane:
    """A vertical line at x. kind: broker, controller, process (of a client), clients, ensemble
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


@dataclass(slots=True)
class DiagramRow:
    """Words of a row. step: number of the step in the table, 0 = it is none."""

    ns: int
    time: str
    text: str
    title: str
    style: str
    step: int = 0
    x: float = 0.0
    colour: str = ""
    y: float = 0.0


class Diagram:
    """The diagram of the chosen messages and steps. See the module; in pixels.

    begin, words: where the lanes and the words begin. gaps: (y, words). names: where lanes are named.
    bars: of faults in force: (x, y, height, colour, words). styles: those of the messages that are drawn.
    """

    begin = TIME

    def __init__(
        self,
        trace: tr.Trace,
        chosen: ShownMessages,
        steps: Sequence[TraceStep],
        faults: Sequence[Fault],
        start_ns: int,
        missing: Sequence[Missing] = (),
    ) -> None:
        """start_ns: zero of the times that are shown. missing: what a capture lacks."""
        self._trace, self._about, self._start_ns = trace, chosen.names, start_ns
        messages = [trace.messages[number] for number in chosen.numbers]
        names = self._lane_names(messages)
        lane_width = min(LANE_MOST, max(LANE_LEAST, (WIDTH - TIME - WORDS_LEAST) / max(1, len(names))))
        self._lane = {name: self._made_lane(name, n, lane_width) for n, name in enumerate(names)}
        self.lanes = list(self._lane.values())
        self.words = TIME + lane_width * len(names) + 14
        self.width = max(WIDTH, self.words + WORDS_LEAST)
        told = [self._step(number, step) for number, step in enumerate(steps, 1)]
        sent = [self._sent(message) for message in messages]
        times = sorted(row.ns for row in (*told, *sent)) or [0]
        shown = [
            fault
            for fault in faults
            if self._ns(fault.begin_s) <= times[-1]
            and (fault.end_s is None or self._ns(fault.end_s) >= times[0])
        ]
        marks = [row for fault in shown for row in self._marks(fault) if times[0] <= row.ns <= times[-1]]
        marks += [self._missing(one) for one in missing if times[0] <= one.ns <= times[-1]]
        # in one moment: the fault, the change that it makes, what that sends
        self.rows = sorted([*marks, *told, *sent], key=lambda row: row.ns)
        self._times = [row.ns for row in self.rows]
        self.gaps: list[tuple[float, str]] = []
        self.names: list[float] = [12]
        self.height = self._placed()
        self.arrows = [self._arrow(*each) for each in zip(messages, sent, strict=True)]
        self.shades = self._shades()
        used = {arrow.style.split()[0] for arrow in self.arrows}
        self.styles = [(style, said) for style, said in STYLES.items() if style in used]
        self.bars = [self._bar(number, fault) for number, fault in enumerate(shown)]

    def _ns(self, second: float) -> int:
        return self._start_ns + round(second * 1e9)

    def _time(self, ns: int) -> str:
        return f"{(ns - self._start_ns) / 1e9:.4f}"

    def _lane_names(self, messages: Sequence[tr.TracedMessage]) -> list[str]:
        """Brokers, controllers, clients of the chosen messages; the harness last."""
        ends = {lane for message in messages for lane in (message.sender, message.receiver)}
        opened = self._trace.header
        known = [tr.node_lane(node) for node in dict.fromkeys((*opened.brokers, *opened.controllers))]
        others = sorted(
            ends.difference(known), key=lambda lane: (lane[0] != "n", lane[0] != "c", len(lane), lane)
        )
        return [*known, *others]

    def _made_lane(self, lane: str, place: int, width: float) -> DiagramLane:
        opened = self._trace.header
        kind = {"c": "process", tr.HARNESS: "harness", tr.CLIENTS: "clients"}.get(lane[0], "ensemble")
        if lane[0] == "n" and int(lane[1:]) in (*opened.brokers, *opened.controllers):
            kind = "broker" if int(lane[1:]) in opened.brokers else "controller"
        return DiagramLane(TIME + width * (place + 0.5), kind, lane[1:])

    def _placed(self) -> float:
        """Place all rows, with room for lines of gaps and names of lanes; the height of all."""
        y, since = float(HEAD), 0
        last = self._times[0] if self._times else 0
        for row in self.rows:
            if row.ns - last > GAP_NS:
                y += ROW
                self.gaps.append((y, f"{(row.ns - last) / 1e9:.3f} s later"))
                if since >= NAMES_EVERY:
                    self.names.append(y + ROW)
                    y += 2 * ROW
                    since = 0
            y += ROW
            since += 1
            row.y, last = y, row.ns
        height = y + 2 * ROW + HEAD
        if len(self.rows) > NAMES_EVERY // 2:
            self.names.append(height - 26)
        return height

    def _y(self, ns: int) -> float:
        """Height of a time: of the first row with it, else between its neighbours."""
        at = bisect_left(self._times, ns)
        if at < len(self.rows) and self._times[at] == ns:
            return self.rows[at].y
        if at == 0:
            return HEAD
        before = self.rows[at - 1]
        if at == len(self.rows):
            return before.y + ROW * 0.8
        after = self.rows[at]
        return before.y + (after.y - before.y) * (ns - before.ns) / (after.ns - before.ns)

    # ---- rows

    def _marks(self, fault: Fault) -> Iterator[DiagramRow]:
        """Begin and end of a fault."""
        for second, words in (
            (fault.begin_s, f"fault {fault.name}: {fault.text}"),
            (fault.end_s, f"healed: {fault.name}"),
        ):
            if second is not None:
                ns = self._ns(second)
                time, text = self._time(ns), self._clip(words)
                yield DiagramRow(ns, time, text, words, "fault", colour=fault.colour)

    def _missing(self, one: Missing) -> DiagramRow:
        words = f"from here on messages may be missing: {one.text}"
        return DiagramRow(one.ns, self._time(one.ns), self._clip(words), words, "missing")

    def _step(self, number: int, step: TraceStep) -> DiagramRow:
        time, lane = self._time(step.ns), self._lane[tr.node_lane(step.node)]
        words = f"{lane.label}: {step.what}"
        title = f"{time} s: {words}" + (f" (on {step.why})" if step.why else "")
        style = "damage" if step.weight == DAMAGE else "step"
        return DiagramRow(step.ns, time, self._clip(words, BOLD_LETTER), title, style, number, lane.x)

    def _sent(self, message: tr.TracedMessage) -> DiagramRow:
        said = message_words(message, self._about)
        ends = f"{self._lane[message.sender].label} → {self._lane[message.receiver].label}"
        name = f"{message.name} answered" if message.answers >= 0 else message.name
        lost = ", lost" if message.arrived == tr.LOST else ""
        words = self._clip(f"{ends}: {name}{f', {said}' if said else ''}{lost}")
        return DiagramRow(message.sent, self._time(message.sent), words, self._title(message), "sent")

    def _clip(self, words: str, letter: float = LETTER) -> str:
        most = int((self.width - self.words) / letter)
        return words if len(words) <= most else f"{words[: most - 1]}…"

    def _title(self, message: tr.TracedMessage) -> str:
        """Everything that a message says."""
        ends = f"{self._time(message.sent)} s, {lane_words(message.sender)} to {lane_words(message.receiver)}"
        name = f"answer to {message.name}" if message.answers >= 0 else message.name
        parts = [f"{subject}: {said}" for subject, said in message.parts.items()]
        said = "; ".join([*parts[:12], *([f"{len(parts) - 12} more"] if len(parts) > 12 else [])])
        end = f"arrived {(message.arrived - message.sent) / 1e6:.2f} ms later"
        end = {tr.LOST: "never arrived", message.sent: ""}.get(message.arrived, end)
        return ". ".join(filter(None, (f"{ends}: {name}", message.text, said, end)))

    # ---- arrows, shades and bars

    def _arrow(self, message: tr.TracedMessage, row: DiagramRow) -> Arrow:
        begin, end, top = self._lane[message.sender].x, self._lane[message.receiver].x, row.y
        style = f"{style_of(message)}{' answer' if message.answers >= 0 else ''}"
        if message.arrived == tr.LOST:
            end, low, style = begin + (end - begin) * 0.6, top + 6, f"{style} lost"
            head = f"M{end - 4:.1f} {low - 4:.1f}l8 8m0 -8l-8 8"
        else:
            low = min(max(self._y(message.arrived), top + 2), self.height - HEAD)
            head = _head(begin, top, end, low)
        return Arrow(f"M{begin:.1f} {top:.1f}L{end:.1f} {low:.1f}", head, style, row.title)

    def _shades(self) -> list[Shade]:
        """When processes were down or stood still, as far as that is drawn."""
        since: dict[int, tr.TracedNode] = {}
        held: list[tuple[tr.TracedNode, int]] = []
        for state in self._trace.states:
            if isinstance(state, tr.TracedNode):
                before = since.get(state.node)
                if before is None or before.state != state.state:
                    since[state.node] = state
                    held += [(before, state.ns)] if before else []
        first, last = (self._times[0], self._times[-1]) if self._times else (0, -1)
        held += [(state, last + 1) for state in since.values()]
        return [
            self._shade(state, end, first, last)
            for state, end in held
            if state.state != tr.UP
            and tr.node_lane(state.node) in self._lane
            and state.ns <= last
            and end > first
        ]

    def _shade(self, state: tr.TracedNode, end: int, first: int, last: int) -> Shade:
        top = HEAD if state.ns < first else self._y(state.ns)
        low = self.height - HEAD if end > last else self._y(end)
        words = "down" if state.state == tr.DOWN else "standing still"
        title = f"node {state.node} {words} from {self._time(state.ns)} s"
        x = self._lane[tr.node_lane(state.node)].x - 16
        return Shade(x, top, max(low - top, 4.0), state.state, title)

    def _bar(self, number: int, fault: Fault) -> tuple[float, float, float, str, str]:
        top = max(HEAD, self._y(self._ns(fault.begin_s)))
        end = self.height - HEAD if fault.end_s is None else self._y(self._ns(fault.end_s))
        return 3.0 + 5 * (number % 3), top, max(3.0, end - top), fault.colour, fault.name


def _head(x0: float, y0: float, x1: float, y1: float) -> str:
    """An arrow's head at (x1, y1)."""
    length = max(((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5, 1e-6)
    dx, dy = (x1 - x0) / length, (y1 - y0) / length
    back, side = 7.0, 3.2
    left = (x1 - back * dx - side * dy, y1 - back * dy + side * dx)
    right = (x1 - back * dx + side * dy, y1 - back * dy - side * dx)
    return f"M{x1:.1f} {y1:.1f}L{left[0]:.1f} {left[1]:.1f}L{right[0]:.1f} {right[1]:.1f}Z"


def style_of(message: tr.TracedMessage) -> str:
    """Style of a message by what it is for; a fetch of a broker is replication."""
    if message.name == "Fetch" and "c" not in (message.sender[0], message.receiver[0]):
        return "replication"
    return STYLE_OF.get(message.name, "control")
