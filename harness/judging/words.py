"""What is said over the socket of a judge: one JSON object a line.

A client sends one `Request`; the judge answers with any number of `Going`, then one `Done` or `JudgeError`.
"""

import msgspec


class JudgeRequest(msgspec.Struct, frozen=True, tag="judge"):
    """Seal a run folder, if nothing has yet, judge it, and write verdict and findings into it."""

    run: str


class Index(msgspec.Struct, frozen=True, tag="index"):
    """Make the index of a results folder, and write it there."""

    results: str


class Going(msgspec.Struct, frozen=True, tag="going"):
    """How far the work is, in words."""

    text: str


class Done(msgspec.Struct, frozen=True, tag="done"):
    """The verdict is in the folder. spark_failed: see `checkers.api.Result`."""

    spark_failed: str = ""


class JudgeError(msgspec.Struct, frozen=True, tag="refused"):
    """An error; kind: its class in `core.errors`, or another one's name. errno, file: of an OSError."""

    kind: str
    why: str
    errno: int | None = None
    file: str | None = None


Request = JudgeRequest | Index
Answer = Going | Done | JudgeError
