"""The brokers' logs of a real run (`cluster/<node>/server.log`), read for what a check needs of them.

A log line counts as evidence only; nothing is judged by it alone.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from core.errors import HistoryError
from history.run_folder import Run

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
