"""The last results of an aggregate, and which input records they name.

An aggregate writes the result of a key again whenever it changes; its value is a JSON object whose member
`inputs` lists the numbers of all input records in it (docs/applications.md). So the last result of a key in
each output partition is what the application has made of its input. In the history each input record of such
a result is a row of a database (`core.op.DATABASE`), as effects are: of each input partition, numbered from
0. The rows are known only when the output has been read: before, none are expected.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from core.keys import input_key_of
from core.op import DATABASE, TopicPartition
from core.payload import VALUES, Foreign, Uncommitted
from core.session import Fetched

MEMBER: Final = "inputs"


@dataclass(slots=True, kw_only=True)
class Results:
    """Of one run. partitions: of each input record, by its number, its partition. unread: partitions of the
    input that were not read to their end. grown: the output got partitions during the run, so that keys may
    have moved to other ones: a result that is the beginning of another one of its key is not the last."""

    partitions: dict[int, int] = field(default_factory=dict)
    unread: frozenset[int] = frozenset()
    grown: bool = False
    _last: dict[tuple[TopicPartition, int, int], list[int]] = field(default_factory=dict)
    """By output partition, input partition and key: these two are those of the newest record in it that the
    input has; of a result without any, partition -1 and the key of its newest number."""

    def ends(self, partitions: Iterable[int]) -> dict[TopicPartition, int]:
        """Of each partition, how many rows are expected."""
        return {TopicPartition(DATABASE, p): 0 for p in sorted(set(partitions))}

    def take(self, tp: TopicPartition, payload: bytes) -> Foreign | None:
        """A result, in the order of its partition of the output; or why it is none."""
        try:
            numbers = json.loads(payload)[MEMBER]
        except (ValueError, LookupError, TypeError):
            return Foreign.UNREADABLE
        if not isinstance(numbers, list) or not numbers:
            return Foreign.UNREADABLE
        if not all(type(n) is int and 0 <= n < VALUES for n in numbers):
            return Foreign.UNREADABLE
        newest = next((n for n in reversed(numbers) if n in self.partitions), numbers[-1])
        self._last[tp, self.partitions.get(newest, -1), input_key_of(newest)] = numbers
        return None

    def read(self) -> list[Fetched]:
        """The rows, as records that a poll returns. What no input record of the key has is one of partition
        0. A number that a record may have which was not read is left out."""
        ends: dict[int, int] = {}
        found = []
        for of, key, numbers in self._standing():
            for number in numbers:
                its = self.partitions.get(number)
                if its is None and (of in self.unread or (of < 0 and self.unread)):
                    continue
                known = of >= 0 and (its, input_key_of(number)) == (of, key)
                partition = of if known else 0
                payload = (b"%d" if known else b"no %d") % number
                found.append(
                    Fetched(TopicPartition(DATABASE, partition), ends.get(partition, 0), payload, -1)
                )
                ends[partition] = ends.get(partition, 0) + 1
        return found

    def _standing(self) -> Iterator[tuple[int, int, list[int]]]:
        """Input partition and key of each last result that no other one continues, and its numbers."""
        of_keys: dict[tuple[int, int], list[list[int]]] = {}
        for (_, of, key), numbers in self._last.items():
            of_keys.setdefault((of, key), []).append(numbers)
        for (of, key), every in of_keys.items():
            for one in every:
                longer = (other for other in every if len(other) > len(one))
                if not (self.grown and any(other[: len(one)] == one for other in longer)):
                    yield of, key, one

    def number(self, payload: bytes) -> tuple[int, int] | Uncommitted:
        """The partition and the number of the input record of a row, or the number that is of none."""
        number = int(payload.rpartition(b" ")[2])
        return Uncommitted(number) if b" " in payload else (self.partitions[number], number)
