"""What permits a step of a consumer that nothing on record explains, and what deletions do to such steps (the
steps themselves: test_golden)."""

import pyarrow as pa
import pytest

from checkers.allowed import Ground
from checkers.checks.poll_order import Reader, stepped
from checkers.windows import Excuse
from history.events import Event, FaultStarted, RecordsDeleted
from history.tables import GONE
from tests.checkers.found import check_tables
from tests.histories.notation import stories


@pytest.mark.parametrize("excuse", Excuse)
@pytest.mark.parametrize("rebalances", [False, True])
@pytest.mark.parametrize("reader", Reader)
def test_a_member_may_step_where_rebalances_are_not_on_record(
    reader: Reader, rebalances: bool, excuse: Excuse
) -> None:
    """Anyone may where the log lost its end."""
    moved = reader is Reader.MEMBER and not rebalances
    cut = excuse in (Excuse.UNCLEAN, Excuse.POWER)
    allowed, why = stepped(Ground(excuse=excuse, rebalances=rebalances), reader)
    assert allowed is (moved or cut)
    assert ("whose rebalances are not on record" in why) is moved


RESET = """== case
set p1 acks-2 group0
p0 send x:1@0 x:2@1 x:3@2
p1 poll x/assigned x[1@0] x>1
p1 poll x/reset x[3@2] x>3
p9 final x[1@0,2@1,3@2]
end x rc 3
"""


@pytest.mark.parametrize(
    ("deleted", "found"),
    [
        ({}, {"poll-skip", "group-skip"}),
        ({"x-0": 2}, set()),
        ({"x-0": 1}, {"poll-skip", "group-skip"}),
        ({"y-0": 2}, {"poll-skip", "group-skip"}),
    ],
)
def test_a_consumer_may_pass_records_that_were_deleted_and_came_back(
    deleted: dict[str, int], found: set[str]
) -> None:
    """A broker that dies before it has written where the log begins forgets a deletion; a consumer that was
    put forward does not."""
    (story,) = stories(RESET)
    events: list[Event] = [RecordsDeleted(ns=1, fault=0, offsets=deleted)] if deleted else []
    tally = check_tables(story.tables(), events=[*story.events(), *events])
    assert {finding.name for finding in tally.findings} == found


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize(("below", "skips"), [(1, True), (2, False)])
def test_a_deletion_says_where_a_log_begins_that_was_not_listed(
    listed: bool, below: int, skips: bool
) -> None:
    """A partition may have no leader when the ends are listed. Of its records above a deletion a consumer
    whose position is reset skips none."""
    (story,) = stories(RESET)
    tables = story.tables()
    tables["bounds"] = tables["bounds"] if listed else tables["bounds"].slice(0, 0)
    events: list[Event] = [RecordsDeleted(ns=1, fault=0, offsets={"x-0": below})]
    tally = check_tables(tables, portable=False, events=[*story.events(), *events])
    assert ("poll-skip" in {finding.name for finding in tally.findings}) is skips


def begun(fault: str, ns: int, number: int = 0) -> Event:
    return FaultStarted(
        begin_ns=ns, ns=ns, fault=number, name=f"{fault}:all", nodes=(1,), text="", colour="#000000"
    )


@pytest.mark.parametrize("deleted", [{"x-0": 2}, {}])
@pytest.mark.parametrize(("before", "found"), [(True, set()), (False, {"poll-skip", "group-skip"})])
def test_a_deletion_puts_no_consumer_forward_before_it_begins(
    deleted: dict[str, int], before: bool, found: set[str]
) -> None:
    """Of records, or of the topic as a whole."""
    (story,) = stories(RESET)
    tables = story.tables()
    of_deleted = {
        "tps": {"topic": "x~1"},
        "bounds": {"start": GONE, "end": -1, "read_to": -1, "complete": False},
    }
    for name, columns in of_deleted.items() if not deleted else ():
        rows = [row | columns for row in tables[name].to_pylist()]
        tables[name] = pa.Table.from_pylist(rows, schema=tables[name].schema)
    last = max(row["complete_ns"] for row in tables["ops"].to_pylist())
    at = 0 if before else last + 1
    fault = begun("delete-records", at) if deleted else begun("recreate-topics", at)
    events: list[Event] = [fault]
    events += [RecordsDeleted(ns=last + 2, fault=0, offsets=deleted)] if deleted else []
    tally = check_tables(tables, portable=False, events=[*story.events(), *events])
    assert {finding.name for finding in tally.findings} == found
