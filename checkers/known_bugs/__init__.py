"""Known bugs of Kafka and its clients, recognised by evidence in the history of a run: one module a bug, with
the signature that clients see and the one in brokers' logs.

aborted_index          A leader does not name all aborted transactions to fetches: its index is too high.
broker_versions        Which versions of Kafka the brokers of a run had, and when.
bug                    A known bug: what it is, and how a finding shows it.
cancelled_markers      Markers that came late by a request that their coordinator had given up.
deleted_topic_offsets  A group's offsets of a deleted topic stay: no broker coordinated it then.
fenced_offsets         A coordinator of groups stored offsets of a producer that was fenced.
few_in_sync            Clusters that recovered but for in-sync replicas: which partitions lack some.
kafka_6082             A former controller that had stood still writes partitions' states.
kafka_12686            A leader never asks again to change its in-sync replicas: a late answer removed that.
kafka_14402            A record came after the end of its transaction, and holds a transaction open.
kafka_15591            The first batches of a fresh partition are accepted out of order; the first is lost.
kafka_17754            A delayed EndTxn of one transaction ended the next one.
kafka_19367            A coordinator raised the epoch of an open transaction twice when it aborted it.
kafka_19446            A delayed marker ended the producer's next transaction in one partition.
kafka_19632            A leader that begins within a batch delivers again what is before its start.
kafka_19846            A member of a share group whose id has a slash or a plus is given nothing.
kafka_19972            A member that ends gives back the records that it held with a lower delivery count.
kafka_20322            In a mixed cluster no transaction ends: brokers refuse their coordinators' markers.
kafka_20734            A transaction ended without a marker in a partition that had no leader just then.
labelled_run           A run whose findings get labels: what signatures ask of it again and again.
last_replica           A replica that had lost its power led alone: others lost what they had, too.
late_offset_query      librdkafka asks again where a partition begins, and goes there.
late_requests          Requests that a rule of the wire held back, and when they came.
late_share_writes      A rejection that came late archives a record that was accepted since.
letters_by_former_leader  A leader that leads no more writes dead letters of accepted records.
letters_of_markers     A share group writes dead letters of markers that no member acknowledged.
librdkafka_4953        An idempotent producer writes a record twice after an epoch bump.
log_findings           What signatures ask of a finding in brokers' logs: its transaction, and its marker.
pending_expansion      A leader forgets the replica that it has asked for, and acknowledges what that lacks.
registry               Known bugs by their ids, and the labels of findings.
refused_in_sync        A controller is refused what it has just written: a leader waits for its answer.
removed_replica        A replica that was taken off stays eligible, and is elected without its log.
share_start_falls      A write of share state that came late set the start offset of a share partition back.
short_leaders          Leaders that lacked acknowledged records, and what was cut off with them.
transaction_fates      The fates of a transaction's records, partition by partition.
uncommitted_state      A new transaction coordinator acted upon state that was not committed.
"""
