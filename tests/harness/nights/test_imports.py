"""The index of a folder with a recording of another program: no default of a setting stands as a fact."""

from pathlib import Path

import pytest

from harness.nights import cards, page
from harness.nights.totals import totals
from history.tasks import Here
from history.verdict import Anomaly
from tests.harness.nights.made_sessions import by_hand

CONFIG = {"workload": "queue", "nemesis": "none", "preset": "safe", "seed": 0, "sut": "kafka"}
IMPORTED = {"workload": "imported", "sut": "imported", "imported": {"format": "jsonl", "files": ["a.jsonl"]}}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("foreign", [True, False], ids=["a recording", "a run"])
def test_what_no_recording_has_is_not_in_the_index(foreign: bool, tmp_path: Path) -> None:
    lost = Anomaly(title="", literature="", meaning="", count=2, disallowed=2, allowed=False, why="")
    config = CONFIG | (IMPORTED if foreign else {})
    by_hand(tmp_path, config=config, seed=0, valid=False, exit_code=1, anomalies={"lost-write": lost})
    every = totals(tmp_path, Here())
    row = every.shown.iloc[0]
    expected = ("imported", "", "", -1) if foreign else ("queue", "none", "safe", 0)
    assert (row["workload"], row["nemesis"], row["preset"], row["seed"]) == expected
    (card,) = cards.build(tmp_path, every)
    assert card.combination == tuple(word for word in expected[:3] if word)
    assert page.render(tmp_path)
