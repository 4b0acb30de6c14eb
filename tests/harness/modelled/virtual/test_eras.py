"""Old protocols show the anomaly that they are known for, on the seed on which the modern one shows none.

Step by step they are in docs/model (`scenarios/`); here they are found by the checks and the
invariants alone, in runs of the same workloads and nemeses as everywhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from checkers.engine.check import Tally
from checkers.engine.findings import Level
from core.config import RunConfig, run_config
from harness.explore.trial import checked, forbidden
from harness.modelled.virtual.run import Simulated, simulate
from history.events import Recovered
from model.eras import ERAS, Era
from tests.histories.stored import Pin

LOAD = {
    "sut": "simulated",
    "duration_s": 10,
    "partitions": 3,
    "producers": 3,
    "home_producers": 0,
    "rate": 25,
    "batch_max": 6,
    "verb_deadline_s": 5,
    "transaction_timeout_s": 4,
    "fault_s": 2.5,
    "calm_s": 1.5,
}
COPIERS = {
    "rate": 20,
    "consumers": 2,
    "verb_deadline_s": 20,
    "transaction_timeout_s": 30,
    "fault_s": 9,
    "calm_s": 1,
    "duration_s": 20,
}
"""Their transactions outlast the session of a member that is cut off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A run that an era spoils, and one that differs by a single switch does not.

    what: how it comes about. classes: findings and broken invariants of the older era, none of which
    the newer one has. forbidden: whether the older one's verdict forbids them; if not, the config
    allows losses (unclean elections), or the release does, and they count although they are allowed.
    pin: the seeds to try. seen: of how many seeds, from 1 on, the older era alone had them, when measured.
    """

    what: str
    older: Era
    newer: Era
    workload: str
    nemesis: str
    pin: Pin
    settings: Mapping[str, Any]
    classes: frozenset[str]
    forbidden: bool
    seen: str


KNOWN = {
    "KIP-279": Known(
        what="""\
A leader that is cut off takes records which nobody has; the other replica leads, takes others in the
next epoch, and dies. The first one comes back first and leads again, by an unclean election, without ever
having heard of that epoch. Asked where it ends, it says where the epoch after it begins, so the second
one keeps its records: the replicas differ for ever. With KIP-279 both go back to an epoch that they
share. What unclean elections lose is lost with both protocols.""",
        older=ERAS["0.11"],
        newer=replace(ERAS["0.11"], epoch_walk=True),
        workload="queue",
        nemesis="partition:isolate@leader,kill:one@leader",
        pin=Pin(first=3, within=10),
        settings={
            "brokers": 2,
            "replication_factor": 2,
            "min_insync_replicas": 1,
            "unclean_leader_election": True,
            "fault_s": 5,
            "calm_s": 1,
            "duration_s": 16,
        },
        classes=frozenset({"log-matching"}),
        forbidden=False,
        seen="17 of 20",
    ),
    "KIP-966": Known(
        what="""\
Both followers are cut off, so that the leader is alone in sync, and it loses power, with the records that
it had not flushed. Nobody else was in sync when it went, so it is waited for, and leads with what is left:
acks=all, three replicas, a minimum of two, one machine that failed, and acknowledged records are lost. The
followers had them all. Eligible replicas are those that left below the minimum: one of them leads.""",
        older=replace(ERAS["4.1"], eligible_replicas=False),
        newer=ERAS["4.1"],
        workload="queue",
        nemesis="partition:halves,power:one@leader",
        pin=Pin(first=3, within=20),
        settings={
            "brokers": 4,
            "controllers": 3,
            "fault_s": 6,
            "calm_s": 1,
            "duration_s": 9,
            "partitions": 8,
        },
        classes=frozenset({"lost-write", "inconsistent-offsets"}),
        forbidden=True,
        seen="8 of 20",
    ),
    "KAFKA-14402": Known(
        what="""\
A record is held up in the network for longer than its client waits, which aborts the transaction. It
arrives after the marker, and the leader appends it: a transaction that no coordinator knows of is open in
the log, and readers at read_committed see nothing behind it. Since KIP-890 (part 1) the leader asks
first.""",
        older=ERAS["2.4"],
        newer=replace(ERAS["2.4"], verification=True),
        workload="transactions",
        nemesis="partition:clients-requests@leader",
        pin=Pin(first=2, within=10),
        settings={
            "partitions": 12,
            "producers": 6,
            "home_producers": 0,
            "rate": 20,
            "batch_max": 3,
            "consumers": 1,
            "abort_share": 0.3,
            "verb_deadline_s": 1,
            "transaction_timeout_s": 10,
            "fault_s": 1.5,
            "calm_s": 0.3,
            "duration_s": 6,
        },
        classes=frozenset({"stuck-lso", "hanging-txn", "aborted-read"}),
        forbidden=True,
        seen="16 of 20",
    ),
    "KAFKA-17754": Known(
        what="""\
