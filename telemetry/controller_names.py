"""Names of what the controller of a board measures; hwmon often has the same ones."""

import re

SUFFIX, _PREFIX = " (bmc)", "bmc-"


def slug(name: str) -> str:
    """Return a name reduced to the characters of a key."""
    return re.sub(r"[^a-z0-9.+]+", "-", name.strip().lower()).strip("-")


def unit_key(unit: str) -> str:
    """Return the key of a controller's supply, rail or fan, distinct from those of other sources."""
    return f"{_PREFIX}{unit}"


def rail_key(sensor: str) -> str:
    """Return the key of the rail that a description means: ``bmc-p12v`` by ``P12V``, ``P12V (bmc)`` and the key."""
    return unit_key(slug(sensor.removesuffix(SUFFIX).removeprefix(_PREFIX)))
