"""The portable history format: small histories as JSON, read by people and by other checkers.

A file holds one case, an array of cases, or one case a line. A case has a `name` and a `history`: the
list of its *events* in real-time order (`time` is not used). Each op stands there as its invocation and,
unless it never completed, its completion, distinguished by `type`. docs/portable-history.schema.json is
the published schema.

    {"name": "example", "history": [
      {"index": 0, "type": "invoke", "process": 0, "f": "send", "value": [["send", "x", "a"]]},
      {"index": 1, "type": "ok", "process": 0, "f": "send", "value": [["send", "x", [0, "a"]]]},
      {"index": 2, "type": "invoke", "process": 1, "f": "poll", "value": [["poll"]]},
      {"index": 3, "type": "ok", "process": 1, "f": "poll", "value": [["poll", {"x": [[0, "a"]]}]]}]}

A *key* is one topic-partition; a *value* is unique within its key and sent once. Consumers read
committed, producers use acks=all. An op is a transaction if it has several micro-ops or its `f` is
txn; a field `txn` wins over both. An event has no other fields, but for `error`, which people read.

Not here: files of cases (`checkers.recordings.cases`), what such a history becomes for the checks
(`checkers.recordings.portable_tables`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec

from core.op import Outcome

Name = str | int
"""A key or a value as the file spells it. Keys that differ only in type are the same key."""

Offset = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]


class SendMop(msgspec.Struct, frozen=True, array_like=True, tag="send", forbid_unknown_fields=True):
    """`["send", key, value]`, acknowledged `["send", key, [offset or null, value]]`."""

    key: Name
    value: Name | tuple[Offset | None, Name]


class PollMop(msgspec.Struct, frozen=True, array_like=True, tag="poll", forbid_unknown_fields=True):
    """`["poll"]`, completed `["poll", {key: [[offset, value], …], …}]`, in order of delivery."""

    records: dict[str, list[tuple[Offset, Name]]] = {}


class Rebalance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Keys that a consumer group gave to the process, or took from it, during the op."""

    type: Literal["assigned", "revoked", "lost"]
    keys: list[Name]


class _CommonFields(msgspec.Struct, frozen=True, kw_only=True, tag_field="f", forbid_unknown_fields=True):
    index: int
    process: Annotated[int, msgspec.Meta(ge=0, lt=2**31 - 1)]
    type: Literal["invoke", "ok", "fail", "info"]
    time: int | None = None
    rebalance_log: list[Rebalance] = []
    txn: bool | None = None
    error: Any = None


class SendEvent(_CommonFields, frozen=True, tag="send"):
    """Only sends."""

    value: list[SendMop] | None = None


class PollEvent(_CommonFields, frozen=True, tag="poll"):
    """Only polls."""

    value: list[PollMop] | None = None


class TxnEvent(_CommonFields, frozen=True, tag="txn"):
    """Sends and polls, or polls within a transaction."""

    value: list[SendMop | PollMop] | None = None


class AssignEvent(_CommonFields, frozen=True, tag="assign"):
    """Read these keys instead of the previous ones."""

    value: list[Name] | None = None


class SubscribeEvent(_CommonFields, frozen=True, tag="subscribe"):
    """Join a group for these keys instead of the previous ones."""

    value: list[Name] | None = None


class CrashEvent(_CommonFields, frozen=True, tag="crash"):
    """The client ends without a word."""

    value: None = None


Event = SendEvent | PollEvent | TxnEvent | AssignEvent | SubscribeEvent | CrashEvent


class CaseFile(msgspec.Struct, frozen=True):
    """One case as it stands in a file; other fields are ignored.

    Cases of the kind `unit` test single functions: their history is not read.
    """

    name: str
    history: list[Event]
    kind: str = "history"
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortableOp:
    """One op: its invocation and completion, and where in the list of events they stand."""

    invoked: Event
    completed: Event | None
    invoked_at: int
    completed_at: int | None

    @property
    def process(self) -> int:
        """The process that invoked it."""
        return self.invoked.process

    @property
    def f(self) -> str:
        """The kind of op."""
        return str(self.invoked.__struct_config__.tag)

    @property
    def index(self) -> int:
        """The index by which findings name the op: of its completion, else of its invocation."""
        return (self.completed or self.invoked).index

    @property
    def outcome(self) -> Outcome:
        """What is known of it; an op without completion is indeterminate."""
        return Outcome.INFO if self.completed is None else Outcome[self.completed.type.upper()]

    @property
    def mops(self) -> Sequence[SendMop | PollMop]:
        """The micro-ops, with as much of their results as is known."""
        for event in (self.completed, self.invoked):
            if isinstance(event, SendEvent | PollEvent | TxnEvent) and event.value is not None:
                return event.value
        return ()

    @property
    def sends(self) -> list[SendMop]:
        """The micro-ops that send."""
        return [mop for mop in self.mops if isinstance(mop, SendMop)]

    @property
    def assigned(self) -> list[str] | None:
        """The keys that an assign or subscribe lists; None for other ops."""
        for event in (self.completed, self.invoked):
            if isinstance(event, AssignEvent | SubscribeEvent) and event.value is not None:
                return [str(key) for key in event.value]
        return None

    @property
    def rebalances(self) -> list[Rebalance]:
        """What happened to the process's assignment during the op."""
        return self.completed.rebalance_log if self.completed is not None else []

    @property
    def said_txn(self) -> bool | None:
        """What the history itself says about being a transaction, if anything."""
        said = None if self.completed is None else self.completed.txn
        return self.invoked.txn if said is None else said

    @property
    def txn(self) -> bool:
        """Whether the micro-ops form one transaction."""
        if self.said_txn is not None:
            return self.said_txn
        return len(self.mops) > 1 or self.f == "txn"
