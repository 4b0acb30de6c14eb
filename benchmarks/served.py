"""How much of the time under faults had acknowledgements, in recorded runs.

    python -m benchmarks.served RUN_FOLDER …

Printed for each run: records acknowledged in the phase of faults; the served share (docs/checks.md,
"Liveness") of the time in which a fault was in force, of the phase of faults, and of each fault. It reads
the history alone, so folders of earlier versions give figures that compare.
"""

import argparse
from pathlib import Path

import numpy as np

from checkers.faults.availability import served_share
from core.op import Phase
from history.columns import Array
from history.events import FaultHealed, FaultStarted, PhaseStarted
from history.reader import History, load
from history.run_folder import Run
from history.unit_files import read_columns


def acknowledged(history: History) -> Array:
    """When each record was acknowledged, sorted; ns."""
    rows = [read_columns(history.run, "sends", unit.name, ("ack_ns",)) for unit in history.names.units]
    found = np.concatenate([np.zeros(0, np.int64), *(each["ack_ns"] for each in rows)])
    return np.sort(found[found >= 0])


def told(history: History) -> str:
    """One line of figures."""
    began = {e.phase: e.ns for e in reversed(history.events) if isinstance(e, PhaseStarted)}
    begin, acked = began[Phase.FAULTS], acknowledged(history)
    end = min((ns for phase, ns in began.items() if phase > Phase.FAULTS), default=history.events[-1].ns)
    healed = {e.fault: e.ns for e in history.events if isinstance(e, FaultHealed)}
    started = [event for event in history.events if isinstance(event, FaultStarted)]
    spans = [(event.begin_ns, healed.get(event.fault, end)) for event in started]
    each = " ".join(percent(served_share(acked, [span])) for span in spans)
    many = int(((acked >= begin) & (acked < end)).sum())
    under, phase = served_share(acked, spans), served_share(acked, [(begin, end)])
    shares = f"under faults {percent(under)}, phase {percent(phase)}, {len(spans)} faults: {each}"
    return f"{history.run.name}: {many} records acknowledged; {shares}"


def percent(share: float | None) -> str:
    """A share for people."""
    return "–" if share is None else f"{100 * share:.0f} %"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path)
    for folder in parser.parse_args().runs:
        print(told(load(Run(folder))))


if __name__ == "__main__":
    main()
