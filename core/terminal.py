"""What the harness shows a person: the only place that writes to a terminal, and all of it is printable.

Names of topics, of cases and of files, settings and logs come from recordings of other people. A terminal
acts upon control characters, and a line break in a name would begin a line that looks like one of Inquest's.

Not here: the status of a run (`harness.run.progress`), data that goes through a pipe to another program.
"""

import sys
from collections.abc import Iterable
from typing import Final

LINE_MOST: Final = 1800
TAIL: Final = 400
"""Characters of a line of a message, and how many of them are of its end: what is wrong stands there, where a
name of thousands of letters comes first."""


def printable(text: str) -> str:
    """The text on one line: what is not printable is escaped, as `repr` does it."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def show(text: str) -> None:
    """A line of a command's answer, on stdout. Raises: OSError, where that is closed."""
    print(printable(text), flush=True)


def show_lines(text: str) -> None:
    """Several lines that the harness itself put together, on stdout. Raises: as `show`."""
    for line in text.split("\n"):
        show(line)


def show_whole(lines: Iterable[str]) -> None:
    """Lines on stdout that belong together: a signal that ends the process finds all written, or none.
    Raises: as `show`, or what the lines raise."""
    text = "".join(f"{printable(line)}\n" for line in lines)
    sys.stdout.write(text)
    sys.stdout.flush()


def say(text: str) -> None:
    """What happens beside the answer, on stderr. A text of several lines, such as the end of a log, stays one
    message: its further lines are indented. What is in the middle of a very long line is left out."""
    print("inquest: " + "\n  ".join(_lines(text)), file=sys.stderr, flush=True)


def _lines(text: str) -> Iterable[str]:
    for line in text.split("\n"):
        shown = printable(line.expandtabs(4))
        yield shown if len(shown) <= LINE_MOST else f"{shown[: LINE_MOST - TAIL]} … {shown[-TAIL:]}"
