"""Consumers and their applications.

A consumer has two offsets of a partition: its position, which is its own, and the committed one,
which its successor begins at. What lies between them is lost or repeated when it dies; which of both is the
application's choice."""

from dataclasses import replace

from scenarios.drivers.clients import ClientStage
from scenarios.drivers.cluster import TV1, lone
from scenarios.drivers.raw_member import RawMemberStage, two
from scenarios.framework import OTHER_BROKERS, Steps, scenario

READING = "A has | position | commit | committed | processed"
COPYING = "group | X learns | Y learns | offset of in | log | read_committed"

BEFORE_KIP_447 = replace(TV1, fenced_offsets=False)


@scenario(
    "Commit, then process: records are lost",
    source="Kafka: design, message delivery semantics",
    stage=ClientStage,
    columns=READING,
)
def commit_before(s: ClientStage) -> Steps:
    """At most once."""
    s.records("r0", "r1", "r2", "r3").consumer("A").poll("A", 3)
    yield "A gets three records. | r0 r1 r2 | 3 | – | – | –"
    s.commit("A")
    yield "It commits its position, 3, and then begins to work. | r0 r1 r2 | 3 | ok | 3 | –"
    s.process("A").die("A")
    yield "After the first record it dies. | – | – | – | 3 | r0"
    s.consumer("B").poll("B").process("B")
    yield """B takes over after A's session, at 3: r1 and r2 are never processed. At most once.
        | – | – | – | 3 | r0 r3"""


@scenario(
    "Process, then commit: records are repeated",
    source="Kafka: design, message delivery semantics",
    stage=ClientStage,
    columns=READING,
)
def commit_after(s: ClientStage) -> Steps:
    """At least once."""
    s.records("r0", "r1", "r2", "r3").consumer("A").poll("A", 3).process("A", 2)
    yield "A gets three records and processes two. | r2 | 3 | – | – | r0 r1"
    s.die("A")
    yield "It dies before it has committed anything. | – | – | – | – | r0 r1"
    s.consumer("B").poll("B", 3).process("B", 3)
    yield """Nothing is committed, so B begins at the beginning: r0 and r1 are processed twice. At least once.
        | – | – | – | – | r0 r1 r0 r1 r2"""
    s.commit("B")
    yield "B commits after the work, and so on. | – | – | – | 3 | r0 r1 r0 r1 r2"


@scenario(
    "Automatic commits",
    source="Kafka: consumer setting `enable.auto.commit`",
    stage=ClientStage,
    columns=READING,
)
def commit_automatically(s: ClientStage) -> Steps:
    """The Java client commits what earlier polls have handed out, when it is polled again. So
    an application that has done its work before it polls loses nothing."""
    s.records("r0", "r1", "r2", "r3").consumer("A", auto=True).poll("A", 2)
    yield "A commits automatically. It gets two records. | r0 r1 | 2 | – | – | –"
    s.process("A", 2).wait(6000)
    yield """It processes them, which takes longer than auto.commit.interval.ms. Commits come with polls only.
        | – | 2 | – | – | r0 r1"""
    s.poll("A", 1)
    yield """The next poll commits 2, what the polls before it have handed out, and brings r2.
        | r2 | 3 | ok | 2 | r0 r1"""
    s.process("A").die("A")
    yield "It processes r2 and dies. | – | – | – | 2 | r0 r1 r2"
    s.consumer("B").poll("B", 2).process("B", 2)
    yield "B begins at 2: r2 comes twice, and nothing is lost. | – | – | – | 2 | r0 r1 r2 r2 r3"


@scenario(
    "Automatic commits, and work elsewhere",
    source="Kafka: consumer setting `enable.auto.commit`",
    stage=ClientStage,
    columns=READING,
)
def commit_automatically_threads(s: ClientStage) -> Steps:
    """The same client, whose application polls on before the work is done."""
    s.records("r0", "r1", "r2", "r3").consumer("A", auto=True).poll("A", 2)
    yield "A commits automatically, and hands its records to a worker. | r0 r1 | 2 | – | – | –"
    s.wait(6000).poll("A", 1)
    yield "It polls on, though the worker has done nothing yet. That commits 2. | r0 r1 r2 | 3 | ok | 2 | –"
    s.die("A")
    yield "It dies. | – | – | – | 2 | –"
    s.consumer("B").poll("B", 2).process("B", 2)
    yield """B begins at 2: r0 and r1 are lost. Where another thread does the work, that thread has to say
        what is committed.
        | – | – | – | 2 | r2 r3"""


@scenario(
    "A zombie consumer",
    source="Kafka: `ClassicGroup.validateOffsetCommit`",
    stage=ClientStage,
    columns="A has | position | commit | B has | committed | processed",
)
def slow_consumer(s: ClientStage) -> Steps:
    """Fencing keeps the committed offset; what the application does to the rest of the world it
    cannot take back."""
    s.records("r0", "r1", "r2", "r3").consumer("A").poll("A", 1)
    yield "A gets r0. | r0 | 1 | – | – | – | –"
    machine = s.machines.pop("A")
    s.wait(7000).consumer("B").poll("B", 2).process("B", 2).commit("B")
    yield """A stands still for longer than its session (a garbage collection, a debugger). B takes over.
        | r0 | 1 | – | – | 2 | r0 r1"""
    s.process("A").join(machine, "A").commit("A")
    yield """A continues where it stood: it processes r0, a second time. Its commit of 1 is refused.
        | – | 1 | UNKNOWN_MEMBER_ID | – | 2 | r0 r1 r0"""


