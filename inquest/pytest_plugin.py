"""The fixture `inquest_cluster` for tests of other programs (docs/pytest.md)."""

from collections.abc import Iterator
from contextlib import ExitStack
from difflib import get_close_matches
from typing import TYPE_CHECKING

import pytest

from core.presets import NamedSettings

if TYPE_CHECKING:
    from harness.guided.cluster import GuidedCluster

OPTIONS = {
    "sut": "kafka (in containers, default), model (no Docker) or external (with --inquest-cluster)",
    "kafka": "version of Kafka",
    "cluster": "TOML file of a cluster that you have (docs/external.md)",
    "results": "folder for run folders (default: results)",
    "engine": "what judges: process (default) or spark",
}
KEYWORDS = {"cluster": "file"}
"""Options whose keyword of `cluster` has another name."""
OF_CLUSTER = ("sut", "file", "owned")
ENGINES = ("process", "spark")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options."""
    group = parser.getgroup("inquest", "a Kafka cluster under faults")
    for name, text in OPTIONS.items():
        group.addoption(f"--inquest-{name}", default=None, help=text)
    group.addoption("--inquest-owned", action="store_true", help="that cluster is yours to break")
    group.addoption("--inquest-set", action="append", default=[], help="any setting as name=value")


def pytest_configure(config: pytest.Config) -> None:
    """The marker; wrong options are refused here, once. Raises: pytest.UsageError."""
    config.addinivalue_line("markers", "inquest(**settings): settings of the test's cluster (docs/pytest.md)")
    if config.getoption("--inquest-sut"):
        from core.systems import served  # other programs' tests need not wait for it

        _refuse_unknown(config, "--inquest-sut", served())
    if config.getoption("--inquest-engine"):
        _refuse_unknown(config, "--inquest-engine", ENGINES)
    _settings(config)


def _refuse_unknown(config: pytest.Config, option: str, known: tuple[str, ...]) -> None:
    given = config.getoption(option)
    if given not in known:
        near = "".join(f"; did you mean {name!r}?" for name in get_close_matches(given, known, 1))
        raise pytest.UsageError(f"{option} {given}: {', '.join(known[:-1])} or {known[-1]}{near}")


def _settings(config: pytest.Config) -> NamedSettings:
    """Those of `--inquest-set`. Raises: pytest.UsageError."""
    if not (given := config.getoption("--inquest-set")):
        return {}
    from core.errors import UsageError
    from harness.cli.settings import setting

    try:
        return dict(map(setting, given))
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None


@pytest.fixture
def inquest_cluster(request: pytest.FixtureRequest) -> "Iterator[GuidedCluster]":
    """A cluster under load, for this test alone: `bootstrap`, `faults(nemesis, seed=…)`, `judge()`."""
    from core.errors import InquestError
    from harness.guided.cluster import cluster

    def given(name: str) -> str | None:
        found: str | None = request.config.getoption(f"--inquest-{name}")
        return found

    keywords = {KEYWORDS.get(name, name): found for name in OPTIONS if (found := given(name))}
    owned = {"owned": True} if request.config.getoption("--inquest-owned") else {}
    options = _settings(request.config) | keywords | owned
    settings: NamedSettings = {}
    for mark in reversed(list(request.node.iter_markers("inquest"))):  # the nearest one last
        if mark.args:
            raise pytest.UsageError(
                f"marker inquest: {mark.args[0]!r} has no name; write name={mark.args[0]!r}"
            )
        settings = _over(settings, dict(mark.kwargs))
    with ExitStack() as held:
        try:
            made = held.enter_context(cluster(**_over(settings, options)))
        except InquestError as error:
            pytest.fail(f"inquest: {error}", pytrace=False)
        request.node.add_report_section("setup", "inquest", f"recorded in {made.folder}")
        yield made


def _over(settings: NamedSettings, nearer: NamedSettings) -> NamedSettings:
    """These settings, and nearer ones over them: where those name a system or a cluster, what was said of
    another one does not count."""
    named = "file" in nearer or nearer.get("sut", "external") != "external"
    kept = {name: value for name, value in settings.items() if not (named and name in OF_CLUSTER)}
    return kept | nearer
