"""Planning: from the name of a nemesis to the steps of a run, before anything is executed.

    plan("partition:one-way@leader,kill", config) -> (Step(fault=0, at_s=1.4, hold_s=6.2, …), …)

Pure: all that is drawn comes from the seed. A family never overlaps itself: several names of one
family take turns. Families of a mix run beside each other, staggered. Every fault ends before the
phase of faults does.

Not here: drawing kinds and targets (`draw`), lengths and pauses (`times`), finding targets
(`targets`), executing and healing (`nemesis`).
"""

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from itertools import cycle
from typing import NamedTuple

from harness.config import ConfigError, RunConfig
from harness.generator import source
from nemesis.draw import Deck, Terms, Wish, drawer
from nemesis.fault import Names, Step
from nemesis.registry import NEMESES, known
from nemesis.times import SPREAD, Times

CALM_SHARE = 0.25
"""Share of calm phases in `random`, after the first two phases."""
PAIR_SHARE = 0.5
"""Share of phases with two faults among the others."""


class Draft(NamedTuple):
    """A step without its id."""

    at_s: float
    hold_s: float
    wish: Wish
    seed: int


def plan(text: str, config: RunConfig, names: Names | None = None) -> tuple[Step, ...]:
    """The steps of a run, by start.

    names: what the workload uses, if known. Targets that it can never have are then not drawn, and
        refused where they are asked for.

    Raises: ConfigError, listing the known names.
    """
    wishes = parse(text)
    times = Times.of(config)
    families = {wish.family for wish in wishes}
    if len(wishes) > 1 and families & {"none", "random"}:
        alone = " and ".join(sorted(families & {"none", "random"}))
        raise ConfigError(f"nemesis {text!r}: {alone} cannot be mixed with others")
    if families == {"none"}:
        return ()
    if families == {"random"}:
        return _numbered(_rotation(config, times, names))
    return _numbered(_mix(wishes, config, times, names))


def parse(text: str) -> tuple[Wish, ...]:
    """The names in `text`, checked against the registry.

    Raises: ConfigError.
    """
    return tuple(_parse(name.strip(), text) for name in text.split(","))


def _parse(name: str, text: str) -> Wish:
    head, at, target = name.partition("@")
    family, colon, kind = head.partition(":")
    nemesis = NEMESES.get(family)
    if nemesis is None:
        wrong = f"unknown nemesis {family!r}" if family else "a name is empty"
    elif colon and kind not in nemesis.kinds:
        wrong = f"{family} has no kind {kind!r}"
    elif at and target not in nemesis.targets:
        wrong = f"{family} has no target {target!r}"
    elif at and kind and not nemesis.kinds[kind].targeted:
        wrong = f"{family}:{kind} hits the whole cluster and takes no target"
    else:
        return Wish(family, kind, target)
    raise ConfigError(f"nemesis {text!r}: {wrong}\n{known()}")


def _mix(
    wishes: Sequence[Wish], config: RunConfig, times: Times, names: Names | None
) -> Iterator[Draft]:
    """One sequence a family, beginning one after the other."""
    families = list(dict.fromkeys(wish.family for wish in wishes))
    first = times.start(source(config.seed, "nemesis"))
    stagger = min(times.fault + times.calm, (times.end - first) / 2) / len(families)
    for place, family in enumerate(families):
        rng = source(config.seed, "nemesis", family)
        at = first + place * stagger
        terms = Terms(
            config=config, times=times, names=names, room=times.end - at, alone=len(families) == 1
        )
        turns = [drawer(wish, terms, rng) for wish in wishes if wish.family == family]
        yield from _sequence(turns, at, times, rng)


def _sequence(
    turns: Sequence[Callable[[], Wish]], at: float, times: Times, rng: random.Random
) -> Iterator[Draft]:
    """Fault, pause, fault, … until no whole one fits; the first is cut short where it has to be."""
    first = True
    for turn in cycle(turns):
        wish = turn()
        kind = NEMESES[wish.family].kinds[wish.kind]
        low, high = times.hold(kind)
        room = times.end - at - times.applying(kind)
        if room < low and not first:
            return
        hold = min(rng.uniform(low, high), room)
        yield Draft(at, hold, wish, rng.getrandbits(32))
        at += times.applying(kind) + hold + times.pause(rng)
        first = False


def _rotation(config: RunConfig, times: Times, names: Names | None) -> Iterator[Draft]:
    """Phases of one or two faults of different families, some calm; see `registry.RANDOM`."""
    rng = source(config.seed, "nemesis", "random")
    at = times.start(rng)
    terms = Terms(config=config, times=times, names=names, room=times.end - at, alone=False)
    drawers = dict(_drawers(terms, rng))
    deck = Deck(rng, list(drawers), [])
    phase = misfits = 0
    while misfits < len(drawers):
        if phase >= 2 and not misfits and rng.random() < CALM_SHARE:
            at += times.fault * rng.uniform(*SPREAD) + times.pause(rng)
        chosen = [deck.draw()]
        if rng.random() < PAIR_SHARE:
            chosen += [family for family in [deck.draw()] if family not in chosen]
        over, begin = at, at
        for family in chosen:
            wish = drawers[family]()
            kind = NEMESES[family].kinds[wish.kind]
            low, high = times.hold(kind)
            room = times.end - begin - times.applying(kind)
            if room < low and (phase or begin > at):
                continue
            hold = min(rng.uniform(low, high), room)
            yield Draft(begin, hold, wish, rng.getrandbits(32))
            over = max(over, begin + times.applying(kind) + hold)
            begin += times.applying(kind) + rng.uniform(0.1, 0.6) * hold
        if over == at:  # another family may still fit
            misfits += 1
            continue
        at = over + times.pause(rng)
        phase += 1
        misfits = 0


def _drawers(terms: Terms, rng: random.Random) -> Iterator[tuple[str, Callable[[], Wish]]]:
    """The families of `random` that this config and workload can have."""
    for family, nemesis in NEMESES.items():
        if nemesis.effect and nemesis.in_random:
            with suppress(ConfigError):
                yield family, drawer(Wish(family), terms, rng)


def _numbered(drafts: Collection[Draft] | Iterator[Draft]) -> tuple[Step, ...]:
    """Steps by start; times in whole ms, so that they read well."""
    return tuple(
        Step(
            fault=fault,
            name=str(draft.wish),
            family=draft.wish.family,
            kind=draft.wish.kind,
            target=draft.wish.target,
            at_s=round(draft.at_s, 3),
            hold_s=round(draft.hold_s, 3),
            seed=draft.seed,
        )
        for fault, draft in enumerate(sorted(drafts))
    )
