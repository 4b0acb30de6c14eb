"""Phrases that sentences about findings are made of: clients, readers, records, times.

Not here: the sentences (`checkers.sentences`, `checkers.sentences_groups`).
"""

from checkers.kernel_types import Finding, Shown
from checkers.lookup import Lookup, Row, show_value


def at(lookup: Lookup, ns: int) -> str:
    """When."""
    return f"at {lookup.seconds(ns):.3f} s" if ns > 0 else "at an unknown time"


def client(lookup: Lookup, process: int) -> str:
    """A process with the slot and the transactional id that it had."""
    row = lookup.process(process)
    if not row:
        return f"process {process}"
    named = f", {row['transactional_id']}" if row["transactional_id"] else ""
    return f"process {process} (client {row['slot']}{named})"


def reader(lookup: Lookup, op: Row) -> str:
    """The process of an op, with the level at which it reads."""
    level = lookup.process(op["process"]).get("level", "?")
    return f"{client(lookup, op['process'])}, reading at {level},"


def record(lookup: Lookup, shown: Shown) -> str:
    """A record with its partition."""
    return f"record {show_value(shown.value)} of {lookup.tp(shown.tp)}"


def only(finding: Finding, what: str) -> list[Shown]:
    """Records of a witness of one kind."""
    return [shown for shown in finding.records if shown.what == what]
