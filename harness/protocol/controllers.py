"""Schemas of the requests by which a controller of the time of ZooKeeper rules brokers: LeaderAndIsr,
StopReplica and UpdateMetadata, in the form of kio's classes. kio has none, since Kafka 4.0 dropped them.

Source: Kafka's message definitions, as its release 3.9 has them.
"""

from dataclasses import field, make_dataclass
from types import GenericAlias
from typing import Any, Final, NamedTuple
from uuid import UUID

from kio.schema.request_header.v1.header import RequestHeader as RequestHeaderV1
from kio.schema.request_header.v2.header import RequestHeader as RequestHeaderV2
from kio.schema.response_header.v0.header import ResponseHeader as ResponseHeaderV0
from kio.schema.response_header.v1.header import ResponseHeader as ResponseHeaderV1
from kio.static.constants import EntityType
from kio.static.primitive import i8, i16, i32, i64
from kio.static.protocol import RequestPayload, ResponsePayload

NAMES: Final = {4: "leader_and_isr", 5: "stop_replica", 6: "update_metadata"}
"""Kafka's names of these APIs, by key."""

_PLAIN: Final[dict[str, Any]] = {
    "bool": bool,
    "int8": i8,
    "int16": i16,
    "int32": i32,
    "int64": i64,
    "string": str,
    "uuid": UUID | None,
}
_RULER: Final = "controller_id int32, is_kraft_controller bool {kraft}+, controller_epoch int32"
_STATE: Final = (
    "name string 0-{named}, partition_index int32, controller_epoch int32, leader int32,"
    "leader_epoch int32, isr []int32, partition_epoch int32, replicas []int32"
)
_ERROR: Final = "name string 0-{named}, partition_index int32, error_code int16"
_LEADER_AND_ISR: Final = {
    "LeaderAndIsrRequest": _RULER.format(kraft=7) + ", broker_epoch int64 2+, type int8 5+,"
    "ungrouped []LeaderAndIsrState 0-1, topics []LeaderAndIsrTopic 2+, live_leaders []LiveLeader",
    "LeaderAndIsrTopic": "name string, topic_id uuid 5+, partitions []LeaderAndIsrState",
    "LeaderAndIsrState": _STATE.format(named=1) + ", adding_replicas []int32 3+,"
    "removing_replicas []int32 3+, is_new bool 1+, leader_recovery_state int8 6+",
    "LiveLeader": "broker_id int32, host string, port int32",
    "LeaderAndIsrResponse": "error_code int16, ungrouped []LeaderAndIsrError 0-4,"
    "topics []LeaderAndIsrErrors 5+",
    "LeaderAndIsrErrors": "topic_id uuid, partitions []LeaderAndIsrError",
    "LeaderAndIsrError": _ERROR.format(named=4),
}
_STOP_REPLICA: Final = {
    "StopReplicaRequest": _RULER.format(kraft=4) + ", broker_epoch int64 1+, delete bool 0-2,"
    "ungrouped []StopReplicaPartition 0-0, topics []StopReplicaTopic 1+",
    "StopReplicaTopic": "name string, numbers []int32 1-2, partitions []StopReplicaPartition 3+",
    "StopReplicaPartition": "name string 0-0, partition_index int32, leader_epoch int32 3+,delete bool 3+",
    "StopReplicaResponse": "error_code int16, ungrouped []StopReplicaError",
    "StopReplicaError": _ERROR.format(named=4),
}
_UPDATE_METADATA: Final = {
    "UpdateMetadataRequest": _RULER.format(kraft=8) + ", type int8 8+ tag=0, broker_epoch int64 5+,"
    "ungrouped []UpdateMetadataState 0-4, topics []UpdateMetadataTopic 5+, brokers []LiveBroker",
    "UpdateMetadataTopic": "name string, topic_id uuid 7+, partitions []UpdateMetadataState",
    "UpdateMetadataState": _STATE.format(named=4) + ", offline_replicas []int32 4+",
    "LiveBroker": "broker_id int32, host string 0-0, port int32 0-0, endpoints []Endpoint 1+,rack string? 2+",
    "Endpoint": "port int32, host string, listener string 3+, security_protocol int16",
    "UpdateMetadataResponse": "error_code int16",
}


class _Api(NamedTuple):
    """An API by its structs: `name kind, name kind versions, name kind versions tag, …`. Names of fields are
    Kafka's, or shorter. newest: its last version. flexible: the first one with lengths of variable size
    (KIP-482)."""

    key: int
    newest: int
    flexible: int
    structs: dict[str, str]


_APIS: Final = (_Api(4, 7, 4, _LEADER_AND_ISR), _Api(5, 4, 2, _STOP_REPLICA), _Api(6, 8, 6, _UPDATE_METADATA))


def _class(api: _Api, version: int, name: str, header: type) -> type[Any]:
    """A struct of an API as a class of kio's form."""
    fields = []
    for part in api.structs[name].split(","):
        words = part.split()
        its, kind, versions, tag = words + ["0+", ""][len(words) - 2 :]
        first, _, last = versions.rstrip("+").partition("-")
        if not int(first) <= version <= int(last or api.newest):
            continue
        inner = kind.removeprefix("[]").rstrip("?")
        found: Any = _PLAIN[inner] if inner in _PLAIN else _class(api, version, inner, header)
        if kind.endswith("?"):
            found = found | None
        about: dict[str, Any] = {"metadata": {"kafka_type": inner}} if inner in _PLAIN else {}
        if tag:
            about["metadata"]["tag"] = int(tag.removeprefix("tag="))
            about["default"] = found(0)
        of_all = GenericAlias(tuple, (found, ...)) if kind.startswith("[]") else found
        fields.append((its, of_all, field(**about)))
    ends = {"Request": EntityType.request, "Response": EntityType.response}
    said = {
        "__type__": next((its for end, its in ends.items() if name.endswith(end)), EntityType.nested),
        "__version__": i16(version),
        "__flexible__": version >= api.flexible,
        "__api_key__": i16(api.key),
        "__header_schema__": header,
    }
    return make_dataclass(name, fields, namespace=said, frozen=True, slots=True, kw_only=True)


def request_type(key: int, version: int) -> type[RequestPayload] | None:
    """The schema of a request; None = it is not one of these."""
    return _found(key, version, "Request", (RequestHeaderV1, RequestHeaderV2))


def response_type(key: int, version: int) -> type[ResponsePayload] | None:
    """The schema of a response; None = it is not one of these."""
    return _found(key, version, "Response", (ResponseHeaderV0, ResponseHeaderV1))


def _found(key: int, version: int, end: str, headers: tuple[type, type]) -> type[Any] | None:
    """Made when it is asked for: few processes read any. headers: before and since the flexible versions."""
    api = next((one for one in _APIS if one.key == key), None)
    if api is None or not 0 <= version <= api.newest:
        return None
    (name,) = (one for one in api.structs if one.endswith(end))
    return _class(api, version, name, headers[version >= api.flexible])
