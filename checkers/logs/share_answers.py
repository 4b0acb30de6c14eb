"""Ring 3, share groups: what members had answered is in the share coordinators' log.

An acknowledgement that is answered while the member's lock lasts is about its own delivery (docs/checks.md,
"Share groups"); a later answer says nothing of who ended the record. Without a history of clients, and where
no node has a log of share state, nothing is asked. Where a part of that log may be missing, what is not found
there is a doubt.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from checkers.engine.check import Tally, WholeRun
from checkers.engine.findings import LogFinding
from checkers.engine.share_groups import RunShareGroups, Said, share_groups
from checkers.logs.accept_share import ENDED, Key, lacking, stored_states
from checkers.logs.rule import Rule, checks_of
from checkers.windows import OF_SHARES
from core.config import recorded_config
from core.internal_topics import SHARE_STATE_TOPIC
from core.op import Outcome, TopicPartition
from history.columns import columns
from history.evidence import Evidence
from history.reader import History

STORED: Final = "share-answers-stored"
RULES: Final = {
    STORED: Rule(
        "What a member has accepted or rejected, and had answered in time, `__share_group_state` has as"
        " ended.",
        "KIP-932; SharePartition.acknowledge",
        rests_on=OF_SHARES,
    )
}
_PROCESS: Final = ("process", "group", "end_ns")


def join(run: WholeRun, result: Tally) -> None:
    """Apply the rule to each acknowledgement that was answered OK in time."""
    history, evidence = run.history, run.evidence
    if history is None or not any(tp.topic == SHARE_STATE_TOPIC for tp in evidence.partitions()):
        return
    named = {row["tp"]: (row["topic"], row["partition"]) for row in history.tables["tps"].to_pylist()}
    process = columns(history.tables["processes"], _PROCESS)
    groups = share_groups(history.tables, named, process, recorded_config(history.run.config), ())
    if groups is None:
        return
    known, lacks = evidence.once(_ended), evidence.once(lacking)
    ids = {name: topic for topic, name in evidence.topics.items()}
    for tp, (topic, number) in named.items():
        for group, offset, said in _answered(groups, tp):
            result.asked[STORED] += 1
            key = history.group(group), ids.get(topic, ""), number
            start, ended = known[key]
            if offset >= start and offset not in ended:
                where = TopicPartition(topic, number)
                if why := lacks or ("" if key[1] else f"no node had {where}"):
                    result.leave_open(STORED, where, why)
                else:
                    result.refuse(_finding(history, where, key[0], offset, said))


CHECKS: Final = checks_of(RULES, ring=3, join=join)


def _answered(groups: RunShareGroups, tp: int) -> Iterator[tuple[int, int, Said]]:
    """Group, offset, and what a member said that was answered OK while it held the record."""
    for group, lives in groups.lives(tp):
        for offset, life in lives.items():
            for said in life.said:
                held = life.held(said) if said.ends and said.outcome is Outcome.OK else None
                if held is not None and said.done_ns <= held.since_ns + groups.lock_ns:
                    yield group, offset, said


def _ended(evidence: Evidence) -> dict[Key, tuple[int, set[int]]]:
    """By share partition: the highest start offset that is on record, and all offsets that ever were stored
    as ended."""
    found: dict[Key, tuple[int, set[int]]] = defaultdict(lambda: (-1, set()))
    for tp in evidence.partitions():
        if tp.topic == SHARE_STATE_TOPIC:
            for key, start, states in stored_states(evidence, tp):
                most, ended = found[key]
                ended.update(at for at, one in states.items() if one.state in ENDED)
                found[key] = max(most, start), ended
    return found


def _finding(history: History, tp: TopicPartition, group: str, offset: int, said: Said) -> LogFinding:
    text = (
        f"op {said.op} of {history.client(said.process)} had {said.kind.name} answered of the record at"
        f" offset {offset} of {tp}; no record of {SHARE_STATE_TOPIC} has it as ended in group {group}"
    )
    ms = history.wall_ms(said.done_ns)
    return LogFinding(
        check=STORED, text=text, log=tp, offset=offset, take=-1, nodes=(), since_ns=said.invoke_ns, ms=ms
    )
