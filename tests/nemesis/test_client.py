"""Clients and their links as targets."""

import re
from dataclasses import replace

import pytest

from core.config import Application, RunConfig
from core.errors import ConfigError
from core.load_clients import ClientSlot, CrashPoint
from core.runtime import run_blocking
from harness.run.planning import names_of
from nemesis.execute import heal, inject
from nemesis.families.links import POISONS
from nemesis.registry import NEMESES
from nemesis.schedule import plan
from nemesis.types import AimedFault, NoTarget, PlannedFault, WorkloadNames
from tests.nemesis.stage import CLIENTS, DATA, NAMES, Recording, RecordingClients, stage_of


def hit(clients: RecordingClients, name: str, seed: int = 0) -> AimedFault:
    head, _, target = name.partition("@")
    family, _, kind = head.partition(":")
    step = PlannedFault(
        fault=0, name=name, family=family, kind=kind, target=target, at_s=1, hold_s=6, seed=seed
    )
    cluster = Recording(3)
    return run_blocking(inject(stage_of(cluster, clients), step, run_blocking(cluster.roles()), NAMES))


@pytest.mark.parametrize(
    ("name", "slots", "point"),
    [
        ("client:crash@random", {0, 1, 2, 3}, CrashPoint.ANYWHERE),
        ("client:crash@transactional", {1, 2}, CrashPoint.ANYWHERE),
        ("client:crash@member", {2, 3}, CrashPoint.ANYWHERE),
        ("client:crash-in-transaction@random", {1, 2}, CrashPoint.IN_TRANSACTION),
        ("client:crash-in-transaction@member", {2}, CrashPoint.IN_TRANSACTION),
        ("client:crash-before-commit@random", {2, 3}, CrashPoint.BEFORE_COMMIT),
        ("client:crash-before-commit@transactional", {2}, CrashPoint.BEFORE_COMMIT),
        ("client:crash-after-commit@random", {3}, CrashPoint.AFTER_COMMIT),
        ("client:crash-after-commit@member", {3}, CrashPoint.AFTER_COMMIT),
    ],
)
def test_only_clients_that_can_get_there_are_crashed(name: str, slots: set[int], point: CrashPoint) -> None:
    drawn = set()
    for seed in range(40):
        clients = RecordingClients()
        injected = hit(clients, name, seed)
        assert clients.down == set(injected.slots)
        assert injected.nodes == ()
        assert clients.points == [point]
        drawn |= clients.down
    assert drawn == slots


@pytest.mark.parametrize("target", ["random", "transactional", "member"])
def test_a_paused_client_is_resumed(target: str) -> None:
    clients = RecordingClients()
    injected = hit(clients, f"client:pause@{target}")
    assert clients.paused == set(injected.slots)
    assert "for 6 s" in injected.text
    run_blocking(heal(stage_of(Recording(3), clients), injected))
    assert [verb for verb, _ in clients.calls] == ["pause", "resume"]
    assert clients.whole


def test_texts_of_crashes() -> None:
    def text(name: str, client: ClientSlot) -> str:
        return hit(RecordingClients((client,)), name).text

    assert text("client:crash@random", CLIENTS[0]) == "client 0 was killed (SIGKILL)"
    assert text("client:crash-in-transaction@transactional", CLIENTS[1]) == (
        "client 1 (tx-0) was killed (SIGKILL) after it sent records of a transaction, before that "
        "ended, or 2 s later wherever it was"
    )
    assert text("client:crash-before-commit@member", CLIENTS[2]).startswith(
        "client 2 (tx-1, group g) was killed (SIGKILL) right before it would have committed"
    )


def test_no_such_client_is_no_target() -> None:
    for name, why in (
        ("client:crash@member", "member: there is no member of a consumer group"),
        ("client:crash-in-transaction@random", "there is no client that has transactions"),
        ("client:crash-after-commit@random", "client that commits offsets outside of a transaction"),
    ):
        with pytest.raises(NoTarget, match=why):
            hit(RecordingClients(CLIENTS[:1]), name)
    with pytest.raises(NoTarget, match="there is no client"):
        hit(RecordingClients(()), "client:crash@random")


# ---- plans


def names(*clients: ClientSlot) -> WorkloadNames:
    return WorkloadNames(data=DATA, clients=clients)


def config(**settings: object) -> RunConfig:
    return RunConfig(seed=1, **{"duration_s": 900, **settings})  # type: ignore[arg-type]


def drawn(text: str, workload: WorkloadNames) -> set[tuple[str, str]]:
    return {(step.kind, step.target) for step in plan(text, config(), workload) if step.family == "client"}


def test_what_the_workload_lacks_is_never_drawn() -> None:
    plain, transactional, both, member = CLIENTS
    everywhere = {("crash", "random"), ("pause", "random")}
    assert drawn("client", names(plain)) == everywhere
    of_transactions = {
        (kind, target)
        for kind in ("crash", "crash-in-transaction", "pause")
        for target in ("random", "transactional")
    }
    assert drawn("client", names(plain, transactional)) == of_transactions
    of_groups = {
        (kind, target)
        for kind in ("crash", "crash-before-commit", "crash-after-commit", "pause")
        for target in ("random", "member")
    }
    assert drawn("client", names(plain, member)) == of_groups
    of_copies = {
        (kind, target)
        for kind in ("crash", "crash-in-transaction", "crash-before-commit", "pause")
        for target in ("random", "transactional", "member")
    }
    assert drawn("client", names(plain, both)) == of_copies
    assert {kind for kind, _ in drawn("random", names(plain, member))} <= {k for k, _ in of_groups}
    assert drawn("random", names()) == set()


