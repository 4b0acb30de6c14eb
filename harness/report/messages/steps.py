"""What a simulated cluster did, step by step: one step for each event of a node that changed what matters.

steps(trace, subject)              # all of them, oldest first
chosen(all_steps, subject, most)   # those around the moments and around the damage
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from history import trace as tr

DAMAGE, TURN, OTHER = 0, 1, 2
"""Weights of steps: records of the finding are cut off; a role, an in-sync set, a process, a transaction
changes, or a replica reaches the finding's records; anything else."""
ITSELF = "no message: time passed"
LIFE = ("is down", "is paused", "resumes", "starts")
"""What happens to a process from outside."""
AROUND_NS = 500_000_000
"""Time before the first and after the last moment that still belongs to a story."""
OTHERS_SHARE = 3
"""A third of the steps that are kept are those that are nearest to the moments, whatever they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a scene is about.

    partition: the scene follows its replicas. transactions, groups: by name. offsets: records of the
    finding. moments: times of the finding, in ns of the run's clock. clients: lanes of the clients that the
    finding names.
    """

    partition: str = ""
    transactions: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    offsets: tuple[int, ...] = ()
    moments: tuple[int, ...] = ()
    clients: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """As messages name what they are about."""
        transactions = (f"txn:{name}" for name in self.transactions)
        groups = (f"group:{name}" for name in self.groups)
        return tuple(filter(None, (self.partition, *transactions, *groups)))


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceStep:
    """One event of a node, and what holds after it everywhere.

    what: what changed, in words. cause: number of the message that the node handled, -1 none; why: that in
    words, "" where a fault did it. replicas: by node, as it has the partition. processes: up, down or paused,
    by node. transactions, groups: in words, by name. changed: the nodes, transactions and groups that the
    step changed.
    """

    ns: int
    node: int
    what: str
    weight: int
    cause: int
    why: str
    replicas: dict[int, tr.TracedReplica]
    processes: dict[int, str]
    transactions: dict[str, str]
    groups: dict[str, str]
    changed: frozenset[int | str]


@dataclass(slots=True)
class _World:
    """Everything as it is known after the states so far."""

    subject: Subject
    replicas: dict[int, tr.TracedReplica] = field(default_factory=dict)
    processes: dict[int, tr.TracedNode] = field(default_factory=dict)
    transactions: dict[str, tr.TracedTransaction] = field(default_factory=dict)
    groups: dict[str, tr.TracedGroup] = field(default_factory=dict)

    def apply(self, state: tr.TracedState) -> tuple[str, int, int | str] | None:
        """Apply a state: what changed, its weight, and where; None = nothing that matters."""
        match state:
            case tr.TracedReplica() if state.partition == self.subject.partition:
                before = self.replicas.get(state.node)
                self.replicas[state.node] = state
                said = replica_change(before, state)
                return (said, self._weight(before, state), state.node) if said else None
            case tr.TracedNode():
                was = self.processes.get(state.node)
                self.processes[state.node] = state
                said = process_change(was, state)
                return (said, TURN, state.node) if said else None
            case tr.TracedTransaction() if state.transactional_id in self.subject.transactions:
                name = state.transactional_id
                old, self.transactions[name] = self.transactions.get(name), state
                return transaction_change(old, state), TURN, f"txn:{name}"
            case tr.TracedGroup() if state.group in self.subject.groups:
                self.groups[state.group] = state
                return f"group {state.group}: {group_words(state)}", TURN, f"group:{state.group}"
        return None

    def _weight(self, before: tr.TracedReplica | None, after: tr.TracedReplica) -> int:
        """Of a change of a replica."""
        if before is None:
            return OTHER
        offsets = self.subject.offsets
        if after.end < before.end:
            lost = any(after.end <= offset < before.end for offset in offsets)
            return DAMAGE if lost or not offsets else TURN
        turned = (before.role, before.epoch, before.isr) != (after.role, after.epoch, after.isr)
        reached = any(
            before.end <= offset < after.end or before.high <= offset < after.high for offset in offsets
        )
        return TURN if turned or reached or after.high < before.high else OTHER


def steps(trace: tr.Trace, subject: Subject) -> list[TraceStep]:
    """All steps of the run that concern the subject, oldest first."""
    world = _World(subject)
    found: list[TraceStep] = []
    for (ns, node, cause), states in groupby(trace.states, lambda state: (state.ns, state.node, state.cause)):
        changes = list(filter(None, map(world.apply, states)))
        if not changes:
            continue
        why = reason(trace, subject, node, cause)
        if why == ITSELF and any(what.startswith(LIFE) for what, _, _ in changes):
            why = ""
        step = TraceStep(
            ns=ns,
            node=node,
            what="; ".join(what for what, _, _ in changes),
            weight=min(weight for _, weight, _ in changes),
            cause=cause,
            why=why,
            replicas=dict(world.replicas),
            processes={node: process.state for node, process in world.processes.items()},
            transactions={name: transaction_words(now) for name, now in world.transactions.items()},
            groups={name: group_words(now) for name, now in world.groups.items()},
            changed=frozenset(who for _, _, who in changes),
        )
        found.append(step)
    return found


def moments(found: Sequence[TraceStep], subject: Subject) -> list[int]:
    """The subject's moments, and those at which its records were cut off afterwards. Without any: when a
    leader appended the record at which the last stable offset stands in the end, or the last step of a leader
    where it stands at the end of the log."""
    begin = min(subject.moments, default=0)
    cut = [step.ns for step in found if step.weight == DAMAGE and step.ns >= begin]
    if subject.moments or cut:
        return sorted({*subject.moments, *(cut if subject.offsets else ())})
    led = [
        (step.ns, replica)
        for step in found
        for replica in step.replicas.values()
        if replica.node == step.node and replica.role == tr.LEADER
    ]
    if not led:
        return []
    last, stable = led[-1][0], led[-1][1].stable
    return [next((ns for ns, replica in led if replica.end > stable), last)]