@scenario(
    "The cure: results and offsets in one transaction",
    source="KIP-98, KIP-447",
    stage=lambda: RawMemberStage(lone(era=TV1)),
    columns="group | X learns | offset of in | log | read_committed",
)
def exactly_once(s: RawMemberStage) -> Steps:
    """Where the results are records of Kafka, too, nothing is lost and nothing repeated. The
    generation goes along with the offsets, so that any member may have its own producer (KIP-447)."""
    two(s)
    s.init("X", "x").init("Y", "y")
    a = s.members["A"]
    s.add("X", 0).write("X", 0, "f0").add_group("X")
    s.offsets("X", 1, generation=a.generation, member=a.member)
    yield """A reads r0 of the partition `in` and writes f0 for it, in a transaction of its producer X that
        holds the next offset, 1.
        | Stable 2 | ok | UNSTABLE_OFFSET_COMMIT | f0 | –"""
    s.end("X", commit=True)
    yield "The result and the offset are committed together. | Stable 2 | ok | 1 | f0 [commit] | f0"
    s.add("X", 0).write("X", 0, "f1").add_group("X").wait_beating(4000, "B")
    yield """A writes f1 for r1, and stands still for longer than its session. B is to take over.
        | PreparingRebalance 2 | ok | 1 | f0 [commit] f1 | f0"""
    s.joins("B").syncs("B", B=(0, 1))
    b = s.members["B"]
    s.add("Y", 0).write("Y", 0, "F1").add_group("Y")
    s.offsets("Y", 2, generation=b.generation, member=b.member).end("Y", commit=True)
    yield """B continues at 1 and writes F1 for r1, with its producer Y. Readers wait: A's transaction is
        open.
        | Stable 3 | ok | 2 | f0 [commit] f1 F1 [commit] | f0"""
    s.offsets("X", 2, generation=a.generation, member=a.member)
    yield """A continues and adds its offset. The generation is checked: A has left the group.
        | Stable 3 | UNKNOWN_MEMBER_ID | 2 | f0 [commit] f1 F1 [commit] | f0"""
    s.end("X", commit=False)
    yield """All that is left to A is an abort: r1 counts once.
        | Stable 3 | ok | 2 | f0 [commit] f1 F1 [commit] [abort] | f0 F1"""


@scenario(
    "The same, before KIP-447: records are repeated",
    source="KIP-447; Kafka 2.4: `GroupCoordinator.doCommitOffsets`",
    stage=lambda: RawMemberStage(lone(era=BEFORE_KIP_447)),
    columns=COPYING,
    not_played=OTHER_BROKERS,
)
def exactly_once_before_kip_447(s: RawMemberStage) -> Steps:
    """Offsets in a transaction named no member and no generation, and an offset was answered while a
    transaction held it. A producer is fenced by its own successor only, so one for each process does not
    keep a zombie out."""
    two(s)
    s.init("X", "x").init("Y", "y")
    s.add("X", 0).write("X", 0, "f0").add_group("X").offsets("X", 1)
    yield """A reads r0 of the partition `in` and writes f0 for it, in a transaction of its producer X that
        holds the next offset. A member that asks meanwhile gets the old one, none.
        | Stable 2 | ok | ok | none | f0 | –"""
    s.end("X", commit=True).add("X", 0).write("X", 0, "f1").add_group("X").wait_beating(4000, "B")
    yield """It is committed. A writes f1 for r1, and stands still for longer than its session.
        | PreparingRebalance 2 | ok | ok | 1 | f0 [commit] f1 | f0"""
    s.joins("B").syncs("B", B=(0, 1)).add("Y", 0).write("Y", 0, "F1", "F2").add_group("Y")
    s.offsets("Y", 3).end("Y", commit=True)
    yield """B continues at 1 and writes F1 and F2 for r1 and r2, with its producer Y.
        | Stable 3 | ok | ok | 3 | f0 [commit] f1 F1 F2 [commit] | f0"""
    s.offsets("X", 2)
    yield """A continues and adds its offset. It has left the group, but the coordinator does not check.
        | Stable 3 | ok | ok | 3 | f0 [commit] f1 F1 F2 [commit] | f0"""
    s.end("X", commit=True)
    yield """It commits: r1 counts twice. The offset is A's now, so r2 will be processed again as well.
        | Stable 3 | ok | ok | 2 | f0 [commit] f1 F1 F2 [commit] [commit] | f0 f1 F1 F2"""


@scenario(
    "The cure before KIP-447: a transactional id for each partition",
    source="KIP-447, motivation",
    stage=lambda: RawMemberStage(lone(era=BEFORE_KIP_447)),
    columns=COPYING,
)
def transactional_id_by_partition(s: RawMemberStage) -> Steps:
    """The member that gets a partition takes over its producer, and so fences the previous owner. (Kafka
    Streams did it so: a producer for each task.)"""
    two(s)
    s.init("X", "in-0").add("X", 0).write("X", 0, "f0").add_group("X")
    s.wait_beating(4000, "B")
    yield """A writes f0 for r0 of the partition `in`, with the producer X that it has for this partition
        alone, and stands still for longer than its session.
        | PreparingRebalance 2 | ok | – | none | f0 | –"""
    s.joins("B").syncs("B", B=(0, 1)).init("Y", "in-0")
    yield """B is given the partition, and makes a producer with the same id before it asks for the offset: X
        is fenced, its transaction aborted.
        | Stable 3 | ok | ok | none | f0 [abort] | –"""
    s.add("Y", 0).write("Y", 0, "F0").add_group("Y").offsets("Y", 1).end("Y", commit=True)
    yield "B writes F0 for r0. | Stable 3 | ok | ok | 1 | f0 [abort] F0 [commit] | F0"
    s.offsets("X", 1)
    yield """A continues and adds its offset. It is refused for its producer, not as a member.
        | Stable 3 | INVALID_PRODUCER_EPOCH | ok | 1 | f0 [abort] F0 [commit] | F0"""
