"""The page as a file: complete, small, self-contained, escaped; and what it says of damaged runs."""

import base64
import hashlib
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.config import run_config
from core.errors import ConfigError, HistoryError
from harness.explore.shrink import Shrunk
from harness.report import build, github, junit, page, tested, wording
from history.events import WorkerLost
from history.reader import value_text
from history.run_folder import Run
from history.verdict import FaultLiveness, Liveness, RecordedClients, Stall, Verdict
from tests.histories.report_findings import FOLDERS, anomalous, lost_write
from tests.histories.report_runs import FAULTS, Folder, clean, empty


class Parsed(HTMLParser):
    """All elements with their attributes, all text outside of scripts and styles, all scripts."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.open = ""
        self.feed(html)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.open = tag
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self.open = ""

    def handle_data(self, data: str) -> None:
        if self.open == "script":
            attrs, code = self.scripts[-1]
            self.scripts[-1] = (attrs, code + data)
        elif self.open != "style":
            self.words.append(data)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("reports")
    return {
        name: build(make().write(folder / name)).read_text(encoding="utf-8") for name, make in FOLDERS.items()
    }


def text_of(folder: Folder, tmp_path: Path) -> str:
    return Parsed(build(folder.write(tmp_path / "run")).read_text(encoding="utf-8")).text


def with_verdict(**changes: Any) -> Folder:
    folder = clean(ops=50)
    assert folder.verdict is not None
    folder.verdict = msgspec.structs.replace(folder.verdict, **changes)
    return folder


@pytest.mark.sampled(13)
@pytest.mark.parametrize("name", FOLDERS)
def test_a_report_is_small(name: str, reports: dict[str, str]) -> None:
    assert len(reports[name].encode()) <= page.BYTES_MAX


@pytest.mark.sampled(13)
def test_a_large_run_is_a_small_report(tmp_path: Path) -> None:
    folder = clean(ops=100_000)
    assert folder.verdict is not None
    many = anomalous().verdict
    assert many is not None
    lost = msgspec.structs.replace(
        many.anomalies["lost-write"], count=5000, examples=[lost_write(n) for n in range(2000)]
    )
    faults = [
        msgspec.structs.replace(FAULTS[n % 4], fault=n, begin_s=20 + n / 50, end_s=20 + n / 50 + 0.01)
        for n in range(2500)
    ]
    folder.verdict = msgspec.structs.replace(many, anomalies={"lost-write": lost}, faults=faults)
    run = folder.write(tmp_path / "run")
    path = build(run)
    assert path.stat().st_size <= page.BYTES_MAX


@pytest.mark.sampled(13)
def test_examples_are_left_out_and_counted_where_there_is_no_room(tmp_path: Path) -> None:
    folder = anomalous()
    assert folder.verdict is not None
    anomaly = folder.verdict.anomalies["lost-write"]
    op = msgspec.structs.replace(anomaly.examples[0].ops[0], records=["x" * 290] * 8)
    huge = msgspec.structs.replace(anomaly.examples[0], ops=[op] * 60)
    classes = {
        f"class-{number}": msgspec.structs.replace(anomaly, count=30, examples=[huge] * 30)
        for number in range(7)
    }
    folder.verdict = msgspec.structs.replace(folder.verdict, anomalies=classes)
    path = build(folder.write(tmp_path / "run"))
    assert path.stat().st_size <= page.BYTES_MAX
    text = Parsed(path.read_text(encoding="utf-8")).text
    assert re.search(r"1 example of 30 findings shown\. verdict\.json has 30\.", text)


@pytest.mark.sampled(13)
@pytest.mark.parametrize("name", FOLDERS)
def test_nothing_is_loaded_from_anywhere(name: str, reports: dict[str, str]) -> None:
    parsed = Parsed(reports[name])
    for tag, attrs in parsed.elements:
        assert not {"src", "srcset", "action", "data", "poster", "background"} & set(attrs), tag
        assert tag not in ("iframe", "object", "embed", "base", "form", "img")
        if tag == "link":
            assert attrs["href"] == "data:,"
        if tag == "a":
            assert re.match(r"#|https?://", attrs["href"] or "")
    style = reports[name].partition("<style>")[2].partition("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style


@pytest.mark.sampled(27)
@pytest.mark.parametrize("name", FOLDERS)
def test_the_policy_lets_exactly_the_own_scripts_run(name: str, reports: dict[str, str]) -> None:
    parsed = Parsed(reports[name])
    policies = [
        attrs["content"] or ""
        for tag, attrs in parsed.elements
        if tag == "meta" and attrs.get("http-equiv") == "Content-Security-Policy"
    ]
    assert len(policies) == 1
    assert policies[0].startswith("default-src 'none';")
    allowed = set(re.findall(r"'sha256-([^']+)'", policies[0]))
    assert len(parsed.scripts) == 1
    attrs, code = parsed.scripts[0]
    assert attrs == {}
    assert allowed == {base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}


def dead_links(html: str) -> set[str]:
    """Places of the page that links name and that it does not have."""
    elements = Parsed(html).elements
    named = {(attrs["href"] or "")[1:] for _, attrs in elements if (attrs.get("href") or "").startswith("#")}
    return named - {attrs["id"] or "" for _, attrs in elements if "id" in attrs}


@pytest.mark.parametrize("name", FOLDERS)
def test_every_link_into_the_page_leads_somewhere(name: str, reports: dict[str, str]) -> None:
    assert dead_links(reports[name]) == set()


@pytest.mark.sampled(10)
@pytest.mark.parametrize(("place", "count"), [(0, 1), (3, 4), (3, 9)])
def test_the_story_of_a_control_leads_to_its_example(place: int, count: int, tmp_path: Path) -> None:
    """A class that is permitted, too, stands before it; its example is the first of a topic of the user's."""
    folder = anomalous()
    assert folder.verdict is not None
    one = folder.verdict.anomalies["lost-write"]
    example = msgspec.structs.replace(one.examples[0], allowed=True)
    inner = msgspec.structs.replace(example, partition="__consumer_offsets-3", offsets=[])
    examples = [example if number == place else inner for number in range(count)]
    lost = msgspec.structs.replace(one, disallowed=0, allowed=True, known_bug="", examples=examples)
    more = msgspec.structs.replace(lost, examples=[inner] * 9)
    anomalies = {"duplicate": more, "lost-write": lost, "aborted-read": more}
    folder.verdict = msgspec.structs.replace(
        folder.verdict, anomalies=anomalies, expect={"lost-write": True}, valid=True
    )
    html = build(folder.write(tmp_path / "run")).read_text(encoding="utf-8")
    assert f'More of it: <a href="#anomaly-2-{place + 1}">' in html
    assert '<p class="tags"><a href="#anomaly-2">' in html
    assert dead_links(html) == set()
    others = [n for n in range(1, 10) if f'id="anomaly-1-{n}"' in html]
    assert others == [1, 2, 3], "of other permitted ones, a few are enough"


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("before", "linked"), [(page.FAULTS_MAX - 1, True), (page.FAULTS_MAX, False)])
def test_a_fault_without_a_row_has_no_link(before: int, linked: bool, tmp_path: Path) -> None:
    folder = anomalous()
    assert folder.verdict is not None
    early = [msgspec.structs.replace(FAULTS[0], fault=100 + n, begin_s=0.1, end_s=0.2) for n in range(before)]
    folder.verdict = msgspec.structs.replace(folder.verdict, faults=[*early, FAULTS[0]])
    html = build(folder.write(tmp_path / "run")).read_text(encoding="utf-8")
    told = html[html.index('id="story"') :]
    assert FAULTS[0].name in told[: told.index("</section>")]
    assert (f'href="#fault-{FAULTS[0].fault}"' in html) is linked
    assert dead_links(html) == set()


