"""Readings of a 12 V rail behind a bus of 54 V, from a converter with a resistance; not of the simulator."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from telemetry.entities import BOARD_PLACE, NOMINAL_TAG, PLACE_TAG, SOURCE_TAG, Entity, EntityKind
from telemetry.frames import FloatArray, Frame
from tests.analytics.scenes import frame_of

ROWS = 400


def main_supply(number: int, nominal_v: float = 54.0) -> Entity:
    return Entity(
        kind=EntityKind.SUPPLY, key=f"psu{number}", name=f"psu{number}", tags=((NOMINAL_TAG, f"{nominal_v:g}"),)
    )


def board_rail(nominal_v: float = 12.0) -> Entity:
    tags = ((SOURCE_TAG, "bmc"), (NOMINAL_TAG, f"{nominal_v:g}"), (PLACE_TAG, BOARD_PLACE))
    name = f"P{nominal_v:g}V"
    return Entity(kind=EntityKind.SUPPLY, key=f"bmc-{name.lower()}", name=f"{name} (bmc)", tags=tags)


P12V, P54V = board_rail(), board_rail(54.0)
MEMBERS = (main_supply(0), main_supply(1), P54V, P12V)


@dataclass(frozen=True, slots=True, kw_only=True)
class Converter:
    """A converter of a fixed output, or of a fixed ratio; its load, and the meter of the controller.

    `weak_ohm` is its resistance from a row on, `bus_sag_v` how far the bus falls then; `round_s` is how long the
    controller shows a reading.
    """

    is_fixed_ratio: bool = False
    set_v: float = 12.1
    load_a: float = 60.0
    ohm: float = 0.001
    weak_ohm: float = 0.001
    bus_sag_v: float = 0.0
    board_drop_v: float = 0.0
    since: int = 100
    until: int | None = None
    step_v: float = 0.063
    round_s: int = 1

    def frame(self, *, seed: int = 0, rate_hz: float = 1.0) -> Frame:
        """Return rows as the detector gets them: outputs of the supplies, and rails of the board."""
        rng = np.random.default_rng(seed)
        late = np.zeros(ROWS, dtype=np.bool_)
        late[self.since : self.until] = True
        bus_v = 54.1 - np.where(late, self.bus_sag_v, 0.0) + rng.normal(0.0, 0.02, ROWS)
        board_v = bus_v - 0.1 - np.where(late, self.board_drop_v, 0.0)
        load_a = self.load_a * rng.uniform(0.9, 1.0, ROWS)
        open_v = board_v * self.set_v / 54.0 if self.is_fixed_ratio else np.full(ROWS, self.set_v)
        rail_v = open_v - load_a * np.where(late, self.weak_ohm, self.ohm)
        nothing = np.full(ROWS, np.nan)
        shown_v = [self._shown(board_v, 0.25), self._shown(rail_v, self.step_v)]
        columns = {
            "voltage_v": np.stack((bus_v, bus_v, nothing, nothing), axis=1),
            "rail_voltage_v": np.stack((nothing, nothing, *shown_v), axis=1),
        }
        return frame_of(EntityKind.SUPPLY, MEMBERS, columns, rate_hz=rate_hz, name="supply")

    def _shown(self, true_v: FloatArray, step_v: float) -> FloatArray:
        rounded_v = np.round(true_v / step_v) * step_v
        return np.asarray(rounded_v[np.arange(len(true_v)) // self.round_s * self.round_s], dtype=np.float64)


def weak_converter(seed: int) -> Frame:
    """Return a converter whose output falls to 11.1 or 10.9 V under its load, and is exchanged."""
    return Converter(weak_ohm=(0.018, 0.021)[seed % 2], until=300).frame(seed=seed)


SCENES: dict[str, Callable[[int], Frame]] = {"converter_rail": weak_converter}
