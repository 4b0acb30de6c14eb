"""Each fault has its effect on a real cluster, and is gone when it is healed."""

import time
from pathlib import Path

import docker
import pytest
from confluent_kafka import Producer
from docker.models.containers import Container
from kio.schema.create_topics.v5.response import CreateTopicsResponse
from kio.schema.find_coordinator.v4.response import FindCoordinatorResponse

from core.capabilities import Cut, Direction, Listener
from core.cluster import Address, Roles
from core.errors import ClusterError
from core.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC
from core.op import Isolation, TopicPartition
from core.runtime import run_blocking
from harness.brokers.admin import broker_views, protocol
from harness.brokers.admin.connection import AdminError, Brokers
from harness.containers.cluster import ContainerCluster
from harness.containers.engine import NODE_LABEL, RUN_LABEL
from harness.containers.nodes import STOP_S
from tests.docker.conftest import TOPIC, TP, roles_when, whole
from tests.waiting import until

IN, OUT = Direction.IN, Direction.OUT


def leader(cluster: ContainerCluster) -> int:
    return run_blocking(cluster.roles()).leaders[TP]


def other(cluster: ContainerCluster, *nodes: int) -> int:
    return next(node for node in cluster.nodes if node not in nodes)


def container(cluster: ContainerCluster, node: int) -> Container:
    client = docker.from_env()
    try:
        labels = [f"{RUN_LABEL}={cluster.run}", f"{NODE_LABEL}={node}"]
        (found,) = client.containers.list(all=True, filters={"label": labels})
        return found
    finally:
        client.close()


def reaches(cluster: ContainerCluster, source: int, target: int, listener_port: int) -> bool:
    """Whether a new TCP connection inside the network is established."""
    probe = f"timeout 1 bash -c '</dev/tcp/broker-{target}/{listener_port}'"
    result = container(cluster, source).exec_run(["bash", "-c", probe])
    return result.exit_code == 0


def isolation(cluster: ContainerCluster, node: int, *directions: Direction) -> list[Cut]:
    peers = [peer for peer in cluster.nodes if peer != node]
    return [Cut(node=node, direction=d, peer=peer) for d in directions for peer in peers]


def test_an_end_from_outside_is_seen_once_and_no_new_start_hides_it(cluster: ContainerCluster) -> None:
    victim = leader(cluster)
    assert not run_blocking(cluster.ended())
    container(cluster, victim).kill()
    until(lambda: container(cluster, victim).status == "exited", "its end", 30)
    run_blocking(cluster.revive([victim]))
    (end,) = run_blocking(cluster.ended())
    assert (end.node, end.exit_code, end.signal, end.oom_killed) == (victim, 137, 9, False)
    assert end.outside == "something sent it SIGKILL"
    assert end.log
    assert not run_blocking(cluster.ended())
    whole(cluster)


@pytest.mark.sampled(5)
def test_a_killed_leader_is_replaced_and_comes_back_with_its_data(cluster: ContainerCluster) -> None:
    victim = leader(cluster)
    address = cluster.addresses[victim]
    run_blocking(cluster.kill([victim]))
    assert not run_blocking(cluster.ended())
    assert container(cluster, victim).status == "exited"
    roles = roles_when(cluster, lambda r: r.leaders[TP] not in (victim, -1), 30, "another node leads")
    assert victim not in roles.answering
    assert not roles.agreed
    run_blocking(cluster.kill([victim]))  # no-op
    run_blocking(cluster.revive([victim]))
    run_blocking(cluster.revive(cluster.nodes))  # no-op
    assert whole(cluster).isr[TP] == cluster.nodes
    networks = container(cluster, victim).attrs["NetworkSettings"]["Networks"].values()
    assert [one["IPAddress"] for one in networks] == [address]


def why_not_elected(cluster: ContainerCluster) -> str:
    """What is told to who asks for the preferred leader; it must not lead."""
    with pytest.raises(ClusterError) as raised:
        run_blocking(cluster.elect_preferred([TP]))
    return str(raised.value)


