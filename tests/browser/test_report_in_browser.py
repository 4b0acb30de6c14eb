"""The report as a reader meets it: in Chromium, with and without scripts, wide, narrow and dark."""

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Shelf
from tests.browser.devtools import Browser, Page, opened
from tests.browser.report_findings import HOSTILE

pytestmark = pytest.mark.browser

DRAWN = ("clean", "anomalous", "hostile", "interrupted", "transactional")


def visible(page: Page, selector: str) -> bool:
    """Whether the first such element is there and takes room on the page."""
    found: bool = page.ask(f"!!document.querySelector({selector!r})?.checkVisibility()")
    return found


def text(page: Page, selector: str) -> str:
    """Text of the first such element, as it is shown."""
    found: str = page.ask(f"document.querySelector({selector!r}).innerText")
    return found


@pytest.mark.parametrize("name", DRAWN)
def test_charts_are_drawn_without_complaint(name: str, shelf: Shelf) -> None:
    with shelf.page(name) as page:
        assert page.ask("document.documentElement.dataset.charts") == "drawn"
        assert page.complaints() == []
        assert page.requests() == []
        assert page.ask("document.querySelectorAll('#chart-rates .scatterlayer .trace').length") > 5
        assert page.ask("document.querySelectorAll('#chart-lanes .bars .point').length") > 5
        assert visible(page, "#chart-rates svg")
        assert not visible(page, ".strips .drawing")
        assert not visible(page, "#chart-problem")


def test_a_run_without_data_has_a_page_without_charts(shelf: Shelf) -> None:
    with shelf.page("empty") as page:
        assert page.complaints() == []
        assert "Unknown" in text(page, "h1")
        assert "The run recorded nothing that could be drawn." in text(page, "#timeline")
        assert not visible(page, ".charts")


WORDS = {"clean": "✓ Valid", "anomalous": "✕ Anomaly", "interrupted": "? Unknown", "empty": "? Unknown"}


@pytest.mark.parametrize("name", WORDS)
def test_verdict_and_witness_need_no_script(name: str, browser: Browser, reports: dict[str, Path]) -> None:
    with opened(browser, reports[name], script=False) as page:
        assert text(page, "h1") == WORDS[name]
        assert visible(page, ".summary")
        assert visible(page, "#repro")
        for enhancement in ("#theme", "#copy", ".charts", "#chart-problem"):
            assert not visible(page, enhancement)
        if name != "empty":
            assert visible(page, ".strips .drawing svg path")
        if name == "anomalous":
            assert "send queue-3 value 4/1207 -> offset 5512" in text(page, "details[open] table")
            assert visible(page, "details[open] .drawing svg rect")
            assert not visible(page, "details:not([open]) table")
            page.ask("document.querySelector('#anomaly-1 details:not([open]) summary').focus()")
            page.press("Enter")
            page.until("document.querySelectorAll('#anomaly-1 details[open]').length === 2")


