"""All cases, one after the other, each with its result."""

import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from core.client_settings import SessionSpec, effective
from core.errors import ConfigError, UsageError
from core.known_names import unknown
from core.session import Definite, Indefinite
from harness.clients.command.protocol import Answer, Close
from harness.clients.command.settings import COMMAND
from harness.clients.command.speaker import BOOTSTRAP, ClientLost, Speaker
from harness.clients.command.trial import NOWHERE
from harness.conformance.cases import CASES
from harness.conformance.stage import DEADLINE_S, CaseUnmet, ConformanceStage, Lacking, brokers


class CaseResult(NamedTuple):
    """One case. why: "" = the client does it. lacks: what the client says that it cannot do."""

    name: str
    doc: str
    seconds: float
    why: str = ""
    lacks: str = ""

    @property
    def text(self) -> str:
        """One line."""
        if self.lacks:
            return f"not tried  {self.name:20} it lacks {self.lacks}"
        if self.why:
            return f"FAILED     {self.name:20} {self.doc}\n{'':32}but: {self.why[:WHY_MOST]}"
        return f"ok         {self.name:20} {self.seconds:4.1f} s  {self.doc}"


WHY_MOST: Final = 300
"""Characters of a reason."""
OPEN: Final = "The settings are noted, and nothing is asked of a cluster that is not there."


def perform(words: Sequence[str], say: Callable[[str], None], only: Collection[str] = ()) -> list[CaseResult]:
    """Try a client's program. words: its command. only: names of cases; none = all.

    Raises: UsageError, where a case is unknown; ConfigError, where the program cannot be started;
    ClusterError, where the brokers do not start.
    """
    if strange := sorted(set(only) - CASES.keys()):
        raise UsageError(f"{unknown('no case', strange[0], CASES)}; open is tried always, first")
    results: list[CaseResult] = []
    with tempfile.TemporaryDirectory(prefix="inquest-client-") as folder:
        log = Path(folder) / "log"
        opened, answer = _open(words, log)
        results.append(opened)
        say(opened.text)
        if answer is None:
            return results
        with brokers(Path(folder) / "run") as cluster:
            stage = ConformanceStage(cluster, words, log, frozenset(answer.lacks))
            try:
                for name in only or CASES:
                    results.append(_tried(name, stage))
                    say(results[-1].text)
            finally:
                stage.end()
    return results


def summary(results: Sequence[CaseResult]) -> str:
    """All cases in one line: a client keeps the protocol as far as it was tried."""
    failed = [one.name for one in results if one.why]
    lacks = sorted({word for one in results for word in one.lacks.split(", ") if word})
    untried = sum(bool(one.lacks) for one in results)
    kept = "the client keeps the protocol" + (" in the others" if untried else "")
    left = f"{untried} not tried (it lacks {', '.join(lacks)}); " if untried else ""
    end = f"failed: {', '.join(failed)}" if failed else kept
    return f"{len(results)} case{'s' * (len(results) != 1)}: {left}{end}"


def _open(words: Sequence[str], log: Path) -> tuple[CaseResult, Answer | None]:
    """The answer to `open`, None where there is no use in more cases. Raises: ConfigError."""
    spec = SessionSpec(slot=0, process=0, acks=-1, deadline_s=DEADLINE_S)
    begun, why, answer = time.monotonic(), "", None
    try:
        speaker = Speaker(words, log)
    except OSError as error:
        raise ConfigError(f"--client {words[0]}: {error.strerror}") from None
    try:
        found = speaker.open({BOOTSTRAP: NOWHERE}, spec, effective(spec, COMMAND))
        if found.outcome == "ok":
            answer = found
            speaker.call(Close, DEADLINE_S)
        else:
            why = f"the answer is {found.outcome}: {found.code} {found.message}"
    except ClientLost as error:
        why, answer = str(error), None
    finally:
        speaker.end()
    doc = f"{OPEN} It is {answer.name or 'without a name'}." if answer else OPEN
    return CaseResult("open", doc, time.monotonic() - begun, why), answer


def _tried(name: str, stage: ConformanceStage) -> CaseResult:
    case = CASES[name]
    begun, why, lacks = time.monotonic(), "", ""
    try:
        case(stage)
    except Lacking as error:
        lacks = str(error)
    except (CaseUnmet, ClientLost) as error:
        why = str(error)
    except Definite as error:
        why = f"a command is `failed`, though nothing is broken: {error}"
    except Indefinite as error:
        why = f"a command is `unknown`, though nothing is broken: {error}"
    try:
        stage.close()
    except ClientLost as error:
        why = why or f"at the end: {error}"
    doc = (case.__doc__ or "").strip()
    return CaseResult(name, doc, time.monotonic() - begun, why, lacks)
