"""An application's output is traced to its input, and what cannot be traced has its reason."""

import json
import os
import shlex
from base64 import b64encode, urlsafe_b64encode
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote_from_bytes

import pytest

from core.client_settings import SessionSpec
from core.config import Application, RunConfig, run_config
from core.errors import ClusterError, ConfigError
from core.extensions import APP
from core.op import DATABASE, CommitKind, End, Outcome, Send, TopicPartition
from core.payload import MIN_SIZE, Foreign, Uncommitted, encode, named, origin
from harness import compose
from harness.clients.application import effects
from harness.clients.application import named as applications
from harness.clients.application.copies import Copies
from harness.clients.application.effects import Effects
from harness.clients.application.instance import surroundings
from harness.clients.application.results import Results
from harness.modelled.virtual.worker_task import Lines
from history import journal as j
from tests.waiting import until

IN, OUT = TopicPartition("in", 3), TopicPartition("out", 0)
SIZE = 100
RECORD = encode("run", IN, 7, SIZE)
Value = int | Foreign | Uncommitted


@pytest.mark.parametrize("size", range(64, 70))
def test_a_record_is_found_as_bytes_and_in_text(size: int) -> None:
    record = encode("run", IN, 7, size)
    written = (record, b64encode(record), record.hex().encode(), record.hex().upper().encode())
    for text in written:
        assert origin("run", "in", b'{"of": "' + text + b'", "n": 1}', size) == (3, 7)


def in_lines(text: bytes, width: int = 76, end: bytes = b"\n") -> bytes:
    return b"".join(text[at : at + width] + end for at in range(0, len(text), width))


def percent(text: bytes) -> bytes:
    return quote_from_bytes(text, safe="").encode()


FORMS: dict[str, Callable[[bytes], bytes]] = {
    "coreutils, MySQL, PostgreSQL": lambda record: in_lines(b64encode(record)),
    "MIME": lambda record: in_lines(b64encode(record), end=b"\r\n"),
    "PEM": lambda record: in_lines(b64encode(record), 64),
    "lines in JSON": lambda record: json.dumps(in_lines(b64encode(record)).decode()).encode(),
    "lines in JSON in JSON": lambda record: json.dumps(
        json.dumps(in_lines(b64encode(record), end=b"\r\n").decode())
    ).encode(),
    "URL": urlsafe_b64encode,
    "URL without padding": lambda record: urlsafe_b64encode(record).rstrip(b"="),
    "without padding": lambda record: b64encode(record).rstrip(b"="),
    "percent": lambda record: percent(b64encode(record)),
    "PHP": lambda record: b64encode(record).replace(b"/", rb"\/"),
    "Gson": lambda record: b64encode(record).replace(b"=", rb"\u003d"),
    "System.Text.Json": lambda record: b64encode(record).replace(b"+", rb"\u002B"),
    "all escaped": lambda record: b"".join(b"\\\\u00%02x" % one for one in b64encode(record)).replace(
        rb"\\u0061\\u0055\\u0035\\u0052", b"aU5R"
    ),
    "xxd": lambda record: in_lines(record.hex().encode(), 60),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_record_is_found_however_its_text_is_written_down(form: str) -> None:
    letters = set[int]()
    for value in range(60):
        size = MIN_SIZE + value % 3 + 40 * (value % 2)
        record = encode("run", IN, value, size)
        letters |= set(b64encode(record))
        text = FORMS[form](record)
        for before, after in ((b'{"of": "', b'", "n": 1}'), (b"", b""), (b"x=", b"&y=abcdefgh")):
            assert origin("run", "in", before + text + after, size) == (3, value)
    assert letters > set(b"+/="), "no form is asked for these"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("damaged", [RECORD[:-1] + b"x", RECORD[:40] + b"x" + RECORD[41:], RECORD[:-3]])
def test_what_is_damaged_stays_so_however_its_text_is_written_down(form: str, damaged: bytes) -> None:
    assert origin("run", "in", b'{"of": "' + FORMS[form](damaged) + b'"}', SIZE) in (
        Foreign.CORRUPT,
        Foreign.UNREADABLE,
    )


@pytest.mark.parametrize("at", [20, 75, 76, 100, 133])
@pytest.mark.parametrize("letters", [b"", b"AA", b"-", b"="])
def test_text_that_lacks_a_letter_or_has_another_one_names_nothing(at: int, letters: bytes) -> None:
    text = b64encode(RECORD)
    assert text[at : at + 1] not in (b"+", b"-")
    assert isinstance(origin("run", "in", text[:at] + letters + text[at + 1 :], SIZE), Foreign)


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"", Foreign.UNREADABLE),
        (b"hello", Foreign.UNREADABLE),
        (b64encode(RECORD)[:-4], Foreign.CORRUPT),
        (RECORD[:-1] + b"x", Foreign.CORRUPT),
        (RECORD[:50], Foreign.CORRUPT),
        (encode("other", IN, 7, SIZE), Foreign.OTHER_RUN),
        (encode("run", TopicPartition("elsewhere", 3), 7, SIZE), Foreign.MISDIRECTED),
    ],
)
def test_what_names_no_record_of_the_input_has_its_reason(payload: bytes, why: Foreign) -> None:
    assert origin("run", "in", payload, SIZE) is why


