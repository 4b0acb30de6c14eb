"""Rules of the wire in the simulation: single requests come late or are lost (`core.wire`).

The same rules that the proxy of `harness.wire` carries out on real connections, on the messages of the
simulated network. What waits is sent on when it is released, also when the client has given its
connection up. Messages of a node to itself pass no network.
"""

import random
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from core.errors import ClusterError
from core.wire import Action, RuleTally, Seen, WireRule, fetcher_id, reader_id
from harness.modelled.virtual.network import CLIENTS, DELAY_US, Message, Network, VirtualConnection
from harness.modelled.virtual.scheduler import Scheduler
from model.protocol.controller_messages import QuorumFetch
from model.protocol.coordinator_messages import WriteTxnMarkers, WriteTxnMarkersResponse
from model.protocol.messages import Fetch
from model.protocol.requests import ErrorResponse


@dataclass(slots=True)
class Waiting:
    """What waits on a connection in one direction, the oldest first. ids: transactional ids that it names."""

    rule: WireRule
    messages: deque[Message] = field(default_factory=deque)
    ids: frozenset[str] = frozenset()


class Wire:
    """Carries out rules. `takes` is asked for every message (`Network.proxies`)."""

    def __init__(self, network: Network, scheduler: Scheduler, rng: random.Random) -> None:
        self._network = network
        self._scheduler = scheduler
        self._rng = rng
        self._rules: dict[int, WireRule] = {}
        self._tallies: dict[int, RuleTally] = {}
        self._seen: list[Seen] = []
        self._held: dict[VirtualConnection, Waiting] = {}
        self._late: dict[VirtualConnection, Waiting] = {}
        self._mute: set[VirtualConnection] = set()
        self._answers: dict[int, WireRule] = {}
        self._taken: dict[int, WireRule] = {}
        self._between = False

    def rule(self, rules: Sequence[WireRule]) -> None:
        """Put rules in force. Raises: ClusterError, for one that no network can carry out."""
        for rule in rules:
            if rule.action is Action.REFUSE:
                raise ClusterError("in the simulation nothing between clients and brokers refuses a request")
            if rule.versions or rule.partition or (rule.client_id and not rule.between):
                raise ClusterError(
                    "simulated requests have no version, client id or partition that a rule asks"
                )
            self._rules[rule.number] = rule
            self._between = self._between or rule.between
            self._tallies[rule.number] = RuleTally(self._scheduler.ns)
        if self.takes not in self._network.proxies:
            self._network.proxies.insert(0, self.takes)
            self._network.watchers.append(self._answered)

    def seen(self, number: int | None = None) -> tuple[Seen, ...]:
        """What rules took so far, one of them or all, when what they held was sent on, and how it was
        answered."""
        return tuple(one for one in self._seen if number in (None, one.rule))

    def lift(self, numbers: Sequence[int] = ()) -> None:
        """Take rules back (none given: all), and let go what they hold."""
        for number in numbers or tuple(self._rules):
            self._rules.pop(number, None)
            self._release(number)

    def takes(self, message: Message) -> bool:
        """Whether the network is not to carry a message on its own."""
        connection = message.connection
        if not self._between if connection.client != CLIENTS else connection.process < 0:
            return False  # of nodes, where no rule asks for these; or of the harness itself
        return self._response(message) if message.request is not None else self._request(message)

    # ---- requests

    def _request(self, message: Message) -> bool:
        self._pass(message)
        held = self._held.get(message.connection)
        if held is None:
            return self._apply(message)
        held.messages.append(message)
        return True

    def _apply(self, message: Message) -> bool:
        """Whether a rule takes a request that nothing waits before."""
        connection = message.connection
        rule = self._fitting(message)
        if rule is None:
            return False
        self._saw("caught", message, rule)
        self._taken[message.number] = rule
        match rule.action:
            case Action.HOLD | Action.DETACH:
                self._held[connection] = Waiting(rule, deque([message]), _ids(message.content))
                self._release_in_time(rule)
            case Action.CUT:
                self._network.carry(message)
            case Action.DROP_RESPONSE | Action.DELAY_RESPONSE:
                self._answers[message.number] = rule
                return False
        if rule.action is not Action.HOLD:
            self._network.sever(connection, self._rng.randint(*DELAY_US))
        return True

    def _fitting(self, message: Message) -> WireRule | None:
        for rule in self._rules.values():
            if _fits(rule, message) and self._tallies[rule.number].takes(rule, self._scheduler.ns):
                return rule
        return None

    def _pass(self, message: Message) -> None:
        """Let go what waits for a request of this kind."""
        api, ids = _api(message.content), _ids(message.content)
        for waiting in list(self._held.values()):
            if waiting.rule.until_api == api and (not ids or not waiting.ids or ids & waiting.ids):
                self._release(waiting.rule.number)

    def _answered(self, message: Message) -> None:
        """A node answers; the connection may have ended on the client's side."""
        request = message.request
        if request is not None and (rule := self._taken.pop(request.number, None)) is not None:
            self._saw("answered", request, rule, error_of(message.content))

    def _saw(self, what: str, message: Message, rule: WireRule, error: int | None = None) -> None:
        content, connection = message.content, message.connection
        named = [*sorted(_ids(content)), *filter(None, [getattr(content, "group", "")]), *_marked(content)]
        if isinstance(content, Fetch | QuorumFetch) and connection.client != CLIENTS:
            named.append(f"broker {connection.client}")
        self._seen.append(
            Seen(
                ns=self._scheduler.ns,
                rule=rule.number,
                what=what,
                node=connection.server,
                connection=connection.number,
                api=_api(content),
                version=-1,
                correlation_id=message.number,
                client_id=_client_id(message),
                named=", ".join(named),
                error=error,
                skipped=self._tallies[rule.number].skipped if what == "caught" else 0,
            )
        )

    # ---- responses

    def _response(self, message: Message) -> bool:
        assert message.request is not None
        connection = message.connection
        if connection in self._mute:
            return True
        if connection in self._late:
            self._late[connection].messages.append(message)
            return True
        rule = self._answers.pop(message.request.number, None)
        if rule is None:
            return False
        if rule.action is Action.DROP_RESPONSE:
            self._mute.add(connection)
        elif rule.number in self._rules:
            self._late[connection] = Waiting(rule, deque([message]))
            self._release_in_time(rule)
        else:
            return False
        return True

    # ---- the end of waiting

    def _release_in_time(self, rule: WireRule) -> None:
        if rule.seconds:
            self._scheduler.after(round(rule.seconds * 1e6), self._release, rule.number)

    def _release(self, number: int) -> None:
        for connection in [c for c, waiting in self._late.items() if waiting.rule.number == number]:
            for message in self._late.pop(connection).messages:
                self._network.carry(message)
        for connection in [c for c, waiting in self._held.items() if waiting.rule.number == number]:
            self._send_on(connection)

    def _send_on(self, connection: VirtualConnection) -> None:
        """What waited, then what came behind it, unless a rule takes that."""
        waiting = self._held.pop(connection)
        behind, held = waiting.messages, waiting.messages.popleft()
        self._saw("lost" if connection.broken else "delivered", held, waiting.rule)
        self._network.carry(held)
        while behind:
            message = behind.popleft()
            if self._apply(message):  # what is behind a lost one is lost with their connection
                if connection in self._held:
                    self._held[connection].messages += behind
                return
            self._network.carry(message)


