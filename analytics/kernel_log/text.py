"""Kernel log lines without the decoration of terminals, log daemons and web pages, and the PCI addresses in them."""

import json
import re

_COLOUR = re.compile(r"(?:\x1b|\^\[|#033|\\033|\\x1b)\[[0-9;]{0,16}[A-Za-z]")
# One kernel record may hold several lines: /dev/kmsg writes the break as \x0a, rsyslog as #012, JSON as \n.
_BREAK = re.compile(r"[\r\n]+|(?:\\x0a|\\n|#012)(?=\s{0,64}NVRM)")
# What a web page makes of "<unknown>" and its quotes. html.unescape raises on a number that is too long.
_ENTITIES = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&#39;", "'"), ("&#x27;", "'"), ("&amp;", "&"))
_JSON_KEYS = ("MESSAGE", "message", "msg", "log")


def plain_lines(text: str) -> tuple[str, ...]:
    """Return the lines of the kernel in one line of a file, without colours, entities and control characters."""
    if text.lstrip().startswith("{"):
        text = _json_message(text)
    text = text.replace("\x00", "").replace("\xa0", " ")
    if "\x1b" in text or "033[" in text or "^[[" in text or "x1b[" in text:
        text = _COLOUR.sub("", text)
    if "&" in text:
        for entity, character in _ENTITIES:
            text = text.replace(entity, character)
    return tuple(line for line in _BREAK.split(text) if line)


def _json_message(text: str) -> str:
    """Return the message of a ``journalctl -o json`` or container log line, the text itself where it is none."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(fields, dict):
        for key in _JSON_KEYS:
            if isinstance(fields.get(key), str):
                return str(fields[key])
    return text


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
