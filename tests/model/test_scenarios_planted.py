"""Planted bugs break the tables of the scenarios on whole clusters: of clients, transactions and groups."""

from collections.abc import Callable
from typing import Any

import pytest

from model.client.consumer import Consumer
from model.client.producer import ProducerSettings
from model.mutants.registry import MUTANTS
from model.scenarios.framework import Scenario, play
from model.scenarios.registry import CHAPTERS
from model.settings import Settings

ALL = {one.name: one for chapter in CHAPTERS.values() for one in chapter.scenarios}
TAKE_BUGS: tuple[Callable[..., Any], ...] = (Settings.__init__, ProducerSettings.__init__, Consumer.__init__)
BROKEN = {
    "repeats-not-recognised": "without-producer-id",
    "sequence-not-checked": "pipelining",
    "producers-lost-on-election": "producer-state-failover",
    "producers-lost-on-restart": "producer-state-restart",
    "bump-in-flight": "bump-keeps-numbers",
    "retry-gets-new-sequence": "metadata-refresh",
    "silence-is-an-ack": "send-modes",
    "expiry-is-an-ack": "delivery-timeout",
    "asks-the-leader-only": "acks-of-producers",
    "commits-without-acks": "commit-waits",
    "silent-end-is-done": "end-retried",
    "abort-keeps-epoch": "abort-in-doubt",
    "commit-before-prepare-logged": "decision-replicated",
    "partitions-not-logged": "coordinator-before-decision",
    "coordinator-forgets-on-load": "coordinator-after-decision",
    "prepared-becomes-ongoing-on-load": "coordinator-after-decision",
    "verification-skipped": "verification",
    "marker-skips-a-partition": "transaction-commit",
    "markers-not-retried": "late-marker-refused",
    "commit-writes-abort": "isolation",
    "abort-answers-commit": "isolation",
    "marker-by-old-coordinator-accepted": "old-coordinator",
    "late-marker-appended": "late-marker-refused",
    "zombie-not-fenced": "zombie-producer",
    "init-leaves-open": "unfinished-predecessor",
    "end-txn-ignores-epoch": "late-end-refused",
    "old-epoch-appended": "producer-epochs",
    "timeout-does-not-bump-epoch": "late-after-timeout",
    "late-commit-answered": "transaction-timeout",
    "offset-commit-not-replicated": "group-coordinator",
    "groups-forget-on-load": "offsets-compaction",
    "offsets-visible-before-commit": "consume-transform-produce",
    "offsets-of-aborted-txn": "consume-transform-produce",
    "offsets-of-committed-txn-dropped": "consumer-only",
    "unstable-offsets-answered": "consume-transform-produce",
    "generation-not-checked": "fenced-member",
    "generation-not-bumped": "join-group",
    "partitions-given-twice": "join-group",
    "lso-ignores-open": "last-stable-offset",
    "reads-above-hw": "last-stable-offset",
    "aborted-index-by-first-offset": "isolation",
    "aborted-not-filtered": "isolation",
    "abort-marker-not-seen": "isolation",
    "starts-over-on-error": "consumer-leader-change",
}
"""Planted bug -> the scenario that explains what it breaks."""


def true(scenario: Scenario[Any]) -> bool:
    return all(row.stated == row.actual for row in play(scenario))


@pytest.mark.parametrize("bug", BROKEN)
def test_a_planted_bug_breaks_the_table(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bug in MUTANTS
    scenario = ALL[BROKEN[bug]]
    assert true(scenario)
    for defaults in (function.__kwdefaults__ for function in TAKE_BUGS):
        assert defaults is not None
        monkeypatch.setitem(defaults, "bugs", frozenset({bug}))
    assert not true(scenario)
