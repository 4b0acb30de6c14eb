import base64
from typing import Any

from core.capabilities import Listener
from core.config import run_config
from harness.brokers.addresses import cluster_id, host
from harness.kafka import quorum
from harness.kafka.broker_config import environment, server_properties


def settings(node: int = 1, *, proxied: frozenset[Listener] = frozenset(), **config: Any) -> dict[str, str]:
    text = server_properties(run_config({"seed": 1, **config}), node, 20_001, 20_021, proxied=proxied)
    return dict(line.split("=", 1) for line in text.splitlines())


def test_a_node_is_broker_and_controller_of_its_cluster() -> None:
    found = settings(2)
    assert found["process.roles"] == "broker,controller"
    assert found["node.id"] == "2"
    assert found["controller.quorum.voters"] == "1@broker-1:9093,2@broker-2:9093,3@broker-3:9093"
    assert found["advertised.listeners"] == (
        "BROKER://broker-2:9092,CLIENT://127.0.0.1:20001,HARNESS://127.0.0.1:20021"
    )
    assert found["inter.broker.listener.name"] == "BROKER"


def test_behind_a_proxy_a_broker_advertises_the_port_where_that_listens() -> None:
    usual, found = settings(2), settings(2, proxied=frozenset({Listener.BROKER}))
    assert found["listeners"] == "BROKER://:9096,CONTROLLER://:9093,CLIENT://:9094,HARNESS://:9095"
    assert {key: value for key, value in found.items() if usual[key] != value} == {
        "listeners": found["listeners"]
    }


def test_behind_a_proxy_an_isolated_controller_advertises_the_port_where_that_listens() -> None:
    both = frozenset({Listener.BROKER, Listener.CONTROLLER})
    broker, found = settings(3, controllers=1, proxied=both), settings(4, controllers=1, proxied=both)
    assert found["listeners"] == "CONTROLLER://:9097"
    assert found["advertised.listeners"] == "CONTROLLER://controller-4:9093"
    assert broker["listeners"] == "BROKER://:9096,CLIENT://:9094,HARNESS://:9095"
    assert broker["controller.quorum.voters"] == "4@controller-4:9093"


def test_behind_proxies_a_broker_that_is_controller_advertises_both_ports() -> None:
    both = frozenset({Listener.BROKER, Listener.CONTROLLER})
    usual, found = settings(2), settings(2, proxied=both)
    assert found["listeners"] == "BROKER://:9096,CONTROLLER://:9097,CLIENT://:9094,HARNESS://:9095"
    more = f"{usual['advertised.listeners']},CONTROLLER://broker-2:9093"
    assert {key: value for key, value in found.items() if usual[key] != value} == {
        "listeners": found["listeners"],
        "advertised.listeners": more,
    }


def test_isolated_controllers_vote_alone_and_have_no_clients() -> None:
    broker, controller = settings(3, controllers=3), settings(5, controllers=3)
    assert broker["process.roles"] == "broker"
    assert controller["process.roles"] == "controller"
    voters = "4@controller-4:9093,5@controller-5:9093,6@controller-6:9093"
    assert broker["controller.quorum.voters"] == controller["controller.quorum.voters"] == voters
    assert broker["listeners"] == "BROKER://:9092,CLIENT://:9094,HARNESS://:9095"
    assert controller["listeners"] == "CONTROLLER://:9093"
    assert "advertised.listeners" not in controller
    assert "inter.broker.listener.name" not in controller
    # Creating topics and electing leaders is the controller's work.
    assert controller["default.replication.factor"] == "3"
    assert controller["unclean.leader.election.enable"] == "false"
    assert settings(5, controllers=3, broker_settings={"a": "b"})["a"] == "b"


def test_controllers_have_names_and_a_small_heap_of_their_own() -> None:
    config = run_config({"seed": 1, "controllers": 1})
    assert [host(config, node) for node in (1, 3, 4)] == ["broker-1", "broker-3", "controller-4"]
    assert environment(config, 3) == {}
    assert environment(config, 4) == {"HEAP": "128m"}


def test_timings_are_tight() -> None:
    found = settings()
    assert found["broker.session.timeout.ms"] == "3000"
    assert found["replica.lag.time.max.ms"] == "1000"
    assert found["auto.create.topics.enable"] == "false"


def test_replication_of_internal_topics_fits_the_cluster() -> None:
    small = settings(brokers=1, replication_factor=1, min_insync_replicas=1)
    assert small["transaction.state.log.replication.factor"] == "1"
    assert small["transaction.state.log.min.isr"] == "1"
    assert small["min.insync.replicas"] == "1"
    large = settings(brokers=5)
    assert large["offsets.topic.replication.factor"] == "3"
    assert large["transaction.state.log.min.isr"] == "2"


def test_unclean_election_follows_the_config() -> None:
    assert settings()["unclean.leader.election.enable"] == "false"
    assert settings(unclean_leader_election=True)["unclean.leader.election.enable"] == "true"


def test_the_runs_own_settings_win() -> None:
    own = {"broker.session.timeout.ms": "9000", "num.io.threads": "3"}
    found = settings(broker_settings=own)
    assert {key: found[key] for key in own} == own


def test_a_cluster_id_is_sixteen_bytes_and_belongs_to_the_run() -> None:
    assert len(base64.urlsafe_b64decode(cluster_id("a-run") + "==")) == 16
    assert cluster_id("a-run") == cluster_id("a-run") != cluster_id("another")


def test_no_cluster_id_looks_like_an_option() -> None:
    assert all(cluster_id(f"run-{number}")[0].isalnum() for number in range(1000))


def test_brokers_alone_have_two_log_directories_and_the_metadata_log_is_in_the_first() -> None:
    assert settings(1)["log.dirs"] == "/data"
    assert [settings(node, controllers=1, log_dirs=2)["log.dirs"] for node in (1, 4)] == [
        "/data,/data-2",
        "/data",
    ]
    assert "metadata.log.dir" not in settings(1, log_dirs=2)


def test_where_the_log_says_who_votes_the_first_voters_are_formatted_in() -> None:
    found = settings(1, quorum="dynamic")
    assert found["controller.quorum.bootstrap.servers"] == "broker-1:9093,broker-2:9093,broker-3:9093"
    assert "controller.quorum.voters" not in found
    config = run_config({"seed": 1, "controllers": 1, "quorum": "dynamic"})
    cluster = cluster_id("run")
    assert quorum.environment(config, cluster, 1) == {"FORMAT": "--no-initial-controllers"}
    (option,) = quorum.environment(config, cluster, 4).values()
    head, _, directory = option.rpartition(":")
    assert head == "--initial-controllers=4@controller-4:9093"
    assert base64.urlsafe_b64decode(f"{directory}==") == quorum.directory_id(cluster, 4).bytes
    assert quorum.environment(run_config({"seed": 1}), cluster, 1) == {}


def test_a_directory_has_an_id_of_its_own_that_is_no_option() -> None:
    found = {quorum.directory_id(cluster_id(f"run-{number}"), 1).bytes for number in range(100)}
    assert len(found) == 100
    assert {one[0] >> 6 for one in found} == {1}


def test_brokers_are_in_racks_in_turn_and_controllers_in_none() -> None:
    racks = [settings(node, brokers=5, racks=3).get("broker.rack") for node in range(1, 6)]
    assert racks == ["rack-1", "rack-2", "rack-3", "rack-1", "rack-2"]
    assert "broker.rack" not in settings(1)
    assert "broker.rack" not in settings(6, brokers=5, controllers=1, racks=3)
