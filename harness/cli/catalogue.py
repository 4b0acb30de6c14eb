"""The registries in words: the lists of `inquest list`, one line for each entry, and the generated parts of
docs/ (the catalogue, JSON Schemas from the types, the model's mechanisms from its scenarios).

`make catalogue` writes the latter (`python -m harness.cli.catalogue docs`); a test keeps them up to date.
"""

import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from checkers.catalogue import ANOMALIES
from checkers.checks import CHECKS
from checkers.faults.reached import FACTS
from checkers.known_bugs.registry import KNOWN_BUGS
from checkers.logs.registry import LOG_CHECKS
from checkers.recordings.lines import Line
from checkers.recordings.portable import CaseFile
from checkers.verdict.requirements import QUANTITIES
from core.config import RunConfig
from core.presets import PRESETS
from core.systems import DEPLOYMENTS, SYSTEMS, runnable
from harness.cli import mechanisms
from harness.clients.command import protocol as client_protocol
from harness.clients.registry import CLIENTS
from harness.reproduce import rates
from history.run_folder import write_atomically
from history.verdict import COMPARED, Verdict
from model.eras import ERAS
from model.mutants.log_damage import LOG_DAMAGE
from model.mutants.registry import MUTANTS
from nemesis.registry import NEMESES
from nemesis.schedule import parse
from nemesis.types import Nemesis
from scenarios.page import pages
from workloads.registry import every_workload


def lists() -> dict[str, dict[str, str]]:
    """Name of a list → name of an entry → its line."""
    return {
        "systems": {name: SYSTEMS[name].doc for name in runnable()},
        "deployments": {name: deployment.doc for name, deployment in DEPLOYMENTS.items()},
        "versions": {name: deployment.bounds() for name, deployment in DEPLOYMENTS.items()},
        "clients": {name: kind.doc for name, kind in CLIENTS.items()},
        "workloads": {name: _first_line(workload.doc) for name, workload in every_workload().items()},
        "nemeses": {name: _nemesis(nemesis) for name, nemesis in NEMESES.items()},
        "checks": {name: check.claim for name, check in CHECKS.items()},
        "log rules": {name: check.claim for name, check in LOG_CHECKS.items()},
        "anomalies": {name: anomaly.title for name, anomaly in ANOMALIES.items()},
        "facts": {name: fact.meaning for name, fact in FACTS.items()},
        "requirements": {
            **{f"{name}{one.comparison}N{one.unit}": one.meaning for name, one in QUANTITIES.items()},
            "reached:FACT": "one of the facts",
            "exercised": "at least one fault reached what it is for, and a record was acknowledged or read",
        },
        "presets": {
            name: ", ".join(f"{key}={value}" for key, value in settings.items()) or "the defaults"
            for name, settings in PRESETS.items()
        },
        "eras": {name: _era(name) for name in ERAS},
        "mutants": {name: bug.wrong for name, bug in (MUTANTS | LOG_DAMAGE).items()},
    }


HEADED = ("workloads", "nemeses")
"""Lists whose entries have a part of the page each, with all that is known of them."""


def _first_line(doc: str) -> str:
    return doc.strip().partition("\n")[0]


def _era(name: str) -> str:
    release, _, further = name.partition("-")
    clients = {"tv1": "; clients speak transaction version 1", "mended": ", without its two known weaknesses"}
    return f"the model behaves as Kafka {release}{clients.get(further, '')}"


def _nemesis(nemesis: Nemesis) -> str:
    """Its line, its kinds, and what each of these may aim at."""
    lines = [_first_line(nemesis.doc)]
    if nemesis.kinds:
        lines.append(f"  kinds: {', '.join(f':{kind}' for kind in nemesis.kinds)}")
    if nemesis.targets:
        lines.append(f"  targets: {', '.join(f'@{target}' for target in nemesis.targets)}")
    return "\n".join(lines)


def details(name: str) -> list[str]:
    """All that the registries say of an entry, in Markdown; empty, where none has this name. Of a fault with
    its kind or target: these. Raises: ConfigError, where its family does not have them."""
    family = re.split("[:@]", name)[0]
    if family in NEMESES and family != name and "," not in name:
        return _fault(name)
    lines = list(_lines())
    found: list[str] = []
    for begin in (at for at, line in enumerate(lines) if line == f"### {name}"):
        ends = (at for at in range(begin + 1, len(lines)) if lines[at].startswith("#"))
        found += lines[begin : next(ends, len(lines))]
    rows = [
        f"{title}: {key}\n  {_more(title, key) or entries[key]}"
        for title, entries in lists().items()
        for key in entries
        if key == name and title not in HEADED
    ]
    return [*found, *rows]


def _fault(name: str) -> list[str]:
    """What `family:kind@target` says. Raises: ConfigError."""
    (asked,) = parse(name)
    nemesis = NEMESES[asked.family]
    kind = [f"  :{asked.kind}  {nemesis.kinds[asked.kind].doc}"] if asked.kind else []
    target = [f"  @{asked.target}  {nemesis.targets[asked.target]}"] if asked.target else []
    title = f"nemeses: {name}\n  {_first_line(nemesis.doc)}"
    return [title, *kind, *target, f"all kinds and targets: inquest list {asked.family}"]


def _more(title: str, key: str) -> str:
    """What the page has of an entry beside its line in the list; "" = no more."""
    if title != "anomalies":
        return ""
    kind = ANOMALIES[key]
    called = f"\n  In the literature: {kind.literature}." if kind.literature else ""
    return f"{kind.title}. {kind.meaning}{called}"


