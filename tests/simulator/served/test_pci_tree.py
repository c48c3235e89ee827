"""Root ports lie where PCI allows it, and never where a GPU is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.files.node import Slot, load_node
from simulator.served.pci_tree import root_ports

NODE = load_node("v100x4")
PLACES = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 255), st.integers(0, 3)),
    min_size=1,
    max_size=32,
    unique_by=lambda place: place[:2],
)


def test_the_ports_of_one_numa_node_share_the_bus_below_its_first_gpu() -> None:
    assert root_ports(NODE) == tuple(f"0000:19:0{gpu}.0" for gpu in range(4))


@pytest.mark.parametrize("name", ["a100x8", "b200x8", "h100x8"])
def test_every_numa_node_has_a_host_bridge_of_its_own(name: str) -> None:
    node = load_node(name)
    bridges = {(port or "")[:7]: slot.numa for port, slot in zip(root_ports(node), node.slots, strict=True)}
    assert sorted(bridges.values()) == sorted({slot.numa for slot in node.slots})


@given(places=PLACES)
def test_no_port_shares_a_bus_with_a_gpu_or_an_address_with_a_port_and_each_lies_below_its_gpu(
    places: list[tuple[int, int, int]],
) -> None:
    slots = tuple(Slot(pci=f"{domain:04x}:{bus:02x}:00.0", preheat_k=0.0, numa=numa) for domain, bus, numa in places)
    ports = root_ports(NODE.model_copy(update={"slots": slots}))
    seen = [port for port in ports if port is not None]
    assert len(seen) == len(set(seen))
    assert not {port[:7] for port in seen} & {slot.pci[:7] for slot in slots}
    for port, slot in zip(ports, slots, strict=True):
        assert port is None or (port[:4] == slot.pci[:4] and port[5:7] < slot.pci[5:7])
        if slot.pci[5:7] == "00":
            assert port is None
