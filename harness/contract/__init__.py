"""The model against a real broker: are the answers the same, and the states after each?

campaign               Many examples against one real broker, several at a time.
caught_up              When followers had everything that their leader had, by the fetches that reached it.
cells                  Cells of a scenario's table, read by requests.
cluster                The clusters of the comparison: one broker with the model's settings, or several.
commands               Random commands, and the requests that they become.
described_transactions  A response that kio cannot read where no transaction is open.
dialect                What a client speaks, and what all translations have in common.
differences            The list of differences that are known and explained: differences.toml.
examples               One example: a list of commands, sent to both brokers; states are compared after each.
group_records          Records of groups and their members in `__consumer_offsets`.
held                   Random requests to three brokers between which messages are held.
held_commands          Random commands about one partition of three replicas.
lanes                  Messages between nodes that wait for steps, by rules of the proxies between nodes.
leader_broker          A real leader of replicas, in the place of a model's `Broker`, and its producers.
payloads               Records of Kafka's logs as the model has them in its own.
replica_place          Where scenarios about replicas are played, and the real cluster among such places.
replica_settings       Settings of the brokers and of the topic there.
replica_stage          `PartitionStage` on Kafka: each message that a step lets go lies on a lane.
replicas               What requests show of replicas and of what the controller decided.
scenarios              The scenarios of docs/model, played on a real broker and by the model at once.
shrink                 From an example with a difference to a smallest one.
sides                  The two brokers: a real one, and the model's.
stage                  Stages of scenarios on a real cluster.
versions               Which era of the model stands for a version of Kafka.
wire                   The model's requests as Kafka's own, and Kafka's responses as the model's.
wire_consumer_groups   Of these: what coordinators of consumer groups (KIP-848) are asked.
wire_data              What leaders of partitions are asked, and batches of records.
wire_groups            What coordinators of groups are asked.
wire_transactions      What coordinators of transactions are asked.

A difference is mended in the model. One that stays is listed in differences.toml with its reason and the line
of Kafka that shows it; any other difference fails `inquest model contract`.
"""