@pytest.mark.sampled(5)
def test_a_leader_that_is_shut_down_hands_over_in_order(cluster: ContainerCluster, tmp_path: Path) -> None:
    victim = run_blocking(cluster.replicas())[TP][0]
    run_blocking(cluster.elect_preferred([TP]))
    roles_when(cluster, lambda r: r.leaders[TP] == victim, 10, "the first replica leads")
    begun = time.monotonic()
    run_blocking(cluster.shut_down([victim]))
    assert time.monotonic() - begun < STOP_S
    ended = container(cluster, victim)
    assert (ended.status, ended.attrs["State"]["ExitCode"]) == ("exited", 143)  # by SIGTERM
    # Nobody has to wait for its session to run out: it gave its partitions away before it ended.
    roles_when(cluster, lambda r: r.leaders[TP] not in (victim, -1), 5, "another node leads")
    # It may have been the controller, too: until brokers have found the next one they forward to it.
    wanted = "PREFERRED_LEADER_NOT_AVAILABLE"
    until(lambda: wanted in why_not_elected(cluster), "the election is refused", 30)
    run_blocking(cluster.shut_down([victim]))  # no-op
    run_blocking(cluster.collect(tmp_path))
    log = (tmp_path / str(victim) / "server.log").read_text()
    assert "The controller has asked us to exit controlled shutdown" in log
    run_blocking(cluster.revive([victim]))
    assert whole(cluster).isr[TP] == cluster.nodes


def test_the_replica_put_first_is_the_one_elected(cluster: ContainerCluster) -> None:
    before = run_blocking(cluster.replicas())[TP]
    assert sorted(before) == list(cluster.brokers)
    wanted = next(node for node in before if node != leader(cluster))
    order = (wanted, *(node for node in before if node != wanted))
    with pytest.raises(ClusterError, match="is not a permutation of its replicas"):
        run_blocking(cluster.reorder({TP: order[:2]}))
    run_blocking(cluster.reorder({TP: order}))
    assert run_blocking(cluster.replicas())[TP] == order
    assert leader(cluster) != wanted  # the order alone moves nobody
    run_blocking(cluster.elect_preferred([TP]))
    epoch = roles_when(cluster, lambda r: r.leaders[TP] == wanted, 10, "the first replica leads")
    run_blocking(cluster.elect_preferred([TP]))  # not needed
    assert run_blocking(cluster.roles()).leader_epochs[TP] == epoch.leader_epochs[TP]


@pytest.mark.parametrize(("kind", "topic"), [(0, GROUP_TOPIC), (1, TRANSACTION_TOPIC)])
def test_coordinators_are_those_that_kafka_names(cluster: ContainerCluster, kind: int, topic: str) -> None:
    names = [f"name-{i}" for i in range(50)] + ["polygenelubricants", "é\U0001f600", "a"]

    def differing() -> list[tuple[str, int, int]]:
        with cluster.admin.connect(1, 10) as connection:
            answer = connection.call(FindCoordinatorResponse, key_type=kind, coordinator_keys=names)
        roles = run_blocking(cluster.roles())
        rows = [(one.key, int(one.node_id), roles.coordinator(topic, one.key)) for one in answer.coordinators]
        assert [key for key, _, _ in rows] == names
        return [row for row in rows if row[1] == -1 or row[1] != row[2]]

    # The first question creates the topic; leaders move while nodes come back from other tests.
    until(lambda: differing() == [], "Kafka and the roles name the same coordinators", 30)


def coordinator_told(cluster: ContainerCluster, transactional_id: str) -> bool:
    """Whether both looks name one node: brokers that came back take their partitions over meanwhile."""
    rows = run_blocking(cluster.open_transactions([TP]))
    leads = run_blocking(cluster.roles()).coordinator(TRANSACTION_TOPIC, transactional_id)
    return [row.coordinator for row in rows] == [leads]


