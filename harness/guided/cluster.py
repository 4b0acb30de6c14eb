"""A run as a test sees it: where its cluster is, faults, the verdict.

with cluster("model") as kafka:
    with kafka.faults("kill", seed=7):
        ...  # a program that uses kafka.bootstrap
    kafka.judge()  # raises Anomaly, Unknown, NotRecovered, Unmet
"""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import resolve_name
from pathlib import Path
from typing import Final

from core.errors import ClusterError, ConfigError, ExitCode
from core.programs import environment, program
from harness.guided.words import Break, EndRun, Mend, Start, Told
from harness.processes.child import Child, start

START_S: Final = 900.0
"""The image may have to be built first."""
HIT_S: Final = 60.0
"""For faults to be planned, and for the first one to come into force later than that was planned."""
HEAL_S: Final = 600.0
"""For healing and recovery, and for the final reads."""
END_S: Final = 180.0
"""How long a run that is given up may heal and remove its containers."""


class NotValid(AssertionError):
    """The verdict of a run is not `valid`; the message has its first lines. code: see `ExitCode`."""

    def __init__(self, message: str, code: int, folder: Path) -> None:
        super().__init__(message)
        self.code, self.folder, self.report = code, folder, folder / "report.html"


class Anomaly(NotValid):
    """The cluster broke a promise."""


class Unknown(NotValid):
    """Something could not be decided: this is not a pass, and no anomaly."""


class NotRecovered(NotValid):
    """The cluster did not come back after all faults were healed."""


class Unmet(NotValid):
    """Nothing forbidden was found, and the run does not show what was required of it: it tests too little."""


KINDS: Final = {
    ExitCode.ANOMALY: Anomaly,
    ExitCode.UNKNOWN: Unknown,
    ExitCode.NOT_RECOVERED: NotRecovered,
    ExitCode.UNMET: Unmet,
}


class GuidedCluster:
    """A cluster under load. `cluster` makes one."""

    def __init__(self, asked: Start, engine: str) -> None:
        """Raises: OSError."""
        self._engine, self._told = engine, Told()
        module = resolve_name(".main", __package__)
        self._child = Child(start(program(module)), "the run of the cluster", Told, self._hear)
        self._child.tell(asked)

    def _hear(self, line: Told) -> None:
        before, names = self._told, Told.__struct_fields__
        self._told = Told(**{name: getattr(line, name) or getattr(before, name) for name in names})

    def _until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Raises: ClusterError; ConfigError, where the run refused what it was asked for."""
        if not self._child.until(condition, seconds):
            kind = ConfigError if self._told.of_caller else ClusterError
            raise kind(self._child.trouble() or f"{what}: not within {seconds:g} s")

    def serve(self) -> None:
        """Wait until the cluster serves its load. Raises: ConfigError, where settings make no sense;
        ClusterError."""
        self._until(lambda: bool(self._told.bootstrap), START_S, "the cluster does not serve")

    @property
    def pid(self) -> int:
        """The process that makes the run."""
        return self._child.pid

    @property
    def bootstrap(self) -> str:
        """Addresses of the brokers, as `bootstrap.servers` takes them."""
        return self._told.bootstrap

    @property
    def folder(self) -> Path:
        """The run folder."""
        return Path(self._told.folder)

    @contextmanager
    def faults(self, nemesis: str = "", *, seed: int | None = None) -> Iterator[None]:
        """Faults happen while the block runs; once for each cluster. It begins when the first one is in
        force. At its end all are healed, and the cluster had its time to recover.

        nemesis: as of `inquest run`; "" = that of the settings. seed: of all that is drawn about it; None =
        that of the settings, where they name the nemesis, else 0.

        Raises: ConfigError, where there are no such faults; ClusterError.
        """
        if self._told.hit:
            raise ConfigError("this cluster has had its faults: a run has one phase of them")
        self._told = Told(folder=self._told.folder, bootstrap=self._told.bootstrap)
        self._child.tell(Break(nemesis, seed))
        self._until(self._faults_known, HIT_S, "no faults were planned")
        if self._told.refused:
            raise ConfigError(self._told.refused)
        self._until(lambda: self._told.hit, self._told.first_s + HIT_S, "no fault came into force")
        try:
            yield
        finally:
            self._child.tell(Mend())
        self._child.until(lambda: self._told.healed, HEAL_S)  # a test that failed need not wait

    def _faults_known(self) -> bool:
        return self._told.hit or self._told.first_s > 0 or bool(self._told.refused)

    def judge(self, require: str | None = None) -> str:
        """End the run, which reads everything back, and judge it: the first lines of the verdict.

        require: what the run has to show beside a valid verdict, as `inquest run --require`; None = what its
        settings say, "exercised" where they say nothing of it; "" = nothing, also where no fault took effect.

        Raises: Anomaly, Unknown, NotRecovered, Unmet (each a NotValid, which is an AssertionError), with
        these lines and the path of the report; ClusterError, where nothing could be recorded; ConfigError,
        where `require` says nothing.
        """
        from checkers.verdict.requirements import refuse  # it imports the checks, which a test need not

        refuse(require or "")
        self._child.tell(EndRun())
        if not self._child.until(lambda: self._told.recorded, HEAL_S) and not self.folder.is_dir():
            raise ClusterError(self._child.trouble() or f"the run did not end within {HEAL_S:g} s")
        self.end()
        command = program("inquest", "check", str(self.folder), "--engine", self._engine)
        command += [] if require is None else ["--require", require]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
        if not ExitCode.VALID <= done.returncode <= ExitCode.UNMET:  # of a signal it is negative
            raise ClusterError(done.stderr.strip() or f"inquest check ended with code {done.returncode}")
        if done.returncode != ExitCode.VALID:
            kind = KINDS.get(ExitCode(done.returncode), NotValid)
            raise kind(done.stdout.strip(), done.returncode, self.folder)
        return done.stdout.strip()

    def end(self) -> None:
        """End the run, and wait for that: all faults healed, no container left. Idempotent."""
        self._child.end(END_S)


@contextmanager
def cluster(
    sut: str = "",
    *,
    results: str = "results",
    file: str = "",
    owned: bool = False,
    engine: str = "process",
    **settings: object,
) -> Iterator[GuidedCluster]:
    """A cluster under load, for the length of the block.

    sut: kafka, model or external; "" = external with a file, else kafka. results: folder for run
    folders. file: of the external cluster (docs/external.md); owned: it is yours to break. engine: what
    judges, process or spark. settings: any of `inquest run --set`, such as kafka="4.3.1", brokers=1,
    workload="groups", nemesis="wire".

    Raises: ConfigError, for settings that make no sense, such as a file beside another system; ClusterError,
    where it cannot be started.
    """
    if not results:
        raise ConfigError("results is empty: give a folder")
    if owned and not file:
        raise ConfigError(
            "owned says something of a cluster that you have: give its file (file=…, --inquest-cluster FILE)"
        )
    if file and sut not in ("", "external"):
        raise ConfigError(f"file={file!r} is a cluster of sut=external, and sut={sut!r} is given, too")
    sut = sut or ("external" if file else "kafka")
    asked = Start(settings={"sut": sut, **settings}, results=results, cluster=file, owned=owned)
    made = GuidedCluster(asked, engine)
    try:
        made.serve()
        yield made
    finally:
        made.end()
