"""The program that the user named for the instances of an application, and the settings of a run of one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from core.extensions import APP
from harness.processes.user_program import UserProgram

PROGRAM: Final = UserProgram(variable=APP, option="--app", needed_by="workload application")
SETTINGS: Final[Mapping[str, object]] = {
    "workload": "application",
    "nemesis": "client:crash@member,client:pause@member,kill",
    "producers": 4,
    "home_producers": 0,
    "rate": 10.0,
    "batch_max": 20,
}
"""What a run of an application has where the user says nothing else: some 100 records a second, which a
simple program can follow, to all partitions alike, so that no instance is idle when a fault hits it."""


def log_of(folder: Path, slot: int) -> Path:
    """What the instances of a slot wrote. folder: of the run, that of the application."""
    return folder / f"instance-{slot}.log"
