"""How containers of the user's ended: what a node wrote before its last start says nothing of its end."""

from datetime import UTC, datetime
from math import inf
from types import SimpleNamespace
from typing import Any, cast

import pytest
from docker.errors import NotFound
from requests.exceptions import ReadTimeout

from core.cluster import NodeEnd
from core.errors import ClusterError, EndsMissed
from core.secrets import HIDDEN
from harness.external.docker_ends import DockerEnds

STARTED = 1_700_000_000
FULL = b"java.io.IOException: No space left on device\n"


SECOND = 10**9


def shown(s: float) -> str:
    """A moment as the engine writes it, with more digits than Python reads. s: since `STARTED`."""
    at = datetime.fromtimestamp(STARTED + s, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S.%f}999Z"


class Engine:
    """Node 1's container. lines: what it wrote, and when, in seconds since `STARTED`. Its first start is at
    0.25 s."""

    def __init__(self, *lines: tuple[float, bytes]) -> None:
        self.lines = lines
        self.status, self.code = "running", 0
        self.started_s = 0.25
        self.told: list[dict[str, Any]] = []
        self.forgets = self.silent = False

    def die(self, s: float, code: int, status: str = "exited", *, oom: bool = False) -> None:
        self.status, self.code = status, code
        actions: list[tuple[str, dict[str, str]]] = [("oom", {})] * oom + [("die", {"exitCode": str(code)})]
        for action, more in actions:
            time = int((STARTED + s) * SECOND)
            self.told.append({"Action": action, "timeNano": time, "Actor": {"Attributes": more}})

    def start(self, s: float) -> None:
        self.status, self.code, self.started_s = "running", 0, s

    def inspect_container(self, name: str) -> dict[str, Any]:
        if self.silent:
            raise ReadTimeout("no answer")
        if name not in ("broker", "3f2a"):
            raise NotFound(f"No such container: {name}")
        state = {"Status": self.status, "ExitCode": self.code, "StartedAt": shown(self.started_s)}
        return {"Id": "3f2a", "State": state}

    def events(self, since: float, until: float, filters: object, decode: bool) -> list[dict[str, Any]]:
        assert filters == {"container": "3f2a", "event": ["die", "oom"]}
        assert decode
        return [one for one in self.told if since <= one["timeNano"] / SECOND <= until and not self.forgets]

    def logs(self, name: str, tail: int, since: float, until: float = inf) -> bytes:
        assert name == "3f2a"
        return b"".join([line for at, line in self.lines if since <= STARTED + at <= until][-tail:])


def watched(engine: Engine, name: str = "broker") -> DockerEnds:
    ends = DockerEnds({1: name}, lambda text: text.replace(SECRET, HIDDEN))
    ends._client = cast(Any, SimpleNamespace(api=engine))
    return ends


SECRET = "open sesame"


def ended(*lines: tuple[float, bytes]) -> NodeEnd:
    engine = Engine(*lines)
    engine.die(5, 1)
    (end,) = watched(engine).take()
    return end


@pytest.mark.parametrize(
    ("before", "after", "outside"), [(FULL, b"", ""), (b"", FULL, "no space was left on its disk")]
)
def test_a_disk_that_was_full_before_its_last_start_did_not_end_a_node(
    before: bytes, after: bytes, outside: str
) -> None:
    end = ended((-5.0, before), (0.25, b"started\n"), (0.5, after), (0.6, b"meta.properties: no version\n"))
    assert end.outside == outside
    assert end.log[0] == "started"
    assert end.log[-1] == "meta.properties: no version"


def test_the_last_lines_of_a_node_are_kept_without_secrets() -> None:
    assert ended((0.5, f"login as user {SECRET}\n".encode())).log == (f"login as user {HIDDEN}",)


def seen(ends: DockerEnds) -> list[tuple[int, str]]:
    """Exit codes and last lines."""
    return [(end.exit_code, end.log[-1]) for end in ends.take()]


LINES = ((1.0, b"first life\n"), (2.9, b"halt\n"), (3.2, b"second life\n"), (4.9, b"halt again\n"))


