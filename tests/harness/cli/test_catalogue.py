"""What is allowed where, and that registry, sentences, checks and documentation fit together."""

from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest

from checkers.allowed import Ground
from checkers.catalogue import ANOMALIES, INFORMATIONAL, allowed
from checkers.checks import CHECKS
from checkers.engine.findings import Kind
from checkers.known_bugs.registry import KNOWN_BUGS
from checkers.logs.classes import CLASSES
from checkers.verdict.judged_run import exit_code
from checkers.windows import Excuse
from core.config import RunConfig
from core.errors import ConfigError
from core.presets import PRESETS
from harness.cli.catalogue import details, lists
from model.eras import ERAS
from model.mutants.registry import PLANTED
from tests.oracle import anomalies

DOCS = Path(__file__).parents[3] / "docs" / "checks.md"


def is_allowed(name: str, variant: str = "", excuse: str = "", **settings: Any) -> bool:
    return allowed(RunConfig(seed=1, **settings), Kind(name, variant, Excuse(excuse)))[0]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "variant", "excuse", "settings", "expected"),
    [
        ("lost-write", "all", "", {}, False),
        ("lost-write", "all", "", {"unclean_leader_election": True}, False),  # nothing that may have led
        ("lost-write", "all", "unclean", {}, True),
        ("lost-write", "all", "power", {}, True),
        ("lost-write", "1", "", {}, False),
        ("lost-write", "1", "leader", {}, True),
        ("lost-write", "1", "power", {}, True),
        ("lost-write", "read", "leader", {}, False),
        ("lost-write", "read", "unclean", {}, True),
        ("lost-write", "0", "", {}, True),
        *(("lost-write", "hole", excuse, {}, False) for excuse in ("", "unclean", "power", "leader")),
        ("duplicate", "1", "", {}, False),
        ("duplicate", "retries", "", {}, True),
        ("duplicate", "0", "", {}, False),
        ("duplicate", "1", "unclean", {}, True),
        ("nonmonotonic-send", "1", "", {}, False),
        ("nonmonotonic-send", "pipelined", "", {}, True),
        ("nonmonotonic-send", "0", "", {}, False),
        ("nonmonotonic-send", "abandoned", "", {}, True),
        ("int-nonmonotonic-send", "abandoned", "", {}, True),
        ("nonmonotonic-send", "acks 0", "", {}, True),
        ("nonmonotonic-send", "acks 1", "", {}, False),
        ("nonmonotonic-send", "acks 1", "leader", {}, True),
        ("int-nonmonotonic-send", "acks 1", "power", {}, True),
        ("int-nonmonotonic-send", "0", "leader", {}, False),
        ("int-nonmonotonic-send", "0", "", {}, False),
        ("int-nonmonotonic-send", "1", "unclean", {}, True),
        ("offset-realtime-inversion", "all", "", {}, False),
        ("offset-realtime-inversion", "1", "", {}, False),
        ("offset-realtime-inversion", "1", "leader", {}, True),
        ("offset-realtime-inversion", "all", "unclean", {}, True),
        ("inconsistent-offsets", "reads", "", {}, False),
        ("inconsistent-offsets", "reads", "leader", {}, False),
        ("inconsistent-offsets", "reads", "unclean", {}, True),
        ("inconsistent-offsets", "ack 1", "", {}, False),
        ("inconsistent-offsets", "ack 1", "leader", {}, True),
        ("inconsistent-offsets", "ack all", "leader", {}, False),
        ("aborted-read", "rc", "", {}, False),
        ("aborted-read", "rc", "unclean", {}, True),
        ("aborted-read", "rc", "power", {}, True),
        ("aborted-read", "ru", "", {}, True),
        ("aborted-read", "unsent", "unclean", {}, False),
        ("aborted-read", "unsent", "away", {}, False),
        *((name, variant, "away", {}, True) for name, variant in (
            ("aborted-read", "rc"), ("stuck-lso", ""), ("hanging-txn", ""), ("resurrected-key", ""))),
        *((name, "", "away", {}, False) for name in ("torn-txn", "eos-loss", "zombie-write", "lost-write")),
        ("precommitted-read", "rc", "", {}, False),
        ("precommitted-read", "ru", "", {}, True),
        ("poll-skip", "", "", {}, False),
        ("int-nonmonotonic-poll", "", "", {}, False),
        ("nonmonotonic-poll", "", "unclean", {}, True),
        ("eos-duplicate", "", "", {}, False),
        ("eos-duplicate", "", "", {"commit": "before"}, False),
        ("eos-duplicate", "", "", {"commit": "after"}, True),
        ("eos-duplicate", "", "", {"isolation": 0}, True),
        ("eos-loss", "", "", {"isolation": 0}, False),
        *(("eos-duplicate", "", excuse, {"workload": "sink", "sink": sink},
           sink == "plain" or (sink == "optimistic-lock" and excuse in ("unclean", "power")))
          for sink in ("plain", "unique-id", "offset-in-transaction", "optimistic-lock")
          for excuse in ("", "unclean", "power", "leader")),
        *(("eos-duplicate", "", "", {"workload": "copier", "commit": commit, "kafka": {"version": version}},
           commit not in ("before", "beside") and version == "2.4.1")
          for version in ("2.4.1", "2.5.0")
          for commit in ("transaction", "without-rewind", "before", "beside")),
        *(("eos-duplicate", "", excuse, {"commit": commit, "isolation": isolation},
           commit == "automatic-beside" or bool(excuse))
          for commit in ("beside", "automatic-beside") for isolation in (0, 1) for excuse in ("", "power")),
        ("eos-duplicate", "", "", {"sut": "simulated", "era": "2.4"}, True),
        ("eos-duplicate", "", "", {"sut": "simulated", "era": "3.3"}, False),
        *(("eos-duplicate", "", "", {**elsewhere, "kafka": {"version": "2.4.1"}}, False)
          for elsewhere in ({"workload": "sink"}, {"workload": "application", "app": {}})),
        ("eos-loss", "", "", {"workload": "copier", "kafka": {"version": "2.4.1"}}, False),
        ("offset-commit-regression", "", "", {"commit": "after"}, False),
        ("offset-commit-regression", "", "unclean", {}, True),
        *((name, "", excuse, {}, bool(excuse)) for name in ("phantom-commit", "double-assignment")
          for excuse in ("", "unclean", "power")),
        ("eos-loss", "", "", {}, False),
        ("eos-loss", "", "", {"commit": "after"}, False),
        *(("eos-loss", "", "", {"commit": commit}, True)
          for commit in ("before", "without-rewind", "beside", "automatic", "automatic-beside")),
        *((name, "", "", {"commit": commit}, False) for commit in ("beside", "automatic-beside")
          for name in ("offset-commit-regression", "phantom-commit", "torn-txn", "lost-write")),
        ("group-skip", "auto", "", {}, True),
        ("group-skip", "late", "", {"client_settings": {"consumer.auto.offset.reset": "latest"}}, True),
        *(("eos-loss", variant, "", {**kind, "client_settings": {"consumer.auto.offset.reset": reset}},
           (variant, reset) == ("late", "latest"))
          for variant in ("", "late") for reset in ("latest", "earliest")
          for kind in ({}, {"workload": "sink"}, {"commit": "after"})),
        ("group-skip", "", "", {"client_settings": {"consumer.auto.offset.reset": "latest"}}, False),
        ("group-skip", "late", "", {"client_settings": {"auto.offset.reset": "earliest"}}, False),
        *((name, "", "", {"commit": commit}, False)
          for commit in ("transaction", "after", "before", "beside", "automatic-beside")
          for name in ("group-duplicate", "group-skip", "zombie-write")),
        *((name, variant, excuse, {}, excuse in ("unclean", "power"))
          for name, variant in (("eos-duplicate", ""), ("eos-loss", ""), ("group-duplicate", ""),
                                ("group-skip", ""), ("zombie-write", "committed"), ("torn-txn", ""),
                                ("stuck-lso", ""), ("hanging-txn", ""), ("precommitted-read", "rc"),
                                ("G1c", ""), ("G1c-realtime", ""))
          for excuse in ("", "unclean", "power", "leader")),
        *(("phantom-read", "", excuse, {"commit": "after"}, excuse in ("unclean", "power"))
          for excuse in ("", "unclean", "power", "leader")),
        *((name, "", excuse, {"commit": "after"}, False) for name in (
            "corrupt-record", "misdirected-record", "unseen", "not-recovered")
          for excuse in ("", "unclean", "power", "leader")),
        *((name, "", "", {}, True) for name in sorted(INFORMATIONAL)),
    ],
)  # fmt: skip
def test_what_is_allowed(
    name: str, variant: str, excuse: str, settings: dict[str, Any], expected: bool
) -> None:
    assert is_allowed(name, variant, excuse, **settings) is expected


