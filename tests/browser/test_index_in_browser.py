"""The index of a results folder as a reader meets it: in Chromium, wide, narrow, dark, without script."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.nights.page import build
from harness.soak.serve import server
from tests.browser.devtools import Browser, Page, opened
from tests.harness.nights.made_sessions import by_hand, hostile, many

pytestmark = pytest.mark.browser
HOSTILE = "<script>document.title=1</script>\"'&<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six sessions and a run made by hand, whose report is there."""
    folder = tmp_path_factory.mktemp("sessions")
    many(folder)
    by_hand(folder)
    build(folder)
    return folder


@pytest.fixture(scope="module")
def page(browser: Browser, results: Path) -> Iterator[Page]:
    with opened(browser, results / "index.html") as opened_page:
        yield opened_page


def visible(page: Page, selector: str) -> bool:
    found: bool = page.ask(f"!!document.querySelector({selector!r})?.checkVisibility()")
    return found


def shown(page: Page) -> int:
    """Rows of runs that are to be seen."""
    count: int = page.ask(
        "[...document.querySelectorAll('#run-rows > tr')].filter((r) => r.checkVisibility()).length"
    )
    return count


def choose(page: Page, name: str, value: str) -> None:
    """Choose in a filter, as a person does."""
    page.ask(
        f"(() => {{ const s = document.querySelector('select[name={name}]'); s.value = {value!r};"
        " s.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )


def values(page: Page, name: str) -> set[str]:
    """Values of a column among the rows that are to be seen."""
    found: list[str] = page.ask(
        "[...document.querySelectorAll('#run-rows > tr')].filter((r) => r.checkVisibility())"
        f".map((r) => r.dataset.{name})"
    )
    return set(found)


def test_it_opens_without_complaint_and_asks_for_nothing(page: Page) -> None:
    assert page.complaints() == []
    assert page.requests() == []
    assert "open finding" in page.ask("document.querySelector('h1').innerText")
    assert visible(page, "#finding-rows tr")
    assert visible(page, "#fault-rows tr")
    assert visible(page, "#trend svg rect")
    assert page.ask("document.querySelectorAll('#session-rows tr').length") == 6


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("workload", "groups"),
        ("nemesis", "kill"),
        ("preset", "safe"),
        ("word", "anomaly"),
        ("system", "Kafka 4.3.1"),
        ("session", "20260303T220000Z"),
        ("session", "-"),
    ],
)
def test_each_filter_shows_its_rows_only(page: Page, name: str, value: str) -> None:
    page.ask("document.querySelector('#all').click()")
    whole = shown(page)
    assert whole == 151
    choose(page, name, value)
    assert values(page, name) == {value}
    expected = page.ask(
        f"[...document.querySelectorAll('#run-rows > tr')].filter((r) => r.dataset.{name} === "
        f"{value!r}).length"
    )
    assert 0 < shown(page) == expected < whole
    assert page.ask("document.querySelector('#shown').textContent") == f"{expected} of 151 runs"
    page.ask("document.querySelector('#all').click()")
    assert shown(page) == whole


def test_filters_work_together_and_say_where_nothing_is_left(page: Page) -> None:
    choose(page, "workload", "groups")
    choose(page, "word", "anomaly")
    assert values(page, "workload") == {"groups"}
    assert values(page, "word") == {"anomaly"}
    choose(page, "session", "20260301T220000Z")
    assert shown(page) == 0
    assert visible(page, "#no-runs")
    page.ask("document.querySelector('#all').click()")
    assert not visible(page, "#no-runs")


def test_an_address_with_filters_opens_filtered(browser: Browser, results: Path) -> None:
    with opened(browser, results / "index.html") as one:
        choose(one, "workload", "groups")
        address = one.ask("location.href")
        assert "workload=groups" in address
        one.call("Page.navigate", url="about:blank")
        one.until("location.href === 'about:blank'")
        one.call("Page.navigate", url=address)
        one.until("document.documentElement?.dataset.ready")
        assert values(one, "workload") == {"groups"}


def test_every_link_leads_to_a_file(page: Page, results: Path) -> None:
    links = page.ask("[...document.querySelectorAll('main a')].map((a) => a.getAttribute('href'))")
    assert links
    assert all((results / link).is_file() for link in links)
    assert "./20260301T101500Z-queue-kill-42/report.html" in links


@pytest.mark.parametrize("width", [390, 800, 1280, 1920])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_never_wider_than_its_window(browser: Browser, results: Path, width: int, scheme: str) -> None:
    with opened(browser, results / "index.html", width=width, scheme=scheme) as one:
        assert one.ask("document.documentElement.scrollWidth") <= width
        back, ink = one.ask(
            "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
        )
        assert back != ink


