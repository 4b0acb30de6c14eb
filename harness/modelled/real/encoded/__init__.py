"""What nodes of the model send and store, as bytes: Kafka's own where Kafka defines them.

disk          The disk of a node: everything that is durable, in one file that only grows.
model_values  Values of the model as bytes, and back: for messages between nodes, and for a node's disk.
records       Batches of records between Kafka's wire and the model's logs.
"""
