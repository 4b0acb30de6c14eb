"""Bad recordings: every command that reads what others made ends with one line and the documented code."""

from pathlib import Path

import pytest

from tests.harness.cli.bad_input import refused


@pytest.mark.parametrize("words", [["check"], ["report"], ["export"]])
def test_a_folder_that_is_no_run(tmp_path: Path, words: list[str]) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        refused([*words, folder], code=64, said=[str(folder)])
