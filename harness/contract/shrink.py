"""From an example with a difference to a smallest one that still has it (delta debugging: Zeller's ddmin).

Every try plays the example again, under names of its own.
"""

from collections.abc import Callable, Iterator

from harness.contract.commands import RandomCommand
from harness.contract.examples import CommandSequence


def _simple(command: RandomCommand) -> tuple[RandomCommand, ...]:
    """The command, said more simply in one way each."""
    return (
        command._replace(partitions=(0,)),
        command._replace(records=1),
        command._replace(epoch=0),
        command._replace(sequence=0),
        command._replace(other=""),
        command._replace(number=0),
        command._replace(yes=True),
    )


def shrunk(example: CommandSequence, fails: Callable[[CommandSequence], bool]) -> CommandSequence:
    """The smallest example found: no command can be left out, and none be said more simply."""
    before: CommandSequence | None = None
    while example != before:
        before = example
        example = _fewer(example, fails)
        for candidate in _simpler(example):
            if fails(candidate):
                example = candidate
                break
    return example


def _fewer(example: CommandSequence, fails: Callable[[CommandSequence], bool]) -> CommandSequence:
    size = max(1, len(example.commands) // 2)
    while True:
        at = 0
        while at < len(example.commands):
            left = example.commands[:at] + example.commands[at + size :]
            smaller = example._replace(commands=left)
            if left and fails(smaller):
                example = smaller
            else:
                at += size
        if size == 1:
            return example
        size //= 2


def _simpler(example: CommandSequence) -> Iterator[CommandSequence]:
    for at, command in enumerate(example.commands):
        for simple in _simple(command):
            if simple != command:
                before, after = example.commands[:at], example.commands[at + 1 :]
                yield example._replace(commands=(*before, simple, *after))
