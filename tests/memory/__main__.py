"""`python -m tests.memory …`: the command `inquest` with the in-memory cluster as system `memory`."""

from harness import cli, run

run.SYSTEMS["memory"] = "tests.memory.cluster:MemoryCluster"

if __name__ == "__main__":
    cli.main()
