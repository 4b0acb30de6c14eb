"""Ask all brokers of a cluster at once, and agree on roles from their answers.

A broker that is cut off keeps serving clients from stale metadata, so no single answer is trusted where there
could be a second: a leader counts when two brokers name it, and the later leader epoch wins. Brokers that do
not answer in time are left out. Safe from any thread: questions share nothing but sockets of their own.
"""

import datetime
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from kio.schema.create_topics.v5.response import CreateTopicsResponse
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v9.response import MetadataResponsePartition

from core.cluster import Roles, unserved
from core.errors import ClusterError
from core.op import Isolation, TopicPartition
from harness.brokers.admin import protocol
from harness.brokers.admin.connection import AdminError, BrokerConnection, Brokers, check
from harness.brokers.admin.protocol import ControllerView, View
from harness.processes.waiting import NotYet, until

K = TypeVar("K")
T = TypeVar("T")
Question = Callable[[BrokerConnection], T]
Span = dict[TopicPartition, tuple[int, int]]

ASK_S = 1.7
"""How long one round of questions may take."""
GRACE_S = 0.4
CALL_S = 5.0
TIMEOUT = datetime.timedelta(seconds=CALL_S - 1)
"""How long the controller may take for one request."""
POLL_S = 0.1


def _never(_: object) -> bool:
    return False


def ask(
    brokers: Brokers,
    questions: Mapping[K, tuple[int, Question[T]]],
    enough: Callable[[Mapping[K, T]], bool] = _never,
    within_s: float = ASK_S,
) -> dict[K, T]:
    """Put each question to its node, all at once; the answers that came within `within_s`.

    As soon as there are `enough`, the others have `GRACE_S` left: one broker that hangs must not delay
    every look at the cluster.
    """
    answers: dict[K, T] = {}
    waiting = set(questions)
    changed = threading.Condition()

    def put(key: K, node: int, question: Question[T]) -> None:
        answer: T | None = None
        try:
            with brokers.connect(node, within_s) as connection:
                answer = question(connection)
        except AdminError:
            pass  # no answer is the answer
        with changed:
            waiting.discard(key)
            if answer is not None:
                answers[key] = answer
            changed.notify()

    for key, (node, question) in questions.items():
        threading.Thread(target=put, args=(key, node, question), daemon=True).start()
    ends = time.monotonic() + within_s
    with changed:
        while waiting and (left := ends - time.monotonic()) > 0:
            if enough(answers):
                left = min(left, GRACE_S)
                ends = time.monotonic() + left
                enough = _never
            changed.wait(left)
        return dict(answers)


def ask_all(brokers: Brokers, question: Question[T], within_s: float = ASK_S) -> dict[int, T]:
    """Put one question to every broker; the answers by node."""
    return ask(brokers, {node: (node, question) for node in brokers.nodes}, within_s=within_s)


def roles(brokers: Brokers, controller: Question[ControllerView] | None = None) -> Roles:
    """Which node leads what, agreed from all brokers that answer. controller: who is it, asked of each;
    None = no broker is asked."""
    ns = time.monotonic_ns()
    asked: dict[str, Question[View | ControllerView]] = {"view": protocol.view}
    if controller is not None:
        asked["controller"] = controller
    questions = {(kind, node): (node, asked[kind]) for node in brokers.nodes for kind in asked}
    count = len(brokers.nodes)
    answers = ask(brokers, questions, lambda so_far: _majorities(so_far, asked, count))
    reported = {node: one for (_, node), one in answers.items() if isinstance(one, View)}
    controllers = {node: one for (_, node), one in answers.items() if isinstance(one, ControllerView)}
    return replace(agree(ns, brokers.nodes, reported, controllers), strangers=dict(brokers.strangers))


def _majorities(answers: Mapping[tuple[str, int], object], asked: Iterable[str], nodes: int) -> bool:
    kinds = Counter(kind for kind, _ in answers)
    return all(2 * kinds[kind] > nodes for kind in asked)


def agree(
    ns: int, nodes: tuple[int, ...], views: Mapping[int, View], controllers: Mapping[int, ControllerView]
) -> Roles:
    """The roles that the answers show.

    views, controllers: by node, of the nodes that answered. In a cluster of one node its own answer counts,
    and in one of two that of the only one that answers: none else could confirm it.
    """
    needed = 1 if len(nodes) <= 2 and len(views) == 1 else min(2, len(nodes))
    leaders: dict[TopicPartition, int] = {}
    epochs: dict[TopicPartition, int] = {}
    isr: dict[TopicPartition, tuple[int, ...]] = {}
    replicas: dict[TopicPartition, tuple[int, ...]] = {}
    for tp in sorted({tp for view in views.values() for tp in view.partitions}):
        reported = {node: view.partitions[tp] for node, view in views.items() if tp in view.partitions}
        leaders[tp], epochs[tp] = _leader(reported, needed)
        witness = reported.get(leaders[tp]) or max(reported.values(), key=lambda one: one.leader_epoch)
        isr[tp] = tuple(sorted(witness.isr_nodes))
        replicas[tp] = tuple(witness.replica_nodes)
    return Roles(
        ns=ns,
        leaders=leaders,
        leader_epochs=epochs,
        isr=isr,
        replicas=replicas,
        controller=_controller(controllers),
        answering=tuple(sorted(views)),
        agreed=set(views) == set(nodes) and _same_leaders(views),
    )


