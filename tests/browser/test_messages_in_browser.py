"""Messages and states of a simulated run in Chromium: wide, narrow, light and dark."""

from pathlib import Path

import pytest

from harness.report import build
from tests.browser.devtools import Browser, Page, opened
from tests.histories.traced import losing, recorded

pytestmark = pytest.mark.browser

OPEN = "document.querySelectorAll('details').forEach((d) => { d.open = true; })"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(recorded(tmp_path_factory.mktemp("traced") / "run", losing()))


def overlapping(page: Page, selector: str) -> int:
    """How many such elements of one drawing cover another one."""
    found: int = page.ask(f"""[...document.querySelectorAll('#messages .scroll > svg')].map((svg) => {{
        const boxes = [...svg.querySelectorAll({selector!r})].map((e) => e.getBoundingClientRect());
        return boxes.filter((a, n) => boxes.slice(n + 1).some((b) =>
            a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1
        )).length;
    }}).reduce((a, b) => a + b, 0)""")
    return found


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light")])
def test_it_is_drawn_legibly(width: int, scheme: str, browser: Browser, report: Path) -> None:
    with opened(browser, report, width=width, scheme=scheme) as page:
        page.ask(OPEN)
        assert page.complaints() == []
        assert page.requests() == []
        assert page.ask("document.documentElement.scrollWidth") <= width
        assert page.ask("document.querySelectorAll('#messages .message .head').length") > 50
        for selector in (".row .words", ".row .time", ".dot circle", ".lane-names text"):
            assert page.ask(f"document.querySelectorAll('#messages {selector}').length") > 5
            assert overlapping(page, selector) == 0, selector
        beyond = page.ask("""[...document.querySelectorAll('#messages .scroll > svg')].flatMap((svg) =>
            [...svg.querySelectorAll('text')].filter((text) =>
                text.getBoundingClientRect().right > svg.getBoundingClientRect().right + 1
            ).map((text) => text.textContent))""")
        assert beyond == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_its_colours_stand_out(scheme: str, browser: Browser, report: Path) -> None:
    """Lines of messages by at least 3:1, words by 4.5:1 (WCAG)."""
    with opened(browser, report, scheme=scheme) as page:
        page.ask(OPEN)
        least = page.ask("""(() => {
            const light = (colour) => colour.match(/[0-9.]+/g).slice(0, 3).map((c) => c / 255)
                .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
                .reduce((sum, c, n) => sum + c * [0.2126, 0.7152, 0.0722][n], 0);
            const ground = light(getComputedStyle(document.body).backgroundColor);
            const contrast = (colour) => {
                const [a, b] = [light(colour), ground].sort((x, y) => y - x);
                return (a + 0.05) / (b + 0.05);
            };
            const of = (selector, property) => Math.min(
                ...[...document.querySelectorAll(`#messages ${selector}`)]
                    .map((e) => contrast(getComputedStyle(e)[property])));
            return { lines: of('.message .line', 'stroke'), words: of('.row text', 'fill') };
        })()""")
        assert least["lines"] >= 3
        assert least["words"] >= 4.5


def test_a_message_tells_everything_and_a_finding_leads_here(browser: Browser, report: Path) -> None:
    with opened(browser, report, width=1280) as page:
        title = page.ask("document.querySelector('#messages .message title').textContent")
        assert " s, " in title
        assert page.ask("getComputedStyle(document.querySelector('.touch')).pointerEvents") == ("stroke")
        page.ask("document.querySelector('#anomalies a[href^=\"#messages-\"]').click()")
        page.until("location.hash.startsWith('#messages-')")
        shown = page.ask("document.querySelector(location.hash).getBoundingClientRect().top < innerHeight")
        assert shown
