"""Absent entities are carried within bounds, each once."""

import numpy as np

from analytics.shards.learnt_batches import AWAY_NS, MOST_AWAY, LearntBatch, carried, without


def batch(kept_ns: dict[str, int], shape: str = "one") -> LearntBatch:
    rows = np.array([*kept_ns.values()], dtype=np.float64)
    return LearntBatch(detector="novelty", shape=shape, kept_ns=kept_ns, arrays={"far": rows})


def test_of_what_is_away_the_newest_is_carried_and_no_more_than_may_be() -> None:
    now_ns = 2 * AWAY_NS
    batches = [batch({"gpu:a": now_ns - AWAY_NS - 1, "gpu:b": now_ns - 2}), batch({"gpu:b": now_ns - 1})]
    (one,) = carried(batches, now_ns)
    assert one.kept_ns == {"gpu:b": now_ns - 1}
    many = {f"gpu:{number}": now_ns for number in range(2 * MOST_AWAY)}
    (most,) = carried([batch(many), batch({"gpu:old": now_ns - 1}, "other")], now_ns)
    assert len(most.kept_ns) == len(most.arrays["far"]) == MOST_AWAY
    assert without([batch({"gpu:a": 1}), batch({"gpu:b": 2})], ["gpu:a"])[0].kept_ns == {"gpu:b": 2}
