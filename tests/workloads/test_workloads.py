"""Workloads: the same seed gives the same ops; values are never reused; options are kept."""

import os
import subprocess
import sys
from collections.abc import Mapping
from itertools import islice

import msgspec
import pytest

from core.config import RunConfig, run_config
from core.generator import Planned, Slot, source
from core.op import (
    DATABASE,
    Acknowledge,
    Acquire,
    Assign,
    CommitOffsets,
    Copy,
    CreateTopic,
    Op,
    Poll,
    Send,
    SendOffsets,
    Subscribe,
    process_of,
)
from harness.explore.profile import BASE
from workloads.registry import every_workload, having
from workloads.share import LOCK_MS

WORKLOADS = every_workload()


def schedule(config: RunConfig, slot: int, process: int, count: int) -> list[Planned]:
    workload = WORKLOADS[config.workload]
    spec = workload.plans(config)[slot]
    planner = Slot(slot=slot, process=process, tps=workload.tps(config), rng=source(config.seed, slot, 0))
    return list(islice(workload.ops(config, spec, planner), count))


def config_of(workload: str, **settings: object) -> RunConfig:
    return run_config({"seed": 5, "workload": workload, **settings})


def copier_of(config: RunConfig) -> int:
    """The slot of the first copier."""
    return next(plan.slot for plan in WORKLOADS["copier"].plans(config) if plan.group)


def sends(ops: list[Op]) -> list[Send]:
    return [mop for op in ops for mop in op.mops if isinstance(mop, Send)]


@pytest.mark.parametrize("name", WORKLOADS)
def test_plans_are_numbered_by_slot_and_only_twins_share_a_transactional_id(name: str) -> None:
    plans = WORKLOADS[name].plans(config_of(name))
    assert [plan.slot for plan in plans] == list(range(len(plans)))
    ids = [plan.transactional_id for plan in plans if plan.transactional_id]
    assert {ids.count(each) for each in ids} <= ({2} if name == "fencing" else {1})


@pytest.mark.parametrize("name", WORKLOADS)
def test_values_are_new_and_carry_their_process(name: str) -> None:
    config = config_of(name)
    sent = sends([planned.op for planned in schedule(config, 0, 9, 500)])
    assert len({send.value for send in sent}) == len(sent) > 500
    assert {process_of(send.value) for send in sent} == {9}


@pytest.mark.parametrize("name", WORKLOADS)
def test_an_idempotent_producer_meets_each_partition_alone_first(name: str) -> None:
    config = config_of(name)
    first, *later = [planned.op for planned in schedule(config, 0, 0, 400)]
    met = [send.tp for send in sends([first])]
    there = set(WORKLOADS[name].tps(config))
    assert len(met) == len(set(met))
    assert met
    assert {send.tp for send in sends(later)} & there <= set(met)


def test_without_idempotence_there_is_no_first_contact() -> None:
    config = config_of("queue", idempotent=False)
    assert schedule(config, 0, 0, 1)[0].op.f == "send"


def test_shares_sizes_and_rate_are_as_asked_for() -> None:
    config = config_of("transactions", abort_share=0.3, batch_max=5, rate=100, producers=2, home_producers=0)
    planned = schedule(config, 0, 0, 3000)[1:]
    assert sum(p.op.abort for p in planned) / len(planned) == pytest.approx(0.3, abs=0.03)
    assert {len(sends([p.op])) for p in planned} == set(range(1, 6))
    mean = sum(p.wait_s for p in planned) / len(planned)
    assert mean == pytest.approx(2 / 100, rel=0.05)


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_says_whether_it_has_home_producers(name: str) -> None:
    few, many = (len(WORKLOADS[name].plans(config_of(name, home_producers=n))) for n in (0, 5))
    assert (many - few == 5) is (name in having("home_producers"))
    assert many - few in (0, 5)


