"""`python -m tests.faults.held`: the command `inquest`, which imports what a run on the model's brokers needs,
says so by a file `held`, and begins when the file `go` is there. The environment names their folder."""

import os
import time
from pathlib import Path

import harness.compose
import harness.run.planning
import harness.served.cluster  # noqa: F401
from harness.cli.main import main

if __name__ == "__main__":
    folder = Path(os.environ["HELD"])
    (folder / "held").touch()
    while not (folder / "go").exists():
        time.sleep(0.01)
    main()
