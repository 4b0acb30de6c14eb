"""Clojure's EDN, read form by form: as much of it as recorded histories hold, in memory for one form.

    for form in forms(file):       # Form(line, value) or Form(line, error=…)

Maps become dicts, vectors, lists and sets become lists, keywords, symbols and characters become text
without their mark, `nil` becomes None, integers of any size int, other numbers float. A tagged value
(`#inst "…"`, `#jepsen.history.Op{…}`) becomes the value. Comments, `#_` and metadata (`^`) are left out. A
file that is one vector or list of forms yields those. Damage in a form is an error with the line where the
form begins; reading continues with the next line that begins a map.

A small reader because no EDN library for Python reads a stream. Not here: what the forms mean.
"""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final, NoReturn

PIECE: Final = 1 << 16
"""Bytes that are read at once of a line."""
FORM_MOST: Final = 1 << 22
"""Characters of one form; a longer one is damage (a quote that was never closed, for example)."""
DEPTH_MOST: Final = 100
TRIED_LINE_BY_LINE: Final = 1 << 12
"""Characters up to which a form is tried with each line that may end it; a longer one as it grows by a
half, so that the time for a form grows with its length."""

_DELIMITED = r"(?=[\s,()\[\]{}\";])"
_NAME = r"[^\s,()\[\]{}\"';`@^\\]"
_TOKEN = re.compile(
    rf"""[\s,]*(?:
        :(?P<keyword>{_NAME}+)
      | (?P<int>[-+]?[0-9]+)N?{_DELIMITED}
      | (?P<open>[\[({{]|\#\{{)
      | (?P<close>[\])}}])
      | "(?P<text>[^"\\]*)"
      | "(?P<escaped>[^"\\]*+(?:\\.[^"\\]*+)*+)"
      | ;(?P<comment>[^\n]*)\n
      | \#(?P<discard>_)
      | (?P<meta>\^)
      | \#\#(?P<symbolic>-?Inf|NaN)
      | \#(?P<tag>:?[A-Za-z]{_NAME}*)
      | \\(?P<character>[A-Za-z]\w*|\S)
      | (?P<atom>(?!["\#:]){_NAME}+){_DELIMITED}
    )""",
    re.VERBOSE | re.DOTALL,
)
_SPACE = re.compile(r"(?:[\s,]+|;[^\n]*(?:\n|\Z))*")
_BEGINS_MAP = re.compile(r"\{|#[A-Za-z]")
_BEGINS_ELEMENT = re.compile(r",? ?(?:\{|#[A-Za-z])")
_LONGEST_ATOM: Final = 256
_CLOSING: Final = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_WORDS: Final[dict[str, object]] = {"nil": None, "true": True, "false": False}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\"}
_DROP_NEXT: Final = object()
"""Stands in a list for `#_` or `^`: the next value is left out. `parse` returns it for such a form."""


@dataclass(frozen=True, slots=True)
class Form:
    """One form and the line where it begins; error: why it could not be read, "" = it could."""

    line: int
    value: object = None
    error: str = ""


class EdnError(ValueError):
    """The text is not EDN; the message says why."""


class _Cut(EdnError):
    """The text ends inside a form."""


def forms(file: BinaryIO) -> Iterator[Form]:
    """All forms of a file in order. Raises what reading the file raises."""
    reader = _Reader()
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    whole_line = True
    while piece := file.readline(PIECE):
        text = decoder.decode(piece)
        yield from reader.take(text, begins_line=whole_line)
        whole_line = piece.endswith(b"\n")
    yield from reader.end()


