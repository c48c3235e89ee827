"""Bits of the clock event reasons (``nvmlClocksEventReasons``, nvml.h)."""

SW_POWER_CAP = 0x04
HW_SLOWDOWN = 0x08
SW_THERMAL = 0x20
HW_THERMAL = 0x40
HW_POWER_BRAKE = 0x80
# Reasons that make a GPU run cooler than its siblings at the same load.
COOLING = HW_SLOWDOWN | SW_THERMAL | HW_THERMAL | HW_POWER_BRAKE
