"""Ends of nodes that nobody asked for: each is seen once, and no new start hides one."""

import pytest

from core.cluster import UNREGISTERED, NodeEnd
from core.errors import ClusterError, EndsMissed
from harness.brokers.node_ends import LINES, NodeEnds, described, signal_of


class Nodes:
    """Nodes of which some are down."""

    def __init__(self) -> None:
        self.down: set[int] = set()
        self.silent = False
        self.strange: dict[int, ClusterError] = {}
        self.ends = NodeEnds(self._down, self._describe)

    def _down(self) -> dict[int, str]:
        if self.silent:
            raise ClusterError("the engine does not answer")
        return dict.fromkeys(sorted(self.down), "")

    def _describe(self, node: int) -> NodeEnd:
        if node in self.strange:
            raise self.strange[node]
        return NodeEnd(node=node, exit_code=1)

    def taken(self) -> list[int]:
        return [end.node for end in self.ends.take()]

    def kill(self, node: int) -> None:
        self.ends.asked([node])
        self.down.add(node)

    def revive(self, node: int) -> None:
        self.ends.look()
        self.down.discard(node)
        self.ends.started([node])


def test_an_end_is_handed_out_once() -> None:
    nodes = Nodes()
    nodes.down = {2}
    assert nodes.taken() == [2]
    assert nodes.taken() == []


def test_what_the_cluster_ends_itself_is_none() -> None:
    nodes = Nodes()
    nodes.kill(2)
    assert nodes.taken() == []
    nodes.revive(2)
    assert nodes.taken() == []
    nodes.down = {2}
    assert nodes.taken() == [2]


def test_an_end_right_before_a_new_start_is_seen_all_the_same() -> None:
    nodes = Nodes()
    nodes.down = {1}
    nodes.revive(1)
    assert nodes.taken() == [1]
    nodes.down = {1}
    assert nodes.taken() == [1]


def test_a_node_that_had_ended_before_it_was_killed_had_ended_on_its_own() -> None:
    nodes = Nodes()
    nodes.down = {1}
    nodes.kill(1)
    nodes.revive(1)
    assert nodes.taken() == [1]


def test_an_end_is_seen_later_where_the_engine_does_not_answer_now() -> None:
    nodes = Nodes()
    nodes.down, nodes.silent = {3}, True
    with pytest.raises(ClusterError, match="does not answer") as raised:
        nodes.taken()
    assert not isinstance(raised.value, EndsMissed)
    nodes.silent = False
    assert nodes.taken() == [3]


def test_a_node_whose_end_cannot_be_described_hides_no_other() -> None:
    nodes = Nodes()
    nodes.down, nodes.strange = {1, 2}, {1: ClusterError("its log cannot be read")}
    with pytest.raises(ClusterError, match="its log"):
        nodes.taken()
    nodes.strange.clear()
    assert nodes.taken() == [2, 1]


def test_an_end_that_nothing_describes_is_missed_once() -> None:
    nodes = Nodes()
    nodes.down, nodes.strange = {1, 2}, {1: EndsMissed("nothing says how node 1 ended")}
    with pytest.raises(EndsMissed, match="node 1"):
        nodes.taken()
    assert nodes.taken() == [2]


@pytest.mark.parametrize("verb", ["kill", "revive"])
def test_an_end_that_the_run_covers_while_the_engine_is_silent_may_be_missed(verb: str) -> None:
    nodes = Nodes()
    nodes.down, nodes.silent = {3}, True
    getattr(nodes, verb)(3)
    nodes.silent = False
    with pytest.raises(EndsMissed, match="does not answer"):
        nodes.taken()
    assert nodes.taken() == []


def test_nothing_is_missed_of_a_node_that_was_killed_before_the_engine_fell_silent() -> None:
    nodes = Nodes()
    nodes.kill(3)
    nodes.silent = True
    nodes.revive(3)
    nodes.silent = False
    assert nodes.taken() == []


@pytest.mark.parametrize(
    ("code", "signal"), [(0, 0), (1, 0), (128, 0), (134, 6), (137, 9), (143, 15), (255, 0)]
)
def test_the_engines_exit_codes_of_signals(code: int, signal: int) -> None:
    assert signal_of(code) == signal


@pytest.mark.parametrize(
    ("end", "outside"),
    [
        (described(1, exit_code=1, signal=0, log="halt"), ""),
        (described(1, exit_code=0, signal=0, log=""), ""),
        (described(1, exit_code=134, signal=6, log="# A fatal error has been detected"), ""),
        (described(1, exit_code=137, signal=9, log=""), "something sent it SIGKILL"),
        (described(1, exit_code=143, signal=15, log=""), "something sent it SIGTERM"),
        (described(1, exit_code=137, signal=9, log="", oom_killed=True), "its memory was used up"),
        (described(1, exit_code=1, signal=0, log="x\nIOException: No space left on device\ny"), "no space"),
        (described(1, exit_code=70, signal=0, log="", own_program=True), "the project's own, failed"),
    ],
)
def test_what_ended_a_node_from_outside(end: NodeEnd, outside: str) -> None:
    assert bool(end.outside) is bool(outside)
    assert outside in end.outside
    assert ("on its own" in str(end)) is not bool(outside)