@pytest.mark.parametrize("name", having("home_producers"))
def test_a_home_producer_keeps_to_its_partition_and_the_others_span_all(name: str) -> None:
    config = config_of(name, partitions=4, producers=2, home_producers=5)
    reached = [
        {send.tp.partition for send in sends([p.op for p in schedule(config, slot, slot, 200)])}
        for slot in range(7)
    ]
    assert reached == [{0, 1, 2, 3}] * 2 + [{0}, {1}, {2}, {3}, {0}]


@pytest.mark.parametrize("name", having("home_producers"))
def test_without_home_producers_the_slots_of_readers_follow_the_producers(name: str) -> None:
    plans = WORKLOADS[name].plans(config_of(name, producers=2, home_producers=0))
    assert next(plan.slot for plan in plans if plan.acks is None or plan.group) == 2


def test_odd_transactional_producers_read_too_and_every_op_is_a_transaction() -> None:
    config = config_of("transactions")
    reading = [p.op for p in schedule(config, 1, 1, 200)]
    assert reading[0].f == "assign"
    assert all(op.txn for op in reading[1:])
    assert any(isinstance(mop, Poll) for op in reading for mop in op.mops)
    assert not any(isinstance(m, Poll) for p in schedule(config, 0, 0, 200) for m in p.op.mops)


@pytest.mark.parametrize(
    ("commit", "order"),
    [
        ("transaction", [Poll, Copy, SendOffsets]),
        ("after", [Poll, Copy, CommitOffsets]),
        ("before", [Poll, CommitOffsets, Copy]),
        ("automatic", [Poll, Copy]),
        ("without-rewind", [Poll, Copy, SendOffsets]),
        ("beside", [Poll, Copy, CommitOffsets]),
        ("automatic-beside", [Poll, Copy]),
    ],
)
def test_a_copier_commits_its_offsets_when_it_is_told_to(commit: str, order: list[type]) -> None:
    config = config_of("copier", commit=commit)
    first, subscribe, *copies = [p.op for p in schedule(config, copier_of(config), 7, 90)]
    assert first.f == "first-contact"
    assert isinstance(subscribe.mops[0], Subscribe)
    assert {tuple(map(type, op.mops)) for op in copies} == {tuple(order)}
    in_transaction = commit not in ("after", "before", "automatic")
    assert {op.txn for op in copies} == {in_transaction}
    assert any(op.abort for op in copies) == in_transaction
    plan = WORKLOADS["copier"].plans(config)[copier_of(config)]
    assert bool(plan.transactional_id) == in_transaction
    assert plan.auto_commit == commit.startswith("automatic")


@pytest.mark.parametrize(("wide", "most"), [({}, 4), ({"transaction_partitions": 60, "batch_max": 100}, 30)])
def test_a_transaction_has_as_many_partitions_as_it_may(wide: dict[str, int], most: int) -> None:
    config = config_of("transactions", partitions=60, **wide)
    counts = [len({send.tp for send in sends([p.op])}) for p in schedule(config, 0, 0, 200)]
    assert counts[0] == 60  # the first contact
    assert max(counts[1:]) == most if most == 4 else max(counts[1:]) > most


@pytest.mark.parametrize("topics", [1, 3])
def test_a_transaction_may_write_to_each_of_its_topics(topics: int) -> None:
    config = config_of("transactions", partitions=2, transaction_topics=topics)
    names = ["transactions", *(f"transactions-{number}" for number in range(2, topics + 1))]
    assert WORKLOADS["transactions"].topics(config) == dict.fromkeys(names, 2)
    spread = [{send.tp.topic for send in sends([p.op])} for p in schedule(config, 0, 0, 200)]
    assert spread[0] == set(names)  # the first contact
    assert {len(each) for each in spread[1:]} == set(range(1, topics + 1))
    assigned = next(p.op for p in schedule(config, 1, 1, 1)).mops[0]
    assert assigned == Assign(WORKLOADS["transactions"].tps(config))


