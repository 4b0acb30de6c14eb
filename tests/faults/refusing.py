"""`python -m tests.faults.refusing …`: `inquest` with a system `refusing`, the in-memory cluster whose
clients are librdkafka's: good enough to find out which settings librdkafka refuses."""

from dataclasses import replace

from core.cluster import Endpoint
from harness.cli import main
from harness.clients.librdkafka.settings import LIBRDKAFKA
from harness.systems import SYSTEMS, System
from tests.memory.cluster import MemoryCluster

UNTRIED = replace(LIBRDKAFKA, honoured=None, trial=None)
"""The clients of the run are the first that see the settings."""


class RefusingCluster(MemoryCluster):
    def endpoint(self) -> Endpoint:
        bootstrap = {"bootstrap.servers": "127.0.0.1:1"}
        return Endpoint(factory="harness.clients.librdkafka.session:connect", args=bootstrap)


if __name__ == "__main__":
    SYSTEMS["refusing"] = System(
        doc="refuses settings",
        cluster="tests.faults.refusing:RefusingCluster",
        title=lambda _: "refusing",
        clients="tests.faults.refusing:UNTRIED",
    )
    main.main()
