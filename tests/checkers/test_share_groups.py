"""Share groups: kernel and oracle say the same of random histories, a correct group shows nothing, and what a
finding says.

`INQUEST_SEEDS=5000 pytest tests/checkers/test_share_groups.py` compares more.
"""

import os
import re
from collections import Counter
from dataclasses import replace
from random import Random

import msgspec
import pytest

from checkers import api
from checkers.allowed import Ground
from checkers.catalogue import ANOMALIES
from checkers.windows import Excuse
from core.cluster import NodeEnd
from core.config import RunConfig, run_config
from core.op import Acknowledgement, End, Isolation, Outcome, Phase
from history.events import (
    Event,
    FaultHealed,
    FaultStarted,
    NodeEnded,
    PhaseStarted,
    RecordsDeleted,
    RolesSeen,
    ShareOffsetsListed,
)
from tests.checkers.found import check_tables
from tests.histories.built import Bound, Built, Delivery, F, Op, Process, Read, Said, Send
from tests.oracle import anomalies

SEEDS = int(os.environ.get("INQUEST_SEEDS", "400"))
CHUNK = 50
S = 1_000_000_000
MS = 1_000_000
LOCK = 2 * S
KINDS = (
    *(Acknowledgement.ACCEPT,) * 4,
    *(Acknowledgement.RELEASE,) * 3,
    Acknowledgement.REJECT,
    *(Acknowledgement.RENEW,) * 2,
)


