"""The nemesis `wire`: single requests come late, or get lost with their connection."""

import random
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from core.capabilities import Wired, WiredBetween, WiredWithin
from core.config import RunConfig
from core.generator import source
from core.internal_topics import SHARE_STATE_TOPIC
from core.load_clients import ClientSlot
from core.op import TopicPartition
from core.wire import Action, WireRule, fetcher_id, holding, reader_id
from nemesis.families.client import start_again, startable
from nemesis.types import (
    Act,
    AimedFault,
    ClusterView,
    Effect,
    Environment,
    FaultKind,
    Healing,
    HealingStage,
    Nemesis,
    NoEffect,
    NoTarget,
    PlannedFault,
    WorkloadNames,
)

CAUGHT_S = 2.0
"""How long a rule waits for a request to take. Meanwhile no other fault begins or ends; a fault that took
none is tried again."""
STARTED_S = 10.0
"""The same for a request of a client that the fault starts again: it has to come up first, and is killed
once only."""
ASKED_S = 6.0
"""The same for what brokers ask controllers, and not at all times: they say every 2 s at least that they
live, and ask for another in-sync set when a follower has lagged for long enough (3 s)."""
HELPER = 1_000_000
"""Added to the number of a rule that causes what another one is to take."""
SKIP_S = 0.5
"""How long a rule lets requests pass: after that it takes the next one, whatever its number."""

TIMES = (1, 3, 10)
"""How many requests a fault takes at most."""

