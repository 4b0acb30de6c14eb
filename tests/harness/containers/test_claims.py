"""Whose runs are in an engine: none but the dead ones of this machine are removed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.config import run_config
from core.errors import ClusterError
from core.runtime import run_blocking
from harness.containers import claims, engine
from harness.containers.claims import Claim, State, claim, claimed, place, state
from harness.kafka.system import kafka_cluster

CLAIMER = (
    "import sys; from harness.containers.claims import claim\n"
    "held = claim(sys.argv[1]); print('claimed', flush=True); sys.stdin.read()"
)


@pytest.fixture
def run(tmp_path: Path) -> str:
    """A name that no other run of this machine has."""
    return str(tmp_path)


@pytest.fixture
def held(run: str) -> Iterator[Claim]:
    made = claim(run)
    yield made
    made.release()


def test_a_run_is_claimed_until_it_is_released(run: str, held: Claim) -> None:
    assert claimed(run)
    assert state(run, place()) is State.UNDER_WAY
    with pytest.raises(ClusterError, match=r"is under way on this machine \("):
        claim(run)
    held.release()
    held.release()
    assert not claimed(run)
    assert state(run, place()) is State.LEFT


def test_a_claim_goes_with_its_process_whoever_that_was(run: str, tmp_path: Path) -> None:
    other = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with subprocess.Popen(
        [sys.executable, "-c", CLAIMER, run], env=other, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"claimed\n"
        assert state(run, place()) is State.UNDER_WAY
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert state(run, place()) is State.LEFT


def test_many_looks_at_a_claim_do_not_wear_it_out(run: str, held: Claim) -> None:
    assert all(claimed(run) for _ in range(1000))


@pytest.mark.parametrize(
    ("where", "known"),
    [
        ("mine/boot-1/7", State.LEFT),  # this process sees the claim's place, and there is none
        ("mine/boot-0/7", State.LEFT),  # before this machine was started again
        ("mine/boot-0/8", State.LEFT),
        ("mine/boot-1/8", State.UNKNOWN),  # a container with a network of its own, perhaps alive
        ("other/boot-1/7", State.UNKNOWN),
        ("other/boot-9/7", State.UNKNOWN),  # another machine, which uses the same engine
        ("/boot-0/7", State.UNKNOWN),
        ("", State.UNKNOWN),  # of a version that did not say
    ],
)
def test_nothing_is_left_that_this_process_cannot_judge(
    where: str, known: State, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "place", lambda: "mine/boot-1/7")
    assert state(run, where) is known


def test_a_machine_without_an_id_judges_its_own_boot_alone(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "place", lambda: "/boot-1/7")
    assert state(run, "/boot-1/7") is State.LEFT
    assert state(run, "/boot-0/7") is State.UNKNOWN
    monkeypatch.setattr(claims, "place", str)
    assert state(run, "") is State.UNKNOWN


class Engine:
    """A client of an engine that lists containers, a network and a volume with these labels. It is its own
    `api`."""

    def __init__(self, *labels: dict[str, str]) -> None:
        self.labels = labels
        self.api = self

    def containers(self, **_: object) -> list[dict[str, Any]]:
        return [{"Labels": one} for one in self.labels[:-2]]

    def networks(self, **_: object) -> list[dict[str, Any]]:
        return [{"Labels": one} for one in self.labels[-2:-1]]

    def volumes(self, **_: object) -> dict[str, Any]:
        return {"Volumes": [{"Labels": one} for one in self.labels[-1:]]}


def test_what_killed_runs_left_is_removed_and_nothing_else(
    run: str, held: Claim, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dead, stuck, network, volume = (f"{run}-{what}" for what in ("dead", "stuck", "network", "volume"))
    client: Any = Engine(
        claims.labels(run),
        claims.labels(dead),
        claims.labels(dead),
        claims.labels(stuck),
        {engine.RUN_LABEL: "old"},
        {**claims.labels("abroad"), engine.PLACE_LABEL: "other/boot/1"},
        {**claims.labels("odd"), engine.PLACE_LABEL: place()},
        {engine.RUN_LABEL: "odd"},
        claims.labels(network),
        claims.labels(volume),
    )
    unknown = dict.fromkeys(("old", "abroad", "odd"), State.UNKNOWN)
    left = dict.fromkeys((dead, stuck, network, volume), State.LEFT)
    assert claims.runs(client) == {run: State.UNDER_WAY, **left, **unknown}
    cleared: list[str] = []

    def clear(name: str) -> list[str]:
        cleared.append(name)
        return ["container 1: timed out"] if name == stuck else []

    monkeypatch.setattr(engine, "clear", clear)
    claims.remove_left(client)
    assert cleared == sorted(left)
    said = capsys.readouterr().err
    assert f"removed what {dead} left" in said
    assert "not removed: container 1: timed out" in said
    assert f"removed what {stuck}" not in said


def test_a_cluster_whose_name_is_taken_does_not_touch_what_carries_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / tmp_path.name
    cluster = kafka_cluster(run_config({"seed": 1}), folder)
    cleared: list[str] = []
    monkeypatch.setattr(engine, "clear", cleared.append)
    other = claim(cluster.run)
    try:
        with pytest.raises(ClusterError, match="under way on this machine"):
            run_blocking(cluster.start())
    finally:
        run_blocking(cluster.stop())
        assert cleared == []
        assert claimed(cluster.run)
        other.release()
