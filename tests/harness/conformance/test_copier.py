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
    def subscribe(self, topics, on_revoke, on_lost): pass
    def poll(self, seconds): return Message()
    def consume(self, many, seconds): return []
    def consumer_group_metadata(self): return None
    def close(self): pass

class Producer:
    def __init__(self, settings): pass
    init_transactions = begin_transaction = poll = produce = lambda self, *args, **more: None
    def send_offsets_to_transaction(self, *args):
        if not os.path.exists("hung"):
            open("hung", "w").close()
            threading.Event().wait()
    def commit_transaction(self, seconds):
        print("committed", flush=True)
        os._exit(7)
'''


def test_a_call_that_never_returns_does_not_stop_the_right_copier(tmp_path: Path) -> None:
    (tmp_path / "confluent_kafka.py").write_text(CLIENT)
    names = ("IN", "OUT", "GROUP", "TRANSACTIONAL_ID")
    given = {**{f"INQUEST_{name}": name.lower() for name in names}, "INQUEST_CLIENT": "{}"}
    done = subprocess.run(
        [sys.executable, COPIER, "right", "0.02", "0.3"],
        cwd=tmp_path,
        env={**os.environ, **given, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.splitlines() == ["a call does not return: the program begins anew", "committed"]
    assert done.returncode == 7