def copies() -> Copies:
    return Copies(run="run", input="in", process=9, size=SIZE)


def test_copies_are_journaled_with_their_inputs_and_the_commits() -> None:
    made, lines = copies(), Lines[j.Line]()
    assert made.value(IN, 41, RECORD) == 7
    values = [made.value(OUT, 5, RECORD), made.value(OUT, 6, b64encode(RECORD))]
    assert len(set(values)) == 2
    assert made.value(OUT, 7, encode("run", IN, 8, SIZE)) == Uncommitted(8)
    made.write(lines, 10, 20, {IN: 42})
    (copying,) = [line for line in lines.lines if isinstance(line, j.Copying)]
    assert copying.records == [("out", 0, value, "in", 3, 41) for value in values]
    (sent,) = [line for line in lines.lines if isinstance(line, j.SendResults)]
    assert [result[:2] for result in sent.results] == [(Outcome.OK, 5), (Outcome.OK, 6)]
    (committed,) = [line for line in lines.lines if isinstance(line, j.OffsetsCommitted)]
    assert (committed.kind, committed.offsets) == (CommitKind.SYNC, [("in", 3, 42)])
    assert lines.lines[-1] == j.Closed(20, End.CLOSED)
    assert lines.closed


@pytest.mark.parametrize(
    ("outputs", "parts", "copies_of_it", "repeats"),
    [
        (None, "ab", 2, False),  # one-to-one: a second output is one too many
        (0, "", 0, False),
        (0, "a", 1, False),
        (0, "abc", 1, False),
        (0, "abca", 2, False),
        (0, "aa", 2, True),
        (2, "a", 0, False),  # a part is missing
        (2, "ab", 1, False),
        (2, "abc", 2, False),
        (2, "abb", 2, False),
        (2, "aa", 2, False),
        (2, "aa", 0, True),  # what may be repeated hides no loss
        (2, "a", 0, True),
        (2, "abb", 2, True),
        (2, "abc", 2, True),
        (2, "abab", 3, False),
    ],
)
def test_a_flat_map_is_copied_once_where_its_parts_are_there_once(
    outputs: int | None, parts: str, copies_of_it: int, *, repeats: bool
) -> None:
    made = Copies(run="run", input="in", process=9, size=SIZE, outputs=outputs, repeats=repeats)
    lines = Lines[j.Line]()
    made.value(IN, 41, RECORD)
    values = [made.value(OUT, at, RECORD + part.encode()) for at, part in enumerate(parts)]
    made.write(lines, 10, 20, {IN: 42})
    copied = [one[2] for line in lines.lines if isinstance(line, j.Copying) for one in line.records]
    assert len(copied) == copies_of_it
    sent = [
        mop.value
        for line in lines.lines
        if isinstance(line, j.Invoked)
        for mop in line.mops
        if isinstance(mop, Send)
    ]
    assert sorted([*copied, *sent]) == values  # each output record is one of the process
    offsets = [
        result[1] for line in lines.lines if isinstance(line, j.SendResults) for result in line.results
    ]
    assert sorted(offsets) == list(range(len(parts)))
    ops = [line.op for line in lines.lines if isinstance(line, j.OpCompleted)]
    assert ops == list(range(1, len(ops) + 1))


