"""Messages and states around a finding: the right steps, the right messages, drawn as they were."""

import re
from dataclasses import replace
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from core.cluster import OpenTransaction
from core.config import RunConfig
from harness.report import build, inputs, page
from harness.report.inputs import Inputs
from harness.report.messages import diagram, section, steps
from harness.report.messages.diagram import ShownMessages
from harness.report.messages.steps import DAMAGE, OTHER, TURN, Subject
from history import trace as tr
from history.events import TransactionsOpen
from history.evidence import Evidence
from history.evidence_tables import ALL, CLIENT, PER_NODE, PER_PARTITION, PER_RUN, table
from history.run_folder import Run
from history.verdict import Anomaly, Example, Fault, Verdict
from tests.harness.report.test_page import Parsed
from tests.histories.report_findings import FOLDERS
from tests.histories.report_runs import clean
from tests.histories.traced import CLEAN, config, losing, recorded

MS = 1_000_000
EVIL = "<script>alert(1)</script>"
SECTION = 'id="messages"'
HEADER = tr.TraceHeader(tr.VERSION, (1, 2), (3,))


def replica(at: int, node: int, end: int, high: int, **changes: object) -> tr.TracedReplica:
    """A state of queue-0, led by node 1 unless told otherwise."""
    role = tr.LEADER if node == 1 else tr.FOLLOWER
    made = tr.TracedReplica(at * MS, node, "queue-0", end, high, high, role, 1, 0, (1, 2))
    return msgspec.structs.replace(made, **changes)


def message(at: int, sender: str, receiver: str, **changes: object) -> tr.TracedMessage:
    made = tr.TracedMessage(at * MS, (at + 1) * MS, sender, receiver, "Fetch", -1, {"queue-0": "from 5"})
    return msgspec.structs.replace(made, **changes)


ABOUT = Subject(partition="queue-0", offsets=(5,), moments=(10 * MS,))


# ---- steps


def test_a_step_tells_what_changed_why_and_what_holds_then() -> None:
    trace = tr.Trace(
        header=HEADER,
        messages=[
            message(1, "c4", "n1", name="Produce", parts={"queue-0": "2 records"}, text="acks all"),
            message(3, "n1", "n2", answers=0, parts={"queue-0": "offsets 5–6, HW 5"}),
        ],
        states=[
            tr.TracedNode(0, 1, tr.UP, False, 3, False),
            replica(1, 1, 5, 5),
            replica(1, 2, 5, 5),
            replica(2, 1, 7, 5, cause=0),
            replica(4, 2, 7, 5, cause=1),
            replica(4, 2, 7, 5, cause=1, partition="queue-1"),
            tr.TracedNode(6 * MS, 1, tr.DOWN, False, -1, True),
            replica(7, 2, 7, 5, role=tr.LEADER, leader=2, epoch=1, isr=(2,)),
        ],
    )
    told = steps.steps(trace, ABOUT)
    assert [(s.node, s.what, s.why, s.weight) for s in told] == [
        (1, "starts", "", TURN),
        (1, "has the partition, leads epoch 0, LEO 5", steps.ITSELF, OTHER),
        (2, "has the partition, follows node 1 in epoch 0, LEO 5", steps.ITSELF, OTHER),
        (1, "appends offsets 5–6", "Produce of process 4: 2 records, acks all", TURN),
        (2, "appends offsets 5–6", "answer of node 1 to Fetch: offsets 5–6, HW 5", TURN),
        (1, "is down", "", TURN),
        (2, "leads epoch 1, ISR 1,2 → 2", steps.ITSELF, TURN),
    ]
    assert [s.replicas[2].end for s in told[2:]] == [5, 5, 7, 7, 7]
    assert [s.processes.get(1) for s in told] == [tr.UP] * 5 + [tr.DOWN] * 2
    assert told[3].changed == {1}


