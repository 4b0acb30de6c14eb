"""`python -m tests.memory …`: the command `inquest` with the in-memory cluster as system `memory`."""

from harness import cli, run
from harness.soak import launch

run.SYSTEMS["memory"] = "tests.memory.cluster:MemoryCluster"
launch.COMMAND[1:] = ["-m", "tests.memory"]

if __name__ == "__main__":
    cli.main()
