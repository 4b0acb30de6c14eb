"""Rules about single requests on their way to brokers, and what such rules did.

Every action but `refuse` is something that a network can do: bytes come late or not at all, and connections
break. What follows from it counts against Kafka.
"""

from dataclasses import dataclass
from enum import StrEnum

import msgspec


class Action(StrEnum):
    """What happens to a request that a rule takes."""

    HOLD = "hold"
    """It waits, and with it all that follows on its connection; it reaches the broker on the connection that
    it came by, also after the client has given up."""
    DETACH = "detach"
    """As `hold`, and the client's side of the connection is reset at once: the client tries again
    elsewhere."""
    DROP_REQUEST = "drop-request"
    """It never reaches the broker, and the client's side is reset."""
    DROP_RESPONSE = "drop-response"
    """From its response on, nothing that the broker sends on this connection reaches the client."""
    DELAY_RESPONSE = "delay-response"
    """The response waits, and with it all later ones of the connection."""
    CUT = "cut"
    """It reaches the broker, and the client's side is reset at once: its response is lost."""
    REFUSE = "refuse"
    """It never reaches the broker; the proxy answers with an error. No network does this."""


def fetcher_id(node: int) -> str:
    """The client id of a follower that fetches records, where one thread of its does that (Kafka's
    default)."""
    return f"broker-{node}-fetcher-0"


def reader_id(node: int) -> str:
    """The client id of a node that fetches the metadata log."""
    return f"raft-client-{node}"


class WireRule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule. It takes a request that fits every condition that is given.

    number: unlike that of any other rule of the run. api: Kafka's name in small letters, `end_txn`. nodes:
    brokers that were sent it; empty: any. versions: lowest and highest. client_id: "" = any.
    transactional_id, group, partition: named by the request. skip: number of requests that fit and pass
    first. skip_s: seconds after which no more of them pass, 0 = they all do. times: number of requests that
    it takes, 0 = all. seconds: how long it holds, 0 = until it is released. answers: of `hold`, the response
    to what was let go waits in turn, until the rule lets go again. until_api: a request of this API releases
    what it holds ("" = none does), if it names the same transactional id, or one of the two names
    none. error: of `refuse`, Kafka's code. between: it takes requests that brokers send to other brokers, in
    place of those of clients; each broker that it names counts those for itself.
    """

    number: int
    api: str
    action: Action
    nodes: tuple[int, ...] = ()
    versions: tuple[int, int] | None = None
    client_id: str = ""
    transactional_id: str = ""
    group: str = ""
    partition: tuple[str, int] | None = None
    skip: int = 0
    skip_s: float = 0.0
    times: int = 1
    seconds: float = 0.0
    answers: bool = False
    until_api: str = ""
    error: int = 0
    between: bool = False


def holding(number: int, api: str, node: int, client_id: str = "", *, answers: bool = False) -> WireRule:
    """A rule by which all such requests of other nodes to a node wait ("" = of any of them)."""
    return WireRule(
        number=number,
        api=api,
        action=Action.HOLD,
        nodes=(node,),
        client_id=client_id,
        times=0,
        answers=answers,
        between=True,
    )


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule did, or what happened to what it took.

    what: `caught`, `delivered` (what was held reached the broker's connection), `answered` (by the broker;
    error: its code, where the response has one), `lost` (the connection ended first). ns: CLOCK_MONOTONIC.
    named: transactional ids, groups and partitions that the request names, in words; of markers their
    producers, too: `producer 2000/0` has this id and epoch; of a Fetch the follower that sent it, `broker 2`.
    skipped: of `caught`, how many requests that fit had passed.
    """

    ns: int
    rule: int
    what: str
    node: int
    connection: int
    api: str
    version: int
    correlation_id: int
    client_id: str
    named: str = ""
    error: int | None = None
    skipped: int = 0


@dataclass(slots=True)
class RuleTally:
    """How many requests that fit a rule have passed, and how many it took, since it was put in force."""

    since_ns: int
    skipped: int = 0
    taken: int = 0

    def takes(self, rule: WireRule, now_ns: int) -> bool:
        """Whether the rule takes one more that fits; counts it."""
        late = rule.skip_s > 0 and now_ns - self.since_ns >= rule.skip_s * 1e9
        if self.skipped < rule.skip and not (late or self.taken):
            self.skipped += 1
            return False
        if rule.times and self.taken >= rule.times:
            return False
        self.taken += 1
        return True
