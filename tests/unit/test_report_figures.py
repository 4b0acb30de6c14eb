"""The figures: what plotly.js gets is what the numbers say, and nothing in it is markup."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from harness.report import colours, figures, inputs, static, timeline
from tests.browser.report_runs import FOLDERS, HOSTILE, anomalous, clean


def built(name: str, tmp_path: Path) -> tuple[timeline.Timeline, dict[str, Any]]:
    times = timeline.build(inputs.read(FOLDERS[name]().write(tmp_path / name)))
    return times, figures.build(times)


@pytest.mark.parametrize("name", ["clean", "anomalous", "hostile", "interrupted"])
def test_plotly_knows_every_property(name: str, tmp_path: Path) -> None:
    from plotly import graph_objects

    _, drawn = built(name, tmp_path)
    assert set(drawn) == {"lanes", "rates"}
    for figure in drawn.values():
        for layout in figure["layouts"].values():
            graph_objects.Figure(data=figure["data"], layout=layout)  # raises where it does not


def test_the_lines_hold_the_counts(tmp_path: Path) -> None:
    times, drawn = built("anomalous", tmp_path)
    rates = times.rates
    assert rates is not None
    traces = drawn["rates"]["data"]

    def total(axis: str, name: str) -> float:
        values = [
            trace["y"] for trace in traces if trace["yaxis"] == axis and trace["name"] == name
        ]
        assert len(values) == 1
        return sum(value or 0 for value in values[0])

    for kind, counts in rates.ok.items():
        assert total("y2", kind) * rates.width == pytest.approx(counts.sum(), rel=1e-3)
    assert total("y", "written") * rates.width == pytest.approx(rates.written.sum(), rel=1e-3)
    assert total("y", "read") * rates.width == pytest.approx(rates.read.sum(), rel=1e-3)
    assert total("y2", "aborts") * rates.width == pytest.approx(rates.aborts.sum(), rel=1e-3)
    for error, counts in rates.info.items():
        assert total("y4", f"unknown: {error}") == counts.sum()
    for error, counts in rates.fail.items():
        assert total("y4", f"failed: {error}") == counts.sum()


def test_a_value_without_neighbours_is_a_dot() -> None:
    assert figures._alone([None, 1.0, None, 2.0, 3.0])["marker"]["size"] == [0, 4, 0, 0, 0]
    assert figures._alone([5.0])["marker"]["size"] == [4]
    assert figures._alone([1.0, 2.0, None]) == {}


def test_every_fault_is_a_band_in_both_figures(tmp_path: Path) -> None:
    _, drawn = built("anomalous", tmp_path)
    folder = anomalous()
    assert folder.verdict is not None
    expected = {(f.begin_s, f.end_s, f.colour) for f in folder.verdict.faults}
    for figure in drawn.values():
        for layout in figure["layouts"].values():
            bands = [shape for shape in layout["shapes"] if shape["type"] == "rect"]
            assert {(b["x0"], b["x1"], b["fillcolor"]) for b in bands} == expected


def test_text_from_outside_is_no_markup_for_plotly(tmp_path: Path) -> None:
    _, drawn = built("hostile", tmp_path)
    data = json.dumps(drawn, ensure_ascii=False)
    assert "<script" not in data
    assert "evil.example" not in data
    assert "&lt;script&gt;alert(1)" in data


def test_a_run_without_ops_and_events_has_no_figures(tmp_path: Path) -> None:
    assert built("empty", tmp_path)[1] == {}


def test_panels_do_not_overlap_and_fill_the_height(tmp_path: Path) -> None:
    _, drawn = built("clean", tmp_path)
    for layout in drawn["rates"]["layouts"].values():
        domains = [layout[axis]["domain"] for axis in ("yaxis", "yaxis2", "yaxis3", "yaxis4")]
        assert domains[-1][0] == 0
        for upper, lower in itertools.pairwise(domains):
            assert lower[0] < lower[1] < upper[0] < upper[1] < 1


@pytest.mark.parametrize(
    ("given", "used"),
    [("#0072B2", "#0072B2"), ("#abc", "#abc"), ("red", colours.FALLBACK), ("", colours.FALLBACK),
     ("#12345", colours.FALLBACK), ("#fff;}*{", colours.FALLBACK), ("#ffffff\n", colours.FALLBACK)],
)  # fmt: skip
def test_only_plain_colours_come_in(given: str, used: str) -> None:
    assert colours.safe(given) == used


def test_ink_reads_well_on_every_node_colour() -> None:
    for colour in (*colours.NODES, colours.NOBODY, "#000", "#ffffff"):
        assert contrast(colour, colours.ink_on(colour)) >= 4.5


def contrast(one: str, other: str) -> float:
    """WCAG contrast ratio of two `#…` colours."""

    def luminance(colour: str) -> float:
        digits = colour[1:] if len(colour) == 7 else "".join(2 * d for d in colour[1:])
        parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
        r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_words_have_contrast_in_both_themes() -> None:
    style = (Path(static.__file__).parent / "report.css").read_text()
    tokens = {}
    for line in style.splitlines():
        name, _, value = line.strip().partition(": light-dark(")
        if value:
            tokens[name] = value.rstrip(");").split(", ")
    words = ["--ink", "--muted", "--link", "--valid", "--anomaly", "--warn", "--silent"]
    for theme in (0, 1):
        for ground in ("--page", "--panel"):
            for word in words:
                assert contrast(tokens[word][theme], tokens[ground][theme]) >= 4.5, (word, theme)
        for line in (name for name in tokens if name.startswith("--series")):
            assert contrast(tokens[line][theme], tokens["--page"][theme]) >= 3, (line, theme)


def test_a_witness_shows_every_op_in_its_place() -> None:
    folder = anomalous()
    assert folder.verdict is not None
    example = folder.verdict.anomalies["torn-txn"].examples[0]
    drawing = static.witness(example, folder.verdict.faults[2:3])
    assert drawing is not None
    assert [strip.label for strip in drawing.strips] == ["op 2210", "op 2214"]
    first, second = (strip.bars[0] for strip in drawing.strips)
    scale = static.WIDTH / (drawing.end - drawing.begin)
    assert first.x == pytest.approx((48.12 - drawing.begin) * scale, abs=0.1)
    assert first.width == pytest.approx((48.9 - 48.12) * scale, abs=0.1)
    assert second.x + second.width == pytest.approx(static.WIDTH, abs=0.2), "it never completed"
    assert "never completed" in second.title
    assert [band.title for band in drawing.strips[0].bands] == ["pause:long@txn-coordinator"]


def test_the_plain_timeline_stays_in_its_box(tmp_path: Path) -> None:
    times = timeline.build(inputs.read(clean().write(tmp_path / "run")))
    drawing = static.timeline(times)
    bars = [bar for strip in drawing.strips for bar in (*strip.bars, *strip.bands)]
    assert len(bars) > 20
    for bar in bars:
        assert bar.width >= static.LEAST
        assert 0 <= bar.x <= bar.x + bar.width <= static.WIDTH + 0.2
    assert HOSTILE not in str(drawing)
    written = next(strip for strip in drawing.strips if strip.label == "written")
    assert written.note.startswith("max ")
    assert written.path.count("L") > 50