def test_the_last_lines_of_the_log_are_kept() -> None:
    end = described(4, exit_code=1, signal=0, log="".join(f"line {n}\n\n" for n in range(40)))
    assert len(end.log) == LINES
    assert str(end) == "node 4 ended on its own with exit code 1; its last line: line 39"


def test_the_last_errors_are_kept_beside_the_last_lines() -> None:
    """A broker that gives up logs why, and then each step of its shutdown."""
    why = "… ERROR org.apache.kafka.server.BrokerLifecycleManager - unable to register"
    log = [f"… ERROR early {n}" for n in range(9)] + [why] + [f"… INFO closed {n}" for n in range(400)]
    end = described(2, exit_code=1, signal=0, log="\n".join(log))
    assert end.errors == [*log[4:9], why]
    assert end.log == (*end.errors, *log[-6:])
    assert str(end) == f"node 2 ended on its own with exit code 1; its last error: {why}"


def test_the_error_of_a_broker_that_could_not_register_is_kept_whatever_its_controller_logs_then() -> None:
    why = f"… ERROR BrokerLifecycleManager - Shutting down because we were {UNREGISTERED}."
    errors = [f"… ERROR ControllerApis - Unexpected error {n}" for n in range(300)]
    end = described(2, exit_code=1, signal=0, log="\n".join([why, *errors]))
    assert end.unregistered
    assert end.log == (why, *errors[-11:])
    assert not described(2, exit_code=1, signal=0, log="\n".join(errors)).unregistered


STARTING = (
    "… ERROR kafka.server.KafkaServer - [KafkaServer id=1] Fatal error during KafkaServer startup. Prepare"
)
EXPIRED = (
    "org.apache.zookeeper.KeeperException$SessionExpiredException: KeeperErrorCode = Session expired for /x"
)
TRACE = [f"\tat kafka.server.KafkaServer.startup(KafkaServer.scala:{n})" for n in range(9)]


@pytest.mark.parametrize(
    ("lines", "expired"),
    [
        ([STARTING, EXPIRED, *TRACE], True),
        ([STARTING, "… INFO another thread", EXPIRED, *TRACE], True),
        ([STARTING, *(f"… ERROR of another {n}" for n in range(7)), EXPIRED, *TRACE], True),
        ([STARTING, "kafka.common.InconsistentBrokerIdException: 1, 2", *TRACE, EXPIRED, *TRACE], False),
        ([STARTING, "java.lang.IllegalStateException", *TRACE, EXPIRED, *TRACE], False),
        (["… ERROR kafka.controller.KafkaController - Error", EXPIRED, *TRACE], False),  # in mid-run
        ([EXPIRED, *TRACE, STARTING], False),
        ([STARTING, *TRACE], False),
    ],
)
@pytest.mark.parametrize("closing", [0, 2, 3, 8, 10, 300])
@pytest.mark.parametrize("errors", [0, 300])
def test_that_a_session_expired_while_a_broker_started_is_kept_whatever_it_logs_then(
    lines: list[str], closing: int, errors: int, *, expired: bool
) -> None:
    log = [f"… INFO starting {n}" for n in range(20)] + lines
    log += [f"… ERROR closing {n}" for n in range(errors)] + [f"… INFO closed {n}" for n in range(closing)]
    end = described(1, exit_code=1, signal=0, log="\n".join(log))
    assert len(end.log) == LINES
    assert end.session_expired is expired
    assert ("its session with ZooKeeper expired while it started" in str(end)) is expired


def test_no_error_is_lost_between_the_last_lines_and_those_before() -> None:
    errors = [f"… ERROR {n}" for n in range(9)]
    log = [*errors, *(f"… INFO {n}" for n in range(8))]
    assert described(1, exit_code=1, signal=0, log="\n".join(log)).log == (*errors[3:], *log[-6:])


def test_an_error_among_the_last_lines_is_kept_once() -> None:
    log = [f"line {n}" for n in range(20)] + ["… FATAL Exiting Kafka."]
    end = described(2, exit_code=1, signal=0, log="\n".join(log))
    assert end.log == tuple(log[-LINES:])
    assert end.errors == [log[-1]]


def test_a_disk_that_was_full_long_before_did_not_end_it() -> None:
    log = ["No space left on device", *(f"line {n}" for n in range(60))]
    assert not described(2, exit_code=1, signal=0, log="\n".join(log)).outside
    assert described(2, exit_code=1, signal=0, log="\n".join(log[:60])).disk_full
