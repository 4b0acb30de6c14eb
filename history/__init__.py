"""Every file of a run folder: one writer and one reader each.

broker_logs  The brokers' logs of a run (`cluster/<node>/server.log`), for what a check
            needs of them.
evidence    The evidence of a run: what brokers left on disk, as Arrow tables
            (`evidence/<table>.parquet`).
evidence_tables  The tables of evidence: what their columns are, and rows of them.
columns     Columns of Arrow tables as numpy arrays, and back.
events      What the harness itself did and saw during a run (`events.jsonl`).
journal     What each process was asked, and what it saw, as it happened (`journal/`).
jsonl       JSON Lines: files of one JSON value a line, appended as things happen and
            readable after any crash.
parts       The tables of a run in tasks: journals in, units out.
prefix      The journals of a run that is still being recorded, as tables.
replica_lines  The same logs, for what they say of replicas.
reader      The reader of a sealed run folder: the one that checker and report share.
recorded_files  The files of a run folder that others may have made: files and folders only, no link
            that leads elsewhere, no pipe without a writer, and tables whose footers promise no more
            than their bytes can hold.
journal_rows  Journals → rows of the history's tables, by one pass over each journal.
rows        The history's tables while they are built.
run_folder  The paths of a run folder, and writing files so that a crash never leaves
            half of one.
seal        Sealing: journals and events of a run → the tables of its history, once.
storage     Where run folders lie: this machine's files, or any store that fsspec reaches
            by a URL.
tables      The history of a run: schemas of the sealed tables, and the names their
            codes stand for.
tasks       Work in tasks, wherever they run: the one seam between what is to be done and the
            engine that does it.
trace       The trace of a simulated run: messages and states of its nodes
            (`trace.jsonl`).
units       The writer of units: files of sends and reads, of whole topic-partitions.
unit_files  The Parquet files of a run's tables: whole ones, some columns of a unit, or
            the few rows that are asked for.
values      What values the tables of a history may have.
verdict     The verdict of a run: `verdict.json`, written by the checker, read by the
            report and by people.

The folder of a run, `results/<utc>-<workload>-<nemesis>-<seed>/`:

    config.json       the configuration          schedule.jsonl  the planned faults
    events.jsonl      what happened              journal/        one file per process
    cluster/<node>/   logs of the brokers        trace.jsonl     messages and states (simulated runs)
    history/          sealed tables, names.json  checked/        anomalies.parquet
    database.sqlite   rows of the workload `sink` (real clients; `harness.clients.database` writes and reads)
    evidence/         what brokers left on disk, and captured messages, as tables
                      (copies/, captured/: until then)
    verdict.json      report.html  junit.xml     soak            the session that this run belongs to
    shrunk.json       the run that this one was shrunk from

`results/nights/<utc>/night.jsonl` is the log of a soak session. JSON Schemas of the configuration, the
verdict and portable histories are in docs/.

Journals: one file per process, one unbuffered write per line, the invocation before the call. Times come
from CLOCK_MONOTONIC in ns, with one wall-clock anchor. Tables: integers only, no nulls (-1 = none), `op`
= dense rank by completion, zstd, DELTA_BINARY_PACKED. `sends` and `reads` are stored in units of whole
topic-partitions; a unit is the checker's unit of work, so the largest partition bounds its memory.
Sealing puts small partitions together until a unit has 250 000 rows, because a Spark task costs 50 ms; it
never splits a partition. Every reader refuses a damaged folder, or one of a newer format, with one clear
error.
"""
