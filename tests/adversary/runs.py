"""Whole runs of the small Kafka, by chance."""

from random import Random
from typing import Literal

from core.cluster import NodeEnd, OpenTransaction
from core.config import Application, RunConfig
from core.op import AssignmentKind, End, Outcome, Phase
from core.systems import KafkaSection
from history.events import (
    BoundsListed,
    ClockJumped,
    EndsUnseen,
    Event,
    EvidenceMissing,
    FaultFailed,
    FaultStarted,
    HealFailed,
    Interrupted,
    JournalsListed,
    NodeEnded,
    Note,
    PhaseStarted,
    Recovered,
    RunStarted,
    ShareOffsetsListed,
    TransactionsOpen,
    WorkerLost,
    WrongClusterSeen,
    incomplete,
)
from tests.adversary import applications
from tests.adversary.clients import READING_ON, consumer, producer, transactional
from tests.adversary.excuses import retention
from tests.adversary.facts import Facts
from tests.adversary.faults import BUGS, bugs, cleaned, nemesis
from tests.adversary.members import member
from tests.adversary.noise import shaken
from tests.adversary.registration import gives_up
from tests.adversary.removals import (
    bounds_of_deleted,
    deleted,
    deletions,
    kinds,
    orphaned,
    remake,
    remembered,
    unread,
)
from tests.adversary.rows import Recorded
from tests.adversary.sealed import tables
from tests.adversary.shares import IN_CALM, LIMIT, disturbs, led_alike, listed, shared
from tests.adversary.world import MS, RC, RU, Group, Plan, Steps, World

# Runs -------------------------------------------------------------------------------------------


SETTINGS = (
    {"unclean.leader.election.enable": "TRUE"},
    {"retention.bytes": "1000"},
    {"retention.ms": "1000"},
    {"flush.messages": "1"},
    {"flush.messages": "3"},
    {"flush.messages": "3"},
    {"min.insync.replicas": "3"},
    {"cleanup.policy": "compact", "delete.retention.ms": "1000"},
    {"cleanup.policy": "compact", "delete.retention.ms": "1000"},
    {"cleanup.policy": "compact"},
)
FLUSHER = {"log.flush.scheduler.interval.ms": "100", "log.initial.task.delay.ms": "0"}
OF_BROKERS = (
    {"log.flush.interval.messages": "1"},
    {"log.retention.hours": "1"},
    {"producer.id.expiration.ms": "3000"},
    {"unclean.leader.election.enable": "true"},
    FLUSHER,
    FLUSHER | {"log.flush.interval.ms": "2000"},
)

CURES = ("plain", "unique-id", "offset-in-transaction", "optimistic-lock")
OLD = 0.3
"""How many runs are on a version whose controller does not look at what is said of unclean elections."""
OLDER = 0.15
"""How many are on one that does not fence the offsets of transactions."""


def plan(rng: Random, *, portable: bool) -> Plan:
    """Chance decides what a run is to be."""
    config = RunConfig(seed=0)
    if not portable:
        levels: tuple[Literal[0, 1, -1], ...] = (-1, -1, -1, -1, 1, 0)
        acks = rng.choice(levels)
        idempotent = acks == -1 and rng.random() < 0.75
        config = RunConfig(
            seed=0,
            acks=acks,
            idempotent=idempotent,
            min_insync_replicas=rng.choice((1, 2, 2, 2, 3)),
            unclean_leader_election=rng.random() < 0.12,
            isolation=rng.choice((RC, RC, RC, RU)),
            commit=rng.choice(("transaction", "transaction", "transaction", "after", "before")),
            topic_settings=rng.choice(SETTINGS) if rng.random() < 0.2 else {},
            broker_settings=rng.choice(OF_BROKERS) if rng.random() < 0.2 else {},
            expect=("lost-write",) if rng.random() < 0.05 else (),
        )
        if config.commit == "after" and rng.random() < 0.5:  # the copies are rows of a database
            config = config.model_copy(update={"workload": "sink", "sink": "plain"})
        elif config.commit != "transaction" and rng.random() < 0.3:
            config = config.model_copy(update={"commit": "automatic"})
    chosen = rng.sample(BUGS, rng.choice((0, 0, 1, 1, 1, 2, 3)))
    return Plan(
        config=config, bugs=chosen, coarse=rng.random() < 0.3, portable=portable, tps=rng.randint(2, 4)
    )


