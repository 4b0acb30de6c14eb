"""The rules about logs: checks of evidence, by the modules that apply them."""

from typing import Final

from checkers.engine.check import Check
from checkers.logs import (
    accept_controllers,
    accept_data,
    accept_leaders,
    accept_metadata,
    accept_notices,
    accept_offsets,
    accept_share,
    accept_transactions,
    accept_znodes,
    answers,
    audit,
    decisions,
    decisions_in_sync,
    flushes,
    lineage,
    messages,
    orders,
    placement,
    share_answers,
)

LOG_CHECKS: Final[dict[str, Check]] = {
    **audit.CHECKS,
    **accept_metadata.CHECKS,
    **accept_znodes.CHECKS,
    **accept_controllers.CHECKS,
    **accept_leaders.CHECKS,
    **accept_notices.CHECKS,
    **accept_data.CHECKS,
    **accept_transactions.CHECKS,
    **accept_offsets.CHECKS,
    **accept_share.CHECKS,
    **lineage.CHECKS,
    **flushes.CHECKS,
    **decisions.CHECKS,
    **decisions_in_sync.CHECKS,
    **answers.CHECKS,
    **share_answers.CHECKS,
    **messages.CHECKS,
    **orders.CHECKS,
    **placement.CHECKS,
}
"""Name -> check."""
