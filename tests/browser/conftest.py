"""One browser and one set of reports for all tests here."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.report import build
from tests.browser.devtools import Browser, Page, chromium
from tests.histories.report_findings import FOLDERS


class Shelf:
    """Pages that tests share: they look, and change nothing that another one looks at."""

    def __init__(self, browser: Browser, reports: dict[str, Path]) -> None:
        self.browser = browser
        self._reports = reports
        self._pages: dict[str, Page] = {}

    @contextlib.contextmanager
    def page(self, name: str) -> Iterator[Page]:
        """The report of a fixture, 1280 pixels wide and light."""
        if name not in self._pages:
            self._pages[name] = Page(self.browser, self._reports[name], 1280, "light", True)
        yield self._pages[name]


@pytest.fixture(scope="session")
def shelf(browser: Browser, reports: dict[str, Path]) -> Shelf:
    return Shelf(browser, reports)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = chromium()
    if program is None:
        pytest.fail("no Chromium on this machine: install it, or deselect with -m 'not browser'")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, Path(profile))
        try:
            yield browser
        finally:
            browser.close()


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    return {name: build(make().write(folder / name)) for name, make in FOLDERS.items()}
