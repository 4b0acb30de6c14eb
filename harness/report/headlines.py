"""What broke, in plain words: a headline for each class of anomaly, with the number of what it counts."""

from collections.abc import Sequence

from harness.report.wording import found_in_logs, number, shown_examples, told
from history.verdict import IN_THE_LOG, Anomaly, Example, Verdict

HEADLINES = {
    "lost-write": ("{} acknowledged record is gone", "{} acknowledged records are gone"),
    "unseen": ("{} committed record was never read", "{} committed records were never read"),
    "duplicate": ("{} record was written more than once", "{} records were written more than once"),
    "torn-txn": ("{} transaction is torn apart", "{} transactions are torn apart"),
    "aborted-read": ("A consumer got an aborted record, {} time", "Consumers got aborted records, {} times"),
    "precommitted-read": (
        "A consumer got a record of an open transaction, {} time",
        "Consumers got records of open transactions, {} times",
    ),
    "phantom-read": (
        "Consumers got {} record that no client sent",
        "Consumers got {} records that no client sent",
    ),
    "corrupt-record": ("{} record is damaged", "{} records are damaged"),
    "misdirected-record": ("{} record is in a wrong partition", "{} records are in wrong partitions"),
    "inconsistent-offsets": (
        "{} offset held different records at different times",
        "{} offsets held different records at different times",
    ),
    "offset-realtime-inversion": (
        "{} record got a lower offset than one acknowledged before it was sent",
        "{} records got lower offsets than others that were acknowledged before they were sent",
    ),
    "nonmonotonic-send": (
        "{} record stands before an earlier one of its producer",
        "{} records stand before earlier ones of their producer",
    ),
    "int-nonmonotonic-send": (
        "{} pair of records of one operation was reordered",
        "{} pairs of records of single operations were reordered",
    ),
    "nonmonotonic-poll": ("A consumer went back {} time", "Consumers went back {} times"),
    "int-nonmonotonic-poll": ("A consumer went back {} time", "Consumers went back {} times"),
    "poll-skip": ("A consumer skipped records {} time", "Consumers skipped records {} times"),
    "int-poll-skip": ("A consumer skipped records {} time", "Consumers skipped records {} times"),
    "offset-commit-regression": ("{} committed offset went back", "{} committed offsets went back"),
    "phantom-commit": ("{} committed offset came from no commit", "{} committed offsets came from no commit"),
    "stuck-lso": (
        "The last stable offset of {} partition is stuck",
        "The last stable offset of {} partitions is stuck",
    ),
    "hanging-txn": ("{} transaction hangs", "{} transactions hang"),
    "eos-duplicate": ("{} input record was processed twice", "{} input records were processed twice"),
    "eos-loss": ("{} input record was never processed", "{} input records were never processed"),
    "eos-uncommitted": (
        "{} output record is of an input record that was not committed",
        "{} output records are of input records that were not committed",
    ),
    "nonmonotonic-copy": (
        "{} output record stands behind those of later input records of its key",
        "{} output records stand behind those of later input records of their key",
    ),
    "group-duplicate": ("A group got records again {} time", "Groups got records again {} times"),
    "group-skip": ("{} record was never given to its group", "Records were never given to a group, {} times"),
    "double-assignment": (
        "{} partition was given to two members at once",
        "Partitions were given to two members at once, {} times",
    ),
    "share-redelivery": (
        "A share group delivered {} record again that a member had ended",
        "A share group delivered {} records again that members had ended",
    ),
    "share-two-holders": (
        "{} record of a share group was given out while a member held it",
        "{} records of a share group were given out while members held them",
    ),
    "share-skip": ("A share group passed over {} record", "A share group passed over {} records"),
    "share-aborted-read": (
        "A share group delivered {} aborted record",
        "A share group delivered {} aborted records",
    ),
    "share-count": ("{} delivery count did not rise", "{} delivery counts did not rise"),
    "share-over-limit": (
        "{} record was delivered more often than its share group may",
        "{} records were delivered more often than their share group may",
    ),
    "zombie-write": ("A fenced producer still wrote, {} time", "Fenced producers still wrote, {} times"),
    "replica-divergence": (
        "Replicas hold different records at {} place",
        "Replicas hold different records at {} places",
    ),
    "damaged-log": (
        "Files of a broker contradict each other at {} place",
        "Files of brokers contradict each other at {} places",
    ),
    "unclean-election": (
        "{} replica that misses records became leader",
        "{} times a replica that misses records became leader",
    ),
    "lost-decision": (
        "{} transaction ended by a decision that its coordinator’s log lacks",
        "{} transactions ended by decisions that their coordinators’ logs lack",
    ),
    "torn-decision": (
        "{} transaction was committed in one partition and aborted in another",
        "{} transactions were committed in one partition and aborted in another",
    ),
    "hanging-partition": (
        "The marker of an ended transaction is missing in {} partition",
        "Markers of ended transactions are missing in partitions, {} times",
    ),
    "node-died": ("{} node ended on its own", "{} nodes ended on their own"),
    "stalled-client": ("{} client stood still", "{} clients stood still"),
    "not-recovered": ("The cluster did not recover", "The cluster did not recover"),
}
"""Class -> headline of one, headline of more."""


