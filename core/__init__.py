"""Words and contracts that every room shares; no behaviour.

capabilities   What can be done to a system under test: the capabilities that nemeses need.
client_settings  What a session asks of its clients, and the settings that they work with.
cluster        What a system under test offers: `Cluster`.
config         RunConfig: everything that defines a run, seed included.
consumer_protocol  Subscriptions and assignments of Kafka's consumers, version 0, which group
               coordinators pass on.
dead_letters   Dead-letter queues of share groups: Kafka's names, and what a history says of a
               letter.
errors         Errors that end a command with one sentence, and the exit codes of
               `inquest`.
extensions     Workloads, nemeses and checks of files that a user names, and of packages.
files          Files that a person names: those that are read whole, and folders to write
               into.
first_few      Long lists in messages: the first few, and how many more there are.
flushing       When brokers flush the logs of a topic, by the settings of a run: what a loss
               of power may take.
generator      Generators: pure schedules of ops, and the random sources they draw
               from.
internal_topics  Kafka's own topics, by name.
java_hash      The hash by which Kafka places coordinators.
known_names    What is said of a name that is not among the known ones.
keys           Keys of records in compacted topics: a value says its key.
load_clients   The load clients of a run, as a nemesis aims at them.
offset_fencing  Whether brokers fence offsets that transactions commit, and whether members
               wait for them.
op             Ops: what a process was asked to do, and the result.
payload        Payloads that describe themselves: made here, recognised here.
presets        Presets: named sets of settings.
programs       Python programs of this code as child processes.
producer_state  How long brokers remember what an idle producer has written.
progress       How far long work has come, for watchers such as a line on a terminal.
replica_order  The order of a partition's replicas, the preferred leader first: what
               nodes tell of it, what may be asked.
runtime        Time and tasks of a run: the run program is written once, over a
               `Runtime`.
retention      Whether retention may remove records while a run lasts, by its settings.
secrets        Secrets among settings: never written into a file of a run, never shown.
session        The seam to a system under test: the verbs of one client, as Kafka
               names them.
systems        The systems under test and the deployments of Kafka: one visible dict each.
terminal       What the harness shows a person: the only place that writes to a terminal,
               and all of it is printable.
unclean_elections  Whether controllers heed the setting that lets replicas lead that miss records.
watermark      How long a high watermark may stand still below the end of its log.
wire           Rules about single requests on their way between clients and brokers.
"""