@pytest.mark.parametrize("name", ["anomalous", "hostile", "empty"])
def test_no_page_is_wider_than_its_window(name: str, browser: Browser, reports: dict[str, Path]) -> None:
    with opened(browser, reports[name], width=390) as page:
        page.ask("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        for width in (390, 320, 1280):
            page.resize(width)
            if name != "empty":
                chart = "document.querySelector('#chart-rates svg').getBoundingClientRect()"
                page.until(f"{chart}.right <= {width} && {chart}.width > {0.75 * width}")
            assert page.ask("document.documentElement.scrollWidth") <= width


def channels(colour: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", colour)[:3]]


def look(page: Page) -> dict[str, Any]:
    """Colours as they came out: page, words, words in the charts."""
    found: dict[str, Any] = page.ask("""({
        page: getComputedStyle(document.body).backgroundColor,
        words: getComputedStyle(document.body).color,
        chart: getComputedStyle(document.querySelector('#chart-rates .annotation-text')).fill,
    })""")
    return {name: sum(channels(colour)) / 3 for name, colour in found.items()}


def test_dark_and_light_by_preference_and_by_button(browser: Browser, reports: dict[str, Path]) -> None:
    with opened(browser, reports["anomalous"], scheme="dark") as page:
        dark = look(page)
        assert dark["page"] < 40 < 200 < min(dark["words"], dark["chart"])
        assert text(page, "#theme") == "Light theme"
        page.ask("document.querySelector('#theme').click()")
        page.until(f"({CHART_INK}) < 80")
        light = look(page)
        assert light["page"] > 240
        assert max(light["words"], light["chart"]) < 60
        assert text(page, "#theme") == "Dark theme"
        page.call("Page.reload")
        page.until("document.documentElement?.dataset.charts === 'drawn'")
        assert look(page) == light, "the choice is kept"
        page.ask("localStorage.clear()")
        page.ask("delete document.documentElement.dataset.theme")
        for scheme, inky in (("light", "< 80"), ("dark", "> 200")):
            page.media(scheme)
            page.until(f"({CHART_INK}) {inky}")
        assert page.complaints() == []


CHART_INK = (
    "Number(getComputedStyle(document.querySelector('#chart-rates .annotation-text'))"
    ".fill.match(/[0-9]+/)[0])"
)


def test_the_keyboard_reaches_everything(browser: Browser, reports: dict[str, Path]) -> None:
    with opened(browser, reports["anomalous"]) as page:
        page.press("Tab")
        assert text(page, ":focus") == "Skip to the verdict"
        assert page.ask("document.activeElement.getBoundingClientRect().top") >= 0, "it comes in"
        assert page.ask("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        page.press("Enter")
        page.until("document.activeElement.id === 'main'")
        page.press("Tab")
        assert page.ask("document.activeElement.closest('main') !== null")
        reached = page.ask("""[...document.querySelectorAll('summary, a[href], button, .scroll, pre')]
            .filter((element) => element.checkVisibility())
            .every((element) => { element.focus(); return document.activeElement === element; })""")
        assert reached
        page.ask("document.querySelector('#anomaly-3 summary').focus()")
        page.press("Enter")
        page.until("document.querySelector('#anomaly-3 details').open")


def test_headings_tables_and_regions_have_names(shelf: Shelf) -> None:
    with shelf.page("anomalous") as page:
        levels = page.ask("[...document.querySelectorAll('h1,h2,h3,h4')].map((h) => Number(h.tagName[1]))")
        assert levels.count(1) == 1
        assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
        nameless = page.ask("""[...document.querySelectorAll('section, [role=region], [role=img], nav')]
            .filter((e) => !e.ariaLabel && !document.getElementById(e.getAttribute('aria-labelledby')))
            .length""")
        assert nameless == 0
        assert page.ask("[...document.querySelectorAll('table')].every((t) => t.querySelector('th'))")
        ids = page.ask("[...document.querySelectorAll('[id]')].map((e) => e.id)")
        assert len(ids) == len(set(ids))
        broken = page.ask("""[...document.querySelectorAll('a[href^="#"]')]
            .filter((a) => !document.getElementById(a.hash.slice(1))).map((a) => a.hash)""")
        assert broken == []


def hover(page: Page, chart: str, right: int, down: int) -> None:
    """Move the mouse to a point of a chart, coming from beside it."""
    left, top = page.ask(f"""(() => {{
        document.querySelector({chart!r}).scrollIntoView({{ block: 'center' }});
        const box = document.querySelector({chart!r}).getBoundingClientRect();
        return [box.left, box.top];
    }})()""")
    for step in (1, 0):
        page.call("Input.dispatchMouseEvent", type="mouseMoved", x=left + right + step, y=top + down)


def test_hovering_tells_the_numbers_of_all_panels(shelf: Shelf) -> None:
    with shelf.page("anomalous") as page:
        hover(page, "#chart-rates", 560, 90)
        page.until("document.querySelector('#chart-rates .hoverlayer')?.textContent.includes('p99')")
        label = page.ask("document.querySelector('#chart-rates .hoverlayer').textContent")
        for part in ("written", "read", "send", "/s", " ms"):
            assert part in label


def test_hovering_tells_what_a_fault_was(shelf: Shelf) -> None:
    with shelf.page("hostile") as page:
        hover(page, "#chart-lanes", 600, 36)
        page.until("document.querySelector('#chart-lanes .hoverlayer text') !== null")
        label = page.ask("document.querySelector('#chart-lanes .hoverlayer').textContent")
        assert "<script>alert(1)</script>" in label
        assert "57.00 s (13.00 s)" in label


def test_zooming_one_figure_moves_the_other(browser: Browser, reports: dict[str, Path]) -> None:
    with opened(browser, reports["clean"]) as page:
        ranges = "['lanes', 'rates'].map((n) => document.getElementById(`chart-${n}`).layout.xaxis.range)"
        before = page.ask(ranges)
        assert before[0] == before[1]
        page.ask("void Plotly.relayout('chart-rates', {'xaxis.range': [30, 40]})")
        page.until(f"JSON.stringify({ranges}) === '[[30,40],[30,40]]'")
        page.ask("void Plotly.relayout('chart-lanes', {'xaxis.autorange': true})")
        page.until(f"JSON.stringify({ranges}) === '{str(before).replace(' ', '')}'")


def test_markup_from_outside_does_nothing(shelf: Shelf) -> None:
    with shelf.page("hostile") as page:
        assert page.ask("document.querySelectorAll('body script').length") == 3
        assert page.ask("document.querySelectorAll('body b').length") == 0
        assert page.ask("document.querySelectorAll('a[href^=\"javascript\"], .charts a').length") == 0
        dialogs = [event for event in shelf.browser.events if "javascriptDialog" in event["method"]]
        assert dialogs == []
        assert text(page, ".summary").replace("\ufffd", "\x07") == f"{HOSTILE}."


def tampered(report: Path, folder: Path, old: str, new: str) -> Path:
    """A copy of a report with one thing changed."""
    page = report.read_text(encoding="utf-8")
    assert old in page
    path = folder / "tampered.html"
    path.write_text(page.replace(old, new, 1), encoding="utf-8")
    return path


def test_the_policy_stops_a_script_that_is_not_ours(
    browser: Browser, reports: dict[str, Path], tmp_path: Path
) -> None:
    planted = "<script>document.title = 'planted'</script><img src=x onerror='document.title=1'></main>"
    path = tampered(reports["clean"], tmp_path, "</main>", planted)
    with opened(browser, path) as page:
        assert page.ask("document.title").startswith("Valid")
        assert any("Content Security Policy" in line for line in page.complaints())


def test_charts_that_cannot_be_drawn_leave_the_plain_ones(
    browser: Browser, reports: dict[str, Path], tmp_path: Path
) -> None:
    path = tampered(reports["clean"], tmp_path, 'id="plotly">', 'id="plotly">AAAA')
    with opened(browser, path) as page:
        assert page.ask("document.documentElement.dataset.charts") == "failed"
        assert "could not be drawn" in text(page, "#chart-problem")
        assert visible(page, ".strips .drawing")
        assert not visible(page, ".charts")


def test_on_paper_everything_is_there(browser: Browser, reports: dict[str, Path]) -> None:
    with opened(browser, reports["anomalous"], scheme="dark") as page:
        page.media("dark", "print")
        assert visible(page, ".strips .drawing")
        assert not visible(page, ".charts")
        assert not visible(page, ".bar")
        assert sum(channels(page.ask("getComputedStyle(document.body).color"))) < 180
        page.ask("dispatchEvent(new Event('beforeprint'))")
        assert page.ask("[...document.querySelectorAll('details')].every((d) => d.open)")
        page.ask("dispatchEvent(new Event('afterprint'))")
        assert not page.ask("[...document.querySelectorAll('details')].every((d) => d.open)")


def test_a_link_to_a_folded_witness_opens_it(shelf: Shelf) -> None:
    with shelf.page("anomalous") as page:
        assert not page.ask("document.querySelector('#anomaly-1-5').open")
        page.ask("location.hash = '#anomaly-1-5'")
        page.until("document.querySelector('#anomaly-1-5').open")


def test_the_copy_button_answers(shelf: Shelf) -> None:
    with shelf.page("clean") as page:
        page.ask("document.querySelector('#copy').click()")
        page.until("['Copied', 'Selected'].includes(document.querySelector('#copy').textContent)")


def rows(page: Page, selector: str) -> list[list[str]]:
    """Cells of the body of the first such table, row by row."""
    found: list[list[str]] = page.ask(
        f"[...document.querySelector({selector!r}).tBodies[0].rows]"
        ".map((row) => [...row.cells].map((cell) => cell.textContent.trim()))"
    )
    return found


def test_the_cluster_is_drawn_and_told(shelf: Shelf) -> None:
    with shelf.page("anomalous") as page:
        bars = "document.querySelectorAll('#chart-cluster .bars .point').length"
        assert page.ask(bars) > 30
        lines = "document.querySelectorAll('#chart-ends .scatterlayer .trace').length"
        assert page.ask(lines) == 6 * 3 + 1
        assert "fewer in sync" in text(page, "#cluster .key")
        told = {row[0]: row[1:] for row in rows(page, "#cluster table")}
        assert len(told) == 6
        assert told["queue-3 has findings"][5] == "1 time", "its high watermark fell"
        assert told["queue-5"][6] == "90", "offsets above the last stable one"
        assert told["queue-4 has findings"][2].startswith("2 of 3")


def test_where_the_cluster_was_not_watched_it_is_said(shelf: Shelf) -> None:
    with shelf.page("empty") as page:
        assert "recorded no roles" in text(page, "#cluster")
        assert "no measurement" in text(page, "#liveness")
        assert not visible(page, "#cluster svg")


def test_the_log_around_a_lost_record_shows_what_took_its_place(shelf: Shelf) -> None:
    with shelf.page("anomalous") as page:
        told = rows(page, "#anomaly-1-1 table.log")
        here = [row for row in told if row[0].startswith("▸")]
        assert [(row[0], row[1], row[6]) for row in here] == [
            ("▸ 5512", "4/1207", "no consumer"),
            ("▸ 5512", "7/88", "RC 12; RU 13; final RC; final RU"),
        ]
        assert all("2 values at this offset" in row[7] for row in here)
        assert [row[0].lstrip("▸ ") for row in told][:3] == ["5504", "5505", "5506"]
        link = page.ask("document.querySelector('#anomaly-1-2 a').hash")
        assert link == "#anomaly-1-1", "the same part of the log is shown once"


def test_the_transactions_around_a_torn_one_are_drawn_and_told(shelf: Shelf) -> None:
    with shelf.page("anomalous") as page:
        marked = "document.querySelectorAll('#anomaly-2-1 rect.subject.txn-info').length"
        assert page.ask(marked) == 2, "the unknown transaction, in its lane and its partition's"
        assert page.ask("document.querySelectorAll('#anomaly-2-1 rect.txn-read').length") == 2
        witness = text(page, "#anomaly-2-1")
        assert "The finding’s transactions sent 3 records; the final reads returned 1 at" in witness
        assert "1 to queue-1, 1 to queue-4" in witness
        assert "the final reads returned no record here; it may hold a transaction marker" in witness


def test_a_hanging_transaction_is_shown_with_its_producer(shelf: Shelf) -> None:
    with shelf.page("transactional") as page:
        numbers = page.ask("""Object.fromEntries([...document.querySelectorAll('.anomaly h3 code')]
            .map((code) => [code.textContent, code.closest('article').id]))""")
        for name in ("hanging-txn", "stuck-lso"):
            witness = text(page, f"#{numbers[name]}-1")
            assert "producer id 2004, epoch 1, first offset 20" in witness
            assert "no coordinator claims it" in witness
            assert page.ask(f"document.querySelector('#{numbers[name]}-1 rect.subject') !== null")
            told = rows(page, f"#{numbers[name]}-1 table.log")
            assert [row[5] for row in told if row[0] == "▸ 20"] == ["transaction unknown"]
        copied = rows(page, f"#{numbers['eos-duplicate']}-1 table.log")
        assert [row[7] for row in copied if "▸" in row[0]] == ["copy of queue-2 offset 55"] * 2
        twice = rows(page, f"#{numbers['duplicate']}-1 table.log")
        assert [(row[0], row[7]) for row in twice if "▸" in row[0]] == [
            ("▸ 8", "also at 15"),
            ("▸ 15", "also at 8"),
        ]
        assert "acknowledged at 8" in next(row[5] for row in twice if row[0] == "▸ 15")
        unknown = text(page, f"#{numbers['lost-write']}-1")
        assert "log of" not in unknown, "the history has no such partition"


def test_a_clean_run_has_no_logs_and_no_transactions(shelf: Shelf) -> None:
    with shelf.page("clean") as page:
        assert page.ask("document.querySelectorAll('table.log, .txn-key').length") == 0
        assert visible(page, "#chart-cluster svg")
        assert "There was no stall" in text(page, "#liveness")
        assert len(rows(page, "#liveness table")) == 4


def test_liveness_tells_each_fault_and_each_stall(shelf: Shelf) -> None:
    with shelf.page("anomalous") as page:
        told = {row[1]: row[2:] for row in rows(page, "#liveness table")}
        assert told["partition:isolate@leader"] == ["5.20", "queue-3", "6.90", "1.40", "47"]
        assert told["pause:long@txn-coordinator"][3].startswith("not seen before")
        assert told["client:kill@mid-transaction"] == ["not measured"]
        assert text(page, "#liveness").count("whole run") == 2
        assert "For 13.0 % of the fault phase" in text(page, "#liveness")


def test_a_fault_of_a_client_is_told_by_its_clients(shelf: Shelf) -> None:
    with shelf.page("anomalous") as page:
        told = {row[1]: row[6:] for row in rows(page, "#faults table")}
        assert told["client:kill@mid-transaction"] == ["client 2", "not measured"]
        assert told["partition:isolate@leader"] == [
            "node 2",
            "3 of 7 records in flight; 1 of 2 transactions open (1 ending); 4 ops failed",
        ]
        names = page.ask("""[...document.querySelectorAll('#chart-lanes .bars text')]
            .map((text) => text.textContent)""")
        assert "client:kill@mid-transaction" in names
