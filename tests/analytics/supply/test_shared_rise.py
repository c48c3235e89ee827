"""Shares that stay as they are, and siblings that are as usual, on their own bus alone."""

import numpy as np

from analytics.supply.shared_rise import BusShares, has_calm_sibling
from analytics.supply.stream_estimate import BlockMeans
from telemetry.frames import FloatArray, filled

GROUPS = np.array([0, 0, 0, 1, 1])


def block(current_a: FloatArray) -> BlockMeans:
    """Return a block in which the current of each supply steps by half of its mean each way."""
    n = len(current_a)
    return BlockMeans(
        seconds=2.0,
        samples=np.full(n, 50.0),
        mean_a=current_a,
        mean_v=np.full(n, 54.0),
        spread_a=0.25 * current_a,
        spread_v=np.full(n, 0.01),
    )


def after(*blocks: FloatArray) -> BusShares:
    shares = filled(BusShares, len(GROUPS))
    for current_a in blocks:
        shares = shares.after_block(block(current_a), GROUPS)
    return shares


def test_shares_stay_where_the_load_alone_moves_and_move_with_a_joint_on_its_own_bus() -> None:
    usual = [np.full(5, 40.0 + number) for number in range(20)]
    assert after(*usual).stay(GROUPS).tolist() == [True] * 5
    worn = [np.array([30.0, 45.0, 45.0, 40.0, 40.0])] * 10
    assert after(*usual, *worn).stay(GROUPS).tolist() == [False, False, False, True, True]


def test_shares_that_are_not_known_do_not_stay() -> None:
    assert not after(*[np.full(5, 40.0)] * 3).stay(GROUPS).any()


def test_a_sibling_is_calm_if_it_was_seen_and_its_resistance_is_as_usual() -> None:
    ratio = np.array([1.5, 1.02, 1.3, 1.5, 1.01])
    seen = np.array([True, True, True, True, False])
    assert has_calm_sibling(ratio, seen, GROUPS, within=0.08).tolist() == [True, False, True, False, False]
