"""Scripted schedules that show one known bug of Kafka on a real cluster, and the twin that does not show it.

    producer    a transactional producer by hand: one request at a time, to a chosen broker
    stage       the cluster: five brokers and a controller of its own, in the roles of the schedules
    schedules   the bugs: for each a schedule with a bad and a good side
    trials      N runs of one side: what each showed, and the exit code

A run of a schedule is no run of a workload: it has no history for the checker. The brokers themselves say at
its end which acknowledged records a reader at read_committed gets, and which it can never get.
"""
