"""Importers: recordings of other programs as run folders that `inquest check` and `inquest report` take.

edn         Clojure's EDN, read form by form: as much of it as recorded histories hold, in
            memory for one form.
files       Files that an import reads: plain or gzip, by lines of bounded length, damage
            included.
formats     Formats of recordings that Inquest imports, and the import of files into a run
            folder.
jepsen      Histories of Jepsen's Kafka workload (`jepsen.tests.kafka`): EDN, one op map a
            form, or one vector of them.
lines       Inquest's own line format for recordings of any client: JSON Lines, one op a
            line (docs/importing.md).
lines_in_tasks  Recordings in the line format, read in tasks: for files that are large for one
            process.
ops         Ops of portable histories and of Jepsen's as lines of journals.
recording   Recordings of others as the journals of a run folder, which `history.seal` makes
            tables from.
verifiable  Output of Kafka's own tools VerifiableProducer and VerifiableConsumer (package
            org.apache.kafka.tools): JSON Lines.

An import translates, line by line, into journals; sealing and checks are those of every run. The config of
such a run (`sut` imported) says what the recording holds, and the checks decide no more than that: what is
not on record is unknown. A line that cannot be read is reported with its place, the others are judged, and
the verdict is unknown at best.
"""
