"""The drawings: what they show is what the numbers say, and it is where its time is."""

import re
from pathlib import Path

import msgspec
import numpy as np
import pytest

from harness.report import colours, inputs, page
from harness.report.drawing import around, panels, run, scales
from harness.report.drawing.strips import HEIGHT, Drawing, Line, Series, Strip, TimeAxis
from harness.report.timeline import lanes, numbers, partitions
from history.events import EndsSeen
from tests.histories.report_findings import CLIENT_FAULT, FOLDERS, anomalous


def built(name: str, tmp_path: Path) -> numbers.Timeline:
    return numbers.build(inputs.read(FOLDERS[name]().write(tmp_path / name)))


def cluster_of(times: numbers.Timeline) -> Drawing:
    drawing = run.cluster(times)
    assert drawing is not None
    return drawing


def strip(drawing: Drawing, label: str) -> Strip:
    return next(each for each in drawing.strips if each.label == label)


def series(drawing: Drawing, label: str, name: str) -> Series:
    return next(each for each in strip(drawing, label).series if each.name == name)


def values(line: Line) -> list[float | None]:
    return [float(text) if text else None for text in line.values.split(",")]


def total(drawing: Drawing, label: str, name: str) -> float:
    return sum(value or 0 for value in values(series(drawing, label, name).lines[0]))


def test_the_lines_hold_the_counts(tmp_path: Path) -> None:
    times = built("anomalous", tmp_path)
    rates, drawing = times.rates, run.timeline(times)
    assert rates is not None
    for kind, counts in rates.ok.items():
        found = total(drawing, "Successful ops", kind) * rates.width
        assert found == pytest.approx(counts.sum(), rel=1e-3)
    for name, counts in (("written", rates.written), ("read", rates.read)):
        assert total(drawing, "Records", name) * rates.width == pytest.approx(counts.sum(), rel=1e-3)
    aborts = total(drawing, "Successful ops", "intended aborts") * rates.width
    assert aborts == pytest.approx(rates.aborts.sum(), rel=1e-3)
    for word, errors in (("unknown", rates.info), ("failed", rates.fail)):
        for error, counts in errors.items():
            assert total(drawing, "Failed, unknown ops", f"{word}: {error}") == counts.sum()
    median, p99 = series(drawing, "Latency", "send").lines
    known = [(a, b) for a, b in zip(values(median), values(p99), strict=True) if a is not None]
    assert len(known) > 50
    assert all(b is not None and a <= b for a, b in known)


def test_columns_stand_on_each_other_within_their_bins(tmp_path: Path) -> None:
    times = built("anomalous", tmp_path)
    assert times.rates is not None
    columns = strip(run.timeline(times), "Failed, unknown ops")
    tops: dict[str, float] = {}
    for each in columns.series:
        for x, low, high in re.findall(r"M([\d.]+) ([\d.]+)V([\d.]+)H", each.lines[0].path):
            assert float(low) == pytest.approx(tops.get(x, HEIGHT), abs=0.11)
            assert float(high) < float(low)
            tops[x] = float(high)
    assert len(tops) > 10
    assert min(tops.values()) >= 0


def test_a_line_breaks_where_a_value_is_missing_and_a_lone_value_is_a_dot() -> None:
    x = np.arange(6.0)
    y = np.array([1.0, 2.0, np.nan, 3.0, np.nan, 4.0])
    assert scales.line(x, y, 0) == "M0 1.0L1 2.0M3 3.0h0M5 4.0h0"
    assert scales.line(x[:1], np.array([np.nan]), 0) == ""
    assert scales.texts(np.array([0.0, 12.345, np.nan, 1234.5678])) == "0,12.35,,1234.5678"
    assert [scales.text(value) for value in (10.000000001, 0.125, 1234.4)] == ["10", "0.125", "1\u202f234"]


def test_scales_have_round_numbers_and_hold_every_value() -> None:
    linear = [text.replace("\u202f", "") for _, text in scales.linear(36_000, 100).ticks]
    assert linear == ["0", "10000", "20000", "30000"]
    assert scales.linear(0, 100).ticks[0] == (100, "0")
    latency = scales.logarithmic(0.3, 700, 100)
    assert [text for _, text in latency.ticks] == ["0.1", "1", "10", "100", "1\u202f000"]
    assert latency.y(np.array([0.1, 1000.0])).tolist() == pytest.approx([100, 0])
    assert len(scales.logarithmic(1e-6, 1e6, 100).ticks) <= scales.DECADES + 1
    for length in (0.0031, 1.0, 90.0, 864_000.0):
        each = scales.step(length, 8)
        assert length / each <= 8 + 1e-6 < 2.5 * length / each * 8
        assert round(each / 10 ** np.floor(np.log10(each) + 1e-9)) in (1, 2, 5)


