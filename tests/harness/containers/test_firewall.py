import pytest

from core.capabilities import Cut, Direction, Listener
from core.errors import ClusterError
from harness.brokers.addresses import PORTS
from harness.containers.firewall import Links, openings, rules

ADDRESSES = {1: "10.0.0.1", 2: "10.0.0.2", 3: "10.0.0.3"}
IN, OUT = Direction.IN, Direction.OUT


def dropped(*cuts: Cut) -> list[str]:
    table = rules(cuts, ADDRESSES, PORTS)
    return [line for line in table.splitlines() if line.startswith("-A")]


def test_no_cut_is_the_empty_table() -> None:
    assert rules([], ADDRESSES, PORTS) == (
        "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n"
    )


def test_a_cut_between_nodes_drops_all_that_comes_from_or_goes_to_the_peer() -> None:
    assert dropped(Cut(node=1, direction=IN, peer=2)) == ["-A INPUT -s 10.0.0.2 -j DROP"]
    assert dropped(Cut(node=1, direction=OUT, peer=3)) == ["-A OUTPUT -d 10.0.0.3 -j DROP"]


@pytest.mark.parametrize(("listener", "port"), [(Listener.BROKER, 9092), (Listener.CONTROLLER, 9093)])
def test_a_cut_by_listener_concerns_both_ends_of_connections(listener: Listener, port: int) -> None:
    assert dropped(Cut(node=1, direction=IN, peer=2, listener=listener)) == [
        f"-A INPUT -s 10.0.0.2 -p tcp --dport {port} -j DROP",
        f"-A INPUT -s 10.0.0.2 -p tcp --sport {port} -j DROP",
    ]
    assert dropped(Cut(node=1, direction=OUT, peer=2, listener=listener)) == [
        f"-A OUTPUT -d 10.0.0.2 -p tcp --dport {port} -j DROP",
        f"-A OUTPUT -d 10.0.0.2 -p tcp --sport {port} -j DROP",
    ]


def test_clients_send_requests_to_the_port_and_get_responses_from_it() -> None:
    assert dropped(Cut(node=1, direction=IN)) == ["-A INPUT -p tcp --dport 9094 -j DROP"]
    assert dropped(Cut(node=1, direction=OUT)) == ["-A OUTPUT -p tcp --sport 9094 -j DROP"]
    named = Cut(node=1, direction=OUT, listener=Listener.CLIENT)
    assert dropped(named) == dropped(Cut(node=1, direction=OUT))


def test_a_cut_of_what_opens_connections_matches_one_packet_of_each() -> None:
    assert dropped(Cut(node=1, direction=IN, opening=True)) == ["-A INPUT -p tcp --dport 9094 --syn -j DROP"]
    to_one = Cut(node=1, direction=OUT, peer=2, opening=True)
    assert dropped(to_one) == ["-A OUTPUT -d 10.0.0.2 -p tcp --syn -j DROP"]
    by_listener = Cut(node=1, direction=IN, peer=2, listener=Listener.BROKER, opening=True)
    assert dropped(by_listener) == ["-A INPUT -s 10.0.0.2 -p tcp --dport 9092 --syn -j DROP"]
    with pytest.raises(ValueError, match="opens no connections to clients"):
        dropped(Cut(node=1, direction=OUT, opening=True))


def test_what_a_firewall_counted_is_read() -> None:
    saved = (
        "*filter\n:INPUT ACCEPT [900:1]\n"
        "[12:720] -A INPUT -p tcp -m tcp --dport 9094 --tcp-flags FIN,SYN,RST,ACK SYN -j DROP\n"
        "[3:180] -A OUTPUT -d 10.0.0.2/32 -p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN -j DROP\n"
        "[77:9] -A INPUT -s 10.0.0.3/32 -j DROP\nCOMMIT\n"
    )
    assert openings(saved) == 15
    assert openings("") == 0


def test_a_rule_that_two_cuts_ask_for_stands_once() -> None:
    assert len(dropped(Cut(node=1, direction=IN), Cut(node=1, direction=IN))) == 1


@pytest.mark.parametrize(
    "cut",
    [
        Cut(node=1, direction=IN, peer=2, listener=Listener.CLIENT),
        Cut(node=1, direction=IN, listener=Listener.BROKER),
        Cut(node=1, direction=IN, peer=1),
        Cut(node=1, direction=OUT, peer=4),
    ],
)
def test_a_cut_that_would_drop_nothing_is_refused(cut: Cut) -> None:
    with pytest.raises(ValueError, match=r"listener|peer"):
        rules([cut], ADDRESSES, PORTS)


class Nodes:
    """Records the table last applied to each node; refuses on request."""

    def __init__(self) -> None:
        self.tables: dict[int, str] = {}
        self.calls: list[int] = []
        self.refuses: set[int] = set()

    def apply(self, node: int, table: str) -> None:
        self.calls.append(node)
        if node in self.refuses:
            raise ClusterError(f"node {node} refuses")
        self.tables[node] = table

    def is_cut(self, node: int) -> bool:
        return "DROP" in self.tables.get(node, "")


A = Cut(node=1, direction=IN, peer=2)
B = Cut(node=2, direction=IN, peer=1)


def test_each_concerned_node_gets_one_atomic_table() -> None:
    nodes = Nodes()
    links = Links(ADDRESSES, PORTS, nodes.apply)
    links.cut([A, Cut(node=1, direction=OUT, peer=2), B])
    assert sorted(nodes.calls) == [1, 2]
    assert nodes.tables[1].count("DROP") == 2
    links.mend([A])
    assert nodes.calls[2:] == [1]
    assert nodes.tables[1].count("DROP") == 1
    assert nodes.is_cut(2)


def test_a_cut_of_two_faults_lasts_until_both_mend_it() -> None:
    nodes = Nodes()
    links = Links(ADDRESSES, PORTS, nodes.apply)
    links.cut([A])
    links.cut([A])
    links.mend([A])
    assert nodes.is_cut(1)
    links.mend([A])
    assert not nodes.is_cut(1)
    links.mend([A])
    assert links.in_force == ()


def test_a_cut_that_cannot_be_made_is_mended_as_others_are() -> None:
    nodes = Nodes()
    links = Links(ADDRESSES, PORTS, nodes.apply)
    links.cut([B])
    nodes.refuses = {2}
    with pytest.raises(ClusterError, match="node 2 refuses"):
        links.cut([A, B])
    nodes.refuses = set()
    links.mend([A, B])
    assert links.in_force == (B,)  # of another fault
    assert not nodes.is_cut(1)
    assert nodes.is_cut(2)


def test_nonsense_changes_nothing() -> None:
    nodes = Nodes()
    links = Links(ADDRESSES, PORTS, nodes.apply)
    with pytest.raises(ValueError, match="peer"):
        links.cut([A, Cut(node=2, direction=IN, peer=9)])
    assert nodes.calls == []
    assert links.in_force == ()


def test_only_a_restarted_node_with_cuts_needs_its_table_again() -> None:
    nodes = Nodes()
    links = Links(ADDRESSES, PORTS, nodes.apply)
    links.cut([A])
    nodes.tables.clear()
    links.reapply(1)
    links.reapply(2)
    assert list(nodes.tables) == [1]
    assert nodes.is_cut(1)