ACTIONS = {
    Action.HOLD: "waits, and so does what follows on its connection",
    Action.DETACH: "waits, and its client's connection is reset",
    Action.DROP_REQUEST: "is lost, and its connection is reset",
    Action.DROP_RESPONSE: "arrives; from its response on its connection is silent",
    Action.DELAY_RESPONSE: "arrives; its response waits, and so does what follows it",
    Action.CUT: "arrives; its connection is reset before the response",
}
"""What a network does to a request, in words."""
WAITING = (Action.HOLD, Action.DETACH)


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests of one kind: APIs by Kafka's names, which one of these ends the wait (drawn; "" = the end of
    the fault does), and what a workload has to have for them to be sent. between: nodes send them to each
    other. at_start: clients that are new send them, others seldom: the fault kills one, and starts it
    again."""

    apis: dict[str, str]
    until: tuple[str, ...]
    needs: str = ""
    between: bool = False
    at_start: bool = False


KINDS = {
    "endtxn": Requests({"end_txn": "EndTxn"}, ("", "produce", "produce"), "transactional ids"),
    "produce": Requests({"produce": "Produce"}, ("", "end_txn")),
    "add-partitions": Requests(
        {"add_partitions_to_txn": "AddPartitionsToTxn"}, ("", "end_txn", "produce"), "transactional ids"
    ),
    "offsets": Requests(
        {"offset_commit": "OffsetCommit", "txn_offset_commit": "TxnOffsetCommit"},
        ("", "end_txn", "fetch"),
        "consumer groups",
    ),
    "fetch": Requests({"fetch": "Fetch"}, ("",)),
    "init-producer-id": Requests(
        {"init_producer_id": "InitProducerId"}, ("", "end_txn", "produce"), "producers", at_start=True
    ),
    "markers": Requests({"write_txn_markers": "WriteTxnMarkers"}, ("",), "transactional ids", between=True),
    "share-state": Requests(
        {"write_share_group_state": "WriteShareGroupState"}, ("",), "share groups", between=True
    ),
    "fetch-between": Requests({"fetch": "Fetch"}, ("",), between=True),
    "fetch-metadata": Requests({"fetch": "Fetch"}, ("",), between=True),
    "alter-partition": Requests({"alter_partition": "AlterPartition"}, ("",), between=True),
    "heartbeat-controller": Requests({"broker_heartbeat": "BrokerHeartbeat"}, ("",), between=True),
}
WITHIN: Final = ("fetch-between", "fetch-metadata", "alter-partition", "heartbeat-controller")
"""Kinds of `KINDS` that keep a cluster together."""


class Path(NamedTuple):
    """Which requests a rule between nodes takes: to this node, and from who calls itself so, "" = from any.
    follower: a path that is to be held until such a request comes."""

    node: int
    client_id: str = ""
    follower: "Path | None" = None


def _drawn(kind: str, rng: random.Random, names: WorkloadNames) -> tuple[str, str, str]:
    """API, its name in Kafka, and the API that ends the wait."""
    possible = [
        one for one, sent in KINDS.items() if not (sent.between or sent.at_start or _lacks(one, "", names))
    ]
    requests = KINDS[rng.choice(possible) if kind == "random" else kind]
    apis = list(requests.apis)
    if "txn_offset_commit" in apis:  # what commits offsets in transactions sends no other commits
        apis = apis[1:] if names.transactional_ids else apis[:1]
    api = rng.choice(apis)
    return api, requests.apis[api], rng.choice(requests.until)


def _lacks(kind: str, target: str, names: WorkloadNames) -> str:
    needs = KINDS[kind].needs if kind in KINDS else ""
    held = {
        "transactional ids": names.transactional_ids,
        "consumer groups": names.groups,
        "share groups": names.share_groups,
        "producers": [client for client in names.clients if client.produces],
    }
    return needs if needs and not held[needs] else ""


def _aim(step: PlannedFault, view: ClusterView) -> AimedFault:
    rng = source(step.seed, "aim")
    api, name, until = _drawn(step.kind, rng, view.names)
    between = step.kind in KINDS and KINDS[step.kind].between
    at_start = step.kind in KINDS and KINDS[step.kind].at_start
    # A broker that waits on a silent connection waits for its own time-out, which may end long after healing.
    action = rng.choice([one for one in ACTIONS if not (between and one is Action.DROP_RESPONSE)])
    path = rng.choice(_paths(step.kind, view)) if between else None
    rule = WireRule(
        number=step.fault,
        api=api,
        action=action,
        skip=0 if at_start else rng.randrange(5),
        skip_s=SKIP_S,
        times=rng.choice(TIMES),
        until_api=until if action in WAITING else "",
        between=between,
        nodes=(path.node,) if path else (),
        client_id=path.client_id if path else "",
    )
    slots = (startable(view, rng, _producing),) if at_start else ()
    rules = [rule]
    if path and (follower := path.follower):
        rules.append(holding(HELPER + step.fault, "fetch", follower.node, follower.client_id))
    return AimedFault(step=step, text=f"{name} {ACTIONS[action]}", rules=tuple(rules), slots=slots)


def _producing(free: list[ClientSlot]) -> list[ClientSlot]:
    """Clients that ask for a producer id; those whose late requests may fence others, where there are any."""
    return [client for client in free if client.transactional_id] or [
        client for client in free if client.produces
    ]


def _asks_for_no_id(config: RunConfig) -> str:
    return "" if config.idempotent else "producers ask for no producer id: set idempotent=true"


def _paths(kind: str, view: ClusterView) -> list[Path]:
    """Where such requests between nodes go. Raises: NoTarget."""
    up = {*view.brokers} - {*view.down}
    leaders = view.roles.leaders
    data = {tp: leader for tp in view.names.data if (leader := leaders.get(tp, -1)) in up}
    if kind in WITHIN:
        found = _paths_within(kind, view, up, data)
    elif kind == "share-state":
        logs = {leader for tp, leader in leaders.items() if tp.topic == SHARE_STATE_TOPIC}
        found = [Path(leader) for leader in logs & up]
    else:
        found = [Path(leader) for leader in {*data.values()}]
    if not found:
        raise NoTarget("no leader of a partition is known")
    return sorted(found)


def _paths_within(
    kind: str, view: ClusterView, up: Set[int], data: Mapping[TopicPartition, int]
) -> list[Path]:
    """Of what keeps a cluster together. A node asks itself past all rules. Raises: NoTarget."""
    controller = view.roles.controller
    if kind != "fetch-between" and controller not in {*view.nodes} - {*view.down}:
        raise NoTarget("no active controller is known")
    followed = {
        (leader, follower)
        for tp, leader in data.items()
        for follower in {*view.roles.isr.get(tp, ())} & up - {leader}
    }
    match kind:
        case "fetch-between":
            return [Path(leader, fetcher_id(follower)) for leader, follower in followed]
        case "fetch-metadata":
            return [Path(controller, reader_id(broker)) for broker in up - {controller}]
        case "alter-partition":
            return [
                Path(controller, follower=Path(leader, fetcher_id(follower)))
                for leader, follower in followed
                if leader != controller
            ]
        case _:
            return [Path(controller)]


async def _apply(env: Environment, hit: AimedFault) -> AimedFault:
    assert isinstance(env.cluster, Wired)
    cluster, (rule, *helpers) = env.cluster, hit.rules
    await cluster.rule(hit.rules)
    if hit.slots:
        await start_again(env, hit)
    limit_s = STARTED_S if hit.slots else ASKED_S if hit.step.kind in WITHIN else CAUGHT_S

    async def missing() -> str:
        return "" if await cluster.seen(rule.number) else "no such request came"

    if why := await env.until(missing, limit_s):
        limit = "before the faults ended" if env.stopping() else f"within {limit_s:g} s"
        told = f"{hit.text}: {why} {limit}"
        raise NoEffect(f"{told}, of client {hit.slots[0]} either") if hit.slots else NoTarget(told)
    if helpers:
        await cluster.lift([one.number for one in helpers])
    first = (await cluster.seen(rule.number))[0]
    name, _, what = hit.text.partition(" ")
    sender = f"broker {first.client_id}" if rule.between and first.client_id.isdecimal() else ""
    of = f" of {named}" if (named := first.named or sender) else ""
    less = f" (after {first.skipped} others, not {rule.skip}: only those came in {SKIP_S:g} s)"
    more = f" (the first of up to {rule.times})" if rule.times > 1 else ""
    by = f"; client {hit.slots[0]} was killed and started again" if hit.slots else ""
    text = f"{name}{of} to node {first.node}{more} {what}{less if first.skipped < rule.skip else ''}{by}"
    # a broker that did not hear, or was not heard, may lose what it leads
    return replace(hit, nodes=() if hit.step.kind in WITHIN else (first.node,), text=text)


async def _undo(env: Environment, hit: AimedFault) -> None:
    assert isinstance(env.cluster, Wired)
    await env.cluster.lift([rule.number for rule in hit.rules])


def _lift_all(env: Environment) -> Act:
    cluster = env.cluster
    assert isinstance(cluster, Wired)
    lift = cluster.lift
    return lambda _: lift()


def _within(doc: str, apply_s: float = 0.0) -> FaultKind:
    """A kind of `WITHIN`."""
    return FaultKind(
        doc=f"{doc}; by name only", targeted=False, weight=0, brokers=2, needs=(WiredWithin,), apply_s=apply_s
    )


LIFTED = Healing(
    at=HealingStage.LINKS, needs=Wired, what="lift", of="rule", everyone=lambda _: [0], act=_lift_all
)
WIRE = Nemesis(
    name="wire",
    healings=(LIFTED,),
    doc="""\
