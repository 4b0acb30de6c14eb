"""Offsets that a leader acknowledged, where it is known for certain which: its log reached past them then.

Brokers' logs say when a replica begins to lead and when it follows again. Until it follows, it may answer as
leader, though another one was elected; so only while one alone may have answered, an acknowledgement is its.
"""

import itertools
from collections.abc import Iterator, Sequence
from math import inf

from core.op import TopicPartition
from harness.report.inputs import Inputs
from history.events import ClockJumped, RolesSeen
from history.replica_lines import replica_lines
from history.unit_files import read_columns

APART_S = 0.1
"""Seconds by which a broker's log and a client's journal may disagree: the log has milliseconds."""

LATE_S = 5.0
"""Seconds by which others may name a leader before it begins to lead: it stands still, or makes a new log."""


def offsets(inputs: Inputs, tp: TopicPartition, least: int) -> Iterator[tuple[int, float, int]]:
    """The first and the last acknowledgement of each leader, of offsets from `least` on: node, when, and the
    highest offset by then. Raises: HistoryError."""
    history = inputs.history
    number = history.tp_numbers.get(str(tp)) if history else None
    terms = alone(inputs, str(tp)) if number is not None else []
    if history is None or not terms:
        return
    unit = next(unit.name for unit in history.names.units if number in unit.tps)
    sends = read_columns(history.run, "sends", unit, ("tp", "offset", "invoke_ns", "ack_ns"))
    mine = (sends["tp"] == number) & (sends["offset"] >= least) & (sends["ack_ns"] >= 0)
    offset, invoke, ack = (sends[name][mine] for name in ("offset", "invoke_ns", "ack_ns"))
    for begin, end, node in terms:
        its = (invoke >= inputs.start_ns + begin * 1e9) & (ack <= inputs.start_ns + end * 1e9)
        for at_ns in sorted({int(ack[its].min()), int(ack[its].max())}) if its.any() else ():
            yield node, inputs.seconds(at_ns), int(offset[its & (ack <= at_ns)].max())


def alone(inputs: Inputs, partition: str) -> list[tuple[float, float, int]]:
    """Times in which one node alone may have answered as leader: (begin, end, node). None where logs and
    clients have different clocks, or brokers named a leader that no log has. Raises: HistoryError."""
    jumped = any(isinstance(event, ClockJumped) for event in inputs.events)
    if jumped or inputs.verdict.config.get("sut") == "external":
        return []
    leading: dict[int, float] = {}
    terms: list[tuple[float, float, int]] = []
    lines = [line for line in replica_lines(inputs.run, partition) if not line.cut]
    for line in sorted(lines, key=lambda line: line.wall):
        at = inputs.seconds_of_clock(line.wall.timestamp() * 1e3)
        if line.leads:
            leading.setdefault(line.node, at - APART_S)
        elif line.node in leading:
            terms.append((leading.pop(line.node), at + APART_S, line.node))
    terms += [(begin, inf, node) for node, begin in leading.items()]
    named = (
        (inputs.seconds(event.ns), event.leaders.get(partition, -1))
        for event in inputs.events
        if isinstance(event, RolesSeen)
    )
    logged = all(
        node < 0 or any(node == one and begin <= at + LATE_S for begin, _, one in terms) for at, node in named
    )
    return list(_of_one(terms)) if logged else []


def _of_one(terms: Sequence[tuple[float, float, int]]) -> Iterator[tuple[float, float, int]]:
    """Times that lie in the terms of one node alone."""
    edges = sorted({edge for begin, end, _ in terms for edge in (begin, end)})
    for begin, end in itertools.pairwise(edges):
        nodes = {node for since, until, node in terms if since <= begin and end <= until}
        if len(nodes) == 1:
            yield begin, end, nodes.pop()
