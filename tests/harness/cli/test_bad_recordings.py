"""Bad recordings: every command that reads what others made ends with one line and the documented code, and
takes nothing in silence. A case is damage to a good recording, and what the line has to name.

Not here: what is refused of values and lines in detail (`tests.checkers.recordings`, `tests.checkers`).
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import requests

from history.run_folder import Run
from tests.harness.cli.bad_input import command, no_traceback, one_line, refused
from tests.harness.cli.damage import (
    DEEP,
    Damage,
    appended,
    bomb,
    both,
    copied,
    edited,
    emptied,
    event,
    foldered,
    gone,
    halved,
    holds,
    line,
    linked,
    names,
    of_reader,
    other_columns,
    piped,
    put,
    settings,
    unit,
    without_row,
)

UNIT = "00000-00002"
LONG = "n" * 5000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A small simulated run with its verdict, to be copied and damaged."""
    results = tmp_path_factory.mktemp("made")
    words = ["--sut", "simulated", "--nemesis", "kill", "--duration", "1", "--seed", "3", "--rate", "20"]
    for setting in ("partitions=3", "producers=2", "home_producers=0", "consumers=1"):
        words += ["--set", setting]
    ended = command("run", *words, "--results", results, "--engine", "process")
    assert ended.code == 0, ended
    return Run((results / "latest").resolve())


@pytest.fixture
def run(made: Run, tmp_path: Path) -> Run:
    shutil.copytree(made.folder, tmp_path / "run")
    return Run(tmp_path / "run")


class Case(NamedTuple):
    """Damage, what the one line has to name, and the code. unsealed: the journals are read, not tables."""

    damage: Damage
    said: tuple[str, ...]
    code: int = 64
    unsealed: bool = False


# A run folder -----------------------------------------------------------------------------------

