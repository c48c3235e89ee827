"""What is away is carried within bounds, each entity once."""

import numpy as np

from analytics.shards.learnt_away import AWAY_NS, MOST_AWAY, Lot, carried, without


def lot(kept_ns: dict[str, int], shape: str = "one") -> Lot:
    rows = np.array([*kept_ns.values()], dtype=np.float64)
    return Lot(detector="novelty", shape=shape, kept_ns=kept_ns, arrays={"far": rows})


def test_of_what_is_away_the_newest_is_carried_and_no_more_than_may_be() -> None:
    now_ns = 2 * AWAY_NS
    lots = [lot({"gpu:a": now_ns - AWAY_NS - 1, "gpu:b": now_ns - 2}), lot({"gpu:b": now_ns - 1})]
    (one,) = carried(lots, now_ns)
    assert one.kept_ns == {"gpu:b": now_ns - 1}
    many = {f"gpu:{number}": now_ns for number in range(2 * MOST_AWAY)}
    (most,) = carried([lot(many), lot({"gpu:old": now_ns - 1}, "other")], now_ns)
    assert len(most.kept_ns) == len(most.arrays["far"]) == MOST_AWAY
    assert without([lot({"gpu:a": 1}), lot({"gpu:b": 2})], ["gpu:a"])[0].kept_ns == {"gpu:b": 2}
