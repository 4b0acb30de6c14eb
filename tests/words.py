"""Plain words: finds the forms of `words.toml` in everything that people read (`python -m tests.words`).

It reads comments, docstrings and sentences in the strings of product code, templates, docs and the README.
The generated pages of docs/ come from that code. A form in backticks is a name, and passes.
"""

import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
ROOMS = ("core", "history", "model", "scenarios", "workloads", "nemesis", "checkers", "harness", "benchmarks")
GENERATED = ("catalogue.md", "known-bugs.md", "mechanisms.md")
TEXTS = ("html", "j2", "js", "toml")
FORMS = [
    (re.compile(rf"\b(?:{form})(?!\w)".replace(" ", r"\s+"), re.IGNORECASE), instead)
    for form, instead in tomllib.loads(Path(__file__).with_suffix(".toml").read_text())["forms"].items()
]
CODE = re.compile(r"\{[^{}\n]*\}|<[^<>\n]*>|`[^`\n]*`")
"""Expressions in f-strings and templates, markup, names in docstrings and pages."""
QUOTES = re.compile(r"^(?:[a-zA-Z]*(?:\"{3}|'{3}|[\"'])|#)|(?:\"{3}|'{3}|[\"'])$")
STRINGS, COMMENTS, BETWEEN = (
    {getattr(tokenize, name) for name in names if hasattr(tokenize, name)}
    for names in (
        ("STRING", "FSTRING_MIDDLE"),  # f-strings are tokens of their own from Python 3.12 on
        ("COMMENT",),
        ("NL", "INDENT", "DEDENT", "FSTRING_START", "FSTRING_END"),
    )
)


class Passage(NamedTuple):
    """A run of text that may wrap over lines, and the line where it begins."""

    line: int
    text: str


def passages(source: str) -> Iterator[Passage]:
    """The texts of a module. Neighbouring comments are one passage, and so are neighbouring strings."""
    kind, start, text = "", 1, ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in BETWEEN:
            continue
        found = "str" if token.type in STRINGS else "#" if token.type in COMMENTS else ""
        if found != kind:
            if " " in text.strip():
                yield Passage(start, text)
            kind, start, text = found, token.start[0], ""
        if found:
            text += "\n" * (token.start[0] - start - text.count("\n"))
            text += QUOTES.sub("", token.string)


def finds(passage: Passage) -> Iterator[tuple[int, str, str]]:
    """Line, words and advice of each form in a passage."""
    text = CODE.sub("·", passage.text)
    for form, instead in FORMS:
        for match in form.finditer(text):
            line = passage.line + text.count("\n", 0, match.start())
            yield line, " ".join(match.group().split()), instead


def texts() -> Iterator[tuple[Path, Iterator[Passage]]]:
    """Each file that people read, with its passages."""
    for path in chain.from_iterable((ROOT / room).rglob("*.py") for room in ROOMS):
        yield path, passages(path.read_text())
    pages = [path for path in (ROOT / "docs").glob("*.md") if path.name not in GENERATED]
    others = chain.from_iterable((ROOT / room).rglob(f"*.{end}") for room in ROOMS for end in TEXTS)
    flows = (ROOT / ".github" / "workflows").glob("*.yml")
    for path in (*pages, *others, *flows, ROOT / "README.md", ROOT / "Makefile"):
        yield path, iter([Passage(1, path.read_text())])


def main() -> int:
    """Print each find; 1 if there is one."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: “{words}”: {instead}"
        for path, parts in texts()
        for line, words, instead in chain.from_iterable(map(finds, parts))
    ]
    print("\n".join(sorted(found)) or "plain words")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