class _Reader:
    """Text that was read and does not make a whole form yet. line: of its first character."""

    def __init__(self) -> None:
        self._text = ""
        self._pieces: list[str] = []  # after `_text`: joined when they are looked at
        self._size = 0
        self._line = 1
        self._tried = 0
        self._begun = False
        self._vector = False
        self._lost = False  # in damage: no form begins before the next line that begins a map

    def take(self, text: str, *, begins_line: bool) -> Iterator[Form]:
        """The forms that this piece of text completes."""
        if not self._begun and not self._size:
            text = text.removeprefix("\ufeff")
        begins = _BEGINS_ELEMENT if self._vector else _BEGINS_MAP
        if begins_line and begins.match(text):
            if not self._lost:
                yield from self._parse()
            yield from self._drop("the form does not end before the next one begins")
            self._lost = False
        if self._lost:
            self._line += text.count("\n")
            return
        self._pieces.append(text)
        self._size += len(text)
        if self._size > FORM_MOST:
            yield from self._drop(f"a form of more than {FORM_MOST} characters")
            self._lost = True
        elif self._size >= 2 * self._tried or (
            text.rstrip()[-1:] in "}])"
            and (self._size < TRIED_LINE_BY_LINE or self._size >= 1.5 * self._tried)
        ):
            yield from self._parse()

    def end(self) -> Iterator[Form]:
        """The forms that end with the file."""
        self._pieces.append("\n")
        if not self._lost:
            yield from self._parse()
            yield from self._drop("the file ends inside this form")
        if self._vector:
            yield Form(self._line, error="the file ends inside its vector")

    def _join(self) -> None:
        self._text += "".join(self._pieces)
        self._pieces.clear()

    def _parse(self) -> Iterator[Form]:
        self._join()
        at = 0
        while True:
            space = _SPACE.match(self._text, at)
            at = space.end() if space else at
            if at >= len(self._text):
                break
            first = self._text[at]
            if not self._begun and first in "[(":
                self._begun = self._vector = True
                at += 1
                continue
            self._begun = True
            if self._vector and first in "])":
                self._vector = False
                at += 1
                continue
            try:
                value, end = parse(self._text, at)
            except _Cut:
                break
            except EdnError as error:
                self._forget(at)
                yield Form(self._line, error=str(error))
                at = self._text.find("\n") + 1
                self._lost = at == 0 or not self._element(at)
                if self._lost:
                    at = len(self._text)
                    break
                continue
            if value is not _DROP_NEXT:
                yield Form(self._line + self._text.count("\n", 0, at), value)
            at = end
        self._forget(at)
        self._tried = max(len(self._text), TRIED_LINE_BY_LINE)

    def _element(self, at: int) -> bool:
        return (_BEGINS_ELEMENT if self._vector else _BEGINS_MAP).match(self._text, at) is not None

    def _forget(self, end: int) -> None:
        """Drop the text up to there."""
        self._line += self._text.count("\n", 0, end)
        self._text = self._text[end:]
        self._size = len(self._text)

    def _drop(self, why: str) -> Iterator[Form]:
        """What is left is damage, unless it is empty."""
        self._join()
        space = _SPACE.match(self._text)
        self._forget(space.end() if space else 0)
        if self._text:
            yield Form(self._line, error=why)
        self._forget(len(self._text))


def parse(text: str, at: int = 0) -> tuple[object, int]:
    """One form and where it ends. Raises: EdnError."""
    stack: list[tuple[str, list[object]]] = []
    items: list[object] = []
    opened = ""
    match = _TOKEN.match
    while True:
        token = match(text, at)
        if token is None:
            _no_token(text, at)
        at = token.end()
        kind = token.lastgroup
        if kind == "keyword":
            value: object = token["keyword"]
        elif kind == "int":
            value = _integer(token["int"])
        elif kind == "open":
            if len(stack) >= DEPTH_MOST:
                raise EdnError(f"nested more than {DEPTH_MOST} deep")
            stack.append((opened, items))
            opened, items = token["open"], []
            continue
        elif kind == "close":
            if not opened or _CLOSING[opened] != token["close"]:
                raise EdnError(f"{token['close']!r} closes nothing that is open")
            value = _collection(opened, items)
            opened, items = stack.pop()
        elif kind in ("discard", "meta"):
            items.append(_DROP_NEXT)
            continue
        elif kind in ("tag", "comment"):
            continue
        else:
            value = _scalar(kind, token)
        if items and items[-1] is _DROP_NEXT:
            items.pop()
            if not stack and not items:
                return _DROP_NEXT, at
        elif stack:
            items.append(value)
        else:
            return value, at


def _no_token(text: str, at: int) -> NoReturn:
    rest = text[at : at + _LONGEST_ATOM].lstrip(" \t\r\n,")
    if not rest or rest[0] == '"' or (len(text) - at < _LONGEST_ATOM and "\n" not in rest):
        raise _Cut("the text ends inside a form")
    raise EdnError(f"this is not EDN: {rest[:20]!r}")


def _integer(text: str) -> int:
    if len(text) > 40:
        raise EdnError(f"an integer of {len(text)} digits")
    return int(text)


def _collection(opened: str, items: list[object]) -> object:
    if items and items[-1] is _DROP_NEXT:
        raise EdnError("#_ or ^ without a form after it")
    if opened != "{":
        return items
    if len(items) % 2:
        raise EdnError("a map with a key that has no value")
    try:
        made = dict(zip(items[::2], items[1::2], strict=True))
    except TypeError:
        raise EdnError("a map with a key that is a collection") from None
    if 2 * len(made) < len(items):
        raise EdnError("a map with the same key twice")
    return made


def _scalar(kind: str | None, token: re.Match[str]) -> object:
    if kind == "escaped":
        return _paired(_ESCAPE.sub(_unescaped, token["escaped"]))
    if kind == "symbolic":
        return float(token["symbolic"].replace("Inf", "inf"))
    if kind != "atom":
        return token[kind or 0]
    atom = token["atom"]
    if atom in _WORDS:
        return _WORDS[atom]
    if atom[0].isdigit() or (atom[0] in "+-." and len(atom) > 1):
        try:
            return float(atom.removesuffix("M"))
        except ValueError:
            pass
    return atom


def _paired(text: str) -> str:
    """The text with one character for each pair of escapes that stands for one. Raises: EdnError."""
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise EdnError("text with half of a surrogate pair") from None


def _unescaped(found: re.Match[str]) -> str:
    if found[1]:
        return chr(int(found[1], 16))
    return _ESCAPES.get(found[2], found[2])
