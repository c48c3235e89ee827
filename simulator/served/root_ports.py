"""PCIe root port of each GPU: a bus for every NUMA node, without a GPU on it."""

from simulator.files.node import NodeFile

# Sky Lake-E PCI Express Root Port A, pci-ids.ucw.cz; assumption: on every node.
PORT_VENDOR, PORT_DEVICE = 0x8086, 0x2030


def root_ports(node: NodeFile) -> tuple[str | None, ...]:
    """Return the address of the root port above each GPU, None where none is seen.

    The bus of a host bridge is numbered before all that is found behind it (PCI Local Bus 3.0, type 1 header: the
    secondary bus lies above the primary one), so the ports of a NUMA node are put on the highest free bus below its
    first GPU; one device number for each GPU keeps them apart where two nodes share a bus. Assumption: nothing but the
    root port lies between. No bus lies below a GPU on bus 0: a virtual machine was given it, the port stays with the
    host.
    """
    places = [_place(slot.pci) for slot in node.slots]
    taken = set(places)
    first: dict[tuple[str, int], int] = {}
    for (domain, bus), slot in zip(places, node.slots, strict=True):
        first[domain, slot.numa] = min(bus, first.get((domain, slot.numa), bus))
    ports: list[str | None] = []
    for gpu, ((domain, _), slot) in enumerate(zip(places, node.slots, strict=True)):
        free = [root for root in range(first[domain, slot.numa]) if (domain, root) not in taken]
        ports.append(f"{domain}:{free[-1]:02x}:{gpu:02x}.0" if free else None)
    return tuple(ports)


def _place(address: str) -> tuple[str, int]:
    """Return domain and bus of a PCI address."""
    domain, bus, _ = address.split(":")
    return domain, int(bus, 16)
