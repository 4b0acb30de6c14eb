from collections.abc import Mapping

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v9.response import MetadataResponsePartition
from kio.schema.types import BrokerId
from kio.static.primitive import i32

from core.op import TopicPartition
from harness.brokers.admin.broker_views import agree
from harness.brokers.admin.protocol import ControllerView, View

TP = TopicPartition("t", 0)


def view(leader: int, epoch: int = 0, isr: tuple[int, ...] = (1, 2, 3)) -> View:
    partition = MetadataResponsePartition(
        error_code=ErrorCode.none,
        partition_index=i32(TP.partition),
        leader_id=BrokerId(leader),
        leader_epoch=i32(epoch),
        isr_nodes=tuple(map(BrokerId, isr)),
    )
    return View(brokers=frozenset({1, 2, 3}), partitions={TP: partition})


def leader(views: Mapping[int, View], nodes: tuple[int, ...] = (1, 2, 3)) -> int:
    return agree(0, nodes, views, {}).leaders[TP]


def test_all_nodes_say_the_same() -> None:
    roles = agree(7, (1, 2, 3), {1: view(2, 4), 2: view(2, 4), 3: view(2, 4)}, {})
    assert (roles.ns, roles.leaders, roles.leader_epochs) == (7, {TP: 2}, {TP: 4})
    assert roles.agreed
    assert roles.answering == (1, 2, 3)


def test_a_node_that_is_cut_off_is_outvoted_and_spoils_agreement() -> None:
    roles = agree(0, (1, 2, 3), {1: view(1, 4), 2: view(2, 5, (2, 3)), 3: view(2, 5, (2, 3))}, {})
    assert roles.leaders == {TP: 2}
    assert roles.leader_epochs == {TP: 5}
    assert roles.isr == {TP: (2, 3)}
    assert not roles.agreed


def test_the_agreed_leader_itself_tells_the_isr() -> None:
    views = {1: view(2, 5, (1, 2, 3)), 2: view(2, 5, (2, 3)), 3: view(2, 5, (1, 2, 3))}
    assert agree(0, (1, 2, 3), views, {}).isr == {TP: (2, 3)}


def test_two_against_two_the_later_epoch_wins() -> None:
    views = {1: view(1, 8), 2: view(1, 8), 3: view(3, 9), 4: view(3, 9)}
    assert leader(views, (1, 2, 3, 4, 5)) == 3
    assert leader(dict(reversed(views.items())), (1, 2, 3, 4, 5)) == 3


def test_one_word_against_another_is_nobody() -> None:
    assert leader({1: view(1), 2: view(2, 9)}) == -1


def test_one_node_of_three_is_not_believed() -> None:
    roles = agree(0, (1, 2, 3), {1: view(1)}, {})
    assert roles.leaders == {TP: -1}
    assert roles.isr == {TP: (1, 2, 3)}
    assert not roles.agreed


def test_of_two_nodes_the_only_one_that_answers_is_believed() -> None:
    roles = agree(0, (1, 2), {2: view(2, 4, (2,))}, {})
    assert (roles.leaders, roles.leader_epochs, roles.isr) == ({TP: 2}, {TP: 4}, {TP: (2,)})
    assert not roles.agreed
    assert leader({1: view(1, 3), 2: view(2, 4)}, (1, 2)) == -1  # both answer, and contradict each other


def test_a_cluster_of_one_is_its_own_witness() -> None:
    roles = agree(0, (1,), {1: view(1)}, {})
    assert roles.leaders == {TP: 1}
    assert roles.agreed


def test_that_nobody_leads_is_agreed_too() -> None:
    assert leader({1: view(-1, 3), 2: view(-1, 3), 3: view(2, 2)}) == -1


def test_a_missing_answer_or_partition_is_no_agreement() -> None:
    nobody = View(brokers=frozenset({1, 2, 3}), partitions={})
    assert not agree(0, (1, 2, 3), {1: view(1), 2: view(1)}, {}).agreed
    assert not agree(0, (1, 2, 3), {1: view(1), 2: view(1), 3: nobody}, {}).agreed
    assert not agree(0, (1, 2, 3), {}, {}).agreed


def test_the_controller_is_the_one_of_the_latest_epoch() -> None:
    answers = {1: ControllerView(4, 1), 2: ControllerView(5, 3), 3: ControllerView(6, -1)}
    assert agree(0, (1, 2, 3), {}, answers).controller == 3
    assert agree(0, (1, 2, 3), {}, {}).controller == -1
