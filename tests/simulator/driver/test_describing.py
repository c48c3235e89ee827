import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.driver.describing import END_NOTHING, END_SWITCH, describe_links, peer_of
from simulator.driver.layout import LINK_END, MAX_LINKS
from simulator.files.node import load_node


@given(n_gpus=st.integers(2, 32), link=st.integers(0, MAX_LINKS - 1))
def test_a_link_ends_at_a_gpu_whose_link_of_that_number_leads_back(n_gpus: int, link: int) -> None:
    for gpu in range(n_gpus):
        peer = peer_of(gpu, link, n_gpus)
        if peer is not None:
            assert 0 <= peer.gpu < n_gpus
            assert peer.gpu != gpu
            back = peer_of(peer.gpu, peer.link, n_gpus)
            assert back is not None
            assert (back.gpu, back.link) == (gpu, link)
        else:
            assert n_gpus % 2 == 1


@given(n_gpus=st.sampled_from([2, 4, 6, 8]))
def test_every_pair_has_as_many_links_give_or_take_one(n_gpus: int) -> None:
    counts = np.zeros((n_gpus, n_gpus), dtype=int)
    for gpu in range(n_gpus):
        for link in range(6):
            peer = peer_of(gpu, link, n_gpus)
            assert peer is not None
            counts[gpu, peer.gpu] += 1
    pairs = counts[~np.eye(n_gpus, dtype=bool)]
    assert pairs.max() - pairs.min() <= 1


def test_a_single_gpu_has_no_peer() -> None:
    assert peer_of(0, 0, 1) is None


def test_a_switch_is_the_other_end_of_every_link() -> None:
    ends = np.zeros(MAX_LINKS, dtype=LINK_END)
    describe_links(ends, load_node("h100x8"), 3)
    assert set(ends["kind"].tolist()) == {END_SWITCH}
    assert len(set(ends["pci_bus"].tolist())) == 4


def test_without_a_fabric_links_lead_nowhere() -> None:
    ends = np.zeros(MAX_LINKS, dtype=LINK_END)
    describe_links(ends, load_node("v100x4").model_copy(update={"fabric": "none"}), 0)
    assert set(ends["kind"].tolist()) == {END_NOTHING}


def test_only_ends_of_links_are_written() -> None:
    with pytest.raises(ValueError, match="not the ends of links"):
        describe_links(np.zeros(3, dtype=np.dtype([("kind", "u4")])), load_node("v100x4"), 0)
