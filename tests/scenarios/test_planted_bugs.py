"""Planted bugs break the tables of the scenarios that explain what they break."""

from collections.abc import Callable
from typing import Any

import pytest

from model.client.consumer import Consumer
from model.client.producer import ProducerSettings
from model.mutants.registry import MUTANTS
from model.settings import Settings
from scenarios.framework import Scenario, play
from scenarios.registry import CHAPTERS

ALL = {one.name: one for chapter in CHAPTERS.values() for one in chapter.scenarios}
TAKE_BUGS: tuple[Callable[..., Any], ...] = (Settings.__init__, ProducerSettings.__init__, Consumer.__init__)
BROKEN = (
    ("fetch-after-produce", "hw-is-leader-end"),
    ("fetch-after-produce", "ack-before-replication"),
    ("remote-leo", "hw-by-majority"),
    ("alone-in-sync", "hw-by-majority"),
    ("leads-again", "remote-ends-kept"),
    ("isr-shrink-failure", "hw-ignores-proposed"),
    ("isr-request-outlives", "old-news-end-a-request"),
    ("isr-shrink-slow", "lag-by-last-fetch"),
    ("isr-expansion", "isr-expands-early"),
    ("partition-epoch", "alter-unversioned"),
    ("deposed-leader", "alter-unfenced"),
    ("min-isr", "hw-below-min-isr"),
    ("min-isr", "min-isr-ignored"),
    ("clean-election", "elects-any-replica"),
    ("last-offset", "epoch-not-bumped"),
    ("eligible-replicas", "unclean-stays-eligible"),
    ("no-loss-by-epoch", "truncate-to-hw"),
    ("returning-leader-lost", "keep-tail"),
    ("epoch-walk", "no-epoch-walk"),
    ("broker-failure", "elects-any-replica"),
    ("control-epochs", "controller-epoch-ignored"),
    ("split-brain", "controller-epoch-ignored"),
    ("leader-writes-isr", "hw-ignores-proposed"),
    ("without-producer-id", "repeats-not-recognised"),
    ("new-process", "producer-id-repeated"),
    ("pipelining", "sequence-not-checked"),
    ("producer-state-failover", "producers-lost-on-election"),
    ("producer-state-restart", "producers-lost-on-restart"),
    ("unknown-producer-taken", "producers-deleted-with-records"),
    ("bump-keeps-numbers", "bump-in-flight"),
    ("metadata-refresh", "retry-gets-new-sequence"),
    ("send-modes", "silence-is-an-ack"),
    ("delivery-timeout", "expiry-is-an-ack"),
    ("acks-of-producers", "asks-the-leader-only"),
    ("commit-waits", "commits-without-acks"),
    ("end-retried", "silent-end-is-done"),
    ("abort-in-doubt", "abort-keeps-epoch"),
    ("decision-replicated", "commit-before-prepare-logged"),
    ("coordinator-before-decision", "partitions-not-logged"),
    ("coordinator-after-decision", "coordinator-forgets-on-load"),
    ("coordinator-after-decision", "prepared-becomes-ongoing-on-load"),
    ("verification", "verification-skipped"),
    ("transaction-commit", "marker-skips-a-partition"),
    ("late-marker-refused", "markers-not-retried"),
    ("isolation", "commit-writes-abort"),
    ("isolation", "abort-answers-commit"),
    ("old-coordinator", "marker-by-old-coordinator-accepted"),
    ("late-marker-refused", "late-marker-appended"),
    ("zombie-producer", "zombie-not-fenced"),
    ("unfinished-predecessor", "init-leaves-open"),
    ("late-end-refused", "end-txn-ignores-epoch"),
    ("producer-epochs", "old-epoch-appended"),
    ("late-after-timeout", "timeout-does-not-bump-epoch"),
    ("transaction-timeout", "late-commit-answered"),
    ("group-coordinator", "offset-commit-not-replicated"),
    ("offsets-compaction", "groups-forget-on-load"),
    ("consume-transform-produce", "offsets-visible-before-commit"),
    ("consume-transform-produce", "offsets-of-aborted-txn"),
    ("consumer-only", "offsets-of-committed-txn-dropped"),
    ("consume-transform-produce", "unstable-offsets-answered"),
    ("fenced-member", "generation-not-checked"),
    ("join-group", "generation-not-bumped"),
    ("join-group", "partitions-given-twice"),
    ("given-up-first", "partition-given-before-release"),
    ("consumer-coordinator-changes", "owners-forgotten-on-load"),
    ("last-stable-offset", "lso-ignores-open"),
    ("last-stable-offset", "reads-above-hw"),
    ("isolation", "aborted-index-by-first-offset"),
    ("isolation", "aborted-not-filtered"),
    ("isolation", "abort-marker-not-seen"),
    ("consumer-leader-change", "starts-over-on-error"),
    ("lock-ends", "share-lock-ignored"),
    ("lock-ends", "share-lock-short"),
    ("lock-ends", "share-holder-not-checked"),
    ("lock-renewed", "share-renewal-ignored"),
    ("acquire-and-acknowledge", "share-release-ends"),
    ("acquire-and-acknowledge", "share-reject-releases"),
    ("acquire-and-acknowledge", "share-start-jumps"),
    ("acquire-and-acknowledge", "share-count-stands"),
    ("acquire-and-acknowledge", "share-limit-early"),
    ("delivery-limit", "share-limit-ignored"),
    ("member-dies", "share-count-taken-back"),
    ("share-read-committed", "share-aborted-acquired"),
    ("share-read-committed", "share-open-acquired"),
    ("share-leader-changes", "share-gap-skipped"),
    ("share-leader-changes", "share-answered-unstored"),
    ("share-leader-changes", "share-update-replaces"),
    ("share-leader-fenced", "share-old-leader-writes"),
    ("share-stored-first", "share-state-not-replicated"),
    ("dead-letter", "letters-before-stored"),
    ("dead-letter", "letters-with-next-copy"),
    ("dead-letter", "letters-sent-twice"),
    ("dead-letter-at-the-limit", "letters-of-returned"),
    ("dead-letter-resumed", "letters-not-resumed"),
    ("lock-ends-with-leader", "letters-by-former-leader"),
    ("marker-at-the-limit", "letters-of-markers"),
)
"""Scenario, a planted bug that breaks what it explains."""
OF_THE_MODEL = {"refused-commit-drops-pending-offsets"}
"""Bugs that no table explains: `tests.model` shows them at one broker."""


def test_a_bug_that_no_run_shows_breaks_a_table() -> None:
    unhunted = {name for name, mutant in MUTANTS.items() if mutant.hunt is None}
    assert unhunted - {bug for _, bug in BROKEN} == OF_THE_MODEL


def true(scenario: Scenario[Any]) -> bool:
    return all(row.stated == row.actual for row in play(scenario))


@pytest.mark.parametrize(("name", "bug"), BROKEN)
def test_a_planted_bug_breaks_the_table(name: str, bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bug in MUTANTS
    assert true(ALL[name])
    for defaults in (function.__kwdefaults__ for function in TAKE_BUGS):
        assert defaults is not None
        monkeypatch.setitem(defaults, "bugs", frozenset({bug}))
    assert not true(ALL[name])
