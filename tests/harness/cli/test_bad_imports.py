"""Bad recordings of other programs, and bad portable histories: one line, the documented code, no folder.

Not here: run folders (`test_bad_recordings`); each line in detail (`tests.checkers.recordings`).
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.checkers.recordings.fuzz import RECORDINGS
from tests.harness.cli.bad_input import command, no_traceback, one_line, refused
from tests.harness.cli.damage import DEEP

LONG = "n" * 5000

# Portable histories -----------------------------------------------------------------------------


def history(*events: dict[str, Any], **fields: Any) -> bytes:
    return json.dumps({"name": "c", "history": [*events], **fields}).encode()


def one(**fields: Any) -> dict[str, Any]:
    return {"index": 0, "type": "invoke", "process": 0, "f": "send", "value": [["send", "x", "a"]], **fields}


def done(**fields: Any) -> dict[str, Any]:
    return one(type="ok", value=[["send", "x", [0, "a"]]], **fields)


def poll(records: Any) -> bytes:
    asked = one(f="poll", value=[["poll"]])
    return history(asked, one(type="ok", f="poll", value=[["poll", records]]))


GOOD = history(
    one(),
    done(),
    one(f="poll", value=[["poll"]]),
    one(f="poll", type="ok", value=[["poll", {"x": [[0, "a"]]}]]),
)
PORTABLE: dict[str, bytes] = {
    "empty": b"",
    "blank": b" \n\t\n",
    "a mark of its encoding alone": b"\xef\xbb\xbf",
    "no case": b"[]",
    "null": b"null",
    "a number": b"17",
    "text": b'"text"',
    "no JSON": b"not json",
    "binary": bytes(range(256)),
    "NULs": bytes(100),
    "UTF-16": GOOD.decode().encode("utf-16"),
    "cut": GOOD[:-9],
    "an array that is cut": b"[" + GOOD[:-9],
    "an array of numbers": b"[1, 2]",
    "nested deeply": b'{"name": "c", "history": ' + DEEP,
    "nested deeply in an event": history(one(value=None))[:-2] + b', "more": ' + DEEP,
    "gzip": b"\x1f\x8b\x08\x00",
    "a case without a name": b'{"history": []}',
    "a case without a history": b'{"name": "c"}',
    "a history that is no list": b'{"name": "c", "history": {}}',
    "an event that is a number": b'{"name": "c", "history": [5]}',
    "an event without f": history({"index": 0, "type": "ok", "process": 0}),
    "an unknown f": history(one(f="dance")),
    "an unknown type": history(one(type="maybe")),
    "no index": history({k: v for k, v in one().items() if k != "index"}),
    "a process that is text": history(one(process="1")),
    "a negative process": history(one(process=-1)),
    "a huge process": history(one(process=2**40)),
    "a field that no event has": history(one(transaction=True)),
    "a key twice": history(one(), done()).replace(b'"index": 0', b'"index": 0, "index": 1', 1),
    "a completion without an invocation": history(done()),
    "two invocations": history(one(), one()),
    "a completion of another f": history(one(), one(type="ok", f="poll", value=[["poll"]])),
    "a completion of other sends": history(one(), one(type="ok", value=[["send", "y", [0, "a"]]])),
    "a value sent twice": history(one(value=[["send", "x", "a"], ["send", "x", "a"]])),
    "a negative offset": poll({"x": [[-1, "a"]]}),
    "a huge offset": poll({"x": [[2**62, "a"]]}),
    "an offset that is no number": poll({"x": [["0", "a"]]}),
    "an offset that is no integer": poll({"x": [[0.5, "a"]]}),
    "a value that is null": poll({"x": [[0, None]]}),
    "records that are no list": poll({"x": 5}),
    "a micro-op that there is not": history(one(value=[["append", "x", 1]])),
    "a micro-op with too much": history(one(value=[["send", "x", "a", 5]])),
    "a rebalance of an unknown type": history(one(), done(rebalance_log=[{"type": "moved", "keys": ["x"]}])),
    "a key of the poll twice": poll({"x": [[0, "a"]]}).replace(b'{"x": ', b'{"x": [[9, "b"]], "x": '),
}  # fmt: skip


@pytest.mark.parametrize("name", PORTABLE)
def test_a_bad_file_of_portable_histories(tmp_path: Path, name: str) -> None:
    path = tmp_path / "history.json"
    path.write_bytes(PORTABLE[name])
    unknown = "dance" if name == "an unknown f" else ""
    ended = refused(["check", "--history", path], said=["history.json", unknown])
    assert ended.out == ""


@pytest.mark.parametrize("name", [n for n in PORTABLE if PORTABLE[n][:1] == b"{"])
def test_a_bad_case_beside_a_good_one_is_unknown(tmp_path: Path, name: str) -> None:
    path = tmp_path / "history.json"
    bad = PORTABLE[name].replace(b'"name": "c"', b'"name": "bad"')
    path.write_bytes(b"[" + GOOD + b",\n" + bad + b"]")
    ended = command("check", "--history", path)
    one_line(ended, code=2, said=["not judged: ", "history.json"])
    assert "c [assign+ww]: valid True" in ended.out


def test_a_file_of_units_alone(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    path.write_text('[{"name": "u", "kind": "unit", "history": []}]')
    ended = command("check", "--history", path)
    no_traceback(ended)
    assert ended.code == 64
    assert ended.err.splitlines()[0] == "inquest: u: skipped, it holds no history"


def test_the_good_history_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    path.write_bytes(GOOD)
    ended = command("check", "--history", path)
    assert (ended.code, ended.err) == (0, "")


FILES: dict[str, Callable[[Path], str]] = {
    "is not there": lambda tmp: str(tmp / "none"),
    "is a folder": lambda tmp: str(tmp),
    "has a name that is too long": lambda tmp: LONG,
    "is a link to itself": lambda tmp: str(tmp / "loop"),
    "lies below a file": lambda tmp: str(tmp / "file" / "x"),
    "is a pipe": lambda tmp: str(tmp / "pipe"),
    "is a device without an end": lambda tmp: "/dev/zero",
    "is a device without content": lambda tmp: "/dev/null",
    "has a NUL in its name": lambda tmp: "a\0b",
}
READERS: dict[str, list[str]] = {
    "check --history": ["check", "--history"],
    "import jepsen": ["recording", "import", "jepsen"],
    "import jsonl": ["recording", "import", "jsonl"],
    "import verifiable": ["recording", "import", "verifiable"],
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("reader", READERS)
def test_a_file_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, reader: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    os.mkfifo(tmp_path / "pipe")
    refused([*READERS[reader], FILES[name](tmp_path)])
    assert not list(tmp_path.glob("results/*"))


# Imports ----------------------------------------------------------------------------------------

SEEDS = {"jepsen": "jepsen.edn", "jsonl": "lines.jsonl", "verifiable": "consumer.jsonl"}
IMPORTS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "blank": lambda _: b"\n \n",
    "binary": lambda _: bytes(range(256)),
    "NULs": lambda _: bytes(1000),
    "text": lambda _: b"Exception in thread main",
    "UTF-16": lambda found: found.decode().encode("utf-16"),
    "gzip without content": lambda _: b"\x1f\x8b",
    "nested deeply": lambda _: DEEP,
    "an object nested deeply": lambda _: b'{"a": ' + DEEP,
    "a quote that is never closed": lambda _: b'{:a "' + b"x" * 3_000_000,
}


@pytest.mark.parametrize("name", IMPORTS)
@pytest.mark.parametrize("format", SEEDS)
def test_a_recording_with_nothing_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "recording"
    path.write_bytes(IMPORTS[name]((RECORDINGS / SEEDS[format]).read_bytes()))
    refused(["recording", "import", format, path], said=[str(path)])
    assert not list(tmp_path.glob("results/*"))


ARGUMENTS: dict[str, tuple[list[str], tuple[str, ...]]] = {
    "an unknown format": (["parquet", "{jsonl}"], ("parquet", "jepsen")),
    "no file": (["jsonl"], ("files",)),
    "no format": ([], ("argument",)),
    "two histories of Jepsen": (["jepsen", "{jepsen}", "{jepsen}"], ("one file",)),
    "an option of another format": (["jsonl", "{jsonl}", "--from-start"], ("verifiable",)),
    "clocks of another format": (["jsonl", "{jsonl}", "--clock-error", "1"], ("verifiable",)),
    "one group of another format": (["jepsen", "{jepsen}", "--one-group"], ("verifiable",)),
    "a setting of the system": (["jsonl", "{jsonl}", "--set", "sut=kafka"], ("sut",)),
    "a setting that there is not": (["jsonl", "{jsonl}", "--set", "colour=blue"], ("colour",)),
    "a setting without a value": (["jsonl", "{jsonl}", "--set", "acks"], ("name=value",)),
    "acks 9": (["jsonl", "{jsonl}", "--set", "acks=9"], ("acks",)),
    "acks 1 and idempotent": (["jsonl", "{jsonl}", "--set", "acks=1", "--set", "idempotent=true"], ("acks",)),
    "another level": (["jsonl", "{jsonl}", "--set", "isolation=serializable"], ("isolation",)),
    "results that are a file": (["jsonl", "{jsonl}", "--results", "{jsonl}"], ("results",)),
    "results below a file": (["jsonl", "{jsonl}", "--results", "{jsonl}/x"], ("results",)),
    "results of a name that is too long": (["jsonl", "{jsonl}", "--results", LONG], ("results",)),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_of_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    places = {format: str(RECORDINGS / file) for format, file in SEEDS.items()}
    words, said = ARGUMENTS[name]
    refused(["recording", "import", *(word.format(**places) for word in words)], said=said)
    assert not list(tmp_path.glob("results/*"))


OP = {"line": "op", "process": 9, "outcome": "ok", "begin_ns": 5, "end_ns": 6}
RECORD = {"topic": "t", "partition": 0, "value": "z", "offset": 7}
LINES: dict[str, dict[str, Any] | str] = {
    "an unknown line": {"line": "opp"},
    "an unknown field": {**OP, "transaction": True},
    "an unknown outcome": {**OP, "outcome": "okay"},
    "a process that is text": {**OP, "process": "9"},
    "a negative process": {**OP, "process": -9},
    "a process of 2^31": {**OP, "process": 2**31},
    "an end before the begin": {**OP, "end_ns": 1},
    "an op that never ended and is ok": {**OP, "end_ns": None},
    "a negative offset": {**OP, "sends": [{**RECORD, "offset": -1}]},
    "an offset of 2^62": {**OP, "sends": [{**RECORD, "offset": 2**62}]},
    "a partition of 2^31": {**OP, "sends": [{**RECORD, "partition": 2**31}]},
    "a negative partition": {**OP, "reads": [{**RECORD, "partition": -1}]},
    "a record without a topic": {**OP, "sends": [{"partition": 0, "value": "z"}]},
    "a value that is a list": {**OP, "sends": [{**RECORD, "value": []}]},
    "a commit of no group": {**OP, "commits": [{"topic": "t", "partition": 0, "offset": 1}]},
    "a failed record with an offset": {**OP, "sends": [{**RECORD, "outcome": "fail"}]},
    "a log that ends before it starts": {"line": "end", "topic": "t", "partition": 0, "start": 9, "end": 5},
    "a second first line": {"line": "recording", "format": 1},
    "settings of a process that began": {"line": "process", "process": 0, "acks": 1},
    "an idempotent process with acks 1": {"line": "process", "process": 9, "acks": 1, "idempotent": True},
    "an assignment of an unknown kind": {
        "line": "assignment", "process": 1, "ns": 99, "kind": "given", "partitions": []},
    "a key twice": json.dumps(OP).replace('"end_ns": 6', '"end_ns": 6, "end_ns": 7'),
    "a number": "17",
    "a line that is cut": json.dumps(OP)[:-9],
    "NaN": json.dumps(OP).replace("6", "NaN"),
}  # fmt: skip


@pytest.mark.sampled(11)
@pytest.mark.parametrize("name", LINES)
def test_a_bad_line_of_a_recording(tmp_path: Path, name: str) -> None:
    path, results = tmp_path / "recording.jsonl", tmp_path / "results"
    bad = LINES[name]
    content = (RECORDINGS / "lines.jsonl").read_text().rstrip() + "\n"
    path.write_text(content + (bad if isinstance(bad, str) else json.dumps(bad)) + "\n")
    ended = command("recording", "import", "jsonl", path, "--results", results, "--engine", "process")
    number = content.count("\n") + 1
    one_line(ended, code=2, said=[f"not read: {path}: line {number}: "])
    assert command("check", results / "latest", "--engine", "process").code == 2
