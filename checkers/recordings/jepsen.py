"""Histories of Jepsen's Kafka workload (`jepsen.tests.kafka`): EDN, one op map a form, or one vector of them.

    {:index 0, :time 1, :type :invoke, :process 0, :f :send, :value [[:send 3 1]]}
    {:index 1, :time 9, :type :ok,     :process 0, :f :send, :value [[:send 3 [0 1]]]}

What it takes: `:send`, `:poll`, `:txn`, `:assign` (with `:seek-to-beginning?`), `:subscribe` and `:crash`
of processes with a number; `:rebalance-log`. What it leaves out: ops of other processes (the nemesis), and
`:debug-topic-partitions`. Real-time order is the order of the file, as Jepsen's own checker has it; times
are those of `:time` where they grow, else the last one and a nanosecond. A `:index` that does not grow is
damage; a gap is not, for many histories leave ops of the nemesis out.

The workload's consumers begin at the start of their keys, and its polls are all in the history: a committed
value that no poll returned, below one that was polled, is lost. Above, nothing is known: the history has no
final reads whose end is on record.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from checkers.recordings import edn
from checkers.recordings.files import UNREADABLE, opened, reason
from checkers.recordings.ops import OpWriter
from checkers.recordings.pairing import Pairing, PairingError
from checkers.recordings.portable import Event, PortableOp
from checkers.recordings.recording import Recording

LEFT_OUT: Final = ("debug-topic-partitions",)
NEMESIS: Final = "nemesis"
"""The one process that has no number."""
_FIELDS: Final = ("index", "time", "process", "type", "f", "value", "txn")


class JepsenImport:
    """Reads one history into a recording."""

    def __init__(self, recording: Recording, path: Path) -> None:
        self._recording = recording
        self._path = path
        self._writer = OpWriter(recording, moved_by_groups=True)
        self._pairing = Pairing("line {}")
        self._ns = 0
        self._began: dict[int, int] = {}
        self._rewinds: set[int] = set()
        self._index = -1

    def read(self) -> None:
        """The whole file. Raises: HistoryError, where it cannot be opened."""
        with opened(self._path) as file:
            try:
                for form in edn.forms(file):
                    if form.error:
                        self._refuse(form.line, form.error)
                    else:
                        self._form(form.line, form.value)
            except UNREADABLE as error:
                self._recording.refuse(str(self._path), f"cannot be read to its end: {reason(error)}")
        for op in self._pairing.open():
            self._write(op, self._ns)

    def _form(self, line: int, form: object) -> None:
        if not isinstance(form, dict):
            self._refuse(line, f"expected a map, found {str(form)[:40]!r}")
            return
        index = form.get("index")
        if isinstance(index, int):
            before, self._index = self._index, index
            if index <= before:
                self._refuse(line, f":index {index} after {before}: repeated, or out of order")
                return
        process, f = form.get("process"), form.get("f")
        if process == NEMESIS or f in LEFT_OUT:  # of no weight for the checks
            return
        try:
            event = msgspec.convert(_plain(form), Event)
            self._take(line, form, event)
        except (msgspec.ValidationError, PairingError, OverflowError) as error:
            self._refuse(line, reason(error))

    def _take(self, line: int, form: Mapping[object, object], event: Event) -> None:
        time = event.time
        self._ns = max(self._ns + 1, time if time is not None and time < 1 << 62 else 0)
        process = event.process
        if event.type == "invoke" and (lost := self._pairing.abandon(process)) is not None:
            # its completion is missing; whether it happened is not known
            self._refuse(lost.invoked_at, f"process {process} never completed this op, and invokes another")
            self._write(lost, self._ns, left=True)
        op = self._pairing.take(line, event)
        if op is None:
            self._began[process] = self._ns
            if form.get("seek-to-beginning?"):
                self._rewinds.add(process)
        else:
            self._write(op, self._ns)

    def _write(self, op: PortableOp, ended: int, *, left: bool = False) -> None:
        rewind = op.process in self._rewinds
        self._rewinds.discard(op.process)
        self._writer.write(op, self._began.pop(op.process), ended, rewind=rewind, left=left)

    def _refuse(self, line: int, why: str) -> None:
        self._recording.refuse(f"{self._path}: line {line}", why)


def _plain(form: Mapping[object, object]) -> dict[object, object]:
    """The event as the portable format spells it."""
    event: dict[object, object] = {name: form[name] for name in _FIELDS if name in form}
    event.setdefault("index", 0)
    value = event.get("value")
    if isinstance(value, list) and event.get("f") in ("send", "poll", "txn"):
        event["value"] = list(map(_mop, value))
    if event.get("f") == "crash":
        event.pop("value", None)
    if form.get("rebalance-log"):
        event["rebalance_log"] = list(_rebalances(form["rebalance-log"]))
    return event


def _mop(mop: object) -> object:
    """A poll's keys as text: maps of JSON have no others."""
    if isinstance(mop, list) and len(mop) == 2 and mop[0] == "poll" and isinstance(mop[1], dict):
        return ["poll", {str(key): records for key, records in mop[1].items()}]
    if isinstance(mop, list) and len(mop) == 2 and mop[0] == "poll" and mop[1] is None:
        return ["poll"]
    return mop


def _rebalances(log: object) -> Iterator[object]:
    """Events of a rebalance log, with their kind where it is on record."""
    for entry in log if isinstance(log, list) else [log]:
        if isinstance(entry, dict):
            yield {"type": entry.get("type", "assigned"), "keys": entry.get("keys", [])}
        else:
            yield entry