def test_an_open_transaction_is_shown_with_who_answers_for_it(cluster: ContainerCluster) -> None:
    tps = [tp for tp in run_blocking(cluster.roles()).leaders if tp.topic == TOPIC]
    name = f"open-{time.time_ns()}"
    producer = Producer(
        {"bootstrap.servers": cluster.endpoint().args["bootstrap.servers"], "transactional.id": name}
    )
    producer.init_transactions(30)
    assert run_blocking(cluster.open_transactions(tps)) == []
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(TOPIC, b"open", partition=TP.partition)
        assert producer.flush(30) == 0
        (row,) = run_blocking(cluster.open_transactions(tps))
        assert (TopicPartition(row.topic, row.partition), row.transactional_id) == (TP, name)
        until(lambda: coordinator_told(cluster, name), "the coordinator is the one that is told", 15)
        ends = run_blocking(cluster.offsets([TP], Isolation.READ_UNCOMMITTED))
        assert row.start == ends[TP][1] - 1
        end(30)
        until(lambda: run_blocking(cluster.open_transactions(tps)) == [], "nothing is open", 10)
    run_blocking(cluster.pause(cluster.brokers))
    begun = time.monotonic()
    assert run_blocking(cluster.open_transactions(tps)) == []  # nobody could be asked
    assert time.monotonic() - begun < 10
    run_blocking(cluster.resume(cluster.brokers))


@pytest.mark.sampled(5)
def test_killing_all_at_once_loses_no_topic_and_swaps_no_address(cluster: ContainerCluster) -> None:
    before = set(run_blocking(cluster.roles()).leaders)
    run_blocking(cluster.kill(cluster.nodes))
    assert run_blocking(cluster.roles()).answering == ()
    ended = {container(cluster, node).attrs["State"]["ExitCode"] for node in cluster.nodes}
    assert ended == {137}
    for node in reversed(cluster.nodes):  # another order than at first
        run_blocking(cluster.revive([node]))
    assert set(whole(cluster).leaders) == before
    for node, address in cluster.addresses.items():
        (network,) = container(cluster, node).attrs["NetworkSettings"]["Networks"].values()
        assert network["IPAddress"] == address


@pytest.mark.sampled(5)
def test_a_leader_without_power_comes_back_short_and_loses_nothing(
    cluster: ContainerCluster, tmp_path: Path
) -> None:
    producer = Producer({"bootstrap.servers": cluster.endpoint().args["bootstrap.servers"]})
    acknowledged: list[int] = []
    for _ in range(200):
        producer.produce(
            TOPIC,
            b"kept",
            partition=TP.partition,
            on_delivery=lambda _, m: acknowledged.append(m.offset() or 0),
        )
        producer.flush(30)
    assert len(acknowledged) == 200
    victim = leader(cluster)
    assert run_blocking(cluster.lose_power([victim], seed=4)) > 0
    cluster.copy_data(victim, tmp_path / "short")
    kept = (tmp_path / "short" / f"{TOPIC}-{TP.partition}" / f"{0:020}.log").stat().st_size
    roles_when(cluster, lambda r: r.leaders[TP] not in (victim, -1), 30, "another node leads")
    run_blocking(cluster.revive([victim]))
    assert whole(cluster).isr[TP] == cluster.nodes
    ends = run_blocking(cluster.offsets([TP], Isolation.READ_UNCOMMITTED))
    assert ends[TP][1] > max(acknowledged)
    run_blocking(cluster.kill([victim]))
    cluster.copy_data(victim, tmp_path / "whole")
    size = (tmp_path / "whole" / f"{TOPIC}-{TP.partition}" / f"{0:020}.log").stat().st_size
    assert kept < size
    run_blocking(cluster.revive([victim]))


def test_the_controller_by_describe_quorum_moves_when_it_dies(cluster: ContainerCluster) -> None:
    first = whole(cluster).controller
    run_blocking(cluster.kill([first]))
    roles = roles_when(cluster, lambda r: r.controller not in (first, -1), 30, "another node is controller")
    assert roles.controller in roles.answering


