"""The documentation is true: its examples run, its generated parts are up to date."""

import re
import shutil
import subprocess
import sys
from itertools import islice
from pathlib import Path
from types import ModuleType

import pytest

from core.config import RunConfig, run_config
from core.generator import Slot, source
from core.presets import PRESETS
from core.runtime import run_blocking
from core.systems import runnable
from harness.cli.catalogue import FILES, MODEL
from harness.cli.settings import setting
from harness.explore.trial import trial
from nemesis import execute, schedule
from nemesis.registry import NEMESES
from tests.nemesis.stage import NAMES, Recording, stage_of
from tests.test_rooms import ROOMS
from workloads.registry import Workload

DOCS = Path(__file__).parents[3] / "docs"
IGNORED = shutil.ignore_patterns("__pycache__")
ADDED = {
    "workloads/pairs.py": (
        "workloads/registry.py",
        ("    compacted,\n    copier,\n", "    queue, transactions, copier, "),
        ("    compacted,\n    copier,\n    pairs,\n", "    queue, transactions, copier, pairs, "),
    ),
    "nemesis/families/blink.py": (
        "nemesis/registry.py",
        ("from nemesis.families.client", "FAMILIES = (\n"),
        (
            "from nemesis.families.blink import BLINK\nfrom nemesis.families.client",
            "FAMILIES = (\n    BLINK,\n",
        ),
    ),
}
"""Each example, its registry, and the lines there before and after."""


@pytest.mark.parametrize("page", ["README.md", *sorted(f"docs/{path.name}" for path in DOCS.glob("*.md"))])
def test_a_shell_takes_no_requirement_for_a_file(page: str) -> None:
    text = (DOCS.parent / page).read_text()
    assert re.findall(r"--require ([^\s'\"`]*[<>]\S*)", text) == []


def source_of(name: str) -> str:
    """A Python example of docs/extending.md, by the path in its first line."""
    text = (DOCS / "extending.md").read_text()
    blocks: list[str] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (code,) = [block for block in blocks if block.startswith(f"# {name}\n")]
    return code


def example(name: str) -> ModuleType:
    """That example as a module."""
    code = source_of(name)
    module = ModuleType(name.removesuffix(".py").replace("/", "."))
    exec(compile(code, name, "exec"), module.__dict__)
    written = sum(bool(line.strip()) for line in code.splitlines())
    assert written <= 36, "an example is meant to be short"
    return module


def test_the_workload_example_plans_pairs() -> None:
    module = example("workloads/pairs.py")
    workload = Workload(name="pairs", doc="", topics=module.topics, plans=module.plans, ops=module.ops)
    config = run_config({"seed": 1})
    slot = Slot(slot=0, process=0, tps=workload.tps(config), rng=source(1))
    planned = list(islice(workload.ops(config, workload.plans(config)[0], slot), 20))
    assert all(len({send.tp for send in p.op.mops}) == 2 for p in planned[1:])  # type: ignore[union-attr]
    assert {p.op.txn for p in planned} == {True}


def test_the_nemesis_example_is_planned_injected_and_healed(monkeypatch: pytest.MonkeyPatch) -> None:
    blink = example("nemesis/families/blink.py").BLINK
    monkeypatch.setitem(NEMESES, "blink", blink)
    steps = schedule.plan("blink@controller", run_config({"seed": 1, "duration_s": 20}))
    cluster = Recording(3)
    stage = stage_of(cluster)
    injected = run_blocking(execute.inject(stage, steps[0], run_blocking(cluster.roles()), NAMES))
    run_blocking(execute.heal(stage, injected))
    assert cluster.calls == [("kill", (3,)), ("revive", (3,)), ("revive", (3,))]