def test_text_from_outside_stays_text(reports: dict[str, str]) -> None:
    parsed = Parsed(reports["hostile"])
    assert len(parsed.scripts) == 1
    assert all(not name.startswith("on") for _, attrs in parsed.elements for name in attrs)
    assert not any(tag == "b" for tag, _ in parsed.elements)
    assert all("evil.example" not in (attrs.get("style") or "") for _, attrs in parsed.elements)
    assert parsed.text.count("<script>alert(1)</script>\"'&|`{{7*7}}") > 50
    assert "49" not in re.findall(r"`(\d+)", parsed.text)


@pytest.mark.sampled(11)
def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    run = anomalous().write(tmp_path / "run")
    assert build(run).read_bytes() == build(run).read_bytes()


STATES = [
    ({}, "Valid"),
    ({"valid": "unknown", "exit_code": 2}, "Unknown"),
    ({"valid": False, "exit_code": 1}, "Anomaly"),
    ({"valid": False, "exit_code": 3, "recovered": False}, "Did not recover"),
    ({"recovered": False, "exit_code": 3}, "Did not recover"),
    ({"expect": {"lost-write": True}}, "Control fired"),
    ({"expect": {"lost-write": True, "duplicate": False}, "exit_code": 4}, "Control did not fire"),
    ({"expect": {"lost-write": False}, "valid": "unknown", "exit_code": 4}, "Control did not fire"),
    ({"expect": {"lost-write": False}, "valid": False, "exit_code": 1}, "Anomaly"),
]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("changes", "word"), STATES)
def test_the_verdict_in_words(changes: dict[str, Any], word: str, tmp_path: Path) -> None:
    folder = with_verdict(**changes)
    assert folder.verdict is not None
    assert wording.state(folder.verdict).word == word
    assert wording.contradiction(folder.verdict) == ""
    text = text_of(folder, tmp_path)
    assert f"{wording.state(folder.verdict).symbol} {word}" in text
    others = {other for _, other in STATES} - {word}
    assert not any(f" {other} " in text.split("What was tested")[0] for other in others)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("exit_code", [0, 2, 3])
