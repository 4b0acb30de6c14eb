"""Work in processes of this machine, forked from this one: each takes the next piece as soon as it is free.

    with closing(forked(work, pieces, processes)) as answers:
        for piece, answer in answers: ...

A forked process has all modules already, and what tests replaced in them. The kernel ends a process where
memory is short, and a fault of a library can: then the piece that it had is `Undone`, a new process takes its
place, and the others continue.
"""

import contextlib
import gc
import os
import signal
import traceback
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from multiprocessing import connection, get_context
from multiprocessing.context import ForkProcess
from typing import Final, Generic, TypeVar

P = TypeVar("P")
A = TypeVar("A")
Pipe = connection.Connection

FORK: Final = get_context("fork")


@dataclass(frozen=True, slots=True)
class Undone:
    """The harness failed at a piece. why: in one line."""

    why: str


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0))


def forked(
    work: Callable[[P], A], pieces: Iterable[P], processes: int
) -> Generator[tuple[P, A | Undone], None, None]:
    """Each piece and its answer, in the order in which they are done; 1 process: this one, in their order.

    pieces: the next one is taken when a process is free for it, so it may depend on the answers so far.
    Answers and pieces must be picklable. The end, of whatever kind, ends the processes at once; Ctrl-C and
    SIGTERM to all of them reach this process only.
    """
    if processes == 1:
        for piece in pieces:
            yield piece, answered(work, piece)
        return
    free: list[_Worker[P, A]] = []
    busy: dict[Pipe, tuple[_Worker[P, A], P]] = {}
    left = iter(pieces)
    try:
        while True:
            while len(busy) < processes:
                try:
                    piece = next(left)
                except StopIteration:
                    break
                worker = free.pop() if free else _Worker(work, list(busy))
                busy[worker.pipe] = worker, piece
                worker.take(piece)
            if not busy:
                return
            for pipe in connection.wait(list(busy)):
                assert isinstance(pipe, Pipe)
                worker, piece = busy.pop(pipe)
                answer = worker.answer()
                if worker.process.exitcode is None:
                    free.append(worker)
                yield piece, answer
    finally:
        for worker in (*free, *(one for one, _ in busy.values())):
            worker.end()


def answered(work: Callable[[P], A], piece: P) -> A | Undone:
    """The answer to a piece; an exception becomes `Undone`."""
    try:
        return work(piece)
    except Exception as error:  # noqa: BLE001 (a fault of the harness at this piece only)
        return Undone(last_lines(error))


def last_lines(error: BaseException) -> str:
    """Where an exception was raised, and what it says, in one line."""
    where = "".join(traceback.format_exception(error, limit=-2)).strip().splitlines()
    return " | ".join(map(str.strip, where[-3:]))


class _Worker(Generic[P, A]):
    """A forked process. others: this process's ends of pipes to other ones, which a fork inherits."""

    def __init__(self, work: Callable[[P], A], others: Sequence[Pipe]) -> None:
        self.pipe, theirs = FORK.Pipe()
        self.process: ForkProcess = FORK.Process(
            target=_serve, args=(work, theirs, (self.pipe, *others)), daemon=True
        )
        before = signal.pthread_sigmask(
            signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM}
        )  # a fork keeps that
        try:
            self.process.start()
        finally:
            theirs.close()  # the only other end is the process's: what reads sees its death
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def take(self, piece: P) -> None:
        """Give it a piece."""
        with contextlib.suppress(BrokenPipeError):  # it died meanwhile: see `answer`
            self.pipe.send(piece)

    def answer(self) -> A | Undone:
        """The answer to the piece that it has."""
        try:
            answer: A | Undone = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            return Undone(f"its process ended before it was done ({_how(self.process.exitcode)})")
        return answer

    def end(self) -> None:
        """At once: it has nothing to clean up."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _how(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        return f"signal {signal.Signals(-exitcode).name}"
    return f"exit code {exitcode}"


def _serve(work: Callable[[object], object], pipe: Pipe, inherited: Sequence[Pipe]) -> None:
    """In a forked process: answer pieces until the other process has ended."""
    for one in inherited:
        one.close()
    gc.freeze()  # modules stay
    with contextlib.suppress(EOFError, OSError):
        while True:
            pipe.send(answered(work, pipe.recv()))
