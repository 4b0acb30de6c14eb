"""Dead letters: each rule on both sides of its edge, and what a finding says."""

import re
from collections.abc import Sequence
from random import Random

import pytest

from checkers import api
from core.config import RunConfig, run_config
from core.dead_letters import ANOTHER, HEADERS_ONLY, Row
from core.op import Acknowledgement, Isolation, Outcome, Phase
from history.events import (
    DeadLettersListed,
    Event,
    FaultHealed,
    FaultStarted,
    RecordsDeleted,
    ShareOffsetsListed,
)
from history.verdict import Verdict
from tests.checkers.found import check_tables
from tests.checkers.test_share_groups import CHUNK, SEEDS, made
from tests.histories.built import Bound, Built, Delivery, F, Op, Process, Read, Said, Send
from tests.oracle import anomalies

S = 1_000_000_000
ACCEPTED, REJECTED, RELEASED, MARKER, LAST = range(5)
"""Offsets: how the record there ended; where there is none; the last one is accepted."""
LIMIT = 3
RECORDS = (ACCEPTED, REJECTED, RELEASED, LAST)
SAID = {
    ACCEPTED: (Acknowledgement.ACCEPT,),
    REJECTED: (Acknowledgement.REJECT,),
    RELEASED: (Acknowledgement.RELEASE,) * LIMIT,
    LAST: (Acknowledgement.ACCEPT,),
}


def letter(offset: int, times: int = LIMIT, value: int | None = None, at: int = 0) -> Row:
    """A letter of the record at an offset; value: None = its copy."""
    return ("g", "x", 0, offset, times, 100 + offset if value is None else value, 0, at, 0)


RIGHT = (letter(REJECTED, 1), letter(RELEASED, LIMIT))


