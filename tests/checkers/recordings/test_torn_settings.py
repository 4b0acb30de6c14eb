"""A line that cannot be read may have had settings of a process, which those of the import need not be."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from checkers.recordings import lines_in_tasks
from tests.checkers.recordings import imported
from tests.checkers.recordings.test_contradictions import process
from tests.checkers.recordings.test_formats import found, op, records, text
from tests.checkers.recordings.test_in_tasks import same
from tests.histories.folders import check_run

SENT = op(0, 10, sends=records(("a", 1)))
SETTINGS = text(process(0, acks=1, idempotent=False))
OTHERS = text(*(process(n, acks=None) for n in (1, 2)))
TWICE = text(*(op(n, 30 + n, reads=records(("a", n - 1))) for n in (1, 2)))
NOT_READ = "the settings of process 0 could not be read"
MAY_BE = "its settings may stand in a line that could not be read, and it has no `process` line"


def whole(first: str, *, sent: str = text(SENT)) -> str:
    return "\n".join([first, OTHERS, sent, TWICE])


TORN: dict[str, tuple[str, str]] = {
    "cut behind its number": (SETTINGS[:-9], NOT_READ),
    "another type": (SETTINGS.replace('"acks": 1', '"acks": "one"'), NOT_READ),
    "cut before its number": (SETTINGS[: SETTINGS.index("0")], MAY_BE),
    "cut in its name": (SETTINGS[:14], MAY_BE),
    "its end alone": (SETTINGS[20:], MAY_BE),
    "bytes": ("\x00\x01", MAY_BE),
    "a line of another kind": (SETTINGS.replace('"process", "process"', '"proces", "process"'), NOT_READ),
    "no number": (SETTINGS.replace(": 0,", ": null,"), MAY_BE),
    "joined with the next line": ('{"line": "op", "process": 9, "out' + SETTINGS, MAY_BE),
}


@pytest.mark.parametrize("name", TORN)
def test_a_process_whose_settings_may_be_lost_is_not_judged_by_those_of_the_import(
    tmp_path: Path, name: str
) -> None:
    first, why = TORN[name]
    run, recording = imported(tmp_path, "jsonl", whole(first))
    assert [reason.endswith(why) for reason in recording.reasons] == [False, True]
    verdict = check_run(run)
    assert (found(verdict), verdict.exit_code) == ([], 2)


@pytest.mark.parametrize(
    "damage",
    [
        lambda first: whole(first + "\n" + text(SENT)[:-9]),  # of another kind
        lambda first: whole(first, sent=text(SENT) + "\n" + "\x00"),  # the process was known by then
        lambda first: whole(first + "\n" + SETTINGS.replace("0", "7")[:-9]),  # of another process
        lambda first: "\x00\n" + whole(first),  # it has a line of its own
    ],
)
def test_damage_that_has_no_settings_of_a_process_leaves_it_as_it_is(
    tmp_path: Path, damage: Callable[[str], str]
) -> None:
    run, recording = imported(tmp_path, "jsonl", damage(text(process(0))))
    assert len(recording.reasons) == 1
    assert found(check_run(run)) == ["duplicate"]
    (tmp_path / "weak").mkdir()
    run, _ = imported(tmp_path / "weak", "jsonl", damage(SETTINGS))
    verdict = check_run(run)
    assert (found(verdict), list(verdict.anomalies)) == ([], ["duplicate"])


@pytest.mark.sampled(8)
@pytest.mark.parametrize("size", [64, 1 << 26])
@pytest.mark.parametrize("packed", [False, True])
def test_tasks_know_the_same_of_lost_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, packed: bool
) -> None:
    monkeypatch.setattr(lines_in_tasks, "RANGE_BYTES", size)
    for number, (first, _) in enumerate(TORN.values()):
        content = whole(first).encode()
        (tmp_path / str(number)).mkdir()
        same(tmp_path / str(number), [gzip.compress(content) if packed else content])
