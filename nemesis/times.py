"""Times of a schedule: when the first fault begins, how long each lasts, how long the pauses are.

Everything is in seconds since the phase of faults began, and derived from the config.

Not here: which faults (`schedule`).
"""

import random
from dataclasses import dataclass

from harness.config import ConfigError, RunConfig
from nemesis.fault import Hold, Kind

SPREAD = (0.75, 1.25)
"""Lengths and pauses are drawn uniformly between these shares of their mean."""
FENCING_S = 1.0
"""How much longer than the session timeout a fault has to last for a fenced broker to be seen."""
BRIEF_S = (1.0, 2.0)
"""Lengths of faults after which nothing stays in force but a client that is down."""
OUTLIVE_S = 2.0
"""How much longer than the timeout of transactions a client stands still."""
GAP_S = 0.1
"""Least pause between two faults of a family: the first is healed before the next begins."""


@dataclass(frozen=True, slots=True)
class Times:
    """What the config says about time, in seconds since the phase of faults began."""

    end: float
    fault: float
    calm: float
    session: float
    transaction: float
    brokers: int

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
            brokers=config.brokers,
        )

    @property
    def fencing(self) -> float:
        """Least length of a fault for which a broker is fenced."""
        return self.session + FENCING_S

    def start(self, rng: random.Random) -> float:
        """When the first fault begins: after 1 to 2 s, in very short runs earlier."""
        return rng.uniform(1, 2) * min(1.0, self.end / 20)

    def hold(self, kind: Kind) -> tuple[float, float]:
        """Least and greatest length of a fault of this kind, from when it is in force."""
        low, high = (share * self.fault for share in SPREAD)
        if kind.hold is Hold.SHORT:
            return (0.5 * self.session * SPREAD[0], 0.5 * self.session * SPREAD[1])
        if kind.hold is Hold.LONG:
            return (max(low, self.fencing), max(high, self.fencing))
        if kind.hold is Hold.BRIEF:
            return BRIEF_S
        if kind.hold is Hold.TRANSACTION:
            return (self.transaction + OUTLIVE_S,) * 2
        if kind.apply_s:  # a part of the fault: it is felt before it is in force
            return (max(BRIEF_S[0], low - kind.apply_s), max(BRIEF_S[1], high - kind.apply_s))
        return (low, high)

    def applying(self, kind: Kind) -> float:
        """About how long putting a fault of this kind in force takes."""
        return kind.apply_s + self.brokers * kind.apply_each_s

    def least(self, kind: Kind) -> tuple[float, str]:
        """Least time in which a fault of this kind means what its name says, and why; 0 where it is
        cut short to fit, since one short fault is better than none."""
        applying = self.applying(kind)
        made = f"{applying:g} s until it is in force" if applying else ""
        why, held = {
            Hold.LONG: (
                f"a session timeout of {self.session:g} s and {FENCING_S:g} s more",
                self.fencing,
            ),
            Hold.TRANSACTION: (
                f"a transaction timeout of {self.transaction:g} s and {OUTLIVE_S:g} s more",
                self.transaction + OUTLIVE_S,
            ),
        }.get(kind.hold, ("", BRIEF_S[0] if applying else 0.0))
        return applying + held, ", ".join(filter(None, (made, why)))

    def fits(self, kind: Kind, room: float) -> bool:
        """Whether a first fault of this kind means what its name says in that much time."""
        return self.least(kind)[0] <= room

    def pause(self, rng: random.Random) -> float:
        """Time between two faults of a sequence."""
        return max(GAP_S, self.calm * rng.uniform(*SPREAD))