@pytest.mark.parametrize(
    ("begin", "end"), [(13.2, 104.5), (10.6521, 10.6527), (0.0, 864_000.0), (19.99, 20.0)]
)
def test_ticks_are_round_times_on_the_axis(begin: float, end: float) -> None:
    ticks = TimeAxis(begin, end).ticks
    assert 2 <= len(ticks) <= 9
    for place, text in ticks:
        assert 0 <= place <= 100
        assert float(text.removesuffix(" s")) == pytest.approx(
            begin + place / 100 * (end - begin), abs=(end - begin) / 1e4
        )
    assert len({text for _, text in ticks}) == len(ticks)


def test_a_fault_of_the_cluster_is_a_band_behind_all_strips(tmp_path: Path) -> None:
    times = built("anomalous", tmp_path)
    verdict = anomalous().verdict
    assert verdict is not None
    faults = [(f.begin_s, f.end_s, f.colour) for f in verdict.faults if f.nodes]
    assert len(faults) == 4
    for drawing in (run.timeline(times), cluster_of(times)):
        begin = drawing.axis.begin
        bands = [box for box in drawing.behind if box.style != "begin"]
        found = [(round(b.x + begin, 2), round(b.x + b.width + begin, 2), b.colour) for b in bands]
        assert sorted(found) == sorted(faults)
        assert "recover" in [box.name for box in drawing.behind if box.style == "begin"]


def test_a_fault_of_a_client_stands_in_its_row_alone(tmp_path: Path) -> None:
    drawing = run.timeline(built("anomalous", tmp_path))
    where = [each.label for each in drawing.strips for box in each.bars if box.name == CLIENT_FAULT.name]
    assert where == ["client 2"]
    (bar,) = [box for box in strip(drawing, "client 2").bars if box.name == CLIENT_FAULT.name]
    assert bar.x + drawing.axis.begin == pytest.approx(57.0, abs=1e-3)
    assert bar.width == pytest.approx(2.4, abs=1e-3)
    assert bar.word == CLIENT_FAULT.name
    assert not [box for box in drawing.behind if box.name == CLIENT_FAULT.name]


def test_a_fault_of_clients_and_nodes_stands_in_both(tmp_path: Path) -> None:
    folder = anomalous()
    assert folder.verdict is not None
    both = msgspec.structs.replace(CLIENT_FAULT, nodes=[1])
    folder.verdict = msgspec.structs.replace(folder.verdict, faults=[both])
    shown = numbers.build(inputs.read(folder.write(tmp_path / "run"))).lanes
    assert [s.label for lane in shown if lane.kind == "fault" for s in lane.spans] == [both.name]
    assert [s.label for lane in shown for s in lane.behind] == [both.name]


def test_a_word_has_room_until_the_next_bar_and_no_further(tmp_path: Path) -> None:
    axis = TimeAxis(0, 100)
    spans = [lanes.Span(10, 12, "kill:one@leader", "", "#123456"), lanes.Span(20, 30, "pause", "", "#123456")]
    first, second = run.fault_bars(spans, axis, (0, 1))
    assert (first.x, first.width, first.room) == (10, 2, 10)
    assert (second.x, second.width, second.room) == (20, 10, 80)
    assert run.fault_bars([], axis, (0, 1)) == []


