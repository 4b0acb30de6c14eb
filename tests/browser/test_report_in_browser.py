"""The report as a reader meets it: in Chromium, with and without scripts, wide, narrow and dark."""

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Shelf
from tests.browser.devtools import Browser, Page, opened
from tests.histories.report_findings import HOSTILE

pytestmark = pytest.mark.browser

DRAWN = ("clean", "anomalous", "hostile", "interrupted", "transactional")


def visible(page: Page, selector: str) -> bool:
    """Whether the first such element is there and takes room on the page."""
    found: bool = page.ask(f"!!document.querySelector({selector!r})?.checkVisibility()")
    return found


def content(page: Page, selector: str) -> str:
    """Text of the first such element, folded parts and all."""
    found: str = page.ask(f"document.querySelector({selector!r}).textContent.replace(/\\s+/g, ' ')")
    return found


def text(page: Page, selector: str) -> str:
    """Text of the first such element, as it is shown."""
    found: str = page.ask(f"document.querySelector({selector!r}).innerText")
    return found


@pytest.mark.parametrize("name", DRAWN)
def test_the_run_is_drawn_without_complaint(name: str, shelf: Shelf) -> None:
    with shelf.page(name) as page:
        assert page.complaints() == []
        assert page.requests() == []
        assert page.ask("document.querySelectorAll('#timeline .line').length") > 5
        assert page.ask("document.querySelectorAll('#timeline .plot > svg > rect').length") > 5
        assert visible(page, "#timeline .panel svg path")


@pytest.mark.parametrize("width", [390, 1280])
def test_on_a_narrow_screen_names_of_faults_stay_in_their_bars(
    width: int, browser: Browser, reports: dict[str, Path]
) -> None:
    with opened(browser, reports["clean"], width=width) as page:
        beyond = page.ask("""[...document.querySelectorAll('#timeline .word.named')].map((word) => {
            const box = word.getBoundingClientRect();
            const bars = [...word.closest('.plot').querySelectorAll('rect.fault')];
            const lefts = bars.map((bar) => Math.abs(bar.getBoundingClientRect().left - box.left));
            return box.right - bars[lefts.indexOf(Math.min(...lefts))].getBoundingClientRect().right;
        })""")
        assert beyond
        assert (max(beyond) > 20) is (width == 1280)


@pytest.mark.parametrize(("width", "height", "screens"), [(1280, 800, 1), (390, 844, 2)])
@pytest.mark.parametrize("name", ["anomalous", "transactional"])
def test_the_first_finding_is_on_the_first_screen(
    name: str, width: int, height: int, screens: int, browser: Browser, reports: dict[str, Path]
) -> None:
    with opened(browser, reports[name], width=width) as page:
        bottom = page.ask("""(() => {
            const last = document.querySelector('.story table') ?? document.querySelector('.story > p');
            return scrollY + last.getBoundingClientRect().bottom;
        })()""")
        assert bottom <= screens * height
        if width > 1000:
            assert page.ask("document.documentElement.scrollHeight") <= 8000


def test_one_time_base_for_the_whole_page(browser: Browser, reports: dict[str, Path]) -> None:
    with opened(browser, reports["anomalous"]) as page:
        before = page.ask("[...document.querySelectorAll('time')].map((time) => time.textContent)")
        assert len(before) > 30
        ticks = "[...document.querySelectorAll('.tick')].map((tick) => tick.textContent)"
        run_ticks = page.ask(ticks)
        page.ask("document.querySelector('#clock').click()")
        clock = re.compile(r"1[0-1]:\d\d:\d\d(\.\d+)?")
        after = page.ask("[...document.querySelectorAll('time')].map((time) => time.textContent)")
        assert all(clock.fullmatch(text) for text in after)
        assert all(clock.fullmatch(text) for text in page.ask(ticks))
        seconds = page.ask("Number(document.querySelector('time').dataset.s)")
        hours, minutes, rest = after[0].split(":")
        assert int(hours) * 3600 + int(minutes) * 60 + float(rest) == pytest.approx(
            10 * 3600 + 15 * 60 + seconds, abs=0.01
        ), "the run began at 10:15:00 UTC"
        assert not visible(page, ".unit")
        mouse(page, "mouseMoved", place(page, "Records", 0.4))
        page.until("!document.querySelector('#timeline .now').hidden")
        assert clock.fullmatch(page.ask("document.querySelector('#timeline .now').textContent"))
        page.reload()
        assert page.ask("document.querySelector('#clock').textContent") == "Run seconds", "the choice is kept"
        page.ask("document.querySelector('#clock').click()")
        assert page.ask("[...document.querySelectorAll('time')].map((time) => time.textContent)") == before
        assert page.ask(ticks) == run_ticks
        assert page.complaints() == []


