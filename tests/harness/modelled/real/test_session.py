"""librdkafka with brokers of the model: the contract of all sessions."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from core.config import run_config
from core.op import AssignmentKind, Isolation, TopicPartition
from core.runtime import run_blocking
from core.session import AssignmentEvent, CommittedSeen, Session
from harness.modelled.real.cluster import ModelCluster
from harness.modelled.real.system import refusal
from tests.contract.session_contract_test import NUMBERS, PATIENCE_S, SessionContract, Sessions
from tests.contract.session_contract_work_test import WorkContract


@pytest.fixture
def sessions(cluster: ModelCluster) -> Iterator[Sessions]:
    made = Sessions.of_cluster(cluster)
    yield made
    made.close()


@pytest.mark.sampled(5)
class TestModel(SessionContract, WorkContract):
    """Brokers of the model."""


NEWER = {"consumer.group.protocol": "consumer"}


class Members:
    """Members of one group of KIP-848, polled in turn: what each has, and where it was told to begin."""

    def __init__(self, sessions: Sessions, topic: str) -> None:
        self.sessions, self.topic, self.group = sessions, topic, f"g{next(NUMBERS)}"
        self.has: dict[Session, set[TopicPartition]] = {}
        self.begins: dict[Session, dict[TopicPartition, int]] = {}

    def join(self) -> Session:
        made = self.sessions.connect(isolation=Isolation.READ_COMMITTED, group=self.group, settings=NEWER)
        run_blocking(made.subscribe([self.topic]))
        self.has[made], self.begins[made] = set(), {}
        return made

    def until(self, *numbers: int) -> None:
        """Poll until members have so many partitions, each one member."""
        end = time.monotonic() + PATIENCE_S
        while sorted(map(len, self.has.values())) != sorted(numbers):
            assert time.monotonic() < end, self.has
            for member in self.has:
                self._poll(member)

    def _poll(self, member: Session) -> None:
        run_blocking(member.poll(1, 50))
        for event in member.events():
            if isinstance(event, CommittedSeen):
                self.begins[member] |= event.offsets
            elif isinstance(event, AssignmentEvent) and event.kind is AssignmentKind.ASSIGNED:
                taken = {tp for other, tps in self.has.items() if other is not member for tp in tps}
                assert not taken & {*event.tps}  # its last owner has polled since, and given it up
                self.has[member] |= {*event.tps}
            elif isinstance(event, AssignmentEvent) and event.kind is not AssignmentKind.RESET:
                self.has[member] -= {*event.tps}


@pytest.mark.sampled(5)
def test_members_of_the_newer_protocol_share_the_partitions(sessions: Sessions) -> None:
    tps = sessions.topic(4)
    members = Members(sessions, tps[0].topic)
    first = members.join()
    members.until(4)
    assert run_blocking(first.commit_offsets(dict.fromkeys(tps, 1))) > 0
    second = members.join()
    members.until(2, 2)
    assert members.begins[second] == dict.fromkeys(members.has[second], 1)
    kept = next(iter(members.has[first]))
    run_blocking(first.commit_offsets({kept: 1}))
    del members.has[first]
    sessions.drop(first)  # it leaves
    members.until(4)
    assert set(members.has[second]) == set(tps)


def test_eras_without_the_newer_protocol_refuse_a_run_of_it() -> None:
    wanted: dict[str, Any] = {"sut": "model", "seed": 1, "client_settings": NEWER}
    assert refusal(run_config(wanted)) == ""
    assert "4.0 and later" in refusal(run_config(wanted | {"model": {"era": "3.9"}}))
