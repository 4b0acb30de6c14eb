"""What the metadata log's records say where they leave something out."""

from checkers.logs.metadata_rows import Row, change, state
from model.accepting import metadata_records as log
from model.protocol.messages import PartitionState

NOTHING = Row(*(0, 0, 0, "PartitionRecord"), *([None] * (len(Row._fields) - 4)))


def test_a_partition_without_leader_and_replicas() -> None:
    none = PartitionState(
        replicas=(),
        isr=(),
        leader=-1,
        leader_epoch=0,
        partition_epoch=0,
        elr=(),
        last_elr=(),
        adding=(),
        removing=(),
    )
    assert state(NOTHING) == none


def test_a_partition_with_everything() -> None:
    row = NOTHING._replace(
        leader=1,
        partition_leader_epoch=5,
        partition_epoch=7,
        replicas=[1, 2, 3, 4],
        isr=[1, 2],
        elr=[3],
        last_known_elr=[4],
        adding=[4],
        removing=[2],
    )
    assert state(row) == PartitionState(
        replicas=(1, 2, 3, 4),
        isr=(1, 2),
        leader=1,
        leader_epoch=5,
        partition_epoch=7,
        elr=(3,),
        last_elr=(4,),
        adding=(4,),
        removing=(2,),
    )


def test_a_change_leaves_alone_what_it_does_not_name() -> None:
    same = change(NOTHING, ("q", 0))
    assert (same.leader, same.isr, same.replicas, same.other) == (log.SAME, None, None, False)
    assert change(NOTHING._replace(recovery=-1), ("q", 0)) == same  # Kafka's word for "as it was"
    assert change(NOTHING._replace(recovery=0), ("q", 0)).other
    assert change(NOTHING._replace(leader=-1, isr=[]), ("q", 0))[1:3] == (-1, ())
