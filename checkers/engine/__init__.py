"""What carries the checks: the input of kernels, findings, and where kernels and joins run.

acknowledged     When a record there or above was first acknowledged by all in-sync replicas.
check            What a check is: a claim, the classes that contradict it, what it reads, a kernel for one
                 partition, a join over all.
compaction       What compaction may have removed from one partition.
components       Strongly connected components of ops, with real time or without.
cut_journals     Processes whose last lines may be missing.
dependencies     Dependencies of ops: the edges that partitions show, graphs of those that may lie on a
                 cycle, and short cycles in them.
engines          The one place that decides where the work on a recorded run is done.
evidence         Records that few findings need and no kernel had, looked up for all examples at once.
first_acks       When each process had its transactional id: its first acknowledged record.
findings         What the checks give: findings with their evidence, and the result of one partition.
kernel_input     What kernels know beside the rows of their partition, made from the small tables.
log_tasks        The evidence of a run in tasks: some partitions each, with the kernels that
                 read evidence.
masters          Masters of Spark: what their names say, and whether they answer.
memory           Memory that kernels free stays with the process; work that needs no collector of cycles.
open_transactions  Which transactions without a known outcome committed: a consumer saw one of their
                 records.
partition_view   One topic-partition as the kernels see it.
pipeline         The checks of a sealed run in tasks: of its history, unit by unit, and of its
                 evidence, some partitions at a time; and of tables in memory.
polls_in_doubt   Polls in doubt of histories that others recorded: each may have been given records that
                 are not on record, and its client may have read on behind them.
share_groups     What a kernel knows of share groups in its partition.
shipped          The code that Spark's executors on other machines need: the rooms, as one archive for
                 `--py-files`.
slots            Offsets of a partition as dense numbers, and sets of numbers as sorted arrays.
spark            A quiet, quick Spark session: here, on a cluster, through Spark Connect, or the one of
                 `spark-submit`.
spark_workers    Tasks on Spark: each is a row of a DataFrame, and runs in `mapInArrow`.
tenure           Who held which transactional id when.
"""
