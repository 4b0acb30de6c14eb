"""docs/importing.md is true: its examples are read whole, and its damage is named as it says."""

import re
from pathlib import Path

import pytest

from tests.checkers.recordings import imported
from tests.histories.folders import check_run

PAGE = (Path(__file__).parents[3] / "docs" / "importing.md").read_text()


def example(language: str, begin: str) -> str:
    """The code block in this language that begins so."""
    blocks: list[str] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    (block,) = [block for block in blocks if block.startswith(begin)]
    return block


def test_the_examples_are_read_whole(tmp_path: Path) -> None:
    producer, *consumer = example("json", '{"timestamp"').splitlines()
    files = {
        "jepsen": [example("clojure", "{:index 0")],
        "jsonl": [example("json", '{"line": "recording"')],
        "verifiable": [producer, "\n".join(consumer)],
    }
    for format_, contents in files.items():
        (tmp_path / format_).mkdir()
        run, recording = imported(tmp_path / format_, format_, *contents)
        assert (recording.reasons, recording.ops) == ([], 3 if format_ == "jsonl" else 2)
        assert format_ != "jsonl" or check_run(run).valid is True


@pytest.mark.parametrize("words", ["line 7: a map with a key that has no value"])
def test_damage_is_named_as_the_page_says(tmp_path: Path, words: str) -> None:
    assert words in PAGE
    content = "\n" * 4 + example("clojure", "{:index 0").replace(":process 0, ", ":process, ", 1)
    _, recording = imported(tmp_path, "jepsen", content)
    assert recording.reasons[0].endswith(words)