EndTxn is held up in the network; its client asks again on a new connection, which is done, and goes on.
Then the first copy arrives and ends the next transaction, which has the same epoch, half-way: it is aborted,
the rest of it committed by its client, or the other way round. A broker stands still before, so that many
transactions are about to end when the requests of clients are held up. With transaction version 2 every
transaction has an epoch of its own.""",
        older=ERAS["4.2-tv1"],
        newer=ERAS["4.2"],
        workload="transactions",
        nemesis="pause:short@random,partition:clients-requests@txn-coordinator",
        pin=Pin(first=19, within=200),
        settings={
            "partitions": 4,
            "producers": 10,
            "home_producers": 0,
            "rate": 60,
            "batch_max": 6,
            "consumers": 1,
            "abort_share": 0.5,
            "verb_deadline_s": 10,
            "transaction_timeout_s": 10,
            "fault_s": 3.6,
            "calm_s": 0.2,
        },
        classes=frozenset({"torn-txn"}),
        forbidden=True,
        seen="3 of 79",
    ),
    "KIP-447": Known(
        what="""\
A copier cannot reach the coordinator of its group. Its session ends, its partitions are given to another
one, which copies the same records from the committed offset on; then the first one commits its transaction,
with offsets that nothing compares with the group's generation.""",
        older=ERAS["2.4"],
        newer=replace(ERAS["2.4"], fenced_offsets=True),
        workload="copier",
        nemesis="partition:isolate@group-coordinator",
        pin=Pin(first=1, within=10),
        settings=COPIERS,
        classes=frozenset({"eos-duplicate"}),
        forbidden=False,
        seen="4 of 6",
    ),
}
"""By the KIP or issue that ended it."""


def config(seed: int, nemesis: str, era: str, **settings: object) -> RunConfig:
    idempotent = ERAS[era].idempotence
    given = {"nemesis": nemesis, "seed": seed, "era": era, "idempotent": idempotent}
    return run_config(LOAD | given | settings)


def found(done: Simulated) -> dict[str, int]:
    return forbidden(done, checked(done))


def everything(done: Simulated, tally: Tally) -> set[str]:
    """Classes that were found, allowed or not, and invariants that did not hold."""
    return {f.name for f in tally.findings if f.variant != Level.LOG} | {b.name for b in done.broken}


def run(known: Known, era: Era, seed: int, patch: pytest.MonkeyPatch) -> tuple[Simulated, Tally]:
    patch.setitem(ERAS, "of this run", era)
    settings = {"workload": known.workload, **known.settings}
    done = simulate(config(seed, known.nemesis, "of this run", **settings))
    return done, checked(done)


def shows(known: Known, seed: int, patch: pytest.MonkeyPatch) -> bool:
    done, tally = run(known, known.older, seed, patch)
    forbids = set(forbidden(done, tally))
    return known.classes <= (forbids if known.forbidden else everything(done, tally))


@pytest.mark.slow
@pytest.mark.sampled(16)
@pytest.mark.parametrize("name", KNOWN)
def test_an_older_era_shows_what_one_switch_ends(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = KNOWN[name]
    switched = [s for s in Era.__slots__ if getattr(known.older, s) != getattr(known.newer, s)]
    assert len(switched) == 1
    seed = next((n for n in known.pin.numbers() if shows(known, n, monkeypatch)), None)
    assert seed is not None, f"none of {known.pin.within} seeds shows {name}"

    done, tally = run(known, known.newer, seed, monkeypatch)
    assert forbidden(done, tally) == {}
    assert done.broken == []
    assert done.unfinished == []
    assert tally.doubts == []
    assert tally.unread == []
    if not known.forbidden:  # else the verdict has said it (read_uncommitted shows aborted records)
        assert not known.classes & everything(done, tally)


@pytest.mark.sampled(21)
def test_truncation_to_the_high_watermark_loses_records_and_the_modern_protocol_does_not() -> None:
    """Before KIP-101 a follower cuts its log back to a high watermark that it may know too late."""

    def loses(seed: int) -> bool:
        old = simulate(config(seed, "kill:majority", "0.10"))
        breaks = {"log-matching", "leader-completeness"} <= {one.name for one in old.broken}
        return breaks and {"lost-write", "inconsistent-offsets"} <= set(found(old))

    seed = next(filter(loses, Pin(first=23, within=70).numbers()))
    for era in ("4.2", "4.2-tv1"):
        new = simulate(config(seed, "kill:majority", era))
        assert found(new) == {}
        assert new.broken == []


@pytest.mark.sampled(32)
def test_what_a_copier_copies_twice_before_kip_447_is_allowed() -> None:
    def shown(seed: int) -> tuple[Simulated, Tally]:
        nemesis = KNOWN["KIP-447"].nemesis
        done = simulate(config(seed, nemesis, "2.4", workload="copier", **COPIERS))
        return done, checked(done)

    runs = (shown(seed) for seed in KNOWN["KIP-447"].pin.numbers())
    done, tally = next((done, tally) for done, tally in runs if "eos-duplicate" in everything(done, tally))
    assert forbidden(done, tally) == {}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("era", ERAS)
def test_every_era_is_clean_when_left_alone(era: str) -> None:
    done = simulate(config(1, "none", era, duration_s=4))
    assert found(done) == {}
    assert done.broken == []
    assert [e.recovered for e in done.events if isinstance(e, Recovered)] == [True]
