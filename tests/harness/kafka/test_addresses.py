import ipaddress
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import ClusterError
from harness.kafka import addresses
from harness.kafka.addresses import Plan, address, reserve

NODES = range(1, 10)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.fixture
def held() -> Iterator[list[Plan]]:
    plans: list[Plan] = []
    yield plans
    for one in plans:
        one.release()


def ports(one: Plan) -> set[int]:
    return {port(n) for port in (one.advertised, one.behind, one.harness) for n in NODES}


def test_ports_are_distinct_and_below_the_ephemeral_range(held: list[Plan]) -> None:
    held.append(reserve(addresses.BLOCKS - 1))
    assert len(ports(held[0])) == 3 * len(NODES)
    assert max(ports(held[0])) < 32_768


def test_two_plans_never_share_ports_or_their_first_subnet(held: list[Plan]) -> None:
    held += [reserve(), reserve()]
    assert not ports(held[0]) & ports(held[1])
    assert held[0].subnets()[0] != held[1].subnets()[0]
    assert sorted(held[0].subnets()) == sorted(held[1].subnets())


def test_a_released_block_is_free_again(held: list[Plan]) -> None:
    first = reserve()
    first.release()
    first.release()
    held.append(reserve())
    assert held[0].block == first.block


def test_a_block_with_a_port_in_use_is_passed_over(held: list[Plan]) -> None:
    held.append(reserve(addresses.BLOCKS // 2))  # away from the blocks that other tests may reserve now
    taken, port = held[0].block, held[0].harness(3)
    held.pop().release()
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        held.append(reserve(taken))
        assert held[0].block != taken


def test_when_all_are_taken_it_says_what_to_do(held: list[Plan], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "BLOCKS", 1)
    monkeypatch.setattr(addresses, "FIRST_PORT", 31_000)
    held.append(reserve())
    with pytest.raises(ClusterError, match="in use; end other runs"):
        reserve()


def test_addresses_are_in_the_subnet_and_distinct() -> None:
    subnet = "10.213.7.0/24"
    found = [address(subnet, node) for node in NODES]
    assert len(set(found)) == len(NODES)
    assert all(ipaddress.ip_address(one) in ipaddress.ip_network(subnet) for one in found)
    assert address(subnet, 1) == "10.213.7.11"