def _leader(reported: Mapping[int, MetadataResponsePartition], needed: int) -> tuple[int, int]:
    votes: dict[int, list[int]] = defaultdict(list)
    for one in reported.values():
        votes[one.leader_id].append(one.leader_epoch)
    # Kafka before 2.1 tells no epoch: then the one that most name.
    backed = [(max(epochs), len(epochs), leader) for leader, epochs in votes.items() if len(epochs) >= needed]
    if not backed:
        return -1, -1
    epoch, _, leader = max(backed)
    return leader, epoch


def _controller(views: Mapping[int, ControllerView]) -> int:
    """The one of the latest epoch (a deposed one names itself until it notices), of one epoch the one that
    most name."""
    votes = Counter(one for one in views.values() if one.node >= 0)
    return max(votes, key=lambda one: (one.epoch, votes[one], one.node), default=ControllerView(-1, -1)).node


def _same_leaders(views: Mapping[int, View]) -> bool:
    maps = [{tp: one.leader_id for tp, one in view.partitions.items()} for view in views.values()]
    return all(one == maps[0] for one in maps)


def offsets(brokers: Brokers, known: Roles, tps: Sequence[TopicPartition], isolation: Isolation) -> Span:
    """(log start, LSO or HW) of partitions, from their agreed leaders in the agreed epochs."""
    led: dict[int, dict[TopicPartition, int]] = {}
    for tp in tps:
        leader = known.leaders.get(tp, -1)
        if leader in brokers.addresses:
            led.setdefault(leader, {})[tp] = known.leader_epochs[tp]

    def span(epochs: dict[TopicPartition, int], connection: BrokerConnection) -> Span:
        starts = protocol.offsets(connection, epochs, isolation, protocol.EARLIEST)
        ends = protocol.offsets(connection, epochs, isolation, protocol.LATEST)
        return {tp: (starts[tp], ends[tp]) for tp in epochs if tp in starts and tp in ends}

    answers = ask(brokers, {node: (node, partial(span, epochs)) for node, epochs in led.items()})
    return {tp: pair for answer in answers.values() for tp, pair in answer.items()}


def create_topic(
    brokers: Brokers,
    topic: str,
    partitions: int,
    replication: int,
    settings: Mapping[str, str],
    deadline_s: float,
) -> None:
    """Create a topic; returns when every partition has a leader that all brokers agree on.

    Raises: ClusterError: refused (a wrong setting), or too late, also where the topic has other partitions
    than those asked for.
    """
    ends = time.monotonic() + deadline_s

    def led() -> None:
        known = roles(brokers)
        tps = [TopicPartition(topic, number) for number in range(partitions)]
        if not (known.agreed and all(known.leaders.get(tp, -1) >= 0 for tp in tps)):
            raise NotYet(f"topic {topic} has no leaders that all brokers agree on after {deadline_s:.0f} s")

    request_topics(brokers, (topic,), partitions, replication, settings, deadline_s)
    until(ends - time.monotonic(), POLL_S, led)


def request_topics(
    brokers: Brokers,
    topics: Sequence[str],
    partitions: int,
    replication: int,
    settings: Mapping[str, str],
    deadline_s: float,
) -> None:
    """Create topics that are alike, by one request; returns when the controller has them.

    A topic of that name counts as created by this request: names belong to one run and its cluster is
    new. A broker forwards the request to the controller and repeats it when an answer is lost or late;
    then the *first* answer that arrives says that the topic exists. Raises: ClusterError: refused, or late.
    """
    wanted = [
        {
            "name": topic,
            "num_partitions": partitions,
            "replication_factor": replication,
            "configs": [{"name": name, "value": value} for name, value in settings.items()],
        }
        for topic in topics
    ]

    def create(connection: BrokerConnection) -> None:
        for answer in connection.call(CreateTopicsResponse, topics=wanted, timeout=TIMEOUT).topics:
            if answer.error_code != ErrorCode.topic_already_exists:
                check(f"topic {answer.name}", answer.error_code, answer.error_message)

    anywhere(brokers, create, deadline_s)


def anywhere(brokers: Brokers, request: Question[None], within_s: float) -> None:
    """Make an administrator's request at one broker after another, until one has served it.

    Every broker forwards it to the controller, and any of them may hang. The request may take effect
    more than once, so repeating it must change nothing. The deadline is overrun by less than `CALL_S`.

    Raises: ClusterError: refused for good, or no broker served it in time, with what each said last.
    """
    ends = time.monotonic() + within_s
    last: dict[int, str] = {}

    def one_round() -> None:
        for node in brokers.nodes:
            try:
                with brokers.connect(node, CALL_S) as connection:
                    return request(connection)
            except AdminError as error:
                if error.code and not error.code.retriable:
                    raise ClusterError(f"Kafka refused: {error}") from error
                last[node] = str(error)
            if time.monotonic() >= ends:
                break
        raise NotYet(str(unserved(last)))

    until(within_s, POLL_S, one_round)
