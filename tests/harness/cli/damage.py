"""Kinds of damage to a run folder, for tables of cases: each takes paths and values, and gives a function of
the run."""

import json
import os
import shutil
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from history.run_folder import Run

Damage = Callable[[Run], object]
DEEP = b"[" * 1_000_000
"""JSON that no decoder reads to its end."""


def emptied(path: str) -> Damage:
    def damage(run: Run) -> None:
        for file in (run.folder / path).iterdir():
            file.unlink()

    return damage


def without_row(path: str) -> Damage:
    """A table without its first row."""
    return lambda run: pq.write_table(pq.read_table(run.folder / path).slice(1), run.folder / path)


def holds(path: str, content: bytes) -> Damage:
    return lambda run: (run.folder / path).write_bytes(content)


def gone(path: str) -> Damage:
    return lambda run: (run.folder / path).unlink()


def halved(path: str) -> Damage:
    def damage(run: Run) -> None:
        file = run.folder / path
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])

    return damage


def linked(path: str, to: str) -> Damage:
    def damage(run: Run) -> None:
        file = run.folder / path
        shutil.rmtree(file) if file.is_dir() else file.unlink(missing_ok=True)
        file.symlink_to(to)

    return damage


def piped(path: str) -> Damage:
    def damage(run: Run) -> None:
        (run.folder / path).unlink(missing_ok=True)
        os.mkfifo(run.folder / path)

    return damage


def foldered(path: str) -> Damage:
    def damage(run: Run) -> None:
        (run.folder / path).unlink(missing_ok=True)
        (run.folder / path).mkdir()

    return damage


def edited(path: str, change: Callable[[Any], Any]) -> Damage:
    """One JSON file, changed."""

    def damage(run: Run) -> None:
        file = run.folder / path
        file.write_text(json.dumps(change(json.loads(file.read_text()))))

    return damage


def names(**replaced: Any) -> Damage:
    return edited("history/names.json", lambda found: {**found, **replaced})


def unit(**replaced: Any) -> Damage:
    return edited("history/names.json", lambda f: {**f, "units": [{**f["units"][0], **replaced}]})


def settings(**replaced: Any) -> Damage:
    return edited("config.json", lambda found: {**found, **replaced})


def line(path: str, number: int, change: Callable[[dict[str, Any]], Any]) -> Damage:
    """A line of a journal or of the events, from 0, changed: an object, or bytes for the whole line."""

    def damage(run: Run) -> None:
        file = run.folder / path
        lines = file.read_bytes().splitlines()
        new = change(json.loads(lines[number]))
        lines[number] = new if isinstance(new, bytes) else json.dumps(new).encode()
        file.write_bytes(b"\n".join(lines) + b"\n")

    return damage


def event(kind: str, change: Callable[[dict[str, Any]], Any], path: str = "journal/0.jsonl") -> Damage:
    """The first line of this kind, changed."""

    def damage(run: Run) -> None:
        lines = (run.folder / path).read_bytes().splitlines()
        number = next(n for n, text in enumerate(lines) if json.loads(text)["event"] == kind)
        line(path, number, change)(run)

    return damage


def put(value: Any, *keys: Any) -> Callable[[Any], Any]:
    """Change: this value at the end of a path of keys."""

    def change(found: Any) -> Any:
        inner = found
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = value
        return found

    return change


def reader(run: Run) -> str:
    """The journal of a process that reads."""
    return next(
        f"journal/{path.name}"
        for path in sorted(run.journal.iterdir())
        if json.loads(path.read_bytes().splitlines()[0])["spec"]["isolation"] >= 0
    )


def of_reader(kind: str, change: Callable[[dict[str, Any]], Any]) -> Damage:
    return lambda run: event(kind, change, reader(run))(run)


def appended(path: str, content: Callable[[bytes], bytes]) -> Damage:
    def damage(run: Run) -> None:
        file = run.folder / path
        found = file.read_bytes()
        file.write_bytes(found + content(found))

    return damage


def copied(path: str, to: str) -> Damage:
    return lambda run: shutil.copyfile(run.folder / path, run.folder / to)


def other_columns(path: str) -> Damage:
    return lambda run: pq.write_table(pa.table({"a": [1]}), run.folder / path)


def bomb(path: str, rows: int, group: int) -> Damage:
    """The table with rows of which each is the same: a few bytes that would fill the memory."""

    def damage(run: Run) -> None:
        file = run.folder / path
        schema = pq.read_schema(file)
        columns = [pa.repeat(pa.scalar(0, field.type), rows) for field in schema]
        table = pa.Table.from_arrays(columns, schema=schema)
        pq.write_table(table, file, row_group_size=group, compression="zstd", write_statistics=False)

    return damage


def both(*some: Damage) -> Damage:
    def damage(run: Run) -> None:
        for one in some:
            one(run)

    return damage
