"""Planning: from the name of a nemesis to the faults of a run, before anything is executed.

    plan("partition:one-way@leader,kill", config) -> (PlannedFault(fault=0, at_s=1.4, hold_s=6.2, …), …)

Pure: every choice follows from the seed. A family never overlaps itself: several names of one family take
turns. Families of a mix run beside each other, staggered. Every fault ends before the phase of faults does.
Kinds and targets that a name leaves out are drawn again for each fault; what this cluster or this workload
cannot have is never drawn, and refused where the user asks for it.
"""

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import cycle
from typing import NamedTuple

from core.config import RunConfig
from core.errors import ConfigError
from core.generator import source
from core.known_names import unknown
from core.load_clients import Clients
from nemesis.registry import NEMESES, SCHEDULE
from nemesis.targets import unnamed
from nemesis.types import FaultKind, Hold, PlannedFault, WorkloadNames

SPREAD = (0.75, 1.25)
"""Lengths and pauses are drawn uniformly between these shares of their mean."""
FENCING_S = 1.0
"""How much longer than the session timeout a fault has to last for a fenced broker to be seen."""
BRIEF_S = (1.0, 2.0)
"""Lengths of faults after which nothing stays in force but a client that is down."""
OUTLIVE_S = 2.0
"""How much longer than the time-out that it outlives a fault is."""
GAP_S = 0.1
"""Least pause between two faults of a family: the first is healed before the next begins."""
CALM_SHARE = 0.25
"""Share of calm phases in `random`, after the first two phases."""
MISFITS = 20
"""After this number of draws that do not fit into what is left of a phase, a family has nothing that does."""
PAIR_SHARE = 0.5
"""Share of phases with two faults among the others."""


class FaultName(NamedTuple):
    """A name as it was given; "" = to be drawn, again for each step."""

    family: str
    kind: str = ""
    target: str = ""

    def __str__(self) -> str:
        kind = f":{self.kind}" if self.kind else ""
        return f"{self.family}{kind}{f'@{self.target}' if self.target else ''}"


class Draft(NamedTuple):
    """A step without its id."""

    at_s: float
    hold_s: float
    asked: FaultName
    seed: int


