"""The model against a real broker, request by request: are the answers the same, and the states after each?

campaign               Many examples against one real broker, several at a time.
cluster                The cluster of the comparison: one broker with the model's settings.
commands               Random commands, and the requests that they become.
described_transactions  A response that kio cannot read where no transaction is open.
differences            The list of differences that are known and explained: differences.toml.
examples               One example: a list of commands, sent to both brokers; states are compared after each.
shrink                 From an example with a difference to a smallest one.
sides                  The two brokers: a real one, and the model's.
versions               Which era of the model stands for a version of Kafka.
wire                   The model's requests as Kafka's own, and Kafka's responses as the model's.

A difference is mended in the model. One that stays is listed in differences.toml with its reason and the line
of Kafka that shows it; any other difference fails `inquest contract`.
"""
