"""The era of a cluster, by the features in its metadata log."""

from dataclasses import replace

import pytest

from checkers.logs.cluster_era import era_of
from harness.modelled.shared.metadata_log import LEVELS
from history.evidence import Evidence
from model.eras import ERAS, Era
from tests.checkers.logs.made import tables


@pytest.mark.parametrize(
    ("features", "era"),
    [
        ([], None),
        ([("metadata.version", LEVELS["4.2"]), ("transaction.version", 2)], ERAS["4.2"]),
        (
            [("metadata.version", LEVELS["4.2"]), ("transaction.version", 1)],
            replace(ERAS["4.2"], server_transaction_version=1),
        ),
        (  # upgraded: the features of the later version were raised under load
            [
                ("metadata.version", LEVELS["3.9"]),
                ("metadata.version", LEVELS["4.3"]),
                ("transaction.version", 2),
            ],
            ERAS["3.9"],
        ),
        (
            [
                ("metadata.version", LEVELS["4.1"]),
                ("transaction.version", 2),
                ("metadata.version", LEVELS["4.3"]),
            ],
            ERAS["4.1"],
        ),
    ],
)
def test_the_oldest_features_name_the_era(features: list[tuple[str, int]], era: Era | None) -> None:
    rows = [
        {"take": 1, "node": 1, "name": "FeatureLevelRecord", "feature": feature, "level": level, "offset": at}
        for at, (feature, level) in enumerate(features)
    ]
    assert era_of(Evidence(tables({"metadata": rows}))) == era
