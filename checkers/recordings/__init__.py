"""Recordings of other programs, small histories that others wrote by hand, and what other checkers take.

cases       Files of portable histories: the cases that they hold, each whole or with the
            reason why it is not.
edn         Clojure's EDN, read form by form: as much of it as recorded histories hold, in
            memory for one form.
export      A sealed history as events of the portable format, for other checkers: as JSON, or
            as Jepsen's EDN.
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
pairing     The events of a history, in real-time order, paired to ops: each invocation with its
            completion.
portable    The portable history format, read by people and by other checkers.
portable_tables  Portable histories as the tables of a sealed history.
recording   Recordings of others as the journals of a run folder, which `history.seal` makes
            tables from.
repeated    JSON objects that say a key twice: a decoder takes one of the two values and drops
            the other in silence, so such text has no one meaning.
verifiable  Output of Kafka's own tools VerifiableProducer and VerifiableConsumer (package
            org.apache.kafka.tools): JSON Lines.

All of them become journals: of a run folder, or, of a portable history, in memory; sealing and checks are
those of every run. The config of an imported run (`sut` imported) says what the recording holds, and the
checks decide no more than that: what is not on record is unknown. A line that cannot be read is reported with
its place, the others are judged, and the verdict is unknown at best.
"""