CONFIG = {
    "is missing": Case(gone("config.json"), ("not a run folder",)),
    "is empty": Case(holds("config.json", b""), ("config.json",)),
    "is cut": Case(halved("config.json"), ("config.json",)),
    "is no JSON": Case(holds("config.json", b"seed: 7"), ("config.json",)),
    "is an array": Case(holds("config.json", b"[]"), ("config.json",)),
    "is null": Case(holds("config.json", b"null"), ("config.json",)),
    "is binary": Case(holds("config.json", bytes(range(256))), ("config.json",)),
    "is nested deeply": Case(
        holds("config.json", b'{"seed": 1, "client_settings": ' + DEEP), ("config.json",)),
    "is nested deeply and ends": Case(
        holds("config.json", DEEP + b"]" * len(DEEP)), ("config.json",)),
    "is a folder": Case(foldered("config.json"), ("config.json",)),
    "is a link": Case(linked("config.json", "/etc/hostname"), ("config.json", "a link")),
    "is a pipe": Case(piped("config.json"), ("config.json", "a pipe")),
    "unknown setting": Case(settings(colour="blue"), ("colour",)),
    "unknown system": Case(settings(sut="abacus"), ("config.json",)),
    "seed is text": Case(settings(seed="x"), ("seed",)),
    "acks 7": Case(settings(acks=7), ("acks",)),
    "brokers -1": Case(settings(brokers=-1), ("brokers",)),
    "NaN": Case(holds("config.json", b'{"seed": NaN}'), ("config.json",)),
}  # fmt: skip
EVENTS = {
    "a damaged line": Case(line("events.jsonl", 1, lambda _: b"{"), ("events.jsonl",)),
    "an unknown event": Case(line("events.jsonl", 1, put("more", "event")), ("events.jsonl",)),
    "nested deeply": Case(
        line("events.jsonl", 1, lambda _: b'{"event":"phase","x":' + DEEP), ("events.jsonl",)),
    "binary": Case(holds("events.jsonl", b"\xff\xfe\x00\n\n"), ("events.jsonl",)),
    "a phase that there is not": Case(event("phase", put(99, "phase"), "events.jsonl"), ("events.jsonl",)),
    "a pipe": Case(piped("events.jsonl"), ("events.jsonl", "a pipe")),
    "a link": Case(linked("events.jsonl", "/dev/zero"), ("events.jsonl", "a link")),
    "a folder": Case(foldered("events.jsonl"), ("events.jsonl",)),
    "bounds of partition -1": Case(
        event("bounds", put(-1, "rows", 0, 1), "events.jsonl"), ("events.jsonl", "-1"), unsealed=True),
    "bounds of isolation 5": Case(
        event("bounds", put(5, "rows", 0, 2), "events.jsonl"), ("events.jsonl",), unsealed=True),
    "bounds that start behind their end": Case(
        event("bounds", put(10**9, "rows", 0, 3), "events.jsonl"), ("events.jsonl",), unsealed=True),
    "bounds beyond all offsets": Case(
        event("bounds", put(10**30, "rows", 0, 4), "events.jsonl"), ("events.jsonl",), unsealed=True),
}  # fmt: skip
NAMES = {
    "is empty": Case(holds("history/names.json", b""), ("names.json",)),
    "is cut": Case(halved("history/names.json"), ("names.json",)),
    "is an array": Case(holds("history/names.json", b"[1]"), ("names.json",)),
    "is nested deeply": Case(holds("history/names.json", DEEP), ("names.json",)),
    "is a pipe": Case(piped("history/names.json"), ("names.json", "a pipe")),
    "is a link": Case(linked("history/names.json", "/etc/hostname"), ("names.json", "a link")),
    "no format": Case(names(format=None), ("names.json", "format")),
    "a newer format": Case(names(format=99), ("99", "newer")),
    "names are numbers": Case(names(f=[1, 2]), ("names.json",)),
    "a unit elsewhere": Case(unit(name="../../../etc/passwd"), ("names.json", "passwd")),
    "a unit of an absolute path": Case(unit(name="/etc/passwd"), ("names.json",)),
    "a unit with a line break": Case(unit(name="00000-00002\nVALID"), ("names.json",)),
    "a unit of other partitions": Case(unit(name="00000-00001", tps=[0, 1]), ("00000-00001",)),
    "a unit that leaves a partition out": Case(unit(tps=[0, 2]), ("other partitions",)),
    "a unit without partitions": Case(unit(tps=[]), ("names.json",)),
    "a unit of negative partitions": Case(unit(tps=[-1, 0, 1, 2]), ("names.json",)),
    "a unit whose partitions are in no order": Case(unit(tps=[2, 1, 0]), ("names.json",)),
    "a unit of a partition twice": Case(unit(tps=[0, 1, 1, 2]), ("names.json",)),
    "a unit of huge partitions": Case(unit(tps=[0, 1, 2**40]), ("names.json",)),
    "fewer sends": Case(unit(sends=1), ("names.json says 1",)),
    "negative reads": Case(unit(reads=-1), ("names.json",)),
    "two units of one partition": Case(
        edited("history/names.json", lambda f: {**f, "units": f["units"] * 2}), ("another unit",)),
    "a unit without a file": Case(
        edited("history/names.json", lambda f: {**f, "units": [
            *f["units"], {"name": "00003-00003", "tps": [3], "sends": 0, "reads": 0}]}), ("00003-00003",)),
}  # fmt: skip
SENDS = f"history/sends/{UNIT}.parquet"
TABLES = {
    "ops are gone": Case(gone("history/ops.parquet"), ("ops.parquet",)),
    "ops are cut": Case(halved("history/ops.parquet"), ("ops.parquet",)),
    "ops are text": Case(holds("history/ops.parquet", b"PAR1" * 9), ("ops.parquet",)),
    "ops have other columns": Case(other_columns("history/ops.parquet"), ("ops.parquet", "columns")),
    "ops are a pipe": Case(piped("history/ops.parquet"), ("ops.parquet", "a pipe")),
    "ops are a folder": Case(foldered("history/ops.parquet"), ("ops.parquet",)),
    "processes are empty": Case(holds("history/processes.parquet", b""), ("processes.parquet",)),
    "sends are gone": Case(gone(SENDS), (UNIT,)),
    "sends are cut": Case(halved(SENDS), (UNIT,)),
    "sends are reads": Case(copied(f"history/reads/{UNIT}.parquet", SENDS), (UNIT, "columns")),
    "sends are a link": Case(linked(SENDS, "/dev/zero"), (UNIT, "a link")),
    "sends in a folder that is a link": Case(linked("history/sends", "/tmp"), ("sends", "a link")),
    "a history that is a link": Case(linked("history", "/tmp"), ("history", "a link")),
    "checked is a link": Case(linked("checked", "/tmp"), ("checked", "a link")),
    "a bomb of rows": Case(
        bomb("history/producers.parquet", 9_000_000, 1 << 20), ("producers.parquet", "rows in")),
    "a bomb of one row group": Case(
        bomb("history/producers.parquet", (1 << 22) + 1, 1 << 23), ("producers.parquet", "row")),
    "tps are of another run": Case(
        without_row("history/tps.parquet"), ("tps.parquet",)),
    "the history lost its names and journals": Case(
        both(gone("history/names.json"), lambda run: shutil.rmtree(run.journal)), ("names.json",)),
}  # fmt: skip
J0 = "journal/0.jsonl"
JOURNALS = {
    "twice over": Case(appended(J0, lambda found: found), (J0, "second header")),
    "another one behind it": Case(
        lambda run: appended(J0, lambda _: (run.journal / "1.jsonl").read_bytes())(run), (J0, "process 1")),
    "a copy under another number": Case(copied(J0, "journal/77.jsonl"), ("77.jsonl", "process 0")),
    "a copy under a longer number": Case(copied(J0, "journal/00.jsonl"), ("00.jsonl",)),
    "a stray file": Case(holds("journal/evil.jsonl", b"{}\n"), ("evil.jsonl",)),
    "a stray file with a sign": Case(holds("journal/-1.jsonl", b"{}\n"), ("-1.jsonl",)),
    "a stray file with another digit": Case(holds("journal/\u0663.jsonl", b"{}\n"), (".jsonl",)),
    "a pipe": Case(piped("journal/5000.jsonl"), ("5000.jsonl", "a pipe")),
    "a link to a device": Case(linked("journal/5000.jsonl", "/dev/zero"), ("5000.jsonl", "a link")),
    "a folder": Case(foldered("journal/5000.jsonl"), ("5000.jsonl",)),
    "no header": Case(line(J0, 0, lambda _: b'{"event":"close","ns":1,"end":0}'), (J0, "header")),
    "a header of a newer format": Case(line(J0, 0, put(99, "format")), (J0, "99")),
    "a header of process -1": Case(line(J0, 0, put(-1, "process")), (J0,)),
    "a header of process 2^31": Case(
        lambda run: (line(J0, 0, put(2**31, "process"))(run),
                     (run.folder / J0).rename(run.journal / f"{2**31}.jsonl")), (str(2**31),)),
    "a header of slot 2^20": Case(line(J0, 0, put(2**20, "slot")), (J0,)),
    "a header of another run": Case(line(J0, 0, put("elsewhere", "run")), ("another run",)),
    "a header at a time that does not fit": Case(line(J0, 0, put(2**70, "ns")), (J0,)),
    "a cut line": Case(line(J0, 2, lambda _: b'{"event":"sent"'), (J0, "line 3")),
    "a line of NULs": Case(line(J0, 2, lambda _: bytes(50)), (J0, "line 3")),
    "a line nested deeply": Case(line(J0, 2, lambda _: b'{"event":"sent","op":' + DEEP), (J0, "line 3")),
    "an unknown line": Case(line(J0, 2, put("guess", "event")), (J0, "line 3")),
    "a send to partition -7": Case(event("invoke", put(-7, "mops", 0, 1, 1)), (J0, "-7")),
    "a send to partition 2^31": Case(event("invoke", put(2**31, "mops", 0, 1, 1)), (J0, str(2**31))),
    "a send to partition 1.5": Case(event("invoke", put(1.5, "mops", 0, 1, 1)), (J0,)),
    "a value that does not fit": Case(event("invoke", put(10**30, "mops", 0, 2)), (J0,)),
    "an unknown phase": Case(event("invoke", put(77, "phase")), (J0,)),
    "an unknown outcome of a record": Case(event("sent", put(9, "results", 0, 0)), (J0,)),
    "an offset below -1": Case(event("sent", put(-2, "results", 0, 1)), (J0,)),
    "an offset that does not fit": Case(event("sent", put(10**30, "results", 0, 1)), (J0,)),
    "an unknown outcome of an op": Case(event("complete", put(9, "outcome")), (J0,)),
    "a process that sends with acks null": Case(
        line(J0, 0, put(None, "spec", "acks")), (J0, "does not produce")),
    "a process that reads at no level": Case(
        of_reader("open", put(-1, "spec", "isolation")), ("does not consume",)),
    "a read of partition -1": Case(
        of_reader("polled", put([["queue", -1, [0], [1], [-1]]], "runs")), ("journal",)),
    "a read of offset 10^30": Case(
        of_reader("polled", put([["queue", 0, [10**30], [1], [-1]]], "runs")), ("journal",)),
    "a read at epoch 2^40": Case(
        of_reader("polled", put([["queue", 0, [0], [1], [2**40]]], "runs")), ("journal",)),
    "a foreign record of reason 9": Case(
        of_reader("polled", put([["queue", 0, 0, 9, ""]], "foreign")), ("journal",)),
}  # fmt: skip
EVIDENCE = {
    "the folder is gone": Case(
        lambda run: shutil.rmtree(run.evidence), ("evidence is gone", "the run had it"), code=2
    ),
    "the folder is empty": Case(emptied("evidence"), ("evidence",), code=2),
    "a table is gone that earlier versions do not have": Case(
        gone("evidence/znodes.parquet"), ("znodes.parquet is gone",), code=2
    ),
    "a table is gone": Case(gone("evidence/takes.parquet"), ("takes.parquet",), code=2),
    "a table is cut": Case(halved("evidence/batches.parquet"), ("batches.parquet",), code=2),
    "a table is empty": Case(holds("evidence/nodes.parquet", b""), ("nodes.parquet",), code=2),
    "a table has other columns": Case(other_columns("evidence/ends.parquet"), ("ends.parquet", "columns")),
    "a table is a pipe": Case(piped("evidence/ends.parquet"), ("ends.parquet", "a pipe")),
    "the folder is a link": Case(linked("evidence", "/tmp"), ("evidence", "a link")),
}
FOLDERS = {
    f"{part}: {name}": case._replace(unsealed=part == "journal" or case.unsealed)
    for part, cases in (
        ("config", CONFIG), ("events", EVENTS), ("names", NAMES), ("table", TABLES), ("journal", JOURNALS),
        ("evidence", EVIDENCE))
    for name, case in cases.items()
}  # fmt: skip


