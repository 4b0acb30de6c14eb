"""What a broker that was killed in the middle of cleaning, or of deleting, leaves in a partition's folder."""

from pathlib import Path

import pytest

from harness.evidence.directory import read
from tests.histories.broker_files import NODE

CONTENT = (NODE / "in-0" / f"{0:020}.log").read_bytes()
INDEX = (NODE / "in-0" / f"{0:020}.txnindex").read_bytes()
PLACES = [0]
"""Where each of the ten batches begins; each is of one record, of the offset that its number is."""
for _ in range(10):
    PLACES.append(PLACES[-1] + 12 + int.from_bytes(CONTENT[PLACES[-1] + 8 : PLACES[-1] + 12], "big"))
CUT = b"\x01"


def segment(*offsets: int) -> bytes:
    return b"".join(CONTENT[PLACES[at] : PLACES[at + 1]] for at in offsets)


ORIGINALS = {
    "0.log": segment(0, 1, 2),
    "3.log": segment(3, 4, 5),
    "6.log": segment(6, 7),
    "8.log": segment(8, 9),
}
GROUP = segment(0, 3, 5)
"""What the cleaner made of the first two segments."""
ALL = [*range(10)]
CLEANED = [0, 3, 5, 6, 7, 8, 9]


def without(*names: str) -> dict[str, bytes]:
    """The segments, but those that are waiting for their deletion."""
    return {f"{name}.deleted" if name in names else name: content for name, content in ORIGINALS.items()}


CASES: dict[str, tuple[dict[str, bytes], list[int], int]] = {
    "nothing is left": (ORIGINALS, ALL, 0),
    "it was writing": (ORIGINALS | {"0.log.cleaned": segment(0, 3) + CUT, "0.index.cleaned": b""}, ALL, 0),
    "it had renamed one of the files": (
        ORIGINALS | {"0.log.swap": GROUP, "0.index.cleaned": b"", "0.txnindex.cleaned": b""},
        ALL,
        0,
    ),
    "it had renamed all files": (ORIGINALS | {"0.log.swap": GROUP, "0.index.swap": b""}, CLEANED, 6),
    "the first of the old ones is renamed": (without("0.log") | {"0.log.swap": GROUP}, CLEANED, 6),
    "all old ones are renamed": (without("0.log", "3.log") | {"0.log.swap": GROUP}, CLEANED, 6),
    "the new one has its name, its index not yet": (
        without("0.log", "3.log") | {"0.log": GROUP, "0.index.swap": b""},
        CLEANED,
        0,
    ),
    "an older segment is being split": (
        ORIGINALS | {"3.log.swap": segment(3), "4.log.swap": segment(4), "0.log.cleaned": b""},
        ALL,
        0,
    ),
    "what it cleaned before is whole": (
        without("0.log") | {"0.log.swap": segment(0), "3.log.cleaned": segment(3)},
        [0, *ALL[3:]],
        1,
    ),
    "two segments replace three": (
        without("0.log") | {"0.log.swap": segment(0, 2), "3.log.swap": segment(5, 7)},
        [0, 2, 5, 7, 8, 9],
        8,
    ),
    "the cleaner left nothing of the first": (without("0.log") | {"0.log.swap": b""}, ALL[3:], 0),
    "old ones are deleted": (without("0.log", "3.log") | {"3.log.swap.deleted": b"x"}, ALL[6:], 0),
}


@pytest.mark.parametrize("case", CASES)
def test_a_killed_cleaner(tmp_path: Path, case: str) -> None:
    """The log is the one that the broker has when it is started: none of its records twice, none less."""
    files, offsets, cleaned_to = CASES[case]
    folder = tmp_path / "q-0"
    folder.mkdir()
    for name, content in files.items():
        number, _, rest = name.partition(".")
        (folder / f"{int(number):020}.{rest}").write_bytes(content)
    found = read(tmp_path, 1)
    assert found["batches"]["base"].to_pylist() == offsets
    assert found["damage"].num_rows == 0
    (row,) = found["partitions"].to_pylist()
    held = [path for path in files if path.endswith((".log", ".log.swap"))]
    assert row["bytes"] == found["batches"]["size"].to_numpy().sum()
    assert row["files"] <= len(held)
    cleaned = [one["value"] for one in found["ends"].to_pylist() if one["file"] == "cleaner"]
    assert cleaned == [cleaned_to] * bool(cleaned_to)


@pytest.mark.parametrize(("noted", "cleaned_to"), [(3, 6), (8, 8)])
def test_what_is_left_shows_how_far_the_cleaner_had_come(tmp_path: Path, noted: int, cleaned_to: int) -> None:
    """Its checkpoint follows when the whole log is cleaned."""
    (tmp_path / "q-0").mkdir()
    (tmp_path / "q-0" / f"{0:020}.log.swap").write_bytes(GROUP)
    (tmp_path / "q-0" / f"{6:020}.log").write_bytes(segment(6, 7))
    (tmp_path / "cleaner-offset-checkpoint").write_text(f"0\n1\nq 0 {noted}\n")
    assert [one["value"] for one in read(tmp_path, 1)["ends"].to_pylist()] == [cleaned_to]


@pytest.mark.parametrize(
    ("files", "indexed", "states"),
    [
        (("0.log", "0.txnindex", "3.txnindex", "3.log"), [0, 3], [3]),
        (("0.log.deleted", "0.txnindex", "3.txnindex", "3.log"), [3], [3]),  # retention, in the middle
        (("0.log", "0.log.swap", "0.txnindex", "0.txnindex.swap", "3.txnindex", "3.log"), [0], []),
        (("0.log", "0.log.swap", "0.txnindex", "3.txnindex", "3.log"), [], []),
        (("0.log", "0.txnindex.swap", "3.log", "3.txnindex.deleted"), [0], [3]),
        (("0.log", "0.txnindex", "0.txnindex.cleaned", "0.log.swap", "3.txnindex", "3.log"), [0, 3], [3]),
    ],
)
def test_indexes_and_snapshots_are_those_of_the_segments(
    tmp_path: Path, files: tuple[str, ...], indexed: list[int], states: list[int]
) -> None:
    folder = tmp_path / "q-0"
    folder.mkdir()
    snapshot = (NODE / "in-0" / f"{10:020}.snapshot").read_bytes()
    for name in (*files, "3.snapshot", "3.snapshot.deleted"):
        number, _, rest = name.partition(".")
        content = INDEX if "txnindex" in rest else snapshot if "snapshot" in rest else GROUP
        (folder / f"{int(number):020}.{rest}").write_bytes(content)
    found = read(tmp_path, 1)
    assert sorted({*found["aborted"]["segment"].to_pylist()}) == indexed
    assert sorted({*found["producers"]["snapshot"].to_pylist()}) == states


def test_a_swap_file_that_cannot_be_opened_replaces_its_own_segment(tmp_path: Path) -> None:
    folder = tmp_path / "q-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(segment(0, 1, 2))
    (folder / f"{3:020}.log").write_bytes(segment(3))
    (folder / f"{0:020}.log.swap").symlink_to(tmp_path)
    found = read(tmp_path, 1)
    assert found["batches"]["base"].to_pylist() == [3]
    assert found["damage"]["file"].to_pylist() == [f"q-0/{0:020}.log.swap"]
