"""The in-memory cluster as a system."""

from harness.systems import System

MEMORY = System(
    doc="a tiny cluster in memory", cluster="tests.memory.cluster:MemoryCluster", title=lambda _: "memory"
)
