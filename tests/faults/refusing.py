"""`python -m tests.faults.refusing …`: `inquest` with a system `refusing`, the cluster in memory whose
clients are librdkafka's: good enough to find out which settings librdkafka refuses."""

from dataclasses import replace
from typing import Any

from core.capabilities import capabilities_of
from core.cluster import Endpoint
from core.systems import SYSTEMS, System
from harness.cli import main
from harness.clients.librdkafka.settings import LIBRDKAFKA
from harness.clients.registry import CLIENTS
from harness.run.backend import Backend
from tests.memory.cluster import MemoryCluster

UNTRIED = replace(LIBRDKAFKA, honoured=None, trial=None)
"""The clients of the run are the first that see the settings."""
KIND = replace(CLIENTS["librdkafka"], library="tests.faults.refusing:UNTRIED")


class RefusingCluster(MemoryCluster):
    def endpoint(self) -> Endpoint:
        bootstrap = {"bootstrap.servers": "127.0.0.1:1"}
        return Endpoint(args=bootstrap)


REFUSING: Any = RefusingCluster
BACKEND = Backend(cluster=REFUSING, capabilities=lambda _: capabilities_of(REFUSING))

if __name__ == "__main__":
    CLIENTS["untried"] = KIND
    SYSTEMS["refusing"] = System(
        doc="refuses settings",
        title=lambda _: "refusing",
        backend="tests.faults.refusing:BACKEND",
        clients="untried",
    )
    main.main()
