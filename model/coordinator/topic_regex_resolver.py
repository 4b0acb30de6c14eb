"""Expressions by which members of consumer groups subscribe, and the topics that they stand for (KIP-848).

Kafka's are those of RE2/J. These are Python's without what RE2/J refuses; what RE2/J alone has is refused.
Source: TopicRegexResolver, GroupMetadataManager.throwIfRegularExpressionIsInvalid
"""

import re
import warnings
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final, NamedTuple

from model.errors import KafkaError, Refused

REFRESH_MS: Final = 10_000
"""Distance between two resolutions of a group's expressions (REGEX_BATCH_REFRESH_MIN_INTERVAL_MS)."""

_TOKEN: Final = re.compile(
    r"""(?P<refused> \\[1-9Z] | \(\?(?:=|!|<[=!]|\(|>|\#|P=) | [*+?}]\+ | \[\[: )
    | \\. | \[\^?\]?(?:\\.|[^\]\\])*\] | .""",
    re.VERBOSE | re.DOTALL,
)
"""References back, looks ahead and behind, conditions, atomic groups, comments, possessive counts; and named
classes of characters, which Python reads otherwise."""


class ResolvedRegularExpression(NamedTuple):
    """What an expression stands for. version: of the metadata. at_ms: when it was resolved."""

    topics: tuple[str, ...]
    version: int
    at_ms: int


def check_expression(regex: str) -> None:
    """Raises: Refused (INVALID_REGULAR_EXPRESSION)."""
    if any(token["refused"] for token in _TOKEN.finditer(regex)):
        raise Refused(KafkaError.INVALID_REGULAR_EXPRESSION, regex)
    try:
        _compiled(regex)
    except (re.error, OverflowError, RecursionError) as error:
        raise Refused(KafkaError.INVALID_REGULAR_EXPRESSION, str(error)) from error


@cache
def _compiled(regex: str) -> re.Pattern[str]:
    with warnings.catch_warnings(action="ignore"):  # what another Python may read otherwise
        return re.compile(regex)


def resolve(
    regexes: Iterable[str], topics: Iterable[str], version: int, now: int
) -> Mapping[str, ResolvedRegularExpression]:
    """The topics whose whole name each expression describes."""
    known = sorted(topics)
    return {
        regex: ResolvedRegularExpression(tuple(filter(_compiled(regex).fullmatch, known)), version, now)
        for regex in regexes
    }
