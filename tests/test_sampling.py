"""The shares of a sampled test: together all of its cases, each case in one share. The order of files."""

from tests.conftest import dealt, left_out

CASES = {f"test_it.py::test_seed[{case}]": 3 for case in range(7)} | {"test_it.py::test_two[x]": 2}


def test_each_case_is_in_one_share() -> None:
    shares = [CASES.keys() - left_out(CASES, part) for part in range(6)]
    seeds = [{case for case in share if "seed" in case} for share in shares]
    assert sorted(map(len, seeds)) == [2, 2, 2, 2, 3, 3]
    assert seeds[:3] == seeds[3:]
    assert set.union(*seeds[:3]) | {"test_it.py::test_two[x]"} == set(CASES)
    days = ["test_it.py::test_two[x]" in share for share in shares]
    assert days in ([True, False] * 3, [False, True] * 3)


def test_tests_of_one_case_do_not_meet_on_one_day() -> None:
    cases = {f"a.py::test_{n}": 4 for n in range(10)} | {f"b.py::test_{n}[x]": 4 for n in range(2)}
    assert [len(cases.keys() - left_out(cases, part)) for part in range(4)] == [3, 3, 3, 3]


def test_a_file_that_is_dealt_whole_runs_whole_on_one_day() -> None:
    files = {f"a.py::test_{n}[{case}]": 3 for n in range(3) for case in range(2)} | {"b.py::test_x": 3}
    shares = [files.keys() - left_out(files, part, whole=files) for part in range(3)]
    assert sorted(map(len, shares)) == [0, 1, 6]
    assert set.union(*shares) == set(files)


def test_each_process_begins_with_long_files_and_gets_about_as_many_tests() -> None:
    counts = {"a": 4, "long1": 2, "b": 3, "long2": 1, "c": 1, "long3": 1}
    assert dealt(counts, {"long1", "long2", "long3"}, 2) == ["long1", "a", "long2", "long3", "b", "c"]
    assert dealt(counts, set(), 1) == list(counts)
