"""Whether the controllers of a run look at the setting that lets replicas lead that miss records."""

from typing import Final

from core.config import RunConfig
from core.systems import KafkaSection, ModelSection, SimulatedSection, is_since, release_of

SETTING: Final = "unclean.leader.election.enable"
HEEDED: Final = "3.9"
"""The first line whose KRaft controller looks at the setting (KAFKA-12670). Those before leave such elections
to an operator (ConfigurationControlManager.uncleanLeaderElectionEnabledForTopic)."""
KRAFT_ERAS: Final = "3.3"
"""The first era of the model with KRaft; ZooKeeper's controller has always looked at the setting."""


def unheeded(config: RunConfig) -> str:
    """What the run is made on, if none of its controllers looks at the setting; "" = one does, or it is
    unknown."""
    if config.has(KafkaSection):
        its = config.section(KafkaSection)
        if its.deployment == "kraft" and not is_since(its.upgrade or its.version, HEEDED):
            return f"Kafka {its.versions}"
    if config.has(SimulatedSection):
        return _unheeding(config.section(SimulatedSection).era)
    return _unheeding(config.section(ModelSection).era) if config.has(ModelSection) else ""


def _unheeding(era: str) -> str:
    release = release_of(era)
    heeds = not release or is_since(release, HEEDED) or not is_since(release, KRAFT_ERAS)
    return "" if heeds else f"era {era}"