def recorded(seed: int, *, portable: bool = False) -> Recorded:
    """A run of the small Kafka, by chance; what is recorded of half of them is damaged by noise."""
    rng = Random(f"adversary/{seed}/{portable}")
    made = plan(rng, portable=portable)
    noise = rng.random() < 0.5
    if noise:
        made.bugs = made.bugs[:1]
    if not portable:
        draw = Random(f"adversary/version/{seed}").random()
        if draw < OLD + OLDER:
            older = KafkaSection(version="3.8.1" if draw < OLD else "2.4.1")
            made.config = made.config.model_copy(update={"kafka": older})
        made.more, more_bugs = kinds(seed, made.config.compacted)
        made.bugs += more_bugs
        if noise and made.config.workload == "sink":  # else rows would have to be what a cure makes them
            cure = Random(f"adversary/sink/{seed}").choice(CURES)
            made.config = made.config.model_copy(update={"sink": cure})
        if "shares" in made.more:
            made.config = _sharing(made.config, rng, short=0.2 if "share-two" in made.bugs else 0.7)
        else:
            made.config = _reading_on(made.config, seed)
        if "application" in made.more:
            made.config = _applied(made.config, rng)
            made.tps = rng.choice((2, 4))
    world = World(rng, made)
    if made.config.app is not None:
        applications.topics(world, made.config.app)
    lives = rng.choice((2, 2, 3)) if "remade" in made.more else 1
    for life in range(lives):
        if life:
            remake(world, life - 1)
            world.budget = rng.randint(5, 15)
        _live(world, life, last=life == lives - 1)
    for log in world.logs:
        log.high = log.end
    world.time_out()
    cleaned(world)
    begin_final = world.tick()
    _final_reads(world)
    bounds_of_deleted(world)
    if world.app is not None:
        applications.left(world, begin_final)
    if noise:
        shaken(world)
    events = [] if portable else _events(world, begin_final)
    if not portable:
        made.config = gives_up(seed, made.config, events, begin_final)
    promises = (
        []
        if noise or portable
        else [(p.bug, p.classes) for p in world.promises if p.holds() and not _unsure(p.bug, events, world)]
    )
    history = Recorded(
        seed=seed,
        tables=tables(world),
        config=made.config,
        events=events,
        portable=portable,
        planted=world.planted,
        promises=promises,
        quiet=not noise,
        more=made.more,
    )
    if made.config.compacted or world.retired or Facts(history).cut:  # what would show a bug may be missing
        history.promises = []
    return history


def _reading_on(config: RunConfig, seed: int) -> RunConfig:
    """In some runs who copies in transactions reads on after an abort."""
    own = Random(f"adversary/beside/{seed}")
    if config.workload == "sink" or own.random() >= 0.15:
        return config
    return config.model_copy(update={"commit": own.choice(READING_ON)})


def _sharing(config: RunConfig, rng: Random, short: float) -> RunConfig:
    """Of some runs the workload is one of share groups, or a record may be delivered more or less often.

    short: of how many it is, so that a lock is short; a long one lasts while two members are given a record.
    """
    own = config.workload not in ("sink", "application") and rng.random() < short
    brokers = config.broker_settings | rng.choice(({}, {LIMIT: "2"}, {LIMIT: "10"}))
    changed = {"broker_settings": brokers} | ({"workload": "share"} if own else {})
    return config.model_copy(update=changed)


