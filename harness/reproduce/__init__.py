"""Scripted schedules that show one known bug of Kafka on a real cluster, and the twin that does not show it.

aborted_index     A replica that was away copies aborted transactions in one append, and leads.
answers           Wrong answers to a single request, by which no record is lost.
attempts          N runs of one side: what each showed, and the exit code.
cluster           A cluster on which schedules are performed, and what all of them do with it.
coordinators      Schedules of coordinators: what one wrote or answered, and the next one does not know.
dead_letters      A share group writes dead letters of what it did not archive.
deleted_topics    Topics that are deleted and made again while a group's coordinator is away.
fenced_offsets    Offsets of a transaction that come when its producer is fenced.
group_offsets     Committed offsets by hand, and slow reads that keep a group coordinator busy.
in_sync_sets      A leader asks for more in-sync replicas, and hears of them in another order.
late_requests     A late EndTxn, which the proxy of `harness.wire` holds back.
library_producer  Producers of librdkafka, transactional and plain.
lost_directory    A follower loses one of two log directories, and its leader waits for it.
mixed_versions    A coordinator has a later version of Kafka than the other brokers.
producer          A transactional producer by hand: one request at a time, to a chosen broker.
rates             Measured rates, and the page of known bugs that shows them.
registry          Every reproduction: a known bug, and the schedule that shows it.
reproduction      What a reproduction is: a schedule with two sides, and what it leaves to be judged.
sendings          Schedules of plain producers: a request late or refused, a leader alone, replicas that move.
share_members     A share group gives a member what it should not: members by hand.
stage             The usual cluster: five brokers and a controller of its own, in roles.
three_brokers     Three brokers on ZooKeeper, and how their replicas come to differ.

A schedule records no history for the checker. At its end the brokers themselves say which acknowledged
records a reader at read_committed gets, and which it can never get.
"""