def test_every_answer_says_why() -> None:
    for name in ANOMALIES:
        for variant in (
            "",
            "0",
            "1",
            "all",
            "rc",
            "ru",
            "reads",
            "ack 1",
            "auto",
            "late",
            "commit",
            "read",
            "hole",
        ):
            for excuse, commit, sink in product(
                Excuse, get_args(RunConfig.model_fields["commit"].annotation), ("", "plain", "unique-id")
            ):
                here = Ground(excuse=excuse, commit=commit, sink=sink)
                assert len(ANOMALIES[name].rule(here, variant)[1].split()) > 2


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
    everywhere = {name for name in ANOMALIES if allowed(strict, Kind(name))[0]}
    assert everywhere == INFORMATIONAL


def test_presets_expect_classes_that_exist() -> None:
    for settings in PRESETS.values():
        assert set(settings.get("expect", ())) <= set(ANOMALIES)


def test_known_bugs_name_classes_that_exist() -> None:
    for bug in KNOWN_BUGS.values():
        assert set(bug.anomalies) <= set(ANOMALIES)


@pytest.mark.parametrize(
    ("forbidden", "unknown", "expect", "interrupted", "unmet", "code"),
    [
        ((), False, {}, False, False, 0),
        ((), False, {}, False, True, 5),
        ((), False, {"lost-write": True}, False, True, 5),
        ((), False, {"lost-write": True}, False, False, 0),
        ((), True, {}, False, True, 2),
        ((), True, {"lost-write": False}, False, True, 4),
        (("not-recovered",), True, {"lost-write": False}, False, True, 3),
        (("not-recovered", "duplicate"), True, {"lost-write": False}, False, True, 1),
        (("duplicate",), False, {}, False, False, 1),
        (("duplicate",), False, {}, True, True, 130),
    ],
)
def test_exit_codes_have_their_precedence(
    forbidden: tuple[str, ...],
    unknown: bool,
    expect: dict[str, bool],
    interrupted: bool,
    unmet: bool,
    code: int,
) -> None:
    got = exit_code(forbidden=forbidden, unknown=unknown, expect=expect, interrupted=interrupted, unmet=unmet)
    assert got == code


