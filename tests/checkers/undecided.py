"""What the kernels leave open, in the words of the oracle: the class that a doubt is about."""

from checkers.engine.check import Tally

CLASSES = {
    "durability": "lost-write",
    "atomicity": "torn-txn",
    "exactly-once": "eos-loss",
    "copy-order": "nonmonotonic-copy",
    "group-delivery": "group-skip",
    "integrity": "phantom-read",
}
"""Check -> class; the other checks leave nothing open for want of records."""


def undecided(tally: Tally) -> set[str]:
    """Classes that are undecided. That a group is silent counts once, for the delivery to groups."""
    doubts = [doubt for doubt in tally.doubts if doubt.check in CLASSES]
    silent = [doubt for doubt in doubts if doubt.group >= 0 and doubt.check != "group-delivery"]
    return {CLASSES[doubt.check] for doubt in doubts if doubt not in silent}