Single requests come late, or are lost with their connections.

A proxy that knows Kafka's frames stands in front of brokers; for what nodes send to each other (`markers`,
`share-state`, `fetch-between`, `fetch-metadata`, `alter-partition`, `heartbeat-controller`), others stand
between them.
Each fault takes 1, 3 or 10 requests of one kind. A request waits on its own connection until the fault ends
or a certain other request comes (of a transaction: one of its own), also when its client has given up
meanwhile; or it is lost; or it arrives, and its response does not. Only what a network can do happens. A
fault that finds no request to take, in several tries, has failed. For `init-producer-id` one client is killed
and started again, for it is the first thing that a producer asks for. For `alter-partition` a follower's
fetches wait until its leader asks to take it out of the in-sync set; then the follower is back, and the
leader asks for it again.

What Kafka does: sequence numbers and producer epochs make late and repeated requests harmless, in most
places. What clients do: they give up after their time-outs (2 s), and ask again on another connection.
Coordinators send markers again, too, and the late ones come after them. A late InitProducerId of a
transactional id aborts what a producer with it has open by then, and fences it. A follower whose fetches wait
is taken out of the in-sync set, a broker that is not heard is fenced, and leads nothing; a leader that waits
for the controller's word counts with both in-sync sets (KIP-497), and one that has no new metadata leads on
in an epoch that has ended.

What it tends to show: an EndTxn that comes late and ends the next transaction (KAFKA-17754), or a marker that
does so in one partition (KAFKA-19446), both with clients of transaction version 1; a Produce that comes after
the end of its transaction (KAFKA-14402); duplicates and reordering of producers without idempotence;
offsets that go back; a share group up to 4.3 whose start offset goes back, and that delivers again what had
ended (apache/kafka#23074).""",
    colour="#332288",
    needs=(Wired,),
    kinds={
        "endtxn": FaultKind(doc="EndTxn, which ends a transaction", targeted=False, weight=3),
        "produce": FaultKind(doc="Produce, which brings records", targeted=False, weight=2),
        "add-partitions": FaultKind(doc="AddPartitionsToTxn", targeted=False),
        "offsets": FaultKind(
            doc="OffsetCommit, or TxnOffsetCommit where offsets are committed in transactions", targeted=False
        ),
        "fetch": FaultKind(doc="Fetch of a consumer", targeted=False),
        "random": FaultKind(doc="any of these that clients send", targeted=False, weight=0),
        "init-producer-id": FaultKind(
            doc="InitProducerId of a client that is started again, which takes a transactional id over;"
            " by name only",
            targeted=False,
            weight=0,
            apply_s=1.0,
            refuses=_asks_for_no_id,
        ),
        "markers": FaultKind(
            doc="WriteTxnMarkers, by which coordinators of transactions write their ends to the partitions of"
            " other brokers; by name only",
            targeted=False,
            weight=0,
            brokers=2,
            needs=(WiredBetween,),
        ),
        "share-state": FaultKind(
            doc="WriteShareGroupState, by which leaders have other brokers store the state of share groups;"
            " by name only",
            targeted=False,
            weight=0,
            brokers=2,
            needs=(WiredBetween,),
        ),
        "fetch-between": _within("Fetch of a follower, which copies a leader's log"),
        "fetch-metadata": _within("Fetch of the metadata log, by which a broker learns what was decided"),
        "alter-partition": _within("AlterPartition, by which a leader asks for another in-sync set", 3.0),
        "heartbeat-controller": _within("BrokerHeartbeat, by which a broker says that it lives", 1.0),
    },
    effect=Effect(_aim, _apply, _undo),
    lacks=_lacks,
    in_random=False,
)