def test_the_values_of_copies_are_reserved_and_overlap_nothing() -> None:
    config = config_of("copier")
    ops = [planned.op for planned in schedule(config, copier_of(config), 7, 90)]
    taken = [send.value for send in sends(ops)]
    for mop in (mop for op in ops for mop in op.mops):
        if isinstance(mop, Copy):
            taken += range(mop.first, mop.first + mop.most)
    assert len(taken) == len(set(taken)) > 80 * 100
    assert {process_of(value) for value in taken} == {7}


def test_rows_are_written_before_their_offsets_are_committed() -> None:
    config = config_of("sink")
    slot = next(plan.slot for plan in WORKLOADS["sink"].plans(config) if plan.group)
    _, *ops = [p.op for p in schedule(config, slot, 7, 90)]
    assert {tuple(map(type, op.mops)) for op in ops} == {(Poll, Copy, CommitOffsets)}
    assert {mop.topic for op in ops for mop in op.mops if isinstance(mop, Copy)} == {DATABASE}


@pytest.mark.parametrize("name", ["copier", "groups", "sink"])
def test_members_of_a_group_leave_and_come_back(name: str) -> None:
    config = config_of(name)
    plans = WORKLOADS[name].plans(config)
    members = [plan for plan in plans if plan.group]
    assert len({(plan.group, plan.auto_commit) for plan in members}) == (3 if name == "groups" else 1)
    for plan in members:
        assert 40 < len(schedule(config, plan.slot, plan.slot, 10_000)) < 2_000


def test_each_burst_goes_to_a_topic_that_was_just_created_for_it() -> None:
    config = config_of("fresh-topic", partitions=3)
    planned = schedule(config, 1, 5, 21)[1:]
    names = set()
    for create, burst in zip(planned[0::2], planned[1::2], strict=True):
        (mop,) = create.op.mops
        assert isinstance(mop, CreateTopic)
        assert create.first
        assert {send.tp.topic for send in sends([burst.op])} == {mop.topic}
        assert {send.tp.partition for send in sends([burst.op])} == {0, 1, 2}
        assert burst.wait_s == 0
        names.add(mop.topic)
    assert len(names) == 10
    assert not names & {schedule(config, 1, 9, 2)[1].op.mops[0].topic}  # type: ignore[union-attr]


def test_each_mode_of_sending_has_a_producer() -> None:
    config = config_of("send-modes")
    modes = {}
    for slot in range(4):
        (op,) = {p.op.f: p.op for p in schedule(config, slot, slot, 50)[1:]}.values()
        modes[op.f] = op
    assert set(modes) == {f"send-{m}" for m in ("synchronous", "asynchronous", "forgetting", "impatient")}
    assert [op.f for op in modes.values() if op.forget] == ["send-forgetting"]
    assert len(modes["send-synchronous"].mops) == 1


def test_who_looks_at_no_acknowledgement_has_reached_a_broker_once() -> None:
    config = config_of("send-modes", idempotent=False)
    firsts = [schedule(config, slot, slot, 1)[0] for slot in range(4)]
    assert [p.op.f for p in firsts if p.first] == ["first-contact"]
    assert firsts[2].first
    assert not firsts[2].op.forget


@pytest.mark.sampled(14)
@pytest.mark.parametrize("producers", [1, 4, 5])
@pytest.mark.parametrize("name", [name for name in WORKLOADS if name != "fresh-topic"])
def test_all_producers_together_keep_to_the_rate(name: str, producers: int) -> None:
    """Also where there are more or fewer of them than `producers` says. (fresh-topic has no rate.)"""
    config = config_of(name, producers=producers, rate=100)
    total = 0.0
    for spec in WORKLOADS[name].plans(config):
        planned = [p for p in schedule(config, spec.slot, spec.slot, 1500) if not p.first]
        if spec.acks is not None and not spec.group:
            total += len(planned) / sum(p.wait_s for p in planned)
    assert total == pytest.approx(100, rel=0.05)


def test_unlimited_rate_does_not_wait() -> None:
    assert {p.wait_s for p in schedule(config_of("queue", rate=0), 0, 0, 50)} == {0.0}


