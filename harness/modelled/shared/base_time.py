"""When clocks of the model begin."""

from typing import Final

BASE_NS: Final = 1_000_000_000
"""Time of the clocks when a simulation begins: never 0, which stands for nothing in places."""
BASE_MS: Final = BASE_NS // 1_000_000
"""What is added to times of the model."""
