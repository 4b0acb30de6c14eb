"""The lint of words sees a planted form wherever people read it, and nothing else."""

import pytest

from tests.words import finds, passages


def found(source: str) -> list[tuple[int, str]]:
    return [find[:2] for passage in passages(source) for find in finds(passage)]


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        ('"""A partition of which nothing is known."""\n', 1, "of which"),
        ('x = 1\ndef f():\n    """One.\n\n    Two goes\n    on.\n    """\n', 5, "goes on"),
        ("# the leader is\n# told\n", 2, "told"),
        ('raise E(f"what it came "\n    f"of: {x}")\n', 1, "came of"),
        ('log("the run is over")\n', 1, "is over"),
        ('x = "Nobody answers"\n', 1, "Nobody"),
        ('help = "preset safe is no control"\n', 1, "is no control"),
    ],
)
def test_a_form_is_found_where_it_begins(source: str, line: int, words: str) -> None:
    assert found(source) == [(line, words)]


@pytest.mark.parametrize(
    "source",
    [
        'told = nobody["wish"]\n',
        '"""There is no leader; the cluster is no longer available over this link."""\n',
        '"""The broker goes."""\n# on\n',
        '"""The batches are spread over three partitions."""\n',
    ],
)
def test_names_and_good_sentences_pass(source: str) -> None:
    assert found(source) == []
