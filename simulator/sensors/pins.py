"""Monitors of the pins of GPUs' power connectors, each on its card."""

import numpy as np

from physics.connector_pins import pin_shares, side_by_side_ohm
from simulator.files.node import NodeFile, PowerConnector
from simulator.files.sensing import pin_labels
from simulator.files.sensor import SensorKind
from simulator.plant.state import PlantNodeState, Stretch
from simulator.sensors.instrument import view_of
from simulator.sensors.instrument_builder import REQUIRED, InstrumentBuilder, Role
from telemetry.catalogue.pins import PIN_COUNT
from telemetry.frames import FloatArray

_LEAST_V = 1.0  # a bus at zero volts carries nothing


class PinMonitors:
    """Volts and amperes of every pin, all of one GPU at one moment.

    Attributes
    ----------
    instrument
        The values: voltages of all GPUs, pin by pin, and then currents.
    voltage_v, current_a
        What they show, ``(n_gpus, 6)``.
    """

    def __init__(self, building: InstrumentBuilder, kind: SensorKind) -> None:
        node = building.node
        voltages, currents = pin_labels(node)
        named = zip(REQUIRED[Role.PINS], (voltages, currents), strict=True)
        (self.instrument,) = building.instruments(kind, list(named))
        self._connector = connector_of(node)
        self._bus = np.array(node.wiring.of_gpu, dtype=np.intp)
        shape = (node.gpu_count, PIN_COUNT)
        self.voltage_v = view_of((self.instrument,), voltages).reshape(shape)
        self.current_a = view_of((self.instrument,), currents).reshape(shape)

    def begin(self, block: Stretch, state: PlantNodeState) -> None:
        """Show everything at once."""
        self.instrument.begin(self._true(block, state)[0])

    def advance(self, start_ms: int, block: Stretch, state: PlantNodeState) -> None:
        """Process a block; the monitor of a GPU that is lost or without power is not read."""
        present = state.gpus.present & state.powered
        answering = None if present.all() else np.tile(np.repeat(present, PIN_COUNT), 2)
        self.instrument.advance(start_ms, self._true(block, state), answering=answering)

    def _true(self, block: Stretch, state: PlantNodeState) -> FloatArray:
        """Return the true voltages and then currents, ``(n_ms, 12 n_gpus)``."""
        voltage_v, current_a = pins_of(
            self._connector,
            power_w=block.power_w,
            bus_v=block.bus_v[:, self._bus],
            gained_mohm=state.gpus.pin_mohm,
        )
        rows = len(block.power_w)
        return np.concatenate([voltage_v.reshape(rows, -1), current_a.reshape(rows, -1)], axis=1)


def connector_of(node: NodeFile) -> PowerConnector:
    """Return the connector of a node's GPUs; ValueError where its file has none."""
    if node.connector is None:
        raise ValueError(f"node {node.name} has no connector whose pins could be measured")
    return node.connector


def pins_of(
    connector: PowerConnector, *, power_w: FloatArray, bus_v: FloatArray, gained_mohm: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return volts and amperes of every pin, ``(n_ms, n_gpus, 6)``.

    The six paths lie side by side between the bus and the point at which the pins meet on the card, each with its
    shunt; a voltage is measured before the shunt. What the slot carries is none of theirs.

    Parameters
    ----------
    power_w, bus_v
        Of each GPU, ``(n_ms, n_gpus)``.
    gained_mohm
        What each path gained, ``(n_gpus, 6)``.
    """
    shunt_ohm = connector.shunt_mohm / 1000.0
    path_ohm = (np.array(connector.pins_mohm) + gained_mohm) / 1000.0 + shunt_ohm
    total_a = (1.0 - connector.slot_ratio) * power_w / np.maximum(bus_v, _LEAST_V)
    current_a = total_a[:, :, np.newaxis] * np.nan_to_num(pin_shares(path_ohm))
    card_v = bus_v - total_a * np.nan_to_num(side_by_side_ohm(path_ohm), posinf=0.0)
    return card_v[:, :, np.newaxis] + shunt_ohm * current_a, current_a
