"""Workloads: the same seed gives the same ops; values are never reused; options are kept."""

import os
import subprocess
import sys
from itertools import islice

import pytest

from harness.config import RunConfig, run_config
from harness.generator import Planned, Slot, source
from harness.op import Op, Poll, Send, process_of
from workloads import WORKLOADS


def schedule(config: RunConfig, slot: int, process: int, count: int) -> list[Planned]:
    workload = WORKLOADS[config.workload]
    spec = workload.plans(config)[slot]
    planner = Slot(
        slot=slot, process=process, tps=workload.tps(config), rng=source(config.seed, slot, 0)
    )
    return list(islice(workload.ops(config, spec, planner), count))


def config_of(workload: str, **settings: object) -> RunConfig:
    return run_config({"seed": 5, "workload": workload, **settings})


def sends(ops: list[Op]) -> list[Send]:
    return [mop for op in ops for mop in op.mops if isinstance(mop, Send)]


@pytest.mark.parametrize("name", WORKLOADS)
def test_plans_are_numbered_by_slot_and_no_transactional_id_is_shared(name: str) -> None:
    plans = WORKLOADS[name].plans(config_of(name))
    assert [plan.slot for plan in plans] == list(range(len(plans)))
    ids = [plan.transactional_id for plan in plans if plan.transactional_id]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", WORKLOADS)
def test_values_are_new_and_carry_their_process(name: str) -> None:
    config = config_of(name)
    sent = sends([planned.op for planned in schedule(config, 0, 9, 500)])
    assert len({send.value for send in sent}) == len(sent) > 500
    assert {process_of(send.value) for send in sent} == {9}


@pytest.mark.parametrize("name", WORKLOADS)
def test_an_idempotent_producer_meets_each_partition_alone_first(name: str) -> None:
    config = config_of(name)
    first = schedule(config, 0, 0, 1)[0].op
    assert sorted(send.tp for send in sends([first])) == sorted(WORKLOADS[name].tps(config))


def test_without_idempotence_there_is_no_first_contact() -> None:
    config = config_of("queue", idempotent=False)
    assert schedule(config, 0, 0, 1)[0].op.f == "send"


def test_shares_sizes_and_rate_are_as_asked_for() -> None:
    config = config_of("transactions", abort_share=0.3, batch_max=5, rate=100, producers=2)
    planned = schedule(config, 0, 0, 3000)[1:]
    assert sum(p.op.abort for p in planned) / len(planned) == pytest.approx(0.3, abs=0.03)
    assert {len(sends([p.op])) for p in planned} == set(range(1, 6))
    mean = sum(p.wait_s for p in planned) / len(planned)
    assert mean == pytest.approx(2 / 100, rel=0.05)


def test_odd_transactional_producers_read_too_and_every_op_is_a_transaction() -> None:
    config = config_of("transactions")
    reading = [p.op for p in schedule(config, 1, 1, 200)]
    assert reading[0].f == "assign"
    assert all(op.txn for op in reading[1:])
    assert any(isinstance(mop, Poll) for op in reading for mop in op.mops)
    assert not any(isinstance(m, Poll) for p in schedule(config, 0, 0, 200) for m in p.op.mops)


def test_unlimited_rate_does_not_wait() -> None:
    assert {p.wait_s for p in schedule(config_of("queue", rate=0), 0, 0, 50)} == {0.0}


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_hash_seed_of_python_reaches_no_schedule(name: str) -> None:
    code = (
        "from tests.unit.test_workloads import *;"
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
