"""The brokers' logs of a run (`cluster/<node>/server.log`), read for what a check needs of them.

A log line counts as evidence only; nothing is judged by it alone.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from core.errors import HistoryError
from history.run_folder import Run, write_atomically

VIRTUAL: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""A simulated run has no wall clock: its logs tell its own time, from here on."""

LEFT_OUT: Final = re.compile(
    r"^(?P<wall>\S+) .*Couldn't find leader endpoint for partitions \w+\((?P<partitions>.*)\)"
    r" while trying to send transaction markers for (?P<id>.+), these partitions are likely deleted"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkersLeftOut:
    """A coordinator ended a transaction without markers for some partitions: it knew no leader of them.

    node: the coordinator. wall: when. partitions: as `topic-partition`.
    """

    node: int
    wall: datetime
    transactional_id: str
    partitions: frozenset[str]


def write_virtual(run: Run, node: int, lines: Sequence[tuple[int, str]]) -> None:
    """The log of a simulated node: time in ns and text of each line. No file where there is none.

    Raises: OSError.
    """
    if not lines:
        return
    folder = run.cluster / str(node)
    folder.mkdir(parents=True, exist_ok=True)
    walls = [
        (VIRTUAL + timedelta(microseconds=ns // 1000)).isoformat(timespec="milliseconds") for ns, _ in lines
    ]
    texts = [f"{wall} INFO {text}\n" for wall, (_, text) in zip(walls, lines, strict=True)]
    write_atomically(folder / "server.log", "".join(texts))


def markers_left_out(run: Run) -> list[MarkersLeftOut]:
    """Every such line of every broker's log; none where the run has no logs.

    Raises: HistoryError.
    """
    found: list[MarkersLeftOut] = []
    for path in sorted(run.cluster.glob("[0-9]*/server.log")):
        try:
            lines = path.read_text(errors="replace").splitlines()
        except OSError as error:
            raise HistoryError(f"{path} cannot be read: {error}") from error
        found += [
            MarkersLeftOut(
                node=int(path.parent.name),
                wall=datetime.fromisoformat(match["wall"]),
                transactional_id=match["id"],
                partitions=frozenset(match["partitions"].split(", ")),
            )
            for match in filter(None, map(LEFT_OUT.match, lines))
        ]
    return found
