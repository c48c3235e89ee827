"""Readings of the pins of connectors: which rows brought one, and which of them are no readings at all.

A monitor that answers with zeros ("0 A everywhere") or with a voltage that no connector has shows nothing of the pins:
such a reading is refused.
"""

from dataclasses import dataclass

import numpy as np

from analytics.connectivity import GroupArray
from physics.connector_pins import PIN_V
from telemetry.catalogue.pins import PIN_COUNT, PINS
from telemetry.frames import FloatArray, Frame, MaskArray, TimeArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PinRows:
    """Rows of all connectors: values ``(n_rows, n_gpus, 12)``, six volts and six amperes; masks ``(n_rows, n_gpus)``.

    Attributes
    ----------
    read
        Where a row brought a reading.
    good
        Where that reading counts.
    empty
        Where the newest values are zeros, new or held.
    """

    time_ns: TimeArray
    values: FloatArray
    read: MaskArray
    good: MaskArray
    empty: MaskArray

    @staticmethod
    def of(frame: Frame) -> "PinRows":
        """Return the rows of a frame with the signals of pins."""
        places = [frame.spec.signals.index(name) for name in PINS]
        values = frame.values[:, :, places]
        volts, amperes = values[:, :, :PIN_COUNT], values[:, :, PIN_COUNT:]
        known = np.asarray(np.isfinite(values).all(axis=2))
        zero_a = np.asarray((amperes == 0.0).all(axis=2))
        read = np.asarray(frame.fresh[:, :, places].any(axis=2) & np.isfinite(values).any(axis=2))
        plausible = np.asarray(((volts > PIN_V[0]) & (volts < PIN_V[1])).all(axis=2))
        return PinRows(
            time_ns=frame.time_ns,
            values=values,
            read=read,
            good=read & known & plausible & ~zero_a,
            empty=zero_a,
        )

    def part(self, rows: slice | GroupArray) -> "PinRows":
        """Return some of the rows."""
        return PinRows(
            time_ns=self.time_ns[rows],
            values=self.values[rows],
            read=self.read[rows],
            good=self.good[rows],
            empty=self.empty[rows],
        )

    @property
    def voltage_v(self) -> FloatArray:
        """Voltages, ``(n_rows, n_gpus, 6)``."""
        return self.values[:, :, :PIN_COUNT]

    @property
    def current_a(self) -> FloatArray:
        """Currents, ``(n_rows, n_gpus, 6)``."""
        return self.values[:, :, PIN_COUNT:]
