"""Whether a cluster is the run's to use, by what its user may see."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kio.schema.describe_log_dirs.v1.response import DescribeLogDirsResponse
from kio.schema.errors import ErrorCode
from kio.schema.list_groups.v2.response import ListGroupsResponse
from kio.schema.metadata.v9.response import MetadataResponse

from harness.brokers.admin.connection import AdminError, Brokers
from harness.external import belongings

EVERYTHING = 0b1_1111_1010_0000
ALTER_ALONE = 1 << 7 | 1 << 8
"""What elections need: the right to alter the cluster has the one to describe it in it."""
NOT_SAID = -(1 << 31)


def named(**values: object) -> SimpleNamespace:
    return SimpleNamespace(error_code=ErrorCode.none, **values)


def topics(names: tuple[str, ...], **values: object) -> list[SimpleNamespace]:
    partition = SimpleNamespace(partition_index=0, is_future_key=False)
    return [SimpleNamespace(name=name, partitions=[partition], **values) for name in names]


class Theirs:
    """Brokers with authorization. shown: topics that the user may describe. stored: topics on disks; None =
    the broker knows no such request. may: operations of the cluster that the user may do."""

    nodes = (1, 2)

    def __init__(
        self,
        shown: tuple[str, ...] = (),
        groups: tuple[str, ...] = (),
        stored: tuple[str, ...] | None = (),
        may: Mapping[int, int] | int = EVERYTHING,
    ) -> None:
        self.shown, self.groups, self.stored = shown, groups, stored
        self.may = may if isinstance(may, Mapping) else dict.fromkeys(self.nodes, may)

    @contextmanager
    def connect(self, node: int, deadline_s: float) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(call=lambda response, **values: self.call(node, response, **values))

    def call(self, node: int, response: type, **values: Any) -> SimpleNamespace:
        if response is MetadataResponse:
            shown = self.shown if values["topics"] is None else ()
            asked = values.get("include_cluster_authorized_operations", False)
            its = self.may[node] if asked else NOT_SAID
            return SimpleNamespace(topics=topics(shown), brokers=[], cluster_authorized_operations=its)
        if response is ListGroupsResponse:
            return named(groups=[SimpleNamespace(group_id=group) for group in self.groups])
        assert response is DescribeLogDirsResponse
        if self.stored is None:
            raise AdminError("the broker closed the connection")
        described = self.stored if self.may[node] & 1 << 8 else ()
        return SimpleNamespace(results=[named(log_dir="/data", topics=topics(described))])


OTHERS = "which others may use: --owned, if it is yours to break"
BLIND = "no broker says that the client may describe the cluster, and without that topics and groups"


@pytest.mark.parametrize(
    ("theirs", "why"),
    [
        (Theirs(), ""),
        (Theirs(may=ALTER_ALONE), ""),
        (Theirs(shown=("orders",)), f"the cluster has topics orders, {OTHERS}"),
        (Theirs(groups=("billing",)), f"the cluster has groups billing, {OTHERS}"),
        (Theirs(stored=("orders",), may=ALTER_ALONE), f"the cluster has topics orders, {OTHERS}"),
        (Theirs(stored=("inquest-abc-queue", "__consumer_offsets")), ""),  # deleted a moment ago; Kafka's own
        (Theirs(shown=("__consumer_offsets", "__transaction_state", "__share_group_state")), ""),
        (Theirs(shown=("__metrics",)), f"the cluster has topics __metrics, {OTHERS}"),
        (Theirs(stored=("__metrics",)), f"the cluster has topics __metrics, {OTHERS}"),
        (Theirs(stored=None), ""),
        (Theirs(may=0), BLIND),
        (Theirs(may=1 << 7), BLIND),
        (Theirs(may=NOT_SAID), BLIND),
        (Theirs(may={1: EVERYTHING, 2: 0}), BLIND),
        (Theirs(shown=("inquest-abc-queue",), may=0), "the cluster has topics inquest-abc-queue: a run is"),
    ],
)
def test_a_cluster_is_refused_that_others_use_or_may_use(theirs: Theirs, why: str) -> None:
    said = belongings.refusal(cast(Brokers, theirs), "inquest-", 5, owned=False)
    assert said.startswith(why)
    assert bool(said) == bool(why)


@pytest.mark.parametrize(
    "theirs",
    [Theirs(may=0), Theirs(shown=("orders",)), Theirs(groups=("billing",)), Theirs(stored=("orders",))],
)
def test_one_that_is_the_users_is_not(theirs: Theirs) -> None:
    assert belongings.refusal(cast(Brokers, theirs), "inquest-", 5, owned=True) == ""


def test_another_run_is_refused_there_too() -> None:
    theirs = cast(Brokers, Theirs(shown=("inquest-abc-queue",)))
    assert "a run is under way" in belongings.refusal(theirs, "inquest-", 5, owned=True)
