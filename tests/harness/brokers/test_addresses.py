import ipaddress
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import ClusterError
from harness.brokers import addresses
from harness.brokers.addresses import LOOPBACK, Plan, address, reserve

NODES = range(1, 10)
HOLDER = (
    "import sys; from harness.brokers.addresses import reserve\n"
    "plan = reserve(int(sys.argv[1])); print(plan.block, flush=True); sys.stdin.read()"
)


@pytest.fixture
def held() -> Iterator[list[Plan]]:
    plans: list[Plan] = []
    yield plans
    for one in plans:
        one.release()


def ports(one: Plan) -> set[int]:
    kinds = (one.advertised, one.behind, one.harness, one.nodes, one.between)
    return {port(n) for port in kinds for n in NODES} | {one.toxiproxy}


def kernel(folder: Path, low: int, high: int, reserved: str = "") -> Path:
    (folder / "ip_local_port_range").write_text(f"{low}\t{high}\n")
    (folder / "ip_local_reserved_ports").write_text(f"{reserved}\n")
    return folder


def test_ports_are_distinct_and_within_their_block(held: list[Plan]) -> None:
    held.append(reserve(addresses.BLOCKS - 1))
    assert len(ports(held[0])) == 5 * len(NODES) + 1
    assert ports(held[0]) < set(addresses.ports_of(held[0].block))


def test_blocks_share_neither_ports_nor_subnets() -> None:
    every = [port for block in addresses.candidates() for port in addresses.ports_of(block)]
    assert len(set(every)) == len(every)
    assert min(every) > 1024
    assert max(every) < 2**16
    assert len(addresses.SUBNETS) > len(addresses.candidates())


def test_two_plans_never_share_ports_or_their_first_subnet(held: list[Plan]) -> None:
    held += [reserve(), reserve()]
    assert not ports(held[0]) & ports(held[1])
    assert held[0].subnets()[0] != held[1].subnets()[0]


def test_a_subnet_that_is_tried_later_belongs_to_no_block(held: list[Plan]) -> None:
    held.append(reserve())
    own, *others = held[0].subnets()
    blocks = {str(addresses.SUBNETS[block]) for block in addresses.candidates()}
    assert own in blocks
    assert others
    assert not blocks & set(others)


def test_a_released_block_is_free_again(held: list[Plan]) -> None:
    first = reserve(40)
    seen = [first.held]
    first.release()
    first.release()
    assert [*seen, first.held] == [True, False]
    held.append(reserve(first.block))
    assert held[0].block == first.block


def test_a_block_with_a_port_in_use_is_passed_over(held: list[Plan]) -> None:
    held.append(reserve(addresses.BLOCKS // 2))  # away from the blocks that other tests may reserve now
    taken, port = held[0].block, held[0].harness(3)
    held.pop().release()
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((LOOPBACK, port))
        other.listen()
        held.append(reserve(taken))
        assert held[0].block != taken


@pytest.mark.sampled(2)
def test_a_block_is_the_machines_whatever_folders_its_user_has(held: list[Plan], tmp_path: Path) -> None:
    """Nothing listens in the block, as when all nodes are down."""
    held.append(reserve(60))
    other = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(held[0].block)],
        env=other,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        block = int(process.stdout.readline())
        process.communicate(b"")
    assert block != held[0].block


def test_a_block_of_a_process_that_is_killed_is_free_at_once(held: list[Plan]) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, "80"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        block = int(process.stdout.readline())
        held.append(reserve(block))
        assert held[0].block != block
        held.pop().release()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        held.append(reserve(block))
        assert held[0].block == block


def test_a_child_does_not_hold_the_block_of_its_parent(held: list[Plan]) -> None:
    plan = reserve(100)
    with subprocess.Popen(["sleep", "60"], close_fds=False) as child:
        plan.release()
        held.append(reserve(plan.block))
        assert held[0].block == plan.block
        child.kill()


@pytest.mark.parametrize(
    ("low", "high", "reserved", "first"),
    [
        (32_768, 60_999, "", 20_000),
        (15_000, 60_999, "", 10_000),
        (20_010, 60_999, "", 10_000),
        (10_000, 32_000, "", 32_050),
        (1024, 65_535, "", 20_000),  # there are no better ones
        (1024, 65_535, "30000-39999", 30_000),
        (1024, 65_535, "7,10000-10049", 10_000),
    ],
)
def test_ports_that_the_kernel_gives_to_clients_come_last(
    low: int, high: int, reserved: str, first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "KERNEL", kernel(tmp_path, low, high, reserved))
    order = addresses.candidates()
    assert sorted(order) == list(range(len(order)))
    assert addresses.first_port(order[0]) == first


def test_without_a_word_of_the_kernel_its_usual_range_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "KERNEL", tmp_path)
    assert addresses.given_to_clients() == set(range(32_768, 61_000))


def test_when_all_are_taken_it_says_what_to_do(held: list[Plan], monkeypatch: pytest.MonkeyPatch) -> None:
    held.append(reserve(120))
    monkeypatch.setattr(addresses, "candidates", lambda _: [held[0].block])
    with pytest.raises(ClusterError, match="in use; end other runs"):
        reserve()


@pytest.mark.sampled(5)
def test_addresses_are_in_the_subnet_and_distinct() -> None:
    for subnet in map(str, addresses.SUBNETS):
        found = [address(subnet, node) for node in NODES]
        assert len(set(found)) == len(NODES)
        hosts = ipaddress.ip_network(subnet).hosts()
        gateway = next(hosts)
        assert set(map(ipaddress.ip_address, found)) <= set(hosts) - {gateway}
    assert address("10.213.7.0/27", 1) == "10.213.7.11"
