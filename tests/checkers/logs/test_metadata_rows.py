"""What the metadata log's records say where they leave something out."""

import json

from checkers.logs.metadata_rows import Row, change, record, state
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


def test_directories_of_brokers_and_replicas() -> None:
    def told(name: str, **fields: object) -> object:
        row = NOTHING._replace(name=name, broker=2, broker_epoch=7, topic="q", partition=0, replicas=[1, 2])
        return record(row._replace(body=json.dumps(fields)), {})

    both = ("x", "y")
    assert told("RegisterBrokerRecord", logDirs=["x", "y"]) == log.BrokerRegistered(2, 7, directories=both)
    assert told("RegisterBrokerRecord") == log.BrokerRegistered(2, 7)  # before 3.7
    one = log.BrokerChanged(2, 7, directories=("y",))
    assert told("BrokerRegistrationChangeRecord", logDirs=["y"]) == one
    created = log.PartitionCreated(("q", 0), state(NOTHING._replace(replicas=[1, 2])), both)
    assert told("PartitionRecord", directories=["x", "y"]) == created
    assert told("PartitionRecord") == created._replace(directories=())
    moved = told("PartitionChangeRecord", directories=["x", "y"])
    assert isinstance(moved, log.PartitionChanged)
    assert (moved.directories, moved.other) == (both, True)
    same = told("PartitionChangeRecord", directories=None)
    assert isinstance(same, log.PartitionChanged)
    assert (same.directories, same.other) == (None, False)
