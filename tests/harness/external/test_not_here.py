"""docs/external.md names the faults that no cluster of the user's can have, whatever its hooks."""

import re
from pathlib import Path

import pytest

from core.config import run_config
from core.extensions import CLUSTER
from core.load_clients import Clients
from harness.external.hooks import PAIRS
from harness.external.system import capabilities
from nemesis.registry import NEMESES


def test_the_page_names_what_has_no_hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hooks = {hook for pair in PAIRS.values() for hook in pair}
    file = tmp_path / "kafka.toml"
    lines = ["[cluster]", 'bootstrap = "127.0.0.1:9092"', 'nodes = { 1 = "one" }', "[hooks]"]
    file.write_text("\n".join([*lines, *(f'{hook} = "true"' for hook in sorted(hooks))]))
    monkeypatch.setenv(CLUSTER, str(file))
    has = capabilities(run_config({"seed": 1})) | {Clients}
    never = {
        name
        for name, nemesis in NEMESES.items()
        if nemesis.kinds and not any({*nemesis.needs, *kind.needs} <= has for kind in nemesis.kinds.values())
    }
    (line,) = re.findall(r"\*\*Not here:\*\* (.*)", Path("docs/external.md").read_text())
    assert set(re.findall(r"`([a-z-]+)`", line)) == never
