"""A PostgreSQL server of a test's own, on a socket in a folder of its own, which can be killed and started
again. It ends with the process that started it."""

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from harness.cli.doctor import postgresql
from tests.processes import alive, children, state
from tests.waiting import until

ROLE: Final = "inquest"
USER: Final = "postgres"
"""It refuses to run as root: the user of the Debian package runs it then."""


class Server:
    """It runs once it is made. end: call it."""

    def __init__(self) -> None:
        if (programs := postgresql()) is None:
            pytest.fail("no PostgreSQL on this machine: make setup-tests, or install it (apt: postgresql)")
        self._programs = programs
        self._folder = Path(tempfile.mkdtemp(prefix="inquest-postgresql-"))  # a socket's path has to be short
        self._as_user = ["setpriv", "--pdeathsig", "INT"]
        if os.geteuid() == 0:
            shutil.chown(self._folder, USER, USER)
            self._as_user += ["--reuid", USER, "--regid", USER, "--clear-groups"]
        words = ["-D", str(self._folder / "data"), "-U", ROLE, "--auth=trust", "--no-sync"]
        subprocess.run(
            [*self._as_user, str(programs / "initdb"), *words], cwd="/", check=True, capture_output=True
        )
        self.url = f"postgresql://{ROLE}@/postgres?host={self._folder}"
        self.start()

    def start(self) -> None:
        """What ALTER SYSTEM set is gone."""
        (self._folder / "data/postgresql.auto.conf").write_text("")
        # What a killed process wrote the kernel has, and writes: fsync is for machines that die.
        options = [f"unix_socket_directories={self._folder}", "listen_addresses=", "fsync=off"]
        words = [word for option in options for word in ("-c", option)]
        with (self._folder / "log").open("ab") as log:
            self._program = subprocess.Popen(
                [*self._as_user, self._programs / "postgres", "-D", self._folder / "data", *words],
                cwd="/",
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until(self._answers, "the server answers", 60)

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a statement, outside of a transaction."""
        with psycopg.connect(self.url, autocommit=True) as database:
            done = database.execute(statement.encode())
            return done.fetchall() if done.description else []

    def rows(self) -> dict[str, int]:
        """Of each schema that a sink made, how many rows of records it has."""
        made = self.query("SELECT schemaname FROM pg_tables WHERE tablename = 'next'")
        return {schema: self._rows(schema) for (schema,) in made}

    def _rows(self, schema: str) -> int:
        counts = (f"(SELECT count(*) FROM {schema}.{table})" for table in ("plain", "placed"))
        ((rows,),) = self.query(f"SELECT {' + '.join(counts)}")
        return int(rows)

    def crash(self) -> None:
        """SIGKILL to all its processes."""
        pid = self._program.pid
        self._program.send_signal(signal.SIGSTOP)
        until(lambda: state(pid) == "T", "it starts no more processes", 10)
        processes = [pid, *children(pid)]
        for one in processes:
            os.kill(one, signal.SIGKILL)
        self._program.wait()
        until(lambda: not any(map(alive, processes)), "all its processes are gone", 10)

    def end(self) -> None:
        """The server and its folder are gone."""
        self._program.send_signal(signal.SIGINT)
        self._program.wait(60)
        shutil.rmtree(self._folder)

    def _answers(self) -> bool:
        assert self._program.poll() is None, (self._folder / "log").read_text()
        try:
            return self.query("SELECT 1") == [(1,)]
        except psycopg.OperationalError:
            return False
