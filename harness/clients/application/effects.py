"""What the world outside of Kafka shows of an application: the lines that a command of the user's prints.

Each line is one effect, and holds the input record that it was made of, as an output record does. In the
history effects are rows of a database (`core.op.DATABASE`): of each input partition, numbered from 0 in the
order of the lines. The command runs once, at the end; its lines stay in the run folder.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from core.errors import ClusterError
from core.extensions import EFFECTS
from core.op import DATABASE, TopicPartition
from core.payload import Foreign, origin
from core.session import Fetched
from harness.processes.user_command import finish, last
from harness.processes.user_program import UserProgram

COMMAND: Final = UserProgram(variable=EFFECTS, option="--effects", needed_by="effects", tried=False)
LIST_S: Final = 60.0
"""How long it may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """Of one run. file: takes the lines. input: the topic; size: of its records. around: the environment of
    the command."""

    run: str
    file: Path
    input: str
    size: int
    around: Mapping[str, str]

    def ends(self, partitions: Iterable[int]) -> dict[TopicPartition, int]:
        """Run the command; of each partition, how many effects there are. Raises: ClusterError."""
        lines = self._listed()
        try:
            self.file.parent.mkdir(exist_ok=True)
            self.file.write_bytes(lines)
            effects = self.read()
        except OSError as error:
            raise ClusterError(f"the effects cannot be kept: {error}") from None
        counts = dict.fromkeys((TopicPartition(DATABASE, p) for p in sorted(set(partitions))), 0)
        for effect in effects:
            counts[effect.tp] = max(counts.get(effect.tp, 0), effect.offset + 1)
        return counts

    def read(self) -> list[Fetched]:
        """The effects, as records that a poll returns. What names no input record is one of partition 0."""
        numbers: dict[TopicPartition, int] = {}
        found = []
        for line in self.file.read_bytes().splitlines():
            if line.strip():
                of = origin(self.run, self.input, line, self.size)
                tp = TopicPartition(DATABASE, 0 if isinstance(of, Foreign) else of[0])
                found.append(Fetched(tp, numbers.get(tp, 0), line, -1))
                numbers[tp] = numbers.get(tp, 0) + 1
        return found

    def _listed(self) -> bytes:
        what = f"--effects {COMMAND.words()[0]}"
        code, lines, words = finish(what, COMMAND.words(), LIST_S, self.around, alone=True)
        if code:
            raise ClusterError(f"{what}: it ended with exit code {code}: {last(words)}")
        return lines
