"""Ratings that a power supply reports of itself, as the kernel's PMBus core shows them.

``power*_rated_max`` is MFR_POUT_MAX in µW, ``curr*_rated_max`` MFR_IOUT_MAX in mA (Documentation/hwmon/pmbus.rst).
"""

import re

from agent.collectors.hwmon.channels import channels_of, text_of, whole_number_of
from agent.collectors.hwmon.tree import Rail

_MICRO, _MILLI = 1e-6, 1e-3
_OUTPUT = re.compile(r"vout(\d+)")


def rated_power_of(rail: Rail) -> float | None:
    """Return the rated output power of a rail in watts, None where its chip reports none.

    It is that of the power channel with the same output (``pout1`` of ``vout1``), else the rated current at the nominal
    voltage. Attributes of the input side are no rating of an output.
    """
    device = rail.voltage.parent
    output = _OUTPUT.fullmatch(text_of(rail.voltage.with_name(f"{_stem(rail.voltage.name)}_label")))
    powers = [channel for channel in channels_of(device, "power") if output and channel.label == f"pout{output[1]}"]
    for channel in powers:
        rated_uw = whole_number_of(device / f"{channel.stem}_rated_max")
        if rated_uw is not None and rated_uw > 0:
            return rated_uw * _MICRO
    if rail.current is None:
        return None
    rated_ma = whole_number_of(device / f"{_stem(rail.current.name)}_rated_max")
    return None if rated_ma is None or rated_ma <= 0 else rated_ma * _MILLI * rail.rail_class.nominal_v


def _stem(name: str) -> str:
    return name.removesuffix("_input")
