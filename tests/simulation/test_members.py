"""Members of groups in simulated runs: what is on record of their assignments."""

from harness import journal as j
from harness.exploring.profile import clean
from harness.op import AssignmentKind, CommitKind
from harness.simulate import simulate

SEED = 5
"""Several groups under a nemesis: members poll now and then, and are told of assignments between polls."""


def test_an_assignment_is_older_than_the_question_for_committed_offsets() -> None:
    """A commit that is complete before an assignment has to count for it (docs/checks.md, group-duplicate).
    So its time is when the member was told, not when the application polled."""
    config = clean(SEED)
    assert config.workload == "groups"
    asked = 0
    for _, lines in simulate(config, invariants=False).journals:
        told = -1
        for line in lines:
            if isinstance(line, j.AssignmentChanged) and line.kind is AssignmentKind.ASSIGNED:
                told = line.ns
            if isinstance(line, j.OffsetsCommitted) and line.kind is CommitKind.FETCHED:
                asked += 1
                assert 0 <= told <= line.begin_ns
    assert asked >= 5