def test_what_one_event_changed_is_one_step() -> None:
    trace = tr.Trace(
        header=HEADER,
        states=[
            replica(1, 1, 5, 5),
            tr.TracedTransaction(1 * MS, 1, "t", "Ongoing", "", 7, 0, ("queue-0",)),
            tr.TracedTransaction(1 * MS, 1, "other", "Ongoing", "", 8, 0, ()),
            tr.TracedGroup(2 * MS, 2, "g", "Stable", 3, 1),
        ],
    )
    about = Subject(partition="queue-0", transactions=("t",), groups=("g",))
    told = steps.steps(trace, about)
    assert [s.what for s in told] == [
        "has the partition, leads epoch 0, LEO 5; t: Ongoing, 7/0",
        "group g: Stable, generation 3, 1 member",
    ]
    assert told[0].changed == {1, "txn:t"}
    assert told[1].transactions == {"t": "Ongoing, 7/0"}
    assert told[1].groups == {"g": "Stable, generation 3, 1 member"}


@pytest.mark.parametrize(
    ("end", "high", "weight"), [(5, 5, DAMAGE), (6, 5, TURN), (7, 6, TURN), (8, 5, OTHER), (7, 4, TURN)]
)
def test_only_cutting_off_the_finding_is_damage(end: int, high: int, weight: int) -> None:
    """Before: log end 7, high watermark 5; the finding is about offset 5."""
    trace = tr.Trace(header=HEADER, states=[replica(1, 2, 7, 5), replica(2, 2, end, high)])
    assert steps.steps(trace, ABOUT)[-1].weight == weight


def many(damage_at: int) -> tr.Trace:
    """A thousand appends, one of which is undone."""
    states: list[tr.TracedState] = [replica(1, 2, 4, 4), replica(2, 2, 6, 6)]
    states += [replica(n, 2, n + 10, n + 10) for n in range(3, 1000)]
    states.append(replica(damage_at, 2, 5, 5))
    return tr.Trace(header=HEADER, states=sorted(states, key=lambda s: s.ns))


def test_the_damage_is_kept_where_most_is_left_out() -> None:
    found = steps.steps(many(damage_at=900), ABOUT)
    kept = steps.chosen(found, ABOUT, 9)
    assert len(kept) <= 9 < len(found)
    assert [step.weight for step in kept].count(DAMAGE) == 1
    assert kept == sorted(kept, key=lambda step: step.ns)
    assert kept[0].ns <= 10 * MS, "and what stood at the finding's own moment"
    assert steps.moments(found, ABOUT) == [10 * MS, 900 * MS]


def test_a_stuck_finding_without_moments_is_shown_where_the_stable_offset_stands() -> None:
    states: list[tr.TracedState] = [replica(n, 1, n, n - 2, stable=min(n - 2, 7)) for n in range(2, 50)]
    about = Subject(partition="queue-0")
    found = steps.steps(tr.Trace(header=HEADER, states=states), about)
    assert steps.moments(found, about) == [8 * MS], "when offset 7 was appended"


# ---- messages


def crowd() -> tr.Trace:
    """A hundred fetches and answers about queue-0, as many about queue-1."""
    messages = []
    for n in range(100):
        part = {f"queue-{n % 2}": f"from {n}"}
        messages.append(message(10 * n, "n2", "n1", parts=part))
        messages.append(message(10 * n + 2, "n1", "n2", parts=part, answers=2 * n))
    return tr.Trace(header=HEADER, messages=messages)


def test_messages_are_about_the_subject_and_near_its_moments() -> None:
    trace = crowd()
    about = Subject(partition="queue-0", moments=(300 * MS, 500 * MS))
    chosen = section.choose(trace, about, [], [300 * MS, 500 * MS], 10)
    assert len(chosen.numbers) == 10
    assert all("queue-0" in trace.messages[n].parts for n in chosen.numbers)
    assert all(
        min(abs(trace.messages[n].sent / MS - moment) for moment in (300, 500)) <= 30 for n in chosen.numbers
    )
    inside = [m for m in trace.messages if "queue-0" in m.parts and 250 <= m.sent / MS <= 550]
    assert chosen.left_out == len(inside) - 10


def test_the_message_that_did_the_damage_is_shown_however_far_it_is() -> None:
    trace = crowd()
    trace.states.extend([replica(1, 2, 7, 7), replica(995, 2, 5, 5, cause=199)])
    found = steps.steps(trace, ABOUT)
    assert 199 in section.choose(trace, ABOUT, found, [10 * MS], 3).numbers