@dataclass(frozen=True, slots=True)
class Times:
    """What the config says about time, in seconds since the phase of faults began."""

    end: float
    fault: float
    calm: float
    session: float
    transaction: float
    verb: float
    brokers: int
    controllers: int

    @classmethod
    def of(cls, config: RunConfig) -> "Times":
        """Raises: ConfigError."""
        given = config.broker_settings.get("broker.session.timeout.ms", "3000")
        if not given.isdecimal() or int(given) == 0:
            raise ConfigError(f"broker.session.timeout.ms: a number of ms, not {given!r}")
        length = config.duration_s
        return cls(
            end=length - min(0.5, 0.05 * length),
            fault=config.fault_s,
            calm=config.calm_s,
            session=int(given) / 1000,
            transaction=config.transaction_timeout_s,
            verb=config.verb_deadline_s,
            brokers=config.brokers,
            controllers=config.controllers,
        )

    def start(self, rng: random.Random) -> float:
        """When the first fault begins: after 1 to 2 s, in very short runs earlier."""
        return rng.uniform(1, 2) * min(1.0, self.end / 20)

    def hold(self, kind: FaultKind) -> tuple[float, float]:
        """Least and greatest length of a fault of this kind, from when it is in force."""
        low, high = (share * self.fault for share in SPREAD)
        if kind.hold is Hold.SHORT:
            return (0.5 * self.session * SPREAD[0], 0.5 * self.session * SPREAD[1])
        if kind.hold is Hold.LONG:
            return (max(low, self.session + FENCING_S), max(high, self.session + FENCING_S))
        if kind.hold is Hold.BRIEF:
            return BRIEF_S
        if kind.hold is Hold.TRANSACTION:
            return (self.transaction + OUTLIVE_S,) * 2
        if kind.hold is Hold.VERB:
            return (self.verb + OUTLIVE_S,) * 2
        if kind.apply_s:  # a part of the fault: it is felt before it is in force
            return (max(BRIEF_S[0], low - kind.apply_s), max(BRIEF_S[1], high - kind.apply_s))
        return (low, high)

    def applying(self, kind: FaultKind) -> float:
        """About how long putting a fault of this kind in force takes."""
        nodes = self.brokers + (self.controllers if kind.every_node else 0)
        return kind.apply_s + nodes * kind.apply_each_s

    def in_force(self, step: PlannedFault) -> float:
        """When a fault is planned to be in force, in seconds; `hold_s` later it is to end."""
        return step.at_s + self.applying(NEMESES[step.family].kinds[step.kind])

    def least(self, kind: FaultKind) -> tuple[float, str]:
        """Least time in which a fault of this kind means what its name says, and why; 0 where it is
        cut short to fit, since one short fault is better than none."""
        applying = self.applying(kind)
        reasons = [f"{applying:g} s until it is in force"] if applying else []
        held = BRIEF_S[0] if applying else 0.0
        timeouts = {
            Hold.LONG: ("session", self.session, FENCING_S),
            Hold.TRANSACTION: ("transaction", self.transaction, OUTLIVE_S),
            Hold.VERB: ("verb", self.verb, OUTLIVE_S),
        }
        if kind.hold in timeouts:
            name, timeout, more = timeouts[kind.hold]
            reasons.append(f"a {name} timeout of {timeout:g} s and {more:g} s more")
            held = timeout + more
        return applying + held, ", ".join(reasons)

    def pause(self, rng: random.Random) -> float:
        """Time between two faults of a sequence."""
        return max(GAP_S, self.calm * rng.uniform(*SPREAD))


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
class Constraints:
    """What can happen at all. names: of the workload, capabilities: of the cluster, None = not known. room:
    seconds for the first fault. alone: no other family is at work beside it."""

    config: RunConfig
    times: Times
    names: WorkloadNames | None
    capabilities: Collection[type] | None = None
    room: float = 0.0
    alone: bool = False


def plan(
    text: str,
    config: RunConfig,
    names: WorkloadNames | None = None,
    capabilities: Collection[type] | None = None,
) -> tuple[PlannedFault, ...]:
    """The steps of a run, by start.

    names: what the workload uses, if known. Targets that it can never have are then not drawn, and
        refused where they are asked for.
    capabilities: of the cluster, if known. What needs others is not drawn where anything else can be.

    Raises: ConfigError, listing the known names.
    """
    wishes = parse(text)
    terms = Constraints(config=config, times=Times.of(config), names=names, capabilities=capabilities)
    families = {asked.family for asked in wishes}
    alone = sorted(family for family in families if NEMESES[family].effect is None)
    if len(wishes) > 1 and alone:
        raise ConfigError(f"nemesis {text!r}: {' and '.join(alone)} cannot be mixed with others")
    if families == {"none"}:
        return ()
    if SCHEDULE.name in families:
        raise ConfigError(f"nemesis {text!r}: its faults are in a file: --schedule FILE")
    if families == {"random"}:
        return numbered(_rotation(terms))
    return numbered(_mix(wishes, terms))


def parse(text: str) -> tuple[FaultName, ...]:
    """The names in `text`, checked against the registry.

    Raises: ConfigError.
    """
    return tuple(_parse(name.strip(), text) for name in text.split(","))


def _parse(name: str, text: str) -> FaultName:
    head, at, target = name.partition("@")
    family, colon, kind = head.partition(":")
    nemesis = NEMESES.get(family)
    if nemesis is None:
        wrong = unknown("unknown nemesis", family, NEMESES)
        if family and family == text:  # once is enough
            raise ConfigError(wrong)
        wrong = wrong if family else f"a name is empty; known: {', '.join(NEMESES)}"
    elif colon and kind not in nemesis.kinds:
        wrong = f"{family} has no kind {kind!r}; it has {', '.join(nemesis.kinds) or 'none'}"
    elif at and target not in nemesis.targets:
        wrong = f"{family} has no target {target!r}; it has {', '.join(nemesis.targets) or 'none'}"
    elif at and kind and not nemesis.kinds[kind].targeted:
        wrong = f"{family}:{kind} hits the whole cluster and takes no target"
    else:
        return FaultName(family, kind, target)
    raise ConfigError(f"nemesis {text!r}: {wrong}")


