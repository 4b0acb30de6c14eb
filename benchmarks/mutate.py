"""Do the tests hold the rules? Changes one place at a time and lists the changes that no test notices.

    python -m benchmarks.mutate oracle --count 40 --seed 1

Each mutant flips a comparison or an operator, negates or removes a condition, or shifts a constant by one, in
a copy of the repository; then the tests of its group run. They *kill* it if they fail or do not end. A
*survivor* is either equivalent (the change has no effect) or shows a gap in the tests: judge it by hand. The
sample depends on the seed and the source alone. Exit code 0 without survivors, else 1.
"""

import argparse
import ast
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
COPIED = ("core", "history", "model", "workloads", "nemesis", "checkers", "harness", "tests", "docs")


class Group(NamedTuple):
    """Sources to change, and the tests that have to notice: quick ones, and slow ones for the rest."""

    sources: tuple[str, ...]
    tests: tuple[str, ...]
    slow: tuple[str, ...]


RULES = ("tests/checkers/test_golden.py", "tests/checkers/test_oracle.py")
COMPARED = ("tests/checkers/test_kernel_vs_oracle.py",)
PARTS = ("log", "replication", "kraft", "coordinator", "client")
GROUPS = {
    "oracle": Group(("tests/oracle/*.py",), RULES, COMPARED),
    "kernels": Group(
        ("checkers/checks/*.py", "checkers/engine/partition_view.py"),
        (*RULES, "tests/checkers/test_kernel.py"),
        (*COMPARED, "tests/checkers/test_verdict.py", "tests/checkers/test_liveness.py"),
    ),
    "model": Group(
        tuple(f"model/{part}/*.py" for part in PARTS),
        ("tests/model",),
        ("tests/harness/simulation/test_invariants.py", "tests/harness/simulation/test_members.py"),
    ),
}
PAIRS: list[tuple[type[ast.AST], type[ast.AST]]] = [
    (ast.Lt, ast.LtE),
    (ast.Gt, ast.GtE),
    (ast.Eq, ast.NotEq),
    (ast.In, ast.NotIn),
    (ast.Is, ast.IsNot),
    (ast.And, ast.Or),
    (ast.Add, ast.Sub),
    (ast.BitAnd, ast.BitOr),
]
SWAPS = dict(PAIRS) | {after: before for before, after in PAIRS}


class Mutation(NamedTuple):
    """One attribute of one node and its new value."""

    node: Any
    name: str
    value: Any


def mutations(tree: ast.Module) -> Iterator[Mutation]:
    """Every single change of a module, in a fixed order; annotations and decorators stay."""
    kept = {
        id(inner)
        for node in ast.walk(tree)
        for name in ("annotation", "returns", "decorator_list")
        for outer in [getattr(node, name, None)]
        for part in (outer if isinstance(outer, list) else [outer] if outer else [])
        for inner in ast.walk(part)
    }
    for node in ast.walk(tree):
        if id(node) in kept:
            continue
        match node:
            case ast.Compare(ops=[op]) if type(op) in SWAPS:
                yield Mutation(node, "ops", [SWAPS[type(op)]()])
            case ast.BoolOp(op=op, values=values):
                yield Mutation(node, "op", SWAPS[type(op)]())
                for at in range(len(values)):
                    yield Mutation(node, "values", values[:at] + values[at + 1 :])
            case ast.BinOp(op=op) if type(op) in SWAPS:
                yield Mutation(node, "op", SWAPS[type(op)]())
            case ast.UnaryOp(op=ast.Not() | ast.Invert() as op, operand=operand):
                yield Mutation(node, "operand", ast.UnaryOp(op, operand))
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                yield Mutation(node, "test", ast.UnaryOp(ast.Not(), test))
            case ast.comprehension(ifs=[_, *_] as ifs):
                yield Mutation(node, "ifs", ifs[1:])
            case ast.Constant(value=bool() as value):
                yield Mutation(node, "value", not value)
            case ast.Constant(value=int() as value):
                yield Mutation(node, "value", value + 1)


def mutated(source: str, number: int) -> tuple[str, str]:
    """The source with its `number`-th change, and a line that says what changed."""
    tree = ast.parse(source)
    node, name, value = list(mutations(tree))[number]
    shown = getattr(node, "test", node) if name == "test" else node
    line, before = getattr(shown, "lineno", 0) or node.target.lineno, ast.unparse(shown)
    setattr(node, name, value)
    after = ast.unparse(node.test if name == "test" else node)
    return ast.unparse(tree), f"{line}: {before}  →  {after}"


def passes(copy: Path, tests: tuple[str, ...], limit_s: float) -> bool:
    """Whether the tests of a group pass in the copy."""
    words = ["-x", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", *tests]
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", *words], cwd=copy, timeout=limit_s, capture_output=True
        )
    except subprocess.TimeoutExpired:
        return False
    return ended.returncode == 0


def main() -> int:
    """Run the mutants of a group; print each survivor."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("group", choices=GROUPS)
    parser.add_argument("--count", type=int, default=40, help="number of mutants")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for one mutant's tests")
    options = parser.parse_args()
    group = GROUPS[options.group]
    paths = sorted(path for pattern in group.sources for path in ROOT.glob(pattern))
    sources = {path.relative_to(ROOT): path.read_text() for path in paths}
    places = [
        (place, number)
        for place, source in sources.items()
        for number, _ in enumerate(mutations(ast.parse(source)))
    ]
    chosen = random.Random(options.seed).sample(places, min(options.count, len(places)))
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in COPIED:
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        if not passes(copy, group.tests + group.slow, options.limit):
            raise SystemExit("the tests of this group fail without a mutant")
        for place, number in chosen:
            source, change = mutated(sources[place], number)
            (copy / place).write_text(source)
            if all(passes(copy, tests, options.limit) for tests in (group.tests, group.slow)):
                survivors += 1
                print(f"survives: {place}:{change}", flush=True)
            (copy / place).write_text(sources[place])
    print(f"{options.group}: {len(chosen)} of {len(places)} mutants, {survivors} survive")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