# ---- drawing


def drawn(trace: tr.Trace, *faults: Fault) -> diagram.Diagram:
    found = steps.steps(trace, ABOUT)
    chosen = ShownMessages(numbers=list(range(len(trace.messages))), names=ABOUT.names, left_out=0)
    return diagram.Diagram(trace, chosen, found, faults, 0)


def ends(path: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+\.\d+", path)]


def test_arrows_lead_from_lane_to_lane_and_downwards() -> None:
    picture = drawn(crowd())
    lanes = {lane.label: lane.x for lane in picture.lanes}
    assert list(lanes) == ["broker 1", "broker 2", "controller 3"]
    assert len(picture.arrows) == 200
    for n, arrow in enumerate(picture.arrows):
        x0, y0, x1, y1 = ends(arrow.path)
        sender, receiver = ("broker 1", "broker 2") if n % 2 else ("broker 2", "broker 1")
        assert (x0, x1) == (lanes[sender], lanes[receiver])
        assert y0 < y1 < picture.height
        assert ("answer" in arrow.style) == bool(n % 2)
    heights = [row.y for row in picture.rows]
    assert heights == sorted(set(heights)), "no two rows in one place"
    assert max(heights) < picture.height


def test_a_message_that_did_not_arrive_ends_in_a_cross() -> None:
    trace = tr.Trace(
        header=HEADER,
        messages=[message(1, "n1", "n2", arrived=tr.LOST), message(3, "c7", "n1", name="Produce")],
    )
    lost, produce = drawn(trace).arrows
    x = {lane.label: lane.x for lane in drawn(trace).lanes}
    assert "lost" in lost.style.split()
    assert x["broker 1"] < ends(lost.path)[2] < x["broker 2"]
    assert "never arrived" in lost.title
    assert "lost" not in produce.style
    assert produce.style == "data"
    assert "process 7" in x


def test_processes_that_do_not_run_are_shaded_and_faults_are_marked() -> None:
    trace = tr.Trace(
        header=HEADER,
        messages=[message(at, "n2", "n1") for at in (1, 20, 40, 60)],
        states=[
            tr.TracedNode(0, 1, tr.UP, False, 3, False),
            tr.TracedNode(10 * MS, 1, tr.DOWN, False, -1, True),
            tr.TracedNode(30 * MS, 1, tr.UP, False, 3, False),
            tr.TracedNode(50 * MS, 2, tr.PAUSED, False, 3, False),
        ],
    )
    fault = Fault(fault=0, name="kill", text=EVIL, nodes=[1], begin_s=0.01, end_s=0.03, colour="#123")
    picture = drawn(trace, fault)
    assert [shade.style for shade in picture.shades] == [tr.DOWN, tr.PAUSED]
    down, paused = picture.shades
    at = {row.time: row.y for row in reversed(picture.rows)}
    assert (down.y, round(down.y + down.height)) == (at["0.0100"], round(at["0.0300"]))
    assert down.x < picture.lanes[0].x < down.x + 32
    assert paused.y + paused.height > at["0.0500"]
    marks = [row for row in picture.rows if row.style == "fault"]
    assert [row.text for row in marks] == [f"fault kill: {EVIL}", "healed: kill"]
    assert [bar[3] for bar in picture.bars] == ["#123"]


# ---- the section


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return recorded(tmp_path_factory.mktemp("lost") / "run", losing())


@pytest.fixture(scope="module")
def page_of_lost(lost: Run) -> str:
    return build(lost).read_text(encoding="utf-8")


def test_a_lost_record_is_shown_from_its_acknowledgement_to_its_end(lost: Run) -> None:
    read = inputs.read(lost)
    scene = next(s for s in section.build(read) if s.key and s.key[0] == "lost-write")
    example = read.verdict.anomalies["lost-write"].examples[scene.key[1] if scene.key else 0]
    offset = example.offsets[0]
    damage = [step for step in scene.steps if step.weight == DAMAGE]
    assert damage, "the step at which a replica cuts it off"
    first = damage[0]
    before = scene.steps[scene.steps.index(first) - 1]
    assert first.replicas[first.node].end <= offset < before.replicas[first.node].end
    acked = [step for step in scene.steps if step.ns < first.ns and step.why.startswith("Produce of process")]
    assert any(step.replicas[step.node].high > offset for step in acked), "below its own mark"
    assert any(step.what.startswith("is down") for step in scene.steps)
    assert any("leads epoch" in step.what for step in scene.steps)
    assert {node for step in scene.steps for node in step.replicas} == {1, 2, 3}


@pytest.mark.sampled(16)
def test_the_section_is_there_and_says_how_much_it_leaves_out(page_of_lost: str) -> None:
    parsed = Parsed(page_of_lost)
    assert SECTION in page_of_lost
    assert "Messages and states around the anomaly" in parsed.text
    assert re.search(r"\d+ messages are drawn: those about queue-0.*further messages", parsed.text)
    assert re.search(r"\d+ steps left out", parsed.text)
    assert re.search(r"LEO · HW · LSO", parsed.text)
    arrows = [a for tag, a in parsed.elements if tag == "g" and "message" in (a.get("class") or "")]
    scenes = page_of_lost.count('class="traced"')
    assert scenes >= 1
    assert 50 < len(arrows) <= scenes * (section.ARROWS_MAX + 8)
    assert 'href="#messages-1"' in page_of_lost, "findings lead to it"


def test_every_dot_of_a_drawing_is_a_row_of_its_table(lost: Run) -> None:
    for scene in section.build(inputs.read(lost)):
        dots = [row.step for row in scene.diagram.rows if row.step]
        assert dots == list(range(1, len(scene.steps) + 1))
        assert sum(scene.gaps) <= scene.left_out


@pytest.mark.sampled(11)
def test_a_clean_run_shows_its_first_fault(tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", config(**CLEAN))
    (scene,) = section.build(inputs.read(run))
    assert scene.key is None
    assert len(scene.steps) <= section.SMALL_STEPS_MAX
    assert any(step.what.startswith("is down") for step in scene.steps)
    text = Parsed(build(run).read_text(encoding="utf-8")).text
    assert "Messages and states around the first fault" in text


@pytest.mark.sampled(26)
@pytest.mark.parametrize("name", FOLDERS)
def test_a_run_of_real_kafka_has_no_such_section(name: str, tmp_path: Path, lost: Run) -> None:
    run = FOLDERS[name]().write(tmp_path / "run")
    run.trace.write_bytes(lost.trace.read_bytes())  # not even with a trace that is not its own
    assert SECTION not in build(run).read_text(encoding="utf-8")


def verdict_of(run: Run) -> Verdict:
    return msgspec.json.decode(run.verdict.read_bytes(), type=Verdict)


def copied(run: Run, folder: Path) -> Run:
    """Another run folder with the same verdict, events and trace."""
    folder.mkdir()
    other = Run(folder)
    for path, to in ((run.verdict, other.verdict), (run.events, other.events)):
        to.write_bytes(path.read_bytes())
    other.trace.write_bytes(run.trace.read_bytes())
    return other


@pytest.mark.sampled(26)
@pytest.mark.parametrize("damage", [None, b"", b'["trace",1,[1],[1]]\n["message",'])
def test_a_trace_that_is_missing_or_damaged_is_told(damage: bytes | None, lost: Run, tmp_path: Path) -> None:
    run = copied(lost, tmp_path / "run")
    if damage is None:
        run.trace.unlink()
    else:
        run.trace.write_bytes(damage)
    html = build(run).read_text(encoding="utf-8")
    assert SECTION not in html
    assert "trace.jsonl" in Parsed(html).text


@pytest.mark.sampled(10)
def test_names_in_a_trace_are_no_markup(lost: Run, tmp_path: Path) -> None:
    run = copied(lost, tmp_path / "run")
    trace = tr.decode(run.trace.read_bytes())
    evil = tr.Trace(
        header=trace.header,
        messages=[
            msgspec.structs.replace(
                m, name=m.name + EVIL, text=EVIL, parts={k: v + EVIL for k, v in m.parts.items()}
            )
            for m in trace.messages
        ],
        states=trace.states,
    )
    run.trace.write_bytes(tr.encode(evil))
    html = build(run).read_text(encoding="utf-8")
    assert SECTION in html
    assert EVIL not in html
    assert "&lt;script&gt;alert(1)" in html


def test_a_subject_names_transactions_and_their_partition(lost: Run) -> None:
    read = inputs.read(lost)
    example = read.verdict.anomalies["lost-write"].examples[0]
    op = msgspec.structs.replace(example.ops[0], txn=True, transactional_id="t-1")
    made = msgspec.structs.replace(example, ops=[op])
    assert read.trace is not None
    about = section.of_example(read, read.trace, made)
    assert about.names == ("queue-0", "txn:t-1")
    assert about.clients == (f"c{op.process}",)
    assert verdict_of(lost).anomalies["lost-write"].disallowed


def test_a_producer_id_leads_to_its_transactional_id(lost: Run) -> None:
    read = inputs.read(lost)
    example = read.verdict.anomalies["lost-write"].examples[0]
    made = msgspec.structs.replace(example, producer={"producer_id": 7})
    states: list[tr.TracedState] = [
        tr.TracedTransaction(1, 1, name, "Ongoing", "", producer, 0, ())
        for name, producer in (("t", 7), ("u", 8), ("t", 7))
    ]
    trace = tr.Trace(header=HEADER, states=states)
    assert section.of_example(read, trace, made).transactions == ("t",)
    row = OpenTransaction(topic="queue", partition=0, producer_id=8, producer_epoch=0, start=3)
    read.events.append(TransactionsOpen(ns=1, rows=(row,)))
    stuck = msgspec.structs.replace(example, producer={}, ops=[], partition="queue-0")
    assert section.of_example(read, trace, stuck).transactions == ("u",)
    elsewhere = msgspec.structs.replace(stuck, partition="queue-1")
    assert section.of_example(read, trace, elsewhere).transactions == ()


def test_runs_made_by_code_are_of_real_kafka() -> None:
    """Else the test above would show nothing."""
    verdict = clean(ops=10).verdict
    assert verdict is not None
    assert verdict.config.get("sut", "kafka") != "simulated"


# ---- captured messages


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    """A run that loses a record, as real brokers leave it."""
    return captured(tmp_path_factory.mktemp("seen") / "run", losing())


def captured(folder: Path, made: RunConfig) -> Inputs:
    """Of the run without a trace, with what a capture saw."""
    run = recorded(folder, made.model_copy(update={"capture": True}))
    return replace(inputs.read(run), trace=None)


def with_tables(read: Inputs, **tables: pa.Table) -> Inputs:
    """With other tables of evidence."""
    assert read.evidence is not None
    names = (*PER_PARTITION, *PER_NODE, *PER_RUN)
    kept = {name: read.evidence.table(name) for name in names}
    return replace(read, evidence=Evidence({**kept, **tables}))


def test_captured_messages_tell_what_became_of_a_record(seen: Inputs, lost: Run) -> None:
    scene = next(s for s in section.build(seen) if s.key and s.key[0] == "lost-write")
    example = seen.verdict.anomalies["lost-write"].examples[scene.key[1] if scene.key else 0]
    said = [row.text for row in scene.diagram.rows]
    assert not scene.steps
    assert not scene.missing
    assert any(": Produce, " in text and "acks all" in text for text in said)
    assert any(f"Produce answered, done at offset {example.offsets[0]}" in text for text in said)
    assert any(": Fetch, from " in text for text in said)
    assert len(scene.diagram.arrows) <= section.ARROWS_MAX
    traced = next(s for s in section.build(inputs.read(lost)) if s.key == scene.key)
    assert {row.ns for row in traced.diagram.rows} & {row.ns for row in scene.diagram.rows}, "the same ones"


@pytest.mark.sampled(48)
def test_the_fault_that_lost_a_record_stands_among_captured_messages(tmp_path: Path) -> None:
    """Of seed 0 more than is drawn lies between the fault and the loss."""
    scenes = section.build(captured(tmp_path / "run", losing(1)))
    scene = next(s for s in scenes if s.key and s.key[0] == "lost-write")
    assert any(row.text.startswith("fault kill:one@leader") for row in scene.diagram.rows)


@pytest.mark.sampled(10)
def test_the_page_says_whose_messages_these_are_and_what_is_left_out(seen: Inputs) -> None:
    text = Parsed(page.render(seen).decode()).text
    assert "Messages around the anomaly" in text
    assert "as a capture saw them" in text
    assert re.search(r"\d+ messages are drawn: those about queue-0.*further messages", text)
    assert "evidence/frames.parquet holds all that were captured" in text
    assert "LEO · HW · LSO" not in text, "a capture knows no states"
    assert "may be missing" not in text


@pytest.mark.sampled(48)
def test_a_gap_of_the_capture_is_drawn_and_named(seen: Inputs) -> None:
    scene = section.build(seen)[0]
    middle = scene.diagram.rows[len(scene.diagram.rows) // 2].ns
    late = scene.diagram.rows[-1].ns + 60_000_000_000
    rows = [
        (middle, ALL, CLIENT, 0, CLIENT, 0, EVIL),
        (middle + 1, 7, CLIENT, 0, 2, 0, "a hole"),
        (late, ALL, CLIENT, 0, CLIENT, 0, "too late"),
    ]
    made = with_tables(seen, gaps=table(PER_RUN["gaps"], rows))
    (first, *_) = section.build(made)
    assert [one.text for one in first.missing] == [
        f"any messages: {EVIL}",
        "messages between a client and node 2: a hole",
    ]
    assert [row.ns for row in first.diagram.rows if row.style == "missing"] == [middle, middle + 1]
    html = page.render(made).decode()
    assert "Messages may be missing" in html
    assert EVIL not in html


@pytest.mark.sampled(5)
def test_findings_in_logs_have_the_messages_that_ended_their_transactions(tmp_path: Path) -> None:
    """Of one producer, with one connection to each broker."""
    short = {"workload": "transactions", "nemesis": "none", "duration_s": 2, "producers": 1, "seed": 3}
    run = recorded(tmp_path / "run", config(**short, era="4.3-tv1", capture=True))
    read = replace(inputs.read(run), trace=None)
    assert read.evidence is not None
    frames, log = read.evidence.table("frames"), read.evidence.table("transaction_log")
    shared = pc.if_else(
        pc.equal(frames["client"], CLIENT),
        pc.negate(pc.cast(frames["server"], "int64")),
        frames["connection"],
    )
    at = frames.schema.get_field_index("connection")
    read = with_tables(read, frames=frames.set_column(at, frames.schema.field(at), shared))
    (ended, *_) = log.filter(pc.field("state") == "PrepareCommit").to_pylist()
    example = Example(
        sentence="…",
        allowed=False,
        why="…",
        partition="transactions-0",
        producer={"producer_id": ended["producer_id"], "epoch": ended["producer_epoch"]},
    )
    anomaly = Anomaly(
        title="…", literature="", meaning="", count=1, disallowed=1, allowed=False, why="", examples=[example]
    )
    verdict = msgspec.structs.replace(read.verdict, anomalies={"lost-decision": anomaly})
    (scene,) = section.build(replace(read, verdict=verdict))
    assert scene.subject.transactions == (ended["transactional_id"],)
    said = [row.text for row in scene.diagram.rows]
    assert any(": EndTxn, commit, producer" in text for text in said)
    assert any(": WriteTxnMarkers, commit, producer" in text for text in said)
    assert any(text.startswith("process 0 → broker") and ": AddPartitionsToTxn" in text for text in said)


@pytest.mark.sampled(24)
def test_a_run_without_a_capture_has_no_messages(seen: Inputs) -> None:
    assert seen.evidence is not None
    bare = {name: seen.evidence.table(name) for name in (*PER_PARTITION, *PER_NODE)}
    assert section.build(replace(seen, evidence=Evidence(bare))) == []
    assert section.build(replace(seen, evidence=None)) == []
