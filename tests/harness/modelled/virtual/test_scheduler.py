"""Virtual time: calls in their order, and what gives up waiting."""

import random

from core.capabilities import Listener
from harness.modelled.virtual.network import CLIENTS, DELAY_US, Message, Network
from harness.modelled.virtual.scheduler import Scheduler


class Waiting:
    """Gives up once; says when."""

    def __init__(self, name: str, told: list[tuple[int, str]], scheduler: Scheduler) -> None:
        self.waits = True
        self._name, self._told, self._scheduler = name, told, scheduler

    def give_up(self) -> None:
        self._told.append((self._scheduler.now, self._name))


def test_what_expires_takes_its_turn_among_the_calls() -> None:
    scheduler, told = Scheduler(), list[tuple[int, str]]()

    def say(name: str) -> None:
        told.append((scheduler.now, name))

    waiting = {name: Waiting(name, told, scheduler) for name in "abcdef"}
    scheduler.expire(100, waiting["a"])
    scheduler.after(100, say, "between")
    scheduler.expire(100, waiting["b"])
    scheduler.expire(50, waiting["c"])
    scheduler.after(10, lambda: scheduler.expire(100, waiting["d"]))
    scheduler.after(10, lambda: scheduler.expire(90, waiting["e"]))
    scheduler.after(10, lambda: scheduler.expire(40, waiting["f"]))
    scheduler.run()
    assert told == [(50, "c"), (50, "f"), (100, "a"), (100, "between"), (100, "b"), (100, "e"), (110, "d")]


def test_what_waits_no_more_does_not_give_up() -> None:
    scheduler, told = Scheduler(), list[tuple[int, str]]()
    waiting = [Waiting(str(number), told, scheduler) for number in range(20)]
    for number, one in enumerate(waiting):
        scheduler.after(number, scheduler.expire, 100, one)
        one.waits = number in (0, 7, 19)
    scheduler.after(60, lambda: setattr(waiting[7], "waits", False))
    scheduler.run()
    assert told == [(100, "0"), (119, "19")]
    assert scheduler.events < 30


def test_delays_are_drawn_as_randint_draws_them() -> None:
    scheduler, drawn = Scheduler(), random.Random(5)
    network = Network(scheduler, random.Random(5))
    came: list[int] = []
    for _ in range(500):
        connection = network.connect(CLIENTS, 1, Listener.CLIENT)
        network.send(connection, "x", lambda _: came.append(scheduler.now), _ignored)
    scheduler.run()
    assert sorted(came) == sorted(drawn.randint(*DELAY_US) for _ in range(500))


def _ignored(_: Message) -> None:
    """No answer comes."""
