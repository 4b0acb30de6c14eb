"""Bad input of each format: damage is named with its place, nothing crashes, and no verdict hides it."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from checkers.recordings import edn, files
from core.errors import HistoryError
from history.events import incomplete
from history.reader import load
from tests.checkers.recordings import imported
from tests.checkers.recordings.fuzz import SEEDS, fuzz
from tests.histories.folders import check_run

Damage = Callable[[bytes], bytes]
HUGE = b"9" * 30


def line(number: int, change: Damage) -> Damage:
    """Change one line of a file."""

    def damaged(content: bytes) -> bytes:
        lines = content.split(b"\n")
        lines[number] = change(lines[number])
        return b"\n".join(lines)

    return damaged


def swap(old: bytes, new: bytes) -> Damage:
    """Replace the first occurrence."""

    def damaged(content: bytes) -> bytes:
        assert old in content
        return content.replace(old, new, 1)

    return damaged


def put(text: bytes) -> Damage:
    """A further line at the end."""
    return lambda content: content + b"\n" + text + b"\n"


ANY: dict[str, Damage] = {
    "cut in the last line": lambda content: content.rstrip()[:-5],
    "cut in a line": line(3, lambda text: text[:-4]),
    "binary line": put(b"\x00\xff\xfe\x80{\x01"),
    "binary within a line": line(3, lambda text: text[:9] + b"\x00\xff" + text[9:]),
    "text line": put(b"Exception in thread main java.lang.OutOfMemoryError"),
    "gzip that was cut": lambda content: gzip.compress(content * 50)[:-9],
    "gzip with a damaged byte": lambda content: (lambda p: p[:40] + bytes([p[40] ^ 255]) + p[41:])(
        gzip.compress(content)
    ),
    "deep nesting": put(b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}"),
    "an array": put(b"[1, 2]"),
    "a number": put(b"17"),
    "an empty object": put(b"{}"),
}
OF_FORMAT: dict[str, dict[str, Damage]] = {
    "jepsen": {
        "process of another type": swap(b":process 1", b":process 1.5"),
        "negative process": swap(b":process 1", b":process -1"),
        "huge process": swap(b":process 1", b":process " + HUGE),
        "unknown f": swap(b":f :poll", b":f :shuffle"),
        "unknown type": swap(b":type :ok", b":type :maybe"),
        "no type": swap(b":type :ok,", b""),
        "negative offset": swap(b"[0 7]", b"[-1 7]"),
        "huge offset": swap(b"[0 7]", b"[" + HUGE + b" 7]"),
        "offset that is no number": swap(b"[0 7]", b"[##NaN 7]"),
        "no offset of a read": swap(b"[[0 7]", b"[[nil 7]"),
        "missing invocation": line(0, lambda text: b""),
        "missing completion": line(1, lambda text: b""),
        "repeated line": line(1, lambda text: text + b"\n" + text),
        "lines in another order": lambda content: b"\n".join(reversed(content.split(b"\n"))),
        "another value acknowledged": swap(b"[0 7]", b"[0 70]"),
        "completion of another op": line(1, lambda text: text.replace(b":f :send", b":f :txn")),
        "float time": swap(b":time 20", b":time 2.5"),
        "unclosed quote": line(2, lambda text: text[:-1] + b' :error "x}'),
        "a key twice": swap(b":index 2,", b":index 2, :index 2,"),
    },
    "jsonl": {
        "process of another type": swap(b'"process": 1', b'"process": "1"'),
        "negative process": swap(b'"process": 1', b'"process": -1'),
        "unknown line": swap(b'"line": "op"', b'"line": "opp"'),
        "unknown outcome": swap(b'"outcome": "ok"', b'"outcome": "okay"'),
        "unknown fact": swap(b'"from_start"', b'"everything"'),
        "another format": swap(b'"format": 1', b'"format": 2'),
        "negative offset": swap(b'"offset": 0', b'"offset": -1'),
        "huge offset": swap(b'"offset": 0', b'"offset": ' + HUGE),
        "NaN": swap(b'"offset": 0', b'"offset": NaN'),
        "no topic": swap(b'"topic": "t", ', b""),
        "ends before it begins": swap(b'"end_ns": 20', b'"end_ns": 5'),
        "never ended, and ok": swap(b'"end_ns": 20', b'"end_ns": null'),
        "lines in another order": lambda content: b"\n".join(reversed(content.split(b"\n"))),
        "an op within an earlier one": put(
            b'{"line": "op", "process": 5, "outcome": "ok", "begin_ns": 10, "end_ns": 30}\n'
            b'{"line": "op", "process": 5, "outcome": "ok", "begin_ns": 12, "end_ns": 20}'
        ),
        "a process after its last op": put(
            b'{"line": "op", "process": 5, "outcome": "info", "begin_ns": 1}\n'
            b'{"line": "op", "process": 5, "outcome": "ok", "begin_ns": 2, "end_ns": 3}'
        ),
        "settings after the first op": put(b'{"line": "process", "process": 0, "acks": 1}'),
        "idempotent with acks 1": put(b'{"line": "process", "process": 9, "acks": 1, "idempotent": true}'),
        "second first line": put(b'{"line": "recording", "format": 1}'),
    },
    "verifiable": {
        "unknown event": put(b'{"timestamp": 5, "name": "rebalance"}'),
        "an event of the other tool": put(b'{"timestamp": 5, "name": "records_consumed", "count": 0}'),
        "no name": swap(b'"name": "producer_send_success", ', b""),
        "no topic": swap(b'"topic": "t", ', b""),
        "time of another type": swap(b'"timestamp": 1001', b'"timestamp": "1001"'),
        "negative time": swap(b'"timestamp": 1001', b'"timestamp": -1'),
        "huge time": swap(b'"timestamp": 1001', b'"timestamp": ' + HUGE),
        "negative offset": swap(b'"offset": 0', b'"offset": -7'),
        "huge offset": swap(b'"offset": 0', b'"offset": ' + HUGE),
        "NaN": swap(b'"offset": 0', b'"offset": NaN'),
        "negative partition": swap(b'"partition": 0', b'"partition": -1'),
        "value of another program": swap(b'"value": "0"', b'"value": "hello"'),
        "huge number": swap(b'"value": "0"', b'"value": "' + HUGE + b'"'),
        "null value": swap(b'"value": "0"', b'"value": null'),
    },
}


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    ("format", "name"), [(format, name) for format, own in OF_FORMAT.items() for name in {**ANY, **own}]
)
def test_damage_is_named_and_never_valid(tmp_path: Path, format: str, name: str) -> None:
    damage = {**ANY, **OF_FORMAT[format]}[name]
    first, *others = SEEDS[format]
    try:
        run, recording = imported(tmp_path, format, damage(first), *others)
    except HistoryError as error:
        refused = str(error)
    else:
        refused = ""
    if refused:  # nothing of it can be judged
        assert str(tmp_path) in refused
        return
    assert recording.refused > 0
    assert all(reason.startswith(str(tmp_path)) for reason in recording.reasons)
    assert any(map(incomplete, load(run).events))  # test_formats: this makes a verdict unknown at best


@pytest.mark.parametrize("format", SEEDS)
@pytest.mark.parametrize("ended", [True, False])
def test_a_huge_line_is_named_and_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str, ended: bool
) -> None:
    monkeypatch.setattr(files, "LINE_MOST", 1000)
    monkeypatch.setattr(edn, "FORM_MOST", 1000)
    first, *others = SEEDS[format]
    _, whole = imported(tmp_path / "whole", format, first, *others)
    huge = b'{:index "' if format == "jepsen" else b'{"line": "'
    damaged = first.rstrip() + b"\n" + huge + b"x" * 200_000 + b"\n" * ended
    _, recording = imported(tmp_path / "huge", format, damaged, *others)
    number = first.rstrip().count(b"\n") + 2
    (reason,) = recording.reasons
    assert f"line {number}: " in reason
    assert "64 MiB" in reason or "more than 1000 characters" in reason
    assert recording.ops == whole.ops


@pytest.mark.parametrize("format", SEEDS)
def test_the_undamaged_recording_is_valid(tmp_path: Path, format: str) -> None:
    run, recording = imported(tmp_path, format, *SEEDS[format], from_start=format == "verifiable")
    assert recording.reasons == []
    assert check_run(run).valid is True


@pytest.mark.parametrize("format", SEEDS)
@pytest.mark.parametrize(
    "change",
    [
        lambda content: b"\xef\xbb\xbf" + content,
        lambda content: content.replace(b"\n", b"\r\n"),
        lambda content: b"\n\n" + content + b"\n \n",
        gzip.compress,
    ],
)
def test_what_is_no_damage(tmp_path: Path, format: str, change: Damage) -> None:
    _, recording = imported(tmp_path, format, *map(change, SEEDS[format]))
    assert recording.reasons == []


@pytest.mark.parametrize("format", SEEDS)
@pytest.mark.parametrize("content", [b"", b"\n\n", b"\x1f\x8b", b"\x00" * 100, b"nonsense"])
def test_a_file_with_nothing_in_it_is_one_error(tmp_path: Path, format: str, content: bytes) -> None:
    with pytest.raises(HistoryError) as caught:
        imported(tmp_path, format, content)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("format", SEEDS)
def test_mutated_recordings_never_crash(format: str) -> None:
    tried = fuzz(format, range(100))
    assert tried.files == 100
    assert tried.crashes == []


def test_a_key_of_an_escaped_surrogate_pair_is_the_key_that_is_spelled_plainly(tmp_path: Path) -> None:
    sent = (
        r'{:index 0, :type :invoke, :process 0, :f :send, :value [[:send "\ud83d\ude00" "\ud83d\ude00"]]}',
        r'{:index 1, :type :ok, :process 0, :f :send, :value [[:send "😀" [0 "😀"]]]}',
    )
    polled = (
        "{:index 2, :type :invoke, :process 1, :f :poll, :value [[:poll]]}",
        r'{:index 3, :type :ok, :process 1, :f :poll, :value [[:poll {"\ud83d\ude00" [[0 "😀"]]}]]}',
    )
    run, recording = imported(tmp_path, "jepsen", "\n".join((*sent, *polled)))
    assert recording.reasons == []
    assert check_run(run).valid is True
