"""The figures: what plotly.js gets is what the numbers say, and nothing in it is markup."""

import itertools
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.report import colours, inputs, strips
from harness.report.timeline import cluster_figures, figures, lanes, numbers, partitions
from history.events import EndsSeen
from tests.browser.report_findings import CLIENT_FAULT, FOLDERS, HOSTILE, anomalous
from tests.browser.report_runs import clean


def built(name: str, tmp_path: Path) -> tuple[numbers.Timeline, dict[str, Any]]:
    times = numbers.build(inputs.read(FOLDERS[name]().write(tmp_path / name)))
    return times, figures.build(times) | cluster_figures.build(times)


@pytest.mark.parametrize("name", ["clean", "anomalous", "hostile", "interrupted", "transactional"])
def test_plotly_knows_every_property(name: str, tmp_path: Path) -> None:
    from plotly import graph_objects

    _, drawn = built(name, tmp_path)
    assert set(drawn) == {"lanes", "rates", "cluster", "ends"}
    for figure in drawn.values():
        for layout in figure["layouts"].values():
            graph_objects.Figure(data=figure["data"], layout=layout)  # raises where it does not


def test_the_lines_hold_the_counts(tmp_path: Path) -> None:
    times, drawn = built("anomalous", tmp_path)
    rates = times.rates
    assert rates is not None
    traces = drawn["rates"]["data"]

    def total(axis: str, name: str) -> float:
        values = [trace["y"] for trace in traces if trace["yaxis"] == axis and trace["name"] == name]
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


def test_a_fault_of_the_cluster_is_a_band_in_all_figures(tmp_path: Path) -> None:
    _, drawn = built("anomalous", tmp_path)
    folder = anomalous()
    assert folder.verdict is not None
    expected = {(f.begin_s, f.end_s, f.colour) for f in folder.verdict.faults if f.nodes}
    assert len(expected) == 4
    for figure in drawn.values():
        for layout in figure["layouts"].values():
            bands = [shape for shape in layout["shapes"] if shape["type"] == "rect"]
            assert {(b["x0"], b["x1"], b["fillcolor"]) for b in bands} == expected


def test_a_fault_of_a_client_stands_in_its_lane_alone(tmp_path: Path) -> None:
    times, drawn = built("anomalous", tmp_path)
    row = [lane.label for lane in times.lanes].index("client 2")
    hit = [trace for trace in drawn["lanes"]["data"] if CLIENT_FAULT.name in trace.get("text", ())]
    assert [(t["base"], t["x"], t["y"]) for t in hit] == [([57.0], [2.4], [row - 0.13])]
    faults = [span.label for lane in times.lanes if lane.kind == "fault" for span in lane.spans]
    assert CLIENT_FAULT.name not in faults
    assert len(faults) == 4


def test_a_fault_of_clients_and_nodes_stands_in_both(tmp_path: Path) -> None:
    folder = anomalous()
    assert folder.verdict is not None
    both = msgspec.structs.replace(CLIENT_FAULT, nodes=[1])
    folder.verdict = msgspec.structs.replace(folder.verdict, faults=[both])
    shown = numbers.build(inputs.read(folder.write(tmp_path / "run"))).lanes
    assert [s.label for lane in shown if lane.kind == "fault" for s in lane.spans] == [both.name]
    assert [s.label for lane in shown for s in lane.behind] == [both.name]


def test_the_cluster_shows_leaders_above_replicas(tmp_path: Path) -> None:
    times, drawn = built("anomalous", tmp_path)
    traces = drawn["cluster"]["data"]
    names = ["controller", *(f"queue-{number}" for number in range(6))]
    for layout in drawn["cluster"]["layouts"].values():
        assert [text.rpartition("…")[2] for text in layout["yaxis"]["ticktext"]] == names
    assert len(traces) == 1 + 2 * 6
    of = {p.name: p for p in times.cluster.partitions}
    leaders, isr = traces[1 + 2 * 4], traces[2 + 2 * 4]
    assert leaders["text"] == [span.label for span in of["queue-4"].leaders]
    assert "none" in leaders["text"]
    assert isr["text"] == ["1, 2, 3", "1, 3"]
    assert isr["marker"]["color"] == [colours.ISR_FULL, colours.ISR_SHRUNK]


