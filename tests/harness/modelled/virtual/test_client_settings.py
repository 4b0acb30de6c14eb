"""Simulated clients honour the settings that the rules believe."""

import pytest

from core.config import RunConfig, run_config
from core.errors import ConfigError
from harness.compose import plan
from harness.explore.trial import checked, forbidden
from harness.modelled.virtual.run import Simulated, simulate
from history.journal import Invoked, JournalHeader, SendResults
from model.client.producer import Producer, ProducerSettings

LINKS = {
    "sut": "simulated",
    "preset": "no-idempotence",
    "nemesis": "links,partition",
    "seed": 1,
    "duration_s": 20,
    "rate": 50,
}


def config(**settings: object) -> RunConfig:
    return run_config({**LINKS, **settings})


def duplicates(done: Simulated) -> int:
    """How many there are; nothing forbidden is among them, nor beside them."""
    tally = checked(done)
    assert forbidden(done, tally) == {}
    return sum(finding.name == "duplicate" for finding in tally.findings)


@pytest.mark.slow
@pytest.mark.sampled(37)
@pytest.mark.parametrize("seed", [1, 3])
def test_a_producer_without_retries_writes_nothing_twice(seed: int) -> None:
    """The rules forbid duplicates then: the simulation must not make any."""
    assert duplicates(simulate(config(seed=seed, client_settings={"producer.retries": "0"}))) == 0


@pytest.mark.slow
@pytest.mark.sampled(48)
@pytest.mark.parametrize("seed", [1, 3])
def test_a_producer_with_retries_writes_some_records_twice_and_may(seed: int) -> None:
    assert duplicates(simulate(config(seed=seed))) > 0


def test_journals_record_what_the_clients_worked_with() -> None:
    done = simulate(config(duration_s=1, nemesis="none", client_settings={"max.in.flight": "2"}))
    headers = [lines[0] for _, lines in done.journals]
    made = [h.client for h in headers if isinstance(h, JournalHeader)]
    assert len(made) == len(headers)
    producers = [one.producer for one in made if one.producer is not None]
    assert {one.in_flight for one in producers} == {2}
    assert any(one.consumer is not None for one in made)


@pytest.mark.sampled(8)
def test_an_impatient_producer_gives_a_record_up_after_its_time() -> None:
    """Workload `send-modes`: 1.5 s for a record, while the others have the deadline of a verb, 10 s."""
    done = simulate(
        config(workload="send-modes", preset="safe", nemesis="pause:long", fault_s=8, duration_s=20)
    )
    took: dict[str, float] = {}
    for _, lines in done.journals:
        begun: dict[int, Invoked] = {}
        for line in lines:
            if isinstance(line, Invoked):
                begun[line.op] = line
            elif isinstance(line, SendResults):
                f = begun[line.op].f
                took[f] = max(took.get(f, 0.0), (line.ns - line.begin_ns) / 1e9)
    assert took["send-impatient"] < 2.0
    assert max(took["send-asynchronous"], took["send-synchronous"]) > 3.0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"compression.type": "lz4"}, "a run can set only"),
        ({"producer.acks": "1"}, "decides it"),
        ({"producer.linger.ms": "soon"}, "a number"),
    ],
)
def test_the_simulation_refuses_what_it_cannot_honour(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        plan(run_config({**LINKS, "client_settings": settings}))


def test_a_lingering_batch_waits_for_more_records_and_is_sent_when_full() -> None:
    producer = Producer(ProducerSettings(idempotent=False, linger_ms=100, batch=3), (1,))
    tp = ("x", 0)
    producer.send(tp, [("a", 1)], 0)
    producer.send(tp, [("b", 2)], 50)
    queue = producer.lanes[tp].queue
    assert [batch.records for batch in queue] == [("a", "b")]
    assert queue[0].not_before == 100
    producer.send(tp, [("c", 3), ("d", 4)], 60)
    assert [batch.records for batch in queue] == [("a", "b", "c"), ("d",)]
    assert [batch.not_before for batch in queue] == [0, 160]
    producer.send(tp, [("e", 5)], 200)
    assert [batch.records for batch in queue] == [("a", "b", "c"), ("d",), ("e",)]
