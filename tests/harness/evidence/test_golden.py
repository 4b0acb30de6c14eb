"""Files of real brokers, read as Kafka's own DumpLogSegments reads them."""

import pytest

from tests.harness.evidence.dumped import Comparison, compare, sections
from tests.histories.broker_files import GOLDEN, dump

VERSIONS = sorted(path.name for path in GOLDEN.iterdir())


@pytest.mark.parametrize("version", VERSIONS)
def test_every_field_is_the_one_that_kafka_reads(version: str) -> None:
    found = Comparison()
    for name, lines in sections(dump(version)):
        compare(GOLDEN / version / name, lines, found)
    assert found.differences == []
    assert found.files == sum(
        1 for path in (GOLDEN / version).glob("*/*") if path.suffix in (".log", ".snapshot", ".txnindex")
    )
    assert found.fields > 500


@pytest.mark.parametrize(
    ("said", "other"),
    [
        ("crc: 244914560", "crc: 244914561"),
        ("endTxnMarker: ABORT", "endTxnMarker: COMMIT"),
        ("lastStableOffset: 8", "lastStableOffset: 9"),
        ("firstSequence: 4 lastSequence: 4", "firstSequence: 4 lastSequence: 5"),
        ('"transactionStatus":2', '"transactionStatus":3'),
        ('"transactionalId":"tx-2"', '"transactionalId":"tx-9"'),
        ('"commitTimestamp":1795375566544', '"commitTimestamp":1795375566545'),
        ('"assignmentEpochs":[2,2]', '"assignmentEpochs":[2,3]'),
        ('"type":"CLEAR_ELR_RECORD"', '"type":"TOPIC_RECORD"'),
        ('"isr":[', '"isr":[7,'),
        ('"leader":2,', ""),
    ],
)
def test_the_comparison_sees_a_difference(said: str, other: str) -> None:
    text = dump("4.3.1")
    assert said in text
    found = Comparison()
    for name, lines in sections(text.replace(said, other)):
        compare(GOLDEN / "4.3.1" / name, lines, found)
    assert found.differences
