"""`python -m tests.faults.held`: the command `inquest`, with what a run on model brokers needs imported.

It makes a file `held` in the folder that the environment names, and begins when a file `go` is there.
"""

import os
import time
from pathlib import Path

from harness.cli.main import main

if __name__ == "__main__":
    folder = Path(os.environ["HELD"])
    (folder / "held").touch()
    while not (folder / "go").exists():
        time.sleep(0.01)
    main()
