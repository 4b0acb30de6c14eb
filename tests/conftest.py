"""Shares of expensive tests: `make test` runs one share a day, `make test-all` runs them all."""

from collections import Counter
from zlib import crc32

import pytest


def left_out(shares: dict[str, int], part: int) -> set[str]:
    """Cases of other shares: the cases of a test are dealt in turn, from a share that its name decides.

    shares: by id of a case, the number of shares of its test.
    """
    seen: Counter[str] = Counter()
    found = set()
    for case in sorted(shares):
        name = case.partition("[")[0]
        if (crc32(name.encode()) + seen[name]) % shares[case] != part % shares[case]:
            found.add(case)
        seen[name] += 1
    return found


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part",
        type=int,
        help="run only this share of each test marked sampled(n): part modulo n (default: all shares)",
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    part = config.getoption("part")
    return None if part is None else f"sampled tests: --part {part} (all of them: make test-all)"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    part = config.getoption("part")
    if part is None:
        return
    marks = {item.nodeid: item.get_closest_marker("sampled") for item in items}
    others = left_out({case: mark.args[0] for case, mark in marks.items() if mark}, part)
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in others])
    items[:] = [item for item in items if item.nodeid not in others]
