"""The offsets of a group in a partition as the log of its coordinator has them: its commits,
and how the transaction of each ended.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import and_

import pyarrow.compute as pc

from core.errors import HistoryError
from core.internal_topics import GROUP_TOPIC
from core.op import TopicPartition
from harness.report.evidence import replicas
from harness.report.evidence.decisions import of_last_take
from harness.report.inputs import Inputs
from history.evidence import Evidence
from history.evidence_tables import END
from history.tables import TableRow
from history.verdict import Example

STEP = 2
"""Offsets of a finding that leads from one to another."""
INPUT = re.compile(r"copied the record at offset (\d+) of (\S+)-(\d+) ")
"""The input of a finding whose place is its output (`checkers` words it so)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedCommit:
    """A commit in the coordinator's log. place: its offset there. committed: next offset to read. end: COMMIT
    or ABORT, the marker of its transaction; "" = it was in none; "no marker" = none follows. only: the nodes
    whose earlier copies had it, where those of the end lack it; none where these have it."""

    at: float
    place: int
    committed: int
    producer: str
    end: str
    only: tuple[int, ...] = ()

    @property
    def words(self) -> str:
        """Of it, with its time."""
        ended = "" if not self.end else f", {self.end}"
        nodes = ", ".join(map(str, self.only))
        kept = f", in an earlier copy of node {nodes} alone: the copies of the end lack it" if nodes else ""
        return f"{self.committed} ({self.at:.3f} s{ended}{kept})"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffsets:
    """Commits of a group in one partition, in the order of the log. offsets: of the finding, there. log: the
    partition of the coordinator's log. coordinators: its leaders, as (since when, node)."""

    group: str
    partition: str
    offsets: list[int]
    log: str
    coordinators: list[tuple[float, int]]
    commits: list[LoggedCommit]

    @property
    def past(self) -> int:
        """Number of the first commit past the lowest of the finding's offsets, else of all commits; where
        they lead back, of the first commit of the higher one."""
        lowest = min((offset for offset in self.offsets if offset >= 0), default=-1)
        if len(self.offsets) == STEP and self.offsets[0] > self.offsets[1] >= 0:
            lowest = self.offsets[0] - 1
        passed = (n for n, one in enumerate(self.commits) if one.committed > lowest >= 0)
        return next(passed, len(self.commits))


def group_of(inputs: Inputs, example: Example) -> str:
    """The group that a finding names, "" = none of the run."""
    groups = inputs.history.names.group if inputs.history else []
    named = (one for one in groups if re.search(rf"(?<![\w.-]){re.escape(one)}(?![\w-])", example.sentence))
    return max(named, key=len, default="")


def build(inputs: Inputs, example: Example) -> GroupOffsets | None:
    """Those of the group and the partition of a finding; None where none are on record."""
    group, evidence = group_of(inputs, example), inputs.evidence
    topic, number, offsets = _place(example)
    if not group or evidence is None or not number.isdecimal():
        return None
    try:
        named = {"group": group, "committed_topic": topic, "committed_partition": int(number)}
        wanted = [pc.field(column) == value for column, value in named.items()]
        rows = evidence.table("offset_log").filter(reduce(and_, wanted)).to_pylist()
        rows = [row for row in rows if row["committed"] is not None]
        if not rows:
            return None
        log = TopicPartition(GROUP_TOPIC, rows[0]["partition"])
        commits = list(_commits(inputs, evidence, log, rows))
        coordinators = replicas.leaders(inputs, str(log))
    except HistoryError as error:
        inputs.gaps.append(f"{error}; the offsets of {group} are not shown.")
        return None
    return GroupOffsets(
        group=group,
        partition=f"{topic}-{number}",
        offsets=offsets,
        log=str(log),
        coordinators=coordinators,
        commits=commits,
    )


def _place(example: Example) -> tuple[str, str, list[int]]:
    """Topic and number of the partition that the group read, and the finding's offsets there."""
    read = INPUT.search(example.sentence)
    if read:
        return read[2], read[3], [int(read[1])]
    topic, _, number = example.partition.rpartition("-")
    return topic, number, example.offsets


def _commits(
    inputs: Inputs, evidence: Evidence, log: TopicPartition, rows: list[TableRow]
) -> Iterator[LoggedCommit]:
    markers = [row for row in evidence.of("control", log).to_pylist() if row["name"] in ("COMMIT", "ABORT")]
    by: dict[tuple[int, int], list[tuple[int, str]]] = defaultdict(list)
    for row in of_last_take(markers, ("take", "offset")):  # another take may have what was cut off since
        by[row["take"], row["producer_id"]].append((row["offset"], row["name"]))
    last = next((row["take"] for row in evidence.table("takes").to_pylist() if row["why"] == END), -1)
    had: dict[tuple[int, int], set[int]] = defaultdict(set)
    for row in rows:
        had[row["offset"], row["committed"]].add(row["node"])
    for row in of_last_take(rows, ("offset", "committed")):
        mine = by[row["take"], row["producer_id"]]
        after = bisect_right(mine, (row["offset"], ""))
        yield LoggedCommit(
            at=inputs.seconds_of_clock(row["timestamp"]),
            place=row["offset"],
            committed=row["committed"],
            producer=f"{row['producer_id']}/{row['producer_epoch']}" if row["producer_id"] >= 0 else "",
            end="" if not row["transactional"] else mine[after][1] if after < len(mine) else "no marker",
            only=() if last in (-1, row["take"]) else tuple(sorted(had[row["offset"], row["committed"]])),
        )
