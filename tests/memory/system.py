"""The cluster in memory as a system."""

from core.capabilities import capabilities_of
from core.systems import System
from harness.run.backend import Backend
from tests.memory.cluster import SERVED

BACKEND = Backend(cluster=SERVED, capabilities=lambda _: capabilities_of(SERVED))
MEMORY = System(
    doc="the simulated cluster in real time", title=lambda _: "memory", backend=f"{__name__}:BACKEND"
)
