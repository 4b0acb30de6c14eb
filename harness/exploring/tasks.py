"""Batches of trials: what one Spark task, or this process, does at a time.

Not here: which batches there are (`hunt`), one run (`trial`).
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from harness.config import RunConfig
from harness.exploring.profile import clean, hunting, without_mutant
from harness.exploring.trial import Trial, trial
from model.mutants import MUTANTS


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Seeds `begin` to `begin` + `count` - 1 without a bug; or, of a mutant, its runs with these numbers
    from `first` on, up to the first find."""

    mutant: str = ""
    begin: int
    count: int
    first: int = 0
    era: str


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a batch. trials: clean seeds that are not; of a mutant, the find. runs, simulated_s: of
    all, without the clean twins of finds. broke: runs of a mutant in which an invariant did not hold, or that
    crashed."""

    batch: Batch
    trials: tuple[Trial, ...] = ()
    runs: int = 0
    simulated_s: float = 0.0
    broke: int = 0
    found: str = ""


Runner = Callable[[Sequence[Batch]], list[Done]]


def run(batch: Batch) -> Done:
    """Make its runs."""
    return _hunt(batch) if batch.mutant else _clean(batch)


def _clean(batch: Batch) -> Done:
    trials = [trial(clean(batch.begin + n, batch.era)) for n in range(batch.count)]
    return Done(
        batch=batch,
        trials=tuple(one for one in trials if one.failures),
        runs=len(trials),
        simulated_s=round(sum(one.simulated_s for one in trials), 3),
    )


def _hunt(batch: Batch) -> Done:
    simulated, broke = 0.0, 0
    for number in range(batch.begin, batch.begin + batch.count):
        config = hunting(batch.mutant, number, batch.first, batch.era)
        one = trial(config, invariants=False)
        simulated = round(simulated + one.simulated_s, 3)
        broke += bool(one.broken or one.crashed)
        found = face(batch.mutant, one)
        if found and not _without(config, found):
            return Done(
                batch=batch, trials=(one,), runs=number - batch.begin + 1, simulated_s=simulated,
                broke=broke, found=found,
            )  # fmt: skip
    return Done(batch=batch, runs=batch.count, simulated_s=simulated, broke=broke)


def _without(config: RunConfig, found: str) -> bool:
    """Whether the run shows this class without its planted bug too, or may: eras have bugs of their own."""
    twin = trial(without_mutant(config), invariants=False)
    return found in twin.anomalies or bool(twin.crashed or twin.unknown)


def face(mutant: str, one: Trial) -> str:
    """The mutant's class that the run shows, the principal one if it is among them; "" = none."""
    return next((name for name in MUTANTS[mutant].anomalies if name in one.anomalies), "")


def in_process(batches: Sequence[Batch]) -> list[Done]:
    """Runner without Spark."""
    return [run(batch) for batch in batches]


def spark_runner(session: Any) -> Runner:
    """Runner on a Spark session: one task a batch."""

    def submit(batches: Sequence[Batch]) -> list[Done]:
        numbered = session.range(0, len(batches), 1, len(batches))
        mapped = numbered.mapInArrow(
            _Mapper(tuple(map(msgspec.json.encode, batches))), "done binary"
        )
        done = [_decoder().decode(bytes(payload)) for (payload,) in mapped.collect()]
        order = {batch: at for at, batch in enumerate(batches)}
        return sorted(done, key=lambda one: order[one.batch])

    return submit


@functools.cache
def _decoder() -> "msgspec.json.Decoder[Done]":
    return msgspec.json.Decoder(Done)


class _Mapper:
    """Numbers of batches -> what came of them, encoded."""

    def __init__(self, batches: tuple[bytes, ...]) -> None:
        self._batches = batches

    def __call__(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for column in numbers:
            for number in column.column(0).to_pylist():
                done = run(msgspec.json.decode(self._batches[number], type=Batch))
                yield _row(msgspec.json.encode(done))


def _row(payload: bytes) -> pa.RecordBatch:
    """One answer. From buffers: `pa.array` would import pandas into every worker."""
    ends = np.array([0, len(payload)], np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(payload)]
    return pa.RecordBatch.from_arrays(
        [pa.Array.from_buffers(pa.binary(), 1, buffers)], names=["done"]
    )