def error_of(answer: object) -> int | None:
    """The first error in an answer, 0 where there is none; None where it has no place for one."""
    if isinstance(answer, WriteTxnMarkersResponse):
        return next((int(error) for error in answer.results.values() if error), 0)
    return int(answer.error) if isinstance(answer, ErrorResponse) else None


def _fits(rule: WireRule, message: Message) -> bool:
    content = message.content
    if rule.between is (message.connection.client == CLIENTS):
        return False
    if _api(content) != rule.api or (rule.nodes and message.connection.server not in rule.nodes):
        return False
    if rule.client_id and rule.client_id != _client_id(message):
        return False
    if rule.transactional_id and rule.transactional_id not in _ids(content):
        return False
    return not rule.group or getattr(content, "group", None) == rule.group


def _ids(content: object) -> frozenset[str]:
    named = getattr(content, "transactional_id", None)
    return frozenset([named] if named else [])


def _marked(content: object) -> list[str]:
    """Producers and partitions that markers are for."""
    markers = content.markers if isinstance(content, WriteTxnMarkers) else ()
    producers = {f"producer {marker.producer_id}/{marker.producer_epoch}" for marker in markers}
    partitions = {f"{topic}-{number}" for marker in markers for topic, number in marker.partitions}
    return [*sorted(producers), *sorted(partitions)]


def _client_id(message: Message) -> str:
    """What the sender calls itself: a process its number, a node as Kafka's."""
    connection = message.connection
    if connection.client == CLIENTS:
        return str(connection.process)
    if isinstance(message.content, QuorumFetch):
        return reader_id(connection.client)
    return fetcher_id(connection.client) if isinstance(message.content, Fetch) else str(connection.client)


def _api(content: object) -> str:
    """Kafka's name of a request's API in small letters: of an EndTxn, `end_txn`."""
    return "fetch" if isinstance(content, QuorumFetch) else _small(type(content).__name__)


@cache
def _small(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
