"""The judge: `python -m harness.judging.main FD [MASTER]`.

FD is a socket that listens. The judge has a Spark session, warms it at once, and judges run folders and makes
indexes of results folders, one after the other, until its standard input ends: its parent closed it, or is
gone. It runs at the lowest priority, for clusters under test run beside it.
"""

import atexit
import contextlib
import os
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from core.errors import InquestError, SparkError, located
from core.progress import Progress, text_of
from harness.judging.words import Answer, Done, Going, Index, JudgeError, JudgeRequest, Request
from harness.processes.parent import until_gone
from history.run_folder import Run

LOWEST = 19
_ENDED = threading.Event()
"""Standard input ended: this process ends, and its folder with it."""


def main() -> None:
    """Run until standard input ends."""
    from checkers.engine.spark import spark, spark_answers, warm

    os.nice(LOWEST)
    number, master = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None
    with socket.socket(fileno=number) as listener, contextlib.suppress(KeyboardInterrupt):
        atexit.register(_clean, Path(listener.getsockname()).parent)
        threading.Thread(target=_end_with_stdin, args=(listener,), daemon=True).start()
        try:
            with spark(master) as session:
                with contextlib.suppress(Exception):  # a cold session is slower, no more
                    warm(session)
                _serve(listener, master, partial(spark_answers, session))
        except SparkError:  # each check says so, and this process does its work
            _serve(listener, master, lambda: True)


def _clean(folder: Path) -> None:
    """Remove the judge's folder, which a parent that was killed cannot."""
    if _ENDED.is_set():
        shutil.rmtree(folder, ignore_errors=True)


def _end_with_stdin(listener: socket.socket) -> None:
    """The interrupt ends the job that runs. PySpark's handler may lose it: then no more is served."""
    until_gone()
    _ENDED.set()
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    os.kill(os.getpid(), signal.SIGINT)


def _serve(listener: socket.socket, master: str | None, works: Callable[[], bool]) -> None:
    """Judge until the session does not work any more. Who asked then has no answer, and judges the run."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return  # standard input ended
        with connection, contextlib.suppress(OSError):  # who asked is gone
            line = connection.makefile("rb").readline()
            match msgspec.json.decode(line, type=Request):
                case JudgeRequest(run):
                    answer = _judged(Run(Path(run)), master, connection)
                case Index(results):
                    answer = _indexed(Path(results), master)
            if not works():
                return
            _say(connection, answer)


def _judged(run: Run, master: str | None, connection: socket.socket) -> Answer:
    from checkers.api import check

    def going(progress: Progress) -> None:
        with contextlib.suppress(OSError):
            _say(connection, Going(text_of(progress)))

    try:
        result = check(run, master=master, watch=going)
        result.write(run)
    except InquestError as error:
        return JudgeError(type(error).__name__, str(error))
    except OSError as error:
        why, file = error.strerror or str(error), error.filename
        return JudgeError(type(error).__name__, why, error.errno, None if file is None else str(file))
    return Done(result.spark_failed)


def _indexed(results: Path, master: str | None) -> Answer:
    from checkers.engine.engines import chosen
    from harness.nights.page import build

    try:
        with chosen(results, master=master) as engine:
            build(results, engine.workers)
    except Exception as error:  # noqa: BLE001 - who asked says so; the judge has runs to judge
        return JudgeError(type(error).__name__, located(error))
    return Done(engine.why)


def _say(connection: socket.socket, answer: Answer) -> None:
    connection.sendall(msgspec.json.encode(answer) + b"\n")


if __name__ == "__main__":
    main()
