from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from core.cluster import Address, OpenTransaction
from core.op import TopicPartition
from harness.brokers.admin import broker_views
from harness.brokers.admin.connection import Brokers
from harness.brokers.admin.open_transactions import Claims, Key, Producers, open_transactions
from tests.harness.brokers.test_roles import view

TP = TopicPartition("t", 0)
BROKERS = Brokers({node: Address("127.0.0.1", 1) for node in (1, 2, 3)})
PRODUCER = 7


def row(start: int = 5, **more: Any) -> OpenTransaction:
    return OpenTransaction(
        topic="t", partition=0, producer_id=PRODUCER, producer_epoch=2, start=start, **more
    )


def says(leader: int, *opened: OpenTransaction) -> Producers:
    return Producers(view=view(leader, 1), opened={(TP, one.producer_id): one for one in opened})


def held(*opened: OpenTransaction) -> Mapping[int, Producers]:
    """Node 2 leads and holds these open."""
    return {1: says(2), 2: says(2, *opened), 3: says(2)}


def claim(ids: Mapping[Key, tuple[str, float]], *known: int) -> Claims:
    return Claims(ids=ids, known=frozenset(known))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[int, Any]]:
    """What the nodes answer in each round; a round more than there are answers for fails."""
    rounds: list[Mapping[int, Any]] = []
    monkeypatch.setattr(broker_views, "ask", lambda *_, **__: rounds.pop(0))
    return rounds


def found(rounds: list[Mapping[int, Any]], *answers: Mapping[int, Any]) -> Sequence[Any]:
    rounds[:] = answers
    rows = open_transactions(BROKERS, [TP])
    assert rounds == []
    return rows


def test_nothing_open_asks_no_coordinator(asked: list[Mapping[int, Any]]) -> None:
    assert found(asked, held()) == []


def test_a_claimed_one_carries_its_id_and_coordinator(asked: list[Mapping[int, Any]]) -> None:
    claims = {1: claim({}), 3: claim({(TP, PRODUCER): ("x", 60.0)}, PRODUCER)}
    wanted = row(coordinator=3, transactional_id="x", timeout_s=60.0)
    assert found(asked, held(row()), claims) == [wanted]


def test_a_deposed_leader_is_not_believed(asked: list[Mapping[int, Any]]) -> None:
    assert found(asked, {1: says(1, row()), 2: says(2), 3: says(2)}) == []


def test_what_nobody_claims_and_has_ended_meanwhile_is_not_open(asked: list[Mapping[int, Any]]) -> None:
    nobody = dict.fromkeys(BROKERS.nodes, claim({}))
    assert found(asked, held(row(5)), nobody, held()) == []
    assert found(asked, held(row(5)), nobody, held(row(9))) == []  # the next one of this producer


def test_what_nobody_claims_and_stays_open_hangs(asked: list[Mapping[int, Any]]) -> None:
    nobody = dict.fromkeys(BROKERS.nodes, claim({}))
    assert found(asked, held(row()), nobody, held(row())) == [row()]
    two = {node: claim({}) for node in (1, 3)}  # node 2 may be its coordinator, and did not answer
    assert found(asked, held(row()), two, held(row())) == [row(silent=(2,))]
    elsewhere = claim({(TopicPartition("t", 1), PRODUCER): ("x", 60.0)}, PRODUCER)
    claims = nobody | {3: elsewhere}
    assert found(asked, held(row()), claims, held(row())) == [row(coordinator=3)]