UNACKNOWLEDGED = ("{} record that took effect is gone", "{} records that took effect are gone")
"""Of lost-write, where no record was acknowledged."""
WITHHELD = (
    "{} record is in its log, and final reads at read_committed do not return it",
    "{} records are in their logs, and final reads at read_committed do not return them",
)
"""Of lost-write, where all records are of this kind."""
IN_LOGS = (
    "A leader’s log lacks what was acknowledged or read, at {} place",
    "Leaders’ logs lack what was acknowledged or read, at {} places",
)
"""Of lost-write, where clients missed nothing, and brokers' logs do."""


def headline(
    name: str,
    title: str,
    many: int,
    *,
    acknowledged: bool = True,
    in_logs: bool = False,
    withheld: bool = False,
) -> str:
    """What broke. title: of a class without a headline. acknowledged: whether any of the records was.
    in_logs: rules about brokers' logs alone found it. withheld: logs have the records."""
    if name not in HEADLINES:
        return f"{title}: {number(many)}"
    one, more = HEADLINES[name]
    if name == "lost-write":
        one, more = _of_losses(acknowledged=acknowledged, in_logs=in_logs, withheld=withheld)
    return (one if many == 1 else more).format(number(many))


def _of_losses(*, acknowledged: bool, in_logs: bool, withheld: bool) -> tuple[str, str]:
    if in_logs:
        return IN_LOGS
    if withheld:
        return WITHHELD
    return HEADLINES["lost-write"] if acknowledged else UNACKNOWLEDGED


def withheld(examples: Sequence[Example]) -> bool:
    """Whether logs have the records of all these examples of lost-write."""
    return bool(examples) and all(IN_THE_LOG in example.sentence for example in examples)


def of_run(verdict: Verdict) -> str:
    """What broke in a run, by the class that it is about; "" = nothing."""
    found = told(verdict)
    if found is None:
        return ""
    name, anomaly = found
    alone = in_logs_alone(verdict, name, anomaly)
    shown = shown_examples(anomaly)
    return headline(
        name,
        anomaly.title,
        many(verdict, name, anomaly),
        acknowledged=any("acknowledged" in example.sentence for example in shown),
        in_logs=alone,
        withheld=withheld(shown),
    )


def many(verdict: Verdict, name: str, anomaly: Anomaly) -> int:
    """How many forbidden findings (of a class that is permitted: how many): those of clients, which count
    records; else those in brokers' logs, which are often several for one record."""
    if not anomaly.disallowed:
        mine = [check for check in verdict.log_checks.values() if name in check.anomalies]
        return anomaly.count - sum(check.found for check in mine) or anomaly.count
    return anomaly.disallowed - found_in_logs(verdict, name) or anomaly.disallowed


def in_logs_alone(verdict: Verdict, name: str, anomaly: Anomaly) -> bool:
    """Whether all forbidden findings of a class are those of rules about brokers' logs."""
    return 0 < anomaly.disallowed == found_in_logs(verdict, name)
