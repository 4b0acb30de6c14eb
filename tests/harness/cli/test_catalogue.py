"""What is allowed where, and that registry, sentences, checks and documentation fit together."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from checkers.catalogue import ANOMALIES, INFORMATIONAL, allowed
from checkers.checks import CHECKS
from checkers.known_bugs import KNOWN_BUGS
from checkers.logs.classes import CLASSES
from checkers.verdict import exit_code
from core.client_settings import ProducerConfig, effective
from core.config import PRESETS, RunConfig
from harness.kafka.client.settings import LIBRDKAFKA
from history.verdict import Fault
from tests.oracle import anomalies
from workloads.registry import WORKLOADS

DOCS = Path(__file__).parents[3] / "docs" / "checks.md"
UNCLEAN = {"unclean_leader_election": True}
PLAIN = {"idempotent": False}
SERIAL = {**PLAIN, "client_settings": {"producer.max.in.flight": "1"}}
ONCE = {**PLAIN, "client_settings": {"retries": "0"}}


def is_allowed(name: str, variant: str = "", settings: dict[str, Any] | None = None, *faults: str) -> bool:
    """A fault of kind `one` hits node 1 only, every other one hits nodes 1 to 3."""
    config = RunConfig(seed=1, **(settings or {}))
    hit = [
        Fault(
            fault=n, name=fault, text="", nodes=[1] if ":one" in fault else [1, 2, 3], begin_s=0.0,
            end_s=1.0, colour="",
        )
        for n, fault in enumerate(faults)
    ]  # fmt: skip
    return allowed(config, hit, producers(config), name, variant)[0]


def producers(config: RunConfig) -> list[ProducerConfig]:
    """What the producers of a workload would work with."""
    made = [effective(spec, LIBRDKAFKA).producer for spec in WORKLOADS["queue"].plans(config)]
    return [one for one in made if one is not None]


@pytest.mark.parametrize(
    ("name", "variant", "settings", "faults", "expected"),
    [
        ("lost-write", "all", {}, (), False),
        ("lost-write", "all", {}, ("kill:all", "partition:ring"), False),
        ("lost-write", "all", {"min_insync_replicas": 1}, ("kill",), False),
        ("lost-write", "1", {}, (), True),
        ("lost-write", "0", {}, (), True),
        ("lost-write", "all", UNCLEAN, (), True),
        ("lost-write", "all", {"topic_settings": {"unclean.leader.election.enable": "true"}}, (), True),
        ("lost-write", "all", {"broker_settings": {"unclean.leader.election.enable": "True"}}, (), True),
        ("lost-write", "all", {"broker_settings": {"unclean.leader.election.enable": "False"}}, (), False),
        ("lost-write", "all", {}, ("power:all",), True),
        ("duplicate", "1", {}, (), False),
        ("duplicate", "0", PLAIN, (), True),
        ("duplicate", "0", ONCE, (), False),
        ("duplicate", "0", SERIAL, (), True),
        ("nonmonotonic-send", "1", {}, (), False),
        ("nonmonotonic-send", "0", PLAIN, (), True),
        ("nonmonotonic-send", "0", SERIAL, (), False),
        ("nonmonotonic-send", "0", PRESETS["safe-legacy"], (), False),
        ("nonmonotonic-send", "abandoned", SERIAL, (), True),
        ("int-nonmonotonic-send", "abandoned", ONCE, (), True),
        ("nonmonotonic-send", "weak", {**SERIAL, "acks": 1}, (), True),
        ("int-nonmonotonic-send", "0", ONCE, (), False),
        ("int-nonmonotonic-send", "1", UNCLEAN, (), True),
        ("offset-realtime-inversion", "all", {}, (), False),
        ("offset-realtime-inversion", "1", {}, (), True),
        ("offset-realtime-inversion", "all", UNCLEAN, (), True),
        ("inconsistent-offsets", "reads", {}, (), False),
        ("inconsistent-offsets", "reads", UNCLEAN, (), True),
        ("inconsistent-offsets", "ack 1", {}, (), True),
        ("inconsistent-offsets", "ack all", {}, (), False),
        *(("aborted-read", "rc", settings, faults, expected) for settings, faults, expected in (
            ({}, ("kill:all",), False), (UNCLEAN, (), True), ({}, ("power:all",), True),
            ({}, ("power:one", "power:one@leader"), False),
            ({"min_insync_replicas": 1}, ("power:one",), True))),
        ("aborted-read", "ru", {}, (), True),
        ("aborted-read", "unsent", UNCLEAN, (), False),
        ("precommitted-read", "rc", {}, (), False),
        ("precommitted-read", "ru", {}, (), True),
        ("poll-skip", "", {}, (), False),
        ("int-nonmonotonic-poll", "", {}, (), False),
        ("nonmonotonic-poll", "", UNCLEAN, (), True),
        ("eos-duplicate", "", {}, ("kill:all",), False),
        ("eos-duplicate", "", {"commit": "before"}, (), False),
        ("eos-duplicate", "", {"commit": "after"}, (), True),
        ("eos-duplicate", "", {"isolation": 0}, (), True),
        ("eos-loss", "", {"isolation": 0}, (), False),
        ("offset-commit-regression", "", {"commit": "after"}, (), False),
        ("offset-commit-regression", "", UNCLEAN, (), True),
        ("phantom-commit", "", {}, ("kill:all",), False),
        ("phantom-commit", "", UNCLEAN, (), True),
        ("double-assignment", "", {}, ("kill:all",), False),
        ("double-assignment", "", UNCLEAN, (), True),
        ("eos-loss", "", {}, ("client:crash",), False),
        ("eos-loss", "", {"commit": "after"}, (), False),
        ("eos-loss", "", {"commit": "before"}, (), True),
        ("group-skip", "auto", {}, (), True),
        *((name, "", {"commit": commit}, (), False) for commit in ("transaction", "after", "before")
          for name in ("group-duplicate", "group-skip", "zombie-write")),
        *((name, variant, settings, faults, True)
          for name, variant in (("eos-duplicate", ""), ("eos-loss", ""), ("group-duplicate", ""),
                                ("group-skip", ""), ("zombie-write", "committed"), ("torn-txn", ""),
                                ("stuck-lso", ""), ("hanging-txn", ""))
          for settings, faults in ((UNCLEAN, ()), ({}, ("power:all",)))),
        *((name, "", {"min_insync_replicas": 1}, ("kill:all", "partition"), False) for name in (
            "torn-txn", "stuck-lso", "hanging-txn")),
        *((name, "", {**UNCLEAN, **PLAIN, "commit": "after"}, ("power",), False) for name in (
            "phantom-read", "corrupt-record", "misdirected-record", "unseen", "G1c", "G1c-realtime",
            "not-recovered")),
        *((name, "", {}, (), True) for name in sorted(INFORMATIONAL)),
    ],
)  # fmt: skip
def test_what_is_allowed(
    name: str, variant: str, settings: dict[str, Any], faults: tuple[str, ...], expected: bool
) -> None:
    assert is_allowed(name, variant, settings, *faults) is expected


def test_every_answer_says_why() -> None:
    for name in ANOMALIES:
        for variant in ("", "0", "1", "all", "rc", "ru", "reads", "ack 1", "auto", "commit"):
            for settings in ({}, UNCLEAN, SERIAL, {"commit": "after"}, {"commit": "before"}):
                config = RunConfig(seed=1, **settings)
                why = allowed(config, (), (), name, variant)[1]
                assert len(why.split()) > 2


def test_every_class_has_a_rule_in_the_documentation_and_a_check() -> None:
    text = DOCS.read_text()
    claimed = [name for check in CHECKS.values() for name in check.anomalies]
    assert sorted([*claimed, *CLASSES]) == sorted(ANOMALIES)
    assert set(anomalies.CLASSES) | {"not-recovered"} == set(claimed)
    for name in ANOMALIES:
        assert f"**{name}" in text, name


def test_a_module_is_named_as_its_check() -> None:
    for name, check in CHECKS.items():
        module = import_module(f"checkers.checks.{name.replace('-', '_')}")
        assert module.CHECK is check


def test_informational_is_what_is_allowed_everywhere() -> None:
    strict = RunConfig(seed=1)
    everywhere = {name for name in ANOMALIES if allowed(strict, (), (), name, "")[0]}
    assert everywhere == INFORMATIONAL


def test_presets_expect_classes_that_exist() -> None:
    for settings in PRESETS.values():
        assert set(settings.get("expect", ())) <= set(ANOMALIES)


def test_known_bugs_name_classes_that_exist() -> None:
    for bug in KNOWN_BUGS.values():
        assert set(bug.anomalies) <= set(ANOMALIES)


@pytest.mark.parametrize(
    ("forbidden", "unknown", "expect", "interrupted", "code"),
    [
        ((), False, {}, False, 0),
        ((), False, {"lost-write": True}, False, 0),
        ((), True, {}, False, 2),
        ((), True, {"lost-write": False}, False, 4),
        (("not-recovered",), True, {"lost-write": False}, False, 3),
        (("not-recovered", "duplicate"), True, {"lost-write": False}, False, 1),
        (("duplicate",), False, {}, False, 1),
        (("duplicate",), False, {}, True, 130),
    ],
)
def test_exit_codes_have_their_precedence(
    forbidden: tuple[str, ...], unknown: bool, expect: dict[str, bool], interrupted: bool, code: int
) -> None:
    got = exit_code(forbidden=forbidden, unknown=unknown, expect=expect, interrupted=interrupted)
    assert got == code
