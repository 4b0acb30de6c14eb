"""What the file of a cluster, and the cluster, say of a run's config."""

from pathlib import Path
from typing import Any

import pytest

from core.cluster import Address
from harness.containers import engine
from harness.external import named
from harness.external.file import read, secured
from harness.external.nodes import Means
from harness.external.survey import DEFAULTS, Survey


def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str = "") -> dict[str, Any]:
    """Of a cluster of two brokers with Kafka's defaults."""
    path = tmp_path / "cluster.toml"
    path.write_text(f'[cluster]\nbootstrap = "here:9092"\n{more}')
    file = read(path)
    brokers = {node: Address("here", 9090 + node) for node in (1, 2)}
    found = Survey(cluster="id", brokers=brokers, settings=DEFAULTS)
    reached = named.Reached(file, secured(file), found, (1, 2), Means(names=file.cluster.docker))
    monkeypatch.setattr(named, "reach", lambda: reached)
    return named.settings()


@pytest.mark.parametrize(
    ("more", "here", "one"),
    [
        ('docker = { 1 = "a", 2 = "b" }', True, True),
        ('docker = { 1 = "a", 2 = "b" }', False, False),
        ('nodes = { 1 = "a", 2 = "b" }', True, False),
        ("", True, False),
    ],
)
def test_nodes_have_one_clock_where_they_are_containers_of_this_machine(
    more: str, here: bool, one: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "of_this_machine", lambda: here)
    assert said(tmp_path, monkeypatch, more)["external"]["one_clock"] is one