@pytest.mark.parametrize("width", [1280, 1440])
def test_on_a_wide_screen_no_table_is_cut(browser: Browser, results: Path, width: int) -> None:
    with opened(browser, results / "index.html", width=width) as one:
        cut = one.ask(
            "[...document.querySelectorAll('.scroll')].filter((s) => s.scrollWidth > s.clientWidth + 1)"
            ".map((s) => s.getAttribute('aria-label'))"
        )
        assert cut == []


@pytest.mark.parametrize("width", [390, 1280])
def test_no_word_is_broken(browser: Browser, results: Path, width: int) -> None:
    """A word has one line: a range over it has one rectangle, or several of the same height."""
    with opened(browser, results / "index.html", width=width) as one:
        broken = one.ask("""(() => {
          const found = [];
          const lines = (range) => new Set([...range.getClientRects()].map((r) => Math.round(r.top))).size;
          const walk = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
          while (walk.nextNode()) {
            const node = walk.currentNode;
            if (!node.parentElement.checkVisibility() || node.parentElement.closest('svg')) continue;
            for (const word of node.data.matchAll(/[^\\s,]+/g)) {
              const range = document.createRange();
              range.setStart(node, word.index); range.setEnd(node, word.index + word[0].length);
              if (lines(range) > 1) found.push(word[0]);
            }
          }
          return found;
        })()""")
        assert broken == []


def test_a_card_shows_the_run_in_small(page: Page) -> None:
    assert visible(page, "#cards .card .strip svg rect.damage")
    colours = page.ask("getComputedStyle(document.querySelector('#cards rect.damage')).fill")
    assert colours != "rgb(0, 0, 0)"
    inside = page.ask("""[...document.querySelectorAll('.card')].every((card) =>
        [...card.querySelectorAll('svg, h3')].every((part) =>
            part.getBoundingClientRect().right <= card.getBoundingClientRect().right))""")
    assert inside


def test_without_scripts_everything_is_there_but_the_filters(browser: Browser, results: Path) -> None:
    with opened(browser, results / "index.html", script=False) as one:
        assert not visible(one, "#filters")
        assert not visible(one, "#theme")
        assert visible(one, "#run-rows tr")
        assert visible(one, "#trend svg rect")


def test_the_theme_button_changes_the_theme(browser: Browser, results: Path) -> None:
    with opened(browser, results / "index.html") as one:
        before = one.ask("getComputedStyle(document.body).backgroundColor")
        one.ask("document.querySelector('#theme').click()")
        assert one.ask("getComputedStyle(document.body).backgroundColor") != before


def test_names_that_are_markup_stay_text(browser: Browser, tmp_path: Path) -> None:
    hostile(tmp_path, HOSTILE)
    by_hand(tmp_path, "20260301T101500Z-<b>&'x")
    build(tmp_path)
    with opened(browser, tmp_path / "index.html") as one:
        assert one.complaints() == []
        assert one.ask("document.querySelectorAll('img, #run-rows b').length") == 0
        choose(one, "workload", HOSTILE)
        assert values(one, "workload") == {HOSTILE}
        links = one.ask("[...document.querySelectorAll('main a')].map((a) => a.href)")
        assert all(link.startswith(tmp_path.as_uri()) for link in links)


def test_it_opens_the_same_from_the_server(browser: Browser, results: Path) -> None:
    with server(results, 0) as serving:
        thread = threading.Thread(target=serving.serve_forever, args=(0.02,))
        thread.start()
        try:
            address = f"http://127.0.0.1:{serving.server_port}/"
            with opened(browser, results / "index.html") as one:
                one.call("Page.navigate", url=address)
                one.until(f"location.href === {address!r} && document.documentElement?.dataset.ready")
                assert shown(one) == 151
                choose(one, "nemesis", "kill")
                assert values(one, "nemesis") == {"kill"}
                assert [line for line in one.complaints() if "Security Policy" in line] == []
        finally:
            serving.shutdown()
            thread.join()


def test_the_trend_has_the_colours_of_what_was_found(page: Page) -> None:
    colours = page.ask("""Object.fromEntries(['t-bad', 't-known', 't-good', 't-plain'].map((name) =>
        [name, getComputedStyle(document.querySelector(`.trend rect.${name}`)).fill]))""")
    assert len(set(colours.values())) == 4
    assert "rgb(0, 0, 0)" not in colours.values()
