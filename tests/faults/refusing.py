"""`python -m tests.faults.refusing …`: `inquest` with a system `refusing`, the in-memory cluster whose
clients are librdkafka's: good enough to find out which settings librdkafka refuses."""

from harness import cli, run
from harness.cluster import Endpoint
from tests.memory.cluster import MemoryCluster


class RefusingCluster(MemoryCluster):
    def endpoint(self) -> Endpoint:
        bootstrap = {"bootstrap": "127.0.0.1:1"}
        return Endpoint(factory="harness.cluster.session:connect", args=bootstrap)


if __name__ == "__main__":
    run.SYSTEMS["refusing"] = "tests.faults.refusing:RefusingCluster"
    cli.main()
