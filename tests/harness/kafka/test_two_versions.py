"""Nodes that change their version: what is written into their containers, and when that is refused."""

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from core.capabilities import DirectoryFailable, Upgradable, VotersChangeable, capabilities_of
from core.config import RunConfig, run_config
from core.errors import ClusterError
from core.runtime import run_blocking
from harness.brokers.admin import features
from harness.brokers.admin.features import Levels
from harness.containers.nodes import NodeContainer
from harness.kafka import images, nodes
from harness.kafka.kraft import KRaft
from harness.kafka.system import KAFKA
from harness.kafka.two_versions import TwoVersionCluster

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container


class Sdk:
    """A container of the SDK that takes files."""

    name = "planted"

    def __init__(self) -> None:
        self.up = False
        self.files: dict[str, str] = {}

    def reload(self) -> None:
        """Nothing changes."""

    @property
    def attrs(self) -> dict[str, dict[str, object]]:
        return {"State": {"Running": self.up}}

    def put_archive(self, folder: str, data: bytes) -> bool:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                content = archive.extractfile(member)
                assert content is not None
                self.files[f"{folder}/{member.name}"] = content.read().decode()
        return True


class Ended(NodeContainer):
    """A node whose container is no engine's."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.sdk = Sdk()

    @property
    def own(self) -> "Container":
        return cast("Container", self.sdk)


def configured(upgrade: str = "4.4.0", **settings: object) -> RunConfig:
    return run_config({"seed": 1, "kafka": "4.1.2", "upgrade": upgrade, **settings})


@pytest.fixture
def planted(tmp_path: Path) -> Iterator[tuple[TwoVersionCluster, dict[int, Ended]]]:
    config = configured()
    made = {number: Ended(number) for number in (1, 2, 3)}
    cluster = TwoVersionCluster(config, tmp_path, KRaft(config, tmp_path))
    cluster._containers = dict(made)
    yield cluster, made
    run_blocking(cluster.stop())  # it has reserved ports


def test_a_node_starts_the_version_that_its_file_names(
    planted: tuple[TwoVersionCluster, dict[int, Ended]],
) -> None:
    cluster, made = planted
    run_blocking(cluster.install([1, 3], later=True))
    assert cluster.upgraded() == (1, 3)
    later = {images.HOME: "/opt/upgrade"}
    assert [node.sdk.files for node in made.values()] == [later, {}, later]
    run_blocking(cluster.install([3], later=False))
    assert (cluster.upgraded(), made[3].sdk.files) == ((1,), {images.HOME: "/opt/kafka"})


def test_a_node_that_runs_keeps_its_version(planted: tuple[TwoVersionCluster, dict[int, Ended]]) -> None:
    cluster, made = planted
    made[2].sdk.up = True
    with pytest.raises(ClusterError, match="node 2 runs"):
        run_blocking(cluster.install([2], later=True))
    assert (cluster.upgraded(), made[2].sdk.files) == ((), {})


def test_no_node_goes_back_once_features_may_have_been_raised(
    planted: tuple[TwoVersionCluster, dict[int, Ended]],
) -> None:
    """Nobody answers here: whether they were raised is not known."""
    cluster, made = planted
    run_blocking(cluster.install([1], later=True))
    with pytest.raises(ClusterError, match=r"brokers \[1, 2, 3\] do not say which features they support"):
        run_blocking(cluster.raise_features())
    with pytest.raises(ClusterError, match=r"nodes \[1\] cannot go back"):
        run_blocking(cluster.install([1], later=False))
    assert made[1].sdk.files == {images.HOME: "/opt/upgrade"}
    assert run_blocking(cluster.lagging_voters()) == (1, 2, 3)


def test_only_a_run_with_two_versions_can_be_upgraded() -> None:
    assert Upgradable in KAFKA.capabilities(configured())
    assert Upgradable not in KAFKA.capabilities(configured(""))
    assert DirectoryFailable not in KAFKA.capabilities(configured())
    assert VotersChangeable not in KAFKA.capabilities(configured())
    others = frozenset(KAFKA.capabilities(configured("", log_dirs=2, disk_mb=128, quorum="dynamic")))
    assert capabilities_of(TwoVersionCluster) == others | {Upgradable}


def test_images_of_both_versions_are_made_before_that_of_the_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    client = cast("DockerClient", object())
    monkeypatch.setattr(images, "exists", lambda _, tag: tag in made)
    monkeypatch.setattr(images, "jars", lambda version: tmp_path / version)
    monkeypatch.setattr(images, "ensure_base", lambda _: "base")
    monkeypatch.setattr(images, "build", lambda _, tag, *__: made.append(tag))
    tag = nodes.KafkaNodes.image(KRaft(configured(), tmp_path), client)
    assert [one.rpartition("-")[0] for one in made] == [
        "inquest-kafka:4.1.2",
        "inquest-kafka:4.4.0",
        "inquest-upgrade:4.1.2-4.4.0",
    ]
    assert (tag, images.ensure_pair(client, "4.1.2", "4.4.0")) == (made[2], made[2])
    assert len(made) == 3


# ---- features


def said(supported: int, finalized: int) -> Levels:
    return Levels({"metadata.version": supported, "transaction.version": 2}, {"metadata.version": finalized})


def test_each_feature_rises_to_what_all_brokers_support(
    planted: tuple[TwoVersionCluster, dict[int, Ended]], monkeypatch: pytest.MonkeyPatch
) -> None:
    risen: list[tuple[str, int]] = []
    monkeypatch.setattr(features, "_raise", lambda _, feature, level: risen.append((feature, level)))
    monkeypatch.setattr(features, "levels", lambda _: {1: said(31, 25), 2: said(30, 25), 3: said(31, 25)})
    found = run_blocking(planted[0].raise_features())
    assert found == {"metadata.version": (25, 30), "transaction.version": (0, 2)}
    assert risen == [("metadata.version", 30), ("transaction.version", 2)]
    monkeypatch.setattr(features, "levels", lambda _: {1: said(31, 25), 2: said(30, 25)})
    with pytest.raises(ClusterError, match=r"brokers \[3\] do not say"):
        run_blocking(planted[0].raise_features())
