"""Columns of scenarios on `controlling.Controlling`.

    ids, controller, controller_epoch    what these znodes hold
    ids_of, controller_of        the ephemeral ones, with the number of their session
    believers                    brokers that believe to be controller
    controller_at(2)             controller, and its epoch, that broker 2 heard of
    leader(0), isr(0), version(0)        a partition's state in ZooKeeper; its version is the partition epoch
    leads(2), isr_at(2), hw(2), waits_for(2), log(2)     as the replica on a broker has it
    known(4), known_isr(4)       what a broker tells clients; `known_brokers`: who lives
    acting_on(1), decided_isr(1) who lives, and the in-sync set, as far as a controller knows
    untold(2)                    partitions whose sets a leader changed and did not tell of yet
    notes, change_notes          notifications of such changes that are there; that were made so far
    written(1), told(1)          what came of a broker's newest write of a state; what it was answered last as
                                 controller (`answer`: what somebody was)
    time                         milliseconds since the scenario said so

Not here: columns of other stages.
"""

from collections.abc import Callable

from model.replica import Replica
from model.scenarios.controlling import Controlling
from model.scenarios.scene import data
from model.zk_paths import CONTROLLER, CONTROLLER_EPOCH, IDS, ISR_CHANGES, partition_of, state_path

Column = Callable[[Controlling], object]
DOWN = "down"


def ids(s: Controlling) -> object:
    """Brokers that are registered, in their order."""
    return s.zookeeper.nodes[IDS].children.keys()


def ids_of(s: Controlling) -> object:
    """Brokers that are registered, each with the session that its znode belongs to."""
    nodes = s.zookeeper.nodes
    return [f"{n} (s{nodes[f'{IDS}/{n}'].owner})" for n in sorted(nodes[IDS].children)]


def controller(s: Controlling) -> object:
    """Who holds /controller."""
    node = s.zookeeper.nodes.get(CONTROLLER)
    return node.data if node is not None else None


def controller_of(s: Controlling) -> object:
    """Who holds /controller, with the session that it belongs to."""
    node = s.zookeeper.nodes.get(CONTROLLER)
    return f"{node.data} (s{node.owner})" if node is not None else None


def controller_epoch(s: Controlling) -> object:
    """How many controllers there were."""
    return s.zookeeper.nodes[CONTROLLER_EPOCH].data


def believers(s: Controlling) -> object:
    """Brokers that believe to be controller; one that stands still believes on."""
    return s.believers()


def controller_at(n: int) -> Column:
    """As a broker heard of it last."""
    return lambda s: (
        f"{s.side(n).controller_id}, epoch {s.side(n).controller_epoch}" if n in s.nodes else DOWN
    )


def leader(number: int) -> Column:
    """Leader and its epoch in ZooKeeper."""

    def show(s: Controlling) -> object:
        state = s.written(data(number))
        return f"{state.leader if state.leader >= 0 else '–'}, epoch {state.leader_epoch}"

    return show


def isr(number: int) -> Column:
    """In-sync set in ZooKeeper."""
    return lambda s: s.written(data(number)).isr


def version(number: int) -> Column:
    """Of the state's znode."""
    return lambda s: s.zookeeper.nodes[state_path(data(number))].version


def _of(n: int, number: int, show: Callable[[Replica], object]) -> Column:
    def column(s: Controlling) -> object:
        replica = s.replica(data(number), n)
        if replica is None:
            return None if n in s.nodes else DOWN
        return show(replica)

    return column


def leads(n: int, number: int = 0) -> Column:
    """Leader and its epoch that a broker's replica was told."""
    return _of(n, number, lambda r: f"{r.state.leader}, epoch {r.state.leader_epoch}")


def isr_at(n: int, number: int = 0) -> Column:
    """In-sync set that the replica knows."""
    return _of(n, number, lambda r: r.isr)


def hw(n: int, number: int = 0) -> Column:
    """High watermark."""
    return _of(n, number, lambda r: r.high_watermark)


def log(n: int, number: int = 0) -> Column:
    """Names of the records, oldest first."""
    return _of(n, number, lambda r: [str(record) for _, _, record in r.log.records()])


def waits_for(n: int, number: int = 0) -> Column:
    """For whom a leader's high watermark waits."""
    return _of(n, number, lambda r: r.maximal_isr if r.leads else None)


def known(n: int, number: int = 0) -> Column:
    """Leader and its epoch that a broker tells clients."""

    def show(s: Controlling) -> object:
        if n not in s.nodes:
            return DOWN
        state = s.nodes[n].node.image.partitions[data(number)]
        return f"{state.leader if state.leader >= 0 else '–'}, epoch {state.leader_epoch}"

    return show


def known_isr(n: int, number: int = 0) -> Column:
    """In-sync set that a broker tells clients."""
    return lambda s: s.nodes[n].node.image.partitions[data(number)].isr if n in s.nodes else DOWN


def known_brokers(n: int) -> Column:
    """Who lives, as a broker tells clients."""
    return lambda s: set(s.nodes[n].node.image.alive()) if n in s.nodes else DOWN


def untold(n: int) -> Column:
    """Partitions whose in-sync sets a leader changed and did not tell of yet."""
    return lambda s: [number for _, number in s.side(n).isr.changed]


def change_notes(s: Controlling) -> object:
    """Znodes made under /isr_change_notification so far."""
    return s.zookeeper.nodes[ISR_CHANGES].sequence


def written(n: int) -> Column:
    """See the module."""
    return lambda s: s.writes.get(n)


def told(n: int) -> Column:
    """See the module."""
    return lambda s: s.answers.get(n)


def answer(s: Controlling) -> object:
    """What the newest request of a controller was answered."""
    return s.answer or None


def acting_on(n: int) -> Column:
    """Brokers that live, as far as a controller knows."""

    def show(s: Controlling) -> object:
        found = s.side(n).controller if n in s.nodes else None
        return set(found.context.live) if found is not None else None

    return show


def result(s: Controlling) -> object:
    """What the producer of the newest record was told."""
    return s.results.get(s.last)


def time(s: Controlling) -> object:
    """Milliseconds."""
    return s.now - s.since


def state_epoch(number: int) -> Column:
    """Controller epoch that a partition's state names: of the controller that wrote it, or that its leader
    heard of."""
    return lambda s: s.written(data(number)).controller_epoch


def decided_isr(n: int, number: int = 0) -> Column:
    """In-sync set that a controller knows of."""

    def show(s: Controlling) -> object:
        found = s.side(n).controller if n in s.nodes else None
        return found.context.states[data(number)].isr if found is not None else None

    return show


def notes(s: Controlling) -> object:
    """Znodes under /isr_change_notification that are there."""
    return len(s.zookeeper.nodes[ISR_CHANGES].children)


def changes(s: Controlling) -> object:
    """Changes of partitions' states so far, of all partitions together."""
    nodes = s.zookeeper.nodes
    return sum(nodes[path].version for path in nodes if partition_of(path) is not None)
