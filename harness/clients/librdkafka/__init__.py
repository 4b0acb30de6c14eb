"""A session over confluent-kafka.

consumer     The consuming half of a session, and what the client commits automatically.
error_table  Kafka's errors → what each proves of the verb that met it.
client_part  What both halves need of librdkafka: bounded calls, errors taken apart,
             callbacks as events.
producer     The producing half of a session, over confluent-kafka's Producer.
session      A session on real Kafka: at most one producer, one consumer and one admin
             client of confluent-kafka.
share_consumer  The sharing half of a session: a member of a share group.
settings     librdkafka as the client of real Kafka: defaults with time-outs that suit
             faults.
trial        Clients that are made to find out whether librdkafka takes their settings.
"""
