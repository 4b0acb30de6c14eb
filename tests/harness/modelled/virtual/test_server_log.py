"""The server logs of simulated nodes: what checks read there is what happened."""

from datetime import timedelta
from pathlib import Path

import pytest

from core.config import run_config
from core.internal_topics import TRANSACTION_TOPIC
from harness.explore.profile import BASE
from harness.modelled.shared.server_log import text
from harness.modelled.virtual.run_folder import record
from harness.run.planning import planned
from history.broker_logs import (
    VIRTUAL,
    CancelledMarkersLine,
    CoordinatorElected,
    LeftOutMarkersLine,
    MarkersSent,
    broker_logs,
    write_virtual,
)
from history.replica_lines import replica_lines
from history.run_folder import Run
from model.metadata.image import PartitionRecord
from model.protocol.messages import PartitionState
from model.replication import node as model


def test_lines_are_read_as_they_are_meant(tmp_path: Path) -> None:
    state = PartitionState((1, 2, 3), (2, 3), 2, leader_epoch=4, partition_epoch=9)
    lines: list[model.LogLine] = [
        model.LeaderStarts(0, 2, (TRANSACTION_TOPIC, 1), state, 78, 77),
        model.MarkersSentAfterLoading(0, 2, 1, 4, "t", 2000, 3, False, (("a", 0), ("b-c", 1)), 7),
        model.MarkersSentAfterLoading(0, 2, 1, 4, "u", 2001, 0, True, (), 8),
        model.MarkersLeftOut(0, 2, "t", 2000, 3, (("a", 0), ("b-c", 1))),
        model.MarkersCancelled(5, 2, 3, 1, 4),
    ]
    run = Run(tmp_path)
    write_virtual(run, 2, [(5_000_000, text(line)) for line in lines])
    found = broker_logs(run)
    wall = VIRTUAL + timedelta(milliseconds=5)
    both = frozenset({"a-0", "b-c-1"})
    assert found.elected == [
        CoordinatorElected(
            node=2, wall=wall, partition=1, epoch=4, start=78, high_watermark=77, isr=frozenset({2, 3})
        )
    ]
    abort = MarkersSent(
        node=2,
        wall=wall,
        partition=1,
        transactional_id="t",
        producer_id=2000,
        producer_epoch=3,
        commit=False,
        updated_ms=1007,
        partitions=both,
    )
    assert found.sent[0] == abort
    assert (found.sent[1].commit, found.sent[1].partitions, found.sent[1].updated_ms) == (
        True,
        frozenset(),
        1008,
    )
    assert found.left_out == [LeftOutMarkersLine(node=2, wall=wall, transactional_id="t", partitions=both)]
    assert found.cancelled == [CancelledMarkersLine(node=2, to=3, made_ms=1, cancelled_ms=5)]


@pytest.mark.sampled(10)
def test_every_leader_is_in_the_log_of_its_node(tmp_path: Path) -> None:
    settings = {"workload": "transactions", "preset": "safe", "nemesis": "kill:one@txn-coordinator"}
    config = run_config({**BASE, **settings, "seed": 1, "duration_s": 8})
    run = Run(tmp_path)
    run.journal.mkdir()
    done = record(config, planned(config).steps, run)
    entries = [entry for _, entry in done.cluster.sim[1].durable.entries]
    changes = [one for one in entries if isinstance(one, PartitionRecord)]
    led = {
        (one.partition[1], one.state.leader_epoch): one.state.leader
        for one in changes
        if one.partition[0] == TRANSACTION_TOPIC
    }
    elected = broker_logs(run).elected
    assert {(one.partition, one.epoch): one.node for one in elected}.items() <= led.items()
    newest = {number: max(epoch for at, epoch in led if at == number) for number, _ in led}
    assert newest.items() <= {(one.partition, one.epoch) for one in elected}
    assert any(one.epoch > 0 for one in elected)
    assert all(one.high_watermark <= one.start for one in elected)
    topic, number = next(tp for tp, _ in changes if not tp[0].startswith("__"))
    of_records = {
        one.state.leader_epoch: one.state.leader for one in changes if one.partition == (topic, number)
    }
    lines = replica_lines(run, f"{topic}-{number}")
    assert {(one.epoch, one.node) for one in lines if one.leads} == set(of_records.items())
