"""The in-memory cluster as a system."""

from core.cluster import capabilities_of
from core.systems import System
from harness.run.backend import Backend
from tests.memory.cluster import MemoryCluster

BACKEND = Backend(cluster=MemoryCluster, capabilities=lambda _: capabilities_of(MemoryCluster))
MEMORY = System(doc="a tiny cluster in memory", title=lambda _: "memory", backend=f"{__name__}:BACKEND")
