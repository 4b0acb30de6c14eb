"""`python -m tests.memory …`: the command `inquest` with the cluster in memory as system `memory`."""

from core.systems import SYSTEMS
from harness.cli import main
from harness.soak import runs, scheduler
from tests.memory.system import MEMORY

SYSTEMS["memory"] = MEMORY
runs.COMMAND[1:] = ["-m", "tests.memory"]
scheduler.OVERHEAD_S = 5.0  # there are no containers to start

if __name__ == "__main__":
    main.main()
