"""The pytest plugin, in the tests of another program, on brokers of the model."""

import json
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.processes import alive
from tests.waiting import until

SMALL = "partitions=2, producers=1, home_producers=0, consumers=1, rate=20, fault_s=1, calm_s=0.5"
VALID = f"""
import pytest

@pytest.mark.inquest({SMALL})
def test_orders(inquest_cluster):
    with inquest_cluster.faults("kill:one", seed=7):
        pass
    assert inquest_cluster.judge().startswith("VALID: ")
"""
OTHER = VALID.replace("test_orders", "test_invoices")
BROKEN = f"""
import pytest

@pytest.mark.inquest({SMALL})
@pytest.mark.inquest(workload="transactions", mutant="abort-answers-commit", abort_share=0.9)
def test_orders(inquest_cluster):
    with inquest_cluster.faults("none"):
        pass
    inquest_cluster.judge()
"""
FAILS = f"""
import pytest

@pytest.mark.inquest({SMALL})
def test_orders(inquest_cluster):
    print("run", inquest_cluster.pid, flush=True)
    with inquest_cluster.faults("kill:one", seed=7):
        assert inquest_cluster.bootstrap == "elsewhere"
"""
WAITS = FAILS.replace("assert inquest_cluster.bootstrap ==", "import time; time.sleep(600); assert")
RECORDED = """
import json
from contextlib import contextmanager
from inspect import signature
from types import SimpleNamespace

import harness.guided.cluster as guided

known = signature(guided.cluster)

@contextmanager
def cluster(**named):
    known.bind(**named)
    yield SimpleNamespace(folder="none", asked=json.dumps(named))

guided.cluster = cluster
"""
MARKED = """
import pytest

pytestmark = pytest.mark.inquest(rate=20, workload="groups", engine="spark")

@pytest.mark.inquest(file="mine.toml", owned=True, rate=30)
def test_mine(inquest_cluster):
    print("asked: mine", inquest_cluster.asked)

def test_usual(inquest_cluster):
    print("asked: usual", inquest_cluster.asked)
"""
FARTHER = """
import pytest

pytestmark = pytest.mark.inquest(MODULE)

@pytest.mark.inquest(NEARER)
def test_it(inquest_cluster):
    print("asked: it", inquest_cluster.asked)
"""

pytestmark = pytest.mark.slow


def heeds_ctrl_c() -> None:
    """A shell that starts the tests behind it has SIGINT ignored, by all that they start too."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def started(folder: Path, source: str, *words: str, sut: str = "model") -> "subprocess.Popen[str]":
    """pytest, as another program's developers call it. sut: "" = none is named."""
    (folder / "test_it.py").write_text(textwrap.dedent(source))
    plugin = ("-p", "no:inquest", "-p", "inquest.pytest_plugin", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", *plugin, *["--inquest-sut", sut][: 2 * bool(sut)], *words]
    return subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=heeds_ctrl_c,
    )


def ended(folder: Path, source: str, *words: str, sut: str = "model") -> tuple[int, str]:
    with started(folder, source, *words, sut=sut) as process:
        out, _ = process.communicate()
    return process.returncode, out


def asked(out: str) -> dict[str, Any]:
    """What `cluster` was called with, by test."""
    return {name: json.loads(said) for name, said in re.findall(r"asked: (\w+) (.*)$", out, re.MULTILINE)}


def runs(folder: Path) -> list[Path]:
    return [path for path in (folder / "results").iterdir() if not path.is_symlink()]


@pytest.mark.sampled(11)
def test_each_worker_has_its_own_cluster(tmp_path: Path) -> None:
    code, out = ended(tmp_path, VALID + OTHER, "-n", "2")
    assert code == 0, out
    assert "2 passed" in out
    assert len(runs(tmp_path)) == 2


@pytest.mark.sampled(48)
def test_an_anomaly_fails_the_test_with_the_verdict_and_the_report(tmp_path: Path) -> None:
    code, out = ended(tmp_path, BROKEN, "--strict-markers")
    assert code == 1, out
    (run,) = runs(tmp_path)
    assert re.search(r"^E +harness\.guided\.cluster\.Anomaly: ANOMALY: found ", out, re.MULTILINE)
    assert "first aborted-read: " in out
    assert f"report: {run / 'report.html'}" in out
    assert (run / "report.html").is_file()


@pytest.mark.sampled(11)
def test_a_failing_test_leaves_its_recording_and_no_process(tmp_path: Path) -> None:
    code, out = ended(tmp_path, FAILS)
    assert code == 1, out
    (run,) = runs(tmp_path)
    assert f"recorded in {run}" in out
    assert '"event":"heal"' in (run / "events.jsonl").read_text()
    (pid,) = re.findall(r"^run (\d+)$", out, re.MULTILINE)
    assert not alive(int(pid))


@pytest.mark.sampled(48)
def test_ctrl_c_leaves_no_process(tmp_path: Path) -> None:
    with started(tmp_path, WAITS, "-s") as process:
        assert process.stdout is not None
        pid = next(int(line.split()[-1]) for line in process.stdout if "run " in line)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate()
    assert process.returncode == pytest.ExitCode.INTERRUPTED, out
    until(lambda: not alive(pid), "the run lives on")


