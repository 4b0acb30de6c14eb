"""Arrow arrays that are made without pandas hold what `pyarrow.array` makes of the same values."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from history.columns import arrow_array


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([], pa.string()),
        (["", "größer", "x"], pa.string()),
        ([True, False] * 9, pa.bool_()),
        ([-1, 2**31 - 1], pa.int32()),
        ([-(2**63), 5], pa.int64()),
        ([(), (1, 2), (3,)], pa.list_(pa.int32())),
        ([(), ()], pa.list_(pa.int64())),
        ([], pa.bool_()),
        ([b"", b"\x00\xff"], pa.binary()),
        (np.arange(9, dtype=np.int16)[::2], pa.int16()),
        (np.array([1, 0, 1], np.int8), pa.bool_()),
    ],
)
def test_values_come_back(values: list[Any], kind: pa.DataType) -> None:
    made = arrow_array(values, kind)
    made.validate(full=True)
    assert made.equals(pa.array(list(map(bool, values)) if pa.types.is_boolean(kind) else values, kind))