def test_a_forbidden_finding_is_never_called_valid(exit_code: int, tmp_path: Path) -> None:
    verdict = anomalous().verdict
    assert verdict is not None
    folder = with_verdict(anomalies=verdict.anomalies, valid=True, exit_code=exit_code)
    text = text_of(folder, tmp_path)
    assert "✕ Anomaly" in text
    assert f"contradicts itself: its exit code is {exit_code}, its findings say 1" in text


def test_an_interrupted_run_says_so_and_shows_what_there_is(reports: dict[str, str]) -> None:
    text = Parsed(reports["interrupted"]).text
    assert "interrupted before its end" in text
    assert "never healed" in text
    assert "Whether records were lost: there were no final reads." in text
    assert "missing from this report" not in text, "a last line cut off is no gap"


def test_an_anomaly_is_told_in_full(reports: dict[str, str]) -> None:
    text = Parsed(reports["anomalous"]).text
    for part in (
        "37 findings",
        "matches no known bug",
        "known bug KAFKA-17754",
        "Why it is forbidden here:",
        "Why it is allowed here:",
        "in the literature: fractured read",
        "12 kept examples of 37 findings",
        "queue-3",
        "5512",
        "4/1207",
        "4, 5",
        "producer_id 2001, epoch 0, epoch_cnt 1",
        "20.310 s",
        "send queue-3 value 4/1207 -> offset 5512",
        "read_committed",
        "inquest-2",
        "never",
        "node 2 (leader of queue-0 and queue-3) cut off from nodes 1 and 3",
        "the final read of queue-5 stopped at offset 1 200 of 1 344",
        "2 of 5 checks hold",
        "kill@group-coordinator: no two nodes named the same coordinator",
        "worker lost",
        "confluent-kafka 2.16.1",
        "inquest run --workload transactions",
    ):
        assert part in text, part
    assert 'href="https://issues.apache.org/jira/browse/KAFKA-17754"' in reports["anomalous"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mutant", ["", "min-isr-ignored"])
def test_a_planted_bug_stands_in_the_first_lines(mutant: str, tmp_path: Path) -> None:
    text = text_of(with_verdict(config={"sut": "simulated", "simulated": {"mutant": mutant}}), tmp_path)
    assert ("planted bug: min-isr-ignored" in text) is bool(mutant)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("mutant", ["", "min-isr-ignored"])
def test_beside_a_planted_bug_a_finding_is_not_called_unknown(mutant: str, tmp_path: Path) -> None:
    folder = anomalous()
    assert folder.verdict is not None
    config = folder.verdict.config | {"sut": "simulated", "simulated": {"mutant": mutant}}
    folder.verdict = msgspec.structs.replace(folder.verdict, config=config)
    text = text_of(folder, tmp_path)
    assert ("matches no known bug (this run has a planted one)" in text) is bool(mutant)


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    ("bugs", "words"),
    [
        (("KAFKA-1", "KAFKA-1"), "all examples match KAFKA-1; not all findings were compared"),
        (
            ("KAFKA-2", "KAFKA-1", "KAFKA-2"),
            "all examples match KAFKA-1, KAFKA-2; not all findings were compared",
        ),
        (("KAFKA-1", ""), "not all match a known bug"),
        (("", ""), "matches no known bug"),
    ],
)
def test_a_class_without_a_known_bug_says_what_its_findings_match(
    bugs: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    folder = anomalous()
    assert folder.verdict is not None
    anomalies = dict(folder.verdict.anomalies)
    name, one = next((name, one) for name, one in anomalies.items() if one.disallowed and not one.known_bug)
    first = msgspec.structs.replace(one.examples[0], allowed=False)
    examples = [msgspec.structs.replace(first, known_bug=bug) for bug in bugs]
    anomalies[name] = msgspec.structs.replace(one, examples=examples)
    folder.verdict = msgspec.structs.replace(folder.verdict, anomalies=anomalies)
    assert words in text_of(folder, tmp_path)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("app", [None, {"input": "orders"}])
def test_a_finding_of_an_application_is_first_of_all_its_own(app: object, tmp_path: Path) -> None:
    folder = anomalous()
    assert folder.verdict is not None
    config = folder.verdict.config | ({} if app is None else {"app": app})
    folder.verdict = msgspec.structs.replace(folder.verdict, config=config)
    of_it = "matches no known bug; the application is what this run tests"
    assert (of_it in text_of(folder, tmp_path)) is (app is not None)


@pytest.mark.parametrize(
    ("kept", "total", "words"),
    [
        (40, 40, ("40 stalls", "")),
        (41, 41, ("41 stalls", "These are the 40 longest of 41 stalls; verdict.json has all of them.")),
        (64, 64, ("64 stalls", "These are the 40 longest of 64 stalls; verdict.json has all of them.")),
        (64, 65, ("65 stalls", "These are the 40 longest of 65 stalls; verdict.json has the 64 longest.")),
        (1, None, ("1 stall", "")),  # an older version did not count them
        (63, None, ("63 stalls", "These are the 40 longest of 63 stalls; verdict.json has all of them.")),
        (64, None, ("64 stalls or more",
                    "These are the 40 longest of 64 stalls or more; verdict.json has the 64 longest.")),
    ],
)  # fmt: skip
def test_of_many_stalls_it_says_how_many_there_were_and_where_they_stand(
    kept: int, total: int | None, words: tuple[str, str]
) -> None:
    stall = Stall(partition="", begin_s=1.0, end_s=2.5)
    assert page.stall_words(Liveness(stalls=[stall] * kept, stall_count=total), 40) == words


@pytest.mark.sampled(6)
def test_a_report_with_more_stalls_than_its_verdict_has_says_so(tmp_path: Path) -> None:
    stalls = [Stall(partition="", begin_s=1.0, end_s=2.5)] * 64
    text = text_of(with_verdict(liveness=Liveness(stalls=stalls, stall_count=300)), tmp_path)
    assert "300 stalls, the longest 1.5 s" in text
    assert "verdict.json has the 64 longest." in text


@pytest.mark.sampled(24)
def test_only_a_run_with_faults_says_that_it_came_back(tmp_path: Path) -> None:
    verdict = with_verdict(recovered=True, recovery_s=2.54).verdict
    assert verdict is not None
    with_faults = msgspec.structs.replace(verdict, faults=FAULTS[:1])
    kind, text = page.recovery(with_faults, []) or ("", "")
    assert (kind, text) == ("neutral", "all replicas in sync, all clients served 2.5 s after healing")
    lost = [WorkerLost(ns=n, slot=n // 2, why="killed") for n in range(4)]
    reader = WorkerLost(ns=9, slot=7, why="killed", level="read_committed")
    _, text = page.recovery(with_faults, [*lost, reader]) or ("", "")
    assert text == "2 clients lost, all replicas in sync, all other clients served 2.5 s after healing"
    external = msgspec.structs.replace(with_faults, config=with_faults.config | {"sut": "external"})
    _, text = page.recovery(external, [reader]) or ("", "")
    assert text == "replicas in sync as before the faults, all clients served 2.5 s after healing"
    found = anomalous().verdict
    assert found is not None
    one = msgspec.structs.replace(next(iter(found.anomalies.values())), count=1)
    stood = msgspec.structs.replace(with_faults, anomalies={"stalled-client": one})
    assert page.recovery(stood, []) == ("neutral", "all replicas in sync, 1 client stood still")
    assert page.recovery(msgspec.structs.replace(with_faults, faults=[]), []) is None
    for recovered, word in ((None, "not known"), (False, "did not recover")):
        assert (
            word
            in (
                page.recovery(msgspec.structs.replace(verdict, faults=[], recovered=recovered), [])
                or ("", "")
            )[1]
        )


@pytest.mark.sampled(6)
def test_the_example_that_the_story_links_to_is_always_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "BYTES_WANTED", 0)
    html = build(anomalous().write(tmp_path / "run")).read_text(encoding="utf-8")
    assert 'href="#anomaly-1-1"' in html
    assert 'id="anomaly-1-1"' in html
    text = Parsed(html).text
    assert "0 examples" not in text
    assert "This page has no room for its examples." in text


@pytest.mark.sampled(2)
def test_a_recovery_that_was_not_seen_is_not_called_one_that_did_not_come(tmp_path: Path) -> None:
    cost = FaultLiveness(
        fault=FAULTS[0].fault, stalled_s=1.0, partition="", partition_stalled_s=0.0, recovered_s=None
    )
    text = text_of(with_verdict(liveness=Liveness(faults=[cost])), tmp_path)
    assert "not seen before the load ended or the next fault began, or clients sent nothing then" in text


def test_a_verdict_with_nothing_in_it_is_a_report(tmp_path: Path) -> None:
    folder = empty()
    assert folder.verdict is not None
    folder.verdict = msgspec.structs.replace(
        folder.verdict, config={}, unknown=[], summary="", repro="", run=""
    )
    text = text_of(folder, tmp_path)
    assert "? Unknown" in text
    assert "No check was run." in text


def _garbage(run: Path) -> None:
    (run / "history" / "ops.parquet").write_bytes(b"PAR1 but not really")


def _other_columns(run: Path) -> None:
    (run / "history" / "ops.parquet").unlink()
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"op": [1]}), run / "history" / "ops.parquet")


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda run: (run / "events.jsonl").unlink(), "events.jsonl: No such file"),
        (lambda run: (run / "events.jsonl").write_text("{}\n{}\n"), "events.jsonl line 1"),
        (lambda run: (run / "events.jsonl").write_bytes(b"\xff\n\xff\n"), "events.jsonl line 1"),
        (
            lambda run: (run / "history" / "names.json").write_text("[]"),
            "history/names.json: no format number; nothing of the history",
        ),
        (lambda run: (run / "history" / "names.json").unlink(), "history/names.json: No such file"),
        (lambda run: (run / "history" / "ops.parquet").unlink(), "history/ops.parquet: "),
        (_garbage, "history/ops.parquet: "),
        (_other_columns, "its columns are not those of the table ops"),
    ],
)
def test_what_is_missing_is_said_and_the_rest_is_built(
    damage: Callable[[Path], object], said: str, tmp_path: Path
) -> None:
    run = anomalous().write(tmp_path / "run")
    damage(run.folder)
    text = Parsed(build(run).read_text(encoding="utf-8")).text
    assert said in text.split("What was tested")[0]
    assert "missing from this report" in text
    assert "✕ Anomaly" in text
    assert "37 findings" in text