@pytest.mark.sampled(11)
@pytest.mark.parametrize("name", FOLDERS)
def test_a_damaged_run_folder(run: Run, name: str) -> None:
    case = FOLDERS[name]
    if case.unsealed:
        shutil.rmtree(run.history)
    run.verdict.unlink()
    case.damage(run)
    ended = command("check", run.folder, "--engine", "process")
    if case.code == 64:
        one_line(ended, code=64, said=case.said)
        assert not run.verdict.exists()
        assert not case.unsealed or not run.history.exists()
        return
    no_traceback(ended)
    assert (ended.code, ended.err) == (case.code, "")
    assert all(word in ended.out for word in ("evidence is missing", *case.said)), ended.out


@pytest.mark.sampled(8)
@pytest.mark.parametrize("unsealed", [False, True])
def test_the_undamaged_run_is_valid(run: Run, unsealed: bool) -> None:
    if unsealed:
        shutil.rmtree(run.history)
    assert command("check", run.folder, "--engine", "process").code == 0


WHERE: dict[str, tuple[list[str], str]] = {
    "nothing": (["check"], "--history"),
    "a folder and a file": (["check", "{tmp}", "--history", "{tmp}/x"], "--history"),
    "nothing there": (["check", "{tmp}/none"], "none"),
    "an empty folder": (["check", "{tmp}"], "not a run folder"),
    "a file": (["check", "{tmp}/file"], "file"),
    "no name": (["check", ""], "not a run folder"),
    "a name that is too long": (["check", LONG], "not a run folder"),
    "a path below a file": (["check", "{tmp}/file/run"], "not a run folder"),
    "a link to itself": (["check", "{tmp}/loop"], "not a run folder"),
    "a name with a NUL": (["check", "a\0b"], "not a run folder"),
    "a URL of nothing": (["check", "s3://"], "names no bucket"),
    "a URL of an unknown store": (["check", "abacus://x/y"], "abacus"),
    "a report of nothing": (["report", "{tmp}/none"], "none"),
    "a report of an empty folder": (["report", "{tmp}"], "verdict.json"),
    "a report of a file": (["report", "{tmp}/file"], "file"),
    "a report of a name that is too long": (["report", LONG], "no such run folder"),
    "a report of a link to itself": (["report", "{tmp}/loop"], "no such run folder"),
    "an export of nothing": (["recording", "export", "{tmp}/none"], "not a run folder"),
    "an export of a name that is too long": (["recording", "export", LONG], "not a run folder"),
    "an export of a link to itself": (["recording", "export", "{tmp}/loop"], "not a run folder"),
    "an export to another format": (["recording", "export", "{tmp}", "--to", "csv"], "csv"),
}


