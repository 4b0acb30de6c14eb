"""The matrix of a session: a TOML file that says what may be combined, and the order of the combinations.

Pairs of workload and nemesis are drawn like cards: none comes twice before all have come once. The order
follows from the session's seed; heavier names come earlier, and heavier presets more often.
"""

import math
import random
import tomllib
from collections.abc import Iterator
from importlib.resources import files
from itertools import count, product
from pathlib import Path
from typing import Annotated, Final, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from checkers.known_bugs.registry import KNOWN_BUGS
from core.config import RunConfig, laid_over, reason, run_config
from core.errors import ConfigError
from core.first_few import few_of
from core.generator import source
from core.known_names import meant
from core.presets import PRESETS, NamedSettings
from harness.clients.application.named import SETTINGS
from harness.compose import plan
from harness.nights.session_log import PlannedRun, Why
from harness.soak.systems import Named, Systems, SystemUnderSoak, in_force
from nemesis.registry import NEMESES, SCHEDULE
from workloads.registry import APPLICATION, WORKLOADS

DEFAULT: Final = "matrix.toml"
APPLICATIONS: Final = "application.toml"
"""The matrix of a session about an application of the user's."""
TAKEN = ("workload", "nemesis", "preset", "seed", "expect")
"""Settings that have a place of their own in a matrix."""
Names = Annotated[tuple[str, ...], Field(min_length=1)]
OneOrMore = str | tuple[str, ...]
BRANCHES: Final = ("str", "tuple[str, ...]")
"""How Pydantic names what a field may be instead."""


class Combination(NamedTuple):
    """One cell of the matrix."""

    workload: str
    nemesis: str
    preset: str


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Exclude(_Strict):
    """Leaves out the combinations that match every given field. unless_workload: all workloads but these."""

    workload: OneOrMore = ()
    unless_workload: OneOrMore = ()
    nemesis: OneOrMore = ()
    preset: OneOrMore = ()

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not (self.workload or self.unless_workload or self.nemesis or self.preset):
            raise ValueError("give at least one of workload, unless_workload, nemesis, preset")
        return self

    def matches(self, combination: Combination) -> bool:
        """Whether it leaves the combination out."""
        if combination.workload in _names(self.unless_workload):
            return False
        wanted = (self.workload, self.nemesis, self.preset)
        return all(
            not names or name in _names(names) for names, name in zip(wanted, combination, strict=True)
        )


def _names(given: OneOrMore) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else given


class Explicit(_Strict):
    """A run of every session. seed None: a new one in each session."""

    workload: str
    nemesis: str
    preset: str
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    settings: NamedSettings = Field(default_factory=dict)

    @property
    def combination(self) -> Combination:
        """Its cell."""
        return Combination(self.workload, self.nemesis, self.preset)


