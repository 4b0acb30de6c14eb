"""Colours of the drawings. A token `var(--name)` is a colour of the page's style sheet, which knows a
light and a dark form of it; everything else is a plain colour.
"""

import re

MUTED = "var(--muted)"
SERIES = tuple(f"var(--series-{number})" for number in range(1, 7))
"""Lines and areas."""
FAIL = tuple(f"var(--fail-{number})" for number in range(1, 5))
INFO = tuple(f"var(--info-{number})" for number in range(1, 5))
NO_NODE = "#4b5157"
ENDED = {"replaced": INFO[2], "crashed": "var(--anomaly)"}
"""Marks where a process of a client ended, by how; none where it was closed in order."""
ISR_FULL, ISR_SHRUNK, ISR_UNDER = (f"var(--isr-{name})" for name in ("full", "shrunk", "under"))
"""In-sync replicas: all of them; fewer, enough for acks=all; fewer than `min.insync.replicas`."""
NODES = (
    "#8fb8de",
    "#f2b880",
    "#a8d5a2",
    "#d7a9d9",
    "#f4d35e",
    "#9ad1d4",
    "#e59a9a",
    "#c4c9a0",
    "#c7b8ea",
    "#d9b48f",
    "#b5c7d3",
    "#e3c1cf",
)
"""Nodes 1 to 12: brokers, and isolated controllers after them."""
FALLBACK = "#7a828a"

_HEX = re.compile(r"#(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})")


def node(label: str) -> str:
    """Colour of a node by its number; `NO_NODE` where the label is not a number."""
    return NODES[(int(label) - 1) % len(NODES)] if label.isdigit() else NO_NODE


def safe(colour: str) -> str:
    """A colour from outside if it is `#rgb` or `#rrggbb`, else a grey: it goes into style sheets."""
    return colour if _HEX.fullmatch(colour) else FALLBACK


def ink_on(colour: str) -> str:
    """Black or white, whichever reads better on a `#…` colour (WCAG relative luminance)."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    channels = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#111111" if luminance > 0.179 else "#ffffff"
