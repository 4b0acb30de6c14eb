"""Which lines of the model judge brokers' logs: the share of each module that the rules about logs execute.

    python -m benchmarks.exercised_lines RUN... [-- RUN...]     folders of runs with evidence

A line counts if the rules execute it for one of the runs. Lines that only define something do not count. What
judges no log (handling of requests, timers) stays unexercised by nature: the figure says how much of the
model speaks about real logs, not how well it is tested.

Runs after `--` are simulated ones with planted bugs. The lines that those or the others exercise are the
lines that judge at all, among them the ones that describe what is refused, which sound logs never reach.
"""

import functools
import inspect
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

from checkers.api import check_evidence
from history.evidence import Evidence
from model.accepting import (
    data_partition,
    metadata_log,
    metadata_records,
    offsets_log,
    partition_state,
    transaction_log,
)
from model.coordinator import transaction_metadata
from model.log import unified_log
from model.metadata import election

MODULES: tuple[ModuleType, ...] = (
    unified_log,
    election,
    transaction_metadata,
    data_partition,
    metadata_log,
    metadata_records,
    offsets_log,
    partition_state,
    transaction_log,
)


def lines(module: ModuleType) -> set[int]:
    """Lines inside functions of a module that Python can stop at."""
    found: set[int] = set()

    def collect(code: CodeType, *, inside: bool) -> None:
        if inside:
            found.update(line for _, _, line in code.co_lines() if line and line > code.co_firstlineno)
        for one in code.co_consts:
            if isinstance(one, CodeType):
                collect(one, inside=inside or bool(one.co_flags & inspect.CO_OPTIMIZED))

    path = Path(str(module.__file__))
    collect(compile(path.read_text(), str(path), "exec"), inside=False)
    return found


def exercised(work: Callable[[], object]) -> dict[str, set[int]]:
    """Lines that were executed, by file."""
    found: dict[str, set[int]] = defaultdict(set)
    files = {str(module.__file__) for module in MODULES}

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        file = frame.f_code.co_filename
        if file not in files:
            return None
        if event == "line":
            found[file].add(frame.f_lineno)
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(None)
    return found


def over(folders: Iterable[str]) -> dict[str, set[int]]:
    """Lines that the evidence of these runs exercises, by file. Raises: SystemExit, where one has none."""
    seen: dict[str, set[int]] = defaultdict(set)
    for folder in folders:
        evidence = Evidence.load(Path(folder) / "evidence")
        if not evidence.table("takes").num_rows:
            raise SystemExit(f"{folder}: no evidence")
        for file, numbers in exercised(functools.partial(check_evidence, evidence)).items():
            seen[file] |= numbers
    return seen


def main(arguments: list[str]) -> None:
    """Print the share of each module, and of all."""
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    real, planted = over(arguments[:cut]), over(arguments[cut + 1 :])
    total = hit = judging = 0
    for module in MODULES:
        every, file = lines(module), str(module.__file__)
        mine = every & real[file]
        able = mine | every & planted[file]
        total, hit, judging = total + len(every), hit + len(mine), judging + len(able)
        print(row(module.__name__, len(mine), len(able), len(every)))
    print(row("all", hit, judging, total))


def row(name: str, hit: int, judging: int, every: int) -> str:
    """A line of the table."""
    share = hit / judging if judging else 0.0
    return f"{name:40} {hit:4} of {every:4} {hit / every:4.0%}; of {judging:4} that judge {share:4.0%}"


if __name__ == "__main__":
    main(sys.argv[1:])