class Matrix(_Strict):
    """What a soak may run.

    workloads, nemeses: all that are registered, unless given. settings: common to all runs; the settings of
    a preset win over them. systems: each drawn run is performed on all of them, one after the other; the
    canary on the first. topologies: sets of settings; each drawn run gets one, in turn. canary: presets
    with `expect`, one per session in turn. canary_settings: added for the canary. weights: of workloads,
    nemeses and presets; 1 unless given. application: settings of runs of the workload `application`, over the
    others; no other run has them. accept: known bugs, each with the reason: a session that finds nothing
    else ends with 0.
    """

    workloads: Names = Field(default_factory=lambda: tuple(WORKLOADS))
    nemeses: Names = Field(default_factory=lambda: tuple(name for name in NEMESES if name != SCHEDULE.name))
    presets: Names
    canary: str | Names
    settings: NamedSettings = Field(default_factory=dict)
    systems: Annotated[tuple[SystemUnderSoak, ...], Field(min_length=1)] = (SystemUnderSoak(),)
    topologies: Annotated[tuple[NamedSettings, ...], Field(min_length=1)] = ({},)
    canary_settings: NamedSettings = Field(default_factory=dict)
    application: NamedSettings = Field(default_factory=dict)
    weights: dict[str, Annotated[float, Field(gt=0, le=1000)]] = Field(default_factory=dict)
    exclude: tuple[Exclude, ...] = ()
    runs: tuple[Explicit, ...] = ()
    accept: dict[str, Annotated[str, Field(min_length=1)]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if wrong := sorted(set(self.accept) - set(KNOWN_BUGS)):
            raise ValueError(f"accept: unknown {', '.join(wrong)}; known bugs: {', '.join(KNOWN_BUGS)}")
        more = (run.settings for run in self.runs)
        for where in (self.settings, self.canary_settings, self.application, *self.topologies, *more):
            if wrong := sorted(set(where) & set(TAKEN)):
                raise ValueError(f"settings cannot hold {', '.join(wrong)}")
        known = {*self.workloads, *self.nemeses, *self.presets}
        if wrong := sorted(set(self.weights) - known):
            raise ValueError(f"weights for names that are not in the matrix: {', '.join(wrong)}")
        for rule in self.exclude:
            if not any(map(rule.matches, self._product())):
                raise ValueError(f"exclude matches nothing: {rule.model_dump(exclude_defaults=True)}")
        if not self.combinations():
            raise ValueError("all combinations are excluded")
        return self

    def _product(self) -> list[Combination]:
        """All but those of a workload that means nothing without the settings of presets of its own."""
        every = [Combination(*c) for c in product(self.workloads, self.nemeses, self.presets)]
        needing = {name for name, workload in WORKLOADS.items() if workload.preset}
        own = {name: preset.get("workload") for name, preset in PRESETS.items()}
        return [one for one in every if one.workload not in needing or own.get(one.preset) == one.workload]

    def combinations(self) -> list[Combination]:
        """All combinations that no rule excludes."""
        return [
            combination
            for combination in dict.fromkeys(self._product())
            if not any(rule.matches(combination) for rule in self.exclude)
        ]

    def weight(self, *names: str) -> float:
        """The product of the weights of these names."""
        return math.prod(self.weights.get(name, 1.0) for name in names)

    def canaries(self) -> tuple[str, ...]:
        """The presets that take turns as canary."""
        return _names(self.canary)

    def requiring(self, words: str) -> Self:
        """The same, with something required of every run but the canary."""
        return self.model_copy(
            update={
                "settings": self.settings | {"require": words},
                "canary_settings": self.canary_settings | {"require": ""},
            }
        )

    def performing(self, app: object) -> Self:
        """The same, with what the command line says of the application over what the matrix says of it.
        Raises: ConfigError, where it has no run of one."""
        some = (*self.combinations(), *(run.combination for run in self.runs))
        if all(one.workload != APPLICATION.name for one in some):
            raise ConfigError(f"--app: the matrix has no run of workload {APPLICATION.name}")
        return self.model_copy(update={"application": laid_over(self.application, {"app": app})})

    def comparing(self, systems: Systems) -> Self:
        """The same drawn runs on each of these systems; explicit runs are left out."""
        return self.model_copy(update={"systems": systems})

    def explicit(self) -> tuple[Explicit, ...]:
        """Its explicit runs; none where it names systems, as they would be on the usual one."""
        return self.runs if self.systems == (SystemUnderSoak(),) else ()

    def settings_for(self, preset: str, *more: dict[str, object]) -> dict[str, object]:
        """Settings of a run: the common ones that the preset does not set, then `more`. What both require,
        the run has to show."""
        own = PRESETS.get(preset, {})
        found = {name: value for name, value in self.settings.items() if name not in own}
        if "require" in own and (common := self.settings.get("require")):
            found["require"] = f"{common},{own['require']}"
        for settings in more:
            found |= settings
        return found

    def placed(self, preset: str, topology: dict[str, object]) -> dict[str, object]:
        """The settings of a topology that the preset does not set."""
        return {name: value for name, value in topology.items() if name not in PRESETS.get(preset, {})}

    def planned(
        self,
        why: Why,
        combination: Combination,
        seed: int,
        *more: dict[str, object],
        system: SystemUnderSoak | None = None,
    ) -> PlannedRun:
        """A run of a combination. more: settings beside the common ones. system: None = the usual one."""
        on = system or SystemUnderSoak()
        settings = self.settings_for(combination.preset, *more, on.settings)
        if combination.workload == APPLICATION.name:
            its = laid_over({"app": {}, **on.application}, self.application)
            usual = {name: value for name, value in SETTINGS.items() if name not in TAKEN}
            settings = {**usual, **settings, **its}
        return PlannedRun(
            why=why,
            seed=seed,
            settings=settings,
            client=on.client,
            cluster=on.cluster,
            **combination._asdict(),
        )


def topologies(matrix: Matrix, seed: int) -> Iterator[dict[str, object]]:
    """The endless sequence of topologies of a session: all of them in a drawn order, and again."""
    for turn in count():
        some = list(matrix.topologies)
        source(seed, "soak", "topologies", turn).shuffle(some)
        yield from some


def draws(matrix: Matrix, seed: int) -> Iterator[Combination]:
    """The endless sequence of combinations of a session."""
    pairs: dict[tuple[str, str], list[str]] = {}
    for workload, nemesis, preset in matrix.combinations():
        pairs.setdefault((workload, nemesis), []).append(preset)
    hands: dict[tuple[str, str], list[str]] = {pair: [] for pair in pairs}
    turn = 0
    while True:
        rng = source(seed, "soak", "pairs", turn)
        order = sorted(pairs, key=lambda pair: -(rng.random() ** (1 / matrix.weight(*pair))))
        for pair in order:
            if not hands[pair]:
                hands[pair] = _hand(matrix, pairs[pair], source(seed, "soak", *pair, turn))
            yield Combination(*pair, hands[pair].pop())
        turn += 1


def _hand(matrix: Matrix, presets: list[str], rng: random.Random) -> list[str]:
    """Every preset at least once, and as often as its weight says, in a drawn order."""
    least = min(matrix.weight(preset) for preset in presets)
    cards = [p for p in presets for _ in range(round(matrix.weight(p) / least))]
    rng.shuffle(cards)
    return cards


def config_of(task: PlannedRun) -> RunConfig:
    """The configuration of a run. Raises: ConfigError."""
    return run_config(
        {
            "workload": task.workload,
            "nemesis": task.nemesis,
            "preset": task.preset,
            "seed": task.seed,
            **task.settings,
        }
    )


def canary_run(matrix: Matrix, preset: str, seed: int) -> PlannedRun:
    """The run of a canary: workload and nemesis are those of its preset.

    Raises: ConfigError, where the preset is unknown or not a control.
    """
    system = matrix.systems[0]
    settings = matrix.settings_for(preset, matrix.canary_settings, system.settings)
    config = run_config({"preset": preset, "seed": seed, **settings})
    if not config.expect:
        raise ConfigError(f"preset {preset!r} cannot be a canary: it expects no anomaly")
    combination = Combination(config.workload, config.nemesis, preset)
    return matrix.planned("canary", combination, seed, matrix.canary_settings, system=system)


def load(path: Path | None, default: str = DEFAULT) -> Matrix:
    """The matrix of a file; this one of the package, if None.

    Raises: ConfigError, which names the first mistake.
    """
    if path is None:
        return parse(files(__package__).joinpath(default).read_text(encoding="utf-8"), default)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"the matrix {path} cannot be read: {error}") from None
    except OSError as error:
        raise ConfigError(f"the matrix {path} cannot be read: {error.strerror}") from None
    return parse(text, str(path))