@pytest.mark.parametrize("outputs", [None, 2])
@pytest.mark.parametrize(("times", "offsets"), [(0, []), (1, [41]), (2, [41, 44]), (3, [41, 44, 44])])
def test_each_of_two_input_records_of_one_value_has_a_copy(
    times: int, offsets: list[int], outputs: int | None
) -> None:
    """Kafka, or a producer that is not idempotent, doubled the record: the application did not."""
    made, lines = Copies(run="run", input="in", process=9, size=SIZE, outputs=outputs), Lines[j.Line]()
    for offset in (41, 44):
        assert made.value(IN, offset, RECORD) == 7
    for number in range(times):
        for part in (b"", b"b")[: outputs or 1]:
            made.value(OUT, number, RECORD + part)
    made.write(lines, 10, 20, {IN: 45})
    found = sorted(offset for _, _, offset in copied_of(lines))
    assert {*found} == {*offsets}
    assert found == offsets or outputs  # of parts, each one too many counts


def test_a_number_of_two_input_records_stands_twice_in_a_result() -> None:
    made, lines = Copies(run="run", input="in", process=9, size=SIZE, results=Results()), Lines[j.Line]()
    for offset in (41, 44):
        made.value(IN, offset, RECORD)
    made.value(OUT, 0, b'{"inputs": [7, 7]}')
    assert made.results is not None
    for row in made.results.read():
        made.value(row.tp, row.offset, row.payload)
    made.write(lines, 10, 20, {IN: 45})
    assert [offset for _, _, offset in copied_of(lines)] == [41, 44]


def aggregated(
    *results: tuple[TopicPartition, object], grown: bool = False
) -> tuple[list[Value], list[Value], Lines[j.Line]]:
    """What became of each output record, and of each row: the inputs 7 and 23 have one key, 8 another one."""
    last, lines = Results(grown=grown), Lines[j.Line]()
    made = Copies(run="run", input="in", process=9, size=SIZE, results=last)
    for offset, value in enumerate((7, 23, 8)):
        assert made.value(IN, offset, encode("run", IN, value, SIZE)) == value
    payloads = [json.dumps(result).encode() for _, result in results]
    outputs = [made.value(tp, at, payloads[at]) for at, (tp, _) in enumerate(results)]
    assert made.results is not None
    rows = [made.value(row.tp, row.offset, row.payload) for row in made.results.read()]
    made.write(lines, 10, 20, {IN: 3})
    return outputs, rows, lines


def copied_of(lines: Lines[j.Line]) -> list[tuple[str, int, int]]:
    """Topic and partition of each copy, and the offset of its input."""
    copying = [line for line in lines.lines if isinstance(line, j.Copying)]
    return [(one[0], one[1], one[5]) for line in copying for one in line.records]


def test_of_an_aggregate_the_last_result_of_each_key_counts() -> None:
    first, whole, other = {"inputs": [7]}, {"count": 2, "inputs": [7, 23]}, {"inputs": [8]}
    outputs, rows, lines = aggregated((OUT, first), (OUT, whole), (OUT, other))
    assert len({*outputs, *rows}) == 6
    assert copied_of(lines) == [(DATABASE, 3, 0), (DATABASE, 3, 1), (DATABASE, 3, 2)]


