"""The file of a cluster: what it may say, and what is refused with which words."""

from pathlib import Path

import pytest

from core.capabilities import Killable, Partitionable, Pausable, Restartable, Revivable
from core.cluster import SecurityProtocol
from core.config import Application
from core.errors import ConfigError
from core.secrets import HIDDEN
from harness.external import hooks
from harness.external.file import PODS_S, ClusterFile, Secured, read
from harness.external.means import commands

PLAIN = '[cluster]\nbootstrap = "here:9092"\n'
SECRET = "open sesame"


def written(folder: Path, text: str) -> Path:
    path = folder / "cluster.toml"
    path.write_text(text)
    return path


def file(folder: Path, text: str) -> ClusterFile:
    return read(written(folder, text))


BAD: dict[str, tuple[str, str]] = {
    "empty": ("", "cluster is missing"),
    "no TOML": ("bootstrap: here", "not TOML"),
    "binary": ("\x00", "not TOML"),
    "no bootstrap": ("[cluster]\n", "cluster.bootstrap is missing"),
    "no port": ('[cluster]\nbootstrap = "here"\n', "cluster.bootstrap: 'here' is not host:port"),
    "a port of no machine": ('[cluster]\nbootstrap = "here:99999"\n', "'here:99999' is not host:port"),
    "an empty address": ('[cluster]\nbootstrap = "here:1,"\n', "'' is not host:port"),
    "a typing error": (PLAIN + 'prefx = "x"\n', "unknown setting cluster.prefx; did you mean prefix?"),
    "another table": (PLAIN + "[clients]\n", "unknown setting clients; did you mean client?"),
    "no prefix": (PLAIN + 'prefix = ""\n', "prefix"),
    "a prefix that Kafka refuses": (PLAIN + 'prefix = "my topics"\n', "prefix"),
    "a prefix of internal topics": (PLAIN + 'prefix = "__x"\n', "prefix"),
    "an unknown profile": (PLAIN + 'profile = "nats"\n', "cluster.profile: Input should be 'kafka'"),
    "a node without a number": (PLAIN + 'docker = { one = "k" }\n', "a node's number, .* and not 'one'"),
    "two names of nodes": (PLAIN + 'docker = { 1 = "k" }\nnodes = { 1 = "k" }\n', "give one"),
    "a controller without a name": (PLAIN + "controllers = [4]\n", "node 4 has no name"),
    "logs of no container": (PLAIN + 'log_dirs = "/x"\n', "it belongs to a shorthand"),
    "pods and containers": (PLAIN + 'docker = { 1 = "k" }\nkubernetes = "a/b=c"\n', "each names the nodes"),
    "a namespace alone": (PLAIN + 'kubernetes = "kafka"\n', """'kafka' is not "namespace/label\""""),
    "a label alone": (PLAIN + 'kubernetes = "/app=kafka"\n', """is not "namespace/label\""""),
    "a namespace that is none": (PLAIN + 'kubernetes = "-A/app=k"\n', "kubernetes.namespace: .* pattern"),
    "a label that is an option": (PLAIN + 'kubernetes = "k/--all"\n', "kubernetes.label: .* pattern"),
    "neither label nor pods": (PLAIN + 'kubernetes = { namespace = "k" }\n', "kubernetes: label and pods"),
    "label and pods": (
        PLAIN + 'kubernetes = { namespace = "k", label = "a=b", pods = { 1 = "k-1" } }\n',
        "label and pods: each says which pods are nodes; give one",
    ),
    "an offset of pods": (
        PLAIN + 'kubernetes = { namespace = "k", offset = 1, pods = { 1 = "k-1" } }\n',
        "offset: it belongs to a label",
    ),
    "a pod without a number": (
        PLAIN + 'kubernetes = { namespace = "k", pods = { one = "k-1" } }\n',
        "a node's number, .* and not 'one'",
    ),
    "a pod that is an option": (
        PLAIN + 'kubernetes = { namespace = "k", pods = { 1 = "--all" } }\n',
        "'--all' is not what a pod is called",
    ),
    "a typing error about pods": (
        PLAIN + 'kubernetes = { namespace = "k", lable = "a=b" }\n',
        "unknown setting cluster.kubernetes.lable; did you mean label?",
    ),
    "an unknown hook": (PLAIN + '[hooks]\nkil = "x"\n', "unknown setting hooks.kil; did you mean kill?"),
    "a deadline of nothing": (PLAIN + "[hooks]\ndeadline_s = 0\n", "hooks.deadline_s: .* greater than 0"),
    "a secret in the file": (
        f'{PLAIN}[client]\nsasl.password = "{SECRET}"\n',
        r'sasl.password is a secret: name a variable .* sasl.password = "\$NAME"',
    ),
    "a key's password in the file": (f'{PLAIN}[client]\n"ssl.key.password" = "{SECRET}"\n', "is a secret"),
    "an unknown setting of clients": (
        PLAIN + '[client]\nsasl.user = "x"\n',
        "client: sasl.user: did you mean sasl.username?",
    ),
    "code in clients": (
        PLAIN + '[client]\nplugin.library.paths = "x"\n',
        "a run cannot set it here; known: ",
    ),
    "an unknown protocol": (
        PLAIN + '[client]\nsecurity.protocol = "TLS"\n',
        "security.protocol: one of PLAIN",
    ),
    "an application without a command": (PLAIN + "[app]\n", "app.command is missing"),
    "an unknown setting of it": (
        PLAIN + '[app]\ncommand = "x"\nouts = "x"\n',
        "unknown setting app.outs; did you mean out?",
    ),
    "two places of its output": (
        PLAIN + '[app]\ncommand = "x"\nout = "x"\neffects = "y"\n',
        "app: the output is a topic, or effects: one of the two",
    ),
    "a topic that is none": (PLAIN + '[app]\ncommand = "x"\nin = "a/b"\n', "app: in: .* pattern"),
    "an output that is the input": (
        PLAIN + '[app]\ncommand = "x"\nin = "a"\nout = "a"\n',
        "app: input a and output a are one topic",
    ),
    "a shape that is none": (PLAIN + '[app]\ncommand = "x"\nshape = "sieve"\n', "app: shape: .* 'filter'"),
    "outputs of a shape that has none": (
        PLAIN + '[app]\ncommand = "x"\noutputs = 2\n',
        "app: outputs says something of shape flat-map alone",
    ),
    "a list": (PLAIN + "[client]\nsasl.username = []\n", "sasl.username: text, or a number"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_is_none_is_one_sentence(name: str, tmp_path: Path) -> None:
    text, why = BAD[name]
    with pytest.raises(ConfigError, match=why) as error:
        file(tmp_path, text)
    assert "\n" not in str(error.value)
    assert "cluster.toml" in str(error.value)
    assert SECRET not in str(error.value)


def test_secrets_come_from_the_environment_and_are_hidden(tmp_path: Path) -> None:
    made = file(
        tmp_path,
        PLAIN + '[client]\nsecurity.protocol = "SASL_SSL"\nsasl.mechanism = "PLAIN"\nsasl.username = "u"\n'
        'sasl.password = { env = "PASS" }\nssl.key.password = "$KEY"\nssl.ca.location = "ca.pem"\n'
        "enable.ssl.certificate.verification = false\n",
    )
    its = Secured(made.client, {"PASS": SECRET, "KEY": "k3y"})
    assert its.security.protocol is SecurityProtocol.SASL_SSL
    assert dict(its.security.settings) == {
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": SECRET,
        "ssl.key.password": "k3y",
        "ssl.ca.location": "ca.pem",
        "enable.ssl.certificate.verification": "false",
    }
    assert its.without_secrets(f"a {SECRET}, b k3y") == f"a {HIDDEN}, b {HIDDEN}"
    assert SECRET not in repr(made) + repr(its) + made.model_dump_json()
    with pytest.raises(ConfigError, match=r"sasl\.password: the variable PASS is not set"):
        Secured(made.client, {"KEY": "k3y"})


def test_a_secret_that_begins_with_another_one_is_hidden_as_a_whole() -> None:
    its = Secured({"sasl.username": "$U", "sasl.password": "$P"}, {"U": "kafka", "P": "kafka-k3y"})
    assert its.without_secrets("kafka kafka-k3y") == f"{HIDDEN} {HIDDEN}"


@pytest.mark.parametrize(
    ("text", "has"),
    [
        ("", set()),
        ('kill = "x"\n', set()),
        ('revive = "x"\n', set()),
        ('kill = "x"\nrevive = "x"\n', {Killable, Revivable}),
        ('shut_down = "x"\nrevive = "x"\n', {Restartable, Revivable}),
        ('pause = "x"\nrevive = "x"\n', set()),
        ('pause = "x"\nresume = "x"\n', {Pausable}),
        ('cut = "x"\nmend = "x"\n', {Partitionable}),
    ],
)
def test_a_capability_is_there_where_both_hooks_are(text: str, has: set[type], tmp_path: Path) -> None:
    made = file(tmp_path, f"{PLAIN}[hooks]\n{text}")
    assert hooks.capabilities(commands(made)) == has


def test_the_shorthand_gives_hooks_and_the_files_own_win(tmp_path: Path) -> None:
    text = PLAIN + 'docker = { 1 = "k1" }\nlog_dirs = "/data"\n[hooks]\nkill = "mine"\n'
    made = commands(file(tmp_path, text))
    assert made["kill"] == "mine"
    assert "docker cp" in made["collect"]
    assert hooks.capabilities(made) - {Partitionable} == {Killable, Restartable, Revivable, Pausable}


def test_a_file_may_name_an_application(tmp_path: Path) -> None:
    app = file(tmp_path, PLAIN + '[app]\ncommand = "./run"\nin = "orders"\nout = "bills"\n').app
    assert app is not None
    assert app.section == Application(input="orders", output="bills")
    app = file(tmp_path, PLAIN + '[app]\ncommand = "./run"\neffects = "./list"\n').app
    assert app is not None
    assert app.section == Application(output="", effects=True)
    text = '[app]\ncommand = "./run"\nshape = "flat-map"\noutputs = 2\ngroup = "bills"\n'
    app = file(tmp_path, PLAIN + text).app
    assert app is not None
    assert app.section == Application(shape="flat-map", outputs=2, group="bills")


@pytest.mark.parametrize("path", sorted(Path("examples/clusters").glob("*.toml")), ids=lambda path: path.name)
def test_ready_files_can_be_read_and_are_listed(path: Path) -> None:
    made = read(path)
    assert made.cluster.prefix == "inquest-"
    assert f"(../{path})" in Path("docs/external.md").read_text()


@pytest.mark.parametrize(
    ("text", "deadline_s"),
    [
        ("", 30),
        ('docker = { 1 = "k" }\n', 30),
        ('kubernetes = "kafka/app=kafka"\n', PODS_S),
        ('kubernetes = "kafka/app=kafka"\n[hooks]\ndeadline_s = 30\n', 30),
    ],
)
def test_hooks_of_pods_have_longer_where_the_file_does_not_say(
    text: str, deadline_s: float, tmp_path: Path
) -> None:
    assert file(tmp_path, PLAIN + text).deadline_s == deadline_s