def chosen(found: Sequence[TraceStep], subject: Subject, most: int) -> list[TraceStep]:
    """At most `most` steps, oldest first. Damage comes before turns, and turns before others; of each kind,
    those nearest to a moment."""
    near = moments(found, subject)
    if not near:
        return list(found[:most])
    low, high = near[0] - AROUND_NS, near[-1] + AROUND_NS
    inside = [number for number, step in enumerate(found) if low <= step.ns <= high]

    def order(number: int) -> tuple[int, int]:
        step = found[number]
        return step.weight, min(abs(step.ns - moment) for moment in near)

    ordered = sorted(inside, key=order)
    kept = [n for n in ordered if found[n].weight > TURN][: most // OTHERS_SHARE]
    kept += [n for n in ordered if found[n].weight <= TURN][: most - len(kept)]
    return [found[number] for number in sorted(kept)]


# ---- words


def lane_words(lane: str) -> str:
    """`node 2`, `process 4` (of a client), `clients`, `harness`."""
    kind = {"n": "node ", "c": "process ", tr.CLIENTS: "clients"}.get(lane[:1])
    return kind + lane[1:] if kind else "harness"


def message_words(message: tr.TracedMessage, names: Iterable[str]) -> str:
    """What a message says of these subjects, of the first that it is about; else of a coordinator's log."""
    about = next((message.parts[name] for name in names if message.parts.get(name)), "")
    if not about:
        about = "; ".join(f"{n} {said}" for n, said in message.parts.items() if n.startswith("__"))
    return ", ".join(filter(None, (about, message.text)))


def reason(trace: tr.Trace, subject: Subject, node: int, cause: int) -> str:
    """Why a node did something: the message that it handled."""
    if not 0 <= cause < len(trace.messages):
        return ITSELF
    message = trace.messages[cause]
    said = message_words(message, subject.names)
    whose = lane_words(message.sender) if message.sender != tr.node_lane(node) else "itself"
    head = f"answer of {whose} to {message.name}" if message.answers >= 0 else (f"{message.name} of {whose}")
    return f"{head}: {said}" if said else head


def replica_change(before: tr.TracedReplica | None, after: tr.TracedReplica) -> str:
    """What changed of a replica."""
    if before is None:
        return f"has the partition, {role_words(after)}, LEO {after.end}"
    said = []
    if (before.role, before.leader, before.epoch) != (after.role, after.leader, after.epoch):
        said.append(role_words(after))
    if before.isr != after.isr:
        said.append(f"ISR {isr_words(before.isr)} → {isr_words(after.isr)}")
    if after.end > before.end:
        said.append(f"appends {span(before.end, after.end)}")
    elif after.end < before.end:
        said.append(f"truncates {span(after.end, before.end)}")
    if after.high != before.high:
        falls = "falls " if after.high < before.high else ""
        said.append(f"HW {falls}{before.high} → {after.high}")
    if after.stable != before.stable and (after.stable, before.stable) != (after.high, before.high):
        said.append(f"LSO {before.stable} → {after.stable}")
    return ", ".join(said)


def span(begin: int, end: int) -> str:
    """Offsets from begin to before end."""
    return f"offset {begin}" if end - begin == 1 else f"offsets {begin}–{end - 1}"


def role_words(replica: tr.TracedReplica) -> str:
    """Its role, in a sentence."""
    if replica.role == tr.LEADER:
        return f"leads epoch {replica.epoch}"
    if replica.role == tr.FOLLOWER:
        return f"follows node {replica.leader} in epoch {replica.epoch}"
    return f"knows no leader, epoch {replica.epoch}" if replica.epoch >= 0 else "knows no leader yet"


def isr_words(isr: Iterable[int]) -> str:
    """`1,2,3`."""
    return ",".join(map(str, isr)) or "empty"


def process_change(before: tr.TracedNode | None, after: tr.TracedNode) -> str:
    """What changed of a node's process."""
    said = []
    if before is None or before.state != after.state:
        words = {tr.DOWN: "is down", tr.PAUSED: "is paused"}
        resumed = "resumes" if before and before.state == tr.PAUSED else "starts"
        said.append(words.get(after.state, resumed))
    if after.controls and not (before and before.controls):
        said.append("acts as controller")
    elif before and before.controls and not after.controls and after.state != tr.DOWN:
        said.append("is no longer controller")
    if before and before.state == after.state and before.fenced != after.fenced:
        said.append("learns that it is fenced" if after.fenced else "is no longer fenced")
    return ", ".join(said)


def transaction_words(now: tr.TracedTransaction) -> str:
    """State of a transactional id."""
    pending = f" → {now.pending}" if now.pending else ""
    return f"{now.state}{pending}, {now.producer_id}/{now.epoch}"


def transaction_change(before: tr.TracedTransaction | None, after: tr.TracedTransaction) -> str:
    """What changed of a transactional id at its coordinator."""
    name = after.transactional_id
    if before is not None and before.node != after.node:
        return f"{name}: node {after.node} coordinates it, {transaction_words(after)}"
    return f"{name}: {transaction_words(after)}"


def group_words(now: tr.TracedGroup) -> str:
    """State of a group."""
    members = f"{now.members} member{'s' * (now.members != 1)}"
    return f"{now.state}, generation {now.generation}, {members}"
