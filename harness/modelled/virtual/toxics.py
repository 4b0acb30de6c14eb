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
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence, Set
from typing import Final

import msgspec

from core.capabilities import Toxic
from harness.modelled.virtual.network import Message
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


class _Stage(ABC):
    """One toxic on one direction of one connection, from `now` on. Messages come in the order of their times.
    closes: when the connection is closed because of it, None = it stays open as far as is known."""

    def __init__(self, given: Mapping[str, int], now: int, rng: random.Random) -> None:
        self._given = given
        self._rng = rng
        self._last = now
        self.closes: int | None = None

    @abstractmethod
    def take(self, at: int, size: int) -> int | None:
        """A message comes: when it has passed, None = never."""


class _Latency(_Stage):
    def take(self, at: int, size: int) -> int:
        delay, jitter = self._given.get("latency", 0), self._given.get("jitter", 0)
        if jitter > 0:
            delay += self._rng.randrange(2 * jitter) - jitter
        self._last = max(self._last, at + max(0, delay) * 1000)
        return self._last


class _Bandwidth(_Stage):
    def take(self, at: int, size: int) -> int:
        rate = self._given.get("rate", 0)
        self._last = max(self._last, at) + (size * 1000 // rate if rate > 0 else 0)
        return self._last


class _Slicer(_Stage):
    def take(self, at: int, size: int) -> int:
        delay = self._given.get("delay", 0)
        most = max(1, self._given.get("average_size", 0) + self._given.get("size_variation", 0))
        self._last = max(self._last, at) + _slices(size, most) * delay
        return self._last - delay


def _slices(size: int, most: int) -> int:
    """Halves of halves, as toxiproxy cuts them, but for its random shift of the middle."""
    return 1 if size <= most else _slices(size // 2, most) + _slices(size - size // 2, most)


class _Timeout(_Stage):
    def __init__(self, given: Mapping[str, int], now: int, rng: random.Random) -> None:
        super().__init__(given, now, rng)
        self.take(now, 0)

    def take(self, at: int, size: int) -> None:
        wait = self._given.get("timeout", 0)
        self.closes = at + wait * 1000 if wait > 0 else None


class _Reset(_Stage):
    def take(self, at: int, size: int) -> None:
        self.closes = at + self._given.get("timeout", 0) * 1000


class _Limit(_Stage):
    _came = 0

    def take(self, at: int, size: int) -> int | None:
        most = self._given.get("bytes", 0)
        self._came += size
        if self._came >= most:
            self.closes = at
        return at if self._came <= most else None


STAGES: Final[Mapping[str, type[_Stage]]] = {
    "latency": _Latency,
    "bandwidth": _Bandwidth,
    "slicer": _Slicer,
    "timeout": _Timeout,
    "reset_peer": _Reset,
    "limit_data": _Limit,
}
"""Types of toxics that there are."""


class Pipe:
    """One direction of one connection, through a chain of toxics. held: what is in it, oldest first."""

    def __init__(self, rng: random.Random) -> None:
        self.held: deque[Message] = deque()
        self._rng = rng
        self._stages: list[_Stage] = []
        self._ends: int | None = None
        self.last = 0
        """When the newest message has come through."""

    def add(self, toxic: Toxic, now: int) -> None:
        """Put a toxic of a known type at the end of the chain."""
        self._stages.append(STAGES[toxic.type](toxic.attributes, now, self._rng))

    def take(self, now: int, size: int) -> int | None:
        """A message comes: when it has come through, None = never."""
        if self._ends is not None:
            return None
        at: int | None = now
        for stage in self._stages:
            if at is not None:
                at = stage.take(at, size)
        if at is not None:
            self.last = at
        ends = [s.closes for s in self._stages if s.closes is not None and not isinstance(s, _Timeout)]
        if ends:
            self._ends = max(min(ends), self.last)  # what was taken before comes through first
        return at

    @property
    def closes(self) -> int | None:
        """When the connection is closed by a toxic, as far as is known; None = it stays open."""
        if self._ends is not None:
            return self._ends
        return min((s.closes for s in self._stages if s.closes is not None), default=None)

    @property
    def closes_when_cured(self) -> bool:
        """The connection does not outlive its toxics: what was said on it has a hole."""
        return self._ends is not None or any(isinstance(s, _Timeout) for s in self._stages)
