"""Composition root: a config → a recorded and sealed run folder.

It looks names up, refuses before anything starts what cannot work, makes the folder, and lets the system
record into it.
"""

import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from checkers.catalogue import ANOMALIES
from checkers.verdict import requirements
from core.capabilities import Upgradable
from core.client_settings import check
from core.config import RunConfig
from core.errors import ConfigError
from core.files import written_into
from core.known_names import unknown
from harness import systems
from harness.clients.application import effects
from harness.clients.application import named as application
from harness.run.backend import Backend
from harness.run.guide import Guide
from harness.run.planning import RunPlan, names_of, planned
from harness.run.progress import Display
from harness.systems import backend_of, client_kind, system_of
from history.run_folder import RESULTS, Run, unused_name, write_atomically
from nemesis import execute
from nemesis.families.upgrade import unprepared
from nemesis.types import PlannedFault
from nemesis.written import written
from workloads.registry import APPLICATION, WORKLOADS, having, workload_named

PREALLOCATE: Final = "preallocate"
"""The setting of a topic whose segments have their whole size from the first record on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """A run that was recorded and sealed. `interrupted`: the user asked for its end; where that came
    after the final reads, the recording is whole all the same."""

    run: Run
    interrupted: bool


def plan(
    config: RunConfig, steps: Sequence[PlannedFault] | None = None, *, fail_fast: bool = False
) -> RunPlan:
    """What a config means, faults included. steps: the faults; None = those that the config plans. fail_fast:
    see `record`.

    Raises: ConfigError, where a name is unknown (the known ones are listed), or the system cannot honour a
    setting.
    """
    _refuse_unknown_workload(config)
    if strange := sorted(set(config.expect) - ANOMALIES.keys()):
        raise ConfigError(unknown("expect: unknown anomaly", strange[0], ANOMALIES))
    if config.topic_settings.get(PREALLOCATE, "false") != "false":
        raise ConfigError(
            f"topic_settings: a run may not set {PREALLOCATE}: files of the size of a segment are too large"
            " to be copied, and no log is judged then"
        )
    requirements.refuse(config.require)
    system = system_of(config)
    if config.workload == "compacted" and not config.compacted:
        raise ConfigError(
            "workload compacted: it needs topic_settings.cleanup.policy=compact, as in preset compacted"
        )
    _refuse_application(config, repeatable=system.repeatable)
    for setting in ("commit", "sink", "transaction_partitions", "transaction_topics"):
        value, usual = getattr(config, setting), RunConfig.model_fields[setting].default
        if value != usual and config.workload not in having(setting):
            raise ConfigError(
                f"{setting} {value!r} is a setting of the workload {' or '.join(having(setting))}; "
                f"it is without effect in {config.workload}"
            )
    if fail_fast and system.repeatable:
        raise ConfigError("--fail-fast needs brokers in real time; a simulated run ends within seconds")
    backend = backend_of(config)
    if why := backend.refusal(config):
        raise ConfigError(why)
    has = backend.capabilities(config)
    made = planned(config, has) if steps is None else RunPlan(config, steps)
    if made.workload.share_groups(config):
        _refuse_unshared(config, backend)
    if config.clients == "command" and (config.compacted or config.app):
        topic = "an application's input" if config.app else "a compacted topic"
        raise ConfigError(f"clients=command: records of {topic} have keys, the protocol none")
    check(made.workload.plans(config), client_kind(config).client_library())
    if Upgradable in has and Upgradable not in execute.needs(made.steps):
        raise ConfigError(
            f"upgrade: no fault of nemesis {config.nemesis!r} changes a node's version; add upgrade"
        )
    if steps is None and (why := unprepared(made.steps, config.brokers + config.controllers)):
        raise ConfigError(why)
    if lacking := execute.missing(made.steps, has):
        why = f"nemesis {config.nemesis!r} needs a system that is {', '.join(lacking)}"
        advice = backend.lacking(lacking)
        raise ConfigError(f"{why}; {advice}" if advice else why)
    return made


def _refuse_unshared(config: RunConfig, backend: Backend) -> None:
    """Raises: ConfigError, where a workload that needs a share group can have none."""
    if why := backend.share_groups(config):
        raise ConfigError(why)
    if config.clients == "command":
        raise ConfigError(f"workload {config.workload}: the protocol of clients=command has no share groups")
    if config.renew_share and not system_of(config).repeatable:
        raise ConfigError("renew_share: librdkafka renews no locks; clients of the simulated cluster do")
    if (needed := "group.share.min.record.lock.duration.ms") not in config.broker_settings:
        raise ConfigError(
            f"workload {config.workload}: it needs broker_settings.{needed}: take preset share, which has it"
        )


def _refuse_application(config: RunConfig, *, repeatable: bool) -> None:
    """An application that cannot run here. Raises: ConfigError."""
    if (config.workload == APPLICATION.name) != (config.app is not None):
        raise ConfigError("workload application: it is what --app COMMAND asks for, and nothing else is")
    if config.app is None:
        return
    if repeatable:
        raise ConfigError(f"workload application: a program needs brokers in real time, not sut={config.sut}")
    if config.compacted:
        raise ConfigError("workload application: compaction takes records away that it would have to read")
    application.PROGRAM.words()
    if config.app.effects:
        effects.COMMAND.words()


def read_schedule(file: Path, config: RunConfig) -> tuple[PlannedFault, ...]:
    """The faults of a schedule file, for a run with this config. Raises: ConfigError, with file and line, and
    where it has no fault: of a file that was cut short the run would be valid."""
    _refuse_unknown_workload(config)
    try:
        steps = written(file.read_bytes(), config, names_of(config))
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None
    if not steps:
        raise ConfigError(f"{file}: no fault in it; a run without faults: --nemesis none")
    return steps


def _refuse_unknown_workload(config: RunConfig) -> None:
    if workload_named(config.workload) is None:
        raise ConfigError(unknown("unknown workload", config.workload, WORKLOADS))


def record(
    config: RunConfig,
    *,
    steps: Sequence[PlannedFault] | None = None,
    results: Path = RESULTS,
    owner: str = "",
    fail_fast: bool = False,
    guided: Callable[[RunPlan, Run], Guide] | None = None,
    latest: bool = True,
    display: Display,
) -> RecordedRun:
    """Make one run: start the system, load it, break it, read it back, seal the history.

    steps: the faults; None = those that the config plans. owner: mark of the soak session that wants the run,
    "" = none. fail_fast: end the phase of faults on the first finding that is final. guided: makes the guide
    of a run that is neither simulated nor to fail fast. latest: `latest` beside the run leads to it.

    Raises: see `harness.systems.record`; ConfigError, where a simulated run is to fail fast.
    """
    config = config.with_tag(secrets.token_hex(3))
    made = plan(config, steps, fail_fast=fail_fast)
    run = create_folder(config, results, owner)
    if fail_fast:
        guided = _failing_fast(display)
    try:
        with as_latest(run, display.say) if latest else nullcontext():
            guide = guided(made, run) if guided else None
            interrupted = systems.record(made, run, display, guide=guide)
    finally:
        display.close()
    return RecordedRun(run=run, interrupted=interrupted)


def _failing_fast(display: Display) -> Callable[[RunPlan, Run], Guide]:
    from harness.run.follow import Following  # it imports the checks, which only such a run needs

    return lambda made, run: Following(run, made.config, display.say)


def create_folder(config: RunConfig, results: Path, owner: str = "") -> Run:
    """A new run folder with its config, and the mark of its owner if it has one. No other run has its name,
    in any results folder: by it, containers, networks and records belong to one run.

    Raises: ConfigError, where it cannot be written; OSError, where the disk is full.
    """
    slug = "".join(c if c.isalnum() or c in "-." else "-" for c in config.nemesis)[:60]
    with written_into(results, "the results folder"):
        results.mkdir(parents=True, exist_ok=True)
        run = Run(results / unused_name(f"{config.workload}-{slug}-{config.seed}"))
        try:
            for folder in (run.folder, run.journal, run.cluster):
                folder.mkdir()
            if owner:
                write_atomically(run.owner, owner)
            write_atomically(run.config, config.model_dump_json(indent=2) + "\n")
        except OSError:
            shutil.rmtree(run.folder, ignore_errors=True)
            raise
    return run


@contextmanager
def as_latest(run: Run, say: Callable[[str], None]) -> Iterator[None]:
    """`latest` beside the run folder leads to it from now on: a run that fails in this block, or is killed,
    does not leave an earlier one there as if it were this one. Where the block fails and has removed the
    folder, there is no `latest`."""
    if why := point_latest(run):
        say(why)
    try:
        yield
    except BaseException:
        link = run.folder.with_name("latest")
        if not run.folder.exists() and link.is_symlink() and os.readlink(link) == run.folder.name:
            link.unlink()
        raise


def point_latest(run: Run) -> str:
    """Make `latest` beside the run folder lead to it; why it does not, "" = it does. A folder or file of that
    name is not the harness's to replace."""
    link = run.folder.with_name("latest")
    temporary = run.folder.with_name(f".latest-{run.folder.name}")
    try:
        if link.exists() and not link.is_symlink():
            return f"{link} is not a link, and stays as it is; this run is {run.folder}"
        temporary.symlink_to(run.folder.name)
        os.replace(temporary, link)
    except OSError as error:
        with suppress(FileNotFoundError):
            temporary.unlink()
        return f"{link} does not lead to this run ({error.strerror}); it is {run.folder}"
    return ""
