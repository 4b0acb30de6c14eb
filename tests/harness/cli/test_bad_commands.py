"""Bad input to the commands that make runs and to those about the machine: one line, 64, nothing started.

Not here: commands that read recordings (`test_bad_recordings`); a recorded run that is made again
(`test_bad_repeats`).
"""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.cli.bad_input import refused

DEEP = "[" * 200_000


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Input that is taken fails here, before a cluster or a process is started. Afterwards the current folder
    is as it was."""

    def started(*_: object, **__: object) -> None:
        raise AssertionError("taken")

    monkeypatch.setattr("harness.systems.record", started)
    for name in (
        "harness.contract.cluster.compare",
        "harness.reproduce.attempts.attempts",
        "harness.containers.engine.connect",
        "harness.containers.engine.ensure",
        "harness.soak.runs.Performer.perform",
        "harness.explore.exploration._done",
        "harness.soak.serve.Server.serve_forever",
    ):
        monkeypatch.setattr(name, started)
    here = tmp_path / "here"
    here.mkdir()
    (here / "file").write_text("")
    (here / "binary").write_bytes(b"\xff\xfe\x00\x01")
    monkeypatch.chdir(here)
    yield
    assert sorted(path.name for path in here.iterdir()) == ["binary", "file"]


def setting(name: str, value: object) -> list[str]:
    """`--set` of a value as JSON."""
    return ["--set", f"{name}={json.dumps(value)}"]


# Each row: the words, and what the line names: all that stands between dots, in any order.
RUN: dict[str, tuple[list[str], str]] = {
    "unknown workload": (["--workload", "juggling"], "juggling … queue … transactions"),
    "empty workload": (["--workload", ""], "unknown workload ''"),
    "workload with an escape": (["--workload", "\x1b[2J"], "unknown workload"),
    "unknown nemesis": (["--nemesis", "earthquake"], "earthquake … kill … partition"),
    "empty nemesis": (["--nemesis", ""], "a name is empty"),
    "nemesis twice none": (["--nemesis", "none,none"], "none"),
    "trailing comma": (["--nemesis", "kill,"], "a name is empty"),
    "unknown kind": (["--nemesis", "partition:sideways"], "sideways … isolate … halves"),
    "unknown target": (["--nemesis", "kill@moon"], "moon … leader … controller"),
    "target of what hits all": (["--nemesis", "kill:all@leader"], "takes no target"),
    "nemesis of two lines": (["--nemesis", "kill\nVALID: all is well"], "unknown nemesis"),
    "a million nemeses": (["--nemesis", "," * 100_000], "a name is empty"),
    "unknown preset": (["--preset", "reckless"], "reckless … safe … acks1"),
    "misspelt workload": (["--workload", "queu"], "unknown workload 'queu'; did you mean 'queue'? known: "),
    "misspelt preset": (["--preset", "ack1"], "unknown preset 'ack1'; did you mean 'acks1'? known: "),
    "misspelt system": (["--sut", "simulatd"], "'simulatd'; did you mean 'simulated'? known: "),
    "misspelt nemesis": (
        ["--nemesis", "kil"],
        "inquest: unknown nemesis 'kil'; did you mean 'kill'? known: ",
    ),
    "misspelt among two": (["--nemesis", "none,kil"], "nemesis 'none,kil': unknown nemesis 'kil'; did you"),
    "misspelt anomaly": (setting("expect", ["lost-wrte"]), "'lost-wrte'; did you mean 'lost-write'? known: "),
    "misspelt engine": (["--engine", "sparkk"], "'--engine': 'sparkk' is not one of 'spark', 'process'"),
    "unknown system": (["--sut", "abacus"], "abacus … kafka"),
    "imported is no system": (["--sut", "imported"], "imported"),
    "kafka in words": (["--kafka", "four"], "kafka … four"),
    "kafka of old": (["--kafka", "0.9.0.1"], "0.10.2"),
    "kafka of old whose zookeeper cannot run": (["--kafka", "2.0.1"], "Java 17"),
    "kafka of old without idempotence": (["--kafka", "0.10.2.2"], "idempotent … 0.10.2.2 … idempotent=false"),
    "kafka of old without transactions": (
        ["--kafka", "0.10.2.2", "--workload", "transactions"],
        "workload transactions … 0.10.2.2 … 0.11.0",
    ),
    "kafka of old without reassignments": (
        ["--kafka", "1.1.1", "--nemesis", "reassign"],
        "reassign … Reassignable",
    ),
    "kafka of old without its zookeeper": (["--kafka", "2.8.2", "--set", "metadata=kraft"], "3.3"),
    "kafka of today with zookeeper": (["--kafka", "4.3.1", "--set", "metadata=zookeeper"], "3.9"),
    "kafka of the future": (["--kafka", "9.9.9"], "9.9.9"),
    "kafka of two numbers": (["--kafka", "4.3"], "three numbers"),
    "kafka with a path": (["--kafka", "4.3.1/../../x"], "three numbers"),
    "kafka of 5000 digits": (["--kafka", "9" * 5000 + ".0.0"], "three numbers"),
    "kafka in other digits": (["--kafka", "٤.٣.١"], "three numbers"),
    "upgrade to an older version": (["--kafka", "4.1.2", "--upgrade", "3.9.1"], "after 4.1.2"),
    "upgrade to the same version": (["--kafka", "4.1.2", "--upgrade", "4.1.2"], "after 4.1.2"),
    "upgrade in words": (["--upgrade", "latest"], "three numbers"),
    "upgrade with zookeeper": (["--kafka", "2.8.2", "--upgrade", "3.9.1"], "ZooKeeper"),
    "upgrade to the future": (["--upgrade", "9.9.9", "--nemesis", "upgrade:one"], "9.9.9"),
    "upgrade that nothing makes": (["--kafka", "4.1.2", "--upgrade", "4.4.0"], "add upgrade"),
    "upgrade of the model": (["--sut", "model", "--upgrade", "4.4.0"], "upgrade=4.4.0"),
    "upgrade to nothing": (["--nemesis", "upgrade"], "--upgrade VERSION"),
    "kafka for the model": (["--sut", "model", "--kafka", "4.3.1"], "kafka=4.3.1"),
    "negative duration": (["--duration", "-5"], "duration_s … -5"),
    "no duration": (["--duration", "0"], "duration_s"),
    "endless duration": (["--duration", "inf"], "duration_s"),
    "duration that is no number": (["--duration", "nan"], "duration_s: not a number (given: nan)"),
    "duration in words": (["--duration", "long"], "--duration"),
    "no brokers": (["--brokers", "0"], "brokers … 0"),
    "ten brokers": (["--brokers", "10"], "brokers"),
    "too few brokers": (["--brokers", "2"], "replication_factor 3"),
    "half a broker": (["--brokers", "2.5"], "--brokers"),
    "negative rate": (["--rate", "-1"], "rate"),
    "rate in words": (["--rate", "fast"], "--rate … number"),
    "rate without end": (["--rate", "inf"], "rate"),
    "rate that is no number": (["--rate", "nan"], "rate"),
    "negative seed": (["--seed", "-1"], "seed"),
    "large seed": (["--seed", str(2**63)], "seed"),
    "seed in words": (["--seed", "lucky"], "--seed"),
    "unknown option": (["--bogus"], "bogus"),
    "a word too many": (["queue"], "queue"),
    "schedule and nemesis": (["--nemesis", "kill", "--schedule", "file"], "--nemesis and --schedule"),
    "schedule without a file": (["--nemesis", "schedule"], "--schedule FILE"),
    "schedule that is missing": (["--schedule", "none"], "none: No such file"),
    "schedule that is a folder": (["--schedule", "."], "directory"),
    "schedule without a fault": (
        ["--schedule", "/dev/null"],
        "/dev/null: no fault in it; a run without faults",
    ),
    "schedule of bytes": (["--schedule", "binary"], "line 1"),
    "fail-fast in virtual time": (["--sut", "simulated", "--nemesis", "none", "--fail-fast"], "--fail-fast"),
    "results in a file": (["--results", "file/results"], "file/results"),
    "results of 5000 letters": (["--results", "x" * 5000], "cannot be written"),
    "results of an empty name": (["--results", ""], "--results is empty … . for this one"),
    "results of an empty name, in one word": (["--results="], "--results is empty"),
    "master of nothing": (["--master", "nope://x"], "nope://x"),
    "empty master": (["--master", ""], "--master"),
    "master without a port": (["--master", "spark://host"], "spark://host"),
    "master of two lines": (["--master", "local\n[2]"], "--master"),
    "a setting as an option": (["--era", "0.10"], "No such option: --era; it is a setting: --set era=…"),
    "another one": (["--abort-share", "0.2"], "it is a setting: --set abort_share=…"),
    "set without a value": (["--set", "colour"], "name=value … colour"),
    "set without a name": (["--set", "=1"], "name=value"),
    "unknown setting": (["--set", "colour=blue"], "colour"),
    "setting of 5000 letters": (["--set", "x" * 5000 + "=1"], "unknown setting"),
    "acks of two": (["--set", "acks=2"], "acks"),
    "acks in another word": (["--set", "acks=quorum"], "acks: 0, 1 or all (-1) (given: 'quorum')"),
    "client settings without quotes": (
        ["--set", "client_settings={producer.linger.ms:20}"],
        """client_settings: no JSON of names and values: write 'client_settings={"name": "value"}', in a""",
    ),
    "a client setting that is no text": (
        setting("client_settings", {"producer.linger.ms": 20}),
        "client_settings.producer.linger.ms: a text is wanted, in double quotes (given: 20)",
    ),
    "segments that are full from the first record on": (
        ["--sut", "kafka", *setting("topic_settings", {"preallocate": "true"})],
        "topic_settings: a run may not set preallocate … too large to be copied",
    ),
    "idempotent without acks": (["--set", "acks=1"], "acks=all"),
    "unknown isolation": (["--set", "isolation=serializable"], "isolation … read_committed"),
    "isolation as a number": (["--set", "isolation=7"], "isolation"),
    "min.insync.replicas of 7": (["--set", "min_insync_replicas=7"], "min_insync_replicas 7"),
    "commit of another workload": (["--set", "commit=after"], "commit … after … copier … queue"),
    "preset of another workload": (["--preset", "at-most-once", "--workload", "groups"], "before … groups"),
    "sink of another workload": (["--set", "sink=plain"], "sink"),
    "unknown sink": (["--set", "sink=kitchen"], "sink"),
    "two controllers": (["--set", "controllers=2"], "controllers"),
    "partitions of text": (["--set", "partitions=many"], "partitions"),
    "partitions as a list": (setting("partitions", [3]), "partitions"),
    "a batch of nothing": (setting("batch_max", None), "batch_max"),
    "record too small": (["--set", "record_size=1"], "record_size"),
    "abort share of two": (["--set", "abort_share=2"], "abort_share"),
    "unknown era": (["--sut", "simulated", "--set", "era=9.9"], "9.9"),
    "era on kafka": (["--set", "era=2.4"], "era=2.4"),
    "unknown mutant": (["--sut", "simulated", "--set", "mutant=spider"], "spider"),
    "unknown anomaly to expect": (setting("expect", ["nope"]), "nope"),
    "anomaly to expect, as text": (
        ["--set", "expect=lost-write"],
        'expect: a list is wanted, as ["lost-write"]',
    ),
    "nested settings": (["--set", f"client_settings={DEEP}"], "nested too deeply"),
    "nested seed": (["--set", f"seed={DEEP}"], "nested too deeply"),
    "client settings as a list": (setting("client_settings", []), "client_settings"),
    "client setting as a list": (setting("client_settings", {"linger.ms": [1]}), "client_settings.linger.ms"),
    "a plugin": (setting("client_settings", {"plugin.library.paths": "/tmp/x.so"}), "plugin.library.paths"),
    "a mock cluster": (setting("client_settings", {"test.mock.num.brokers": "3"}), "test.mock.num.brokers"),
    "errors alone": (
        setting("client_settings", {"producer.delivery.report.only.error": "true"}),
        "delivery.report.only.error",
    ),
    "a callback": (setting("client_settings", {"dr_cb": "print"}), "dr_cb"),
    "acks as a client setting": (setting("client_settings", {"acks": "1"}), "`acks` decides"),
    "a misspelt client setting": (setting("client_settings", {"linger.mss": "1"}), "linger.mss"),
    "a client setting without a name": (setting("client_settings", {"": "1"}), "client_settings"),
    "a client setting of two lines": (setting("client_settings", {"linger.ms": "1\n2"}), "linger.ms"),
    "linger in words": (setting("client_settings", {"linger.ms": "soon"}), "linger.ms"),
    "an unknown codec": (setting("client_settings", {"compression.type": "zip"}), "zip"),
    "an unknown reset": (setting("client_settings", {"auto.offset.reset": "never"}), "never"),
    "a password": (setting("client_settings", {"sasl.password": "x"}), "sasl.password"),
    "a listener": (setting("broker_settings", {"listeners": "A://:1"}), "listeners"),
    "a class": (setting("broker_settings", {"authorizer.class.name": "a.B"}), "authorizer.class.name"),
    "a broker setting of two lines": (setting("broker_settings", {"num.io.threads": "1\nx=y"}), "num.io"),
    "a broker setting that continues": (setting("broker_settings", {"num.io.threads": "1\\"}), "num.io"),
    "a broker setting of a number": (setting("broker_settings", {"num.io.threads": 1}), "num.io.threads"),
    "a broker setting of no broker": (
        ["--sut", "model", *setting("broker_settings", {"num.io.threads": "1"})],
        "num.io.threads",
    ),
    "topic settings of two lines": (setting("topic_settings", {"cleanup.policy": "a\nb"}), "cleanup.policy"),
}
SOAK: dict[str, tuple[list[str], str]] = {
    "budget in words": (["--budget", "long"], "--budget … long … 30m"),
    "empty budget": (["--budget", ""], "--budget"),
    "no budget": (["--budget", "0s"], "--budget"),
    "budget without end": (["--budget", "99999999999999999999h"], "--budget"),
    "budget of a century": (["--budget", "999999h"], "--budget"),
    "negative budget": (["--budget", "-5m"], "--budget"),
    "budget in other digits": (["--budget", "²h"], "--budget"),
    "half a budget": (["--budget", "1.5h"], "--budget"),
    "budget for nothing": (["--budget", "3s"], "3 s … no room for the canary"),
    "seed in words": (["--seed", "lucky"], "--seed"),
    "matrix that is missing": (["--matrix", "none"], "matrix none cannot be read: No such file or directory"),
    "matrix that is a folder": (["--matrix", "."], "cannot be read"),
    "matrix of bytes": (["--matrix", "binary"], "binary"),
    "matrix of nothing": (["--matrix", "file"], "presets"),
    "results in a file": (["--results", "file"], "file"),
    "master of nothing": (["--master", "nope://x"], "nope://x"),
}
MATRIX: dict[str, tuple[str, str]] = {
    "no TOML": ("= = =", "not valid TOML"),
    "a key twice": ('presets = ["safe"]\npresets = ["safe"]', "not valid TOML"),
    "unknown key": ('presets = ["safe"]\ncanary = "acks1"\ncolour = "blue"', "colour"),
    "nothing to draw from": ('canary = "acks1"', "presets"),
    "unknown preset": ('presets = ["reckless"]\ncanary = "acks1"', "reckless"),
    "unknown workload": ('presets = ["safe"]\ncanary = "acks1"\nworkloads = ["juggling"]', "juggling"),
    "unknown nemesis": ('presets = ["safe"]\ncanary = "acks1"\nnemeses = ["earthquake"]', "earthquake"),
    "a misspelt key, one that is missing for it, another one that is": (
        'preset = ["safe"]',
        "unknown field 'preset' (did you mean 'presets'?); presets is required; canary is required",
    ),
    "a misspelt key of a rule": (
        'presets = ["safe"]\ncanary = "acks1"\n[[exclude]]\nworkloads = "queue"',
        "unknown field 'exclude.0.workloads' (did you mean 'workload'?)",
    ),
    "nemeses as a word": (
        'presets = ["safe"]\ncanary = "acks1"\nnemeses = "kill"',
        'nemeses: a list is wanted, as ["kill"]',
    ),
    "a canary that is a number": ('presets = ["safe"]\ncanary = 3', "canary: a text is wanted"),
    "a misspelt workload": (
        'presets = ["safe"]\ncanary = "acks1"\nworkloads = ["queu"]',
        "matrix.toml, at queu x none x safe: unknown workload 'queu'; did you mean 'queue'?",
    ),
    "no presets": ('presets = []\ncanary = "acks1"', "presets"),
    "presets as a number": ('presets = 3\ncanary = "acks1"', "presets"),
    "canary that expects nothing": ('presets = ["safe"]\ncanary = "safe"', "cannot be a canary"),
    "unknown canary": ('presets = ["safe"]\ncanary = "tit"', "tit"),
    "weight of nothing": ('presets = ["safe"]\ncanary = "acks1"\nweights = { safe = 0 }', "weights"),
    "weight of a stranger": ('presets = ["safe"]\ncanary = "acks1"\nweights = { x = 1 }', "weights"),
    "weight that is no number": ('presets = ["safe"]\ncanary = "acks1"\nweights = { safe = nan }', "weights"),
    "exclude of nothing": ('presets = ["safe"]\ncanary = "acks1"\n[[exclude]]', "exclude"),
    "exclude that matches nothing": (
        'presets = ["safe"]\ncanary = "acks1"\n[[exclude]]\npreset = "unclean"',
        "matrix.toml: exclude matches nothing",
    ),
    "accept of an unknown bug": ('presets = ["safe"]\ncanary = "acks1"\naccept = { X = "y" }', "accept"),
    "accept without a reason": (
        'presets = ["safe"]\ncanary = "acks1"\naccept = { KAFKA-17754 = "" }',
        "KAFKA-17754",
    ),
    "a seed among settings": ('presets = ["safe"]\ncanary = "acks1"\nsettings = { seed = 1 }', "seed"),
    "an unknown setting": ('presets = ["safe"]\ncanary = "acks1"\nsettings = { colour = 1 }', "colour"),
    "an anomaly to expect": ('presets = ["safe"]\ncanary = "acks1"\nsettings = { expect = [] }', "expect"),
    "a plugin": (
        'presets = ["safe"]\ncanary = "acks1"\n[settings.client_settings]\n"plugin.library.paths" = "x"',
        "plugin.library.paths",
    ),
    "no topologies": ('presets = ["safe"]\ncanary = "acks1"\ntopologies = []', "topologies"),
    "a topology that fails": (
        'presets = ["safe"]\ncanary = "acks1"\ntopologies = [{ brokers = 1 }]',
        "replication_factor",
    ),
    "an explicit run without a seed that works": (
        'presets = ["safe"]\ncanary = "acks1"\n[[runs]]\nworkload = "queue"\nnemesis = "none"\n'
        'preset = "safe"\nseed = -1',
        "seed",
    ),
    "an explicit run of an unknown nemesis": (
        'presets = ["safe"]\nnemeses = ["none"]\ncanary = "acks1"\n[[runs]]\nworkload = "queue"\n'
        'nemesis = "moon"\npreset = "safe"',
        "moon",
    ),
    "a date": ('presets = ["safe"]\ncanary = "acks1"\nsettings = { rate = 2026-01-01 }', "rate"),
}
OTHERS: dict[str, tuple[list[str], str]] = {
    "no such command": (["judge"], "judge"),
    "import into an empty name": (["recording", "import", "jsonl", "file", "--results", ""], "--results is"),
    "queries over an empty name": (["sql", "SELECT 1", "--results", ""], "--results is empty"),
    "queries over no run": (["sql", "SELECT 1", "--results", "none"], "none: no run folder is there"),
    "a misspelt command": (["chekc"], "chekc"),
    "reproduce of an unknown bug": (["bugs", "reproduce", "KAFKA-1"], "KAFKA-1"),
    "reproduce of an escape": (["bugs", "reproduce", "\x1b]0;x\x07"], "unknown bug"),
    "reproduce no run": (["bugs", "reproduce", "kafka-17754-commit", "--runs", "0"], "--runs"),
    "reproduce on an old version": (["bugs", "reproduce", "kafka-17754-commit", "--kafka", "2.0.0"], "2.0.0"),
    "reproduce on a word": (["bugs", "reproduce", "kafka-17754-commit", "--kafka", "../x"], "--kafka"),
    "reproduce by another death": (["bugs", "reproduce", "uncommitted-abort", "--deaths", "x"], "'x'"),
    "reproduce without a coordinator": (["bugs", "reproduce", "acks1", "--deaths", "shutdown"], "takes kill"),
    "reproduce into a file": (
        ["bugs", "reproduce", "kafka-17754-commit", "--results", "file"],
        "cannot be written",
    ),
    "reproduce with a word too many": (["bugs", "reproduce", "kafka-17754-commit", "twice"], "twice"),
    "contract with a banana": (["model", "contract", "--kafka", "banana"], "banana"),
    "contract with two numbers": (["model", "contract", "--kafka", "4.3"], "4.3"),
    "contract with an old version": (["model", "contract", "--kafka", "3.5.0"], "3.6"),
    "contract with 5000 digits": (["model", "contract", "--kafka", "9" * 5000], "--kafka"),
    "contract with no version": (["model", "contract", "--kafka", " "], "--kafka"),
    "contract without requests": (["model", "contract", "--requests", "0"], "--requests"),
    "contract with requests in words": (["model", "contract", "--requests", "many"], "--requests"),
    "contract with an unknown system": (["model", "contract", "--sut", "simulated"], "simulated"),
    "contract with held messages of the model": (["model", "contract", "--held", "--sut", "model"], "--held"),
    "contract with held messages of old brokers": (
        ["model", "contract", "--held", "--kafka", "3.8.1"],
        "cannot stand behind proxies",
    ),
    "contract with a seed in words": (["model", "contract", "--seed", "x"], "--seed"),
    "contract into a file": (["model", "contract", "--results", "file"], "cannot be written"),
    "explore no seed": (["model", "explore", "--seeds", "0"], "seeds"),
    "explore less than no seed": (["model", "explore", "--seeds", "-3"], "seeds"),
    "explore seeds in words": (["model", "explore", "--seeds", "all"], "--seeds"),
    "explore from before the first": (["model", "explore", "--first", "-1"], "first"),
    "explore beyond the last": (["model", "explore", "--first", str(2**63)], "2^63"),
    "explore an unknown mutant": (["model", "explore", "--mutants", "spider"], "spider"),
    "explore no mutant by an empty name": (["model", "explore", "--mutants", ""], "mutant"),
    "explore mutants with a gap": (["model", "explore", "--mutants", "keep-tail,,x"], "mutant"),
    "explore an unknown era": (["model", "explore", "--era", "9.9"], "9.9"),
    "explore without processes": (["model", "explore", "--processes", "0"], "processes"),
    "explore with a million processes": (["model", "explore", "--processes", "1000000"], "processes"),
    "explore on no master": (["model", "explore", "--master", "nope://x"], "nope://x"),
    "explore on two": (["model", "explore", "--master", "local[2]", "--processes", "2"], "processes"),
    "setup of a banana": (["setup", "--kafka", "banana"], "banana"),
    "setup of an old version": (["setup", "--kafka", "2.3.1"], "2.3.1"),
    "setup of a path": (["setup", "--kafka", "../../x"], "three numbers"),
    "setup of an upgrade to itself": (["setup", "--kafka", "4.3.1", "--upgrade", "4.3.1"], "after 4.3.1"),
    "setup of an upgrade to a path": (["setup", "--upgrade", "../x"], "three numbers"),
    "setup of a word": (["setup", "everything"], "everything"),
    "doctor of a word": (["doctor", "who"], "who"),
    "doctor with an option": (["doctor", "--fix"], "--fix"),
    "doctor of no cluster of mine": (["doctor", "--owned"], "--cluster"),
    "a run folder as JSON": (["check", "x", "--json"], "--history"),
    "package into nothing": (["spark-package"], "folder"),
    "package into a file": (["spark-package", "file"], "file"),
    "package below a file": (["spark-package", "file/below"], "file/below"),
    "package into a name of 5000 letters": (["spark-package", "x" * 5000], "cannot be written"),
    "package of two": (["spark-package", "a", "b"], "b"),
    "an unknown list": (["list", "recipes"], "recipes"),
    "a misspelt list": (["list", "presests"], "'presests'; did you mean 'presets'? lists: "),
    "a misspelt entry of a list": (["list", "kil"], "'kil'; did you mean 'kill'? lists: "),
    "an unknown case of a client": (
        ["client-test", "/bin/true", "--case", "fence"],
        "no case 'fence'; did you mean 'fenced'? known: acknowledged",
    ),
    "two lists": (["list", "presets", "checks"], "checks"),
    "a list of an escape": (["list", "\x1b[31m"], "no list and no entry"),
    "serve a file": (["serve", "--results", "file"], "file"),
    "serve what is missing": (["serve", "--results", "none"], "none"),
    "serve on a large port": (
        ["serve", "--port", "65536", "--results", "."],
        "--port 65536: a port is 0 to 65535",
    ),
    "serve on a negative port": (["serve", "--port", "-1", "--results", "."], "-1"),
    "serve on a port in words": (["serve", "--port", "http"], "--port"),
    "serve on a port that does not fit": (["serve", "--port", "9" * 40, "--results", "."], "port"),
    "serve a name that is too long": (["serve", "--results", "n" * 5000], "results folder"),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("words", "said"), RUN.values(), ids=RUN)
def test_run(words: list[str], said: str) -> None:
    refused(["run", *words], said=said.split(" … "))


@pytest.mark.sampled(24)
@pytest.mark.parametrize(("words", "said"), SOAK.values(), ids=SOAK)
def test_soak(words: list[str], said: str) -> None:
    refused(["soak", "--results", "results", *words], said=said.split(" … "))


@pytest.mark.parametrize(("text", "said"), MATRIX.values(), ids=MATRIX)
def test_the_matrix_of_a_soak(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "matrix.toml").write_text(text)
    refused(["soak", "--results", "results", "--matrix", tmp_path / "matrix.toml"], said=["matrix", said])


@pytest.mark.parametrize(("words", "said"), OTHERS.values(), ids=OTHERS)
def test_other_commands(words: list[str], said: str) -> None:
    refused(words, said=[said])


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        refused(["serve", "--results", ".", "--port", str(other.getsockname()[1])], said=["in use"])


def test_a_master_that_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    refused(["run", "--master", f"spark://127.0.0.1:{port}"], code=70, said=["no Spark master answers"])


def test_there_are_many() -> None:
    assert len(RUN) + len(SOAK) + len(MATRIX) + len(OTHERS) > 180


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("import", "recording import"),
        ("export", "recording export"),
        ("replay", "recording replay"),
        ("shrink", "recording shrink"),
        ("explore", "model explore"),
        ("contract", "model contract"),
        ("reproduce", "bugs reproduce"),
    ],
)
def test_a_command_that_has_moved_answers_with_its_new_name(old: str, new: str) -> None:
    refused([old, "--seeds", "1"], said=[f"`inquest {old}` is now `inquest {new}`"])


@pytest.mark.parametrize("words", [(), ("recording",), ("model",), ("bugs",)])
def test_no_command_at_all_is_helped(words: tuple[str, ...]) -> None:
    assert "Usage: " in refused(words, said=["inquest: give a command"]).out
