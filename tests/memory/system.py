"""The in-memory cluster as a system."""

from harness.systems import RealSystem

MEMORY = RealSystem(
    doc="a tiny cluster in memory", cluster="tests.memory.cluster:MemoryCluster", name=lambda _: "memory"
)
