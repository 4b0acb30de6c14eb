"""The numbers of the timeline: bins add up, quantiles are right, lanes tell who held what."""

import itertools
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from core.op import Outcome, Phase
from harness.report import colours
from harness.report import inputs as report_inputs
from harness.report.inputs import Inputs, OpColumns
from harness.report.timeline import lanes, partitions
from harness.report.timeline import numbers as tl
from history import events as ev
from history.reader import History, Names
from history.run_folder import FORMAT, Run
from history.tables import OPEN
from history.verdict import Fault
from tests.histories import report_findings, report_runs
from tests.histories.report_histories import START_NS
from tests.histories.report_runs import clean, ops_table


def ops_of(rows: dict[str, list[int]]) -> OpColumns:
    return columns_of(ops_table(rows), ["send", "poll", "txn"], ["E1", "E2"])


def columns_of(table: pa.Table, f: list[str], error: list[str]) -> OpColumns:
    names = Names(format=FORMAT, run="", start_ns=START_NS, units=[], f=f, error=error, group=[], txn_id=[])
    return report_inputs.op_columns(History(run=Run(Path()), names=names, tables={"ops": table}))


def inputs_of(folder: report_runs.Folder, tmp_path: object) -> Inputs:
    return report_inputs.read(folder.write(Path(str(tmp_path)) / "run"))


def some_ops(seed: int, n: int = 3000) -> OpColumns:
    inputs_folder = clean(ops=n, seed=seed)
    assert inputs_folder.ops is not None
    return columns_of(inputs_folder.ops, list(report_runs.F), list(report_runs.ERRORS))


def test_ops_whose_begin_is_not_on_record_have_no_latency() -> None:
    ops = some_ops(1, n=40)
    assert np.isnan([row.max_ms for row in tl.kind_rows(ops, untimed=True)]).all()
    drawn = tl.rates(ops, untimed=True).latency.values()
    assert all(np.isnan(latency.median).all() and np.isnan(latency.p99).all() for latency in drawn)
    assert np.isfinite([row.max_ms for row in tl.kind_rows(ops) if row.ok]).all()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_bins_add_up_to_the_ops(seed: int) -> None:
    ops = some_ops(seed)
    rates = tl.rates(ops)
    binned = {
        "ok": sum(int(counts.sum()) for counts in rates.ok.values()),
        "fail": sum(int(counts.sum()) for counts in rates.fail.values()),
        "info": sum(int(counts.sum()) for counts in rates.info.values()),
        "aborts": int(rates.aborts.sum()),
    }
    deliberate = (ops.deliberate == 1) & (ops.outcome == Outcome.FAIL)
    assert binned == {
        "ok": int((ops.outcome == Outcome.OK).sum()),
        "fail": int(((ops.outcome == Outcome.FAIL) & ~deliberate).sum()),
        "info": int((ops.outcome == Outcome.INFO).sum()),
        "aborts": int(deliberate.sum()),
    }
    assert sum(binned.values()) == len(ops.f)
    assert min(binned.values()) > 0, "the fixture has all of them"
    ok = ops.outcome == Outcome.OK
    assert rates.written.sum() == ops.n_sends[ok].sum()
    assert rates.read.sum() == ops.n_reads[ok].sum()


def test_the_tables_add_up_to_the_ops() -> None:
    ops = some_ops(4)
    rows = tl.kind_rows(ops)
    assert sum(row.ok + row.fail + row.info + row.aborts for row in rows) == len(ops.f)
    errors = tl.error_rows(ops)
    assert sum(row.failed for row in errors) == sum(row.fail for row in rows)
    assert sum(row.unknown for row in errors) == sum(row.info for row in rows)
    for error in errors:
        assert sum(many for _, many in error.kinds) == error.failed + error.unknown


def test_rare_kinds_and_errors_are_added_up_as_other() -> None:
    n = 40
    ops = columns_of(
        ops_table(
            {
                "f": list(range(n)),
                "outcome": [int(Outcome.FAIL)] * n,
                "error": list(range(n)),
                "invoke_ns": [START_NS] * n,
                "complete_ns": [START_NS + 1] * n,
            }
        ),
        [f"f{i}" for i in range(n)],
        [f"e{i}" for i in range(n)],
    )
    rates = tl.rates(ops)
    assert len(rates.ok) == tl.KINDS_MAX
    assert list(rates.fail) == ["e0", "e1", "e2", "other"]
    assert sum(int(counts.sum()) for counts in rates.fail.values()) == n


def test_an_op_that_never_completed_counts_where_it_began() -> None:
    ops = ops_of(
        {
            "f": [0, 0],
            "outcome": [Outcome.OK, Outcome.INFO],
            "invoke_ns": [START_NS, START_NS + 5 * 10**9],
            "complete_ns": [START_NS + 10**9, OPEN],
        }
    )
    rates = tl.rates(ops)
    where = int(np.flatnonzero(rates.info["no error code"])[0])
    assert rates.edges[where] <= 5.0 < rates.edges[where + 1]