@pytest.mark.parametrize("name", ["broker", "3f2a"])
def test_a_container_that_the_engine_started_again_has_ended(name: str) -> None:
    engine = Engine(*LINES)
    ends = watched(engine, name)
    assert seen(ends) == []
    engine.die(3, 1)
    engine.start(3.1)
    assert seen(ends) == [(1, "halt")]
    assert seen(ends) == []
    engine.die(5, 3)
    assert seen(ends) == [(3, "halt again")]
    engine.start(5.1)
    assert seen(ends) == []


def test_one_that_waits_for_its_new_start_has_ended_once() -> None:
    engine = Engine(*LINES)
    ends = watched(engine)
    assert seen(ends) == []
    engine.die(3, 1, "restarting")
    engine.lines = LINES[:2]
    assert seen(ends) == [(1, "halt")]
    assert seen(ends) == []
    engine.start(3.1)
    engine.lines = LINES
    assert seen(ends) == []
    engine.die(5, 3)
    engine.start(5.1)
    assert seen(ends) == [(3, "halt again")]


def test_one_that_is_started_again_while_it_is_looked_at() -> None:
    class Hasty(Engine):
        """It starts the container right after it said that it had ended."""

        def inspect_container(self, name: str) -> dict[str, Any]:
            told = super().inspect_container(name)
            if self.status == "restarting":
                self.start(3.1)
            return told

    engine = Hasty(*LINES)
    ends = watched(engine)
    assert seen(ends) == []
    engine.die(3, 1, "restarting")
    assert seen(ends) == [(1, "halt")]
    assert seen(ends) == []
    engine.die(5, 3)
    engine.start(5.1)
    assert seen(ends) == [(3, "halt again")]


def test_both_ends_of_one_that_was_started_in_between_are_seen() -> None:
    engine = Engine(*LINES)
    ends = watched(engine)
    assert seen(ends) == []
    engine.die(3, 1)
    engine.start(3.1)
    engine.die(5, 3)
    assert seen(ends) == [(1, "halt")]
    assert seen(ends) == [(3, "halt again")]
    assert seen(ends) == []


def test_what_ended_it_from_outside_is_known_after_its_new_start() -> None:
    engine = Engine(*LINES)
    ends = watched(engine)
    assert seen(ends) == []
    engine.die(3, 137, oom=True)
    engine.start(3.1)
    (end,) = ends.take()
    assert (end.signal, end.oom_killed) == (9, True)


@pytest.mark.parametrize("again", [True, False])
def test_hooks_end_and_start_it_as_they_are_asked_to(again: bool) -> None:
    """again: the engine starts it before the hook does."""
    engine = Engine(*LINES)
    ends = watched(engine)
    assert seen(ends) == []
    ends.asked([1])
    engine.die(3, 137)
    if again:
        engine.start(3.05)
    assert seen(ends) == []
    ends.look()
    engine.start(3.05 if again else 3.1)
    ends.started([1])
    assert seen(ends) == []
    engine.die(5, 3)
    engine.start(5.1)
    assert seen(ends) == [(3, "halt again")]


def test_an_end_of_which_the_engine_knows_nothing_any_more_is_missed() -> None:
    engine = Engine(*LINES)
    ends = watched(engine)
    assert seen(ends) == []
    engine.die(3, 1)
    engine.start(3.1)
    engine.forgets = True
    with pytest.raises(EndsMissed, match="node 1 was started again, and the engine does not know how"):
        seen(ends)
    engine.forgets = False
    assert seen(ends) == []
    engine.die(5, 3)
    assert seen(ends) == [(3, "halt again")]


def test_an_end_while_the_engine_is_silent_is_seen_later() -> None:
    engine = Engine(*LINES)
    ends = watched(engine)
    assert seen(ends) == []
    engine.die(3, 1)
    engine.start(3.1)
    engine.silent = True
    with pytest.raises(ClusterError, match="node 1 could not be looked at"):
        seen(ends)
    engine.silent = False
    assert seen(ends) == [(1, "halt")]


def test_a_container_that_is_not_there_is_not_taken_for_one_that_runs() -> None:
    with pytest.raises(ClusterError, match=r"node 1 could not be looked at: .*No such container: brokr"):
        watched(Engine(), "brokr").take()


def test_one_that_never_ran_has_not_ended() -> None:
    engine = Engine()
    ends = watched(engine)
    engine.status, engine.started_s = "created", -STARTED
    assert seen(ends) == []
    engine.start(1)
    assert seen(ends) == []
