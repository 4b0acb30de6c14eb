"""The command line that repeats a run.

Not here: parsing one (`harness.cli`).
"""

import shlex
from typing import Any, Final

import msgspec

from harness.config import PRESETS, RunConfig
from harness.store import Run

OPTIONS: Final = {
    "workload": "workload", "nemesis": "nemesis", "preset": "preset", "sut": "sut", "kafka": "kafka",
    "seed": "seed", "duration_s": "duration", "brokers": "brokers", "rate": "rate",
}  # fmt: skip
"""Settings with an option of their own (`inquest run --help`)."""
ALWAYS: Final = ("workload", "nemesis", "preset", "seed", "duration_s")


def repro(config: RunConfig, run: Run) -> str:
    """The command that repeats a run."""
    if run.shrunk.exists():  # its faults are not those that the config plans
        return shlex.join(["inquest", "replay", str(run.folder)])
    usual = RunConfig(**{**PRESETS.get(config.preset, {}), "seed": config.seed}).model_dump()
    words = ["inquest", "run"]
    for name, value in config.model_dump().items():
        if name in ALWAYS or (value != usual[name] and name in OPTIONS):
            shown = f"{value:g}" if isinstance(value, float) else str(value)
            words += [f"--{OPTIONS[name]}", shown]
        elif value != usual[name]:
            words += ["--set", f"{name}={_json(name, value)}"]
    return shlex.join(words)


def _json(name: str, value: Any) -> str:
    if name == "isolation":
        return str(value.name.lower())
    return msgspec.json.encode(value).decode()
