"""The log of a modelled ZooKeeper as rows of evidence: data as Kafka writes them, in JSON."""

import json
from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from harness.modelled.shared.base_time import BASE_MS
from history.evidence_tables import schema, table
from model.protocol.zookeeper_messages import PERSISTENT
from model.zookeeper.zk_data import CONTROLLER, CONTROLLER_EPOCH, IDS, ISR_CHANGES, TOPICS
from model.zookeeper.zk_data import LeaderIsrAndControllerEpoch as State
from model.zookeeper.zookeeper import ZnodeChange

VERSION: Final = {"version": 1}
STAYS: Final = 0
"""Stands for no session."""


def rows(log: Iterable[ZnodeChange], node: int, take: int) -> dict[str, pa.Table]:
    """The table `znodes` of the ensemble's node."""
    found = []
    for one in log:
        session, owner = (STAYS if of == PERSISTENT else of for of in (one.session, one.owner))
        version = None if one.op == "delete" else one.version
        owned = owner if one.op == "create" else None
        what = one.op, one.path, version, owned, _said(one)
        found.append((take, node, one.zxid, BASE_MS + one.ms, session, *what))
    return {"znodes": table(schema("znodes"), found)}


def _said(one: ZnodeChange) -> str | None:
    data = one.data
    if one.op == "delete":
        return None
    if isinstance(data, State):
        said = {"leader": data.leader, "leader_epoch": data.leader_epoch, "isr": list(data.isr)}
        return json.dumps(VERSION | said | {"controller_epoch": data.controller_epoch})
    if one.path == CONTROLLER:
        return json.dumps(VERSION | {"brokerid": data})
    if one.path == CONTROLLER_EPOCH:
        return str(data)
    if one.path.startswith(f"{IDS}/"):
        return json.dumps(VERSION)
    if one.path.startswith(f"{ISR_CHANGES}/"):
        parts = [{"topic": topic, "partition": number} for topic, number in data]
        return json.dumps(VERSION | {"partitions": parts})
    if one.path.startswith(f"{TOPICS}/") and data is not None:
        replicas = {str(number): list(nodes) for number, nodes in enumerate(data)}
        return json.dumps(VERSION | {"partitions": replicas})
    return None