def built(said: dict[int, tuple[Acknowledgement, ...]] | None = None, outcome: Outcome = Outcome.OK) -> Built:
    """Four records; a member is given each as often as it says something of it, a second apart."""
    made = Built(tps=["x"])
    made.processes = {1: Process(group=0, acks=-2, isolation=Isolation.READ_COMMITTED)}
    now = S
    sends = [Send(tp=0, value=100 + offset, offset=offset) for offset in RECORDS]
    made.ops.append(Op(process=0, f="send", invoke=now, complete=now + S // 10, mops=[*sends]))
    for offset, kinds in (said or SAID).items():
        for count, kind in enumerate(kinds, 1):
            now += S
            given = Delivery(tp=0, offset=offset, value=100 + offset, count=count)
            made.ops.append(Op(process=1, f="acquire", invoke=now, complete=now + S // 10, mops=[given]))
            told = Said(tp=0, offset=offset, kind=kind, outcome=outcome if offset == ACCEPTED else Outcome.OK)
            made.ops.append(
                Op(process=1, f="acknowledge", invoke=now + S // 5, complete=now + S // 4, mops=[told])
            )
    for level in (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED):
        reads = [Read(tp=0, offset=offset, value=100 + offset) for offset in RECORDS]
        made.processes[2 + level] = Process(isolation=level)
        final = Op(process=2 + level, f="final", invoke=now + S, complete=now + 2 * S, phase=Phase.FINAL)
        final.mops = [*reads]
        made.ops.append(final)
        made.bounds.append(Bound(tp=0, isolation=level, end=LAST + 1, read_to=LAST + 1))
    return made


def config(**topic_settings: str) -> RunConfig:
    limit = {"group.share.delivery.count.limit": f"{LIMIT}"}
    own = {"broker_settings": limit, "topic_settings": topic_settings}
    return run_config({"seed": 1, "workload": "share", "dead_letters": True, **own})


def listings(letters: Sequence[Row] = RIGHT, start: int | None = LAST + 1, why: str = "") -> list[Event]:
    """start: below which offset the group is done, None = no coordinator said."""
    return [
        ShareOffsetsListed(ns=90 * S, rows=(("g", "x", 0, start),) if start is not None else ()),
        DeadLettersListed(ns=91 * S, rows=tuple(letters), why=why),
    ]


def verdict(
    made: Built,
    letters: Sequence[Row] = RIGHT,
    *,
    start: int | None = LAST + 1,
    why: str = "",
    events: Sequence[Event] = (),
) -> Verdict:
    names = {"f": F, "error": ["E"], "group": ["g"], "txn_id": []}
    recorded = [*listings(letters, start, why), *events]
    agree(made, recorded, config())
    checked = api.check(made.tables(), config=config(), events=recorded, names=names)
    return checked.verdict


def agree(built: Built, events: Sequence[Event], here: RunConfig) -> set[str]:
    """The classes of share groups that kernel and oracle find; they have to say the same."""
    tables = built.tables()
    slow = anomalies.variants(tables, portable=False, events=events, config=here)
    tally = check_tables(tables, portable=False, events=events, config=here, cap=2**31)
    assert not tally.crashed
    fast = {one.canonical: (one.variant, one.excuse) for one in tally.findings}
    about = (*anomalies.LETTERS, *anomalies.SHARED)
    of_letters = {key for key in (*fast, *slow) if key[0] in about}
    assert of_letters == {key for key in of_letters if key in fast and fast[key] in slow.get(key, ())}
    return {str(key[0]) for key in of_letters}


def killed(begin: int = 3 * S) -> list[Event]:
    """A broker is killed while the group reads."""
    begun = FaultStarted(
        ns=begin, begin_ns=begin, fault=0, name="kill:one", nodes=(1,), slots=(), text="", colour=""
    )
    return [begun, FaultHealed(ns=4 * S, begin_ns=4 * S, fault=0)]


def found(of: Verdict) -> set[str]:
    """Classes about dead letters, and nothing else that is forbidden."""
    others = {n for n, one in of.anomalies.items() if one.disallowed and not n.startswith("dead-letter")}
    assert not others
    return {name for name in of.anomalies if name.startswith("dead-letter")}


def test_a_queue_that_has_a_letter_of_each_archived_record_shows_nothing() -> None:
    right = verdict(built())
    assert found(right) == set()
    assert right.checks["dead-letters"].status == "valid"


@pytest.mark.parametrize(
    ("letters", "classes"),
    [
        (RIGHT[1:], {"dead-letter-lost"}),  # of the rejected one
        (RIGHT[:1], {"dead-letter-lost"}),  # of the one that came to the limit
        ((*RIGHT, letter(ACCEPTED)), {"dead-letter-of-accepted"}),
        ((*RIGHT, letter(REJECTED, 1, at=7)), {"dead-letter-twice"}),
        ((letter(REJECTED, 1, 100 + RELEASED), RIGHT[1]), {"dead-letter-differs"}),
        ((letter(REJECTED, 1, ANOTHER), RIGHT[1]), {"dead-letter-differs"}),
        ((letter(REJECTED, 1, HEADERS_ONLY), RIGHT[1]), set[str]()),
        ((RIGHT[0], letter(RELEASED, 1)), {"dead-letter-unearned"}),  # it says that it was not at the limit
        ((*RIGHT, letter(MARKER)), {"dead-letter-of-nothing"}),
        ((*RIGHT, letter(MARKER, 1, HEADERS_ONLY)), {"dead-letter-of-nothing"}),
        ((*RIGHT, letter(LAST + 1)), set[str]()),  # behind what the final reads show
    ],
)
def test_each_class_is_found_as_what_it_is(letters: Sequence[Row], classes: set[str]) -> None:
    of = verdict(built(), letters)
    assert found(of) == classes
    assert {name for name in classes if of.anomalies[name].disallowed} == classes


def renewed(said: dict[int, tuple[Acknowledgement, ...]], outcome: Outcome = Outcome.OK) -> Built:
    """The process renews the lock of its first delivery at once."""
    made = built(said)
    told = Said(tp=0, offset=ACCEPTED, kind=Acknowledgement.RENEW, outcome=outcome)
    first = 2 * S
    made.ops.append(
        Op(process=1, f="acknowledge", invoke=first + S // 9, complete=first + S // 8, mops=[told])
    )
    made.ops.sort(key=lambda op: op.invoke)
    return made


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.INFO])
def test_of_a_record_that_was_renewed_it_is_not_certain_that_it_was_accepted(outcome: Outcome) -> None:
    """Its process may have had a new session by then: what the one before held went to others."""
    letters = (*RIGHT, letter(ACCEPTED))
    of = verdict(renewed(SAID, outcome), letters)
    assert found(of) == {"dead-letter-unearned"}  # nothing was disturbed
    assert found(verdict(renewed(SAID, outcome), letters, events=killed())) == set()
    assert found(verdict(built(), letters, events=killed())) == {"dead-letter-of-accepted"}


@pytest.mark.parametrize(("later", "classes"), [(0, set[str]()), (-S, {"dead-letter-of-accepted"})])
def test_what_another_one_may_have_ended_was_not_certainly_accepted(later: int, classes: set[str]) -> None:
    """Another process is given the record while the first one has it, or before."""
    made = built()
    made.processes[9] = Process(group=0, acks=-2, isolation=Isolation.READ_COMMITTED)
    given = Delivery(tp=0, offset=ACCEPTED, value=100 + ACCEPTED, count=1)
    begun = 2 * S + S // 9 + later
    made.ops.append(Op(process=9, f="acquire", invoke=begun, complete=begun + S // 50, mops=[given]))
    made.ops.sort(key=lambda op: op.invoke)
    assert found(verdict(made, (*RIGHT, letter(ACCEPTED)), events=killed(S // 2))) == classes


def test_a_renewal_of_an_earlier_delivery_says_nothing_of_the_one_that_was_accepted() -> None:
    twice = SAID | {ACCEPTED: (Acknowledgement.RELEASE, Acknowledgement.ACCEPT)}
    of = verdict(renewed(twice), (*RIGHT, letter(ACCEPTED)), events=killed())
    assert found(of) == {"dead-letter-of-accepted"}


def test_nothing_is_missing_that_the_group_has_not_passed() -> None:
    assert found(verdict(built(), RIGHT[:1], start=RELEASED)) == set()
    assert found(verdict(built(), RIGHT[:1], start=RELEASED + 1)) == {"dead-letter-lost"}


@pytest.mark.parametrize("letters", [RIGHT[:1], (*RIGHT, letter(REJECTED, 1, at=7))])
def test_faults_permit_a_letter_too_few_or_too_many(letters: Sequence[Row]) -> None:
    of = verdict(built(), letters, events=killed())
    (name,) = found(of)
    assert of.anomalies[name].disallowed == 0
    assert "archives its record all the same" in of.anomalies[name].why


@pytest.mark.parametrize("letters", [(*RIGHT, letter(ACCEPTED)), (*RIGHT, letter(MARKER))])
def test_faults_permit_no_letter_of_what_was_not_archived(letters: Sequence[Row]) -> None:
    of = verdict(built(), letters, events=killed())
    assert [one.disallowed for name, one in of.anomalies.items() if name.startswith("dead-letter")] == [1]


DELETED = RecordsDeleted(ns=80 * S, fault=0, offsets={"x-0": LAST})
"""All records but the last one."""
PASSED_OVER = built({ACCEPTED: (), REJECTED: SAID[REJECTED], RELEASED: SAID[RELEASED], LAST: SAID[LAST]})


def unread() -> Built:
    """The final reads fall short of the end of the log."""
    made = built()
    for bound in made.bounds:
        bound.end += 1
    return made


@pytest.mark.parametrize(
    ("made", "letters", "classes"),
    [
        (built(), (*RIGHT, letter(MARKER)), {"dead-letter-of-nothing"}),
        (built(), RIGHT[1:], {"dead-letter-lost"}),
        (PASSED_OVER, RIGHT, {"share-skip"}),
    ],
)
def test_a_log_that_is_not_whole_shows_nothing_that_is_missing(
    made: Built, letters: Sequence[Row], classes: set[str]
) -> None:
    """What may have been removed was perhaps there, and nothing is left to be said of it."""
    events = listings(letters)
    assert agree(made, events, config()) == classes
    assert agree(made, [*events, DELETED], config()) == set()
    assert agree(made, events, config(**{"retention.ms": "1000"})) == set()


@pytest.mark.parametrize(
    ("made", "settings"),
    [(unread(), {}), (built(), {"cleanup.policy": "compact"})],
    ids=["unread", "compact"],
)
def test_final_reads_that_leave_records_out_show_no_letter_of_nothing(
    made: Built, settings: dict[str, str]
) -> None:
    assert agree(made, listings((*RIGHT, letter(MARKER))), config(**settings)) == set()


def test_an_accept_without_an_answer_explains_a_letter_and_none() -> None:
    doubtful = built(outcome=Outcome.INFO)
    assert found(verdict(doubtful)) == set()
    assert found(verdict(doubtful, (*RIGHT, letter(ACCEPTED)))) == {"dead-letter-unearned"}  # given once


def test_a_letter_needs_a_reason() -> None:
    """The record was released once, and may come again twice."""
    released = built(SAID | {RELEASED: (Acknowledgement.RELEASE,)})
    assert found(verdict(released, RIGHT, start=RELEASED)) == {"dead-letter-unearned"}
    disturbed = verdict(released, RIGHT, start=RELEASED, events=killed())
    assert found(disturbed) == set()  # a delivery that no journal has may have raised the count
    low = (RIGHT[0], letter(RELEASED, 1))
    assert found(verdict(released, low, start=RELEASED, events=killed())) == {"dead-letter-unearned"}


def test_a_queue_that_could_not_be_read_leaves_the_check_open() -> None:
    of = verdict(built(), (), why="broker 1 did not answer")
    assert found(of) == set()
    assert of.checks["dead-letters"].status == "unknown"
    assert of.valid == "unknown"


def test_a_letter_of_another_partition_leaves_the_check_open() -> None:
    of = verdict(built(), (*RIGHT, ("g", "y", 0, 1, 2, HEADERS_ONLY, 0, 9, 0)))
    assert found(of) == set()
    assert of.checks["dead-letters"].doubts == ["dead letters of partitions that the run does not have: 1"]


@pytest.mark.parametrize(("outcome", "known"), [(Outcome.OK, False), (Outcome.INFO, True)])
def test_a_partition_whose_coordinator_did_not_answer_is_open_where_it_stored_something(
    outcome: Outcome, known: bool
) -> None:
    """A coordinator has no start offset of a partition before it has stored something of it."""
    only = built({ACCEPTED: (Acknowledgement.ACCEPT,)}, outcome)
    of = verdict(only, (), start=None)
    assert found(of) == set()
    why = [] if known else ["up to where the share group is done with x-0 is not known"]
    assert of.checks["dead-letters"].doubts == why
    assert of.checks["share-groups"].doubts == why


def test_a_group_without_a_queue_is_not_asked() -> None:
    names = {"f": F, "error": ["E"], "group": ["g"], "txn_id": []}
    listed = ShareOffsetsListed(ns=90 * S, rows=(("g", "x", 0, LAST + 1),))
    of = api.check(built().tables(), config=config(), events=[listed], names=names).verdict
    assert of.checks["dead-letters"].status == "unasked"


SAYS = {
    "lost": (
        RIGHT[1:],
        r"roup g is done with x-0 below offset 5\. No member .* offset 1 of x-0\. A member rej",
    ),
    "limit": (RIGHT[:1], r"offset 2 of x-0\. Its delivery count came to 3, and the dead-letter queue has no"),
    "accepted": (
        (*RIGHT, letter(ACCEPTED, at=3)),
        r"had accepted the record at offset 0 of x-0 \(op 2\), and",
    ),
    "queue": (
        (*RIGHT, letter(ACCEPTED, at=3)),
        r"has a letter of it \(partition 0 offset 3; delivery count 3",
    ),
    "twice": (
        (*RIGHT, letter(REJECTED, 1, at=7)),
        r"has 2 letters of it \(partition 0 offset 0, partition 0",
    ),
    "differs": (
        (letter(REJECTED, 1, 102), RIGHT[1]),
        r"is record 0/101, has a copy of record 0/102: the dead",
    ),
    "another": ((letter(REJECTED, 1, ANOTHER), RIGHT[1]), r"has a copy of no record of that partition: the"),
    "nothing": ((*RIGHT, letter(MARKER)), r"show no record at offset 3 of x-0, where a transaction's marker"),
    "unearned": (
        (RIGHT[0], letter(RELEASED, 1)),
        r"No member has rejected .* less often than the limit, 3; yet",
    ),
}


@pytest.mark.parametrize("case", SAYS)
def test_a_finding_says_what_stands_where(case: str) -> None:
    letters, says = SAYS[case]
    of = verdict(built(), letters)
    (example,) = [one for name in found(of) for one in of.anomalies[name].examples]
    assert re.search(says, example.sentence), example.sentence


def of_random_group(seed: int) -> set[str]:
    """Kernel and oracle about a group of random life, whose queue has letters at random; the classes."""
    group = made(seed, ("", "", "skip", "redelivers")[seed % 4])
    rng = Random(f"letters/{seed}")
    letters = [
        ("g", "x", 0, offset, rng.randint(1, group.most), value, 0, number, 0)
        for number, offset in enumerate(rng.choices(range(group.size + 1), k=rng.randint(0, group.size + 2)))
        for value in [rng.choice((100 + offset, 100 + offset, HEADERS_ONLY, ANOTHER, 101))]
    ]
    events = [*group.events(faults=seed % 3), DeadLettersListed(ns=group.now, rows=tuple(letters))]
    level = Bound(tp=0, isolation=Isolation.READ_UNCOMMITTED, end=group.size, read_to=group.size)
    group.built.bounds.append(level)
    return agree(group.built, events, group.config())


@pytest.mark.sampled(10)
@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_kernel_and_oracle_agree_on_random_letters(first: int) -> None:
    for seed in range(first, first + CHUNK):
        of_random_group(seed)


@pytest.mark.sampled(32)
def test_random_letters_show_every_class() -> None:
    found: set[str] = set()
    for seed in range(60):
        found |= of_random_group(seed)
    assert found >= set(anomalies.LETTERS)