def test_the_clock_has_the_day_where_a_run_has_more_than_one(
    browser: Browser, reports: dict[str, Path]
) -> None:
    with opened(browser, reports["anomalous"]) as page:
        page.ask("document.documentElement.dataset.dated = ''")
        page.ask("document.querySelector('#clock').click()")
        after = page.ask("[...document.querySelectorAll('time, .tick')].map((time) => time.textContent)")
        clock = re.compile(r"03-01 1[0-1]:\d\d:\d\d(\.\d+)?")
        assert all(clock.fullmatch(text) for text in after)


def test_a_link_to_a_fault_opens_its_table(browser: Browser, reports: dict[str, Path]) -> None:
    with opened(browser, reports["anomalous"]) as page:
        assert not visible(page, "#faults table")
        page.ask("document.querySelector('.story a[href^=\"#fault-\"]').click()")
        page.until("document.querySelector('#faults details').open")
        assert not page.ask("document.querySelector('#anomaly-2 details').open")
        page.ask("document.querySelector('#found ~ * a[href=\"#anomaly-2\"]').click()")
        page.until("document.querySelector('#anomaly-2 details').open")


def test_a_run_without_data_has_a_page_without_drawings(shelf: Shelf) -> None:
    with shelf.page("empty") as page:
        assert page.complaints() == []
        assert "Unknown" in text(page, "h1")
        assert "The run recorded nothing that could be drawn." in text(page, "#timeline")
        assert not visible(page, ".drawing")


WORDS = {"clean": "✓ Valid", "anomalous": "✕ Anomaly", "interrupted": "? Unknown", "empty": "? Unknown"}


@pytest.mark.parametrize("name", WORDS)
def test_verdict_and_witness_need_no_script(name: str, browser: Browser, reports: dict[str, Path]) -> None:
    with opened(browser, reports[name], script=False) as page:
        assert text(page, "h1") == WORDS[name]
        assert visible(page, ".summary")
        assert visible(page, "#repeat pre")
        for enhancement in ("#theme", ".command > button", ".zooming", ".front"):
            assert not visible(page, enhancement)
        if name != "empty":
            assert visible(page, "#timeline .drawing svg path")
            assert "max" in text(page, "#timeline .panel .strip-note")
            assert " s" in text(page, "#timeline .ticks .tick")
        if name == "anomalous":
            assert "send queue-3 value 4/1207 -> offset 5512" in page.ask(
                "document.querySelector('#anomaly-1-1 table').textContent"
            )
            assert visible(page, "#story .drawing svg rect")
            assert not visible(page, "details:not([open]) table")
            page.ask("document.querySelector('#anomaly-1 details:not([open]) summary').focus()")
            page.press("Enter")
            page.until("document.querySelectorAll('#anomaly-1 details[open]').length === 1")