@pytest.mark.sampled(8)
@pytest.mark.slow
def test_two_files_add_a_workload_and_two_a_nemesis(tmp_path: Path) -> None:
    """In a copy of the repository: a run of both on the simulated system, and the maps of the packages."""
    for room in (*ROOMS, "tests"):
        shutil.copytree(DOCS.parent / room, tmp_path / room, ignore=IGNORED)
    for name, (registry, before, after) in ADDED.items():
        (tmp_path / name).write_text(source_of(name))
        text = (tmp_path / registry).read_text()
        for old, new in zip(before, after, strict=True):
            assert old in text
            text = text.replace(old, new)
        (tmp_path / registry).write_text(text)

    def python(*words: str) -> str:
        command = [sys.executable, "-m", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    chosen = "--set sut=simulated --workload pairs --nemesis blink --duration 5 --engine process"
    out = python("harness.cli.main", "run", *chosen.split())
    assert out.startswith("VALID: no forbidden anomaly in ")
    python("pytest", "-q", "-p", "no:cacheprovider", "tests/test_rooms.py")


def test_the_budget_that_the_nightly_job_allows_fits_into_it() -> None:
    job = (DOCS.parent / ".github" / "workflows" / "nightly.yml").read_text()
    (minutes,) = map(int, re.findall(r"soak:\n.*\n    timeout-minutes: (\d+)", job))
    (most,) = map(int, re.findall(r"description: How long.* below (\d+)h", job))
    (documented,) = map(int, re.findall(r"any budget below (\d+) h", (DOCS / "soak.md").read_text()))
    (usual,) = map(int, re.findall(r"inputs.budget \|\| '(\d+)h'", job))
    assert usual < most == documented
    assert most * 60 + 30 <= minutes  # setting up, and the last run


def simulated_runs() -> list[tuple[str, str]]:
    """The simulated runs of the tutorial, each with what is said to be found, "" = nothing."""
    text = (DOCS / "tutorial.md").read_text().replace("\\\n", "")
    runs = re.findall(r"^inquest (run --set sut=simulated .*\S) +# (\S+)$", text, re.MULTILINE)
    return [(words, "" if said == "valid" else said) for words, said in runs]


def test_simulated_runs_of_the_tutorial_say_what_is_found() -> None:
    assert [said for _, said in simulated_runs()] == ["", "lost-write", "lost-write"]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("number", range(3))
def test_a_simulated_run_of_the_tutorial_finds_what_is_said(number: int) -> None:
    words, said = simulated_runs()[number]
    found = trial(configured(words)).anomalies
    assert (said in found) if said else not found
    for cause in re.findall(r" --set (?:mutant|era)=\S+", words):
        assert not trial(configured(words.replace(cause, ""))).anomalies, f"valid without{cause}"


def configured(words: str) -> RunConfig:
    """The configuration of a command line without quotes."""
    given = dict(re.findall(r"--(?!set )(\S+) (\S+)", words))
    given = {"duration_s" if name == "duration" else name: value for name, value in given.items()}
    return run_config(dict(map(setting, [*re.findall(r"--set (\S+)", words), *map("=".join, given.items())])))


@pytest.mark.sampled(24)
def test_the_generated_parts_are_up_to_date(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "harness.cli.catalogue", str(tmp_path)]
    subprocess.run(command, check=True)  # other tests of this process may have defined rules of their own
    made = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    assert {Path(name) for name in FILES} < made
    assert {path.relative_to(DOCS) for path in (DOCS / MODEL).iterdir()} < made, "a page of no chapter"
    for name in made:
        assert (DOCS / name).read_text() == (tmp_path / name).read_text(), "run `make catalogue`"


def anchors(page: Path) -> set[str]:
    """What a link into a page can name: its headings as GitHub writes them, and its own marks."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+?)\s*$", text, re.MULTILINE)
    slugs = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
    seen = {
        slug if not slugs[:at].count(slug) else f"{slug}-{slugs[:at].count(slug)}"
        for at, slug in enumerate(slugs)
    }
    return seen | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


@pytest.mark.parametrize(
    "page", [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))], ids=lambda page: page.name
)
def test_links_between_documents_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", page.read_text()):
        if target.startswith("http"):
            continue
        place = page.parent / target if target else page
        assert place.exists(), f"{page.name}: {target}"
        if anchor and place.suffix == ".md":
            assert anchor in anchors(place), f"{page.name}: {target}#{anchor}"


def test_the_tutorial_and_the_glossary_name_every_preset_and_every_system() -> None:
    tutorial, glossary = ((DOCS / f"{name}.md").read_text() for name in ("tutorial", "glossary"))
    table = tutorial.partition("| preset | what it shows |\n")[2].partition("\n\n")[0]
    named = [row.split("|")[1] for row in table.splitlines()[1:]]
    assert {name for cell in named for name in re.findall(r"`([\w-]+)`", cell)} == set(PRESETS)
    (system,) = re.findall(r"^\| \*\*system\*\* \|.*", glossary, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", system)) == set(runnable())
