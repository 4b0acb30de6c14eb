"""Files of portable histories: the cases that they hold, each whole or with the reason why it is not.

A file holds one case, an array of cases, or one case a line. A case that is not of the format is yielded
with its `error`, which names the place, and the others are read all the same.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from checkers.recordings.pairing import Pairing, PairingError
from checkers.recordings.portable import Event, PortableOp
from checkers.recordings.repeated import RepeatedKey, refuse_repeated
from core.errors import HistoryError
from history.recorded_files import regular

BAD_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What a decoder raises where bytes are not JSON, or JSON of other types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortableCase:
    """One case, its events paired to ops: completed ones in order of completion, then open ones.

    error: why it cannot be judged, "" = it can. Such a case has no ops, nor has one of the kind `unit`.
    """

    name: str
    kind: str = "history"
    ops: tuple[PortableOp, ...] = ()
    error: str = ""


class _RawCase(msgspec.Struct, frozen=True):
    """A case whose events are still text, so that an error can name the event."""

    name: str
    history: list[msgspec.Raw]
    kind: str = "history"


class _Broken(ValueError):
    """Text between two cases that is not JSON."""


def read(path: Path) -> Iterator[PortableCase]:
    """The cases of a file, in order.

    Raises: HistoryError, where the file cannot be read or holds nothing.
    """
    seen: set[str] = set()
    for number, raw in enumerate(_split(path), 1):
        case = _case(f"{path}: case {number}", f"case {number}", raw)
        if case.name in seen:
            error = f"{path}: two cases are called {case.name!r}; this is the second one"
            case = PortableCase(name=case.name, kind=case.kind, error=error)
        seen.add(case.name)
        yield case


def _case(where: str, unnamed: str, raw: msgspec.Raw | _Broken) -> PortableCase:
    if isinstance(raw, _Broken):
        return PortableCase(name=unnamed, error=f"{where}: {raw}")
    try:
        case = msgspec.json.decode(raw, type=_RawCase)
        refuse_repeated(raw, deep=False)
    except (*BAD_JSON, RepeatedKey) as error:
        return PortableCase(name=unnamed, error=f"{where}: {_reason(error)}")
    if case.kind == "unit":
        return PortableCase(name=case.name, kind=case.kind)
    try:
        return PortableCase(name=case.name, kind=case.kind, ops=_ops(case.history))
    except _Broken as error:
        message = f"{where.rpartition(': ')[0]}: case {case.name!r}: {error}"
        return PortableCase(name=case.name, kind=case.kind, error=message)


def _ops(raw: list[msgspec.Raw]) -> tuple[PortableOp, ...]:
    """Raises: _Broken, with the place of the event."""
    decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
    pairing = Pairing()
    ops: list[PortableOp] = []
    for at, one in enumerate(raw):
        try:
            event = decoder.decode(one)
            refuse_repeated(one)
            op = pairing.take(at, event)
        except (*BAD_JSON, RepeatedKey, PairingError) as error:
            raise _Broken(f"history[{at}]: {_reason(error)}") from None
        if op is not None:
            ops.append(op)
    return (*ops, *pairing.open())


def _reason(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _split(path: Path) -> Iterator[msgspec.Raw | _Broken]:
    """The undecoded cases of an array, of one object, or of one object a line."""
    try:
        data = regular(path).read_bytes().removeprefix(b"\xef\xbb\xbf")
    except OSError as error:
        raise HistoryError(f"{path}: {error.strerror}") from None
    if not data.strip():
        raise HistoryError(f"{path}: the file is empty; expected one case or an array of cases")
    lines = [line for line in data.split(b"\n") if line.strip()]
    if data.lstrip().startswith(b"{") and len(lines) > 1 and lines[0].rstrip().endswith(b"}"):
        yield from map(msgspec.Raw, lines)
        return
    try:
        if data.lstrip().startswith(b"["):
            yield from msgspec.json.decode(data, type=list[msgspec.Raw])
        else:
            yield msgspec.json.decode(data, type=msgspec.Raw)
    except BAD_JSON as error:
        if not data.lstrip().startswith(b"["):
            raise HistoryError(f"{path}: not one JSON value, nor one a line: {_reason(error)}") from None
        yield from _elements(data)


_SPACE = re.compile(r"[,\s]*")


def _elements(data: bytes) -> Iterator[msgspec.Raw | _Broken]:
    """The elements of an array that is not JSON as a whole. After damage it continues with the next line
    that begins an object."""
    text = data.decode(errors="surrogateescape")
    scanner = json.JSONDecoder()
    at = text.index("[") + 1
    while True:
        space = _SPACE.match(text, at)
        at = space.end() if space else at
        if at >= len(text) or text[at] == "]":
            return
        try:
            _, end = scanner.raw_decode(text, at)
            yield msgspec.Raw(text[at:end].encode(errors="surrogateescape"))
            at = end
        except (ValueError, RecursionError) as error:
            line = text.count("\n", 0, at) + 1
            yield _Broken(f"line {line}: not JSON: {_reason(error)}")
            following = text.find("\n{", at + 1)
            if following < 0:
                return
            at = following + 1
