"""When a run is warm, and when a cluster has recovered."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from core.cluster import Roles
from core.config import RunConfig
from core.load_clients import ClientSlot
from core.op import TopicPartition
from harness.clients.worker_protocol import ClientProgress
from harness.run.planning import names_of
from harness.run.recovery import cold, idle_groups, lagging, stalled, unrecovered, unserved

DATA = TopicPartition("t", 0)
FRESH = TopicPartition("fresh", 0)
INTERNAL = TopicPartition("__consumer_offsets", 0)
TPS = (DATA, FRESH, INTERNAL)
SETS = dict.fromkeys(TPS, (1, 2))
WELL = Roles(ns=7, leaders=dict.fromkeys(TPS, 1), isr=SETS, replicas=SETS, answering=(1, 2), agreed=True)
SLOTS = (ClientSlot(slot=0, produces=True), ClientSlot(slot=1, group="g"))
INSTANCES = (SLOTS[0], replace(SLOTS[1], instance=True))
WORKED = {0: ClientProgress(ok=9, ok_invoked_ns=6), 1: ClientProgress(ok=1, ok_invoked_ns=6, worked_ns=6)}


def missing(roles: Roles = WELL, working: dict[int, ClientProgress] = WORKED, since: int = 5) -> str:
    return unrecovered(roles, (DATA, FRESH), 2, SLOTS, working, since)


def test_a_cluster_that_serves_all_clients_has_recovered() -> None:
    assert missing() == ""


@pytest.mark.parametrize(
    ("roles", "why"),
    [
        (replace(WELL, ns=4), "do not all agree"),  # a look from before healing ended
        (replace(WELL, agreed=False, answering=(1,)), "brokers [1] answer, and do not all agree"),
        (replace(WELL, leaders={**WELL.leaders, INTERNAL: -1}), "__consumer_offsets-0 has no leader"),
        (replace(WELL, isr={**WELL.isr, FRESH: (2,)}), "fresh-0 has in-sync replicas [2] only"),
        (
            replace(WELL, isr={**WELL.isr, INTERNAL: (1,)}),
            "__consumer_offsets-0 has in-sync replicas [1] only",
        ),
        (replace(WELL, isr={**WELL.isr, INTERNAL: (1,)}, replicas={**SETS, INTERNAL: (1,)}), ""),
        (replace(WELL, replicas={**SETS, FRESH: (1, 2, 3)}), "fresh-0 has in-sync replicas [1, 2] only"),
    ],
)
def test_all_brokers_agree_and_all_replicas_are_in_sync(roles: Roles, why: str) -> None:
    assert why in missing(roles)
    assert bool(why) == bool(missing(roles))


def test_an_internal_partition_of_others_that_lagged_before_is_not_the_runs_to_recover() -> None:
    lags = replace(WELL, isr={**WELL.isr, INTERNAL: (1,), FRESH: (1,)})
    before = lagging(lags)
    assert before == {INTERNAL}  # the run's own topics are asked always
    assert lagging(WELL) == frozenset()
    lags = replace(WELL, isr={**WELL.isr, INTERNAL: (1,)})
    for lagged, why in ((before, ""), (lagging(WELL), "__consumer_offsets-0 has in-sync replicas [1] only")):
        assert unserved(lags, (DATA, FRESH), 2, 5, lagged) == why
        assert unrecovered(lags, (DATA, FRESH), 2, SLOTS, WORKED, 5, lagged) == why


def test_every_client_completes_an_op_that_it_invoked_since() -> None:
    assert missing(working={**WORKED, 1: ClientProgress()}) == "clients [1] have completed nothing since"
    assert missing(since=7) == "clients [0, 1] have completed nothing since"
    assert missing(working={0: WORKED[0]}) == ""  # client 1 is lost


def test_every_group_is_given_a_record_since() -> None:
    empty = {**WORKED, 1: ClientProgress(ok=1, ok_invoked_ns=6)}
    assert missing(working=empty) == "groups ['g'] were given nothing since"
    of_application = partial(unrecovered, WELL, (DATA, FRESH), 2, INSTANCES)
    assert of_application(empty, 5) == "groups ['g'] have committed no offset since"
    assert of_application(WORKED, 5) == ""


def test_every_consumer_without_a_group_is_given_a_record_since() -> None:
    """Its polls succeed, and others are given records: a run that ended here would look well."""
    slots = (*SLOTS, ClientSlot(slot=2, fed=True), ClientSlot(slot=3, fed=True), ClientSlot(slot=4))
    polls = ClientProgress(ok=9, ok_invoked_ns=6, worked_ns=4)
    fed = ClientProgress(ok=9, ok_invoked_ns=6, worked_ns=5)
    working = {**WORKED, 2: fed, 3: polls, 4: polls}
    missing = partial(unrecovered, WELL, (DATA, FRESH), 2, slots)
    assert missing(working, 5) == "clients [3] were given nothing since, although they poll"
    assert missing({**working, 3: fed}, 5) == ""
    assert missing({slot: one for slot, one in working.items() if slot != 0}, 5) == ""  # none produces


@pytest.mark.parametrize(
    ("settings", "fed"),
    [
        ({"workload": "queue"}, {True}),  # but members of groups
        ({"workload": "transactions"}, {True}),
        ({"workload": "transactions", "abort_share": 1.0}, {True, False}),  # at read_uncommitted alone
        ({"workload": "transactions", "abort_share": 1.0, "isolation": "read_uncommitted"}, {True}),
        ({"workload": "groups"}, set()),
        ({"workload": "share"}, set()),  # but members of a share group
    ],
)
def test_consumers_are_fed_where_something_is_committed(settings: dict[str, Any], fed: set[bool]) -> None:
    clients = names_of(RunConfig.model_validate({"seed": 0, **settings})).clients
    assert {one.fed for one in clients if not one.produces and not one.group} == fed
    assert not any(one.fed for one in clients if one.produces)
    assert {one.fed for one in clients if one.group} <= {settings["workload"] == "share"}


def test_a_run_is_warm_once_every_client_and_group_has_worked() -> None:
    assert cold(SLOTS, WORKED) == ""
    assert "clients [0] have not completed" in cold(SLOTS, {**WORKED, 0: ClientProgress()})
    empty = {**WORKED, 1: ClientProgress(ok=1, ok_invoked_ns=6)}
    assert cold(SLOTS, empty) == "groups ['g'] have not been given a record yet"
    assert cold(INSTANCES, empty) == "groups ['g'] have committed no offset yet"
    assert cold(INSTANCES, WORKED) == ""


@pytest.mark.parametrize(
    ("worked", "idle"),
    [
        ({0: 0, 1: 8, 2: 0, 3: 8}, []),  # one member of each group is enough
        ({0: 0, 1: 7, 2: 7, 3: 7}, []),
        ({0: 0, 1: 6, 2: 0, 3: 8}, ["a"]),
        ({0: 0, 1: 0, 2: 0, 3: 0}, ["a", "b"]),
        ({0: 0, 2: 0, 3: 8}, ["a"]),  # member 1 is lost: the other one has to be given it
        ({0: 0, 3: 8}, []),  # all members of a are lost
        ({1: 0, 2: 0, 3: 0, 4: 0}, []),  # the producer is lost: nothing feeds them
    ],
)
def test_a_group_is_idle_where_none_of_its_members_was_given_anything(
    worked: dict[int, int], idle: list[str]
) -> None:
    slots = (
        ClientSlot(slot=0, produces=True),
        ClientSlot(slot=1, group="a", produces=True),  # a copier
        ClientSlot(slot=2, group="a", produces=True),
        ClientSlot(slot=3, group="b"),
        ClientSlot(slot=4),  # reads by itself
    )
    working = {slot: ClientProgress(ok=1, ok_invoked_ns=9, worked_ns=ns) for slot, ns in worked.items()}
    assert idle_groups(slots, working, 7) == idle


TWINS = (
    ClientSlot(slot=0, produces=True),
    ClientSlot(slot=1, produces=True),
    ClientSlot(slot=2, fed=True),
    ClientSlot(slot=3, fed=True),
    ClientSlot(slot=4, produces=True, transactional_id="a"),
)
AT_WORK = ClientProgress(ok=9, ok_invoked_ns=6, worked_ns=6)
STILL, HUNGRY = (
    ClientProgress(ok=9, ok_invoked_ns=3, worked_ns=3),
    ClientProgress(ok_invoked_ns=6, worked_ns=3),
)


@pytest.mark.parametrize(
    ("still", "found"),
    [
        ({}, ()),
        ({0: STILL}, (0,)),
        ({2: HUNGRY}, (2,)),  # it polls, and is given nothing
        ({1: STILL, 3: HUNGRY}, (1, 3)),
        ({0: STILL, 1: STILL}, ()),  # the cluster may refuse what both do
        ({2: HUNGRY, 3: HUNGRY}, ()),
        ({4: STILL}, ()),  # there is none like it
        ({0: STILL, 4: STILL}, ()),
    ],
)
def test_a_client_stands_still_while_one_like_it_works(
    still: dict[int, ClientProgress], found: tuple[int, ...]
) -> None:
    working = dict.fromkeys(range(5), AT_WORK) | still
    assert stalled(TWINS, working, since_ns=5) == found
    assert bool(unrecovered(WELL, (DATA, FRESH), 2, TWINS, working, since_ns=5)) == bool(still)


@pytest.mark.parametrize(
    ("still", "found"),
    [
        ({1: HUNGRY}, (1,)),  # KAFKA-19846
        ({1: HUNGRY, 2: STILL}, (1, 2)),
        ({1: HUNGRY, 2: HUNGRY, 3: HUNGRY}, ()),  # the group as a whole is given nothing
        ({0: STILL, 1: HUNGRY}, ()),  # nothing feeds it
        ({}, ()),
    ],
)
def test_a_member_of_a_share_group_is_given_nothing_while_another_one_works(
    still: dict[int, ClientProgress], found: tuple[int, ...]
) -> None:
    members = (ClientSlot(slot=n, group="s", fed=True) for n in (1, 2, 3))
    slots = (ClientSlot(slot=0, produces=True), *members)
    working = dict.fromkeys(range(4), AT_WORK) | still
    assert stalled(slots, working, since_ns=5) == found
    assert bool(unrecovered(WELL, (DATA, FRESH), 2, slots, working, since_ns=5)) == bool(still)


def test_what_the_cluster_lacks_is_told_apart_from_what_its_clients_do() -> None:
    assert unserved(WELL, (DATA, FRESH), 2, since_ns=5) == ""
    assert "no leader" in unserved(replace(WELL, leaders={DATA: -1}), (DATA,), 2, since_ns=5)


def test_a_group_that_stands_still_is_no_client_that_does() -> None:
    members = (ClientSlot(slot=0, produces=True), *(ClientSlot(slot=n, group="g") for n in (1, 2)))
    working = {0: AT_WORK, 1: HUNGRY, 2: HUNGRY}
    assert (
        unrecovered(WELL, (DATA, FRESH), 2, members, working, since_ns=5)
        == "groups ['g'] were given nothing since"
    )
    assert stalled(members, working, since_ns=5) == ()
