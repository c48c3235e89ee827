"""Connectors whose pins are read five times a second, and faults of their contacts and of their monitor."""

from collections.abc import Callable, Sequence

import numpy as np

from analytics.detectors.connector_pins import ConnectorPins, ConnectorPinsState
from analytics.detectors.limits import DetectorLimits
from evaluation.injection import pins as faults
from evaluation.injection.pins import Pins
from telemetry.catalogue.pins import PINS
from telemetry.entities import EntityKind
from telemetry.frames import FloatArray, Frame
from telemetry.records import Finding
from tests.analytics.scenes import frame_of, gpu, node_of

RATE_HZ = 5.0
# As the recordings of a RTX 5090 have them at a full load.
SHARES = np.array([0.1585, 0.1623, 0.1717, 0.1642, 0.1774, 0.1659])
E_V, COMMON_OHM = 12.18, 0.0048


def healthy(total_a: FloatArray, *, seed: int = 1) -> Pins:
    """Pins of a healthy connector that carries so much, one reading a row, in the steps of the monitor."""
    chance = np.random.default_rng(seed)
    current_a = total_a[:, np.newaxis] * SHARES + 0.01 * chance.standard_normal((len(total_a), 6))
    voltage_v = E_V - COMMON_OHM * total_a[:, np.newaxis] + 0.003 * chance.standard_normal((len(total_a), 6))
    return Pins(voltage_v=voltage_v, current_a=current_a).stepped()


def load_a(rows: int, *, full_a: float = 45.0, seed: int = 1) -> FloatArray:
    """A load that moves by two per cent from reading to reading."""
    return full_a * (1.0 + 0.02 * np.random.default_rng(seed).standard_normal(rows))


def from_row(whole: Pins, row: int, fault: Callable[[Pins], Pins], *, until: int | None = None) -> Pins:
    """Return pins with a fault in the rows from one to another."""
    part = slice(row, until)
    spoiled = fault(Pins(voltage_v=whole.voltage_v[part], current_a=whole.current_a[part]))
    voltage_v, current_a = whole.voltage_v.copy(), whole.current_a.copy()
    voltage_v[part], current_a[part] = spoiled.voltage_v, spoiled.current_a
    return Pins(voltage_v=voltage_v, current_a=current_a)


def pins_frame(connectors: Sequence[Pins], *, rate_hz: float = RATE_HZ, start_s: float = 0.0) -> Frame:
    """Return the table of one connector a GPU."""
    columns = {
        name: np.stack([np.hstack([one.voltage_v, one.current_a])[:, place] for one in connectors], axis=1)
        for place, name in enumerate(PINS)
    }
    members = tuple(gpu(number) for number in range(len(connectors)))
    return frame_of(EntityKind.GPU, members, columns, rate_hz=rate_hz, start_s=start_s, name="gpu_pins")


def judged(*frames: Frame) -> tuple[ConnectorPinsState, list[Finding]]:
    """Return the state after frames in order, and their findings."""
    detector = ConnectorPins(limits=DetectorLimits().connector_pins)
    state = detector.start(frames[0].spec)
    findings: list[Finding] = []
    for frame in frames:
        state, found = detector.step(state, frame, node_of(len(frame.spec.entities), 0))
        findings.extend(found)
    return state, findings


def troubled(seed: int) -> Frame:
    """400 rows of four GPUs: a contact that opens, a pin over its rating, zeros, readings that repeat; a gap."""
    whole = [healthy(load_a(400, seed=4 * seed + one), seed=4 * seed + one) for one in range(4)]
    connectors = [
        from_row(whole[0], 200, lambda pins: faults.open_pin(pins, 2)),
        healthy(np.where(np.arange(400) < 300, 56.0, 20.0) + load_a(400, full_a=1.0), seed=seed),
        from_row(whole[2], 200, faults.zeros, until=300),
        from_row(whole[3], 150, faults.stuck, until=380),
    ]
    frame = pins_frame(connectors)
    frame.values[100:110] = np.nan
    return frame


SCENES: dict[str, Callable[[int], Frame]] = {"connector_pins": troubled}