@pytest.mark.sampled(11)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--inquest-set spider", "--set takes name=value, not "),
        ("--inquest-sut modl", "--inquest-sut modl: external, kafka or model; did you mean 'model'?"),
        ("--inquest-sut simulated", "--inquest-sut simulated: external, kafka or model"),
        ("--inquest-engine sprk", "--inquest-engine sprk: process or spark; did you mean 'spark'?"),
    ],
)
def test_an_option_that_is_none_is_one_line_before_any_test(tmp_path: Path, words: str, said: str) -> None:
    code, out = ended(tmp_path, VALID, *words.split(), sut="")
    (line,) = [line for line in out.splitlines() if line]
    assert line.startswith(f"ERROR: {said}")
    assert code == pytest.ExitCode.USAGE_ERROR, out


@pytest.mark.sampled(11)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--inquest-set ratte=3", "unknown setting 'ratte'; did you mean 'rate'?"),
        ("--inquest-owned", "owned says something of a cluster that you have: give its file"),
    ],
)
def test_a_cluster_that_is_refused_is_one_sentence_without_code(
    tmp_path: Path, words: str, said: str
) -> None:
    code, out = ended(tmp_path, VALID, *words.split())
    assert code == pytest.ExitCode.TESTS_FAILED, out
    assert re.search(rf"^inquest: {re.escape(said)}", out, re.MULTILINE), out
    assert "cluster.py" not in out
    assert "Traceback" not in out


MINE = {"file": "mine.toml", "owned": True, "rate": 30, "workload": "groups", "engine": "spark"}
USUAL = {"rate": 20, "workload": "groups", "engine": "spark"}
NAME_OF_FILE = ("cluster a.toml", "set file=a.toml")
OTHERS = {name: value for name, value in MINE.items() if name != "owned"} | {"file": "a.toml"}
"""Whether that cluster may be broken, the marker does not say."""
OWNED_OTHER = {"file": "a.toml", "owned": True}


@pytest.mark.sampled(11)
@pytest.mark.parametrize(
    ("words", "mine", "usual"),
    [
        ("", MINE, USUAL),
        ("--inquest-set rate=40", MINE | {"rate": 40}, USUAL | {"rate": 40}),
        ("--inquest-engine process", MINE | {"engine": "process"}, USUAL | {"engine": "process"}),
        ("--inquest-owned", MINE, USUAL | {"owned": True}),
        ("--inquest-sut external", MINE | {"sut": "external"}, USUAL | {"sut": "external"}),
        *((f"--inquest-{words}", OTHERS, USUAL | {"file": "a.toml"}) for words in NAME_OF_FILE),
        ("--inquest-cluster a.toml --inquest-owned", OTHERS | {"owned": True}, USUAL | OWNED_OTHER),
    ],
)
def test_options_win_over_markers_and_the_nearest_marker_over_others(
    tmp_path: Path, words: str, mine: dict[str, Any], usual: dict[str, Any]
) -> None:
    (tmp_path / "conftest.py").write_text(RECORDED)
    code, out = ended(tmp_path, MARKED, "-s", *words.split(), sut="")
    assert code == 0, out
    assert asked(out) == {"mine": mine, "usual": usual}


@pytest.mark.sampled(11)
@pytest.mark.parametrize("words", ["--inquest-sut model", "--inquest-set sut=model"])
def test_another_system_of_an_option_is_not_the_cluster_of_a_marker(tmp_path: Path, words: str) -> None:
    (tmp_path / "conftest.py").write_text(RECORDED)
    code, out = ended(tmp_path, MARKED, "-s", "-k", "mine", *words.split(), sut="")
    assert code == 0, out
    assert asked(out) == {"mine": {"sut": "model", "rate": 30, "workload": "groups", "engine": "spark"}}


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("module", "nearer", "given"),
    [
        ("file='a.toml', owned=True, rate=2", "sut='model'", {"sut": "model", "rate": 2}),
        ("file='a.toml', owned=True", "sut='external'", {"sut": "external", "file": "a.toml", "owned": True}),
        ("file='a.toml', owned=True", "file='b.toml'", {"file": "b.toml"}),
        ("sut='model', rate=2", "file='b.toml', owned=True", {"file": "b.toml", "owned": True, "rate": 2}),
    ],
)
def test_a_nearer_marker_names_another_system(
    tmp_path: Path, module: str, nearer: str, given: dict[str, Any]
) -> None:
    (tmp_path / "conftest.py").write_text(RECORDED)
    code, out = ended(tmp_path, FARTHER.replace("MODULE", module).replace("NEARER", nearer), "-s", sut="")
    assert code == 0, out
    assert asked(out) == {"it": given}


@pytest.mark.sampled(8)
def test_a_setting_of_a_marker_has_a_name(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(RECORDED)
    source = FARTHER.replace("MODULE", "rate=2").replace("NEARER", "'transactions'")
    code, out = ended(tmp_path, source, "-s", sut="")
    assert code == pytest.ExitCode.TESTS_FAILED, out
    assert "marker inquest: 'transactions' has no name" in out
    assert asked(out) == {}
