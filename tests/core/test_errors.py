"""The tree of errors, and the one handler that turns them into exit codes."""

import errno

import pytest
import typer

from core import errors
from core.errors import ExitCode, HistoryError, InquestError, UsageError
from harness.cli.main import main


def tree(error: type[InquestError]) -> list[type[InquestError]]:
    return [error, *(one for child in error.__subclasses__() for one in tree(child))]


SHARED = [error for error in tree(InquestError) if error.__module__ == errors.__name__]


@pytest.mark.parametrize("error", SHARED)
def test_the_docstring_draws_each_error_with_its_code(error: type[InquestError]) -> None:
    assert errors.__doc__ is not None
    [line] = [line for line in errors.__doc__.splitlines() if f" {error.__name__} " in line]
    assert f" {int(error.exit_code)}  " in line


def test_an_error_may_carry_a_code_of_its_own() -> None:
    assert HistoryError("damaged").exit_code is ExitCode.USAGE
    assert InquestError("interrupted", ExitCode.INTERRUPTED).exit_code is ExitCode.INTERRUPTED
    assert InquestError("other").exit_code is ExitCode.HARNESS


@pytest.mark.parametrize(
    ("raised", "code", "said", "traceback"),
    [
        (UsageError("no such thing"), 64, "inquest: no such thing", False),
        (InquestError("stopped", ExitCode.INTERRUPTED), 130, "inquest: stopped", False),
        (typer.BadParameter("a number"), 64, "a number", False),
        (OSError(errno.ENOSPC, "No space left on device"), 70, "inquest: No space left on device", False),
        (OSError(errno.EBADF, "Bad file descriptor"), 70, "inquest: a fault of the harness", True),
        (KeyError("x"), 70, "inquest: a fault of the harness: 'x'", True),
        (KeyboardInterrupt(), 130, "inquest: interrupted", False),
    ],
)
def test_main_turns_errors_into_exit_codes(
    raised: BaseException, code: int, said: str, traceback: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(**_: object) -> None:
        raise raised

    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == code
    stderr = capsys.readouterr().err
    assert said in stderr
    assert ("Traceback" in stderr) is traceback


def test_words_of_codes_are_those_of_the_files() -> None:
    words = ["valid", "anomaly", "unknown", "not-recovered", "silent"]
    assert [ExitCode(n).word for n in range(5)] == words