@pytest.mark.parametrize(
    ("members", "least", "colour"),
    [(3, 2, colours.ISR_FULL), (2, 2, colours.ISR_SHRUNK), (1, 2, colours.ISR_UNDER)],
)
def test_replicas_in_sync_have_the_colour_of_what_acks_all_needs(
    members: int, least: int, colour: str
) -> None:
    spans = [lanes.Span(0, 1, "", "", "", short=str(size)) for size in (3, members)]
    partition = partitions.PartitionTimeline(name="q-0", found=False, leaders=[], isr=spans, ends=[])
    cluster = partitions.ClusterTimeline(partitions=[partition], controller=[], min_isr=least)
    assert cluster.isr_colour(partition, spans[1]) == colour


def test_the_ends_are_what_was_listed_and_a_fall_is_marked(tmp_path: Path) -> None:
    _, drawn = built("anomalous", tmp_path)
    traces = drawn["ends"]["data"]
    lines = {(t["name"], t["yaxis"]): t for t in traces}
    seen = [event for event in anomalous().events or () if isinstance(event, EndsSeen)]
    assert lines["queue-5", "y"]["y"] == [event.hw["queue-5"] for event in seen]
    assert lines["queue-5 LSO", "y"]["y"] == [event.lso["queue-5"] for event in seen]
    assert set(lines["queue-5", "y2"]["y"]) == {0, 90}
    fell = [t for t in traces if t["name"].endswith("fell")]
    assert [(t["name"], t["x"]) for t in fell] == [("queue-3 fell", [26.0])]


def test_text_from_outside_is_no_markup_for_plotly(tmp_path: Path) -> None:
    _, drawn = built("hostile", tmp_path)
    data = json.dumps(drawn, ensure_ascii=False)
    assert "<script" not in data
    assert set(drawn) == {"lanes", "rates", "cluster", "ends"}
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
    [
        ("#0072B2", "#0072B2"),
        ("#abc", "#abc"),
        ("red", colours.FALLBACK),
        ("", colours.FALLBACK),
        ("#12345", colours.FALLBACK),
        ("#fff;}*{", colours.FALLBACK),
        ("#ffffff\n", colours.FALLBACK),
    ],
)
def test_only_plain_colours_come_in(given: str, used: str) -> None:
    assert colours.safe(given) == used


def test_ink_reads_well_on_every_node_colour() -> None:
    for colour in (*colours.NODES, colours.NO_NODE, "#000", "#ffffff"):
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
    style = (Path(strips.__file__).parent / "report.css").read_text()
    tokens = {}
    for line in style.splitlines():
        name, _, value = line.strip().partition(": light-dark(")
        if value:
            tokens[name] = value.rstrip(");").split(", ")
    words = ["--ink", "--muted", "--link", "--valid", "--anomaly", "--warn", "--silent"]
    for theme in (0, 1):
        for ground in ("--isr-full", "--isr-shrunk", "--isr-under", "--here"):
            assert contrast(tokens["--ink"][theme], tokens[ground][theme]) >= 4.5, (ground, theme)
        for word in ("--muted", "--warn"):
            assert contrast(tokens[word][theme], tokens["--here"][theme]) >= 4.5, (word, theme)
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
    drawing = strips.witness(example, folder.verdict.faults[2:3])
    assert drawing is not None
    assert [strip.label for strip in drawing.strips] == ["op 2210", "op 2214"]
    first, second = (strip.bars[0] for strip in drawing.strips)
    scale = strips.WIDTH / (drawing.axis.end - drawing.axis.begin)
    assert first.x == pytest.approx((48.12 - drawing.axis.begin) * scale, abs=0.1)
    assert first.width == pytest.approx((48.9 - 48.12) * scale, abs=0.1)
    assert second.x + second.width == pytest.approx(strips.WIDTH, abs=0.2), "it never completed"
    assert "never completed" in second.title
    assert [band.title for band in drawing.strips[0].bands] == ["pause:long@txn-coordinator"]


def test_the_plain_timeline_stays_in_its_box(tmp_path: Path) -> None:
    times = numbers.build(inputs.read(clean().write(tmp_path / "run")))
    drawing = strips.timeline(times)
    bars = [bar for strip in drawing.strips for bar in (*strip.bars, *strip.bands)]
    assert len(bars) > 20
    for bar in bars:
        assert bar.width >= strips.LEAST
        assert 0 <= bar.x <= bar.x + bar.width <= strips.WIDTH + 0.2
    assert HOSTILE not in str(drawing)
    written = next(strip for strip in drawing.strips if strip.label == "written")
    assert written.note.startswith("max ")
    assert written.path.count("L") > 50
