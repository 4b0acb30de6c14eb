"""Do the tests hold the rules? Changes one place at a time and lists the changes that no test notices.

    python -m benchmarks.mutate judges --count 400 --seed 1 --jobs 2 --out mutants.jsonl
    python -m benchmarks.mutate judges --out mutants.jsonl --report      # what is on record so far
    python -m benchmarks.mutate judges --out mutants.jsonl --again       # the survivors once more

With `--near` only the nearest tests run at first, which kill most: `--again` asks all tests about the rest.

Each mutant flips a comparison or an operator, negates or removes a condition, or shifts a constant by one, in
a copy of the repository; then tests run, those nearest to the module first (`stages`). They *kill* it if one
fails, or they do not end. A *survivor* is either equivalent (the change has no effect: an entry of
benchmarks/equivalent_mutants.toml says why) or shows a gap in the tests. The sample depends on the seed and
the source alone; mutants that `--out` has already are not made again. Exit code 0 without unexplained
survivors, else 1.

Tests run in children of processes that have imported numpy, pyarrow and pytest: most mutants live for a few
seconds, which imports would double.
"""

import argparse
import ast
import compileall
import importlib
import json
import os
import py_compile
import random
import select
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
COPIED: Final = (
    *("core", "history", "model", "scenarios", "workloads", "nemesis", "checkers", "harness"),
    *("tests", "docs"),
)
EQUIVALENT: Final = Path(__file__).with_name("equivalent_mutants.toml")
HEAVY: Final = ("numpy", "pyarrow", "pyarrow.parquet", "pyarrow.compute", "pydantic", "msgspec", "pytest")
"""What children need and is not of the repository."""
WORDS: Final = frozenset({"sentence", "text", "__str__", "example", "summary", "more", "wanted"})
"""Functions of these names write for people or fetch witnesses: they decide nothing."""
UNLIMITED_S: Final = 3600.0
SLACK_S: Final = 60.0
"""Tests of a mutant may take this much longer than three times what they take without one."""

CHECKED = "tests/checkers"
LOGS = f"{CHECKED}/logs"
ADVERSARY = "tests/adversary/test_adversary.py::test_checker_and_judge_agree_on_recorded_runs"
KERNEL = (f"{CHECKED}/test_kernel.py", f"{CHECKED}/test_golden.py")
COMPARED = tuple(
    f"{CHECKED}/test_kernel_vs_oracle.py::test_{name}"
    for name in (
        "kernel_and_oracle_agree_on_damaged_histories",
        "windows_that_are_searched_for_cycles_one_by_one_give_the_same",
        "nothing_forbidden_is_found_in_what_a_correct_cluster_did",
    )
)
JUDGED = f"{CHECKED}/verdict"
VERDICT = (f"{JUDGED}/test_judged_run.py", f"{JUDGED}/test_incidents.py")
LIBRARY = (f"{CHECKED}/test_library.py",)
LABELS = (f"{CHECKED}/known_bugs", f"{JUDGED}/test_judged_logs.py")
EXPLAINED = (
    "tests/harness/explore/test_explained.py::test_half_a_transaction_explains_findings_of_some_classes_only"
)

GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "oracle": ("tests/oracle/*.py",),
    "kernels": ("checkers/checks/*.py", "checkers/engine/[acdko]*.py", "checkers/engine/partition_view.py"),
    "permissions": ("checkers/allowed.py", "checkers/catalogue.py", "checkers/windows.py"),
    "labels": ("checkers/known_bugs/*.py",),
    "logs": ("checkers/logs/*.py",),
    "verdict": ("checkers/verdict/*.py", "checkers/faults/*.py"),
    "model": tuple(
        f"model/{part}/*.py" for part in ("log", "replication", "kraft", "coordinator", "client")
    ),
}  # fmt: skip
"""Name -> sources that are changed."""
JUDGES: Final = ("kernels", "permissions", "labels", "logs", "verdict")
"""The groups that `judges` stands for."""

