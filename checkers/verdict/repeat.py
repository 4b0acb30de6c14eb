"""The command line that repeats a run.

Not here: parsing one (`harness.cli.main`).
"""

import shlex
from typing import Final

import msgspec

from core.config import RunConfig
from core.op import Isolation
from core.presets import PRESETS
from core.systems import ExternalSection, ImportedSection
from history.run_folder import Run

OPTIONS: Final = {
    "workload": "workload",
    "nemesis": "nemesis",
    "preset": "preset",
    "sut": "sut",
    "kafka": "kafka",
    "upgrade": "upgrade",
    "seed": "seed",
    "duration_s": "duration",
    "brokers": "brokers",
    "rate": "rate",
    "require": "require",
}
"""Settings with an option of their own (`inquest run --help`)."""
ALWAYS: Final = ("workload", "nemesis", "preset", "seed", "duration_s")

OF_CLUSTER: Final = ("brokers", "controllers", "broker_settings")
"""Settings that an external cluster decides."""


def repro(config: RunConfig, run: Run) -> str:
    """The command that repeats a run."""
    if run.shrunk.exists() or config.nemesis == "schedule":  # the config does not plan its faults
        return shlex.join(["inquest", "recording", "replay", str(run.folder)])
    if config.has(ImportedSection):
        return shlex.join(_import(config))
    settings = {**PRESETS.get(config.preset, {}), "seed": config.seed, "sut": config.sut}
    usual = {"clients": "", "app": None, "require": ""} | RunConfig(**settings).short()
    usual["sut"] = RunConfig.model_fields["sut"].default
    words = ["inquest", "run"]
    told = {**config.short(), "require": config.require}  # of a preset, it may be left out here
    if config.has(ExternalSection):
        told = {name: value for name, value in told.items() if name not in OF_CLUSTER}
    for name, value in told.items():
        if name in ALWAYS or (value != usual[name] and name in OPTIONS):
            shown = f"{value:g}" if isinstance(value, float) else str(value)
            words += [f"--{OPTIONS[name]}", shown]
        elif value != usual[name]:
            words += ["--set", f"{name}={_json(value)}"]
    return shlex.join(words)


def _import(config: RunConfig) -> list[str]:
    """The words of an import, with the settings that it assumed of clients and topics."""
    its, usual = config.section(ImportedSection), RunConfig(seed=config.seed).short()
    words = ["inquest", "recording", "import", its.format, *its.files, *its.options]
    if its.clock_error_s is not None:
        words += ["--clock-error", f"{its.clock_error_s:g}"]
    for name, value in config.short().items():
        if name not in OPTIONS and value != usual[name]:
            words += ["--set", f"{name}={_json(value)}"]
    return words


def _json(value: object) -> str:
    if isinstance(value, Isolation):
        return value.name.lower()
    return msgspec.json.encode(value).decode()
