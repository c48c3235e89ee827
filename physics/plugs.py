"""Plugs, lugs and clips in a supply path, with their current ratings.

Ratings are per plug, all its contacts of one polarity together. A maker may rate his own part differently: the
configuration can give `rating_a` and `peak_a` of each plug.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PlugType:
    """Type of plug.

    Parameters
    ----------
    name
        Name in the configuration.
    rating_a
        Continuous current; None where only the configuration can name it.
    peak_a
        Short-time current that the maker or standard allows; None where neither names one.
    source
        Source of the ratings; `assumption` and `heuristic` mark those without a primary source.
    beside_slot
        True for plugs of cards that draw a part of their power from their slot.
    """

    name: str
    rating_a: float | None
    peak_a: float | None = None
    source: str
    beside_slot: bool = False


# Most power of a card that comes through its slot: PCI Express CEM 5.0, x16, 5.5 A of 12 V and 3 A of 3.3 V.
SLOT_W = 75.0
# The plug of which only the configuration knows the rating.
OTHER = "other"
_AUXILIARY = (
    "Intel, ATX Version 3.0 Multi Rail Desktop Platform Power Supply Design Guide 336521, table 3-5 (PCI Express CEM "
    "5.0): greatest RMS current over one second"
)
_COUPLER = (
    "IEC 60320-1 (table of AS/NZS 60320.1:2004); North America rates the same coupler higher (UL 60320-1): set rating_a"
)
_BOLT = "Erich Geiss, current-carrying bolts: bolt that clamps two contact surfaces and carries no current itself"
_XT60 = "secondary: the maker's 30 A and 60 A as quoted at grokipedia.com/page/XT60_connector; his sheet was not read"
_BUSBAR = (
    "assumption: a sled of 5 kW at 50 V; the OCP Open Rack connector specifications that hold the rating were not "
    "read: set rating_a"
)

PLUG_TYPES = (
    PlugType(name="XT60", rating_a=30.0, peak_a=60.0, source=_XT60),
    PlugType(
        name="banana",
        rating_a=15.0,
        source="secondary: the 15 A that the builder at blbadger.github.io/gpu-server quotes for his plugs",
    ),
    PlugType(
        name="EPS12V",
        rating_a=32.0,
        source="four contacts of 8 A, the upper end of 18 AWG wire: Intel 336521, section 2.2.1",
    ),
    PlugType(name="6-pin PCIe", rating_a=6.75, source=_AUXILIARY, beside_slot=True),
    PlugType(name="8-pin PCIe", rating_a=13.5, source=_AUXILIARY, beside_slot=True),
    PlugType(name="12VHPWR", rating_a=55.0, source=_AUXILIARY, beside_slot=True),
    PlugType(
        name="12V-2x6",
        rating_a=55.0,
        source=f"as 12VHPWR, whose contacts it keeps; {_AUXILIARY}",
        beside_slot=True,
    ),
    *(PlugType(name=name, rating_a=10.0, source=_COUPLER) for name in ("C13", "C14")),
    *(PlugType(name=name, rating_a=16.0, source=_COUPLER) for name in ("C19", "C20")),
    *(
        PlugType(name=f"lug-{thread}", rating_a=rating_a, source=_BOLT)
        for thread, rating_a in (
            ("M4", 35.0),
            ("M5", 75.0),
            ("M6", 125.0),
            ("M8", 150.0),
            ("M10", 200.0),
            ("M12", 350.0),
        )
    ),
    PlugType(name="OCP busbar clip", rating_a=100.0, source=_BUSBAR),
    PlugType(name=OTHER, rating_a=None, source="configuration: rating_a"),
)


def _folded(name: str) -> str:
    """Return a name without case, spaces and hyphens, as people vary them."""
    return "".join(sign for sign in name.casefold() if sign.isalnum())


_BY_NAME: Mapping[str, PlugType] = {_folded(plug.name): plug for plug in PLUG_TYPES}


def plug_type(name: str) -> PlugType | None:
    """Return the type of a plug, however case, spaces and hyphens are written; None if the table has none."""
    return _BY_NAME.get(_folded(name))
