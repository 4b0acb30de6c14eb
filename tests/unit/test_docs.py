"""The documentation is true: its examples run, its generated parts are up to date."""

import re
from itertools import islice
from pathlib import Path
from types import ModuleType

import pytest

import nemesis as nemeses
from harness.catalogue import GENERATED
from harness.config import run_config
from harness.generator import Slot, source
from harness.session import drive
from nemesis.registry import NEMESES
from tests.stage import NAMES, Recording, stage_of
from workloads import Workload

DOCS = Path(__file__).parents[2] / "docs"


def example(name: str) -> ModuleType:
    """A Python example of docs/extending.md, by the path in its first line."""
    text = (DOCS / "extending.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (code,) = [block for block in blocks if block.startswith(f"# {name}\n")]
    module = ModuleType(name)
    exec(compile(code, name, "exec"), module.__dict__)
    assert code.count("\n") <= 42, "an example is meant to be short"
    return module


def test_the_workload_example_plans_pairs() -> None:
    module = example("workloads/pairs.py")
    workload = Workload(
        name="pairs", doc="", topics=module.topics, plans=module.plans, ops=module.ops
    )
    config = run_config({"seed": 1})
    slot = Slot(slot=0, process=0, tps=workload.tps(config), rng=source(1))
    planned = list(islice(workload.ops(config, workload.plans(config)[0], slot), 20))
    assert all(len({send.tp for send in p.op.mops}) == 2 for p in planned[1:])  # type: ignore[union-attr]
    assert {p.op.txn for p in planned} == {True}


def test_the_nemesis_example_is_planned_injected_and_healed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blink = example("nemesis/blink.py").BLINK
    monkeypatch.setitem(NEMESES, "blink", blink)
    steps = nemeses.plan("blink@controller", run_config({"seed": 1, "duration_s": 20}))
    cluster = Recording(3)
    stage = stage_of(cluster)
    injected = drive(nemeses.inject(stage, steps[0], drive(cluster.roles()), NAMES))
    drive(nemeses.heal(stage, injected))
    assert cluster.calls == [("kill", (3,)), ("revive", (3,)), ("revive", (3,))]


def test_the_budget_that_the_nightly_job_allows_fits_into_it() -> None:
    job = (DOCS.parent / ".github" / "workflows" / "nightly.yml").read_text()
    (minutes,) = map(int, re.findall(r"timeout-minutes: (\d+)", job))
    (most,) = map(int, re.findall(r"description: How long.* below (\d+)h", job))
    (told,) = map(int, re.findall(r"any budget below (\d+) h", (DOCS / "soak.md").read_text()))
    (usual,) = map(int, re.findall(r"inputs.budget \|\| '(\d+)h'", job))
    assert usual < most == told
    assert most * 60 + 30 <= minutes  # setting up, and the last run


@pytest.mark.parametrize("name", GENERATED)
def test_the_generated_parts_are_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text() == GENERATED[name](), "run `make catalogue`"


def test_links_between_documents_lead_somewhere() -> None:
    for page in (*DOCS.glob("*.md"), DOCS.parent / "README.md"):
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"
