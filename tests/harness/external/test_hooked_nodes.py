"""What hooks broke is healed on every node, whatever a hook of one of them does."""

from pathlib import Path

import pytest

from core.capabilities import Cut, Direction
from core.errors import ClusterError
from core.runtime import run_blocking
from harness.external.file import ClusterFile
from harness.external.hooked_nodes import HookedNodes
from harness.external.hooks import HookRunner
from harness.external.nodes import Means

NAMES = {1: "one", 2: "two", 3: "three"}


@pytest.fixture
def nodes(tmp_path: Path) -> HookedNodes:
    """Each node has a file: its cuts, "whole" = none, none = no hook linked it. A hook `NAME` of node N fails
    once for each line of the file `fails-NAME-N`, and a node that is down has no links that can be set."""

    def hook(name: str, act: str) -> str:
        fails = f"{tmp_path}/fails-{name}-$INQUEST_NODE"
        return f'if [ -s "{fails}" ]; then sed -i 1d "{fails}"; exit 3; fi; {act}'

    up = f"[ ! -e {tmp_path}/down-$INQUEST_NODE ] || exit 4"
    hooks = {
        "kill": hook("kill", f"touch {tmp_path}/down-$INQUEST_NODE"),
        "revive": hook("revive", f"rm -f {tmp_path}/down-$INQUEST_NODE"),
        "cut": hook("cut", f'{up}; echo "$INQUEST_CUTS" >{tmp_path}/$INQUEST_NODE'),
        "mend": hook("mend", f"{up}; echo whole >{tmp_path}/$INQUEST_NODE"),
    }
    file = ClusterFile.model_validate({"cluster": {"bootstrap": "here:1"}, "hooks": hooks})
    return HookedNodes(HookRunner(file, Means(names=NAMES)), tuple(NAMES), None)


def fail(folder: Path, hook: str, node: int, times: int = 1) -> None:
    (folder / f"fails-{hook}-{node}").write_text("once\n" * times)


def links(folder: Path) -> dict[int, str]:
    """What the hooks made of each node's links."""
    return {node: (folder / str(node)).read_text() for node in NAMES if (folder / str(node)).exists()}


def isolated(*nodes: int) -> list[Cut]:
    return [Cut(node=node, direction=Direction.IN, peer=3) for node in nodes]


def test_a_hook_that_fails_for_one_node_leaves_the_others_mended(nodes: HookedNodes, tmp_path: Path) -> None:
    run_blocking(nodes.cut(isolated(1, 2)))
    assert links(tmp_path) == {1: "in three\n", 2: "in three\n"}
    fail(tmp_path, "mend", 1)
    with pytest.raises(ClusterError, match=r"hook mend of node 1: exit code 3"):
        run_blocking(nodes.mend(isolated(1, 2)))
    assert links(tmp_path) == {1: "in three\n", 2: "whole\n"}
    run_blocking(nodes.mend(isolated(1, 2)))
    assert links(tmp_path) == {1: "whole\n", 2: "whole\n"}


def test_mending_fails_again_where_its_hook_does(nodes: HookedNodes, tmp_path: Path) -> None:
    run_blocking(nodes.cut(isolated(1)))
    fail(tmp_path, "mend", 1, times=2)
    for _ in range(2):
        with pytest.raises(ClusterError, match=r"hook mend of node 1"):
            run_blocking(nodes.mend(isolated(1)))
    run_blocking(nodes.mend(isolated(1)))
    assert links(tmp_path) == {1: "whole\n"}


def test_a_cut_that_failed_on_one_node_is_mended_on_all(nodes: HookedNodes, tmp_path: Path) -> None:
    fail(tmp_path, "cut", 1)
    with pytest.raises(ClusterError, match=r"hook cut of node 1"):
        run_blocking(nodes.cut(isolated(1, 2)))
    run_blocking(nodes.mend(isolated(1, 2)))  # what failed may have cut something
    assert links(tmp_path) == {1: "whole\n", 2: "whole\n"}


def test_a_node_that_was_down_when_it_was_mended_is_mended_when_it_is_started(
    nodes: HookedNodes, tmp_path: Path
) -> None:
    run_blocking(nodes.cut(isolated(1)))
    run_blocking(nodes.kill([1, 2]))
    run_blocking(nodes.mend(isolated(1)))  # no hook could reach it
    assert links(tmp_path) == {1: "in three\n"}
    run_blocking(nodes.revive([2]))
    assert links(tmp_path) == {1: "in three\n"}  # it is still down; node 2 was never cut
    run_blocking(nodes.revive([1]))
    assert links(tmp_path) == {1: "whole\n"}


def test_a_node_that_is_started_has_the_cuts_that_are_in_force(nodes: HookedNodes, tmp_path: Path) -> None:
    run_blocking(nodes.kill([1]))
    run_blocking(nodes.cut([*isolated(1, 2), Cut(node=1, direction=Direction.OUT)]))
    assert links(tmp_path) == {2: "in three\n"}
    run_blocking(nodes.mend(isolated(1)))
    run_blocking(nodes.revive([1]))
    assert links(tmp_path) == {1: "out clients\n", 2: "in three\n"}


def test_a_node_that_cannot_be_started_leaves_the_others_up(nodes: HookedNodes, tmp_path: Path) -> None:
    run_blocking(nodes.cut(isolated(2)))
    run_blocking(nodes.kill([1, 2]))
    run_blocking(nodes.mend(isolated(2)))
    fail(tmp_path, "revive", 1)
    with pytest.raises(ClusterError, match=r"hook revive of node 1"):
        run_blocking(nodes.revive([1, 2]))
    assert links(tmp_path) == {2: "whole\n"}
    run_blocking(nodes.cut(isolated(1, 2)))
    assert links(tmp_path) == {2: "in three\n"}  # node 1 is still down: cut when it is started
    run_blocking(nodes.revive([1]))
    assert links(tmp_path) == {1: "in three\n", 2: "in three\n"}


def test_a_node_that_was_never_cut_takes_no_hook_to_mend(nodes: HookedNodes, tmp_path: Path) -> None:
    fail(tmp_path, "mend", 2)
    run_blocking(nodes.cut(isolated(1)))
    run_blocking(nodes.mend(isolated(1, 2)))
    run_blocking(nodes.mend(isolated(1, 2)))
    assert links(tmp_path) == {1: "whole\n"}


def test_a_cut_of_two_faults_is_in_force_until_both_are_healed(nodes: HookedNodes, tmp_path: Path) -> None:
    run_blocking(nodes.cut(isolated(1)))
    run_blocking(nodes.cut(isolated(1)))
    run_blocking(nodes.mend(isolated(1)))
    assert links(tmp_path) == {1: "in three\n"}
    run_blocking(nodes.mend(isolated(1)))
    assert links(tmp_path) == {1: "whole\n"}