@pytest.mark.parametrize(
    ("inputs", "offsets"),
    [
        ([[7, 23], [23]], [1]),
        ([[7, 7, 23]], [0, 0, 1]),
        ([[7], [7, 23], [7, 23, 23]], [0, 1, 1]),
        ([[23]], [1]),
    ],
)
def test_what_a_result_lacks_is_lost_and_what_it_has_twice_is_doubled(
    inputs: list[list[int]], offsets: list[int]
) -> None:
    _, _, lines = aggregated(*((OUT, {"inputs": numbers}) for numbers in inputs))
    assert [offset for _, _, offset in copied_of(lines)] == offsets


def test_a_key_with_results_in_two_partitions_has_its_records_twice() -> None:
    _, _, lines = aggregated((OUT, {"inputs": [7]}), (TopicPartition("out", 1), {"inputs": [7, 23]}))
    assert [offset for _, _, offset in copied_of(lines)] == [0, 0, 1]


@pytest.mark.parametrize(
    ("first", "second", "offsets"),
    [
        ([7], [7, 23], [0, 1]),
        ([7, 23], [7], [0, 1]),  # which of them is read first says nothing
        ([7, 23], [7, 23], [0, 0, 1, 1]),
        ([7], [23], [0, 1]),  # neither has all, and both are last results
        ([7], [23, 7], [0, 0, 1]),  # it does not begin so
        ([7, 7], [7, 7, 23], [0, 0, 1]),
        ([8], [7, 23], [0, 1, 2]),  # of another key
    ],
)
def test_a_key_that_moved_to_a_new_partition_has_its_records_once(
    first: list[int], second: list[int], offsets: list[int]
) -> None:
    elsewhere = TopicPartition("out", 5)
    _, _, lines = aggregated((OUT, {"inputs": first}), (elsewhere, {"inputs": second}), grown=True)
    assert sorted(offset for _, _, offset in copied_of(lines)) == offsets


@pytest.mark.parametrize("seed", range(40))
def test_random_results_name_what_the_last_one_of_each_key_lists(seed: int) -> None:
    """The rule in other words: in each partition of the output, of all results whose newest known record has
    a key the last one, and of those without any, too; each of its numbers is a copy if it is of that key,
    else an invention."""
    rng = Random(f"results/{seed}")
    keys = {7: 7, 23: 7, 8: 8, 999: None}  # of input records; 999 is none
    results = [
        (TopicPartition("out", rng.randrange(2)), [rng.choice(list(keys)) for _ in range(rng.randint(1, 4))])
        for _ in range(rng.randint(0, 8))
    ]
    last = {}
    for tp, numbers in results:
        last[tp, next((keys[n] for n in reversed(numbers) if keys[n]), None)] = numbers
    expected, invented = Counter[int](), 0
    for (_, key), numbers in last.items():
        for number in numbers:
            known = key is not None and keys[number] == key
            expected[{7: 0, 23: 1, 8: 2, 999: -1}[number]] += known
            invented += not known
    _, rows, lines = aggregated(*((tp, {"inputs": numbers}) for tp, numbers in results))
    assert Counter(offset for _, _, offset in copied_of(lines)) == +expected
    assert sum(isinstance(row, Uncommitted) for row in rows) == invented


@pytest.mark.parametrize(
    ("numbers", "rows"),
    [
        ([7, 999], [0, Uncommitted(999)]),  # the others have their key
        ([999, 7], [Uncommitted(999), 0]),
        ([999, 998], [Uncommitted(999), Uncommitted(998)]),
        ([8, 7], [Uncommitted(8), 0]),  # a record of another key
    ],
)
def test_what_no_input_record_of_the_key_has_is_invented(numbers: list[int], rows: list[object]) -> None:
    _, found, _ = aggregated((OUT, {"inputs": numbers}))
    assert [one if isinstance(one, Uncommitted) else 0 for one in found] == rows