def row(title: str, name: str) -> str:
    return f"{title}: {name}\n  {lists()[title][name]}"


def test_of_an_entry_all_is_shown_whatever_else_has_its_name() -> None:
    """A preset, a check or a rule may have the name of a workload or a nemesis; those of one name stand in
    two lists without a part of the page, too."""
    for name, text in lists()["presets"].items():
        assert f"presets: {name}\n  {text}" in details(name)
    shared = {"compacted": "presets", "unclean": "presets", "fencing": "checks"}
    for name, title in shared.items():
        assert f"### {name}" in details(name)
        assert details(name)[-1] == row(title, name)


def test_what_has_a_part_of_the_page_is_shown_once() -> None:
    assert details("queue")[0] == "### queue"
    assert not any(line.startswith("workloads: ") for line in details("queue"))
    assert [line for line in details("kill") if line.startswith("nemeses: ")] == []
    (lost,) = details("lost-write")
    assert lost.startswith(f"{row('anomalies', 'lost-write')}. A record was acknowledged, ")
    assert lost.endswith("\n  In the literature: lost update; durability.")
    assert "literature" not in details("unseen")[0]
    assert details("no such entry") == []


def test_of_a_fault_with_a_kind_or_a_target_these_are_shown() -> None:
    title, kind, target, further = details("partition:one-way@leader")
    assert title.startswith("nemeses: partition:one-way@leader\n  Links ")
    assert kind.startswith("  :one-way  ")
    assert target.startswith("  @leader  the leader of ")
    assert further.endswith("inquest list partition")
    assert len(details("kill@leader")) == len(details("kill:one")) == 3
    assert details("kil:one") == details("kill:one,pause") == []
    with pytest.raises(ConfigError, match="kill has no kind 'some'; it has one, "):
        details("kill:some")


def test_every_planted_bug_and_every_era_is_listed() -> None:
    assert list(lists()["mutants"]) == list(PLANTED)
    assert list(lists()["eras"]) == list(ERAS)
    assert all(text for name in ("mutants", "eras") for text in lists()[name].values())
