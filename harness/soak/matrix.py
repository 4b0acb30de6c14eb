"""The matrix of a soak: a TOML file that says what may be combined, and the order in which it is drawn.

Pairs of workload and nemesis are drawn like cards: none comes twice before all have come once. The order
follows from the night's seed; heavier names come earlier, and heavier presets more often.

Not here: what is known under these names (their registries), when a run is made (`choice`).
"""

import tomllib
from collections.abc import Iterator
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from harness.config import PRESETS, ConfigError, RunConfig, run_config
from harness.generator import source
from harness.night import Task

DEFAULT = "matrix.toml"
TAKEN = ("workload", "nemesis", "preset", "seed", "expect")
"""Settings that the matrix gives by themselves."""
Names = Annotated[tuple[str, ...], Field(min_length=1)]


class Combination(NamedTuple):
    """What is combined."""

    workload: str
    nemesis: str
    preset: str


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Exclude(_Strict):
    """Combinations that are left out: those that match every field that is given."""

    workload: str | tuple[str, ...] = ()
    nemesis: str | tuple[str, ...] = ()
    preset: str | tuple[str, ...] = ()

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not (self.workload or self.nemesis or self.preset):
            raise ValueError("give at least one of workload, nemesis, preset")
        return self

    def matches(self, combination: Combination) -> bool:
        """Whether the combination is left out."""
        wanted = (self.workload, self.nemesis, self.preset)
        return all(
            not names or name in ((names,) if isinstance(names, str) else names)
            for names, name in zip(wanted, combination, strict=True)
        )


class Explicit(_Strict):
    """One run that every night makes. seed None: a new one each night."""

    workload: str
    nemesis: str
    preset: str
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    settings: dict[str, Any] = Field(default_factory=dict)


class Matrix(_Strict):
    """What a soak may run.

    settings: common to all runs; what a preset sets itself wins over them. canary: presets with
    `expect`, one a night in turn. canary_settings: besides, for the canary alone. weights: name of a
    workload, nemesis or preset -> how much more it counts than others (1).
    """

    workloads: Names
    nemeses: Names
    presets: Names
    canary: str | Names
    settings: dict[str, Any] = Field(default_factory=dict)
    canary_settings: dict[str, Any] = Field(default_factory=dict)
    weights: dict[str, Annotated[float, Field(gt=0, le=1000)]] = Field(default_factory=dict)
    exclude: tuple[Exclude, ...] = ()
    runs: tuple[Explicit, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for where in (self.settings, self.canary_settings, *(run.settings for run in self.runs)):
            if wrong := sorted(set(where) & set(TAKEN)):
                raise ValueError(f"settings cannot hold {', '.join(wrong)}")
        known = {*self.workloads, *self.nemeses, *self.presets}
        if wrong := sorted(set(self.weights) - known):
            raise ValueError(f"weights for names that are not in the matrix: {', '.join(wrong)}")
        for rule in self.exclude:
            if not any(map(rule.matches, self._product())):
                raise ValueError(
                    f"exclude matches nothing: {rule.model_dump(exclude_defaults=True)}"
                )
        if not self.combinations():
            raise ValueError("all combinations are excluded")
        return self

    def _product(self) -> list[Combination]:
        return [Combination(*c) for c in product(self.workloads, self.nemeses, self.presets)]

    def combinations(self) -> list[Combination]:
        """All that are not excluded."""
        return [
            combination
            for combination in dict.fromkeys(self._product())
            if not any(rule.matches(combination) for rule in self.exclude)
        ]

    def weight(self, *names: str) -> float:
        """Weight of names together."""
        weight = 1.0
        for name in names:
            weight *= self.weights.get(name, 1.0)
        return weight

    def canaries(self) -> tuple[str, ...]:
        """The presets that are canaries in turn."""
        return (self.canary,) if isinstance(self.canary, str) else self.canary

    def settings_for(self, preset: str, *more: dict[str, Any]) -> dict[str, Any]:
        """Settings of a run: the common ones that the preset does not set itself, then `more`."""
        own = PRESETS.get(preset, {})
        found = {name: value for name, value in self.settings.items() if name not in own}
        for settings in more:
            found |= settings
        return found


def draws(matrix: Matrix, seed: int) -> Iterator[Combination]:
    """All combinations that a night may make, in its order, without end."""
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


def _hand(matrix: Matrix, presets: list[str], rng: Any) -> list[str]:
    """Every preset at least once, heavier ones as much more often, in a drawn order."""
    least = min(matrix.weight(preset) for preset in presets)
    cards = [p for p in presets for _ in range(round(matrix.weight(p) / least))]
    rng.shuffle(cards)
    return cards


def config_of(task: Task) -> RunConfig:
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


def canary_task(matrix: Matrix, preset: str, seed: int) -> Task:
    """The run of a canary: workload and nemesis are those of its preset.

    Raises: ConfigError, where the preset is unknown or no control.
    """
    settings = matrix.settings_for(preset, matrix.canary_settings)
    config = run_config({"preset": preset, "seed": seed, **settings})
    if not config.expect:
        raise ConfigError(f"canary: preset {preset!r} is no control (it expects no anomaly)")
    return Task(
        why="canary",
        workload=config.workload,
        nemesis=config.nemesis,
        preset=preset,
        seed=seed,
        settings=settings,
    )


def load(path: Path | None) -> Matrix:
    """The matrix of a file, of the package without one.

    Raises: ConfigError, naming the first thing that is wrong.
    """
    if path is None:
        return parse(files("harness.soak").joinpath(DEFAULT).read_text(encoding="utf-8"), DEFAULT)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the matrix {path} cannot be read: {error}") from None
    return parse(text, str(path))


def parse(text: str, where: str) -> Matrix:
    """The matrix of a text. Raises: ConfigError."""
    try:
        return Matrix.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where}: no TOML: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ConfigError(f"{where}: {place + ': ' if place else ''}{first['msg']}") from None


def check_task(task: Task) -> None:
    """Refuse a run that this version cannot make: settings, names, and what does not go together.

    Raises: ConfigError.
    """
    from harness.run import plan

    plan(config_of(task))


def check(matrix: Matrix) -> None:
    """Refuse what no run could be made of. Raises: ConfigError, naming the combination."""
    for preset in matrix.canaries():
        check_task(canary_task(matrix, preset, 0))
    explicit = [
        (Combination(run.workload, run.nemesis, run.preset), run.settings) for run in matrix.runs
    ]
    for combination, more in [*((c, {}) for c in matrix.combinations()), *explicit]:
        settings = matrix.settings_for(combination.preset, more)
        try:
            check_task(Task(why="matrix", seed=0, settings=settings, **combination._asdict()))
        except ConfigError as error:
            raise ConfigError(f"the matrix, at {' x '.join(combination)}: {error}") from None