def _no_verdict(folder: Folder, *, sealed: bool, journal: bool) -> Folder:
    folder.verdict = None
    if not sealed:
        folder.names, folder.ops = None, None
    if journal:
        folder.extra["journal/1.jsonl"] = b"{}\n"
    folder.extra["config.json"] = b"{}"
    return folder


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        (_no_verdict(clean(50), sealed=True, journal=True), "recorded but not checked: `inquest check"),
        (_no_verdict(clean(50), sealed=False, journal=True), "cut short before its history was sealed"),
        (_no_verdict(clean(50), sealed=False, journal=False), "nothing was recorded"),
        (Folder(verdict=None, events=None, ops=None, names=None), "is this a run folder?"),
    ],
)
def test_without_a_verdict_the_next_step_is_told(folder: Folder, said: str, tmp_path: Path) -> None:
    run = folder.write(tmp_path / "run")
    with pytest.raises(HistoryError, match=re.escape(said)) as caught:
        build(run)
    assert "\n" not in str(caught.value)
    assert not run.report.exists()
    assert not run.junit.exists()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "not a verdict"),
        (b'{"format": 1', "not a verdict"),
        (b'{"run": 7}', "not a verdict"),
        (b"\xff\xfe", "not a verdict"),
    ],
)
def test_a_damaged_verdict_is_refused(data: bytes, said: str, tmp_path: Path) -> None:
    run = clean(50).write(tmp_path / "run")
    run.verdict.write_bytes(data)
    with pytest.raises(HistoryError, match=said):
        build(run)


