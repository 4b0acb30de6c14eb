"""Errors that end a command with one sentence, and the exit codes of `inquest`.

    InquestError          70  the harness or its surroundings failed
    ├── UsageError        64  the command line names something that cannot be used
    │   ├── ConfigError   64  a setting is unknown, makes no sense, or is one that the system cannot honour
    │   └── HistoryError  64  a recorded file is missing, damaged, or written by a newer version
    ├── WrongCluster      70  a broker of another cluster answered where one of this run's listens
    ├── ClusterError      70  the system under test cannot be set up, reached or read
    │   ├── NotYet        70  something that was waited for did not come about in time
    │   ├── EndsMissed    70  nodes may have ended unseen
    │   ├── LogsKept      70  nodes were killed for a loss of power, and their logs could not be looked at
    │   └── Unanswered    70  what runs the system did not answer a call in time
    ├── AdminError        70  a broker did not answer an admin request, or refused it
    ├── StorageError      70  the store that a run folder's URL names cannot be reached, or refuses
    └── SparkError        70  Spark, or the cluster that runs it, cannot be used

`harness.cli.endings` has the only handler: it prints the message and exits with the error's code. Any other
exception is a bug of the harness: a traceback, and code 70. The outcomes of a client's operations
(`core.session.Definite`, `Indefinite`) are not errors in this sense: they are data of the history.
"""

import traceback
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every command (docs/architecture.md, "Exit codes")."""

    VALID = 0
    ANOMALY = 1
    UNKNOWN = 2
    NOT_RECOVERED = 3
    SILENT = 4
    """A control did not find what it expects."""
    UNMET = 5
    """The verdict is valid, and the run does not meet what was required of it."""
    USAGE = 64
    HARNESS = 70
    INTERRUPTED = 130

    @property
    def word(self) -> str:
        """The name in files and tables, such as `not-recovered`."""
        return self.name.lower().replace("_", "-")


def located(error: BaseException) -> str:
    """An error that is a bug, in one line: its kind, what it says, and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


class InquestError(Exception):
    """The message says what is wrong and, where it can, what to do. It needs no traceback.

    exit_code: code of the command that ends with this error; the class's own code if absent.
    """

    exit_code = ExitCode.HARNESS

    def __init__(self, message: str, exit_code: ExitCode | None = None) -> None:
        super().__init__(message)
        if exit_code is not None:
            self.exit_code = exit_code


class UsageError(InquestError):
    """The command line names something that cannot be used: a wrong option, folder, file or port."""

    exit_code = ExitCode.USAGE


class ConfigError(UsageError):
    """A setting is unknown, makes no sense, or is one that the chosen system cannot honour.

    The message names the setting and what would be right.
    """


class HistoryError(UsageError):
    """A recorded file is missing, damaged, or written by a newer version; the message names the file.

    Where the command itself recorded the file, the fault is the harness's (`HARNESS`).
    """


class WrongCluster(InquestError):
    """A broker of another cluster answered where one of this run's listens. The message says where, and what
    proves it."""


class ClusterError(InquestError):
    """The system under test cannot be set up, reached or read. The message says what to do."""


class Unanswered(ClusterError):
    """What runs the system under test did not answer a call in time, and may not answer the next one."""


class EndsMissed(ClusterError):
    """Nodes could not be watched when the run ended or started some: that one had ended on its own before may
    never be seen. The message says what failed."""


class LogsKept(ClusterError):
    """A loss of power was to be made, and no log was cut: nodes were killed for it, perhaps not all. The
    message says what failed."""


class StorageError(InquestError):
    """The store that a run folder's URL names cannot be reached, or refuses; the message says why."""


class SparkError(InquestError):
    """Spark, or the cluster that runs it, cannot be used; the message says what is missing."""
