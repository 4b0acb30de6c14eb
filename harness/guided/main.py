"""The process of a run beside a test: `python -m harness.guided.main`.

Standard input brings commands (`words`), standard output takes what became true, standard error what a person
reads during any run. Where standard input ends before the run has, that is an interrupt.
"""

import contextlib
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, cast

import msgspec
from rich.console import Console

from core.capabilities import Linked, Wired, WiredBetween, WiredWithin
from core.cluster import Cluster, ServedCluster
from core.config import RunConfig, laid_over, run_config
from core.errors import ConfigError, ExitCode, InquestError, UsageError
from core.systems import served
from harness.compose import record
from harness.guided.words import Break, Command, EndRun, Mend, Start, Told
from harness.processes.parent import ignore_ctrl_c, tell
from harness.run.guide import Guide
from harness.run.planning import RunPlan
from harness.run.progress import Display
from harness.systems import backend_of, system_of
from history import jsonl
from history.run_folder import Run, write_atomically
from nemesis import execute, schedule
from nemesis.types import PlannedFault

MOST_S: Final = 3600.0
"""Longest phase of faults, where the settings say nothing."""
LATER: Final = "schedule"
"""The nemesis of a run whose faults are asked for later."""
COMMANDS: Final = open(0, "rb", buffering=0, closefd=False)  # noqa: SIM115 - it ends with the process
"""Without a buffer, for whose lock the end of Python would wait."""
BEFORE: Final = (Linked, Wired, WiredBetween, WiredWithin)
"""Capabilities that are made with the cluster."""


class CommandDesk(Guide):
    """Takes commands from a thread of its own, and carries them out when the run asks."""

    alone = False

    def __init__(self, plan: RunPlan, run: Run) -> None:
        self._plan, self._run = plan, run
        self._serves = self._hit = self._healed = False
        self._break: Break | None = None
        self._mend, self._end = threading.Event(), threading.Event()
        self._steps: Sequence[PlannedFault] = ()
        self._begun = 0.0
        tell(Told(folder=str(run.folder.absolute())))
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        decode = msgspec.json.Decoder(Command).decode
        for line in COMMANDS:
            match decode(line):
                case Break() as asked:
                    self._break = asked
                case Mend():
                    self._mend.set()
                case EndRun():
                    self._mend.set()
                    self._end.set()
        os.kill(os.getpid(), signal.SIGINT)

    def faults(self, plan: RunPlan, cluster: Cluster) -> Sequence[PlannedFault] | None:
        """Those of `Break`; none once the run is to end."""
        if not self._serves:
            self._serves = True
            tell(Told(bootstrap=_bootstrap(cluster)))
        asked, self._break = self._break, None
        if asked is None:
            return () if self._end.is_set() else None
        try:
            self._steps = _planned(plan, asked)
        except ConfigError as error:
            tell(Told(refused=str(error)))
            return None
        write_atomically(self._run.schedule, jsonl.encode(self._steps))
        self._keep(self._plan.config.duration_s)
        tell(Told(first_s=first_in_force_s(plan.config, self._steps)))
        self._begun = time.monotonic()
        return self._steps

    def over(self, in_force: Sequence[str]) -> str:
        """See `Guide`."""
        if not self._hit and (in_force or not self._steps):
            self._hit = True
            tell(Told(hit=True))
        if not self._mend.is_set():
            return ""
        self._shorten(time.monotonic() - self._begun)
        return "as the test asks"

    def _shorten(self, seconds: float) -> None:
        """The config says how long the phase of faults was, so that a replay is as long."""
        self._keep(max(1.0, round(seconds, 1)))
        steps = [step for step in self._steps if step.at_s < seconds]
        write_atomically(self._run.schedule, jsonl.encode(steps))

    def _keep(self, duration_s: float) -> None:
        """The config as it is recorded. No other one plans these faults: a plan follows from the seed, which
        the test may have given, and from the length, which it decides. So they are those of the schedule."""
        kept = self._plan.config.model_copy(update={"duration_s": duration_s, "nemesis": LATER})
        write_atomically(self._run.config, kept.model_dump_json(indent=2) + "\n")

    def done(self) -> bool:
        """See `Guide`."""
        if not self._healed:
            self._healed = True
            tell(Told(healed=True))
        return self._end.is_set()


def _bootstrap(cluster: Cluster) -> str:
    served = cast("ServedCluster", cluster)  # a guide has none that is simulated
    return str(served.endpoint().args["bootstrap.servers"])


def _planned(plan: RunPlan, asked: Break) -> Sequence[PlannedFault]:
    """The faults that are asked for. Raises: ConfigError."""
    config = plan.config
    named = "" if config.nemesis == LATER else config.nemesis
    if named and asked.nemesis not in ("", named):
        raise ConfigError(f"faults({asked.nemesis!r}): this cluster was made for {named!r}")
    if named and asked.seed is None:
        return plan.steps
    wanted = config.model_copy(update={"nemesis": named or asked.nemesis, "seed": asked.seed or 0})
    backend = backend_of(config)
    has = backend.capabilities(config)
    steps = schedule.plan(wanted.nemesis, wanted, plan.names, has)
    if lacking := execute.missing(steps, has):
        advice = backend.lacking(lacking)
        why = f"nemesis {wanted.nemesis!r} needs a system that is {', '.join(lacking)}"
        raise ConfigError(f"{why}; {advice}" if advice else why)
    made = execute.needs(plan.steps)  # of a nemesis of the settings, whose cluster has its proxies
    if any(need in BEFORE and need not in made for need in execute.needs(steps)):
        raise ConfigError(
            f"nemesis {wanted.nemesis!r} needs proxies before the brokers: name it when the cluster is made, "
            "in the marker inquest(nemesis=…) or in cluster(nemesis=…)"
        )
    return steps


def first_in_force_s(config: RunConfig, steps: Sequence[PlannedFault]) -> float:
    """When the first fault is planned to be in force, in seconds since their phase began; 0 = there is none.
    Restarts in turn are in force once the last broker is up."""
    return min(map(schedule.Times.of(config).in_force, steps), default=0.0)


def _config(asked: Start) -> RunConfig:
    """Raises: ConfigError, ClusterError."""
    seed = random.SystemRandom().randrange(2**31)
    settings = {"seed": seed, "nemesis": LATER, "duration_s": MOST_S, "require": "exercised"}
    if asked.settings.get("workload") == "fresh-topic":
        raise ConfigError("workload fresh-topic: it makes topics as it runs, and a test may do so too")
    if asked.cluster or asked.settings.get("sut") == "external":
        from harness.external import named

        if asked.cluster:
            named.name(Path(asked.cluster), owned=asked.owned)
        settings = named.settings() | settings  # an application of the file has a nemesis
    config = run_config(laid_over(settings, asked.settings))
    if system_of(config).repeatable:
        raise ConfigError(
            f"sut={config.sut} has no address that a test could use: give {' or '.join(served())}"
        )
    return config


def main() -> None:
    """See the module."""
    asked = msgspec.json.decode(COMMANDS.readline(), type=Command)
    assert isinstance(asked, Start)
    try:
        config = _config(asked)
        steps = () if config.nemesis == LATER else None
        lines = Display(Console(stderr=True, highlight=False, force_terminal=False))  # pytest's terminal
        record(config, steps=steps, results=Path(asked.results), guided=CommandDesk, display=lines)
        ignore_ctrl_c()  # the parent may end standard input as soon as it hears of this
        tell(Told(recorded=True))
    except InquestError as error:
        ignore_ctrl_c()
        tell(Told(error=str(error), of_caller=isinstance(error, UsageError)))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main()
