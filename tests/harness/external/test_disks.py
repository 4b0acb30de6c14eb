"""Disks are evidence where they are of one moment."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import cast

import pytest

from core.errors import ClusterError
from harness.external.disks import MOVED, NO_HOOK, Disks
from harness.external.hooks import HookRunner
from history.evidence import Evidence
from tests.histories.old_messages import message


class Hooks:
    """Brings a disk with one partition of each node, but of those that fail, and nothing of empty ones."""

    def __init__(self, fails: tuple[int, ...] = (), empty: tuple[int, ...] = ()) -> None:
        self.fails, self.empty = fails, empty

    def has(self, name: str) -> bool:
        return True

    def on_node(self, name: str, node: int, **around: str) -> None:
        if node in self.fails:
            raise ClusterError(f"hook collect of node {node}: exit code 1")
        folder = Path(around["INQUEST_TARGET"]) / "data" / "q-0"
        if node not in self.empty:
            folder.mkdir()
            (folder / f"{0:020}.log").write_bytes(message(0, None, b"x"))


def still(why: str) -> Callable[[], AbstractContextManager[str]]:
    @contextmanager
    def made() -> Iterator[str]:
        yield why

    return made


@pytest.mark.parametrize(
    ("why", "hooks", "missing", "nodes"),
    [
        ("", Hooks(), [], {1, 2}),
        ("", Hooks(fails=(2,)), ["hook collect of node 2: exit code 1"], {1}),
        ("", Hooks(empty=(2,)), ["the hook collect brought no disk of node 2"], {1}),
        ("", Hooks(empty=(1, 2)), [NO_HOOK], set()),
        ("no hooks", Hooks(), [f"{MOVED}: no hooks"], set()),
        ("no hooks", Hooks(fails=(2,)), [f"{MOVED}: no hooks", "hook collect of node 2: exit code 1"], set()),
        ("no hooks", Hooks(empty=(1, 2)), [NO_HOOK], set()),
    ],
)
def test_disks_of_nodes_that_worked_meanwhile_are_no_evidence(
    tmp_path: Path, why: str, hooks: Hooks, missing: list[str], nodes: set[int]
) -> None:
    disks = Disks(cast(HookRunner, hooks), [1, 2], still(why))
    disks.collect(tmp_path / "cluster")
    assert disks.take(tmp_path / "evidence") == missing
    assert not [*tmp_path.glob("cluster/*/data")]
    if nodes:
        assert {*Evidence.load(tmp_path / "evidence").table("takes")["node"].to_pylist()} == nodes
    else:
        assert not (tmp_path / "evidence").exists()