def test_a_newer_verdict_is_refused(tmp_path: Path) -> None:
    run = with_verdict(format=3).write(tmp_path / "run")
    with pytest.raises(HistoryError, match="format 3 is newer"):
        build(run)


def test_no_run_folder_at_all(tmp_path: Path) -> None:
    from history.run_folder import Run

    with pytest.raises(HistoryError, match="no such run folder"):
        build(Run(tmp_path / "nowhere"))


@pytest.mark.sampled(2)
def test_a_folder_that_cannot_be_written_to_is_an_error(tmp_path: Path) -> None:
    run = clean(50).write(tmp_path / "run")
    run.report.mkdir()
    with pytest.raises(ConfigError, match=r"report.html cannot be written: Is a directory"):
        build(run)


@pytest.mark.sampled(13)
def test_the_report_needs_neither_kafka_nor_spark() -> None:
    code = (
        "import sys, harness.report; "
        "print([name for name in sys.modules if name.partition('.')[0] in "
        "('pyspark', 'py4j', 'docker', 'confluent_kafka', 'checkers', 'testcontainers')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_is_undecided_is_told_once() -> None:
    verdict = anomalous().verdict
    assert verdict is not None
    told = ["order: no reads", "atomicity: no reads", "acks: unknown check", "atomicity: late"]
    assert wording.undecided(msgspec.structs.replace(verdict, unknown=told)) == [
        "Order, atomicity: no reads.",
        "Acks: unknown check.",
        "Atomicity: late.",
    ]


def test_numbers_for_people() -> None:
    assert wording.number(1234567) == "1\u202f234\u202f567"
    assert wording.number(float("nan")) == "–"
    shares = [0, 1e-17, 1e-9, 0.00004, 0.0973, 0.126, 0.87, 0.9, 0.9961, 0.9996, 0.99999]
    shares += [1 - 1e-9, 1 - 1e-16, 1]
    shown = ["0", "0", "< 0.0001", "0.004", "9.7", "13", "87", "90", "99.6", "99.96", "99.999"]
    shown += ["> 99.9999", "100", "100"]
    assert [wording.share(one) for one in shares] == shown
    assert [wording.plain(value) for value in (3.0, 0.1234, 12.345, 4321.9)] == [
        "3",
        "0.123",
        "12.3",
        "4\u202f322",
    ]
    assert value_text(4 << 32 | 1207) == "4/1207"
    assert value_text(7) == "0/7"
    assert wording.count(1, "op") == "1 op"
    assert wording.moment("2026-03-01T11:15:00.5+01:00") == "2026-03-01 10:15:00 UTC"
    assert wording.moment("yesterday") == "yesterday"


def test_sentences_begin_like_sentences_unless_with_a_setting() -> None:
    assert wording.sentence("no anomaly") == "No anomaly."
    assert wording.sentence("acks=all forbids it.") == "acks=all forbids it."
    assert wording.sentence("lost-write: found") == "lost-write: found."
    assert wording.sentence("") == ""


def test_verdicts_of_the_fixtures_are_verdicts() -> None:
    for make in FOLDERS.values():
        verdict = make().verdict
        assert msgspec.json.decode(msgspec.json.encode(verdict), type=Verdict) == verdict


PRODUCERS = RecordedClients(
    count=4, produces=True, acks=-1, idempotent=True, transactional=False, isolation="", group=False
)
READERS = RecordedClients(
    count=2,
    produces=False,
    acks=None,
    idempotent=False,
    transactional=False,
    isolation="read_committed",
    group=True,
)


def test_the_clients_that_were_tested_are_those_of_the_history() -> None:
    recorded = FOLDERS["clean"]().verdict
    assert recorded is not None
    both = msgspec.structs.replace(PRODUCERS, count=2, isolation="read_committed")
    verdict = msgspec.structs.replace(
        recorded,
        clients=[
            PRODUCERS,
            both,
            READERS,
            msgspec.structs.replace(READERS, count=1, isolation="read_uncommitted"),
        ],
    )
    rows = dict(tested.described(verdict))
    assert rows["Producers"] == "4, acks all, idempotent; 2, acks all, idempotent, also reading"
    assert rows["Consumers"].split("; ") == [
        "2, read_committed, without a group, also producing",
        "2, read_committed, in a group",
        "1, read_uncommitted, in a group",
    ]


@pytest.mark.parametrize(
    ("commit", "promised"),
    [
        ({}, "exactly once"),
        ({"commit": "transaction"}, "exactly once"),
        ({"commit": "after"}, "at least once"),
        ({"commit": "before"}, "at most once"),
        ({"commit": "beside"}, "at most once"),
        ({"commit": "automatic"}, None),
        ({"commit": "automatic-beside"}, None),
    ],
)
def test_of_an_application_only_what_is_on_record_is_said(
    commit: dict[str, str], promised: str | None
) -> None:
    """How its instances produce, read and commit is their own affair: the history holds placeholders."""
    recorded = FOLDERS["clean"]().verdict
    assert recorded is not None
    instances = msgspec.structs.replace(READERS, count=3, produces=True, acks=-1)
    feeder = msgspec.structs.replace(PRODUCERS, count=1, transactional=True)
    config = {"workload": "application", "app": {"input": "app-in"}} | commit
    verdict = msgspec.structs.replace(recorded, config=config, clients=[instances, PRODUCERS, feeder])
    rows = dict(tested.described(verdict))
    assert rows["Application"] == "3 instances; their settings are not on record"
    assert rows["Producers"] == "4, acks all, idempotent; 1, acks all, idempotent, transactional"
    assert rows.get("Promised") == promised
    assert not {"Consumers", "Input offsets"} & rows.keys()


@pytest.mark.parametrize("app", [None, {"input": "app-in"}])
def test_what_clients_of_the_harness_do_is_said_as_it_is(app: object) -> None:
    recorded = FOLDERS["clean"]().verdict
    assert recorded is not None
    copiers = msgspec.structs.replace(READERS, produces=True, acks=-1, idempotent=True, transactional=True)
    config = {"workload": "copier" if app is None else "application", "app": app, "commit": "after"}
    rows = dict(tested.described(msgspec.structs.replace(recorded, config=config, clients=[copiers])))
    of_ours = {
        "Producers": "2, acks all, idempotent, transactional, also reading",
        "Consumers": "2, read_committed, in a group, also producing",
        "Input offsets": "committed on their own, after the output",
    }
    assert of_ours.items() <= rows.items() if app is None else not of_ours.keys() & rows.keys()


@pytest.mark.parametrize("content", ["", '{"of": "'])
def test_a_shrunk_run_says_of_which_run_it_is_the_rest(tmp_path: Path, content: str) -> None:
    run = Run(tmp_path)
    assert page.shrunk(run) == []
    made = Shrunk(of="first", anomaly="lost-write", tries=9, steps=(7, 2), settings={}, whole=True)
    run.shrunk.write_bytes(content.encode() or msgspec.json.encode(made))
    told = [("Shrunk", "from first, which had 7 faults: 2 left, for lost-write; 9 tries")]
    assert page.shrunk(run) == ([] if content else told)


def test_of_a_recording_of_others_only_what_it_holds_is_said() -> None:
    config = run_config({"seed": 1}).short() | {
        "sut": "imported",
        "imported": {"format": "jsonl", "files": ["a.jsonl"], "on_record": []},
    }
    recorded = FOLDERS["clean"]().verdict
    assert recorded is not None
    stats = recorded.stats | {"partitions": 2}
    rows = dict(
        tested.described(msgspec.structs.replace(recorded, config=config, stats=stats, clients=[PRODUCERS]))
    )
    assert rows == {
        "System": "imported, jsonl: a.jsonl",
        "Topics": "2 partitions; their settings are not on record",
        "Producers": "4 processes, acks all, idempotent",
        "Assumed": "acks all, idempotent, read_committed, where the recording does not say it",
        "Faults": "not on record",
    }


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    ("config", "where"),
    [
        ({"app": {"effects": False}}, "with INQUEST_APP as for this one"),
        ({"workload": "of-a-file"}, "with INQUEST_EXTENSIONS as for this one"),
        (  # of an earlier version, which kept names alone
            {"imported": {"format": "jsonl", "files": ["a.jsonl"]}, "workload": "imported"},
            "in the folder of the recording",
        ),
    ],
)
def test_each_output_says_what_its_command_to_repeat_needs(
    config: dict[str, object], where: str, tmp_path: Path
) -> None:
    folder = clean(ops=50)
    assert folder.verdict is not None
    for changes, said in (({}, False), (config, True)):
        verdict = msgspec.structs.replace(folder.verdict, config=folder.verdict.config | changes)
        folder.verdict = verdict
        outputs = (
            text_of(folder, tmp_path / str(said)),
            github.render(verdict),
            junit.render(verdict).decode(),
        )
        assert [where in text.replace("\\", "") for text in outputs] == [said] * 3


