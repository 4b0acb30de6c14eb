"""Ask all nodes of a cluster at once, each by its own port, within one deadline.

Whoever does not answer in time is left out. Safe from any thread: nothing is shared but sockets that
live for one question.

Not here: the requests (`admin`), what the answers mean together (`roles`).
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from kio.schema.errors import ErrorCode

from harness.cluster import ClusterError, Roles, admin, unserved
from harness.cluster.roles import agree
from harness.op import Isolation, TopicPartition

K = TypeVar("K")
T = TypeVar("T")
Question = Callable[[admin.Connection], T]
Span = dict[TopicPartition, tuple[int, int]]

ASK_S = 1.7
"""What one round of questions may take."""
GRACE_S = 0.4
CALL_S = 5.0
POLL_S = 0.1


def _never(_: object) -> bool:
    return False


def ask(
    questions: Mapping[K, tuple[int, Question[T]]],
    enough: Callable[[Mapping[K, T]], bool] = _never,
    within_s: float = ASK_S,
) -> dict[K, T]:
    """Put each question to its port, all at once; the answers that came within `within_s`.

    Once there are `enough`, the others have `GRACE_S` left: a node that hangs shall not make every
    look at a broken cluster last as long.
    """
    answers: dict[K, T] = {}
    waiting = set(questions)
    changed = threading.Condition()

    def put(key: K, port: int, question: Question[T]) -> None:
        answer: T | None = None
        try:
            with admin.Connection(port, within_s) as connection:
                answer = question(connection)
        except admin.AdminError:
            pass  # no answer is the answer
        with changed:
            waiting.discard(key)
            if answer is not None:
                answers[key] = answer
            changed.notify()

    for key, (port, question) in questions.items():
        threading.Thread(target=put, args=(key, port, question), daemon=True).start()
    ends = time.monotonic() + within_s
    with changed:
        while waiting and (left := ends - time.monotonic()) > 0:
            if enough(answers):
                left = min(left, GRACE_S)
                ends = time.monotonic() + left
                enough = _never
            changed.wait(left)
        return dict(answers)


def views(ports: Mapping[int, int]) -> dict[int, admin.View]:
    """What each node that answers says of the cluster. ports: by node."""
    return ask({node: (port, admin.view) for node, port in ports.items()})


def roles(ports: Mapping[int, int]) -> Roles:
    """Who does what, by the word of all nodes that answer. ports: by node."""
    ns = time.monotonic_ns()
    questions: dict[tuple[str, int], tuple[int, Question[admin.View | admin.Quorum]]] = {}
    for node, port in ports.items():
        questions["view", node] = (port, admin.view)
        questions["quorum", node] = (port, admin.quorum)
    answers = ask(questions, lambda so_far: _two_majorities(so_far, len(ports)))
    told = {node: one for (_, node), one in answers.items() if isinstance(one, admin.View)}
    quorums = {node: one for (_, node), one in answers.items() if isinstance(one, admin.Quorum)}
    return agree(ns, tuple(ports), told, quorums)


def _two_majorities(answers: Mapping[tuple[str, int], object], nodes: int) -> bool:
    kinds = Counter(kind for kind, _ in answers)
    return all(2 * kinds[kind] > nodes for kind in ("view", "quorum"))


def offsets(
    ports: Mapping[int, int], known: Roles, tps: Sequence[TopicPartition], isolation: Isolation
) -> Span:
    """(log start, LSO or HW) of partitions, from their agreed leaders in the agreed epochs."""
    led: dict[int, dict[TopicPartition, int]] = {}
    for tp in tps:
        leader = known.leaders.get(tp, -1)
        if leader in ports:
            led.setdefault(leader, {})[tp] = known.leader_epochs[tp]

    def span(epochs: dict[TopicPartition, int], connection: admin.Connection) -> Span:
        starts = admin.offsets(connection, epochs, isolation, admin.EARLIEST)
        ends = admin.offsets(connection, epochs, isolation, admin.LATEST)
        return {tp: (starts[tp], ends[tp]) for tp in epochs if tp in starts and tp in ends}

    answers = ask({node: (ports[node], partial(span, epochs)) for node, epochs in led.items()})
    return {tp: pair for answer in answers.values() for tp, pair in answer.items()}


def create_topic(
    ports: Mapping[int, int],
    topic: str,
    partitions: int,
    replication: int,
    settings: Mapping[str, str],
    deadline_s: float,
) -> None:
    """Create a topic; returns when every partition has a leader that all nodes agree on.

    A topic of that name is taken for the one that was asked for: names belong to one run and its
    cluster is new, so it can only be this very request's doing. A broker forwards it to the
    controller and sends it again when an answer is lost or late, and then the *first* answer that
    comes back says that the topic exists. Raises: ClusterError: refused (a wrong setting), or too
    late, also where the topic has other partitions than those asked for.
    """
    deadline = time.monotonic() + deadline_s

    def create(connection: admin.Connection) -> None:
        try:
            admin.create_topic(connection, topic, partitions, replication, settings, CALL_S - 1)
        except admin.AdminError as error:
            if error.code != ErrorCode.topic_already_exists:
                raise

    anywhere(ports, create, deadline)
    tps = [TopicPartition(topic, number) for number in range(partitions)]
    while time.monotonic() < deadline:
        known = roles(ports)
        if known.agreed and all(known.leaders.get(tp, -1) >= 0 for tp in tps):
            return
        time.sleep(POLL_S)
    raise ClusterError(
        f"topic {topic} has no leaders that all nodes agree on after {deadline_s:.0f} s"
    )


def anywhere(
    ports: Mapping[int, int], request: Callable[[admin.Connection], None], deadline: float
) -> None:
    """Make a request of an administrator at one broker after another, until one has served it.

    Every broker forwards it to the controller, and any of them may hang. The request may take effect
    more than once, so it has to come to the same. deadline: of `time.monotonic`, overrun by less
    than `CALL_S`. Raises: ClusterError: refused for good, or nobody served it in time, with what each one
    said last.
    """
    last: dict[int, str] = {}
    while time.monotonic() < deadline:
        for port in ports.values():
            try:
                with admin.Connection(port, CALL_S) as connection:
                    request(connection)
                return
            except admin.AdminError as error:
                if error.code and not error.code.retriable:
                    raise ClusterError(f"Kafka refused: {error}") from error
                last[port] = str(error)
            if time.monotonic() >= deadline:
                break
        time.sleep(POLL_S)
    raise unserved(last)