@pytest.mark.sampled(5)
def test_a_paused_leader_is_replaced_and_thawed_again(cluster: ContainerCluster) -> None:
    victim = leader(cluster)
    run_blocking(cluster.pause([victim]))
    run_blocking(cluster.pause([victim]))  # no-op
    begun = time.monotonic()
    assert victim not in run_blocking(cluster.roles()).answering
    assert time.monotonic() - begun < 10
    roles_when(cluster, lambda r: r.leaders[TP] not in (victim, -1), 30, "another node leads")
    run_blocking(cluster.resume([victim]))
    run_blocking(cluster.resume(cluster.nodes))  # no-op
    assert victim in whole(cluster).answering


def test_a_paused_node_can_be_killed_and_a_dead_one_not_paused(cluster: ContainerCluster) -> None:
    run_blocking(cluster.pause([2]))
    run_blocking(cluster.kill([2]))
    assert container(cluster, 2).status == "exited"
    with pytest.raises(ClusterError, match="node 2 could not be paused"):
        run_blocking(cluster.pause([2]))
    run_blocking(cluster.resume([2]))  # a heal of both faults must not stumble over it
    run_blocking(cluster.revive([2]))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("directions", [(IN, OUT), (IN,), (OUT,)], ids=["both", "in", "out"])
def test_an_isolated_leader_is_replaced_and_outvoted(
    cluster: ContainerCluster, directions: tuple[Direction, ...]
) -> None:
    victim = leader(cluster)
    cuts = isolation(cluster, victim, *directions)
    run_blocking(cluster.cut(cuts))

    def moved(roles: Roles) -> bool:
        return roles.leaders[TP] not in (victim, -1) and roles.controller not in (victim, -1)

    roles = roles_when(cluster, moved, 30, "another node leads, and is controller")
    # It still answers its clients, from stale metadata: no agreement, but a known leader.
    assert victim in roles.answering
    assert not roles.agreed
    run_blocking(cluster.mend(cuts))
    whole(cluster)


def test_a_cut_link_blocks_new_connections_between_the_pair_only(cluster: ContainerCluster) -> None:
    cuts = [Cut(node=1, direction=IN, peer=2), Cut(node=2, direction=IN, peer=1)]
    assert reaches(cluster, 1, 2, 9092)
    run_blocking(cluster.cut(cuts))
    assert not reaches(cluster, 1, 2, 9092)
    assert not reaches(cluster, 2, 1, 9093)
    assert reaches(cluster, 1, 3, 9092)
    assert reaches(cluster, 2, 3, 9093)
    run_blocking(cluster.mend(cuts))
    assert reaches(cluster, 1, 2, 9092)


def test_a_cut_by_listener_leaves_the_other_listener_alone(cluster: ContainerCluster) -> None:
    cuts = [Cut(node=1, direction=d, peer=2, listener=Listener.BROKER) for d in (IN, OUT)]
    run_blocking(cluster.cut(cuts))
    assert not reaches(cluster, 1, 2, 9092)
    assert not reaches(cluster, 2, 1, 9092)
    assert reaches(cluster, 1, 2, 9093)
    assert reaches(cluster, 2, 1, 9093)


def test_established_connections_live_while_no_new_one_can_be_made(cluster: ContainerCluster) -> None:
    node = leader(cluster)
    acknowledged: list[int] = []
    producer = Producer({"bootstrap.servers": cluster.endpoint().args["bootstrap.servers"]})

    def write() -> None:
        producer.produce(
            TOPIC,
            b"open",
            partition=TP.partition,
            on_delivery=lambda _, m: acknowledged.append(m.offset() or 0),
        )
        assert producer.flush(30) == 0

    write()
    peer = other(cluster, node)
    cut = Cut(node=node, direction=IN, opening=True)
    run_blocking(cluster.cut([cut]))
    assert run_blocking(cluster.stopped([node])) == 0
    assert not reaches(cluster, peer, node, 9094)
    assert run_blocking(cluster.stopped([node])) > 0
    assert reaches(cluster, peer, node, 9092)
    write()
    assert len(acknowledged) == 2
    run_blocking(cluster.mend([cut]))
    assert reaches(cluster, peer, node, 9094)