class Group:
    """One share partition and its members, one after the other. wrong: what it does wrong, "" = nothing."""

    def __init__(self, seed: int, wrong: str = "") -> None:
        self.rng, self.wrong, self.now = Random(f"share/{seed}"), wrong, 0
        self.most = self.rng.choice((2, 3, 5))
        self.built = Built(tps=["x"])
        self.count: Counter[int] = Counter()
        self.locked: dict[int, tuple[int, int]] = {}
        """Offset -> member, and when the lock ends."""
        self.kept: dict[int, list[int]] = {}
        """Member -> what it has renewed, and is to acknowledge."""
        self.ended: set[int] = set()
        self.aborted: set[int] = set()
        self.size = self.rng.randint(2, 6)
        self.sent = 0
        self.present = [1, 2, 3]
        """Those that have not left."""
        self.level = self.rng.choice((Isolation.READ_COMMITTED, Isolation.READ_COMMITTED, Isolation(0)))

    def tick(self, most: int = S) -> int:
        self.now += self.rng.randint(1, most)
        return self.now

    def op(self, process: int, f: str, *mops: Send | Delivery | Said | Read, **more: object) -> Op:
        begin = self.now
        made = Op(process=process, f=f, invoke=begin, complete=self.tick(S // 4), mops=[*mops])
        for name, value in more.items():
            setattr(made, name, value)
        self.built.ops.append(made)
        self.tick(S // 8)
        return made

    def run(self) -> Built:
        for process in self.present:
            self.built.processes[process] = Process(group=0, acks=-2, isolation=self.level)
        self.leave(self.rng.choice((0, 0, 0, 1, 2)))
        self.fill(self.rng.choice((self.size, self.size, 1, self.size // 2)))
        rounds = self.rng.randint(5, 30)
        for number in range(rounds):
            if number == rounds // 3 and self.sent < self.size:
                self.leave(self.rng.randint(0, len(self.present) - 1))
                self.fill(self.size)
            self.round(self.rng.choice((*self.present, *self.present[:2])))
        shown = [n for n in range(self.size) if n not in self.aborted]
        self.op(9, "final", *(Read(tp=0, offset=n, value=100 + n) for n in shown), phase=Phase.FINAL)
        self.leave(len(self.present))
        self.built.bounds.append(
            Bound(tp=0, isolation=Isolation.READ_COMMITTED, end=self.size, read_to=self.size)
        )
        return self.built

    def leave(self, count: int) -> None:
        """So many members end: what is sent from now on they are never given."""
        for _ in range(count):
            self.op(self.present.pop(), "leave")

    def fill(self, until: int) -> None:
        """Records are sent, up to so many."""
        begun, self.sent = self.sent, max(self.sent, until)
        for n in range(begun, self.sent):
            bad = self.rng.random() < 0.2
            self.aborted |= {n} if bad else set()
            outcome = Outcome.FAIL if bad else Outcome.OK
            self.op(0, "txn", Send(tp=0, value=100 + n, offset=n), txn=True, outcome=outcome)

    def available(self, offset: int, member: int) -> bool:
        wrong = self.rng.random() < 0.3 and self.wrong
        if offset in self.aborted and self.level is Isolation.READ_COMMITTED and wrong != "aborted":
            return False
        if offset in self.ended and wrong != "redelivers":
            return False
        if self.count[offset] >= self.most and wrong != "limit":
            return False
        holder, until = self.locked.get(offset, (0, 0))
        return until < self.now or (wrong == "two" and holder != member)

    def round(self, member: int, *, soon: bool = False) -> None:
        self.tick(S // 4 if soon else self.rng.choice((S // 4, 3 * S)))
        given = [n for n in range(self.sent) if self.available(n, member) and self.rng.random() < 0.7]
        if self.wrong == "skip":
            given = [n for n in given if n]
        mops = []
        for n in given:
            if not (self.wrong == "count" and self.rng.random() < 0.4 and self.count[n]):
                self.count[n] += 1
            mops.append(Delivery(tp=0, offset=n, value=100 + n, count=self.count[n]))
        acquired = self.op(member, "acquire", *mops)
        for n in given:
            self.locked[n] = member, (acquired.complete or 0) + LOCK + S
        others = [one for one in self.present if one != member]
        if self.wrong == "two" and given and others and self.rng.random() < 0.3:
            self.round(self.rng.choice(others), soon=True)
        if given and self.rng.random() < 0.9:
            self.acknowledge(member, [*given, *self.kept.pop(member, [])])

    def acknowledge(self, member: int, given: list[int]) -> None:
        if self.rng.random() < 0.2:
            self.tick(3 * S)
        said: list[Said] = []
        for n in given:
            more = (Acknowledgement.RENEW,) * 9 if self.wrong == "renewal" else ()
            kind = self.rng.choice((*KINDS, *more))
            outcome = self.rng.choice((Outcome.OK,) * 6 + (Outcome.INFO,))
            in_time = self.now + S // 2 < self.locked.get(n, (0, 0))[1]
            holds = self.locked.get(n, (0, 0))[0] == member
            if not (in_time and holds) and n not in self.ended:
                outcome = Outcome.FAIL
            said.append(Said(tp=0, offset=n, kind=kind, outcome=outcome))
            if kind is Acknowledgement.RENEW:
                self.kept.setdefault(member, []).append(n)
            if in_time and holds and (outcome is Outcome.OK or self.rng.random() < 0.5):
                self.arrived(n, member, kind)
        self.op(member, "acknowledge", *said)

    def arrived(self, offset: int, member: int, kind: Acknowledgement) -> None:
        """An acknowledgement arrived in time."""
        if kind is Acknowledgement.RENEW and self.wrong != "renewal":
            self.locked[offset] = member, self.now + LOCK + S
            return
        self.locked.pop(offset, None)
        if kind in (Acknowledgement.ACCEPT, Acknowledgement.REJECT):
            self.ended.add(offset)

    @property
    def start(self) -> int:
        """Where the group stands."""
        done = {n for n in range(self.size) if n in self.ended or self.count[n] >= self.most}
        done |= self.aborted if self.level is Isolation.READ_COMMITTED else set()
        done |= {0} if self.wrong == "skip" else set()
        return next((n for n in range(self.size) if n not in done), self.size)

    def config(self) -> RunConfig:
        limit = {"group.share.delivery.count.limit": f"{self.most}"}
        return run_config({"seed": 1, "workload": "share", "broker_settings": limit})

    def events(self, faults: int = 0) -> list[Event]:
        found: list[Event] = [ShareOffsetsListed(ns=self.now, rows=(("g", "x", 0, self.start),))]
        for number in range(faults):
            begin = self.rng.randint(0, self.now)
            nodes, slots = self.rng.choice((((1,), ()), ((), ()), ((), (1,))))
            found.append(fault(number, begin, nodes, slots))
            if self.rng.random() < 0.8:
                found.append(FaultHealed(begin_ns=begin, ns=begin + self.rng.randint(0, 5 * S), fault=number))
            if self.rng.random() < 0.3:
                found.append(NodeEnded(ns=self.rng.randint(0, self.now), end=NodeEnd(node=1, exit_code=1)))
            for ns in sorted(self.rng.randint(0, self.now) for _ in range(2)):
                leaders = {"x-0": self.rng.choice((1, 1, 1, 2, 2, -1))}
                found.append(look(ns, leaders["x-0"], agreed=self.rng.random() < 0.5))
            if self.rng.random() < 0.3:
                offsets = {"x-0": self.rng.randint(0, self.size)}
                found.append(RecordsDeleted(ns=self.rng.randint(0, self.now), fault=number, offsets=offsets))
        return found


def look(ns: int, leader: int, *, agreed: bool = True) -> RolesSeen:
    return RolesSeen(ns=ns, leaders={"x-0": leader}, isr={}, controller=1, answering=(1,), agreed=agreed)


def fault(number: int, begin: int, nodes: tuple[int, ...], slots: tuple[int, ...]) -> FaultStarted:
    more = {"fault": number, "name": "kill:one", "text": "", "colour": ""}
    return msgspec.convert(
        {"event": "fault", "begin_ns": begin, "ns": begin, "nodes": nodes, "slots": slots, **more},
        FaultStarted,
    )


WRONG = {
    "redelivers": "share-redelivery",
    "two": "share-two-holders",
    "renewal": "share-two-holders",
    "skip": "share-skip",
    "aborted": "share-aborted-read",
    "count": "share-count",
    "limit": "share-over-limit",
}


def made(seed: int, wrong: str = "") -> Group:
    """A group after its whole life."""
    group = Group(seed, wrong)
    group.run()
    return group


def found_by_both(group: Group, events: list[Event]) -> set[str]:
    """The classes that both find; they have to say the same."""
    tables, config = group.built.tables(), group.config()
    slow = anomalies.findings(tables, portable=False, events=events, config=config)
    tally = check_tables(tables, portable=False, events=events, config=config, cap=2**31)
    assert not tally.crashed, tally.crashed
    fast = {one.canonical for one in tally.findings if one.name in anomalies.SHARED}
    assert fast == {key for key in slow if key[0] in anomalies.SHARED}
    may = anomalies.variants(tables, portable=False, events=events, config=config)
    for one in tally.findings:
        if one.name in anomalies.SHARED:
            assert (one.variant, one.excuse) in may[one.canonical]
    return {str(key[0]) for key in fast}


@pytest.mark.sampled(10)
@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_kernel_and_oracle_agree_on_groups_that_go_wrong(first: int) -> None:
    for seed in range(first, first + CHUNK):
        group = made(seed, [*WRONG][seed % len(WRONG)])
        found_by_both(group, group.events(faults=seed % 3))


@pytest.mark.sampled(10)
@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_a_correct_group_shows_nothing_with_faults_or_without(first: int) -> None:
    for seed in range(10_000 + first, 10_000 + first + CHUNK):
        group = made(seed)
        assert found_by_both(group, group.events(faults=seed % 3)) == set(), seed


@pytest.mark.sampled(8)
@pytest.mark.parametrize("wrong", WRONG)
def test_each_planted_fault_of_a_group_is_found_as_what_it_is(wrong: str) -> None:
    counts: Counter[str] = Counter()
    for seed in range(30):
        group = made(seed, wrong)
        counts.update(found_by_both(group, group.events()))
    assert counts[WRONG[wrong]] >= 4
    near = {"redelivers": {"share-count"}, "two": set(), "renewal": set(), "limit": set()}
    assert set(counts) - {WRONG[wrong]} <= near.get(wrong, set()), counts


def test_a_log_that_lost_its_end_permits_what_it_can_take_and_nothing_else() -> None:
    lost = {name for name in anomalies.SHARED if ANOMALIES[name].rule(Ground(excuse=Excuse.UNCLEAN), "")[0]}
    assert lost == {"share-redelivery", "share-skip", "share-aborted-read"}
    assert not any(ANOMALIES[name].rule(Ground(), "")[0] for name in anomalies.SHARED)


SAYS = {
    "redelivers": r"rocess \d .* had (accepted|rejected) record 0/10\d .*, and had the answer at .* s; yet",
    "two": r"rocess \d .* held record 0/10\d of x-0 at offset \d .* for 2 s, since .* gave it to process \d",
    "renewal": r"held record 0/10\d of x-0 at offset \d .* for 2 s, since .* gave it to (process|the same)",
    "skip": r"roup g is done with x-0 below offset \d\. .* offset 0, and no member was ever given it\.",
    "aborted": r"transaction op \d+ of process 0 .*, which was aborted; .*, at read_committed, delivered",
    "count": r"delivered record 0/10\d of x-0 with delivery count \d .*, and later with count \d",
    "limit": r"to process \d .* with delivery count \d; the limit is \d\.",
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_finding_says_who_got_what(wrong: str) -> None:
    groups = (made(seed, wrong) for seed in range(60))
    group = next(one for one in groups if WRONG[wrong] in found_by_both(one, one.events()))
    names = {"f": F, "error": ["E"], "group": ["g"], "txn_id": []}
    checked = api.check(group.built.tables(), config=group.config(), events=group.events(), names=names)
    found = checked.verdict.anomalies[WRONG[wrong]]
    assert found.disallowed == found.count > 0
    for one in found.examples:
        assert re.search(SAYS[wrong], one.sentence), one.sentence


def renewed(outcome: Outcome, again_ns: int, *, kind: Acknowledgement = Acknowledgement.RENEW) -> Group:
    """Member 1 is given a record at 0 s, says something of it at 1.5 s, and accepts it, late, at 9 s; member
    2 is given it at another time."""
    group = Group(0)
    group.built.processes |= {n: Process(group=0, acks=-2, isolation=group.level) for n in (1, 2)}
    group.op(0, "txn", Send(tp=0, value=100, offset=0), txn=True, outcome=Outcome.OK)
    record = Delivery(tp=0, offset=0, value=100, count=1)
    late = Said(tp=0, offset=0, kind=Acknowledgement.ACCEPT, outcome=Outcome.FAIL)
    said = Said(tp=0, offset=0, kind=kind, outcome=outcome)
    steps: list[tuple[int, int, Delivery | Said]] = [(1, 0, record), (1, 3 * S // 2, said)]
    steps += [(2, again_ns, replace(record, count=2)), (1, 9 * S, late)]
    for process, ns, mop in sorted(steps, key=lambda step: step[1]):
        group.now = 9 * S + ns
        group.op(process, "acquire" if mop is not late and mop is not said else "acknowledge", mop)
    group.now = 30 * S
    return group


@pytest.mark.parametrize(
    ("group", "found"),
    [
        (renewed(Outcome.OK, 3 * S), True),  # 1.5 s and the lock are 3.5 s
        (renewed(Outcome.OK, 4 * S), False),
        (renewed(Outcome.FAIL, 3 * S), False),
        (renewed(Outcome.INFO, 3 * S), False),
        (renewed(Outcome.INFO, 17 * S // 10), True),  # within the lock: a renewal gives nothing up
        (renewed(Outcome.FAIL, 17 * S // 10), True),
        (renewed(Outcome.INFO, 17 * S // 10, kind=Acknowledgement.RELEASE), False),
    ],
)
def test_a_renewal_that_was_answered_lengthens_the_lock(group: Group, found: bool) -> None:
    assert found_by_both(group, []) == ({"share-two-holders"} if found else set())


class PassedOver(Group):
    """A group of `--preset share` that is done with a record, though no member ended it: a member was given
    it so often, and released it. The next one is accepted. All members end with the run."""

    def __init__(self, members: int, times: int) -> None:
        super().__init__(0)
        self.members = members
        group = range(1, members + 1)
        self.built.processes |= {n: Process(group=0, acks=-2, isolation=self.level) for n in group}
        self.op(0, "send", *(Send(tp=0, value=100 + n, offset=n) for n in (0, 1)))
        given = [(0, count, Acknowledgement.RELEASE) for count in range(1, times + 1)]
        for offset, count, kind in [*given, (1, 1, Acknowledgement.ACCEPT)]:
            self.op(1, "acquire", Delivery(tp=0, offset=offset, value=100 + offset, count=count))
            self.op(1, "acknowledge", Said(tp=0, offset=offset, kind=kind))
        self.op(
            members + 1, "final", *(Read(tp=0, offset=n, value=100 + n) for n in (0, 1)), phase=Phase.FINAL
        )
        for n in group:
            self.op(n, "leave")
        bound = Bound(tp=0, isolation=Isolation.READ_COMMITTED, end=2, read_to=2)
        self.built.bounds.append(bound)

    @property
    def start(self) -> int:
        return 2

    def config(self) -> RunConfig:
        return run_config({"seed": 1, "preset": "share", "consumers": self.members})


@pytest.mark.parametrize(
    ("members", "times", "found"),
    [
        (4, 0, True),
        (4, 5, True),
        (8, 0, True),
        (8, 1, True),
        (8, 2, False),  # each member may have been given it once more, unseen: ten times
    ],
)
def test_the_preset_lets_a_record_be_known_to_be_passed_over(members: int, times: int, found: bool) -> None:
    group = PassedOver(members, times)
    assert found_by_both(group, group.events()) == ({"share-skip"} if found else set())


Step = tuple[int, int, int, list[Delivery | Said]]
"""A process, what it did from this ms until that one."""


def held_again(*steps: Step) -> Group:
    """Member 1 is given two records at 9 s. The lock of the first one lasts 2 s; then come the steps."""
    group = Group(0)
    group.built.processes |= {n: Process(group=0, acks=-2, isolation=group.level) for n in (1, 2)}
    both = [Send(tp=0, value=100 + n, offset=n) for n in (0, 1)]
    group.built.ops.append(Op(process=0, f="send", invoke=1, complete=2, mops=[*both]))
    first: Step = 1, 9000, 9100, [given(1, 9000), Delivery(tp=0, offset=1, value=101, count=1)]
    for process, begin, end, mops in (first, *steps):
        f = "acquire" if isinstance(mops[0], Delivery) else "acknowledge"
        op = Op(process=process, f=f, invoke=begin * MS, complete=end * MS, mops=[*mops])
        group.built.ops.append(op)
    group.now = 30 * S
    return group


def given(count: int, since_ms: int) -> Delivery:
    """The first record."""
    return Delivery(tp=0, offset=0, value=100, count=count, since=since_ms * MS)


def of_first(kind: Acknowledgement, outcome: Outcome = Outcome.OK) -> list[Delivery | Said]:
    return [Said(tp=0, offset=0, kind=kind, outcome=outcome)]


def answered(ms: int) -> Step:
    """Member 1's session lasted: a leader answers it for the second record."""
    return 1, ms, ms + 100, [Said(tp=0, offset=1, kind=Acknowledgement.ACCEPT, outcome=Outcome.FAIL)]


def released(begin: int, end: int, outcome: Outcome = Outcome.OK) -> Group:
    """Member 1 keeps its record, is given it again, since 14 s, and takes that at 14.6 s. What it says of the
    one that it kept may free the other one. Member 2 is given the record at 15.2 s."""
    again: Step = 1, 14_500, 14_600, [given(2, 14_000), Delivery(tp=0, offset=1, value=101, count=2)]
    said: Step = 1, begin, end, of_first(Acknowledgement.RELEASE, outcome)
    return held_again(again, said, (2, 15_100, 15_200, [given(3, 15_100)]), answered(15_600))


@pytest.mark.parametrize(
    ("group", "found"),
    [
        (released(14_200, 14_300), False),
        (released(13_900, 14_050), False),
        (released(13_800, 13_900), True),  # it was with the leader before the member held the record again
        (released(13_800, 13_900, Outcome.INFO), False),  # or came later
        (released(15_150, 15_300), False),
        (released(15_250, 15_300), True),
    ],
)
def test_a_release_of_what_was_kept_may_free_what_is_held_again(group: Group, found: bool) -> None:
    assert found_by_both(group, []) == ({"share-two-holders"} if found else set())


def renewal_until(end: int, process: int) -> Group:
    """Member 1 renews the lock until some time; the record is given to a process since 11 s, and taken at
    12.2 s."""
    said: Step = 1, 10_500, end, of_first(Acknowledgement.RENEW)
    return held_again(said, (process, 12_100, 12_200, [given(2, 11_000)]), answered(12_300))


@pytest.mark.parametrize(
    ("group", "found"),
    [
        (renewal_until(10_600, 1), True),
        (renewal_until(11_050, 1), False),  # it may have renewed the later hold
        (renewal_until(11_050, 2), True),  # which is not its own here
    ],
)
def test_a_renewal_may_be_of_what_the_same_member_is_given_later(group: Group, found: bool) -> None:
    assert found_by_both(group, []) == ({"share-two-holders"} if found else set())


def test_a_finding_says_that_the_same_member_was_given_a_record_again() -> None:
    group = renewal_until(10_600, 1)
    names = {"f": F, "error": ["E"], "group": ["g"], "txn_id": []}
    checked = api.check(group.built.tables(), config=group.config(), names=names)
    (example,) = checked.verdict.anomalies["share-two-holders"].examples
    assert "; share group g gave it to the same member again (op 3), before 12." in example.sentence


@pytest.mark.parametrize(
    ("looks", "found"),
    [
        ([(0, 1), (30, 2)], True),  # the leader moved long after
        ([(-30, 1), (-20, 2), (30, 2)], True),  # or long before
        ([(-40, 2), (-30, 1)], True),
        ([(0, 1), (30, -1)], True),
        ([(-60, -1), (30, 1)], False),  # who led in between is not known
        ([(-60, -1)], False),
    ],
)
def test_a_lock_is_lost_only_about_when_a_leader_moved(looks: list[tuple[int, int]], found: bool) -> None:
    """looks: seconds before (negative) the group began, or after it ended, and the leader."""
    counts: Counter[str] = Counter()
    for seed in range(12):
        group = made(seed, "two")
        shifted = [(group.now + at * S if at > 0 else at * S, leader) for at, leader in looks]
        counts.update(found_by_both(group, [*group.events(), *(look(ns, leader) for ns, leader in shifted)]))
    assert (counts["share-two-holders"] > 0) is found


def test_a_lock_may_be_lost_while_leaders_move_all_the_time() -> None:
    counts: Counter[str] = Counter()
    for seed in range(12):
        group = made(seed, "two")
        moves = [look(ns, 1 + n % 2) for n, ns in enumerate(range(0, group.now + 10 * S, 10 * S))]
        counts.update(found_by_both(group, [*group.events(), *moves]))
    assert not counts["share-two-holders"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("wrong", ["two", "skip", "count"])
def test_a_group_with_a_cut_member_is_not_asked_what_its_missing_lines_may_say(wrong: str) -> None:
    counts: Counter[str] = Counter()
    for seed in range(20):
        group = made(seed, wrong)
        group.built.processes[2].end = End.CRASHED
        phases = [PhaseStarted(ns=1, phase=Phase.FAULTS), PhaseStarted(ns=2, phase=Phase.COLLECT)]
        counts.update(found_by_both(group, [*phases, *group.events()]))
    assert (WRONG[wrong] in counts) is (wrong == "count")
