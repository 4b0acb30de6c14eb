"""How a command ends: a verdict or an error becomes an exit code, and an error one line."""

import errno
import signal
import threading
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

from core.errors import ExitCode, InquestError
from core.terminal import printable, say

if TYPE_CHECKING:
    from typer.exceptions import TyperException

SURROUNDINGS = {
    errno.EACCES,
    errno.EAGAIN,
    errno.EBUSY,
    errno.EDQUOT,
    errno.EEXIST,
    errno.EFBIG,
    errno.EIO,
    errno.EISDIR,
    errno.ELOOP,
    errno.EMFILE,
    errno.ENAMETOOLONG,
    errno.ENFILE,
    errno.ENOENT,
    errno.ENOMEM,
    errno.ENOSPC,
    errno.ENOTDIR,
    errno.ENOTEMPTY,
    errno.EPERM,
    errno.EROFS,
    errno.ESTALE,
    errno.EXDEV,
}
"""Errors of files that the user can mend, such as a full disk: one line, no traceback."""


def exit_code_of(command: Callable[..., object]) -> int:
    """Run a command of typer. The only handler of errors: each becomes one line and a code (`core.errors`).

    Only a verdict ends with a code from 0 to 4: every error has a higher one.
    """
    from typer.exceptions import TyperException

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C, in every command
    try:
        ended = command(standalone_mode=False)
        code: int = ended if isinstance(ended, int) else ExitCode.VALID
    except SystemExit:  # typer exits with 1 when its output is closed; here 1 means an anomaly
        code = ExitCode.HARNESS
    except KeyboardInterrupt:
        code = _say("interrupted", ExitCode.INTERRUPTED)
    except InquestError as error:
        code = _say(str(error), error.exit_code)
    except TyperException as error:  # of a call without a command it has no words, and help was printed
        said = _advice(error) or error.format_message().replace("Value error, ", "", 1)
        code = _say(said or "give a command, such as those above", ExitCode.USAGE)
    except Exception as error:  # noqa: BLE001 - the last line of defence
        if isinstance(error, OSError) and error.errno in SURROUNDINGS:
            code = _say(_sentence(error), ExitCode.HARNESS)
        else:
            say(traceback.format_exc().rstrip())
            code = _say(f"a fault of the harness: {error}", ExitCode.HARNESS)
    return code


def _advice(error: "TyperException") -> str:
    """What to write for an option that a command does not have: a setting, or near options that help shows,
    too; "" = it is another error."""
    name, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    if not isinstance(name, str) or context is None or not hasattr(error, "possibilities"):
        return ""
    shown = {option for one in context.command.params if not one.hidden for option in one.opts}
    if "--set" in shown:
        from core.config import SHORT, RunConfig

        setting = name.lstrip("-").replace("-", "_")
        if setting in RunConfig.model_fields or setting in SHORT:
            return f"No such option: {printable(name)}; it is a setting: --set {setting}=…"
    error.possibilities = [one for one in error.possibilities or () if one in shown]
    return ""


def _sentence(error: OSError) -> str:
    why = error.strerror or str(error)
    return f"{error.filename}: {why}" if error.filename else why


def _say(message: str, code: ExitCode) -> ExitCode:
    say(message)
    return code
