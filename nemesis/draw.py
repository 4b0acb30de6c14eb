"""Completing a name: kinds and targets that were left out are drawn, for each step anew.

What cannot happen to this cluster under this workload is never drawn, and refused where it was asked
for.

Not here: when steps begin and end (`schedule`, `times`), who a target is at that moment (`targets`).
"""

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.config import ConfigError, RunConfig
from nemesis.fault import Names
from nemesis.registry import NEMESES
from nemesis.targets import unnamed
from nemesis.times import Times


class Wish(NamedTuple):
    """A name as it was given; "" = to be drawn, for each step anew."""

    family: str
    kind: str = ""
    target: str = ""

    def __str__(self) -> str:
        kind = f":{self.kind}" if self.kind else ""
        return f"{self.family}{kind}{f'@{self.target}' if self.target else ''}"


@dataclass(slots=True)
class Deck:
    """Draws without putting back until all cards are out: nothing is left out for long."""

    rng: random.Random
    cards: Sequence[str]
    left: list[str]

    def draw(self, wanted: Collection[str] | None = None) -> str:
        """The next card of the wanted ones (None = all); the others keep their places."""
        wanted = self.cards if wanted is None else wanted
        if not any(card in wanted for card in self.left):
            self.left = self.rng.sample(self.cards, len(self.cards)) + self.left
        place = max(at for at, card in enumerate(self.left) if card in wanted)
        return self.left.pop(place)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What can happen at all. names: of the workload, None = not known. room: seconds for the
    first fault. alone: no other family is at work beside it."""

    config: RunConfig
    times: Times
    names: Names | None
    room: float
    alone: bool


def drawer(wish: Wish, terms: Terms, rng: random.Random) -> Callable[[], Wish]:
    """A function that completes the wish anew for each step.

    Raises: ConfigError, where nothing that fits the cluster and the workload could complete it.
    """
    nemesis = NEMESES[wish.family]
    if why := nemesis.refuses(terms.config):
        raise ConfigError(f"nemesis {wish}: {why}")
    names = [wish.kind] if wish.kind else list(nemesis.kinds)
    reasons = {name: _impossible(wish, name, terms) for name in names}
    possible = [name for name, why in reasons.items() if not why]
    kinds = possible if wish.kind else _weighed(wish, possible, terms)
    if not kinds:
        told = [why for why in reasons.values() if why] or ["none of its kinds can be drawn here"]
        raise ConfigError(f"nemesis {wish}: {told[0]}")
    ways = [way for name in kinds for way in (name, *nemesis.kinds[name].stands_for)]
    targets = {
        way: [one for one in nemesis.targets if not _unfound(wish.family, way, one, terms)]
        for way in ways
    }
    kind_deck = Deck(rng, kinds, [])
    everyone = [one for one in nemesis.targets if any(one in of for of in targets.values())]
    target_deck = Deck(rng, everyone, [])

    def draw() -> Wish:
        name = kind_deck.draw()
        kind = nemesis.kinds[name]
        if kind.stands_for:
            name = rng.choice(kind.stands_for)
        if not kind.targeted:
            return Wish(wish.family, name)
        return Wish(wish.family, name, wish.target or target_deck.draw(targets[name]))

    return draw


def _weighed(wish: Wish, possible: Sequence[str], terms: Terms) -> list[str]:
    """The possible kinds that are drawn here, each as often as it weighs."""
    kinds = NEMESES[wish.family].kinds
    return [
        name
        for name in possible
        for _ in range(kinds[name].weight)
        if terms.config.brokers >= kinds[name].drawn_from
        and (kinds[name].targeted or not wish.target)
        and (terms.alone or not kinds[name].apply_each_s)
    ]


def _impossible(wish: Wish, name: str, terms: Terms) -> str:
    """Why this kind cannot be had as it is wished; "" = it can."""
    nemesis, config = NEMESES[wish.family], terms.config
    kind = nemesis.kinds[name]
    if config.brokers < kind.brokers:
        return f"needs at least {kind.brokers} brokers, there are {config.brokers}"
    if not terms.times.fits(kind, terms.room):
        least, why = terms.times.least(kind)
        return (
            f"lasts at least {least:g} s ({why}), the phase of faults leaves "
            f"{max(0.0, terms.room):.1f} s: make it longer (duration_s {config.duration_s:g})"
        )
    if not kind.targeted:
        return ""
    targets = [wish.target] if wish.target else list(nemesis.targets)
    reasons = [_unfound(wish.family, name, target, terms) for target in targets]
    return reasons[0] if all(reasons) else ""


def _unfound(family: str, name: str, target: str, terms: Terms) -> str:
    """Why this kind can never hit the target here; "" = it can."""
    nemesis, config = NEMESES[family], terms.config
    if terms.names is not None:
        lacks = nemesis.lacks
        what = lacks(name, target, terms.names) if lacks else unnamed(target, terms.names)
        if what:
            return f"this workload has no {what}"
    if target == "controller" and config.controllers and nemesis.kinds[name].brokers_only:
        return f"clients do not talk to controllers that are no brokers ({config.controllers} here)"
    return ""