@pytest.mark.sampled(5)
def test_cuts_are_in_force_again_after_a_restart(cluster: ContainerCluster) -> None:
    cuts = [Cut(node=1, direction=IN, peer=2), Cut(node=3, direction=OUT, peer=2)]
    run_blocking(cluster.cut(cuts[:1]))
    run_blocking(cluster.kill([1, 3]))
    run_blocking(cluster.cut(cuts[1:]))  # while node 3 is down
    run_blocking(cluster.revive([1, 3]))
    assert not reaches(cluster, 2, 1, 9092)
    until(lambda: reaches(cluster, 1, 3, 9092), "node 3 listens", 30)
    assert not reaches(cluster, 2, 3, 9092)
    run_blocking(cluster.mend(cuts))
    until(lambda: reaches(cluster, 2, 1, 9092), "node 1 listens", 30)


def test_clients_requests_cut_do_not_arrive(cluster: ContainerCluster) -> None:
    _ask_through(cluster, IN, "cut-requests")
    time_to_arrive = time.monotonic() + 2
    while time.monotonic() < time_to_arrive:
        assert not _exists(cluster, "cut-requests")


def test_clients_responses_cut_are_lost_but_the_request_took_effect(cluster: ContainerCluster) -> None:
    _ask_through(cluster, OUT, "cut-responses")
    until(lambda: _exists(cluster, "cut-responses"), "the topic exists", 10)


def _ask_through(cluster: ContainerCluster, direction: Direction, topic: str) -> None:
    """Create a topic over a client's open connection to node 1 while that direction is cut."""
    host, _, port = cluster.endpoint().args["bootstrap.servers"].partition(",")[0].partition(":")
    clients = Brokers({1: Address(host, int(port))})
    wanted = {"name": topic, "num_partitions": 1, "replication_factor": 1}
    with clients.connect(1, 4) as connection:
        protocol.view(connection)  # established before the cut
        run_blocking(cluster.cut([Cut(node=1, direction=direction)]))
        with pytest.raises(AdminError, match=r"timed out|deadline"):
            connection.call(CreateTopicsResponse, topics=[wanted], timeout=broker_views.TIMEOUT)
    assert 1 in run_blocking(cluster.roles()).answering  # the harness's own listener is not concerned


def _exists(cluster: ContainerCluster, topic: str) -> bool:
    return any(tp.topic == topic for tp in run_blocking(cluster.roles()).leaders)


def test_a_sidecar_cuts_where_the_host_cannot(
    cluster: ContainerCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_from_host", False)
    cuts = [Cut(node=1, direction=OUT, peer=2)]
    run_blocking(cluster.cut(cuts))
    assert not reaches(cluster, 1, 2, 9092)
    assert reaches(cluster, 1, 3, 9092)
    run_blocking(cluster.mend(cuts))
    assert reaches(cluster, 1, 2, 9092)


def test_offsets_are_those_of_the_agreed_leader(cluster: ContainerCluster) -> None:
    everything = set(run_blocking(cluster.roles()).leaders)
    for level in (Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED):
        assert all(0 <= start <= end for start, end in _all_offsets(cluster, everything, level))
    run_blocking(cluster.kill(cluster.nodes))
    assert run_blocking(cluster.offsets(sorted(everything), Isolation.READ_COMMITTED)) == {}


def _all_offsets(
    cluster: ContainerCluster, tps: set[TopicPartition], level: Isolation
) -> list[tuple[int, int]]:
    found: dict[TopicPartition, tuple[int, int]] = {}

    def all_listed() -> bool:
        found.update(run_blocking(cluster.offsets(sorted(tps), level)))
        return set(found) == tps

    # A leader refuses for a moment after its election (KIP-207), and is left out.
    until(all_listed, f"offsets of {tps} are listed", 30)
    return list(found.values())