def catalogue() -> str:
    """The whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Catalogue"
    yield ""
    yield "Generated from the registries by `make catalogue`: do not edit."
    yield ""
    yield "## Workloads"
    for name, workload in every_workload().items():
        yield from ("", f"### {name}", "", workload.doc.strip())
    yield from ("", "## Nemeses")
    for name, nemesis in NEMESES.items():
        yield from ("", f"### {name}", "", nemesis.doc.strip())
        if nemesis.kinds:
            yield from ("", "| kind | what |", "|---|---|")
            yield from (f"| {kind} | {value.doc} |" for kind, value in nemesis.kinds.items())
        if nemesis.targets:
            yield from ("", "| target | what |", "|---|---|")
            yield from (f"| {target} | {what} |" for target, what in nemesis.targets.items())
    yield from ("", "## Presets", "", "| preset | sets | must find |", "|---|---|---|")
    for name, settings in PRESETS.items():
        sets = ", ".join(f"{key} = {value}" for key, value in settings.items() if key != "expect")
        must = ", ".join(settings.get("expect", ())) or "nothing"
        yield f"| {name} | {sets or 'the defaults'} | {must} |"
    yield from ("", "## Checks", "", "| check | claim |", "|---|---|")
    yield from (f"| {name} | {check.claim} |" for name, check in CHECKS.items())
    yield from ("", "## Anomalies", "", "| anomaly | name in the literature | meaning |")
    yield "|---|---|---|"
    for name, anomaly in ANOMALIES.items():
        yield f"| {name} | {anomaly.literature or '—'} | {anomaly.meaning} |"
    yield from ("", "## Facts", "", "| a fault reached | where | kinds of faults that are there for it |")
    yield "|---|---|---|"
    for name, fact in FACTS.items():
        kinds = (
            f"{f.name}:{k}" for f in NEMESES.values() for k, one in f.kinds.items() if name in one.reaches
        )
        yield f"| {name} | {fact.meaning} | {', '.join(kinds) or '—'} |"
    yield from ("", "## Requirements", "", "| requirement | what is measured |", "|---|---|")
    yield from (f"| {name} | {meaning} |" for name, meaning in lists()["requirements"].items())
    yield from ("", "## Known bugs", "", "| id | what | evidence that labels a finding |")
    yield "|---|---|---|"
    yield from (f"| {name} | {bug.title} | {bug.evidence} |" for name, bug in KNOWN_BUGS.items())


RINGS: dict[int, str] = {
    0: "What the files of brokers say of one partition agrees: replica with replica, file with log. No model"
    " takes part.",
    1: "A log, record by record in the order of its offsets, is one that the brokers of the model would have"
    " appended.",
    3: "The logs of several partitions, and what clients saw, fit together.",
    4: "What was sent over the network, and when, fits to the logs. Only runs with `capture` have it"
    " (`--set capture=true`).",
}
"""Ring of rules about logs -> what its rules have in common. Ring 2 compares the model with a broker, request
by request: it judges no run."""


def log_rules() -> str:
    """The page of the rules about logs."""
    lines = [
        "# Rules about brokers' logs",
        "",
        "Generated from `checkers/logs/registry.py` by `make catalogue`: do not edit. How these rules count:"
        " [checks.md](checks.md#5-brokers-logs).",
    ]
    for ring, what in RINGS.items():
        lines += ["", f"## Ring {ring}: {COMPARED[ring]}", "", what, ""]
        lines += ["| rule | what has to hold | class | source |", "|---|---|---|---|"]
        lines += [
            f"| {name} | {check.claim} | {', '.join(check.anomalies)} | {check.source} |"
            for name, check in LOG_CHECKS.items()
            if check.ring == ring
        ]
    return "\n".join(lines) + "\n"


def _schema(schema: dict[str, object]) -> str:
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"


def _recordings(kind: object, title: str) -> str:
    """A format of recordings: its fields in their order, and what its classes say."""
    schema: dict[str, Any] = msgspec.json.schema(kind)
    for definition in schema["$defs"].values():
        definition["description"] = inspect.cleandoc(definition.get("description", ""))
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title}
    return json.dumps(head | schema, indent=2, ensure_ascii=False) + "\n"


FILES: dict[str, Callable[[], str]] = {
    "catalogue.md": catalogue,
    "config.schema.json": lambda: _schema(RunConfig.model_json_schema()),
    "verdict.schema.json": lambda: _schema(msgspec.json.schema(Verdict)),
    "client-protocol.schema.json": lambda: _schema(client_protocol.json_schema()),
    "portable-history.schema.json": lambda: _recordings(
        CaseFile | list[CaseFile], "Portable history of Inquest"
    ),
    "import-lines.schema.json": lambda: _recordings(
        Line, "One line of a recording for `inquest recording import jsonl`"
    ),
    "known-bugs.md": rates.page,
    "mechanisms.md": mechanisms.page,
    "log-rules.md": log_rules,
}
"""File of docs/ -> what makes its content."""
MODEL = "model"
"""Folder of docs/ with the pages of the model."""


def generated() -> dict[str, str]:
    """File of docs/ → its content."""
    made = {name: make() for name, make in FILES.items()}
    return made | {f"{MODEL}/{name}": content for name, content in pages(mechanisms.compared()).items()}


if __name__ == "__main__":
    docs = Path(sys.argv[1])
    (docs / MODEL).mkdir(parents=True, exist_ok=True)
    for name, content in generated().items():
        write_atomically(docs / name, content)
