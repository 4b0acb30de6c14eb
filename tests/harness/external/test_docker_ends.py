"""How containers of the user's ended: what a node wrote before its last start says nothing of its end."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from core.cluster import NodeEnd
from core.extensions import CLUSTER
from core.secrets import HIDDEN
from harness.external.docker_ends import DockerEnds

STARTED = 1_700_000_000
AGAIN = "2023-11-14T22:13:20.250000999Z"
"""`STARTED` and a quarter of a second."""
FULL = b"java.io.IOException: No space left on device\n"


class Engine:
    """Node 1's container has ended. lines: what it wrote, and when, in seconds since `STARTED`."""

    def __init__(self, *lines: tuple[float, bytes]) -> None:
        self._lines = lines

    def containers(self, **_: object) -> list[dict[str, Any]]:
        return [{"State": "exited", "Names": ["/broker"]}]

    def inspect_container(self, name: str) -> dict[str, Any]:
        assert name == "broker"
        return {"State": {"ExitCode": 1, "StartedAt": AGAIN}}

    def logs(self, name: str, tail: int, since: float = 0.0) -> bytes:
        assert name == "broker"
        return b"".join([line for at, line in self._lines if STARTED + at >= since][-tail:])


SECRET = "open sesame"


@pytest.fixture(autouse=True)
def _named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of the cluster has a secret."""
    file = tmp_path / "cluster.toml"
    file.write_text('[cluster]\nbootstrap = "here:1"\n[client]\nsasl.password = "$KAFKA_PASSWORD"\n')
    monkeypatch.setenv("KAFKA_PASSWORD", SECRET)
    monkeypatch.setenv(CLUSTER, str(file))


def ended(*lines: tuple[float, bytes]) -> NodeEnd:
    ends = DockerEnds({1: "broker"})
    ends._client = cast(Any, SimpleNamespace(api=Engine(*lines)))
    (end,) = ends.take()
    return end


@pytest.mark.parametrize(
    ("before", "after", "outside"), [(FULL, b"", ""), (b"", FULL, "no space was left on its disk")]
)
def test_a_disk_that_was_full_before_its_last_start_did_not_end_a_node(
    before: bytes, after: bytes, outside: str
) -> None:
    end = ended((-5.0, before), (0.25, b"started\n"), (0.5, after), (0.6, b"meta.properties: no version\n"))
    assert end.outside == outside
    assert end.log[0] == "started"
    assert end.log[-1] == "meta.properties: no version"


def test_the_last_lines_of_a_node_are_kept_without_secrets() -> None:
    assert ended((0.5, f"login as user {SECRET}\n".encode())).log == (f"login as user {HIDDEN}",)
