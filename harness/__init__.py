"""The harness: everything that makes, records, checks and reports one run.

Map of the package (the layers are enforced by import-linter, see pyproject.toml):

op        what can be asked of a client and what can come of it
config    everything that defines a run, seed included; presets
store     the paths of a run folder
session   the seam to a system under test: the verbs of one client
generator pure schedules of ops, derived seeds
history   journal format and the schemas of the sealed tables
client    the one client loop: op -> verbs -> outcome, journaled
cluster   systems under test: protocols, and Kafka in containers
interpreter  phases, workers, nemesis; the only writer of a run folder while it runs
run       composition root: config -> cluster, workers, nemesis -> sealed run
report    files in, one HTML file out
cli       the command `inquest`

Nothing is re-exported here: importing `harness` imports nothing else.
"""
