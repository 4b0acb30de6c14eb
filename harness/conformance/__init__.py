"""Whether a client's program keeps docs/client-protocol.md: `inquest client-test COMMAND`.

cases   What it has to do, one function a case.
stage   Three brokers of the model, sessions over the program, and what the logs really hold.
suite   All cases, one after the other, each with its result.

The suite is what an author runs first: it needs no Docker and takes seconds. What the logs hold is read by
librdkafka, so a client is not its own witness.
"""