def _mix(wishes: Sequence[FaultName], terms: Constraints) -> Iterator[Draft]:
    """One sequence a family, beginning one after the other."""
    config, times = terms.config, terms.times
    families = list(dict.fromkeys(asked.family for asked in wishes))
    first = times.start(source(config.seed, "nemesis"))
    stagger = min(times.fault + times.calm, (times.end - first) / 2) / len(families)
    for place, family in enumerate(families):
        rng = source(config.seed, "nemesis", family)
        at = first + place * stagger
        here = replace(terms, room=times.end - at, alone=len(families) == 1)
        turns = [drawer(asked, here, rng) for asked in wishes if asked.family == family]
        yield from _sequence(turns, at, times, rng)


def _sequence(
    turns: Sequence[Callable[[], FaultName]], at: float, times: Times, rng: random.Random
) -> Iterator[Draft]:
    """Fault, pause, fault, … until no whole one fits. The first is cut short where it has to be, and so
    is the pause behind it: two short faults show more than one and a calm end."""
    first, misfits, spare = True, 0, 0.0
    over: set[int] = set()
    for number, turn in cycle(enumerate(turns)):
        asked = turn()
        kind = NEMESES[asked.family].kinds[asked.kind]
        low, high = times.hold(kind)
        room = times.end - at - times.applying(kind)
        sooner = max(0.0, low - room)
        if (sooner > spare and not first) or number in over:
            misfits += 1
            if misfits == MISFITS * len(turns):
                return
            continue  # a shorter kind may still fit
        if not first:
            at, room = at - sooner, room + sooner
        hold = min(rng.uniform(low, high), room)
        yield Draft(at, hold, asked, rng.getrandbits(32))
        pause = times.pause(rng)
        at += times.applying(kind) + hold + pause
        first, misfits, spare = False, 0, pause - GAP_S if first else 0.0
        if kind.once:
            over.add(number)


def _rotation(terms: Constraints) -> Iterator[Draft]:
    """Phases of one or two faults of different families, some calm; see `registry.RANDOM`."""
    times = terms.times
    rng = source(terms.config.seed, "nemesis", "random")
    at = times.start(rng)
    drawers = {}
    for family, nemesis in sorted(NEMESES.items()):  # a seed means the same whatever the registry's order
        if nemesis.effect and nemesis.in_random and _able(family, terms):
            with suppress(ConfigError):  # this config or workload cannot have it
                drawers[family] = drawer(FaultName(family), replace(terms, room=times.end - at), rng)
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
            asked = drawers[family]()
            kind = NEMESES[family].kinds[asked.kind]
            low, high = times.hold(kind)
            room = times.end - begin - times.applying(kind)
            if room < low and (phase or begin > at):
                continue
            hold = min(rng.uniform(low, high), room)
            yield Draft(begin, hold, asked, rng.getrandbits(32))
            over = max(over, begin + times.applying(kind) + hold)
            begin += times.applying(kind) + rng.uniform(0.1, 0.6) * hold
        if over == at:  # another family may still fit
            misfits += 1
            continue
        at = over + times.pause(rng)
        phase += 1
        misfits = 0


def numbered(drafts: Iterable[Draft]) -> tuple[PlannedFault, ...]:
    """Steps by start; times in whole ms, so that they read well."""
    return tuple(
        PlannedFault(
            fault=fault,
            name=str(draft.asked),
            family=draft.asked.family,
            kind=draft.asked.kind,
            target=draft.asked.target,
            at_s=round(draft.at_s, 3),
            hold_s=round(draft.hold_s, 3),
            seed=draft.seed,
        )
        for fault, draft in enumerate(sorted(drafts))
    )


# ---- drawing


