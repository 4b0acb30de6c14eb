"""Columns of scenarios on `stage.Stage`: what a cell shows of the partition.

    leo(2)        log end offset of broker 2            hw(2)       its high watermark
    remote(1, 2)  what leader 1 knows of 2's log end    log(2)      its records
    epochs(2)     its leader-epoch cache                flushed(2)  what a power loss leaves
    isr, leader, elr, leader_epoch, partition_epoch     as the controller decided
    isr_at(1), leader_at(2)                             as a broker knows it
    running               brokers whose process runs
    asked_for(1)          in-sync set that it asked for
    status, decision      what metrics call the partition; what the controller said to a leader
    waits_for(1)          for whom the high watermark waits       visible(1)  what consumers get
    produced      what the newest record's producer was told      acked   records that were acknowledged
    heard         what a consumer was told last

Not here: columns of other stages.
"""

from collections.abc import Callable

from model.replica import UNKNOWN, Replica
from model.scenarios.stage import Stage

Column = Callable[[Stage], object]
DOWN = "down"


def _of(n: int, show: Callable[[Replica], object]) -> Column:
    def column(stage: Stage) -> object:
        replica = stage.replica(n)
        if replica is None:
            return None if n in stage.nodes else DOWN
        return show(replica)

    return column


def leo(n: int) -> Column:
    """Log end offset."""
    return _of(n, lambda replica: replica.log.end)


def hw(n: int) -> Column:
    """High watermark."""
    return _of(n, lambda replica: replica.high_watermark)


def log(n: int) -> Column:
    """Names of the records, oldest first."""
    return _of(n, lambda replica: [str(record) for _, _, record in replica.log.records()])


def flushed(n: int) -> Column:
    """Offset up to which the log is on disk."""
    return _of(n, lambda replica: replica.log.flushed)


def epochs(n: int) -> Column:
    """Leader-epoch cache: (epoch, first offset)."""
    return _of(n, lambda replica: [f"({e}, {begin})" for e, begin in replica.log.epochs])


def remote(leader: int, follower: int) -> Column:
    """What the leader knows of the follower's log end; None where it does not lead."""

    def show(replica: Replica) -> object:
        known = replica.remotes.get(follower)
        if known is None:
            return None
        return "?" if known.end == UNKNOWN else known.end

    return _of(leader, show)


def isr_at(n: int) -> Column:
    """In-sync set as this broker knows it."""
    return _of(n, lambda replica: replica.isr)


def leader_at(n: int) -> Column:
    """Leader and its epoch as this broker knows them."""
    return _of(n, lambda replica: f"{replica.state.leader}, epoch {replica.state.leader_epoch}")


def isr(stage: Stage) -> object:
    """In-sync set, as the controller has it."""
    return stage.state.isr


def elr(stage: Stage) -> object:
    """Eligible leader replicas (KIP-966)."""
    return stage.state.elr


def leader(stage: Stage) -> object:
    """Leader, None where there is none."""
    return stage.state.leader if stage.state.leader >= 0 else None


def leader_epoch(stage: Stage) -> object:
    """Rises with every leader."""
    return stage.state.leader_epoch


def partition_epoch(stage: Stage) -> object:
    """Rises with every change."""
    return stage.state.partition_epoch


def replicas(stage: Stage) -> object:
    """AR, in order: the first one is the preferred leader."""
    return stage.state.replicas


def waits_for(n: int) -> Column:
    """For whom the leader's high watermark waits: the in-sync set, and who is asked for or about to leave."""
    return _of(n, lambda replica: replica.maximal_isr if replica.leads else None)


def asked_for(n: int) -> Column:
    """In-sync set that a leader asked the controller for and was not answered about."""
    return _of(n, lambda replica: replica.proposed)


def visible(n: int) -> Column:
    """Records that a consumer gets of this broker: those below its high watermark."""
    return _of(
        n,
        lambda replica: [
            str(record)
            for offset, _, record in replica.log.records()
            if offset < replica.high_watermark
        ],
    )


def running(stage: Stage) -> object:
    """Brokers whose process runs."""
    return set(stage.nodes)


def status(stage: Stage) -> object:
    """What Kafka's metrics call the partition."""
    state = stage.state
    if state.leader < 0:
        return "offline"
    if len(state.isr) < stage.settings.min_isr:
        return "under min ISR"
    return "under-replicated" if len(state.isr) < len(state.replicas) else "whole"


def decision(stage: Stage) -> object:
    """What the controller said to the newest AlterPartition."""
    return stage.decision


def result(record: str) -> Column:
    """What the producer of this record was told."""
    return lambda stage: stage.results.get(record)


def adding(stage: Stage) -> object:
    """Replicas that a reassignment adds."""
    return stage.state.adding


def removing(stage: Stage) -> object:
    """Replicas that a reassignment takes away."""
    return stage.state.removing


def produced(stage: Stage) -> object:
    """What the producer of the newest record was told."""
    return stage.results.get(stage.last)


def heard(stage: Stage) -> object:
    """What a consumer was told last."""
    return stage.heard or None


def acked(stage: Stage) -> object:
    """Records that were acknowledged, in that order."""
    return stage.acked