def test_latency_is_the_nearest_rank_of_the_ok_ops_of_a_bin() -> None:
    ops = some_ops(5)
    rates = tl.rates(ops)
    compared = 0
    for kind, latency in rates.latency.items():
        code = ops.names.index(kind)
        mine = (ops.f == code) & (ops.outcome == Outcome.OK)
        for number in range(len(rates.aborts)):
            low, high = rates.edges[number], rates.edges[number + 1]
            took = sorted((ops.complete - ops.invoke)[mine & (ops.complete >= low) & (ops.complete < high)])
            if not took:
                assert np.isnan(latency.median[number])
                continue
            for share, values in ((0.5, latency.median), (0.99, latency.p99)):
                rank = max(int(np.ceil(share * len(took))), 1) - 1
                assert values[number] == pytest.approx(took[rank] * 1e3)
                compared += 1
    assert compared > 100


@pytest.mark.parametrize("length", [0.0, 0.05, 1.0, 20.0, 61.7, 3600.0, 86_400.0, 2_000_000.0])
def test_bins_cover_the_run_and_are_few(length: float) -> None:
    edges = tl.bin_edges(13.37, 13.37 + length)
    assert edges[0] <= 13.37
    assert edges[-1] > 13.37 + length
    assert 1 <= len(edges) - 1 <= tl.BINS_MAX
    assert np.diff(edges) == pytest.approx(edges[1] - edges[0])


def roles(at: float, controller: int, **leaders: int) -> ev.RolesSeen:
    named = {name if name[:2] == "__" else name.replace("_", "-"): node for name, node in leaders.items()}
    return ev.RolesSeen(
        ns=START_NS + int(at * 1e9), leaders=named, isr={}, controller=controller, answering=(), agreed=True
    )


def test_leaders_and_controller_as_spans(tmp_path: object) -> None:
    folder = clean(ops=50)
    folder.events = [
        roles(10, 1, q_0=1, q_1=2),
        roles(20, 1, q_0=-1, q_1=2),
        roles(22, 2, q_0=1, q_1=3),
        roles(30, 2, q_0=3, q_1=3),
        roles(40, 2, **{"__transaction_state-0": 1}),
    ]
    cluster = tl.build(inputs_of(folder, tmp_path)).cluster
    held = {p.name: [(span.begin, span.label) for span in p.leaders] for p in cluster.shown}
    assert held == {"q-0": [(10, "1"), (20, "none"), (22, "1"), (30, "3")], "q-1": [(10, "2"), (22, "3")]}
    assert [(s.begin, s.label) for s in cluster.controller] == [(10, "1"), (22, "2")]
    assert cluster.changes == 2, "a gap between the same leader is no change"
    assert [p.leaderless_s for p in cluster.shown] == [2, 0]


def test_partitions_of_findings_come_first_then_those_that_changed_most(tmp_path: object) -> None:
    folder = clean(ops=50)
    assert folder.verdict is not None
    found = report_findings.anomalous().verdict
    assert found is not None
    folder.verdict = msgspec.structs.replace(folder.verdict, anomalies=found.anomalies)
    quiet = {f"queue_{number}": 1 for number in range(60)}
    ends = {f"queue-{number}": 5 for number in range(60)}
    folder.events = [
        roles(10, 1, **quiet),
        roles(20, 1, **(quiet | {"queue_57": 2, "queue_44": 3})),
        *(ev.EndsSeen(ns=START_NS + at * 10**9, hw=ends, lso=ends) for at in (21, 23)),
    ]
    cluster = tl.build(inputs_of(folder, tmp_path)).cluster
    order = [partition.name for partition in cluster.partitions]
    assert order[:5] == ["queue-3", "queue-4", "queue-2", "queue-44", "queue-57"]
    assert len(cluster.partitions) == 60
    assert [p.name for p in cluster.shown] == sorted(order[: partitions.LANES_MAX], key=partitions.natural)
    assert [p.name for p in cluster.drawn] == [f"queue-{n}" for n in (0, 2, 3, 4, 44, 57)]
    assert [p.name for p in cluster.listed] == [f"queue-{n}" for n in range(60)]


def test_ends_tell_falls_and_what_was_open() -> None:
    ends = [partitions.Ends(*row) for row in ((1, 10, 10), (3, 30, 12), (5, 22, 22), (7, 40, -1))]
    partition = partitions.PartitionTimeline(name="q-0", found=False, leaders=[], isr=[], ends=ends)
    assert partition.falls == [(ends[1], ends[2])]
    assert partition.most_open == 18


def test_replicas_out_of_sync_are_added_up(tmp_path: object) -> None:
    folder = clean(ops=50)
    folder.events = [
        msgspec.structs.replace(roles(at, 1, q_0=1), isr={"q-0": isr})
        for at, isr in ((10, (1, 2, 3)), (20, (1,)), (25, (3, 1)), (30, (3, 2, 1)), (89, (1, 2, 3)))
    ]
    partition = tl.build(inputs_of(folder, tmp_path)).cluster.partitions[0]
    assert [span.label for span in partition.isr] == ["1, 2, 3", "1", "1, 3", "1, 2, 3"]
    assert (partition.least_isr, partition.replicas, partition.shrunk_s) == (1, 3, 10)


