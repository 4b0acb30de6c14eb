"""Scenarios: how records reach the followers, and when the high watermark moves.

Not here: who is in sync (`isr`), changes of the leader (`election`, `truncation`).
"""

from model.scenarios.columns import hw, leo, produced, remote
from model.scenarios.framework import Chapter, Scenario, Steps
from model.scenarios.stage import Stage

COLUMNS = {
    "LEO 1": leo(1),
    "remote LEO 2": remote(1, 2),
    "HW 1": hw(1),
    "LEO 2": leo(2),
    "HW 2": hw(2),
    "produce": produced,
}


def _fetch_after_produce(s: Stage) -> Steps:
    yield "Broker 1 leads, broker 2 follows; nothing was written.", "0 | ? | 0 | 0 | 0 | –"
    s.produce("m0", to=1)
    yield (
        "A producer sends m0 with acks=all. The leader appends it; the request waits.",
        "1 | ? | 0 | 0 | 0 | waits",
    )
    s.fetch(2)
    yield (
        "Broker 2 fetches from 0: it has nothing, so its remote LEO is 0 and HW = min(1, 0) = 0.",
        "1 | 0 | 0 | 0 | 0 | waits",
    )
    s.answer(2)
    yield (
        "The answer brings m0 and HW 0. Broker 2 appends; HW = min(LEO 1, HW 0) = 0.",
        "1 | 0 | 0 | 1 | 0 | waits",
    )


FETCH_AFTER_PRODUCE = Scenario(
    name="fetch-after-produce",
    title="A follower fetches after a produce",
    about="""A leader appends what it is sent and keeps, for each follower, the log end offset that it
knows of it: the *remote LEO*. It learns it from the offset that the follower fetches from, never from what
it sent. So the first fetch brings the record to the follower, but does not commit it.""",
    source="Kafka: ReplicaManager, Partition.maybeIncrementLeaderHW",
    stage=lambda: Stage((1, 2)),
    columns=COLUMNS,
    steps=_fetch_after_produce,
)

REPLICATION = Chapter(
    title="Replication",
    about="""Followers fetch from the leader as consumers do, and the offset that they fetch from says what
they have. Everything else follows from that.""",
    scenarios=(FETCH_AFTER_PRODUCE,),
)
