"""Messages and states around the findings of a simulated run: what the section of the report shows.

Not here: steps (`steps`), drawings (`spacetime`), what a scene is about (`subjects`), markup.
"""

import itertools
from dataclasses import dataclass

from harness import trace as tr
from harness.report import choice, choosing, spacetime, steps, subjects
from harness.report.inputs import Inputs
from harness.report.steps import Step, Subject

SCENES_MAX = 6
STEPS_MAX, ARROWS_MAX = 40, 100
SMALL_STEPS_MAX, SMALL_ARROWS_MAX = 16, 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One finding, or the first fault. key: class and position of the example, None = the fault. title,
    told: what is shown, in words. nodes: the partition's replicas. left_out: steps that are not shown; gaps:
    how many of them before each that is."""

    key: choice.Key | None
    title: str
    told: str
    subject: Subject
    nodes: list[int]
    steps: list[Step]
    left_out: int
    gaps: list[int]
    diagram: spacetime.Diagram
    arrows_left_out: int
    start_ns: int

    def seconds(self, ns: int) -> float:
        """Seconds since the start of the run."""
        return (ns - self.start_ns) / 1e9


def build(inputs: Inputs) -> list[Scene]:
    """The scenes of a run: the first forbidden finding of each class, or the first fault. None where there is
    no trace."""
    trace, verdict = inputs.trace, inputs.verdict
    if trace is None:
        return []
    found: list[Scene] = []
    told_of: set[str] = set()
    for key, example in choice.in_turn(verdict):
        if not example.allowed and key[0] not in told_of and len(found) < SCENES_MAX:
            told_of.add(key[0])
            subject = subjects.of_example(inputs, trace, example)
            if subject.names:
                found.append(
                    _scene(inputs, trace, key, example.sentence, subject, STEPS_MAX, ARROWS_MAX)
                )
    if not told_of and verdict.faults:
        fault = min(verdict.faults, key=lambda fault: (fault.begin_s, fault.fault))
        subject = subjects.of_fault(inputs, trace, fault)
        told = f"Nothing forbidden was found. What the first fault, {fault.name}, did to {subject.partition}:"
        found.append(_scene(inputs, trace, None, told, subject, SMALL_STEPS_MAX, SMALL_ARROWS_MAX))
    return found


def _scene(
    inputs: Inputs,
    trace: tr.Trace,
    key: choice.Key | None,
    told: str,
    subject: Subject,
    most_steps: int,
    most_arrows: int,
) -> Scene:
    everything = steps.steps(trace, subject)
    moments = steps.moments(everything, subject)
    shown = steps.chosen(everything, subject, most_steps)
    messages = choosing.choose(trace, subject, shown, moments, most_arrows)
    places = [number for number, step in enumerate(everything) if step in shown]
    nodes = sorted({node for step in shown for node in step.replicas})
    return Scene(
        key=key,
        title=inputs.verdict.anomalies[key[0]].title if key else "First fault",
        told=told,
        subject=subject,
        nodes=nodes,
        steps=shown,
        left_out=len(everything) - len(shown),
        gaps=[after - before - 1 for before, after in itertools.pairwise([-1, *places])],
        diagram=spacetime.draw(trace, messages, shown, inputs.verdict.faults, inputs.start_ns),
        arrows_left_out=messages.left_out,
        start_ns=inputs.start_ns,
    )
