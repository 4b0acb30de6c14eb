"""The journals of a run that is still being recorded, as tables.

Processes write their journals one line at a time, so what lies on disk at some moment is a history that ends
there. The files are read one after the other; so that no record is read before it was sent, `so_far` notes
their sizes first, and takes from what was appended meanwhile only what ops set out to send.

Not here: the tables of a run that has ended (`history.seal`).
"""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from history import events as ev
from history import journal as j
from history import jsonl
from history.journal_rows import rows_of
from history.reader import History, Names
from history.run_folder import FORMAT, Run
from history.tables import CLUSTERED, ORDER, TABLES


def so_far(run: Run) -> History:
    """What is on record now: all tables in memory, sends and reads included; no units.

    Raises: HistoryError (a damaged journal), OSError.
    """
    sizes = {path: path.stat().st_size for path in _journals(run)}
    found = [(path, path.read_bytes()) for path in _journals(run)]
    events = ev.decode(run.events.read_bytes())
    started = next((event for event in events if isinstance(event, ev.RunStarted)), None)
    cuts = []
    for path, data in found:
        lines = jsonl.decode(data, j.DECODER, str(path))
        cuts.append((str(path), cut(lines, data.count(b"\n", 0, sizes.get(path, 0)))))
    tables, names, remade = tables_of(cuts)
    meta = Names(
        format=FORMAT,
        run=run.name,
        start_ns=started.ns if started else 0,
        start_wall=started.wall if started else "",
        units=[],
        **names,
    )
    return History(run=run, names=meta, tables=tables, events=events, remade=remade)


def _journals(run: Run) -> list[Path]:
    return j.by_process(run.journal.glob("*.jsonl"))


def cut(lines: list[j.Line], count: int) -> list[j.Line]:
    """The first lines of a journal; of the others what ops set out to send."""
    later = (line for line in lines[count:] if isinstance(line, j.JournalHeader | j.Invoked | j.Copying))
    return [*lines[:count], *later]


def tables_of(
    journals: Iterable[tuple[str, list[j.Line]]],
) -> tuple[dict[str, pa.Table], dict[str, list[str]], int]:
    """The tables of journals, sorted as sealed ones, the lists that their codes point into, and how often the
    topics had been deleted (`History.remade`)."""
    rows = rows_of(journals)
    rows.add_bounds(())
    tables = {name: table.cast(TABLES[name]) for name, table in rows.tables().items()}
    for name in CLUSTERED:
        tables[name] = tables[name].sort_by([(key, "ascending") for key in ORDER[name]]).combine_chunks()
    return tables, rows.names(), rows.remade
