"""Batches that librdkafka compressed, by each codec: brokers of the model keep and return them, evidence has
them, and the reader of brokers' logs walks over their bytes."""

from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place

from core.op import TopicPartition
from core.runtime import run_blocking
from harness.evidence import segments
from harness.modelled.real.cluster import ModelCluster
from harness.modelled.real.encoded.disk import load
from harness.modelled.real.encoded.records import CorruptBatch, fetched
from harness.modelled.real.node import DISK
from harness.modelled.shared.disk_copy import DiskCopy
from harness.modelled.shared.evidence import tables
from history.evidence_tables import END
from model.log.unified_log import UnifiedLog
from model.settings import Settings

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""By their numbers in the attributes of a batch."""
RECORDS: Final = 40
TP: Final = TopicPartition("compressed", 0)
SAME: Final = ("base", "last", "records", "compression", "intact", "producer_id", "base_sequence")


@pytest.fixture(scope="module")
def servers(cluster: ModelCluster) -> str:
    """The addresses of brokers, which have one batch of each codec."""
    run_blocking(cluster.create_topic(TP.topic, 1, 1, {}))
    found = cluster.endpoint().args["bootstrap.servers"]
    for codec in CODECS:
        producer = Producer(
            {
                "bootstrap.servers": found,
                "compression.type": codec,
                "enable.idempotence": True,
                "linger.ms": 200,
            }
        )
        for _ in range(RECORDS):
            producer.produce(TP.topic, codec * 20, partition=0)
        assert producer.flush(30) == 0
    return found


@pytest.fixture
def disk(cluster: ModelCluster, servers: str) -> DiskCopy:
    """That of the replica."""
    node = run_blocking(cluster.roles()).leaders[TP]
    durable = load(cluster._processes[node].folder / DISK, Settings(), 0)
    return DiskCopy(node=node, ns=1, why=END, durable=durable)


@pytest.fixture
def log(disk: DiskCopy) -> UnifiedLog:
    return disk.durable.logs[TP.topic, TP.partition]


def test_a_consumer_is_given_what_was_compressed(servers: str) -> None:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "c", "auto.offset.reset": "earliest"})
    consumer.assign([Place(TP.topic, TP.partition, 0)])
    wanted = [(codec * 20).encode() for codec in CODECS for _ in range(RECORDS)]
    got = consumer.consume(len(wanted), 30)
    consumer.close()
    assert [message.value() for message in got] == wanted


def test_evidence_has_the_batches_and_their_codecs(disk: DiskCopy, log: UnifiedLog) -> None:
    rows = tables([[disk]], Settings(), "4.3")["batches"].to_pylist()
    own = [row for row in rows if row["topic"] == TP.topic]
    assert {row["compression"] for row in own} == set(range(len(CODECS)))
    assert [row["compression"] for row in own] == sorted(row["compression"] for row in own)
    assert sum(row["records"] for row in own) == RECORDS * len(CODECS) == log.end
    assert [row["last"] - row["base"] + 1 for row in own] == [row["records"] for row in own]


def test_the_reader_of_logs_walks_over_each_codec(disk: DiskCopy, log: UnifiedLog, tmp_path: Path) -> None:
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(b"".join(fetched(batch, Settings().era) for batch in log.batches))
    segment = segments.read(path)
    assert segment.damage is None
    rows = segment.table().to_pylist()
    own = [
        row for row in tables([[disk]], Settings(), "4.3")["batches"].to_pylist() if row["topic"] == TP.topic
    ]
    assert [[row[name] for name in SAME] for row in rows] == [[row[name] for name in SAME] for row in own]


def test_of_a_compressed_batch_no_value_is_read(log: UnifiedLog) -> None:
    for batch in log.batches:
        codec = getattr(batch.records, "compression", None)
        if codec:
            with pytest.raises(CorruptBatch, match="are not read"):
                list(batch.records)
        else:
            assert batch.records[0] == b"none" * 20