@pytest.mark.parametrize("name", WHERE)
def test_what_is_not_there(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    words, said = WHERE[name]
    refused([word.format(tmp=tmp_path) for word in words], said=[said])


def test_a_name_with_a_line_break_forges_no_verdict() -> None:
    ended = command("check", "a\nVALID: no forbidden anomaly")
    assert (ended.code, ended.out) == (64, "")
    assert not any(line.startswith("VALID") for line in ended.err.splitlines())


def test_a_store_that_cannot_be_reached_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: Any, **__: Any) -> None:
        raise requests.exceptions.ConnectionError("no route to host")

    monkeypatch.setattr(requests, "get", unreachable)
    refused(["check", "github://o:r@main/x"], code=70, said=["github://o:r@main/x", "no route to host"])


def test_a_url_that_lacks_a_part_is_one_line() -> None:
    refused(["check", "github://x/y"], said=["github://x/y"])


# Reports and exports ----------------------------------------------------------------------------

VERDICTS = {
    "is missing": Case(gone("verdict.json"), ("no verdict.json",)),
    "is empty": Case(holds("verdict.json", b""), ("verdict.json",)),
    "is cut": Case(halved("verdict.json"), ("verdict.json",)),
    "is an array": Case(holds("verdict.json", b"[]"), ("verdict.json",)),
    "is nested deeply": Case(holds("verdict.json", DEEP), ("verdict.json",)),
    "is binary": Case(holds("verdict.json", b"\xff\x00"), ("verdict.json",)),
    "is newer": Case(edited("verdict.json", put(99, "format")), ("99", "newer")),
    "is neither valid nor not": Case(edited("verdict.json", put("perhaps", "valid")), ("verdict.json",)),
    "is a folder": Case(foldered("verdict.json"), ("verdict.json",)),
    "is a pipe": Case(piped("verdict.json"), ("verdict.json", "a pipe")),
    "is a link": Case(linked("verdict.json", "/dev/zero"), ("verdict.json", "a link")),
    "the page is a folder": Case(foldered("report.html"), ("report.html",)),
    "a journal is a pipe": Case(piped("journal/5000.jsonl"), ("5000.jsonl", "a pipe")),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_a_report_of_a_damaged_verdict(run: Run, name: str) -> None:
    VERDICTS[name].damage(run)
    refused(["report", run.folder], said=VERDICTS[name].said)


OUTPUTS: dict[str, Callable[[Path], str]] = {
    "a folder": lambda tmp: str(tmp),
    "in a folder that is not there": lambda tmp: str(tmp / "none" / "file"),
    "below a file": lambda tmp: str(tmp / "run" / "config.json" / "file"),
    "of a name that is too long": lambda tmp: LONG,
    "a link to itself": lambda tmp: str(tmp / "loop"),
    "a name with a NUL": lambda tmp: "a\0b",
}


@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.parametrize("to", ["portable", "jepsen"])
def test_an_export_that_cannot_be_written(run: Run, tmp_path: Path, name: str, to: str) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    ended = command("recording", "export", run.folder, "--to", to, "--output", OUTPUTS[name](tmp_path))
    no_traceback(ended)
    assert (ended.code, ended.out) == (64, "")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (piped("journal/5000.jsonl"), "a pipe"),
        (piped("events.jsonl"), "a pipe"),
        (linked("config.json", "/dev/zero"), "a link"),
    ],
)
def test_a_run_that_is_followed(run: Run, damage: Damage, said: str) -> None:
    damage(run)
    refused(["check", run.folder, "--follow", "--engine", "process"], said=[said])


@pytest.mark.parametrize("name", ["none", LONG])
def test_a_run_that_is_not_there_is_not_followed(tmp_path: Path, name: str) -> None:
    refused(["check", tmp_path / name, "--follow"], said=["config.json"])
