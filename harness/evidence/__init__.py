"""What the brokers of a real run left on disk, as the tables of `history.evidence`.

checkpoints          Small text files: what a broker notes of its logs every second or
                     so, and of itself when it ends.
control              Control records: transaction markers, and what a KRaft leader
                     writes into the metadata log.
coordinator_records  The logs of the coordinators: `__transaction_state` and
                     `__consumer_offsets`.
damage               What is wrong with a file that could not be read as a whole: one
                     clear error a file.
directory            A node's data directory, or the ones that it has → the tables of
                     evidence.
metadata_records     The metadata log of KRaft (`__cluster_metadata-0`) and its
                     snapshots.
old_messages         Messages of formats 0 and 1, which brokers before 0.11 write: each as
                     a batch of one record.
partition_files      The files of a partition's folder that belong to its log, as a
                     broker would take them when it starts.
producer_state       What a broker computed from a log: producer states (`.snapshot`)
                     and aborted transactions (`.txnindex`).
records              The records inside of uncompressed batches: keys and values of the
                     logs that Kafka keeps for itself.
segments             Segment files (`.log`, `.checkpoint` of KRaft): the headers of
                     their batches, by one walk over the file.
share_records        The log of the share coordinators: `__share_group_state`
                     (KIP-932).
takes                The takes of one run: what was found at kills and at the end,
                     gathered and written as the run's evidence.
znodes               The transaction log of ZooKeeper: changes of the znodes in which
                     Kafka keeps its metadata.

For judging brokers by their own logs, next to what clients saw. `directory.read` is the way in; the other
modules can be used alone, such as `coordinator_records` for one record of a coordinator's log.

The package reads files and nothing else: no broker, no network. It reads what Kafka from 0.10 on writes, and
says what it cannot read: a cut, flipped or foreign file is one `Damage` with file, position and reason, and
everything else is read. Data that are damaged cannot make it fail or use more memory than a small multiple
of the file's size. Tests compare it with Kafka's own `DumpLogSegments`, field by field.
"""
