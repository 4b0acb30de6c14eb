"""Planted bugs of share groups."""

from typing import Final

from model.mutants.mutant import EARLY, MEMORY, OFTEN, READER, TWO_BROKERS, Areas, HuntingGround, Mutant

PRESET: Final = {"preset": "share"}
"""No record comes to the limit unseen: so it must have ended by what a member said."""
LIMITED: Final = {"preset": "share-limit"}
"""Records come to the limit of their deliveries."""
LETTERS: Final = {"preset": "dead-letters", "era": "4.4"}
"""The group has a dead-letter queue, and records come to the limit."""
QUEUE: Final = "no rule about logs reads the dead-letter queue"
STORED: Final = "the leader stores what a sound one might; the log does not tell what members said"
LEADERS_MOVE: Final = ("elections", "kill:one@leader", "restart:graceful")
"""What leaders have in memory goes."""

SHARE: Final[Areas] = {
    "share partitions": {
        "share-lock-ignored": Mutant(
            wrong="a leader gives a member records that another member holds",
            right="after its lock has ended",
            anomalies=("share-two-holders",),
            hunt=HuntingGround(("share",), settings=PRESET),
            no_trace=MEMORY,
        ),
        "share-lock-short": Mutant(
            wrong="a lock ends after a quarter of its time",
            right="after share.record.lock.duration.ms",
            anomalies=("share-two-holders",),
            hunt=HuntingGround(("share",), settings=PRESET),
            no_trace=MEMORY,
        ),
        "share-renewal-ignored": Mutant(
            wrong="a leader answers that a lock is renewed (KIP-1222), and the lock ends as it would have",
            right="it begins again",
            anomalies=("share-two-holders",),
            hunt=HuntingGround(("share",), settings=PRESET | {"renew_share": 0.9}),
            no_trace=MEMORY,
        ),
        "share-lock-outlives": Mutant(
            wrong="the end of a lock makes a record available that was acknowledged meanwhile",
            right="the lock ends with the acknowledgement",
            anomalies=("share-redelivery",),
            hunt=HuntingGround(("share",), settings=PRESET),
        ),
        "share-holder-not-checked": Mutant(
            wrong="a member acknowledges records that another one holds by now",
            right="INVALID_RECORD_STATE",
            anomalies=("share-redelivery",),
            hunt=None,
        ),
        "share-release-of-all": Mutant(
            wrong="where one member ends, what all others hold is available again",
            right="what it holds",
            anomalies=("share-two-holders", "share-redelivery"),
            hunt=HuntingGround(("share",), ("client:crash@member", "client:crash"), PRESET),
            no_trace=MEMORY,
        ),
        "share-release-ends": Mutant(
            wrong="a released record counts as accepted",
            right="it is available again",
            anomalies=("share-skip",),
            hunt=HuntingGround(("share",), settings=PRESET),
            no_trace=STORED,
        ),
        "share-reject-releases": Mutant(
            wrong="a rejected record is available again",
            right="it has ended",
            anomalies=("share-redelivery",),
            hunt=HuntingGround(("share",), settings=PRESET),
            no_trace=STORED,
        ),
        "share-start-jumps": Mutant(
            wrong="the start of a share partition moves over records that have not ended",
            right="to the first of them",
            anomalies=("share-skip",),
            hunt=HuntingGround(("share",), settings=PRESET),
            no_trace=STORED,
        ),
        "share-begins-at-the-end": Mutant(
            wrong="a new group begins at the end of the log",
            right="where share.auto.offset.reset says: at its begin",
            anomalies=("share-skip",),
            hunt=HuntingGround(("share",), ("client:pause@member", "none"), PRESET),
            no_trace=MEMORY,
        ),
        "share-gap-skipped": Mutant(
            wrong="a new leader takes records for archived that no state is stored of",
            right="its predecessor had given them out, and they are available again",
            anomalies=("share-skip",),
            hunt=None,
        ),
    },
    "share deliveries": {
        "share-count-stands": Mutant(
            wrong="the delivery count of a record stays at 1",
            right="it rises with each delivery",
            anomalies=("share-count",),
            hunt=HuntingGround(("share",), settings=PRESET),
            no_trace=STORED,
        ),
        "share-count-taken-back": Mutant(
            wrong="what a member held when it ended counts as not delivered",
            right="its delivery count stays; Kafka 4.1 had this bug (KAFKA-19972)",
            anomalies=("share-count",),
            hunt=HuntingGround(("share",), ("client:crash@member",), PRESET),
            no_trace=STORED,
        ),
        "share-limit-ignored": Mutant(
            wrong="a record is delivered more often than it may be",
            right="at the limit it is archived",
            anomalies=("share-over-limit",),
            hunt=HuntingGround(("share",), settings=LIMITED),
            no_trace=STORED,
        ),
        "share-limit-early": Mutant(
            wrong="a record is archived after its first delivery",
            right="at the limit",
            anomalies=("share-skip",),
            hunt=HuntingGround(("share",), settings=PRESET),
            no_trace=STORED,
        ),
        "share-aborted-acquired": Mutant(
            wrong="a group at read_committed is given records of aborted transactions",
            right="they are archived",
            anomalies=("share-aborted-read",),
            hunt=HuntingGround(("share",), settings={**PRESET, "abort_share": 0.4}),
            no_trace=READER,
        ),
        "share-open-acquired": Mutant(
            wrong="a group at read_committed is given records of open transactions",
            right="it stops at the last stable offset",
            anomalies=("share-aborted-read", "precommitted-read"),
            hunt=HuntingGround(("share",), settings={**PRESET, "abort_share": 0.4}),
            no_trace=READER,
        ),
    },
    "share state": {
        "share-answered-unstored": Mutant(
            wrong="an acknowledgement is answered, and nothing is stored",
            right="once the share coordinator has stored it",
            anomalies=("share-redelivery",),
            hunt=HuntingGround(("share",), LEADERS_MOVE, PRESET),
            no_trace=STORED,
        ),
        "share-failed-write-counts": Mutant(
            wrong="an acknowledgement that could not be stored is answered as if it were",
            right="with an error, and the member holds the record as before",
            anomalies=("share-redelivery",),
            hunt=HuntingGround(("share",), ("kill:one@leader",), {**TWO_BROKERS, **OFTEN, **PRESET}),
            no_trace=EARLY,
        ),
        "share-state-not-replicated": Mutant(
            wrong="state counts as stored when the share coordinator has it",
            right="when all in-sync replicas of its log have",
            anomalies=("share-redelivery",),
            hunt=HuntingGround(
                ("share",), ("pause:short@random,kill:one@leader",), {**TWO_BROKERS, **OFTEN, **PRESET}
            ),
            no_trace=EARLY,
        ),
        "share-state-forgotten-on-load": Mutant(
            wrong="a new share coordinator begins without the state of its log",
            right="it loads it",
            anomalies=("share-redelivery",),
            hunt=HuntingGround(("share",), LEADERS_MOVE, PRESET),
        ),
        "share-update-replaces": Mutant(
            wrong="an update takes the place of all state before it",
            right="what it does not name stays",
            anomalies=("share-redelivery",),
            hunt=HuntingGround(("share",), LEADERS_MOVE, PRESET),
        ),
        "share-old-leader-writes": Mutant(
            wrong="the share coordinator stores what a leader of an older epoch says",
            right="FENCED_LEADER_EPOCH",
            anomalies=("share-redelivery",),
            hunt=None,
        ),
    },
    "dead letters": {
        "letters-by-former-leader": Mutant(
            wrong="at a leader that leads no more the locks of records end as before, and those that come to"
            " the limit get letters; Kafka 4.4.0 has this bug",
            right="the leader in force has them",
            anomalies=("dead-letter-of-accepted",),
            hunt=HuntingGround(("share",), ("elections",), LETTERS),
            no_trace=QUEUE,
        ),
        "letters-of-markers": Mutant(
            wrong="a transaction's marker that comes to the limit gets a letter; Kafka 4.4.0 has this bug",
            right="it is archived: no record stands there",
            anomalies=("dead-letter-of-nothing",),
            hunt=HuntingGround(("share",), settings=LETTERS),
            no_trace=QUEUE,
        ),
        "letters-before-stored": Mutant(
            wrong="a letter is written before it is stored that the record is being archived",
            right="once the share coordinator has stored it; else the record lives on",
            anomalies=("dead-letter-of-accepted",),
            hunt=HuntingGround(("share",), ("kill:one@leader",), {**TWO_BROKERS, **OFTEN, **LETTERS}),
            no_trace=QUEUE,
        ),
        "letters-of-forgotten-group": Mutant(
            wrong="a share partition that went from memory is read again before its letters are written;"
            " Kafka 4.4.0 may do so",
            right="after that",
            anomalies=("dead-letter-of-accepted",),
            hunt=HuntingGround(
                ("share",), ("pause:long@leader",), LETTERS | {"fault_s": 4.5, "renew_share": 0.5}
            ),
            no_trace=QUEUE,
        ),
        "letters-not-resumed": Mutant(
            wrong="a new leader takes for written the letters of what its predecessor was archiving",
            right="it writes them again. (Where leaders change one may be missing: no run shows it.)",
            anomalies=("dead-letter-lost",),
            hunt=None,
        ),
        "letters-of-returned": Mutant(
            wrong="a record that is available again gets a letter, too",
            right="one that was rejected, or has come to the limit",
            anomalies=("dead-letter-unearned", "dead-letter-of-accepted", "dead-letter-twice"),
            hunt=HuntingGround(("share",), settings=LETTERS),
            no_trace=QUEUE,
        ),
        "letters-of-first-only": Mutant(
            wrong="of neighbours that are archived together only the first one gets a letter",
            right="each one",
            anomalies=("dead-letter-lost",),
            hunt=HuntingGround(("share",), settings=LETTERS),
            no_trace=QUEUE,
        ),
        "letters-with-next-copy": Mutant(
            wrong="a letter has a copy of the record after the one that it names",
            right="of that one",
            anomalies=("dead-letter-differs",),
            hunt=HuntingGround(("share",), settings=LETTERS),
            no_trace=QUEUE,
        ),
        "letters-sent-twice": Mutant(
            wrong="a letter is sent again after it was acknowledged",
            right="where no answer came, or one of a broker that does not lead",
            anomalies=("dead-letter-twice",),
            hunt=HuntingGround(("share",), settings=LETTERS),
            no_trace=QUEUE,
        ),
    },
}
