"""What the rules about logs find in simulated runs, without clients: `python -m benchmarks.log_power`.

    python -m benchmarks.log_power                   # all planted bugs that leave a trace
    python -m benchmarks.log_power hw-is-leader-end …
    python -m benchmarks.log_power --clean 300       # seeds without planted bugs

A bug is tried in the run that shows it to the checks of histories, then in its first others, then in all of
these with settings by which logs tell more (`TELLING`). A clean run may break rules only where a known
weakness of Kafka did harm.
"""

import argparse
from collections import Counter

from harness.explore.profile import MODERN, clean, hunted
from model.mutants.registry import MUTANTS
from tests.harness.explore.judged_logs import Verdict, first_found, judged
from tests.histories.stored import pins


def mutants(names: list[str], most: int) -> None:
    """Print the rules that find each of these bugs. most: runs of each."""
    known = pins()
    count = 0
    for name in names:
        numbers = [number for number, _ in zip(known[name].numbers(), range(most), strict=False)]
        tried, rules = first_found(name, numbers)
        count += bool(rules)
        told = ", ".join(f"{rule} ({times})" for rule, times in rules.items())
        print(f"{name:34} {tried:3} runs  {told or 'not found'}", flush=True)
    print(f"{count} of {len(names)} found")


def seeds(first: int, number: int, era: str) -> None:
    """Print the seeds without planted bugs in which a rule is broken or unknown."""
    broken, asked, doubts = 0, Counter[str](), Counter[str]()
    for seed in range(first, first + number):
        verdict = judged(clean(seed, era), weaknesses=True)
        asked.update(verdict.tally.asked)
        doubts.update({doubt.check for doubt in verdict.tally.doubts})
        if verdict.broken:
            broken += not verdict.weak
            print(f"seed {seed}: {_told(verdict)}", flush=True)
    print(f"{number} seeds, {broken} with findings that no known weakness explains")
    print("asked: " + ", ".join(f"{rule} {times}" for rule, times in sorted(asked.items())))
    print("seeds with doubts: " + ", ".join(f"{rule} {times}" for rule, times in sorted(doubts.items())))


def _told(verdict: Verdict) -> str:
    shown = [f"{one.check}: {one.log} at {one.offset}: {one.text}" for one in verdict.tally.in_logs[:3]]
    return f"{verdict.broken}, known weaknesses {dict(verdict.weak)}: " + " | ".join(shown)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="planted bugs")
    parser.add_argument("--runs", type=int, default=10, help="of each planted bug, at most")
    parser.add_argument("--clean", type=int, default=0, help="number of seeds without planted bugs")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--era", default=MODERN)
    given = parser.parse_args()
    if given.clean:
        seeds(given.first, given.clean, given.era)
    else:
        mutants(given.names or [name for name in hunted() if not MUTANTS[name].no_trace], given.runs)


if __name__ == "__main__":
    main()