def parse(text: str, where: str) -> Matrix:
    """The matrix of a text. Raises: ConfigError."""
    try:
        return Matrix.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where}: not valid TOML: {error}") from None
    except ValidationError as error:
        raise ConfigError(f"{where}: {_mistakes(error)}") from None


SECTIONS: Final[dict[str, type[BaseModel]]] = {
    "exclude": Exclude,
    "runs": Explicit,
    "systems": SystemUnderSoak,
}
"""Fields of a matrix that are tables with fields of their own."""
MISTAKES: Final = 5
"""Most of them that are named."""


def _mistakes(error: ValidationError) -> str:
    """What is wrong with the fields of a matrix, unknown ones first: one misspelt may be missing, too."""
    firsts: dict[tuple[int | str, ...], ErrorDetails] = {}
    for one in error.errors():
        firsts.setdefault(tuple(part for part in one["loc"] if part not in BRANCHES), one)
    found = sorted(firsts.items(), key=lambda item: item[1]["type"] != "extra_forbidden")
    told = [_mistake(place, one) for place, one in found]
    return "; ".join(few_of(told, MISTAKES))


def _mistake(place: tuple[int | str, ...], error: ErrorDetails) -> str:
    where = ".".join(map(str, place))
    if error["type"] == "missing":
        return f"{where} is required"
    if error["type"] != "extra_forbidden":
        return f"{where}: {reason(error)}" if where else reason(error)
    of = SECTIONS.get(str(place[0]), Matrix)
    near = meant(str(place[-1]), of.model_fields).strip()
    return f"unknown field {where!r}{f' ({near})' if near else ''}"


def check_run(task: PlannedRun, named: Named) -> None:
    """Refuse a run that this version cannot perform: unknown names, or settings that exclude each other.

    Raises: ConfigError.
    """
    with in_force(named.variables(task.client, task.cluster)):
        plan(config_of(task))


def check(matrix: Matrix, named: Named, where: str = "the matrix") -> None:
    """Refuse a matrix with a run that cannot be performed. where: its file. Raises: ConfigError, which names
    both."""
    for preset in matrix.canaries():
        try:
            check_run(canary_run(matrix, preset, 0), named)
        except ConfigError as error:
            raise ConfigError(f"{where}, canary {preset}: {error}") from None
    usual = SystemUnderSoak()
    explicit = [(run.combination, run.settings, usual) for run in matrix.explicit()]
    drawn = [
        (combination, matrix.placed(combination.preset, topology), system)
        for combination in matrix.combinations()
        for topology in matrix.topologies
        for system in matrix.systems
    ]
    for combination, more, system in [*drawn, *explicit]:
        try:
            check_run(matrix.planned("matrix", combination, 0, more, system=system), named)
        except ConfigError as error:
            raise ConfigError(f"{where}, at {' x '.join(combination)}: {error}") from None
