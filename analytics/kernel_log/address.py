"""PCI addresses as kernel logs write them, brought to one form."""

import re

# domain:bus:device.function; nvidia-smi writes eight domain digits, Intel VMD domains have five.
ADDRESS = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?"
_FULL = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([01][0-9a-f])(?:\.([0-7]))?", re.IGNORECASE)
# The oldest drivers print no domain: "Xid (0001:00)" is bus 1, device 0.
_BUS_DEVICE = re.compile(r"00([0-9a-f]{2}):([01][0-9a-f])", re.IGNORECASE)


def normal_address(text: str) -> str | None:
    """Return ``0000:3b:00`` or ``0000:3b:00.0``, whichever the text has; None where it is no PCI address."""
    match = _FULL.fullmatch(text)
    if match is None:
        older = _BUS_DEVICE.fullmatch(text)
        return None if older is None else f"0000:{older[1]}:{older[2]}".lower()
    domain, bus, device, function = match.groups()
    slot = f"{int(domain or '0', 16):04x}:{bus}:{device}".lower()
    return slot if function is None else f"{slot}.{function}"


def slot_of(pci: str) -> str:
    """Return the address without its function digit, the form in which Xid lines name a GPU."""
    return pci.partition(".")[0]


def requester_address(requester_id: int, port: str | None) -> str:
    """Return address of a 16-bit PCIe requester id (bus, device, function) in the domain of the port that got it."""
    domain = port.partition(":")[0] if port else "0000"
    return f"{domain}:{requester_id >> 8:02x}:{(requester_id >> 3) & 0x1F:02x}.{requester_id & 0x7}"
