"""Power of boards in load steps: a power limit bounds the average, and each step begins above it.

The limit is a control loop over tens of milliseconds; between two steps the clock recovers, and the next step begins
at full height.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPower:
    """Power that a part was seen to reach in load steps at its full clock; `pattern` is in the driver's name of it."""

    pattern: str
    step_w: float
    source: str


STEP_POWERS = (
    StepPower(pattern=r"V100-SXM2", step_w=350.0, source="blbadger.github.io/gpu-server: above 350 W at 1530 MHz"),
    StepPower(pattern=r"A100-SXM", step_w=475.0, source="blbadger.github.io/gpu-server: about 475 W at boost"),
)


def step_power_w(name: str) -> float | None:
    """Return the power of a part in load steps by the driver's name; None where no record of it is known."""
    return next((one.step_w for one in STEP_POWERS if re.search(one.pattern, name)), None)