TESTS: Final[tuple[tuple[str, tuple[tuple[str, ...], ...]], ...]] = (
    ("tests/oracle/*", ((f"{CHECKED}/test_golden.py", f"{CHECKED}/test_oracle.py"), COMPARED)),
    ("checkers/logs/*", (("near",), (LOGS,), (f"{JUDGED}/test_judged_logs.py",))),
    (
        "checkers/engine/*",
        ((*KERNEL, f"{CHECKED}/test_open_transactions.py"), (ADVERSARY,), COMPARED),
    ),
    (
        "checkers/checks/recovery.py",
        ((*(f"{CHECKED}/{name}" for name in ("faults/test_liveness.py", "test_kernel.py")),), VERDICT),
    ),
    ("checkers/checks/*", (("near", *KERNEL, EXPLAINED), (ADVERSARY,), VERDICT, COMPARED)),
    (
        "checkers/verdict/judged_run.py",
        (VERDICT, (f"{JUDGED}/test_truncation.py", *LABELS), (ADVERSARY,), LIBRARY),
    ),
    ("checkers/verdict/judged_logs.py", ((f"{JUDGED}/test_judged_logs.py",), VERDICT, LIBRARY)),
    (
        "checkers/verdict/incidents.py",
        (("near", f"{CHECKED}/test_cut_journals.py"), VERDICT, (ADVERSARY,), LIBRARY),
    ),
    ("checkers/verdict/*", (("near", *VERDICT), (f"{JUDGED}/test_judged_logs.py",), (ADVERSARY,), LIBRARY)),
    ("checkers/faults/*", (("near", *VERDICT), LABELS, (ADVERSARY,))),
    ("checkers/[aw]*.py", (("near", *VERDICT[:1]), (ADVERSARY,), COMPARED)),
    ("checkers/*.py", (("near",), LABELS, VERDICT[:1])),
    ("model/*", (("tests/model", "tests/scenarios"), ("tests/harness/modelled/virtual/test_invariants.py",))),
)  # fmt: skip
"""Pattern of sources -> stages of tests; the first pattern that fits. "near" = named after the module."""

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
EXTREMES: Final = {
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "any": "all",
    "all": "any",
}


# Mutants ----------------------------------------------------------------------------------------


class Mutation(NamedTuple):
    """One attribute of one node and its new value."""

    node: Any
    name: str
    value: Any


