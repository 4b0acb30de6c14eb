"""Exploration: many short simulated runs, without bugs and with planted ones.

profile   from a seed to the config of a run; from a mutant and a number to one where it may show
trial     one run: simulated, checked, judged
tasks     batches of trials: what a Spark task does
hunt      all of them: rounds of tasks, until every mutant is found or its seeds are used up
outcome   what came of it, as a table and as JSON

Not here: the command (`harness.cli`), the mutants (`model.mutants`), the simulation (`harness.simulate`).
"""
