"""Kafka's bytes: what clients and brokers send, and what brokers write.

batches      Batches of records, message format 2 (KIP-98): their header, and how they are written.
bounds       Whether a payload can be decoded safely: every length in it fits into the bytes that are there.
controllers  Schemas of the requests by which a controller of the time of ZooKeeper rules brokers.
cursor       Kafka's primitive types read from bytes.
definitions  Kafka's own definitions of the messages that its logs hold, as `definitions.jsonl` keeps them.
encoding     Requests and responses from plain values, straight to bytes, by Kafka's own schemas.
frames       Where a frame ends in a stream of bytes, and what its header says.
messages     Messages of Kafka's logs read by their definitions: bytes → the JSON that Kafka would print.
newer        Schemas of requests and responses that are newer than kio, in the form of its classes.
older        Schemas of requests and responses that kio has no more, since Kafka 4.0 dropped them.
payloads     What frames hold, by Kafka's own schemas: requests and responses as objects of kio's classes.
schemas      Kafka's schemas, field by field, as kio's generated classes have them.
topics       What requests and responses say of partitions: topics first, and in each topic its partitions.

Requests and responses are read by kio's classes and written from plain values, messages of logs are read by
Kafka's own definitions. Damage is one clear error: `FrameError` in what is sent, `Malformed` in what is
written.
"""
