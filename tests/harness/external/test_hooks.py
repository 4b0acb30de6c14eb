"""Hooks as they are run: what they are given, when they end, how they fail."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from core.capabilities import Cut, Direction, Listener
from core.errors import ClusterError, Unanswered
from harness.external.docker_hooks import HOOKS
from harness.external.file import ClusterFile
from harness.external.hooks import HookRunner
from harness.external.nodes import Means
from tests.processes import alive
from tests.waiting import until

NAMES = {1: "one", 2: "two", 3: "three"}


def runner(deadline_s: float = 20, **commands: str) -> HookRunner:
    given = {"cluster": {"bootstrap": "here:1"}, "hooks": {"deadline_s": deadline_s, **commands}}
    file = ClusterFile.model_validate(given)
    return HookRunner(file, Means(names=NAMES), lambda text: text.replace("sesame", "(hidden)"))


def test_a_hook_is_run_for_each_node_with_its_number_and_name(tmp_path: Path) -> None:
    made = runner(kill=f'echo "$INQUEST_NODE $INQUEST_NAME" >{tmp_path}/$INQUEST_NODE')
    made.on_nodes("kill", (1, 3))
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"1": "1 one\n", "3": "3 three\n"}


def test_one_that_fails_says_so_without_secrets_and_the_others_are_run(tmp_path: Path) -> None:
    made = runner(
        kill=f"[ $INQUEST_NODE != 1 ] && touch {tmp_path}/$INQUEST_NODE || {{ echo no sesame; exit 7; }}"
    )
    with pytest.raises(ClusterError, match=r"hook kill of node 1: exit code 7: no \(hidden\)$"):
        made.on_nodes("kill", (1, 2))
    assert [path.name for path in tmp_path.iterdir()] == ["2"]


def test_one_that_does_not_end_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    made = runner(deadline_s=0.5, revive=f"(sleep 60; touch {tmp_path}/late) & wait")
    begin = time.monotonic()
    with pytest.raises(Unanswered, match=r"hook revive of node 2 did not end within 0.5 s"):
        made.on_nodes("revive", (2,))
    assert time.monotonic() - begin < 30


def test_one_that_does_not_end_repeats_its_last_words_without_secrets() -> None:
    made = runner(deadline_s=0.5, revive="echo first; echo waits for sesame; sleep 60")
    with pytest.raises(Unanswered, match=r"did not end within 0.5 s: first waits for \(hidden\)$"):
        made.on_nodes("revive", (2,))


@pytest.mark.parametrize(
    ("outside", "ends", "said"),
    [
        (True, "echo begun", r"ended, but its output did not within 0.5 s; .* holds its output: .*: begun$"),
        (False, "echo begun", r"ended, but its output did not within 0.5 s; .* holds its output: .*: begun$"),
        (True, "sleep 60", r"did not end within 0.5 s; something that it started holds its output: send"),
    ],
)
def test_a_daemon_that_holds_the_output_of_its_hook_holds_up_nothing(
    outside: bool, ends: str, said: str, tmp_path: Path
) -> None:
    session = "setsid " if outside else ""
    daemon = f"{session}/bin/sh -c 'echo $$ >{tmp_path}/pid; exec sleep 60'"
    written = f"until [ -s {tmp_path}/pid ]; do sleep 0.05; done"
    made = runner(deadline_s=0.5, revive=f"{daemon} & {written}; {ends}")
    begin = time.monotonic()
    try:
        with pytest.raises(Unanswered, match=rf"hook revive of node 2 {said}"):
            made.on_nodes("revive", (2,))
        assert time.monotonic() - begin < 30
        if outside:
            assert alive(daemon_pid(tmp_path))
        else:
            until(lambda: not alive(daemon_pid(tmp_path)), "all of its session is ended")
    finally:
        with suppress(ProcessLookupError):
            os.kill(daemon_pid(tmp_path), signal.SIGKILL)


def test_a_daemon_whose_output_goes_elsewhere_is_started_well(tmp_path: Path) -> None:
    daemon = f"setsid /bin/sh -c 'echo $$ >{tmp_path}/pid; exec sleep 60' >{tmp_path}/log 2>&1"
    made = runner(revive=f"{daemon} & until [ -s {tmp_path}/pid ]; do sleep 0.05; done")
    made.on_nodes("revive", (2,))
    os.kill(daemon_pid(tmp_path), signal.SIGKILL)  # it runs


def daemon_pid(folder: Path) -> int:
    return int((folder / "pid").read_text())


def test_each_node_has_its_own_log_directory(tmp_path: Path) -> None:
    part = {"bootstrap": "here:1", "docker": {1: "one", 2: "two"}, "log_dirs": "/data/kafka-log{node}/"}
    hook = {"collect": f'echo "$INQUEST_LOG_DIRS" >{tmp_path}/$INQUEST_NODE'}
    file = ClusterFile.model_validate({"cluster": part, "hooks": hook})
    HookRunner(file, Means(names=file.cluster.docker)).on_nodes("collect", (1, 2))
    found = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert found == {"1": "/data/kafka-log1\n", "2": "/data/kafka-log2\n"}


def test_a_node_is_given_all_its_cuts_and_mended_without_any(tmp_path: Path) -> None:
    made = runner(
        cut=f'echo "$INQUEST_CUTS" >{tmp_path}/$INQUEST_NODE', mend=f"echo none >{tmp_path}/$INQUEST_NODE"
    )
    cuts = [
        Cut(node=1, direction=Direction.IN, peer=2),
        Cut(node=1, direction=Direction.IN, peer=2),
        Cut(node=1, direction=Direction.OUT),
        Cut(node=3, direction=Direction.IN, peer=1, listener=Listener.BROKER),
    ]
    for node in NAMES:
        made.links(node, cuts)
    found = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert found == {"1": "in two\nout clients\n", "2": "none\n", "3": "in one broker\n"}


def test_all_that_heals_is_tried(tmp_path: Path) -> None:
    made = runner(resume="exit 3", revive=f"touch {tmp_path}/$INQUEST_NODE", heal_all=f"touch {tmp_path}/all")
    failed = made.heal((1, 2))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2", "all"]
    assert len(failed) == 1
    assert "hook resume of node" in failed[0]


def test_healing_waits_for_a_hook_that_is_under_way(tmp_path: Path) -> None:
    """One that shuts a node down would take it away after it was started."""
    made = runner(
        shut_down=f"touch {tmp_path}/begun; until [ -e {tmp_path}/go ]; do sleep 0.05; done;"
        f" touch {tmp_path}/down",
        revive=f"rm {tmp_path}/down",
    )
    with ThreadPoolExecutor() as pool:
        breaking = pool.submit(made.on_nodes, "shut_down", (1,))
        until(lambda: (tmp_path / "begun").exists(), "the hook is under way")
        healing = pool.submit(made.heal, (1,))
        wait([healing], 0.5)  # where it does not wait it fails by then
        (tmp_path / "go").touch()
        breaking.result()
        assert healing.result() == []


def test_whoever_asks_knows_which_hook_runs(tmp_path: Path) -> None:
    made = runner(kill=f"echo $$ >{tmp_path}/pid", revive="exit 1")
    known: list[str] = []

    @contextmanager
    def during(pid: int) -> Iterator[None]:
        known.append(f"+{pid}")
        yield
        known.append(f"-{pid}")

    made.during = during
    made.on_nodes("kill", (1,))
    pid = int((tmp_path / "pid").read_text())
    assert known == [f"+{pid}", f"-{pid}"]
    with pytest.raises(ClusterError):
        made.on_nodes("revive", (1,))
    assert [text[0] for text in known] == ["+", "-", "+", "-"]


@pytest.mark.parametrize(
    ("refusals", "why", "code"), [(2, "unable to freeze: unknown", 0), (1, "No such container: x", 1)]
)
def test_docker_is_asked_again_where_it_gave_up_freezing(
    tmp_path: Path, refusals: int, why: str, code: int
) -> None:
    docker = tmp_path / "docker"
    docker.write_text(f"""#!/bin/sh
if [ "$1" = inspect ]; then echo "true false"; exit; fi
echo asked >>{tmp_path}/asked
[ $(wc -l <{tmp_path}/asked) -gt {refusals} ] || {{ echo "{why}" >&2; exit 1; }}
""")
    docker.chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", "-c", HOOKS["pause"]],
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "INQUEST_NAME": "x"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, why in done.stderr) == (code, bool(code))
    assert (tmp_path / "asked").read_text().count("asked") == refusals + (not code)
