"""Judging the logs that brokers left behind (`history.evidence`): no client is asked.

accept_metadata  Ring 1: the metadata log (`__cluster_metadata`).
accept_offsets   Ring 1: the log of the group coordinator (`__consumer_offsets`).
engine           Where the rules about logs run: in this process, or one Spark task
                 for some partitions.
judgement        What a rule about logs says: findings, what it could not decide,
                 how often it was asked.
registry         The rules about logs, by the modules that apply them.

A rule reads evidence and nothing else, or evidence beside the history of the clients where it says so. Where
evidence is silent the answer is a doubt, never a pass. A unit of work is one partition (`Evidence.of`).
"""