def drawer(asked: FaultName, terms: Constraints, rng: random.Random) -> Callable[[], FaultName]:
    """A function that completes the name again for each step.

    Raises: ConfigError, where nothing that fits the cluster and the workload could complete it.
    """
    nemesis = NEMESES[asked.family]
    if why := nemesis.refuses(terms.config):
        raise ConfigError(f"nemesis {asked}: {why}")
    names = [asked.kind] if asked.kind else _able(asked.family, terms) or list(nemesis.kinds)
    reasons = {name: _impossible(asked, name, terms) for name in names}
    possible = [name for name, why in reasons.items() if not why]
    kinds = possible if asked.kind else _weighed(asked, possible, terms)
    if not kinds:
        drawn = [name for name in names if asked.kind or nemesis.kinds[name].weight]
        told = [why for name in drawn if (why := reasons[name])] or ["none of its kinds can be drawn here"]
        raise ConfigError(f"nemesis {asked}: {told[0]}")
    ways = [way for name in kinds for way in (name, *nemesis.kinds[name].stands_for)]
    targets = {
        way: [one for one in nemesis.targets if not _unfound(asked.family, way, one, terms)] for way in ways
    }
    kind_deck = Deck(rng, kinds, [])
    everyone = [one for one in nemesis.targets if any(one in of for of in targets.values())]
    target_deck = Deck(rng, everyone, [])

    def draw() -> FaultName:
        name = kind_deck.draw()
        kind = nemesis.kinds[name]
        if kind.stands_for:
            name = rng.choice(kind.stands_for)
        if not kind.targeted:
            return FaultName(asked.family, name)
        return FaultName(asked.family, name, asked.target or target_deck.draw(targets[name]))

    return draw


def _able(family: str, terms: Constraints) -> list[str]:
    """The kinds for which the cluster has what they need. (`execute.missing` refuses the others by name.)"""
    nemesis, has = NEMESES[family], terms.capabilities
    return [
        name
        for name, kind in nemesis.kinds.items()
        if has is None or {*has, Clients}.issuperset((*nemesis.needs, *kind.needs))
    ]


def _weighed(asked: FaultName, possible: Sequence[str], terms: Constraints) -> list[str]:
    """The possible kinds that are drawn here, each as often as it weighs."""
    kinds = NEMESES[asked.family].kinds
    return [
        name
        for name in possible
        for _ in range(kinds[name].weight)
        if terms.config.brokers >= kinds[name].drawn_from
        and (kinds[name].targeted or not asked.target)
        and (terms.alone or not kinds[name].apply_each_s)
    ]


def _impossible(asked: FaultName, name: str, terms: Constraints) -> str:
    """Why this kind is impossible as asked; "" = it can."""
    nemesis, config = NEMESES[asked.family], terms.config
    kind = nemesis.kinds[name]
    if config.brokers < kind.brokers:
        return f"needs at least {kind.brokers} brokers, there are {config.brokers}"
    if why := kind.refuses(config):
        return why
    least, why = terms.times.least(kind)
    if least > terms.room:
        return (
            f"lasts at least {least:g} s ({why}), the phase of faults leaves "
            f"{max(0.0, terms.room):.1f} s: make it longer (duration_s {config.duration_s:g})"
        )
    if not kind.targeted:
        return _unfound(asked.family, name, "", terms)
    targets = [asked.target] if asked.target else list(nemesis.targets)
    reasons = [_unfound(asked.family, name, target, terms) for target in targets]
    return reasons[0] if all(reasons) else ""


def _unfound(family: str, name: str, target: str, terms: Constraints) -> str:
    """Why this kind can never hit the target here ("" = it takes none); "" = it can."""
    nemesis, config = NEMESES[family], terms.config
    if terms.names is not None:
        lacks = nemesis.lacks
        what = lacks(name, target, terms.names) if lacks else unnamed(target, terms.names)
        if what:
            return f"this workload has no {what}"
    if target == "controller" and config.controllers and nemesis.kinds[name].brokers_only:
        return f"clients do not talk to isolated controllers ({config.controllers} here)"
    return ""
