"""Toxiproxy's toxics at the level of messages: when one comes through, and when the connection is closed.

    pipe = Pipe(rng)                  # one direction of one connection
    pipe.add(toxic, now)              # to the end of the chain, as toxiproxy does
    pipe.take(now, size)              # when it has come through, None = never

Times are microseconds of the virtual clock, sizes bytes on the wire (`size_of`). As toxiproxy 2.12 has it:

- latency: every message comes `latency` ± `jitter` ms later, none before an earlier one.
- bandwidth: `rate` bytes pass in a millisecond; a message waits until the one before has passed.
- slicer: a message comes in slices, `delay` µs apart, and is there with its last one.
- timeout: what comes is dropped, and the connection closed once nothing came for `timeout` ms; with 0, and
  in any case, it is closed when the toxic is taken away, since part of its data is missing.
- reset_peer: the first message is dropped and the connection reset `timeout` ms after it.
- limit_data: the connection is closed when `bytes` have passed; a message that was cut off never comes.

A toxic does not affect messages that are already under way. Not modelled: buffers that fill up,
toxicity (a toxic hits every connection), a message cut in two by `cure`.
"""

import random
from collections.abc import Mapping, Sequence, Set
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from core.cluster import Toxic
from core.errors import ClusterError
from model.log.unified_log import RecordBatch

HEADER: Final = 40
"""Length, API key, version, correlation id and client id of a request; about as much of an answer."""
BATCH: Final = 61
RECORD: Final = 10
"""What a batch and a record need beside keys and values (KIP-98)."""
NUMBER: Final = 4
"""A number, an error code, a flag or the length of a sequence."""


def size_of(message: object) -> int:
    """Estimate of a message's bytes on the wire, from its fields: HEADER, the payloads of its records with
    BATCH and RECORD around them, texts as they are, NUMBER for anything else. The same message always has
    the same size."""
    return HEADER + _size(message)


def _size(value: object) -> int:
    if isinstance(value, RecordBatch):
        return BATCH + sum(RECORD + _size(record) for record in value.records)
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, msgspec.Struct):
        return _size(msgspec.structs.astuple(value))
    if isinstance(value, Mapping):
        return NUMBER + sum(_size(key) + _size(item) for key, item in value.items())
    if isinstance(value, Sequence | Set):
        return NUMBER + sum(map(_size, value))
    return NUMBER


class Passage(NamedTuple):
    """The fate of a message: when it has passed, None = never; when the connection is closed because of
    it, None = it is not."""

    passes: int | None
    closes: int | None = None


class Stage(Protocol):
    """One toxic on one direction of one connection. Messages come in the order of their times."""

    def take(self, at: int, size: int) -> Passage:
        """A message comes."""


class _Latency:
    def __init__(self, attributes: Mapping[str, int], rng: random.Random) -> None:
        self._latency = attributes.get("latency", 0)
        self._jitter = attributes.get("jitter", 0)
        self._rng = rng
        self._last = 0

    def take(self, at: int, size: int) -> Passage:
        delay = self._latency
        if self._jitter > 0:
            delay += self._rng.randrange(2 * self._jitter) - self._jitter
        self._last = max(self._last, at + max(0, delay) * 1000)
        return Passage(self._last)


class _Bandwidth:
    def __init__(self, attributes: Mapping[str, int], rng: random.Random) -> None:
        self._rate = attributes.get("rate", 0)
        self._free = 0

    def take(self, at: int, size: int) -> Passage:
        takes = size * 1000 // self._rate if self._rate > 0 else 0
        self._free = max(self._free, at) + takes
        return Passage(self._free)


class _Slicer:
    def __init__(self, attributes: Mapping[str, int], rng: random.Random) -> None:
        self._average = attributes.get("average_size", 0)
        self._most = max(1, self._average + attributes.get("size_variation", 0))
        self._delay = attributes.get("delay", 0)
        self._free = 0

    def take(self, at: int, size: int) -> Passage:
        begins = max(self._free, at)
        self._free = begins + self._slices(size) * self._delay
        return Passage(self._free - self._delay)

    def _slices(self, size: int) -> int:
        """Halves of halves, as toxiproxy cuts them, but for its random shift of the middle."""
        if size <= self._most:
            return 1
        return self._slices(size // 2) + self._slices(size - size // 2)


class _Timeout:
    def __init__(self, attributes: Mapping[str, int], rng: random.Random) -> None:
        self._wait = attributes.get("timeout", 0) * 1000
        self._since = 0

    def begin(self, now: int) -> None:
        """It is in force from now on."""
        self._since = now

    @property
    def closes(self) -> int | None:
        """When the connection is closed if nothing comes until then."""
        return self._since + self._wait if self._wait > 0 else None

    def take(self, at: int, size: int) -> Passage:
        self._since = at
        return Passage(None)


class _Reset:
    def __init__(self, attributes: Mapping[str, int], rng: random.Random) -> None:
        self._wait = attributes.get("timeout", 0) * 1000

    def take(self, at: int, size: int) -> Passage:
        return Passage(None, at + self._wait)


class _Limit:
    def __init__(self, attributes: Mapping[str, int], rng: random.Random) -> None:
        self._left = attributes.get("bytes", 0)

    def take(self, at: int, size: int) -> Passage:
        whole = size <= self._left
        self._left -= size
        return Passage(at if whole else None, at if self._left <= 0 else None)


STAGES: Final[Mapping[str, Any]] = {
    "latency": _Latency,
    "bandwidth": _Bandwidth,
    "slicer": _Slicer,
    "timeout": _Timeout,
    "reset_peer": _Reset,
    "limit_data": _Limit,
}
"""Types of toxics that there are."""


class Pipe:
    """One direction of one connection, through a chain of toxics."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._stages: list[Stage] = []
        self._ends: int | None = None
        self.last = 0
        """When the newest message has come through."""

    def add(self, toxic: Toxic, now: int) -> None:
        """Put a toxic at the end of the chain. Raises: ClusterError, where there is none of its type."""
        if toxic.type not in STAGES:
            raise ClusterError(f"no toxic is called {toxic.type}")
        stage = STAGES[toxic.type](toxic.attributes, self._rng)
        if isinstance(stage, _Timeout):
            stage.begin(now)
        self._stages.append(stage)

    def take(self, now: int, size: int) -> int | None:
        """A message comes: when it has come through, None = never."""
        if self._ends is not None:
            return None
        at: int | None = now
        for stage in self._stages:
            assert at is not None
            at, closes = stage.take(at, size)
            if closes is not None:
                self._ends = closes if self._ends is None else min(self._ends, closes)
            if at is None:
                break
        if at is not None:
            self.last = at
        if self._ends is not None:
            self._ends = max(self._ends, self.last)  # what was taken before comes through first
        return at

    @property
    def closes(self) -> int | None:
        """When the connection is closed by a toxic, as far as is known; None = it stays open."""
        if self._ends is not None:
            return self._ends
        times = [s.closes for s in self._stages if isinstance(s, _Timeout) and s.closes is not None]
        return min(times, default=None)

    @property
    def closes_when_cured(self) -> bool:
        """The connection does not outlive its toxics: what was said on it has a hole."""
        return self._ends is not None or any(isinstance(s, _Timeout) for s in self._stages)
