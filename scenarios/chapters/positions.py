"""Positions.

The position of a consumer is the offset of the record that it hands out next."""

from model.settings import Settings
from scenarios.drivers.clients import ClientStage
from scenarios.framework import SEVERAL_BROKERS, Steps, scenario


@scenario(
    "The leader changes under a consumer",
    source="Kafka: `Fetcher`",
    stage=lambda: ClientStage(Settings(), ((1, 2, 3),), (3, 2, 1)),
    columns="leader | log | position | processed",
    not_played=SEVERAL_BROKERS,
)
def consumer_leader_change(s: ClientStage) -> Steps:
    """Offsets mean the same on every replica."""
    s.producer("P").send("P", 0, "r0", "r1").wait(1000).consumer("A").poll("A").process("A", 2)
    yield "A has read two records, from broker 1. | 1 | r0 r1 | 2 | r0 r1"
    s.crash(1).restart(1).send("P", 0, "r2").wait(1000)
    yield "Broker 2 leads now; r2 is there. | 2 | r0 r1 r2 | 2 | r0 r1"
    s.poll("A").process("A")
    yield """A asked broker 1, was refused, refreshed its metadata, and continues at its position with broker
        2.
        | 2 | r0 r1 r2 | 3 | r0 r1 r2"""


@scenario(
    "Going back",
    source="Kafka: `KafkaConsumer.seek`",
    stage=ClientStage,
    columns="A has | position | commit | committed | processed",
)
def rewind(s: ClientStage) -> Steps:
    """Position and committed offset are moved apart from each other."""
    s.records("r0", "r1", "r2", "r3").consumer("A").poll("A").process("A", 4).commit("A")
    yield "A has read and processed everything. | – | 4 | ok | 4 | r0 r1 r2 r3"
    s.seek("A", 2)
    yield """It finds that its work of the last two was wrong and goes back to 2. That concerns its position
        only.
        | – | 2 | ok | 4 | r0 r1 r2 r3"""
    s.commit("A")
    yield "A commit may go back as well: what counts is the newest one. | – | 2 | ok | 2 | r0 r1 r2 r3"
    s.poll("A").process("A", 2).commit("A")
    yield "It reads them again. | – | 4 | ok | 4 | r0 r1 r2 r3 r2 r3"


@scenario(
    "An offset out of range",
    source="Kafka: consumer setting `auto.offset.reset`",
    stage=ClientStage,
    columns="log | position | committed | processed",
)
def out_of_range(s: ClientStage) -> Steps:
    """A loss on the consumer's side without any error."""
    s.records("r0", "r1", "r2", "r3").consumer("A").poll("A", 2).process("A", 2).commit("A")
    s.die("A").send("P", 0, "r4", "r5").wait(100)
    yield "A has committed 2 and is gone. | r0 r1 r2 r3 r4 r5 | – | 2 | r0 r1"
    s.delete_before(4)
    yield "No consumer reads for so long that retention removes everything below 4. | r4 r5 | – | 2 | r0 r1"
    s.consumer("A").poll("A").process("A", 2)
    yield """Its successor's offset is out of range. With auto.offset.reset=earliest it continues at the
        beginning of the log. Without a word r2 and r3 are lost.
        | r4 r5 | 6 | 2 | r0 r1 r4 r5"""
