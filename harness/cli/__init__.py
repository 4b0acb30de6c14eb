"""The command `inquest`.

again      Recorded runs once more: replay, shrink.
catalogue  The registries in words: the lists of `inquest list`, one line for each entry,
           and the generated parts of docs/ (the catalogue, JSON Schemas from the types, the
           model's tables from its scenarios).
contract   The model against a real broker, by scenarios and random requests.
demo       `inquest demo`: a loss found and explained, without Docker and Kafka.
doctor     The prerequisites of a run: `doctor` checks them, `setup` prepares them.
endings    How a command ends: an exit code, and of an error one line.
explore    `inquest model explore`: many seeds of simulated runs.
last_lines  What a command that judged a run prints last: result, first witness, commands to paste.
main       Run, soak, check, report, serve, list, spark-package, doctor, setup.
mechanisms  docs/mechanisms.md: each mechanism of Kafka, its tables in the model, and what shows it
           on real brokers.
recordings  `inquest recording import` and `export`: recordings of other programs in, portable
           histories out.
reproduce  Known bugs of Kafka on real brokers, by scripted schedules.
settings   Settings on the command line: `--set name=value`, and those of an application or a cluster
           of the user's.
spark_cluster  A small Spark cluster on this machine, from the pyspark package (`make spark-cluster`).
tables     `inquest sql`: questions about recorded runs, over one or over a year of nights.
verdict    From a run folder to verdict, report and exit code.
"""
