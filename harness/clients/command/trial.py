"""The trial before a run: the user's program is started, learns its settings, and says what it cannot do."""

import tempfile
from pathlib import Path
from typing import Final

from core.client_settings import ClientSettings, SessionSpec
from core.errors import ConfigError
from harness.clients.command import named
from harness.clients.command import protocol as p
from harness.clients.command.speaker import BOOTSTRAP, Speaker

NOWHERE: Final = "127.0.0.1:1"
"""No cluster is there: `open` asks nothing of one."""

_seen: dict[str, p.Answer] = {}
"""The answers to `open`, by command and settings."""


def tried(spec: SessionSpec, client: ClientSettings) -> None:
    """Try a session once for each command and each kind of settings.

    Raises: ConfigError, where no program is named, or it refuses the settings, or lacks what they need;
    ClientLost.
    """
    words = named.PROGRAM.words()
    key = repr((words, spec))
    if key not in _seen:
        _seen[key] = _opened(words, spec, client)
    answer = _seen[key]
    it = answer.name or words[0]
    if answer.outcome is not p.CommandOutcome.OK:
        refused = answer.outcome is p.CommandOutcome.FAILED
        does = "refuses its settings" if refused else "could not open a client"
        raise ConfigError(f"{it} {does}: {answer.code} {answer.message}".rstrip())
    if lacking := [need.value for need in named.needs(spec) if need in answer.lacks]:
        raise ConfigError(f"{it} lacks what this run needs: {', '.join(lacking)}")


def library() -> str:
    """What the named program says that it is; "" = it was not tried, or does not say."""
    return next((answer.name for answer in _seen.values() if answer.name), "")


def _opened(words: list[str], spec: SessionSpec, client: ClientSettings) -> p.Answer:
    """The answer of the program, which is ended. Raises: ConfigError, ClientLost."""
    with tempfile.TemporaryDirectory(prefix="inquest-client-") as folder:
        try:
            speaker = Speaker(words, Path(folder) / "log")
        except OSError as error:
            raise ConfigError(f"--client {words[0]}: {error.strerror}") from None
        try:
            answer = speaker.open({BOOTSTRAP: NOWHERE}, spec, client)
            if answer.outcome is p.CommandOutcome.OK:
                speaker.call(p.Close, spec.deadline_s)
            return answer
        finally:
            speaker.end()