def test_a_result_with_a_number_of_none_is_the_last_one_of_its_key_all_the_same() -> None:
    _, rows, lines = aggregated((OUT, {"inputs": [7]}), (OUT, {"inputs": [7, 23, 999]}))
    assert [offset for _, _, offset in copied_of(lines)] == [0, 1]
    assert rows[-1] == Uncommitted(999)


@pytest.mark.parametrize(
    ("unread", "numbers", "rows"),
    [
        ({0}, [7, 999], [7, Uncommitted(999)]),  # the key is one of a partition that was read
        ({3}, [7, 999], [7]),
        ({0}, [999], []),
        ({3}, [7, 8], [Uncommitted(7), 8]),  # which was read, and has another key
    ],
)
def test_a_number_that_a_record_may_have_which_was_not_read_says_nothing(
    unread: set[int], numbers: list[int], rows: list[object]
) -> None:
    results = Results(partitions={7: 3, 8: 3}, unread=frozenset(unread))
    assert results.take(OUT, json.dumps({"inputs": numbers}).encode()) is None
    found = [results.number(row.payload) for row in results.read()]
    assert [one if isinstance(one, Uncommitted) else one[1] for one in found] == rows


@pytest.mark.parametrize(
    ("payload", "value"),
    [(b"0", 0), (b"4294967297", 2**32 + 1), (b"%d" % (2**63 - 1), 2**63 - 1), (b"%d" % 2**63, -1)]
    + [(payload, -1) for payload in (b"", b"-1", b"7 ", b"no 7", b"?", b"9" * 5000)],
)
def test_what_names_a_value_is_its_number_alone(payload: bytes, value: int) -> None:
    assert named(payload) == value


@pytest.mark.parametrize(
    "result", [7, [], {}, {"inputs": []}, {"inputs": 7}, {"inputs": ["7"]}, {"inputs": [-1]}]
)
def test_what_lists_no_numbers_is_no_result(result: object) -> None:
    outputs, rows, _ = aggregated((OUT, result))
    assert (outputs, rows) == ([Foreign.UNREADABLE], [])


def test_before_the_output_is_read_no_row_is_expected() -> None:
    assert Results().ends([1, 0, 1]) == {TopicPartition(DATABASE, 0): 0, TopicPartition(DATABASE, 1): 0}


def test_effects_are_no_results() -> None:
    with pytest.raises(ConfigError, match="read from an output topic"):
        run_config({"seed": 1, "app": {"shape": "aggregate", "effects": True}})


def test_how_many_outputs_there_are_is_said_of_a_flat_map_alone() -> None:
    with pytest.raises(ConfigError, match="outputs says something of shape flat-map alone"):
        run_config({"seed": 1, "app": {"outputs": 2}})
    shapes: list[dict[str, Any]] = [
        {"shape": "filter"},
        {"shape": "flat-map"},
        {"shape": "flat-map", "outputs": 2},
        {},
    ]
    assert [Application(**shape).may_omit for shape in shapes] == [True, True, False, False]


def test_commits_that_are_not_known_are_not_journaled() -> None:
    made, lines = copies(), Lines[j.Line]()
    made.write(lines, 10, 20, None)
    assert lines.lines == [j.Closed(20, End.CLOSED)]


