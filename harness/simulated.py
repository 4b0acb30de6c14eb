"""A simulated run as a run folder: the same files that a run of real Kafka leaves.

Besides them `trace.jsonl`: messages and states of the nodes, which no real cluster would tell.

Not here: simulating (`harness.simulate`), what every run does (`harness.run`).
"""

import hashlib
from collections.abc import Sequence
from itertools import takewhile

import msgspec

import nemesis as nemeses
from harness import events as ev
from harness import journal as j
from harness import trace as tr
from harness.config import ConfigError, RunConfig
from harness.simulate import Simulated, simulate
from harness.simulation.cluster import SimulatedCluster
from harness.simulation.scheduler import Scheduler
from harness.store import Run, write_atomically
from model.eras import ERAS
from model.mutants import MUTANTS

SIMULATED = "simulated"
"""Name of this system under test."""


def check(config: RunConfig, steps: Sequence[nemeses.Step]) -> None:
    """Refuse what the simulation cannot do, or what only it can. Raises: ConfigError."""
    if config.sut != SIMULATED:
        if config.mutant or config.era != RunConfig.model_fields["era"].default:
            raise ConfigError(f"era and mutant are settings of sut={SIMULATED}")
        return
    if config.era not in ERAS:
        raise ConfigError(f"unknown era {config.era!r}; known: {', '.join(ERAS)}")
    if config.mutant and config.mutant not in MUTANTS:
        raise ConfigError(f"unknown mutant {config.mutant!r}; known: {', '.join(MUTANTS)}")
    if lacking := nemeses.missing(steps, SimulatedCluster(config, Scheduler())):
        raise ConfigError(f"nemesis {config.nemesis!r} needs a system that is {', '.join(lacking)}")


def run_id(config: RunConfig, steps: Sequence[nemeses.Step]) -> str:
    """The same for the same config and schedule: such runs are the same to the byte."""
    hashed = hashlib.sha256(config.model_dump_json().encode() + encoded(steps))
    return f"simulated-{hashed.hexdigest()[:12]}"


def encoded(steps: Sequence[nemeses.Step]) -> bytes:
    """Steps as `schedule.jsonl` has them."""
    return b"".join(msgspec.json.encode(step) + b"\n" for step in steps)


def schedule(run: Run) -> tuple[nemeses.Step, ...]:
    """The steps of a recorded run. Raises: OSError, ValueError."""
    lines = run.schedule.read_bytes().splitlines()
    return tuple(msgspec.json.decode(line, type=nemeses.Step) for line in lines)


def record(config: RunConfig, steps: Sequence[nemeses.Step], run: Run) -> Simulated:
    """Simulate and write journals, events, schedule and trace into a new run folder. Raises: OSError."""
    write_atomically(run.schedule, encoded(steps))
    done = simulate(config, run=run_id(config, steps), steps=steps, trace=True)
    for name, lines in done.journals:
        journal = j.Journal(run.journal / f"{name}.jsonl", _header(lines))
        for line in lines[1:]:
            journal.write(line)
        journal.close()
    write_atomically(run.events, b"".join(ev.encode(event) for event in done.events))
    if done.trace is not None:
        write_atomically(run.trace, tr.encode(done.trace))
    return done


def differences(
    run: Run, config: RunConfig, steps: Sequence[nemeses.Step]
) -> tuple[list[str], int]:
    """Where the journals of a recorded run are not what the simulation makes now, one line each, and how
    many lines it makes in all."""
    done = simulate(config, run=run_id(config, steps), steps=steps)
    made = {f"{name}.jsonl": j.encoded(lines) for name, lines in done.journals}
    there = {path.name: path.read_bytes() for path in run.journal.glob("*.jsonl")}
    found = [f"journal {name} is missing" for name in sorted(made.keys() - there.keys())]
    found += [f"journal {name} is not of this run" for name in sorted(there.keys() - made.keys())]
    for name in sorted(made.keys() & there.keys()):
        if made[name] != there[name]:
            pairs = zip(made[name].splitlines(), there[name].splitlines(), strict=False)
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            found.append(f"journal {name} is another one from line {same + 1} on")
    return found, sum(len(lines) for _, lines in done.journals)


def _header(lines: Sequence[j.Line]) -> j.Opened:
    header = lines[0]
    assert isinstance(header, j.Opened)
    return header
