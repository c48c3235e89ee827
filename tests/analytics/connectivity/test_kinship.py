import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from analytics.connectivity import Kinship, any_sibling, sibling_groups, sibling_median
from telemetry.entities import Entity, EntityKind, Topology
from tests.analytics.scenes import fleet_of, gpu, node_of

NAN = float("nan")


@given(
    values=st.lists(st.one_of(st.floats(-50, 50), st.just(NAN)), min_size=1, max_size=24),
    seed=st.integers(0, 100),
    least=st.integers(1, 3),
)
def test_sibling_median_is_the_median_of_the_known_others(values: list[float], seed: int, least: int) -> None:
    array = np.array(values)
    groups = np.random.default_rng(seed).integers(0, 4, len(values))
    found = sibling_median(array, groups, min_siblings=least)
    for index in range(len(values)):
        others = [
            value
            for place, value in enumerate(values)
            if place != index and groups[place] == groups[index] and not np.isnan(value)
        ]
        want = np.median(others) if len(others) >= least else NAN
        np.testing.assert_allclose(found[index], want, atol=1e-12)


@given(mask=st.lists(st.booleans(), min_size=1, max_size=20), seed=st.integers(0, 100))
def test_any_sibling_looks_at_all_but_the_entity_itself(mask: list[bool], seed: int) -> None:
    groups = np.random.default_rng(seed).integers(0, 4, len(mask))
    found = any_sibling(np.array(mask), groups)
    for index in range(len(mask)):
        others: npt.NDArray[np.bool_] = np.delete(np.array(mask) & (groups == groups[index]), index)
        assert found[index] == others.any()


def test_gpus_of_one_node_are_siblings_however_they_are_fed() -> None:
    topology = fleet_of(3, 4)
    groups = sibling_groups(topology.of_kind(EntityKind.GPU), topology)
    assert groups.tolist() == [0] * 4 + [1] * 4 + [2] * 4


def test_two_gpus_on_two_shared_supplies_point_to_the_node() -> None:
    kinship = Kinship.of(node_of(4, 2))
    assert kinship.common_root(["gpu:GPU-0", "gpu:GPU-1"]) == "node:box"
    assert kinship.common_root(["supply:psu0", "supply:psu1"]) == "node:box"
    assert kinship.common_root(["supply:psu0", "gpu:GPU-1"]) == "supply:psu0"


def test_two_gpus_on_one_supply_point_to_the_supply() -> None:
    kinship = Kinship.of(node_of(4, 1))
    assert kinship.common_root(["gpu:GPU-0", "gpu:GPU-1"]) == "supply:psu0"


def test_strangers_have_no_root_and_one_entity_is_its_own() -> None:
    kinship = Kinship.of(Topology(entities=(gpu(0), gpu(1))))
    assert kinship.common_root(["gpu:GPU-0", "gpu:GPU-1"]) is None
    assert kinship.common_root(["gpu:GPU-0"]) == "gpu:GPU-0"
    assert kinship.top("gpu:GPU-0") == "gpu:GPU-0"


def test_gpus_under_an_entity_count_each_once_and_a_gpu_itself() -> None:
    kinship = Kinship.of(node_of(4, 2))
    assert len(kinship.gpus_under("node:box")) == 4
    assert kinship.gpus_under("gpu:GPU-3") == ("gpu:GPU-3",)


def test_a_shared_pair_of_supplies_without_a_node_points_to_the_first() -> None:
    supplies = [Entity(kind=EntityKind.SUPPLY, key=key, name=key) for key in ("b", "a")]
    edges = tuple((feed.id, fed.id) for feed in supplies for fed in (gpu(0), gpu(1)))
    kinship = Kinship.of(Topology(entities=(*supplies, gpu(0), gpu(1)), edges=edges))
    assert kinship.common_root(["gpu:GPU-0", "gpu:GPU-1"]) == "supply:b"