def _applied(config: RunConfig, rng: Random) -> RunConfig:
    """The workload is an application."""
    shape: Literal["one-to-one", "filter"] = rng.choice(("one-to-one", "one-to-one", "filter"))
    app = Application(input="app-in", output="app-out", shape=shape)
    if rng.random() < 0.25:
        app = app.model_copy(update={"output": "", "effects": True})
    return config.model_copy(update={"workload": "application", "app": app})


def _live(world: World, life: int, *, last: bool) -> None:
    """Clients and faults, from the beginning until topics are deleted, or until the final reads."""
    rng, more = world.rng, world.plan.more
    clients = _loading(world)
    if "shares" in more:
        clients += shared(world)
        world.budget += 15
    undisturbed = 0.8 if set(IN_CALM) & set(world.plan.bugs) else 0.4
    calm = "shares" in more and rng.random() < undisturbed
    clients += [nemesis(world, 10 * life, most=0 if calm else 3), bugs(world)]
    if "deletions" in more:
        clients.append(deletions(world, 40 + 3 * life))
    if not last:
        clients.append(deleted(world))
    elif "leaderless" in more:
        clients.append(orphaned(world))
    while clients:
        if world.chance(0.2):
            world.land()
        client = rng.choice(clients)
        try:
            next(client)
        except StopIteration:
            clients.remove(client)
    while world.later:
        world.land()


def _loading(world: World) -> list[Steps]:
    """The clients of a run."""
    rng = world.rng
    if world.app is not None:
        return applications.clients(world)
    clients: list[Steps] = [
        producer(world, 0),
        transactional(world, 1, 1, rng.random() < 0.5),
        consumer(world, 2),
    ]
    clients += [rng.choice((producer, consumer))(world, slot) for slot in range(3, rng.randint(3, 6))]
    if not world.plan.portable:
        clients += _company(world)
    return clients


def _unsure(bug: str, events: list[Event], world: World) -> bool:
    """Whether a bug cannot be shown by such a run."""
    if "start" in world.planted and retention(world.plan.config):
        return True
    losses = ("lost", "truncated", "start", "deletes-more")
    if bug in losses and world.plan.config.acks != -1 and any(map(_waiting, events)):
        return True  # the record may wait for replicas
    groups = {row[0] for e in events if isinstance(e, ShareOffsetsListed) for row in e.rows}
    if bug == "share-passed" and (len(groups) > 1 or retention(world.plan.config)):  # nothing is asked there
        return True
    if bug in IN_CALM and not led_alike(events):
        return True
    if bug in ("share-again", "share-passed", *IN_CALM):
        return any(map(disturbs, events))
    if bug == "phantom":
        return not any(isinstance(event, PhaseStarted) and event.phase >= Phase.COLLECT for event in events)
    if bug == "group-forgets":  # what it went back to may be what was committed
        return bool({"group-ahead", "offsets-kept"} & set(world.planted))
    return bug == "hanging" and any(map(_unsettled, events))


def _waiting(event: Event) -> bool:
    """High watermarks may not have moved yet when the ends of logs were listed."""
    return isinstance(event, BoundsListed) or (isinstance(event, Recovered) and not event.recovered)


def _unsettled(event: Event) -> bool:
    """Coordinators may not have been there to end transactions, or not long enough."""
    if isinstance(event, BoundsListed) and event.moving:
        return True
    return bool(incomplete(event)) or (isinstance(event, Recovered) and not event.recovered)


def _company(world: World) -> list[Steps]:
    rng, half = world.rng, len(world.logs) // 2
    found: list[Steps] = []
    if world.chance(0.5):
        group = Group(0, list(range(len(world.logs))))
        world.groups.append(group)
        found += [member(world, 10 + n, group, copies=False) for n in range(rng.randint(1, 3))]
    if world.chance(0.5):
        group = Group(1, list(range(half)))
        world.groups.append(group)
        found += [member(world, 20 + n, group, copies=True) for n in range(rng.randint(1, 2))]
    if world.chance(0.4):
        found += [transactional(world, slot, 30, False) for slot in (30, 31)]
    for group in world.groups:
        remembered(world, group)
    world.budget += 4 * len(found)
    return found


