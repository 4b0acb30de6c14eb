"""KAFKA-19846: the label needs a member of the group whose id a broker cannot read, up to the end."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from history.events import Recovered
from tests.checkers.known_bugs.upgrades import upgrade_of
from tests.histories.built import Built, Op, Process
from tests.histories.folders import check_run, write_run

S = 1_000_000_000
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
GAVE_UP_S = 158.0
GROUP = "group-0"
SLASH, PLUS, READ = "9Zu0xNdzS9/Dsx0UsTVSYA", "v5Y5Wa9BSSKO+WoPHnNe3Q", "rS5bxcFmThSre4tQfLg7Kg"


def refused(at_s: float, member: str = SLASH, group: str = GROUP, api: str = "SHARE_FETCH") -> str:
    """As brokers of 4.1.2 word it."""
    wall = (BEGAN + timedelta(seconds=at_s)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return (
        f"{wall} ERROR kafka.server.KafkaApis - [KafkaApi-3] Unexpected error handling request"
        f" RequestHeader(apiKey={api}, apiVersion=1, clientId=rdkafka, correlationId=277, headerVersion=2)"
        f" -- ShareFetchRequestData(groupId='{group}', memberId='{member}', shareSessionEpoch=0,"
        " maxWaitMs=500, minBytes=1, topics=[], forgottenTopicsData=[]) with context RequestContext()\n"
        "java.lang.IllegalArgumentException: Illegal base64 character 2f\n"
    )


NOW = refused(GAVE_UP_S - 0.5)


@pytest.mark.parametrize(
    ("log", "labelled"),
    [
        (NOW, True),
        (refused(GAVE_UP_S - 0.5, PLUS), True),
        (refused(30) + NOW, True),
        ("", False),
        (refused(30), False),  # it has had another id since
        (refused(GAVE_UP_S + 1), False),
        (refused(GAVE_UP_S - 0.5, READ), False),
        (refused(GAVE_UP_S - 0.5, group="group-1"), False),
        (refused(GAVE_UP_S - 0.5, api="SHARE_ACKNOWLEDGE"), False),
    ],
)
def test_the_label_needs_an_id_that_a_broker_cannot_read_up_to_the_end(
    tmp_path: Path, log: str, labelled: bool
) -> None:
    assert known_bug(tmp_path, log) == ("KAFKA-19846" if labelled else "")


def test_a_client_of_another_group_has_no_label(tmp_path: Path) -> None:
    assert known_bug(tmp_path, NOW, group=1) == ""
    assert known_bug(tmp_path / "alone", NOW, group=-1) == ""


@pytest.mark.parametrize(
    ("version", "upgraded_s", "labelled"),
    [("4.2.0", None, False), ("4.1.0", None, True), ("4.1.2", 100.0, False), ("4.1.2", 200.0, True)],
)
def test_brokers_that_take_any_id_have_no_label(
    tmp_path: Path, version: str, upgraded_s: float | None, labelled: bool
) -> None:
    found = known_bug(tmp_path, NOW, version, upgraded_s)
    assert found == ("KAFKA-19846" if labelled else "")


SOON = refused(GAVE_UP_S - 3, PLUS)


@pytest.mark.parametrize(
    ("stalled", "log", "labelled"),
    [
        ((1,), NOW, True),
        ((1, 2), NOW, False),  # which of them is refused is not known
        ((1, 2), NOW + NOW, False),
        ((1, 2), SOON + NOW, True),
        ((1, 2), refused(30, PLUS) + NOW, False),  # it has had another id since
        ((1, 2), refused(GAVE_UP_S - 3, PLUS, group="group-1") + NOW, False),
        ((1, 3), NOW, True),  # client 3 is of another group
        ((1, 2, 4), SOON + NOW, False),
    ],
)
def test_as_many_ids_are_refused_as_members_of_the_group_stand_still(
    tmp_path: Path, stalled: tuple[int, ...], log: str, labelled: bool
) -> None:
    assert known_bug(tmp_path, log, stalled=stalled) == ("KAFKA-19846" if labelled else "")


def known_bug(
    tmp_path: Path,
    log: str,
    version: str = "4.1.2",
    upgraded_s: float | None = None,
    group: int = 0,
    stalled: tuple[int, ...] = (1,),
) -> str:
    """The label of client 1, which was given nothing. group: of that client. stalled: all that were not."""
    built = Built(tps=["x"])
    for slot, its_group in ((0, -1), (1, group), (2, 0), (3, 1), (4, 0)):
        built.processes[slot] = Process(slot=slot, group=its_group)
        built.ops.append(Op(process=slot, f="acquire", invoke=10 * S, complete=11 * S))
    settings, events = upgrade_of(version, upgraded_s)
    why = f"clients {[*stalled]} were given nothing since, although they poll"
    late = Recovered(ns=round(GAVE_UP_S * S), recovered=False, seconds=120, why=why, stalled=stalled)
    events = (*(one for one in events if not isinstance(one, Recovered)), late)
    run = write_run(tmp_path / "run", built.tables(), settings=settings, events=events)
    (run.cluster / "3").mkdir(parents=True)
    (run.cluster / "3" / "server.log").write_text("2026-01-01T00:00:00.000Z INFO something else\n" + log)
    found = check_run(run).anomalies["stalled-client"]
    assert (found.allowed, found.count) == (False, len(stalled))
    return next(one.known_bug for one in found.examples if one.sentence.startswith("Client 1 "))
