"""Shares of expensive tests: `make test` runs one share a day, `make test-all` runs them all. Files with long
tests come first, so that no process is left alone with one at the end."""

import os
from collections import defaultdict
from collections.abc import Collection, Iterator
from zlib import crc32

import pytest

os.environ.setdefault("INQUEST_ENGINE", "process")
"""A Spark session takes seconds to start: commands that are to have one say so."""

LONG = ("spark", "faults", "slow", "sampled")
"""Marks of tests that take seconds or minutes."""


def left_out(shares: dict[str, int], part: int, whole: Collection[str] = ()) -> set[str]:
    """Cases of other shares. All cases with the same number of shares cost about the same: they are dealt in
    turn, whatever test they belong to, so that days differ little.

    shares: by id of a case, the number of shares of its test. whole: cases that are dealt with their file, as
    what costs is the cluster that the file shares.
    """
    hands: dict[tuple[int, bool], dict[str, int]] = defaultdict(dict)
    found = set()
    for case in sorted(shares):
        count, unit = shares[case], case.partition("::")[0] if case in whole else case
        hand = hands[count, case in whole]
        turn = hand.setdefault(unit, len(hand))
        begin = crc32(str(count).encode())  # else the first hand of each number would fall on the same day
        if (begin + turn) % count != part % count:
            found.add(case)
    return found


def dealt(counts: dict[str, int], long: set[str], processes: int) -> list[str]:
    """Files in an order whose equal parts, one a process, each begin with long tests.

    counts: tests by file. long: files with long tests.
    """
    hands: list[list[str]] = [[] for _ in range(processes)]
    for some in (long, set(counts) - long):
        for file in counts:
            if file in some:
                min(hands, key=lambda hand: sum(counts[one] for one in hand)).append(file)
    return [file for hand in hands for file in hand]


@pytest.fixture(autouse=True)
def named_by_the_test() -> Iterator[None]:
    """A command that runs in this process names a client, an application or a cluster in variables, for its
    children. The next test's commands are not to find them."""
    before = _variables()
    yield
    for name in _variables().keys() - before:
        del os.environ[name]
    os.environ.update(before)


def _variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("INQUEST_")}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part",
        type=int,
        help="run only this share of each test marked sampled(n): part modulo n (default: all shares)",
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    part = config.getoption("part")
    return None if part is None else f"sampled tests: --part {part} (all of them: make test-all)"


@pytest.hookimpl(trylast=True)  # the random order comes before
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _leave_out_others(config, items)
    by_file: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        by_file[str(item.path)].append(item)
    long = {str(item.path) for item in items if any(item.get_closest_marker(mark) for mark in LONG)}
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    counts = {file: len(tests) for file, tests in by_file.items()}
    items[:] = [item for file in dealt(counts, long, processes) for item in by_file[file]]


def _leave_out_others(config: pytest.Config, items: list[pytest.Item]) -> None:
    part = config.getoption("part")
    if part is None:
        return
    marks = {item.nodeid: mark for item in items if (mark := item.get_closest_marker("sampled"))}
    whole = {case for case, mark in marks.items() if mark.kwargs.get("whole_file")}
    others = left_out({case: mark.args[0] for case, mark in marks.items()}, part, whole)
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in others])
    items[:] = [item for item in items if item.nodeid not in others]