def _final_reads(world: World) -> None:
    """Everything is read from the start, at both levels; sometimes not to the end."""
    portable = world.plan.portable
    for level in (RC,) if portable else (RU, RC):
        process = world.start(
            100 + level, isolation=level, **({"acks": -1, "idempotent": 1} if portable else {})
        )
        if world.app is not None and level == RC:
            applications.begin_reading(world)
        phase = Phase.FAULTS if portable else Phase.FINAL
        if portable and world.chance(0.5):
            return
        if level == RC and retention(world.plan.config):
            _retire(world)
        first = True
        for log in (*world.logs, *world.database):
            if not first and world.chance(0.02):
                continue
            bound = unread(world, log, level) if log.lost else {}
            if applications.skips(world, log.tp, level):
                bound = bound or {"tp": log.tp, "isolation": int(level), "start": log.start, "end": log.high}
                bound |= {"read_to": -1, "complete": False}
            if bound and bound["read_to"] < 0:
                world.bounds.append(bound)
                continue
            op = world.begin(process, "poll" if portable else "final", phase=phase)
            if first and not portable:
                for each in world.logs:
                    world.assign(op, each.tp, AssignmentKind.MANUAL)
                    world.assign(op, each.tp, AssignmentKind.BEGINNING)
            first = False
            some = log.visible(level, 0)
            end = log.high if level == RU else log.stable()
            read_to = bound["read_to"] if bound else end
            if not portable and end and world.chance(0.03):
                read_to = world.rng.randrange(end)
            if read_to < end:
                some = [e for e in some if e.offset < read_to]
            if world.app is not None:
                some = applications.found(world, op, log, some, whole=read_to >= end)
            world.got(op, log.tp, some, world.tick())
            world.end(op, Outcome.OK)
            if not portable:
                world.bounds.append(
                    {
                        "tp": log.tp, "isolation": int(level), "start": log.start, "end": end,
                        "read_to": read_to, "complete": read_to >= end,
                    }
                )  # fmt: skip


def _retire(world: World) -> None:
    """Retention removes the beginnings of logs between the final reads: where they begin is listed again."""
    for log in world.logs:
        if not world.plan.portable and world.chance(0.3):
            log.start = world.rng.randint(log.start, log.high)
            log.entries = [e for e in log.entries if e.offset >= log.start]
            world.retired = True
            for row in world.bounds:
                if row["tp"] == log.tp:
                    row["start"] = min(log.start, row["end"])


def _incident(rng: Random, ns: int) -> Event:
    """Something that no one had planned."""
    made: list[Event] = [
        NodeEnded(
            ns=ns, end=NodeEnd(node=rng.randint(1, 3), exit_code=1, signal=rng.choice((0, 6, 9, 11, 15)))
        ),
        NodeEnded(ns=ns, end=NodeEnd(node=1, exit_code=1, own_program=True, signal=rng.choice((0, 9)))),
        NodeEnded(ns=ns, end=NodeEnd(node=1, exit_code=137, oom_killed=True, own_program=rng.random() < 0.5)),
        NodeEnded(ns=ns, end=NodeEnd(node=1, exit_code=1, disk_full=True)),
        ClockJumped(before_ns=ns - MS, ns=ns, wall_s=2.0),
        HealFailed(ns=ns, fault=rng.choice((-1, 0)), name="x", why="x"),
        BoundsListed(ns=ns, rows=(), stable=False, moving=rng.choice(("", "x"))),
        EvidenceMissing(ns=ns, why="x"),
        EndsUnseen(ns=ns, why="x"),
        WrongClusterSeen(ns=ns, text="x"),
    ]
    return rng.choice(made)