@pytest.mark.sampled(11)
@pytest.mark.parametrize("name", WORKLOADS)
def test_the_hash_seed_of_python_reaches_no_schedule(name: str) -> None:
    code = (
        "from tests.workloads.test_workloads import *;"
        f"c = config_of({name!r});"
        "print([schedule(c, s, s, 60) for s in range(len(WORKLOADS[c.workload].plans(c)))])"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1


@pytest.mark.parametrize("name", WORKLOADS)
def test_with_a_prefix_the_same_is_done_under_other_names(name: str) -> None:
    usual = config_of(name)
    other = config_of(name, sut="external", external={"prefix": "x."})
    workload = WORKLOADS[name]
    assert workload.topics(other) == {f"x.{topic}": n for topic, n in workload.topics(usual).items()}
    for plan, named in zip(workload.plans(usual), workload.plans(other), strict=True):
        bare = (plan.transactional_id, plan.group)
        assert [named.transactional_id, named.group] == [text and f"x.{text}" for text in bare]
        ops, others = ([planned.op for planned in schedule(c, plan.slot, 7, 30)] for c in (usual, other))
        named_topics = [topic for op in others for topic in topics_in(op)]
        assert all(topic.startswith("x.") for topic in named_topics)
        encoded = msgspec.json.encode(others)
        assert encoded.count(b'"x.') == len(named_topics)
        assert encoded.replace(b'"x.', b'"') == msgspec.json.encode(ops)


def topics_in(op: Op) -> list[str]:
    found: list[str] = []
    for mop in op.mops:
        match mop:
            case Send(tp):
                found.append(tp.topic)
            case Assign(tps):
                found += [tp.topic for tp in tps]
            case Subscribe(topics):
                found += topics
            case Copy(topic) | CreateTopic(topic) if topic != DATABASE:
                found.append(topic)
    return found


def test_members_of_a_share_group_acknowledge_all_they_hold_before_they_ask_again() -> None:
    config = run_config({"seed": 5, "preset": "share"})
    plans = WORKLOADS["share"].plans(config)
    member = next(plan.slot for plan in plans if plan.share)
    assert len([plan for plan in plans if plan.share]) == 4
    assert {bool(plan.transactional_id) for plan in plans if not plan.share} == {True, False}
    first, *ops = schedule(config, member, 99, 10_000)
    assert isinstance(first.op.mops[0], Subscribe)
    assert len(ops) < 10_000, "it leaves"
    holds, late, halves = False, 0, 0
    for planned in ops:
        (mop,) = planned.op.mops
        assert isinstance(mop, Acquire | Acknowledge)
        if isinstance(mop, Acquire):
            assert not holds
        late += planned.wait_s > LOCK_MS / 1000
        halves += isinstance(mop, Acknowledge) and mop.share < 1
        holds = isinstance(mop, Acquire) or mop.share < 1
    assert holds, "it leaves with what it acquired last"
    assert halves
    seeds = [planned.op.mops[0].seed for planned in ops if isinstance(planned.op.mops[0], Acknowledge)]
    assert len(set(seeds)) == len(seeds)
    assert late


def test_a_share_group_reads_at_the_isolation_level_of_the_run() -> None:
    for level in ("read_committed", "read_uncommitted"):
        config = run_config({"seed": 5, "preset": "share", "isolation": level})
        (settings,) = WORKLOADS["share"].share_groups(config).values()
        assert settings["share.isolation.level"] == level
        assert settings["share.auto.offset.reset"] == "earliest"
    assert all(not WORKLOADS[name].share_groups(config) for name in WORKLOADS if name != "share")


@pytest.mark.parametrize("base", [{}, BASE], ids=["preset", "explore"])
def test_each_partition_of_a_share_group_has_more_than_one_member(base: Mapping[str, object]) -> None:
    """Kafka's SimpleHomogeneousAssignmentBuilder: members by partitions, rounded up. A single member is never
    given what another one holds, or has released."""
    config = run_config({**base, "seed": 5, "preset": "share"})
    members = sum(plan.share for plan in WORKLOADS["share"].plans(config))
    assert -(-members // config.partitions) >= 2
