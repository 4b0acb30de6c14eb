"""How far a log of a compacted topic may have been cleaned, where the cleaner's checkpoint does not say it.

The cleaner writes its checkpoint when it is done with the whole log. Where it is stopped before that, by the
end of its broker or because the log is truncated, the segments that it was done with have been replaced
already (`Cleaner.doClean`, `LogCleanerManager.doneCleaning`). It never cleans a log's last segment.
"""

import json

import numpy as np
import pyarrow.compute as pc

from core.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC
from history.columns import Columns
from history.evidence import Evidence

POLICY = "cleanup.policy"


def compacted_topics(evidence: Evidence) -> frozenset[str]:
    """Topics that were compacted at some time, by the metadata logs; and the coordinators' own."""
    every = evidence.table("metadata").select(["name", "body"])
    bodies = every.filter(pc.equal(every["name"], "ConfigRecord"))["body"].to_pylist()
    settings = [json.loads(body) for body in {*bodies} if body]
    named = (one["resourceName"] for one in settings if _compacts(one))
    return frozenset({*named, GROUP_TOPIC, TRANSACTION_TOPIC})


def _compacts(setting: dict[str, str | None]) -> bool:
    return setting.get("name") == POLICY and "compact" in (setting.get("value") or "")


def cleaned_to(batches: Columns, noted: int) -> int:
    """The end of the last closed segment from which records are missing, behind what the cleaner noted; 0 =
    none are. batches: of one log, in the order of their files."""
    segment, base, last = batches["segment"], batches["base"], batches["last"]
    if not len(segment) or segment[0] == segment[-1]:
        return 0
    lacks = batches["intact"] & (batches["records"] < last - base + 1)
    gap = batches["intact"][1:] & batches["intact"][:-1] & (base[1:] > last[:-1] + 1)
    # a file is named for its first offset: what is missing before that belongs to the file before
    lacks[:-1] |= gap & ((segment[1:] == segment[:-1]) | (last[:-1] + 1 < segment[1:]))
    lacks |= (np.diff(segment, prepend=-1) != 0) & (base > segment)
    at = np.flatnonzero(lacks & (segment < segment[-1]) & (last >= noted))
    return int(segment[segment > segment[at[-1]]][0]) if at.size else 0
