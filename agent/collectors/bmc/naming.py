"""Meaning of sensor names: vendors choose them freely, so these patterns are conventions and no standard.

Published listings that were used: an Intel board (github.com/sudoshs/tera-anomaly, IPMI-Header.md), the IPMI plugin of
ExaMon (IBM POWER9), NetApp's GetIpmiInfo, Graphcore's IPU-M2000 BMC guide. The rest are assumptions.
"""

import re

from agent.collectors.bmc.point import Place, Quantity
from telemetry.controller_names import slug

_SUPPLY = re.compile(r"^(?:psu|ps|power[ _]?supply|pws|pwr[ _]?supply)[ _#-]?(\d+|[a-d]\b)", re.IGNORECASE)
_FAN = re.compile(r"\bfan|fan\d|^sys_fan|tach", re.IGNORECASE)
_FAN_UNIT = re.compile(r"^(.*?fan[ _-]?[\w.]*\d+[a-z]?)", re.IGNORECASE)
_INLET = re.compile(r"inlet|ambient|intake|front.?panel|fnt.?pnl|air.?in\b", re.IGNORECASE)
_OUTLET = re.compile(r"outlet|exhaust|exit.?air|air.?out\b", re.IGNORECASE)
_GPU = re.compile(r"(?<![a-z])gpu(?![a-z])|accelerator|(?<![a-z])oam\d", re.IGNORECASE)
# Temperatures that other sources measure better, and distances to a limit, which are no temperatures.
_NOT_BOARD = re.compile(
    r"cpu|(?<![a-z])p\d(?!\d)|dimm|drive|hdd|ssd|nvme|dts|ma?r?gi?n(?![a-z])|mrgn|throttle", re.IGNORECASE
)
# iDRAC names a supply's mains side "Voltage 1" and "Current 1", and has no other.
_INPUT = re.compile(
    r"\b(?:v|i|p)in\b|input|\bin\b|\bac\b|line|_in(?:_|$)|(?:v|i|p)in(?:_|$)|^(?:ps\d+ )?(?:voltage|current) \d+$",
    re.IGNORECASE,
)
# Not the number of a part: ``PSU5 Vout``, ``CPU1 Vcore``.
_RAIL = re.compile(
    r"(?<![\d.])(\d{1,2}(?:[._]\d+)?)(?:v|[ _]v(?![a-z]))(?![a-z]*sb|.?st)|\bv(12|48|54)\b", re.IGNORECASE
)
_RAIL_WITH_POINT = re.compile(r"(\d{1,2})v(\d{1,2})(?!\d)", re.IGNORECASE)
_STANDBY = re.compile(r"sb\b|standby|stby|aux|bat", re.IGNORECASE)
_WHOLE_NODE = re.compile(
    r"^(?:node|system|sys|total|chassis|server|board)?[ _-]*(?:input[ _-]*)?"
    r"(?:power|pwr)[ _-]*(?:consumption|meter|input|total|draw)?$|total.?power|pwr? consumption",
    re.IGNORECASE,
)


def supply_unit(name: str) -> str:
    """Return the supply in a name, as in ``psu0``; empty where there is none."""
    found = _SUPPLY.match(name.strip())
    return "" if found is None else f"psu{found[1].lower()}"


def fan_unit(name: str) -> str:
    """Return the fan in a name, as in ``fan3a``."""
    found = _FAN_UNIT.match(name.strip())
    return slug(found[1] if found is not None else name)


def place_of(name: str, quantity: Quantity) -> Place:
    """Return the place of a sensor by its name; the board where the name has none."""
    if supply_unit(name):
        return Place.SUPPLY
    if quantity in (Quantity.FAN_SPEED, Quantity.FAN_DUTY) or (quantity is not Quantity.POWER and _FAN.search(name)):
        return Place.FAN
    for pattern, place in ((_GPU, Place.GPU), (_INLET, Place.INLET), (_OUTLET, Place.OUTLET)):
        if pattern.search(name):
            return place
    return Place.BOARD


def is_input(name: str) -> bool:
    """Return True if a supply's sensor is on the mains side."""
    return _INPUT.search(name) is not None


def is_board_temperature(name: str) -> bool:
    """Return True if a temperature is of the board itself, not of its processors, memory or drives."""
    return _NOT_BOARD.search(name) is None


def is_whole_node(name: str) -> bool:
    """Return True if a power is that of the whole node."""
    return _WHOLE_NODE.search(name.strip()) is not None


def is_standby(name: str) -> bool:
    """Return True for a rail that is on while the node is off, and for a battery."""
    return _STANDBY.search(name) is not None


def rail_nominal_v(name: str) -> float | None:
    """Return the nominal volts in a rail's name: ``P12V``, ``+3.3V``, ``P3V3``; None for standby rails."""
    if is_standby(name):
        return None
    pointed = _RAIL_WITH_POINT.search(name)
    if pointed is not None:
        return float(f"{pointed[1]}.{pointed[2]}")
    found = _RAIL.search(name)
    if found is None:
        return None
    return float((found[1] or found[2]).replace("_", "."))
