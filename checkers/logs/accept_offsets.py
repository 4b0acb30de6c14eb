"""The log of the group coordinator (`__consumer_offsets`), record by record, against what it may write."""

from typing import Final

from checkers.logs.judgement import LogRule


def _rule(name: str, claim: str, source: str) -> LogRule:
    return LogRule(name=name, ring=1, anomaly="model-violation", claim=claim, source=source)


RULES: Final = (
    _rule(
        "generations-rise",
        "The generation of a classic group does not fall, and one generation has one set of dynamic members.",
        "ClassicGroup.initNextGeneration",
    ),
    _rule("generation-has-leader", "The leader of a generation is one of its members.", "ClassicGroup"),
    _rule(
        "group-epochs-rise",
        "The epoch of a group of KIP-848 rises with every record of it.",
        "KIP-848; GroupMetadataManager",
    ),
    _rule(
        "member-epochs-bounded",
        "Epochs of members and of assignments do not exceed the group's, and a member's does not fall.",
        "KIP-848; CurrentAssignmentBuilder",
    ),
    _rule(
        "members-known",
        "Who is given an assignment is a member of the group.",
        "KIP-848; GroupMetadataManager",
    ),
    _rule(
        "one-owner",
        "A partition belongs to one member of a generation, and of a consumer group (KIP-848) until that one "
        "has given it up.",
        "ConsumerPartitionAssignor; ConsumerGroup.addPartitionEpochs",
    ),
    _rule("one-group-type", "A group is of one protocol at a time.", "KIP-848; GroupMetadataManager"),
)