def mutations(tree: ast.Module) -> Iterator[Mutation]:
    """Every single change of a module, in a fixed order; annotations, decorators and words stay."""
    kept = {
        id(inner)
        for node in ast.walk(tree)
        for name in ("annotation", "returns", "decorator_list")
        for outer in [getattr(node, name, None)]
        for part in (outer if isinstance(outer, list) else [outer] if outer else [])
        for inner in ast.walk(part)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.lstrip("_") in WORDS:
            kept |= {id(inner) for inner in ast.walk(node)}
        if isinstance(node, ast.JoinedStr):
            kept |= {id(inner) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) not in kept:
            yield from _changes(node)


def _changes(node: ast.AST) -> Iterator[Mutation]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in SWAPS:
            yield Mutation(node, "ops", [SWAPS[type(op)]()])
        case ast.Compare(ops=[op, *others]) if type(op) in SWAPS:
            yield Mutation(node, "ops", [SWAPS[type(op)](), *others])
            if type(others[-1]) in SWAPS:
                yield Mutation(node, "ops", [op, *others[:-1], SWAPS[type(others[-1])]()])
        case ast.BoolOp(op=op, values=values):
            yield Mutation(node, "op", SWAPS[type(op)]())
            for at in range(len(values)):
                yield Mutation(node, "values", values[:at] + values[at + 1 :])
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in SWAPS:
            yield Mutation(node, "op", SWAPS[type(op)]())
        case ast.UnaryOp(op=ast.Not() | ast.Invert() as op, operand=operand):
            yield Mutation(node, "operand", ast.UnaryOp(op, operand))
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            yield Mutation(node, "test", ast.UnaryOp(ast.Not(), test))
        case ast.comprehension(ifs=[_, *_] as ifs):
            yield Mutation(node, "ifs", ifs[1:])
        case ast.Call(func=ast.Name(id=name)) if name in EXTREMES:
            yield Mutation(node, "func", ast.Name(EXTREMES[name], ast.Load()))
        case ast.Call(func=ast.Attribute(value=of, attr=name)) if name in EXTREMES:
            yield Mutation(node, "func", ast.Attribute(of, EXTREMES[name], ast.Load()))
        case ast.Constant(value=bool() as value):
            yield Mutation(node, "value", not value)
        case ast.Constant(value=int() as value):
            yield Mutation(node, "value", value + 1)


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change. number: among those of its module. nth: among changes of a function that read the same."""

    path: str
    number: int
    line: int
    function: str
    change: str
    nth: int

    @property
    def name(self) -> str:
        """What it is called, whatever else changes in the module."""
        return f"{self.path}::{self.function}: {self.change} #{self.nth}"


def mutants(path: str, source: str) -> list[Mutant]:
    """All mutants of a module."""
    found: list[Mutant] = []
    seen: Counter[tuple[str, str]] = Counter()
    tree = ast.parse(source)
    owner = _functions(tree)
    for number, (node, name, value) in enumerate(list(mutations(tree))):
        shown = getattr(node, "test", node) if name == "test" else node
        line = getattr(shown, "lineno", 0) or node.target.lineno
        before, old = ast.unparse(shown), getattr(node, name)
        setattr(node, name, value)
        after = ast.unparse(node.test if name == "test" else node)
        setattr(node, name, old)
        function, change = owner.get(line, ""), f"{before} → {after}"
        nth = seen[function, change]
        found.append(Mutant(path=path, number=number, line=line, function=function, change=change, nth=nth))
        seen[function, change] += 1
    return found


def changed(source: str, number: int) -> str:
    """A module with its `number`-th change."""
    tree = ast.parse(source)
    node, name, value = list(mutations(tree))[number]
    setattr(node, name, value)
    return ast.unparse(ast.fix_missing_locations(tree))


def _functions(tree: ast.Module) -> dict[int, str]:
    """Line -> the innermost function or class there."""
    owner: dict[int, str] = {}

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = prefix
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                name = f"{prefix}.{child.name}".lstrip(".")
                owner.update(dict.fromkeys(range(child.lineno, (child.end_lineno or child.lineno) + 1), name))
            visit(child, name)

    visit(tree, "")
    return owner


def stages(path: str) -> list[tuple[str, ...]]:
    """Tests of a module, the nearest first."""
    stem = Path(path).stem
    for pattern, found in TESTS:
        if fnmatch(path, pattern):
            near = [str(each.relative_to(ROOT)) for each in ROOT.glob(f"{CHECKED}/**/test_{stem}*.py")]
            made = [
                tuple(one for name in stage for one in (near if name == "near" else [name]))
                for stage in found
            ]
            return [stage for stage in made if stage]
    raise SystemExit(f"no tests are named for {path}")


# Running them -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What happened to a mutant. killed: the test that failed, "time-out", or "" = it survived."""

    name: str
    path: str
    line: int
    killed: str
    seconds: float


class Copy:
    """A copy of the repository in which mutants are tried; `_seconds`: of each file of tests without one."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="inquest-mutants-"))
        for name in COPIED:
            shutil.copytree(ROOT / name, self.folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", self.folder)
        with open(os.devnull, "w") as quiet:
            sys.stdout, kept = quiet, sys.stdout
            by_hash = py_compile.PycInvalidationMode.CHECKED_HASH
            compileall.compile_dir(self.folder, quiet=2, invalidation_mode=by_hash)
            sys.stdout = kept
        self._seconds: dict[str, float] = {}
        for name in HEAVY:
            importlib.import_module(name)

    def tried(self, mutant: Mutant, near: bool) -> Outcome:
        """Run the tests of a mutant, or the nearest ones. Raises: SystemExit, where they fail without one."""
        begin = time.perf_counter()
        place = self.folder / mutant.path
        whole = place.read_text()
        killed = ""
        for stage in stages(mutant.path)[: 1 if near else None]:
            limit_s = 3 * sum(map(self._sound, stage)) + SLACK_S
            try:
                place.write_text(changed(whole, mutant.number))
                killed = self._failed(stage, limit_s)
            finally:
                place.write_text(whole)
            if killed:
                break
        seconds = round(time.perf_counter() - begin, 1)
        return Outcome(name=mutant.name, path=mutant.path, line=mutant.line, killed=killed, seconds=seconds)

    def _sound(self, tests: str) -> float:
        """Seconds that these tests take without a mutant. Raises: SystemExit, where one fails."""
        if tests not in self._seconds:
            start = time.perf_counter()
            if failed := self._failed((tests,), UNLIMITED_S):
                raise SystemExit(f"{failed} fails without a mutant")
            self._seconds[tests] = time.perf_counter() - start
        return self._seconds[tests]

    def _failed(self, tests: tuple[str, ...], limit_s: float) -> str:
        """The first test that fails in a child of this process; "" = none does."""
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            _child(self.folder, tests, writing)
        os.close(writing)
        try:
            ready, _, _ = select.select([reading], [], [], limit_s)
            said = os.read(reading, 4096).decode() if ready else "time-out"
        finally:
            os.close(reading)
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
        return "" if said == "passed" else said or "it ended the tests"


def _child(folder: Path, tests: tuple[str, ...], writing: int) -> None:
    """Run tests and say how they ended. Does not return."""
    os.setpgid(0, 0)
    os.chdir(folder)
    os.environ |= {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "INQUEST_SEEDS": "100"}
    sys.dont_write_bytecode = True
    for name in [name for name in sys.modules if name.partition(".")[0] in (*COPIED, "benchmarks")]:
        del sys.modules[name]
    sys.path[:] = [str(folder), *(one for one in sys.path if one and Path(one) not in (ROOT, Path.cwd()))]
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    pytest = importlib.import_module("pytest")
    first: list[str] = []

    class Noted:
        """Keeps the first failure."""

        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.failed:
                first.append(report.nodeid)

        def pytest_collectreport(self, report: Any) -> None:
            if report.failed:
                first.append(f"collecting {report.nodeid}")

    words = ["-x", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--part", "0", *tests]
    code = pytest.main(words, plugins=[Noted()])
    os.write(
        writing, (first[0] if first else "passed" if code == 0 else f"pytest ended with {code}").encode()
    )
    os._exit(0)


_copies: dict[int, Copy] = {}


def _tried(mutant: Mutant, near: bool) -> Outcome:
    """Try a mutant in the copy of this process."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if os.getpid() not in _copies:
        os.setpgid(0, 0)
        _copies[os.getpid()] = Copy()
    return _copies[os.getpid()].tried(mutant, near)


# What is known ----------------------------------------------------------------------------------


def explained() -> dict[str, str]:
    """Name of a mutant -> why it is equivalent."""
    if not EQUIVALENT.exists():
        return {}
    rows = tomllib.loads(EQUIVALENT.read_text()).get("mutant", [])
    return {
        f"{row['path']}::{row['function']}: {row['change']} #{row.get('nth', 0)}": row["why"] for row in rows
    }


def on_record(out: Path) -> dict[str, Outcome]:
    """Outcomes in a file, the last one of each mutant."""
    lines = out.read_text().splitlines() if out.exists() else []
    return {one.name: one for one in (Outcome(**json.loads(line)) for line in lines)}


def report(outcomes: Sequence[Outcome]) -> str:
    """A table by module, and the survivors."""
    why = explained()
    lines = ["| module | mutants | killed | timed out | equivalent | survive |", "|---|---|---|---|---|---|"]
    total: Counter[str] = Counter()
    for path in sorted({one.path for one in outcomes}):
        own = Counter(_fate(one, why) for one in outcomes if one.path == path)
        total += own
        lines.append(f"| {path} | {_row(own)} |")
    lines.append(f"| all | {_row(total)} |")
    killers = Counter(one.killed.partition("::")[0] for one in outcomes if one.killed)
    lines += ["", "Killed by: " + ", ".join(f"{name} {many}" for name, many in killers.most_common()), ""]
    for one in sorted(outcomes, key=lambda one: (one.path, one.line)):
        if (fate := _fate(one, why)) in ("survives", "equivalent"):
            told = f" ({why[one.name]})" if fate == "equivalent" else ""
            lines.append(f"{fate}: line {one.line}: {one.name}{told}")
    return "\n".join(lines)


def _fate(one: Outcome, why: dict[str, str]) -> str:
    if one.killed:
        return "time-out" if one.killed == "time-out" else "killed"
    return "equivalent" if one.name in why else "survives"


def _row(own: Counter[str]) -> str:
    return " | ".join(
        str(n) for n in (own.total(), *(own[k] for k in ("killed", "time-out", "equivalent", "survives")))
    )


def chosen(options: argparse.Namespace) -> list[Mutant]:
    """The sample, in the order in which it is tried."""
    names = JUDGES if options.group == "judges" else (options.group,)
    patterns = [pattern for name in names for pattern in GROUPS[name]]
    paths = sorted(
        {path for pattern in patterns for path in ROOT.glob(pattern) if path.name != "__init__.py"}
    )
    named = [str(path.relative_to(ROOT)) for path in paths]
    named = [path for path in named if not options.only or any(fnmatch(path, one) for one in options.only)]
    everything = [one for path in named for one in mutants(path, (ROOT / path).read_text())]
    print(f"{len(everything)} mutants of {len(named)} modules", flush=True)
    return random.Random(options.seed).sample(everything, min(options.count, len(everything)))


def main() -> int:
    """Try the mutants of a group; say which ones survive."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("group", choices=(*GROUPS, "judges"))
    parser.add_argument("--count", type=int, default=40, help="number of mutants")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--only", action="append", help="pattern of modules")
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"), help="outcomes, a line each")
    parser.add_argument("--near", action="store_true", help="only the nearest tests of each")
    parser.add_argument("--again", action="store_true", help="only survivors that are on record")
    parser.add_argument("--report", action="store_true", help="only say what is on record")
    options = parser.parse_args()
    known = on_record(options.out)
    if not options.report:
        work = chosen(replace_count(options) if options.again else options)
        survivors = {name for name, one in known.items() if not one.killed and name not in explained()}
        work = [one for one in work if (one.name in survivors if options.again else one.name not in known)]
        fork = get_context("fork")
        with ProcessPoolExecutor(options.jobs, mp_context=fork) as pool, options.out.open("a") as file:
            for one in pool.map(partial(_tried, near=options.near), work):
                file.write(json.dumps(asdict(one)) + "\n")
                file.flush()
                if not one.killed:
                    print(f"survives: line {one.line}: {one.name}", flush=True)
    outcomes = [*on_record(options.out).values()]
    print(report(outcomes))
    return 1 if any(_fate(one, explained()) == "survives" for one in outcomes) else 0


def replace_count(options: argparse.Namespace) -> argparse.Namespace:
    """The options, with all mutants wanted."""
    return argparse.Namespace(**{**vars(options), "count": sys.maxsize})


if __name__ == "__main__":
    sys.exit(main())
