"""Simulated runs in which topics get further partitions."""

from typing import Any

import pytest

from checkers.engine.check import Tally
from core.config import run_config
from core.op import AssignmentKind
from harness.explore.profile import BASE
from harness.explore.trial import checked, counted, findings
from harness.modelled.virtual.run import Simulated, simulate
from history.journal_rows import rows_of
from model.errors import NO_ERROR
from model.kraft.quorum_controller import QuorumController
from model.metadata.replica_placer import assign
from model.protocol.messages import CreatePartitions
from model.protocol.requests import ErrorResponse


def run(**settings: Any) -> tuple[Simulated, Tally]:
    done = simulate(run_config({**BASE, "nemesis": "add-partitions", "seed": 1, "duration_s": 5, **settings}))
    tally = checked(done, logs=True)
    assert not tally.crashed
    return done, tally


@pytest.mark.sampled(10)
@pytest.mark.parametrize("workload", ["queue", "groups", "copier", "transactions", "sink"])
def test_new_partitions_are_filled_and_read_and_nothing_is_wrong(workload: str) -> None:
    done, tally = run(workload=workload)
    assert counted(findings(done, tally)) == {}
    assert not tally.refused
    assert not tally.doubts
    tables = rows_of(done.journals).tables()
    new = {row["tp"] for row in tables["tps"].to_pylist() if row["partition"] >= BASE["partitions"]}
    for name in ("sends", "reads"):
        assert {row["tp"] for row in tables[name].to_pylist()} >= new
    assert new
    if workload in ("groups", "copier", "sink"):
        given = [r for r in tables["assignments"].to_pylist() if r["kind"] == AssignmentKind.ASSIGNED]
        assert new & {row["tp"] for row in given}


def test_partitions_that_are_made_anew_with_the_new_ones_lose_their_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A planted bug: the controller places the old partitions again, too."""

    def anew(self: QuorumController, request: CreatePartitions) -> ErrorResponse:
        made = assign(sorted(self.image.electable())[::-1], partitions=request.count, replication=1, start=1)
        self._make(request.topic, dict(enumerate(made)))
        return ErrorResponse(NO_ERROR)

    monkeypatch.setattr(QuorumController, "_add_partitions", anew)
    settings: dict[str, Any] = {"replication_factor": 1, "min_insync_replicas": 1}
    done, tally = run(**settings)
    assert "lost-write" in counted(findings(done, tally))
