"""A day of normal telemetry opens no incident; a fault in the same stream opens one."""

from dataclasses import replace

import numpy as np

from analytics.detectors.limits import DetectorLimits
from analytics.detectors.panel import Panel
from analytics.incidents.book import IncidentBook
from analytics.incidents.families import ELECTRICAL, family_of
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame
from telemetry.records import Cause, Incident
from tests.analytics.scenes import frame_of, node_of

TOPOLOGY = node_of(4, 2)
PERIOD_S = 5.0
SHIFTS = 3


def day(*, resistance_ohm: float = 0.0055, hours: int = 24) -> tuple[Frame, Frame]:
    """Four V100 with jobs that come and go, warm afternoons, sensor noise and 0.5 % missing samples."""
    n_rows = round(3600 * hours / PERIOD_S)
    rng = np.random.default_rng(11)
    time_s = np.arange(n_rows) * PERIOD_S
    job = np.repeat(rng.random(n_rows // 360 + 1) < 0.7, 360)[:n_rows]
    inlet_c = 24 + 3 * np.sin(2 * np.pi * time_s / 86_400)
    high_phase = rng.random(n_rows) < 0.7
    power_w = np.where(job, np.where(high_phase, 300.0, 180.0), 45.0)[:, None] * rng.normal(1, 0.01, (n_rows, 4))
    mean_w = np.convolve(power_w.mean(axis=1), np.ones(6) / 6, mode="same")[:, None]
    temp_c = np.round(inlet_c[:, None] + mean_w * np.array([0.112, 0.115, 0.118, 0.116]))
    amps = (power_w.sum(axis=1) + 350.0) / 12.0 / 2
    volts = 12.30 - 2 * resistance_ohm * amps
    supplies = TOPOLOGY.of_kind(EntityKind.SUPPLY)
    shape = (n_rows, 2)

    def holed(values: FloatArray) -> FloatArray:
        return np.where(rng.random(values.shape) < 0.005, np.nan, values)

    rails = frame_of(
        EntityKind.SUPPLY,
        supplies,
        {
            "voltage_v": holed(volts[:, None] + rng.normal(0, 0.004, shape)),
            "current_a": holed(amps[:, None] + rng.normal(0, 0.1, shape)),
        },
        rate_hz=1 / PERIOD_S,
        name="rails",
    )
    gpus = frame_of(
        EntityKind.GPU,
        TOPOLOGY.of_kind(EntityKind.GPU),
        {
            "power_w": holed(power_w),
            "sm_clock_mhz": holed(np.where(job, 1380.0, 135.0)[:, None] + np.zeros((n_rows, 4))),
            "throttle_reasons": holed(np.where(high_phase & job, 0x4, 0x1)[:, None] + np.zeros((n_rows, 4))),
            "gpu_temp_c": holed(temp_c),
            "slowdown_temp_c": np.full((n_rows, 4), 87.0),
            "power_brake_s": np.zeros((n_rows, 4)),
            "pci_present": np.ones((n_rows, 4)),
        },
        rate_hz=1 / PERIOD_S,
        name="gpus",
    )
    return rails, gpus


def in_shifts(frame: Frame) -> Frame:
    """Return a node's day as that of three nodes side by side, each with eight hours of it: a third of the rows."""
    rows = np.arange(len(frame)).reshape(SHIFTS, -1).T
    shape = (len(rows), -1, len(frame.spec.signals))
    entities = tuple(on_shift(entity, shift) for shift in range(SHIFTS) for entity in frame.spec.entities)
    spec = replace(frame.spec, entities=entities)
    values, fresh = frame.values[rows].reshape(shape), frame.fresh[rows].reshape(shape)
    return Frame(spec=spec, time_ns=frame.time_ns[: len(rows)], values=values, fresh=fresh)


def on_shift(entity: Entity, shift: int) -> Entity:
    return replace(entity, key=f"{entity.key}-{shift}", name=f"{entity.name}-{shift}")


def three_nodes() -> Topology:
    return Topology(
        entities=tuple(on_shift(entity, shift) for shift in range(SHIFTS) for entity in TOPOLOGY.entities),
        edges=tuple(
            (f"{above}-{shift}", f"{below}-{shift}") for shift in range(SHIFTS) for above, below in TOPOLOGY.edges
        ),
    )


def judged(rails: Frame, gpus: Frame, topology: Topology = TOPOLOGY) -> list[Incident]:
    panel, book = Panel.build(DetectorLimits()), IncidentBook()
    state = panel.start([rails.spec, gpus.spec])
    incidents: list[Incident] = []
    for row in range(0, len(rails), 720):
        parts = [rails.rows(row, row + 720), gpus.rows(row, row + 720)]
        state, findings = panel.step(state, parts, topology)
        now_ns = int(parts[0].time_ns[-1])
        state, more = panel.step_events(state, [], now_ns, topology)
        incidents.extend(book.step([*findings, *more], now_ns, topology))
    return incidents


def test_a_day_of_normal_telemetry_opens_no_incident() -> None:
    rails, gpus = day()
    assert judged(in_shifts(rails), in_shifts(gpus), three_nodes()) == []


def test_two_hours_on_a_corroded_joint_open_incidents_of_the_supply_alone() -> None:
    incidents = judged(*day(resistance_ohm=0.0095, hours=2))
    assert incidents
    assert {family_of(incident.cause) for incident in incidents} == {ELECTRICAL}
    assert Cause.SUPPLY_SAG in {incident.cause for incident in incidents}
