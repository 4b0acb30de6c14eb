"""A simulated run as a run folder: the files of a real run, its evidence too, and `trace.jsonl`, the messages
and states of the nodes, which no real cluster tells. Of the brokers' server logs only what a check reads is
there. Also: the simulated cluster as a system under test.
"""

import hashlib
from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from core.config import RunConfig
from core.systems import SimulatedSection
from harness.modelled.shared.base_time import BASE_NS
from harness.modelled.shared.server_log import text
from harness.modelled.shared.settings import refused_settings, share_groups
from harness.modelled.virtual.cluster import capabilities
from harness.modelled.virtual.evidence import tables_of_run
from harness.modelled.virtual.frames import frames
from harness.modelled.virtual.run import Simulated, simulate
from harness.run.backend import Backend
from harness.run.planning import RunPlan
from harness.run.progress import Display, SimulatedStatus
from history import evidence, jsonl
from history import journal as j
from history import trace as tr
from history.broker_logs import write_virtual
from history.run_folder import Run, write_atomically
from history.seal import journals_listed, seal
from nemesis.types import PlannedFault


def run_id(config: RunConfig, steps: Sequence[PlannedFault]) -> str:
    """The same for the same config and schedule: such runs are the same to the byte."""
    hashed = hashlib.sha256(config.model_dump_json().encode() + jsonl.encode(steps))
    return f"simulated-{hashed.hexdigest()[:12]}"


def record(
    config: RunConfig, steps: Sequence[PlannedFault], run: Run, display: Display | None = None
) -> Simulated:
    """Simulate and write schedule, journals, evidence, trace and, last, events into a new run folder.
    display: shows how far it is.

    Raises: OSError.
    """
    write_atomically(run.schedule, jsonl.encode(steps))
    done = simulate(config, run=run_id(config, steps), steps=steps, trace=True, display=display)
    for name, (header, *lines) in done.journals:
        assert isinstance(header, j.JournalHeader)
        journal = j.Journal(run.journal / f"{name}.jsonl", header)
        for line in lines:
            journal.write(line)
        journal.close()
    for me, node in sorted(done.cluster.sim.items()):
        told = node.durable.server_log
        write_virtual(run, me, [(BASE_NS + line.ms * 1_000_000, text(line)) for line in told])
    seen = frames(done.cluster.network.messages or ()) if config.capture else {}
    evidence.write(run.evidence, tables_of_run(done.cluster) | seen)
    if done.trace is not None:
        write_atomically(run.trace, tr.encode(done.trace))
    ns = done.events[-1].ns
    listed = [journals_listed(run, ns), *evidence.evidence_taken(run.evidence, ns)]
    write_atomically(run.events, jsonl.encode([*done.events, *listed]))  # last: without, it is not recorded
    return done


def differences(run: Run, config: RunConfig, steps: Sequence[PlannedFault]) -> tuple[list[str], int]:
    """Where the journals of a recorded run are not what the simulation makes now, one line each, and how
    many lines it makes in all."""
    done = simulate(config, run=run_id(config, steps), steps=steps)
    made = {f"{name}.jsonl": jsonl.encode(lines) for name, lines in done.journals}
    there = {path.name: path.read_bytes() for path in run.journal.glob("*.jsonl")}
    found = [f"journal {name} is missing" for name in sorted(made.keys() - there.keys())]
    found += [f"journal {name} is not of this run" for name in sorted(there.keys() - made.keys())]
    for name in sorted(made.keys() & there.keys()):
        if made[name] != there[name]:
            pairs = zip(made[name].splitlines(), there[name].splitlines(), strict=False)
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            found.append(f"journal {name} is another one from line {same + 1} on")
    return found, sum(len(lines) for _, lines in done.journals)


def refusal(config: RunConfig) -> str:
    """Which setting the simulation cannot honour, "" = it honours all."""
    its = config.section(SimulatedSection)
    return refused_settings(config, its.era, its.mutant)


def _share_groups(config: RunConfig) -> str:
    return share_groups(config, config.section(SimulatedSection).era)


def _record(plan: RunPlan, run: Run, display: Display) -> None:
    done = record(plan.config, plan.steps, run, SimulatedStatus(display))
    seal(run)
    display.say(f"{done.simulated_s:.1f} s simulated")
    for one in done.broken:
        display.say(f"the model broke an invariant: {one.name}: {one.text}")
    for weak in done.weak:
        display.say(f"known weakness {weak.name}: {weak.text}")


SIMULATED: Final = Backend(
    record=_record, capabilities=capabilities, refusal=refusal, share_groups=_share_groups
)