def test_the_cluster_shows_leaders_above_replicas(tmp_path: Path) -> None:
    times = built("anomalous", tmp_path)
    drawing = cluster_of(times)
    names = ["controller", *(f"queue-{number}" for number in range(6)), "High watermark", "Above last stable"]
    assert [each.label for each in drawing.strips] == names
    of = {p.name: p for p in times.cluster.partitions}
    bars = strip(drawing, "queue-4").bars
    leaders, isr = [b for b in bars if b.y == 0], [b for b in bars if b.y > 0]
    assert [bar.word for bar in leaders] == [span.label for span in of["queue-4"].leaders]
    assert "none" in [bar.word for bar in leaders]
    assert "no leader known" in [bar.name for bar in leaders]
    assert [bar.word for bar in isr] == ["1, 2, 3", "1, 3"]
    assert [bar.style for bar in isr] == ["isr-full", "isr-shrunk"]


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
    drawing = cluster_of(built("anomalous", tmp_path))
    seen = [event for event in anomalous().events or () if isinstance(event, EndsSeen)]
    high, stable = series(drawing, "High watermark", "queue-5").lines
    assert values(high) == [event.hw["queue-5"] for event in seen]
    assert values(stable) == [event.lso["queue-5"] for event in seen]
    assert set(values(series(drawing, "Above last stable", "queue-5").lines[0])) == {0, 90}
    (fall,) = strip(drawing, "High watermark").bars
    assert fall.name.startswith("queue-3")
    assert fall.x + drawing.axis.begin == pytest.approx(26.0, abs=1e-3)


def test_an_end_that_was_not_listed_is_no_value() -> None:
    ends = [partitions.Ends(at, 10 * at, -1) for at in (1, 2, 4)]
    one = partitions.PartitionTimeline(name="q-0", found=False, leaders=[], isr=[], ends=ends)
    other = partitions.PartitionTimeline(
        name="q-1", found=False, leaders=[], isr=[], ends=[partitions.Ends(3, 5, 5), partitions.Ends(4, 6, 4)]
    )
    cluster = partitions.ClusterTimeline(partitions=[one, other], controller=[], min_isr=1)
    high, between = panels.ends(cluster, TimeAxis(0, 5))
    assert [values(each.lines[0]) for each in high.series] == [[10, 20, None, 40], [None, None, 5, 6]]
    assert [values(each.lines[0]) for each in between.series] == [[None] * 4, [None, None, 0, 2]]
    assert high.at == between.at == "1,2,3,4"


def test_a_run_without_ops_and_events_has_no_drawings(tmp_path: Path) -> None:
    times = built("empty", tmp_path)
    assert run.timeline(times).strips == []
    assert run.cluster(times) is None


@pytest.mark.parametrize("name", ["clean", "anomalous", "hostile", "interrupted", "transactional"])
def test_every_bar_is_seen_and_touches_the_axis(name: str, tmp_path: Path) -> None:
    times = built(name, tmp_path)
    for drawing in (run.timeline(times), cluster_of(times)):
        bars = [bar for each in drawing.strips for bar in (*each.bars, *each.behind)] + drawing.behind
        assert len(bars) > 10
        for bar in bars:
            assert bar.width > 0
            assert bar.x <= drawing.axis.length
            assert bar.x + bar.width >= 0
            assert 0 <= bar.y <= bar.y + bar.height <= HEIGHT


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
    tokens = {}
    for line in page.source("report.css").splitlines():
        name, _, value = line.strip().partition(": light-dark(")
        if value:
            tokens[name] = value.rstrip(");").split(", ")
    words = ["--ink", "--muted", "--link", "--valid", "--anomaly", "--warn", "--silent"]
    for theme in (0, 1):
        for ground in ("--isr-full", "--isr-shrunk", "--isr-under", "--here", "--phase-1", "--phase-2"):
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
    drawing = around.witness(example, folder.verdict.faults[2:3])
    assert drawing is not None
    assert [each.label for each in drawing.strips] == ["op 2210", "op 2214"]
    first, second = (each.bars[0] for each in drawing.strips)
    assert first.x == pytest.approx(48.12 - drawing.axis.begin, abs=1e-4)
    assert first.width == pytest.approx(48.9 - 48.12, abs=1e-4)
    assert second.x + second.width == pytest.approx(drawing.axis.length, abs=1e-4), "it never completed"
    assert second.detail == "never completed"
    assert [band.name for band in drawing.behind] == ["pause:long@txn-coordinator"]


def test_a_finding_about_one_moment_is_drawn_with_the_seconds_around_it(tmp_path: Path) -> None:
    times = built("anomalous", tmp_path)
    folder = anomalous()
    assert folder.verdict is not None
    example = folder.verdict.anomalies["torn-txn"].examples[0]
    alone = msgspec.structs.replace(example, ops=[], at_s=48.5, partition=times.cluster.partitions[0].name)
    drawing = around.seconds(alone, [], [], times)
    assert drawing is not None
    assert (drawing.axis.begin, drawing.axis.end) == (47.5, 49.5)
