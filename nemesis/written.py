"""Schedules in a file: a person wrote them, or a run recorded them. One fault a line, as JSON.

    {"name": "partition:isolate@leader", "at_s": 2, "hold_s": 6}
    {"name": "kill:one@txn-coordinator", "at_s": 10, "hold_s": 3}

`schedule.jsonl` of a run folder is such a file. Empty lines and lines that begin with `#` are skipped.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf
from typing import Annotated

import msgspec

from core.config import RunConfig
from core.errors import ConfigError
from core.generator import source
from nemesis.registry import NEMESES
from nemesis.schedule import GAP_S, Constraints, Draft, FaultName, Times, drawer, numbered, parse
from nemesis.types import PlannedFault, WorkloadNames


class WrittenFault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line. name: `family[:kind][@target]`; the seed draws what is left out. at_s: start, in seconds
    after the phase of faults began. hold_s: how long it stays in force; 1 ms is the least that a run records.
    seed: of this fault's choices; None = it follows from the seed of the run. A recorded line has further
    fields, which the name says too.
    """

    name: str
    at_s: Annotated[float, msgspec.Meta(ge=0)]
    hold_s: Annotated[float, msgspec.Meta(ge=0.001)]
    seed: int | None = None
    fault: int = 0
    family: str = ""
    kind: str = ""
    target: str = ""


def written(text: bytes, config: RunConfig, names: WorkloadNames | None = None) -> tuple[PlannedFault, ...]:
    """The faults of a file, by start; their ids are dense, whatever the file says.

    names: what the workload uses, see `nemesis.schedule.plan`.

    Raises: ConfigError, with the line: it is no such fault, the cluster or the workload cannot have it, it
    does not end before the phase of faults does, or a fault of its family is still in force.
    """
    steps = numbered(_drafts(text, config, names))
    _refuse_overlaps(steps, Times.of(config))
    return steps


def recorded(text: bytes) -> tuple[PlannedFault, ...]:
    """The faults of `schedule.jsonl` of a run. Raises: ConfigError, with the line: nothing plans such a
    fault, or its numbers are none."""
    steps: list[PlannedFault] = []
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            step = msgspec.json.decode(line, type=PlannedFault)
            asked = parse(step.name)
        except RecursionError:
            raise ConfigError(f"line {number}: nested too deeply") from None
        except (msgspec.MsgspecError, UnicodeDecodeError, ConfigError) as error:
            raise ConfigError(f"line {number}: {error}") from None
        named = FaultName(step.family, step.kind, step.target)
        if asked != (named,) or NEMESES[step.family].effect is None:
            raise ConfigError(f"line {number}: {step.name!r} is not the one fault {str(named)!r}")
        if not (
            0 <= step.at_s < inf and 0 < step.hold_s < inf and step.fault not in {one.fault for one in steps}
        ):
            raise ConfigError(f"line {number}: no start, length or number of a fault")
        steps.append(step)
    return tuple(steps)


def _drafts(text: bytes, config: RunConfig, names: WorkloadNames | None) -> Iterator[Draft]:
    terms = Constraints(config=config, times=Times.of(config), names=names, room=config.duration_s)
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.startswith(b"#"):
            try:
                yield _draft(msgspec.json.decode(line, type=WrittenFault), terms, number)
            except (msgspec.DecodeError, UnicodeDecodeError, ConfigError) as error:
                raise ConfigError(f"line {number}: {error}") from None


def _draft(fault: WrittenFault, terms: Constraints, number: int) -> Draft:
    asked, *more = parse(fault.name)
    if more or NEMESES[asked.family].effect is None:
        raise ConfigError(f"{fault.name!r} is not one fault: family[:kind][@target]")
    config, seed = terms.config, fault.seed
    if seed is None:
        seed = source(config.seed, "nemesis", "written", number).getrandbits(32)
    if asked.kind:  # the line says how long it lasts: no phase is too short to draw that
        terms = replace(terms, room=inf)
    drawn = drawer(asked, terms, random.Random(seed))()
    applying = terms.times.applying(NEMESES[drawn.family].kinds[drawn.kind])
    end = fault.at_s + applying + fault.hold_s
    if end > config.duration_s:
        raise ConfigError(
            f"{drawn} ends after {end:g} s, the phase of faults after {config.duration_s:g} s: "
            f"give --duration {end + 1:g}"
        )
    return Draft(fault.at_s, fault.hold_s, drawn, seed)


def _refuse_overlaps(steps: Sequence[PlannedFault], times: Times) -> None:
    for family in {step.family for step in steps}:
        for first, second in pairwise(filter(lambda step: step.family == family, steps)):
            end = round(times.in_force(first) + first.hold_s + GAP_S, 3)
            if second.at_s < end:
                raise ConfigError(
                    f"{second.name} begins at {second.at_s:g} s, but {first.name} is in force until "
                    f"{end - GAP_S:g} s: a family never overlaps itself, the next may begin at {end:g} s"
                )
