"""docs/pytest.md names the faults that have to be named when a cluster is made."""

from pathlib import Path

from harness.guided.main import BEFORE
from nemesis.registry import NEMESES


def test_the_faults_that_need_proxies_are_named() -> None:
    proxied = {
        name
        for name, nemesis in NEMESES.items()
        if any(need in BEFORE for kind in nemesis.kinds.values() for need in (*nemesis.needs, *kind.needs))
    }
    said = Path("docs/pytest.md").read_text().partition("need proxies before the brokers (")[2]
    assert {word.strip("`") for word in said.partition(")")[0].split(", ")} == proxied
