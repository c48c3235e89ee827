"""Plausible ranges of values from meters, controllers and other programs.

They are wide on purpose: a value outside is an error of scale, unit or sign, or of a missing sensor; detectors judge
the values inside. heuristic: bounds without a source.
"""

import math

from telemetry.catalogue.signal import Range

BY_UNIT: dict[str, Range] = {
    # IEC 60038: low voltage ends at 1 kV AC and 1.5 kV DC; rails and supplies fed with -48 V are negative.
    "V": (-1500.0, 1500.0),
    # A shunt shows small negative currents, a rack's busbar carries thousands.
    "A": (-10_000.0, 10_000.0),
    # A row of racks.
    "W": (-1e6, 1e6),
    "J": (0.0, math.inf),
    # DC, aircraft's 400 Hz, and room for a meter that counts half waves.
    "Hz": (0.0, 1000.0),
    # From the coldest air to what melts solder.
    "°C": (-100.0, 250.0),
    # The fastest fans of servers turn at 40 000.
    "rpm": (0.0, 100_000.0),
    # A share may be rounded up, and of several processors it may be more than one.
    "ratio": (0.0, 3.0),
    "B": (0.0, math.inf),
    "s": (0.0, math.inf),
    # Counts and flags.
    "": (0.0, math.inf),
}
