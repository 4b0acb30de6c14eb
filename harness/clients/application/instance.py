"""One running instance of an application: its program, and whether its group gets on."""

import json
import os
import signal
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Final

from core.client_settings import SessionSpec
from core.config import Application, RunConfig
from core.errors import ConfigError
from core.op import TopicPartition
from core.secrets import secrets_of, without
from harness.clients.application import named
from harness.clients.application.position import GroupPosition
from harness.clients.command.speaker import ClientLost
from harness.clients.librdkafka.settings import of_librdkafka
from harness.processes import guard
from harness.processes.child import start, tail
from harness.processes.user_program import environment

QUIET_S: Final = 45.0
"""After so long without a commit an application that is not fed any more does nothing more. Transactions and
sessions of members that died have expired by then, and calls of clients that hang have mostly timed out."""
REST_S: Final = 1.0
"""An application that commits all the time is not asked whether it has come to the end."""
DRAIN_S: Final = 120.0
"""How long an application may take to come to the end of its input, once nothing feeds it."""
END_S: Final = 10.0
"""How long a program, with all that it started, may take to end after SIGTERM."""
ENDED_SO: Final = (0, -signal.SIGTERM, 128 + signal.SIGTERM, -signal.SIGINT, 128 + signal.SIGINT)
"""Exit codes of a program that was asked to end, and knows of no error."""
TICK_S: Final = 0.02
NEXT_S: Final = 2.0
"""How long the next process of a group is left in peace while one that was asked to end has not."""
BOOTSTRAP: Final = "bootstrap.servers"


def outside(app: Application, prefix: str, folder: Path) -> dict[str, str]:
    """What a command of the user's finds in its environment: the topics, the group, a folder of the run."""
    return {
        **environment(),
        "INQUEST_IN": prefix + app.input,
        "INQUEST_OUT": app.output and prefix + app.output,
        "INQUEST_GROUP": prefix + app.group,
        "INQUEST_FOLDER": str(folder.resolve()),
    }


def surroundings(
    config: RunConfig, spec: SessionSpec, args: Mapping[str, str], folder: Path
) -> dict[str, str]:
    """What an instance finds there, beside it (docs/applications.md). args: those of an endpoint."""
    assert config.app is not None
    settings = of_librdkafka(args)
    return {
        **outside(config.app, config.prefix, folder),
        "INQUEST_BOOTSTRAP": settings[BOOTSTRAP],
        "INQUEST_CLIENT": json.dumps(settings),
        "INQUEST_INSTANCE": str(spec.slot),
        "INQUEST_TRANSACTIONAL_ID": f"{spec.group}-{spec.slot}",
    }


class Instance:
    """A program that was started, in the group of this process. position: of its group."""

    def __init__(
        self, around: Mapping[str, str], log: Path, position: GroupPosition, secrets: Collection[str] = ()
    ) -> None:
        """log: takes its standard output and error. secrets: are hidden in what is said of it.

        Raises: ConfigError, where it cannot be started.
        """
        self._log, self._position, self._secrets = log, position, secrets
        self._committed: dict[TopicPartition, int] | None = None
        self._since = monotonic()
        self._asked: float | None = None
        self._known = False
        """The brokers said where its group stands when they were last asked."""
        self._works = True
        """It has not come to the end of its input, and got on lately."""
        try:
            self._program = start(named.PROGRAM.words(), log=log, lines=False, env=around, own_session=False)
        except OSError as error:
            raise ConfigError(f"--app {named.PROGRAM.words()[0]}: {error.strerror}") from None

    def look(self, inputs: Iterable[TopicPartition]) -> tuple[bool, bool]:
        """Whether it runs and the brokers said where its group stands in these partitions; whether the group
        got on since the last look, false at the first one: its predecessor may have committed that.

        Raises: ClientLost, where the program has ended.
        """
        self._refuse_ended()
        found = self._position.committed(inputs)
        self._known = found is not None
        if found is None:
            return False, False
        before, self._committed = self._committed, found
        new = before is not None and any(at != before.get(tp, 0) for tp, at in found.items())
        if new:
            self._since = monotonic()
        return True, new

    def finished(self) -> bool:
        """Asked again and again once nothing feeds the application: whether it has come to the end of its
        input, or does nothing more."""
        now = monotonic()
        self._asked = self._asked or now
        rests = self._committed is not None and now - self._since >= REST_S
        at_the_end = rests and self._position.at_the_end(self._committed or {})
        self._works = not at_the_end and now - max(self._since, self._asked) < QUIET_S
        return not self._works or now - self._asked >= DRAIN_S

    def end(self) -> bool:
        """SIGTERM to the program; where others of the group of this process are left once it has ended, as of
        a shell that hands on no signal, to the oldest of them, and so on; to the next one, too, where those
        that were asked do not end within `NEXT_S`. Then SIGKILL. Whether it ended in
        order: it had nothing more to do, could commit, was not killed, and not ended by an error.

        Raises: ClientLost, where it has ended already.
        """
        self._refuse_ended()
        asked: dict[int, float] = {}
        deadline = monotonic() + END_S
        with self._program as program:
            while (left := self._left()) and (now := monotonic()) < deadline:
                unasked = [pid for pid in left if pid not in asked]
                if unasked and all(now - asked[pid] >= NEXT_S for pid in left if pid in asked):
                    _signal(unasked[0], signal.SIGTERM)
                    asked[unasked[0]] = now
                sleep(TICK_S)
            for pid in left:
                _signal(pid, signal.SIGKILL)
        self._position.close()
        idle = self._known and not self._works
        return idle and not left and program.returncode in ENDED_SO

    def _left(self) -> list[int]:
        """What has not ended: the program, then what it started, the oldest first."""
        mine = self._program.pid
        others = [pid for pid in guard.members(os.getpid()) if pid != mine]
        return [*([mine] if self._program.poll() is None else []), *others]

    def _refuse_ended(self) -> None:
        """Raises: ClientLost, where the program has ended."""
        if (code := self._program.poll()) is not None:
            words = without(tail(self._log).strip().rpartition("\n")[2], self._secrets)
            how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            last = f"; its last line: {words[:200]}" if words else ""
            raise ClientLost(f"the application {how}{last}")


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def started(config: RunConfig, spec: SessionSpec, args: Mapping[str, str], folder: Path) -> Instance:
    """Start an instance. folder: takes its log. Raises: ConfigError."""
    folder.mkdir(exist_ok=True)
    position = GroupPosition(args, spec.group or "")
    log = named.log_of(folder, spec.slot)
    with log.open("a") as file:
        file.write(f"--- process {spec.process} (pid {os.getpid()})\n")
    return Instance(surroundings(config, spec, args, folder), log, position, secrets_of(args))
