"""Tables of inputs that sag, are lost and come back: 400 rows each."""

from collections.abc import Callable

import numpy as np

from telemetry.entities import EntityKind
from telemetry.frames import Frame
from tests.analytics.scenes import frame_of, supply

_ROWS = 400
USUAL_V = 230.0


def sags(seed: int, signal: str, *, lost: bool) -> Frame:
    """Two inputs at 1 Hz: both sag for a while, and one is lost later if `lost`; with gaps."""
    rng = np.random.default_rng(seed)
    rows = np.arange(_ROWS)[:, np.newaxis]
    first, second = int(rng.integers(60, 120)), int(rng.integers(200, 260))
    sagging = (rows >= first) & (rows < first + rng.integers(3, 40))
    gone = (rows >= second) & (rows < second + 60) & (np.arange(2) == 0) & lost
    ratio = np.where(gone, 0.0, np.where(sagging, rng.uniform(0.5, 0.85), 1.0))
    volts = np.round(4.0 * (USUAL_V + rng.normal(0.0, 0.4, (_ROWS, 2))) * ratio) / 4.0
    volts[np.repeat(rng.random((_ROWS // 40, 2)) < 0.1, 40, axis=0)] = np.nan
    columns = {signal: volts, "current_a": np.where(gone, 0.0, 40.0 + rng.normal(0.0, 1.0, (_ROWS, 2)))}
    return frame_of(EntityKind.SUPPLY, (supply(0), supply(1)), columns, rate_hz=1.0)


SCENES: dict[str, Callable[[int], Frame]] = {
    "input_voltage": lambda seed: sags(seed, "input_voltage_v", lost=True),
    "feed_voltage": lambda seed: sags(seed, "voltage_v", lost=True),
    "mains_voltage": lambda seed: sags(seed, "mains_voltage_v", lost=False),
}