def test_a_program_learns_its_topics_group_and_brokers() -> None:
    app = Application(input="orders", effects=True, group="billing")
    spec = SessionSpec(slot=6, process=17, group="billing")
    config = RunConfig(seed=1, workload="application", app=app)
    around = surroundings(config, spec, {"bootstrap.servers": "127.0.0.1:9"}, Path("/runs/1"))
    expected = {
        "INQUEST_BOOTSTRAP": "127.0.0.1:9",
        "INQUEST_CLIENT": '{"bootstrap.servers": "127.0.0.1:9"}',
        "INQUEST_IN": "orders",
        "INQUEST_OUT": "",
        "INQUEST_GROUP": "billing",
        "INQUEST_INSTANCE": "6",
        "INQUEST_FOLDER": "/runs/1",
    }
    assert {name: around[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("command", "settings", "why"),
    [
        ("true", {"workload": "application"}, "it is what --app COMMAND asks for"),
        ("true", {"app": {}}, "it is what --app COMMAND asks for"),
        ("", {**applications.SETTINGS, "app": {}}, "name the program with --app, or in INQUEST_APP"),
        ("/nowhere/app", {**applications.SETTINGS, "app": {}}, "--app /nowhere/app: no such program"),
        ("true", {**applications.SETTINGS, "app": {}, "sut": "simulated"}, "needs brokers in real time"),
        ("true", {**applications.SETTINGS, "app": {}, "preset": "compacted"}, "compaction takes records"),
        ("true", {**applications.SETTINGS, "app": {}, "clients": "command"}, "have keys, the protocol none"),
    ],
)
def test_what_cannot_run_is_refused(
    monkeypatch: pytest.MonkeyPatch, command: str, settings: dict[str, object], why: str
) -> None:
    monkeypatch.setenv(APP, command)
    with pytest.raises(ConfigError, match=why):
        compose.plan(run_config({"seed": 1, "sut": "model", **settings}))


def test_a_name_that_is_not_a_topic_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"app\.input"):
        run_config({"seed": 1, "app": {"input": "a/b"}})


def test_effects_are_rows_of_the_partitions_of_their_inputs(tmp_path: Path) -> None:
    other = encode("run", TopicPartition("in", 1), 8, SIZE)
    lines = b"\n".join(
        [RECORD.hex().encode(), b"", b"hello", b64encode(other), b'{"v": "' + b64encode(RECORD)]
    )
    (tmp_path / "lines").write_bytes(lines)
    shown = Effects(run="run", file=tmp_path / "made" / "effects", input="in", size=SIZE, around=os.environ)
    effects.COMMAND.name(f"cat {tmp_path / 'lines'}")
    assert shown.ends(range(5)) == {TopicPartition("database", p): n for p, n in enumerate((1, 1, 0, 2, 0))}
    assert [(*one.tp, one.offset) for one in shown.read()] == [
        ("database", 3, 0),
        ("database", 0, 0),
        ("database", 1, 0),
        ("database", 3, 1),
    ]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("/nowhere/list", "No such file"),
        ("sh -c 'echo no >&2; exit 5'", "exit code 5: no"),
        ("echo more than the disk takes", "the effects cannot be kept: .*No space left on device"),
    ],
)
def test_a_command_that_lists_no_effects_is_an_error(tmp_path: Path, command: str, why: str) -> None:
    (tmp_path / "effects").symlink_to("/dev/full")
    shown = Effects(run="run", file=tmp_path / "effects", input="in", size=SIZE, around=os.environ)
    effects.COMMAND.name(command)
    with pytest.raises(ClusterError, match=why):
        shown.ends(range(1))


@pytest.mark.parametrize(
    ("script", "raises"),
    [
        ("sleep 1000 >/dev/null 2>&1 & echo $! >{file}", False),
        ("sleep 1000 & echo $! >{file}; sleep 1000", True),
    ],
)
def test_what_a_command_for_effects_started_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, *, raises: bool
) -> None:
    monkeypatch.setattr(effects, "LIST_S", 1.0)
    shown = Effects(run="run", file=tmp_path / "effects", input="in", size=SIZE, around=os.environ)
    effects.COMMAND.name(shlex.join(["sh", "-c", script.format(file=tmp_path / "pid")]))
    with pytest.raises(ClusterError, match="did not end within 1 s") if raises else nullcontext():
        shown.ends(range(1))
    pid = int((tmp_path / "pid").read_text())
    status = Path(f"/proc/{pid}/status")
    until(lambda: not status.exists() or "State:\tZ" in status.read_text(), "what it started has ended")