STARTED_AGAIN = ("half-open:clients@leader", "wire:init-producer-id")
"""Faults that kill a client, and start it again."""


def _deaths(world: World) -> list[Event]:
    """What killed the clients that crashed, as it is recorded."""
    rng, found = world.rng, list[Event]()
    for row in world.processes:
        later = [one["start_ns"] for one in world.processes if one["slot"] == row["slot"]]
        heir = min((ns for ns in later if ns > row["start_ns"]), default=-1)
        if row["end"] != End.CRASHED or rng.random() < 0.03:
            continue
        begin = min(row["end_ns"], heir - 1) if heir >= 0 else row["end_ns"]
        begin -= rng.choice((0, MS))
        if heir < 0 and rng.random() < 0.3:
            found.append(WorkerLost(ns=begin + 5 * MS, slot=row["slot"], why="x", status=-9))
            continue
        if rng.random() < 0.1:
            name = STARTED_AGAIN[row["process"] % 2]
            found.append(FaultFailed(begin_ns=begin, ns=begin + MS, fault=80, name=name, why="x"))
            continue
        client, name = rng.random() < 0.8, STARTED_AGAIN[row["process"] % 2]
        found.append(
            FaultStarted(
                begin_ns=begin,
                ns=begin + MS,
                fault=60 + row["process"],
                name="client:crash@random" if client else name,
                nodes=() if client else (rng.randint(1, 3),),
                slots=(row["slot"],) if client else (),
                text="x",
                colour="x",
            )
        )
    return found


def _events(world: World, begin_final: int) -> list[Event]:
    rng, start = world.rng, 1000 * MS
    found: list[Event] = [
        RunStarted(ns=start, wall="2026-01-01T00:00:00.000+00:00", run="adversary", versions={})
    ]
    found.append(PhaseStarted(ns=start, phase=Phase.FAULTS))
    found += world.events
    faults = [event for event in world.events if isinstance(event, FaultStarted)]
    if not faults and rng.random() < 0.05:
        found.append(FaultFailed(ns=start + MS, fault=0, name="kill:one@leader", why="no target"))
    found.append(PhaseStarted(ns=begin_final, phase=Phase.QUIESCE))
    rows = []
    for log in world.logs:
        for token in {e.token for e in log.entries if log.fate.get(e.token) == "open"}:
            first = min(e.offset for e in log.entries if e.token == token)
            rows.append(
                OpenTransaction(
                    topic=log.title,
                    partition=log.partition,
                    producer_id=100 + token,
                    producer_epoch=0,
                    start=first,
                )
            )
    if rng.random() < 0.9:
        found.append(TransactionsOpen(ns=begin_final + MS, rows=tuple(rows)))
    found += listed(world, begin_final + MS)
    if (draw := rng.random()) < 0.97:
        still = (0,) if draw > 0.96 else ()
        recovered = draw < (0.2 if any(log.lost for log in world.logs) else 0.95)
        found.append(
            Recovered(ns=begin_final + 2 * MS, recovered=recovered, seconds=1.0, why="", stalled=still)
        )
    if rng.random() < 0.95:
        found.append(PhaseStarted(ns=begin_final + 3 * MS, phase=Phase.COLLECT))
        if rng.random() < 0.5:
            gone = rng.choices(((), (9_998,), (9_999,)), (8, 1, 1))[0]  # noise has a record of the last one
            named = tuple(row["process"] for row in world.processes)
            found.append(JournalsListed(ns=begin_final + 4 * MS, processes=(*named, *gone)))
    if rng.random() < 0.15:
        found.append(_incident(rng, begin_final))
    found += _deaths(world)
    if rng.random() < 0.03:
        found.append(Note(ns=begin_final + 3 * MS, text="the disk is full", incomplete=rng.random() < 0.7))
    if rng.random() < 0.02:
        found.append(Interrupted(ns=begin_final + 4 * MS))
    return found
