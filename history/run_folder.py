"""The paths of a run folder, and writing files so that a crash never leaves half of one."""

import os
import secrets
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from history import storage

RESULTS = Path("results")
FORMAT = 6
"""Version of the run folder; a newer one is refused. Journals of an older one are read, its tables are not:
sealing makes them again."""


class Run:
    """Paths of one run folder, on this machine or a store (`history.storage.location`): names, no I/O."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "config.json"
        self.owner = folder / "soak"
        self.schedule = folder / "schedule.jsonl"
        self.shrunk = folder / "shrunk.json"
        self.events = folder / "events.jsonl"
        self.trace = folder / "trace.jsonl"
        self.journal = folder / "journal"
        self.application = folder / "application"
        self.database = folder / "database.sqlite"
        self.history = folder / "history"
        self.names = folder / "history" / "names.json"
        self.cluster = folder / "cluster"
        self.evidence = folder / "evidence"
        self.copies = folder / "copies"
        self.captured = folder / "captured"
        self.checked = folder / "checked"
        self.anomalies = folder / "checked" / "anomalies.parquet"
        self.verdict = folder / "verdict.json"
        self.report = folder / "report.html"
        self.junit = folder / "junit.xml"

    @property
    def name(self) -> str:
        """Name of the run: its folder's."""
        return self.folder.resolve().name

    def table(self, name: str) -> Path:
        """The file of a sealed table, or the folder of its units' files (`history.CLUSTERED`)."""
        return self.history / (name if name in ("sends", "reads") else f"{name}.parquet")


def unused_name(text: str) -> str:
    """A name that no other run has, on any machine and in any results folder: the second in UTC, what it
    runs, and four random bytes."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{text}-{secrets.token_hex(4)}"


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a whole file or nothing: temporary file beside it, fsync, rename; on a store one request.

    Raises: OSError, with the old file (if any) untouched.
    """
    data = content.encode() if isinstance(content, str) else content
    if storage.remote(path) is not None:
        storage.write_whole(path, data)
        return
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
