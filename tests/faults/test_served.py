"""A run on the model's brokers behind Kafka's protocol, from the command line to the verdict."""

from pathlib import Path

import pytest

from history.events import EvidenceTaken
from history.reader import read_events
from tests.faults.command import arguments, inquest, the_run, verdict

pytestmark = pytest.mark.faults


@pytest.mark.parametrize(("bug", "expected"), [("", set()), ("lso-ignores-open", {"aborted-read"})])
@pytest.mark.sampled(48)
def test_a_planted_bug_is_found_through_librdkafka(tmp_path: Path, bug: str, expected: set[str]) -> None:
    words = ["--sut", "model", "--workload", "transactions", "--set", "abort_share=0.3"]
    words += ["--nemesis", "kill:one@leader", "--duration", "4"] if not bug else ["--set", f"mutant={bug}"]
    words += ["--set", "verb_deadline_s=10", "--set", "transaction_timeout_s=10"]
    ended = inquest(*arguments(tmp_path, *words), module="inquest")
    assert ended.code == (1 if bug else 0), ended
    run = the_run(tmp_path)
    assert run is not None
    forbidden = {name for name, found in verdict(run)["anomalies"].items() if not found["allowed"]}
    assert expected <= forbidden
    assert bug or not forbidden
    assert (run.evidence / "batches.parquet").exists()
    (taken,) = (event for event in read_events(run) if isinstance(event, EvidenceTaken))
    assert set(taken.tables) == {path.stem for path in run.evidence.iterdir()}
    assert "listens for clients" in (run.cluster / "1" / "server.log").read_text()
    assert not run.copies.exists()
