"""The answer of `inquest sql` as people see it: every column with its values, and text as text."""

import csv
import io
import json

import pyarrow as pa
import pytest

from harness.cli import tables
from harness.cli.tables import show_rows


def shown(found: pa.Table, capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """The cells of the table that is printed, line by line, the headings first."""
    show_rows(found)
    lines = capsys.readouterr().out.splitlines()
    return [[cell.strip() for cell in line[1:-1].replace("┃", "│").split("│")] for line in lines[1::2]]


def test_columns_that_share_a_name_keep_their_values(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["run", "op", "run", "begin_s", "end_s"]
    found = pa.Table.from_arrays([pa.array([one]) for one in ["r1", 2091, "r2", 12.5, None]], names)
    assert shown(found, capsys)[:2] == [names, ["r1", "2091", "r2", "12.5", ""]]


@pytest.mark.parametrize("name", ["split(error, [/a], -1)", "regexp_extract(error, [a-z]+, 0)", "[red]x"])
def test_a_heading_is_text(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(pa.table({name: [3]}), capsys)[:2] == [[name], ["3"]]


def test_neither_headings_nor_cells_reach_the_terminal_with_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer = shown(pa.table({"a\x1b[31m": ["b\x1b[31m"]}), capsys)
    assert answer[:2] == [["a\\x1b[31m"], ["b\\x1b[31m"]]


def test_an_answer_without_rows_or_columns_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(pa.table({"run": pa.array([], pa.string())}), capsys)[0] == ["run"]
    show_rows(pa.table({}))


def test_what_goes_to_a_pipe_is_not_broken_over_lines(capsys: pytest.CaptureFixture[str]) -> None:
    tables.show_rows(pa.table({f"column-{number}": [4133777270 + number] for number in range(30)}))
    out = capsys.readouterr().out
    assert all(str(4133777270 + number) in out for number in range(30))
    assert len(out.splitlines()) == 5


def test_csv_and_json_have_a_line_for_each_row(capsys: pytest.CaptureFixture[str]) -> None:
    found = pa.table({"run": ["a,b", 'say "c"'], "nodes": [[1, 2], None], "text": ["x\ny", None]})
    tables.show_csv(found)
    assert list(csv.reader(io.StringIO(capsys.readouterr().out))) == [
        ["run", "nodes", "text"],
        ["a,b", "[1, 2]", "x\\ny"],
        ['say "c"', "", ""],
    ]
    tables.show_json(found)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == found.to_pylist()
