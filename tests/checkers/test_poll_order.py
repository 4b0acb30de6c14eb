"""What permits a step of a consumer that nothing on record explains (the steps themselves: test_golden)."""

import pytest

from checkers.allowed import Ground
from checkers.checks.poll_order import Reader, stepped
from checkers.windows import Excuse


@pytest.mark.parametrize("excuse", Excuse)
@pytest.mark.parametrize("rebalances", [False, True])
@pytest.mark.parametrize("reader", Reader)
def test_a_member_may_step_where_rebalances_are_not_on_record(
    reader: Reader, rebalances: bool, excuse: Excuse
) -> None:
    """Anyone may where the log lost its end."""
    moved = reader is Reader.MEMBER and not rebalances
    cut = excuse in (Excuse.UNCLEAN, Excuse.POWER)
    allowed, why = stepped(Ground(excuse=excuse, rebalances=rebalances), reader)
    assert allowed is (moved or cut)
    assert ("whose rebalances are not on record" in why) is moved