@pytest.mark.parametrize(
    ("text", "clients", "why"),
    [
        ("client", (), "no client"),
        ("client@member", CLIENTS[:2], "no member of a consumer group"),
        ("client@transactional", CLIENTS[:1], "no client with a transactional id"),
        ("client:crash-in-transaction", CLIENTS[:1], "no client that has transactions"),
        ("client:crash-before-commit", CLIENTS[:2], "no client that commits offsets"),
        ("client:crash-after-commit", CLIENTS[:3], "no client that commits offsets outside of a transaction"),
        (
            "client:crash-in-transaction@member",
            (CLIENTS[1], CLIENTS[3]),
            "no member of a consumer group that has transactions",
        ),
    ],
)
def test_what_the_workload_lacks_is_refused(text: str, clients: tuple[ClientSlot, ...], why: str) -> None:
    with pytest.raises(ConfigError, match=f"this workload has {why}"):
        plan(text, config(), names(*clients))


def test_instances_of_an_application_crash_anywhere_and_at_no_point() -> None:
    feed, *instances = CLIENTS[1], *(replace(CLIENTS[n], instance=True) for n in (2, 3))
    application = names(feed, *instances)
    in_transaction, *points = ("crash-in-transaction", "crash-before-commit", "crash-after-commit")
    everywhere = {
        (kind, target) for kind in ("crash", "pause") for target in ("random", "transactional", "member")
    }
    of_feed = {(in_transaction, target) for target in ("random", "transactional")}
    assert drawn("client", application) == everywhere | of_feed
    for kind in (in_transaction, *points):
        with pytest.raises(ConfigError, match=r"this workload has no .*instances .* \(client:crash@member\)"):
            plan(f"client:{kind}@member", config(), application)
    for name, slots in (
        ("client:crash@member", {2, 3}),
        ("client:crash@random", {1, 2, 3}),
        (f"client:{in_transaction}@random", {1}),
    ):
        hits = [hit(RecordingClients((feed, *instances)), name, seed) for seed in range(40)]
        assert {slot for one in hits for slot in one.slots} == slots


def test_the_instances_of_a_run_are_known() -> None:
    run = RunConfig(seed=1, workload="application", app=Application(), nemesis="none")
    assert {(client.slot, client.instance) for client in names_of(run).clients if client.group} == {
        (slot, True) for slot in (7, 8, 9)
    }
    assert not any(client.instance for client in names_of(run).clients if not client.group)
    copier = RunConfig(seed=1, workload="copier", nemesis="none")
    assert any(client.group for client in names_of(copier).clients)
    assert not any(client.instance for client in names_of(copier).clients)


def test_pauses_outlive_transactions_or_are_refused() -> None:
    steps = plan("client:pause", config(transaction_timeout_s=7), NAMES)
    assert {step.hold_s for step in steps} == {9.0}
    with pytest.raises(ConfigError, match=r"lasts at least 12 s \(a transaction timeout of 10 s"):
        plan("client:pause", config(duration_s=12), NAMES)
    assert "pause" not in {step.kind for step in plan("client", config(duration_s=12), NAMES)}


def test_several_crashes_happen_in_a_short_run() -> None:
    for seed in range(20):
        text = "client:crash-in-transaction"
        steps = plan(text, RunConfig(seed=seed, duration_s=20), NAMES)
        assert len(steps) >= 2
        assert all(1 <= step.hold_s <= 2 for step in steps)


# ---- links


def test_every_kind_of_links_has_its_toxics() -> None:
    assert {*POISONS, "timeout"} == set(NEMESES["links"].kinds)
    kinds = {}
    for kind in NEMESES["links"].kinds:
        cluster = Recording(3)
        step = PlannedFault(
            fault=0, name="", family="links", kind=kind, target="all", at_s=1, hold_s=6, seed=3
        )
        stage = stage_of(cluster)
        injected = run_blocking(inject(stage, step, run_blocking(cluster.roles()), NAMES))
        assert set(cluster.toxics) == {1, 2, 3}
        assert injected.text.startswith("links between clients and all brokers: ")
        kinds[kind] = {toxic.type for toxic in cluster.toxics[1]}
        run_blocking(heal(stage, injected))
        assert cluster.whole
    assert kinds == {
        "latency": {"latency"},
        "bandwidth": {"bandwidth"},
        "timeout": {"timeout"},
        "reset": {"reset_peer"},
        "limit": {"limit_data"},
        "slicer": {"slicer"},
    }


def test_timeouts_are_drawn_in_both_directions_and_ways() -> None:
    seen = set()
    for seed in range(40):
        cluster = Recording(3)
        step = PlannedFault(
            fault=0, name="", family="links", kind="timeout", target="leader", at_s=1, hold_s=6, seed=seed
        )
        injected = run_blocking(inject(stage_of(cluster), step, run_blocking(cluster.roles()), NAMES))
        ((toxic,),) = cluster.toxics.values()
        seen.add((toxic.downstream, toxic.attributes["timeout"]))
        assert ("after 1 s" in injected.text) == (toxic.attributes["timeout"] == 1000)
        assert ("responses" in injected.text) == toxic.downstream
    assert seen == {(True, 0), (True, 1000), (False, 0), (False, 1000)}


def test_links_to_isolated_controllers_are_nobodys() -> None:
    told = config(controllers=3, duration_s=300)
    with pytest.raises(ConfigError, match="clients do not talk to isolated controllers"):
        plan("links@controller", told, NAMES)
    assert "controller" not in {step.target for step in plan("links", told, NAMES)}
    steps = plan("partition@controller", told, NAMES)
    assert not any(re.match("clients", step.kind) for step in steps)
