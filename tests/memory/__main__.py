"""`python -m tests.memory …`: the command `inquest` with the in-memory cluster as system `memory`."""

from harness import cli, run
from harness.soak import choice, launch

run.SYSTEMS["memory"] = "tests.memory.cluster:MemoryCluster"
launch.COMMAND[1:] = ["-m", "tests.memory"]
choice.OVERHEAD_S = 5.0  # there are no containers to start

if __name__ == "__main__":
    cli.main()