def test_a_partition_with_more_replicas_for_a_time_is_whole_without_them(tmp_path: object) -> None:
    folder = clean(ops=50)
    folder.events = [
        msgspec.structs.replace(roles(at, 1, q_0=1), isr={"q-0": isr})
        for at, isr in ((10, (1, 2, 3)), (20, (1, 2, 3, 4)), (30, (1, 2, 3)), (40, (1, 2)), (50, (1, 2, 3)))
    ]
    cluster = tl.build(inputs_of(folder, tmp_path)).cluster
    (partition,) = cluster.partitions
    assert (partition.least_isr, partition.replicas, partition.shrunk_s) == (2, 3, 10)
    colours_of = [cluster.isr_colour(partition, span) for span in partition.isr]
    assert colours_of == [*[colours.ISR_FULL] * 3, colours.ISR_SHRUNK, colours.ISR_FULL]


def test_clients_have_lanes_where_something_happened_to_them(tmp_path: object) -> None:
    folder = report_findings.anomalous()
    timeline = tl.build(inputs_of(folder, tmp_path))
    clients = {lane.label: lane for lane in timeline.lanes if lane.kind == "client"}
    assert list(clients) == ["client 2", "client 3"], "one was hit and replaced, the other died"
    assert [s.label for s in clients["client 2"].spans] == ["4", "36"]
    assert [s.colour for s in clients["client 2"].spans] == ["replaced", "closed"]
    assert [s.label for s in clients["client 2"].behind] == [report_findings.CLIENT_FAULT.name]
    assert [s.colour for s in clients["client 3"].spans] == ["crashed"]
    assert clients["client 3"].behind == []


def test_clients_that_were_hit_come_first_and_the_rest_is_counted(tmp_path: object) -> None:
    folder = report_findings.anomalous()
    assert folder.verdict is not None
    fault = msgspec.structs.replace(report_findings.CLIENT_FAULT, slots=list(range(20, 34)))
    folder.verdict = msgspec.structs.replace(folder.verdict, faults=[fault])
    timeline = tl.build(inputs_of(folder, tmp_path))
    shown = [lane.label for lane in timeline.lanes if lane.kind == "client"]
    assert shown == [f"client {slot}" for slot in range(20, 32)]
    assert timeline.clients == lanes.ClientCount(shown=12, left_out=4)


def test_stalls_of_the_run_and_of_partitions_have_lanes(tmp_path: object) -> None:
    timeline = tl.build(inputs_of(report_findings.anomalous(), tmp_path))
    stalls = [lane for lane in timeline.lanes if lane.kind == "stall"]
    assert [[span.begin for span in lane.spans] for lane in stalls] == [
        [19.9, 45.0],
        [19.2, 31.2, 44.9, 67.0],
    ]
    quiet = tl.build(inputs_of(clean(ops=50), str(tmp_path) + "-quiet"))
    assert not [lane for lane in quiet.lanes if lane.kind == "stall"]


def fault(number: int, begin: float, end: float | None, name: str = "kill") -> Fault:
    return Fault(fault=number, name=name, text="", nodes=[], begin_s=begin, end_s=end, colour="#123")


def test_faults_that_overlap_get_lanes_of_their_own() -> None:
    faults = [fault(0, 0, 5), fault(1, 3, 8), fault(2, 5, 6), fault(3, 9, None)]
    found = lanes.fault_lanes(faults, 20.0)
    assert [[span.short for span in lane.spans] for lane in found] == [["0", "2", "3"], ["1"]]
    assert found[0].spans[-1].end == 20.0
    assert found[0].spans[-1].open


def test_names_of_faults_get_room_where_lanes_are_few() -> None:
    faults = [fault(0, 0, 5, "a-long-name"), fault(1, 6, 8, "b")]
    assert len(lanes.fault_lanes(faults, 20.0, 0.1)) == 1
    roomy = lanes.fault_lanes(faults, 20.0, 1.0)
    assert len(roomy) == 2
    assert all(lane.named for lane in roomy)
    many = [fault(number, number, number + 0.5, "a-long-name") for number in range(50)]
    crowded = lanes.fault_lanes(many, 60.0, 1.0)
    assert len(crowded) == 1
    assert not crowded[0].named


def test_a_long_lane_is_thinned_and_keeps_its_length() -> None:
    spans = [lanes.Span(n / 10, (n + 1) / 10, str(n % 3), "", "") for n in range(20_000)]
    few = lanes.coalesced(spans)
    assert len(few) <= 2 * lanes.SPANS_MAX
    assert (few[0].begin, few[-1].end) == (spans[0].begin, spans[-1].end)
    assert all(a.end <= b.begin for a, b in itertools.pairwise(few))
    assert lanes.coalesced(spans[:100]) == spans[:100]


def test_the_timeline_begins_with_the_phase_of_the_first_op(tmp_path: object) -> None:
    timeline = tl.build(inputs_of(clean(), tmp_path))
    assert timeline.begin == pytest.approx(report_runs.PHASES[Phase.WARMUP])
    assert timeline.end == pytest.approx(89.0)