@pytest.mark.parametrize("name", ["anomalous", "hostile", "empty"])
def test_no_page_is_wider_than_its_window(name: str, browser: Browser, reports: dict[str, Path]) -> None:
    with opened(browser, reports[name], width=390) as page:
        page.ask("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        for width in (390, 320, 1280):
            page.resize(width)
            if name != "empty":
                chart = "document.querySelector('#timeline .panel svg').getBoundingClientRect()"
                page.until(f"{chart}.right <= {width} && {chart}.width > {0.5 * width}")
            assert page.ask("document.documentElement.scrollWidth") <= width


def channels(colour: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", colour)[:3]]


def look(page: Page) -> dict[str, Any]:
    """Colours as they came out: page, words, words in the charts."""
    found: dict[str, Any] = page.ask("""({
        page: getComputedStyle(document.body).backgroundColor,
        words: getComputedStyle(document.body).color,
        chart: getComputedStyle(document.querySelector('#timeline .panel .strip-label')).color,
    })""")
    return {name: sum(channels(colour)) / 3 for name, colour in found.items()}


def test_dark_and_light_by_preference_and_by_button(browser: Browser, reports: dict[str, Path]) -> None:
    with opened(browser, reports["anomalous"], scheme="dark") as page:
        dark = look(page)
        assert dark["page"] < 40 < 200 < min(dark["words"], dark["chart"])
        assert text(page, "#theme") == "Light theme"
        page.ask("document.querySelector('#theme').click()")
        light = look(page)
        assert light["page"] > 240
        assert max(light["words"], light["chart"]) < 60
        assert text(page, "#theme") == "Dark theme"
        page.reload()
        assert look(page) == light, "the choice is kept"
        page.ask("localStorage.clear()")
        page.ask("delete document.documentElement.dataset.theme")
        page.media("light")
        assert look(page) == light
        page.media("dark")
        assert look(page) == dark
        assert page.complaints() == []


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
        reached = page.ask("""[...document.querySelectorAll('summary, a[href], button:enabled, .scroll, pre')]
            .filter((element) => element.checkVisibility())
            .every((element) => { element.focus(); return document.activeElement === element; })""")
        assert reached
        page.ask("document.querySelector('#anomaly-2 summary').focus()")
        page.press("Enter")
        page.until("document.querySelector('#anomaly-2 details').open")


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


def mouse(page: Page, kind: str, at: tuple[float, float], **more: object) -> None:
    page.call("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], **more)


def place(page: Page, row: str, share: float) -> tuple[float, float]:
    """A point of a row of the run's drawings: so far into its plot."""
    left, top, width, height = page.ask(f"""(() => {{
        const row = [...document.querySelectorAll('[data-linked] .strip:not(.ticks)')].find((each) =>
          each.querySelector('.strip-label').textContent.startsWith({row!r}));
        row.scrollIntoView({{ block: 'center' }});
        const box = row.querySelector('.plot > svg').getBoundingClientRect();
        return [box.left, box.top, box.width, box.height];
    }})()""")
    return left + share * width, top + height / 2


def view(page: Page) -> list[list[float]]:
    """What each drawing of the run shows: seconds after its begin, and how many."""
    found: list[list[float]] = page.ask("""[...document.querySelectorAll('[data-linked] .panel .plot > svg')]
        .map((svg) => [svg.viewBox.baseVal.x, svg.viewBox.baseVal.width])""")
    assert len({tuple(one) for one in found}) == 1, "all drawings of the run show the same time"
    return found


def notes(page: Page) -> str:
    found: str = page.ask("""[...document.querySelectorAll('[data-linked] .strip-note')]
        .map((note) => note.textContent.replace(/\\s+/g, ' ')).join('; ')""")
    return found


def test_the_cursor_shows_the_values_of_all_rows(shelf: Shelf) -> None:
    with shelf.page("anomalous") as page:
        before = notes(page)
        mouse(page, "mouseMoved", place(page, "Records", 0.4))
        page.until("document.querySelectorAll('.cursor:not([hidden])').length === 2")
        shown = notes(page)
        for part in ("written ", "read ", "send ", "in sync: 1, 2", "node "):
            assert part in shown, shown
        assert "max" not in shown
        assert re.search(r"poll [\d.]+ · [\d.]+", shown), "the median and the 99th percentile"
        now = page.ask("document.querySelector('#timeline .now').textContent")
        assert re.fullmatch(r"\d+\.\d+ s", now)
        mouse(page, "mouseMoved", (5, 5))
        page.until("document.querySelectorAll('.cursor:not([hidden])').length === 0")
        assert notes(page) == before


def test_the_value_at_the_cursor_is_that_of_its_time(shelf: Shelf) -> None:
    with shelf.page("anomalous") as page:
        mouse(page, "mouseMoved", place(page, "High watermark", 0.5))
        now = page.ask("Number.parseFloat(document.querySelector('#timeline .now').textContent)")
        hw = 80 * (2 * round(now / 2) - 13) + 7 * 5
        shown = page.ask("""[...document.querySelectorAll('#cluster .panel')][0]
            .querySelectorAll('.value')[5].textContent""")
        assert shown.replace("\u202f", "").split(" · ")[0] == str(hw)
        mouse(page, "mouseMoved", (5, 5))


def test_hovering_shows_what_a_fault_was(shelf: Shelf) -> None:
    with shelf.page("hostile") as page:
        at = page.ask("""(() => {
            const begin = Number(document.querySelector('#timeline .drawing').dataset.begin);
            const bar = [...document.querySelectorAll('#timeline rect.fault')]
                .find((rect) => Math.abs(begin + Number(rect.getAttribute('x')) - 44) < 0.01);
            bar.scrollIntoView({ block: 'center' });
            const box = bar.getBoundingClientRect();
            return [box.left + box.width / 2, box.top + box.height / 2];
        })()""")
        mouse(page, "mouseMoved", (at[0] + 1, at[1]))
        mouse(page, "mouseMoved", (at[0], at[1]))
        page.until("!document.querySelector('.tip').hidden")
        tip = text(page, ".tip")
        assert "<script>alert(1)</script>" in tip
        assert "44.00 s to 57.00 s, 13.00 s" in tip
        mouse(page, "mouseMoved", (5, 5))
        page.until("document.querySelector('.tip').hidden")


PRESS = (
    "[...document.querySelectorAll('#cluster .zooming button')].find((b) => b.textContent === {!r}).click()"
)


def test_dragging_zooms_all_drawings_of_the_run(browser: Browser, reports: dict[str, Path]) -> None:
    with opened(browser, reports["clean"]) as page:
        (whole, *_) = view(page)
        mouse(page, "mousePressed", place(page, "Records", 0.25), button="left", clickCount=1)
        for share in (0.3, 0.5):
            mouse(page, "mouseMoved", place(page, "Records", share), button="left", buttons=1)
        assert visible(page, ".brush")
        mouse(page, "mouseReleased", place(page, "Records", 0.5), button="left", clickCount=1)
        (zoomed, *_) = view(page)
        assert zoomed == pytest.approx([whole[1] / 4, whole[1] / 4], rel=0.02)
        assert not visible(page, ".brush")
        begin = page.ask("Number(document.querySelector('#timeline .drawing').dataset.begin)")
        for tick in page.ask("[...document.querySelectorAll('.tick')].map((t) => t.textContent)"):
            assert begin + zoomed[0] - 0.1 <= float(tick.removesuffix(" s")) <= begin + sum(zoomed) + 0.1
        word = page.ask("""(() => {
            const word = document.querySelector('#timeline .word').getBoundingClientRect();
            const plot = document.querySelector('#timeline .plot').getBoundingClientRect();
            return [word.left - plot.left, plot.right - word.right];
        })()""")
        assert min(word) >= -0.5, "words stay on the plot"
        mouse(page, "mousePressed", place(page, "Records", 0.5), button="left", clickCount=1, modifiers=8)
        mouse(page, "mouseMoved", place(page, "Records", 0.7), button="left", buttons=1, modifiers=8)
        mouse(page, "mouseReleased", place(page, "Records", 0.7), button="left", clickCount=1, modifiers=8)
        (moved, *_) = view(page)
        assert moved[1] == pytest.approx(zoomed[1])
        assert moved[0] == pytest.approx(zoomed[0] - 0.2 * zoomed[1], rel=0.05)
        page.ask(PRESS.format("Whole"))
        assert view(page)[0] == whole


def test_a_view_never_leaves_the_run(browser: Browser, reports: dict[str, Path]) -> None:
    with opened(browser, reports["clean"]) as page:
        (whole, *_) = view(page)
        for sign in ("+", "←", "←", "←", "←"):
            page.ask(PRESS.format(sign))
        assert view(page)[0] == pytest.approx([0, whole[1] / 2])
        for sign in ("→",) * 9:
            page.ask(PRESS.format(sign))
        assert view(page)[0] == pytest.approx([whole[1] / 2, whole[1] / 2])
        for _ in range(40):
            page.ask(PRESS.format("+"))
        assert view(page)[0][1] == pytest.approx(whole[1] * 1e-4, rel=1e-3)
        for _ in range(40):
            page.ask(PRESS.format("−"))
        assert view(page)[0] == pytest.approx(whole)


def test_the_keyboard_moves_the_cursor_and_the_view(browser: Browser, reports: dict[str, Path]) -> None:
    with opened(browser, reports["anomalous"]) as page:
        (whole, *_) = view(page)
        page.ask("document.querySelector('#timeline .front').focus()")
        for _ in range(30):
            page.press("ArrowRight")
        slider = "document.querySelector('#timeline .front')"
        at = float(page.ask(f"{slider}.ariaValueNow"))
        begin = page.ask("Number(document.querySelector('#timeline .drawing').dataset.begin)")
        assert at == pytest.approx(begin + 0.3 * whole[1], abs=0.01)
        said = page.ask(f"{slider}.ariaValueText")
        assert said.startswith(f"{at:.2f} s. phase: faults")
        assert "Records: written" in said
        page.press("+")
        (zoomed, *_) = view(page)
        assert zoomed[1] == pytest.approx(whole[1] / 2)
        assert zoomed[0] <= at - begin <= sum(zoomed), "it zooms around the cursor"
        page.press("Escape")
        assert view(page)[0] == whole


def test_the_drawing_of_a_witness_zooms_alone(browser: Browser, reports: dict[str, Path]) -> None:
    with opened(browser, reports["anomalous"]) as page:
        before = view(page)
        page.ask("document.querySelector('#anomaly-1-1').open = true")
        page.ask("document.querySelector('#anomaly-1-1 .front').focus()")
        page.press("+")
        assert view(page) == before
        assert page.ask("document.querySelectorAll('.drawing.zoomed').length") == 1
        assert visible(page, "#anomaly-1-1 .zooming")


def test_markup_from_outside_does_nothing(shelf: Shelf) -> None:
    with shelf.page("hostile") as page:
        assert page.ask("document.querySelectorAll('body script').length") == 1
        assert page.ask("document.querySelectorAll('body b').length") == 0
        assert page.ask("document.querySelectorAll('a[href^=\"javascript\"], .drawing a').length") == 0
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


def test_on_paper_everything_is_there(browser: Browser, reports: dict[str, Path]) -> None:
    with opened(browser, reports["anomalous"], scheme="dark") as page:
        page.media("dark", "print")
        assert visible(page, "#timeline .drawing")
        for enhancement in (".zooming", ".front", ".bar"):
            assert not visible(page, enhancement)
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
        page.ask("document.querySelector('#repeat .command > button').click()")
        answered = "document.querySelector('#repeat .command > button').textContent"
        page.until(f"['Copied', 'Selected'].includes({answered})")


def rows(page: Page, selector: str) -> list[list[str]]:
    """Cells of the body of the first such table, row by row."""
    found: list[list[str]] = page.ask(
        f"[...document.querySelector({selector!r}).tBodies[0].rows]"
        ".map((row) => [...row.cells].map((cell) => cell.textContent.trim()))"
    )
    return found


def test_the_cluster_is_drawn_and_told(shelf: Shelf) -> None:
    with shelf.page("anomalous") as page:
        assert page.ask("document.querySelectorAll('#cluster .plot > svg > rect').length") > 30
        assert page.ask("document.querySelectorAll('#cluster .line').length") == 6 * 3
        assert page.ask("document.querySelectorAll('#cluster rect.fall').length") == 1
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
        witness = content(page, "#anomaly-2-1")
        assert "The finding’s transactions sent 3 records; the final reads returned 1 at" in witness
        assert "1 to queue-1, 1 to queue-4" in witness
        assert "the final reads returned no record here; it may hold a transaction marker" in witness


def test_a_hanging_transaction_is_shown_with_its_producer(shelf: Shelf) -> None:
    with shelf.page("transactional") as page:
        numbers = page.ask("""Object.fromEntries([...document.querySelectorAll('.anomaly h3 code')]
            .map((code) => [code.textContent, code.closest('article').id]))""")
        for name in ("hanging-txn", "stuck-lso"):
            witness = content(page, f"#{numbers[name]}-1")
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
        unknown = content(page, f"#{numbers['lost-write']}-1")
        assert "log of" not in unknown, "the history has no such partition"


def test_a_clean_run_has_no_logs_and_no_transactions(shelf: Shelf) -> None:
    with shelf.page("clean") as page:
        assert page.ask("document.querySelectorAll('table.log, .txn-key').length") == 0
        assert visible(page, "#cluster svg")
        assert "There was no stall" in text(page, "#liveness")
        assert len(rows(page, "#liveness table")) == 4


def test_liveness_tells_each_fault_and_each_stall(shelf: Shelf) -> None:
    with shelf.page("anomalous") as page:
        told = {row[1]: row[2:] for row in rows(page, "#liveness table")}
        assert told["partition:isolate@leader"] == ["5.20", "queue-3", "6.90", "1.40", "47"]
        assert told["pause:long@txn-coordinator"][3].startswith("not seen before")
        assert told["client:kill@mid-transaction"] == ["not measured"]
        assert content(page, "#liveness").count("whole run") == 2
        assert "For 13 % of the fault phase" in text(page, "#liveness")


def test_a_fault_of_a_client_is_told_by_its_clients(shelf: Shelf) -> None:
    with shelf.page("anomalous") as page:
        told = {row[1]: row[6:] for row in rows(page, "#faults table")}
        assert told["client:kill@mid-transaction"] == ["client 2", "not measured"]
        assert told["partition:isolate@leader"] == [
            "node 2",
            "3 of 7 records in flight; 1 of 2 transactions open (1 ending); 4 ops failed",
        ]
        names = page.ask("[...document.querySelectorAll('#timeline .word')].map((word) => word.textContent)")
        assert "client:kill@mid-transaction" in names
