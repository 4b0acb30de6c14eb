"""Everything that makes, records and shows runs. Nothing below imports it.

cli         The command `inquest`.
brokers     What the harness asks of any brokers behind Kafka's protocol, and what it puts in front of them.
clients     Load clients: one client loop, and the processes that run it.
compose     Composition root: a config → a recorded run folder.
containers  Docker: clusters in containers, engine, images, nodes, network faults, cleaning up.
contract    The model against a real broker, by scenarios and random requests.
evidence    What the brokers of a real run left on disk, as Arrow tables.
explore     Many short simulated runs, with and without planted bugs; shrinking a run.
judging     A process that judges recorded runs, with a Spark session that is warm before the first one.
kafka       The system `kafka`: real brokers in containers.
modelled    Kafka's reference model as a cluster, in virtual time and in real time.
nights      The sessions of a results folder: their logs, and the index, which shows what they come to.
processes   The harness as processes: child programs, guards, signals, real time.
protocol    Kafka's bytes: what clients and brokers send, and what brokers write.
report      The report of a run: files in, `report.html` and `junit.xml` out.
reproduce   Scripted schedules that show known bugs of Kafka on real brokers.
run         The program of a run: phases, faults, what is looked at meanwhile.
soak        Run after run until a time budget is used up.
systems     The registry of systems under test.
wire        Kafka's protocol on its way: the proxy of single requests, and the capture of messages.
"""
