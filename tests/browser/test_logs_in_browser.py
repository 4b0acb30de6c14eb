"""The section about brokers' logs as a reader meets it: wide, narrow, dark."""

from pathlib import Path

import pytest

from harness.report import build
from tests.browser.devtools import Browser, opened
from tests.harness.report.test_replica_logs import folder, logs, place

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(folder(tmp_path_factory.mktemp("logs") / "run", logs(place(), place(offset=18))))


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "light"), (1280, "dark")])
def test_a_refused_place_is_shown_with_the_copies_around_it(
    width: int, scheme: str, browser: Browser, report: Path
) -> None:
    with opened(browser, report, width=width, scheme=scheme) as page:
        page.ask("document.querySelectorAll('#logs details').forEach((d) => { d.open = true; })")
        assert page.ask("document.querySelectorAll('#logs tr.here').length") == 3
        assert page.ask("document.documentElement.scrollWidth") <= width
        rows = "document.querySelector('#place-1 table.log').getBoundingClientRect()"
        assert page.ask(f"{rows}.width > 200 && {rows}.height > 200")
        page.ask("document.querySelector('#place-1 a').click()")
        assert page.ask("location.hash") == "#rule-replicas-alike"
        assert page.complaints() == []
