"""docs/mechanisms.md: each mechanism of Kafka, its tables in the model, and what shows and judges it on real
brokers. What belongs together stands in mechanisms.toml; what was measured, in the reproductions' record;
which tables are compared, and which version of Kafka takes a command, is found by asking.
"""

import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from checkers.checks import CHECKS
from core.config import run_config
from core.errors import ConfigError
from core.systems import DEPLOYMENTS, KAFKA_VERSION, numbers_of
from harness.cli.settings import setting
from harness.compose import plan
from harness.contract import versions
from harness.contract.cluster import REPLICAS_SINCE
from harness.contract.scenarios import compared_tables
from harness.reproduce.rates import measured
from scenarios.framework import AnyScenario
from scenarios.page import ComparedTables
from scenarios.registry import CHAPTERS

SOURCE: Final = Path(__file__).with_name("mechanisms.toml")
OLDEST: Final = "0.11.0"
"""The oldest line of Kafka that takes a run as it is usually set: its producers are idempotent."""
CONTRACT: Final = "model contract"
HEAD: Final = f"""\
# Mechanisms of Kafka, and where to see them

Generated from `harness/cli/mechanisms.toml` by `make catalogue`: do not edit.

*Model*: tables that are played step by step ([all of them](model/index.md)); in bold those that
`inquest model contract` compares with brokers of Kafka {KAFKA_VERSION}, without the columns that are named.
It takes Kafka {".".join(map(str, versions.OLDEST))} and later, for tables about replicas {REPLICAS_SINCE} and
later.
*Real brokers*: commands that make it happen; `inquest run` takes Kafka {OLDEST} to 4.4, but not 2.0 to 2.3,
where no other version is named (`inquest list versions`; 0.10.2 with `--set idempotent=false`).
*Simulated*: the same in virtual time, by the model alone. *Judged by*: [checks](checks.md) of what clients
saw, [rules about logs](log-rules.md), and the comparison of the tables, step by step. *Measured*: by scripted
schedules, [how often](known-bugs.md) each showed the bug, and its good side did. *Not shown*: what real
brokers do unseen, or not at all here."""


class Mechanism(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One heading. tables: names of scenarios. commands: without the leading `inquest`. judged: names of
    checks and of rules about logs. open: what is not shown on real brokers, "" = nothing."""

    title: str
    tables: tuple[str, ...]
    judged: tuple[str, ...]
    commands: tuple[str, ...] = ()
    open: str = ""

    @property
    def simulated(self) -> list[str]:
        """The commands that ask the model alone."""
        return [command for command in self.commands if "sut=simulated" in command]

    @property
    def real(self) -> list[str]:
        """The commands that ask real brokers."""
        return [command for command in self.commands if command not in self.simulated]

    @property
    def compared(self) -> bool:
        """Whether the comparison of its tables with real brokers is what shows it."""
        return CONTRACT in self.commands

    @property
    def reproductions(self) -> list[str]:
        """The schedules among its commands."""
        words = [shlex.split(command) for command in self.commands]
        return list(dict.fromkeys(each[2] for each in words if each[:2] == ["bugs", "reproduce"]))


class MechanismsPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Mechanisms of one subject."""

    title: str
    mechanism: tuple[Mechanism, ...]


class _Parts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    part: tuple[MechanismsPart, ...]


@cache
def parts() -> tuple[MechanismsPart, ...]:
    """All of the file."""
    return msgspec.toml.decode(SOURCE.read_bytes(), type=_Parts).part


@cache
def compared() -> ComparedTables:
    """What is compared with the version of Kafka that runs have."""
    return ComparedTables(KAFKA_VERSION, compared_tables(KAFKA_VERSION))


@cache
def since(command: str) -> str:
    """The oldest line of Kafka from which on every one that can be run takes a command `run`; "" where it
    names a version, or what it runs on."""
    words = shlex.split(command)
    options = list(zip(words[1::2], words[2::2], strict=True))
    settings = dict(setting(value) for name, value in options if name == "--set")
    given = {name[2:]: value for name, value in options if name != "--set"} | settings
    if {"kafka", "sut"} & given.keys():
        return ""
    lines = {
        line for one in DEPLOYMENTS.values() for line in one.lines if numbers_of(line) >= numbers_of(OLDEST)
    }
    taken = ""
    for line in sorted(lines, key=numbers_of, reverse=True):
        try:
            plan(run_config({"seed": 1, **given, "kafka": f"{line}.1"}))
        except ConfigError:
            break
        taken = line
    return taken


def page() -> str:
    """docs/mechanisms.md."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    every = [one for part in parts() for one in part.mechanism]
    shown = sum(bool(one.real) for one in every)
    whole = sum(bool(one.real) and not one.open for one in every)
    yield from (HEAD, "", f"{len(every)} mechanisms; {shown} happen on real brokers, {whole} of them whole.")
    for part in parts():
        yield from ("", f"## {part.title}")
        for one in part.mechanism:
            yield from _section(one)


def _section(one: Mechanism) -> Iterator[str]:
    yield from ("", f"### {one.title}", "", f"- Model: {', '.join(map(_table, one.tables))}")
    for where, commands in (("Real brokers", one.real), ("Simulated", one.simulated)):
        if commands:
            yield f"- {where}: {', '.join(map(_command, commands))}"
    judges = [*map(_judge, one.judged), *(["the comparison of its tables"] if one.compared else [])]
    if judges:
        yield f"- Judged by: {', '.join(judges)}"
    if rates := list(_rates(one)):
        yield f"- Measured: {'; '.join(rates)}"
    if one.open:
        yield f"- Not shown: {one.open}"


@cache
def _scenarios() -> dict[str, tuple[str, AnyScenario]]:
    return {each.name: (key, each) for key, chapter in CHAPTERS.items() for each in chapter.scenarios}


def _table(name: str) -> str:
    chapter, scenario = _scenarios()[name]
    return compared().link(scenario, f"model/{chapter}.md")


def _command(command: str) -> str:
    oldest = since(command) if command.startswith("run ") else ""
    return f"`inquest {command}`" + (f" ({oldest} on)" if oldest not in ("", OLDEST) else "")


def _judge(name: str) -> str:
    return f"[{name}]({'checks.md' if name in CHECKS else 'log-rules.md'})"


def _rates(one: Mechanism) -> Iterator[str]:
    """Of each schedule, on each version: how often it showed the bug, and how often its good side did."""
    for name in one.reproductions:
        rates = [rate for rate in measured() if rate.name == name]
        for kafka in sorted({rate.kafka for rate in rates}, key=numbers_of):
            sides = {rate.good: rate for rate in rates if rate.kafka == kafka}
            bad, good = (sides.get(side) for side in (False, True))
            words = [f"{bad.shown} of {bad.runs}"] if bad else []
            words += [f"good side {good.shown} of {good.runs}"] if good else []
            yield f"{name} on {kafka} {', '.join(words)} ({max(rate.day for rate in sides.values())})"