@pytest.mark.sampled(6)
def test_a_check_that_found_what_is_permitted_is_not_among_those_that_found_nothing(tmp_path: Path) -> None:
    folder = clean(ops=50)
    assert folder.verdict is not None
    name, check = next(iter(folder.verdict.client_checks.items()))
    total = len(folder.verdict.client_checks)
    for status, quiet in (("valid", total), ("permitted", total - 1)):
        changed = msgspec.structs.replace(check, status=status, why="found lost-write, which acks=1 permits")
        checks = folder.verdict.checks | {name: changed}
        folder.verdict = msgspec.structs.replace(folder.verdict, checks=checks)
        assert f"{quiet} checks that found nothing" in text_of(folder, tmp_path / status)


def test_a_check_that_holds_and_found_something_is_not_among_those_that_found_nothing(tmp_path: Path) -> None:
    folder = clean()
    assert folder.verdict is not None
    quiet = sum(one.status in ("valid", "unasked") for one in folder.verdict.client_checks.values())
    name, check = next((name, one) for name, one in folder.verdict.checks.items() if one.status == "valid")
    checks = folder.verdict.checks | {name: msgspec.structs.replace(check, found=2)}
    folder.verdict = msgspec.structs.replace(folder.verdict, checks=checks)
    text = text_of(folder, tmp_path / "found")
    assert f"{quiet - 1} checks that found nothing" in text
    assert "found 2 that every log may have" in text
