"""The right copier among the examples: a call of its client that never returns does not stop it."""

import os
import subprocess
import sys
from pathlib import Path

COPIER = Path("examples/applications/copier.py").resolve()
CLIENT = '''
"""A client whose first send_offsets_to_transaction never returns."""
import os, threading

KafkaException, KafkaError = Exception, object

class TopicPartition:
    def __init__(self, *place):
        pass

class Message:
    def error(self): return None
    def value(self): return b"x"
    def topic(self): return "in"
    partition = offset = lambda self: 0

class Consumer:
    def __init__(self, settings): pass
    def subscribe(self, topics, on_revoke, on_lost): print("a member", flush=True)
    def poll(self, seconds): return Message()
    def consume(self, many, seconds): return []
    def consumer_group_metadata(self): return None
    def close(self): pass

class Producer:
    def __init__(self, settings): pass
    begin_transaction = poll = produce = lambda self, *args, **more: None
    def init_transactions(self, seconds):
        if os.path.exists("refuse"):
            os.remove("refuse")
            raise KafkaException("not now")
    def send_offsets_to_transaction(self, *args):
        if not os.path.exists("hung"):
            open("hung", "w").close()
            threading.Event().wait()
    def commit_transaction(self, seconds):
        print("committed", flush=True)
        os._exit(7)
'''


def copied(folder: Path) -> list[str]:
    """What the right copier prints until its first commit."""
    (folder / "confluent_kafka.py").write_text(CLIENT)
    names = ("IN", "OUT", "GROUP", "TRANSACTIONAL_ID")
    given = {**{f"INQUEST_{name}": name.lower() for name in names}, "INQUEST_CLIENT": "{}"}
    done = subprocess.run(
        [sys.executable, COPIER, "right", "0.02", "0.3"],
        cwd=folder,
        env={**os.environ, **given, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 7, done.stderr
    return done.stdout.splitlines()


def test_a_call_that_never_returns_does_not_stop_the_right_copier(tmp_path: Path) -> None:
    anew = "a call does not return: the program begins anew"
    assert copied(tmp_path) == ["a member", anew, "a member", "committed"]


def test_a_producer_that_cannot_begin_leaves_no_member_behind(tmp_path: Path) -> None:
    """A member that nobody polls keeps its group from rebalancing for max.poll.interval.ms."""
    (tmp_path / "refuse").touch()
    (tmp_path / "hung").touch()
    assert copied(tmp_path) == ["not now", "a member", "committed"]
