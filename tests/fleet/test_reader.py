"""Series of the store as the fleet lays them out."""

import numpy as np

from fleet.reader import merged_by_entity, tag_key


def test_the_series_of_one_entity_are_joined_with_the_tags_of_every_table() -> None:
    nan = float("nan")
    rail = tag_key({"node": "node0", "entity": "psu0", "sensor": "pmbus", "nominal_v": "54"})
    board = tag_key({"node": "node0", "entity": "psu0", "sensor": "ipmi"})
    other = tag_key({"node": "node1", "entity": "psu0", "sensor": "pmbus"})
    values = {rail: np.array([[53.9, nan]]), other: np.array([[12.0, nan]]), board: np.array([[nan, 900.0]])}
    found = merged_by_entity(values.items())
    joined = tag_key({"node": "node0", "entity": "psu0", "sensor": "ipmi", "nominal_v": "54"})
    assert found.keys() == {joined, other}
    assert found[joined].tolist() == [[53.9, 900.0]]
