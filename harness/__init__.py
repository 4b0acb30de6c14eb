"""Everything that makes, records and shows runs, in four storeys. Nothing below imports it.

Commands: what a person asks for.

cli          The command `inquest`.
conformance  Whether the program of a client keeps its protocol.
contract     The model against a real broker, by scenarios and random requests.
explore      Many short simulated runs, with and without planted bugs; shrinking a run.
guided       A cluster for the tests of another program: a run whose faults begin and end when they say so.
judging      A process that judges recorded runs, with a Spark session that is warm before the first one.
nights       The sessions of a results folder: their logs, and the index, which shows what they come to.
report       The report of a run: files in, `report.html` and `junit.xml` out.
reproduce    Scripted schedules that show known bugs of Kafka on real brokers.
soak         Run after run until a time budget is used up.

Systems: what is tested. None imports another, and a run finds them by name (`core.systems.SYSTEMS`).

external     The system `external`: a cluster that the harness did not start (`--cluster FILE`).
kafka        The system `kafka`: real brokers in containers.
modelled     Kafka's reference model as a cluster, in virtual time and in real time.

A run: one program for all systems, which it knows as `run.backend.Backend` alone.

clients      Load clients: one client loop, and the processes that run it.
compose      Composition root: a config → a recorded run folder.
run          The program of a run: phases, faults, what is looked at meanwhile.
systems      Runs of the systems under test: what the entries of the registry name, found and used.

Ground: what systems and runs are made of.

brokers      What the harness asks of any brokers behind Kafka's protocol, and what it puts in front of them.
containers   Docker: clusters in containers, engine, images, nodes, network faults, cleaning up.
evidence     What the brokers of a real run left on disk, as Arrow tables.
processes    The harness as processes: child programs, guards, signals, real time.
protocol     Kafka's bytes: what clients and brokers send, and what brokers write.
wire         Kafka's protocol on its way: the proxy of single requests, and the capture of messages.
"""
