"""A device that is removed in order is not lost, whatever falls silent and whichever source reports it."""

import numpy as np
import pytest

from analytics.detectors.absence import OrderlyRemovals
from analytics.detectors.gpu_errors import GpuErrors
from analytics.detectors.gpu_lost import GpuLost
from analytics.detectors.limits import GpuErrorLimits, GpuLostLimits
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind, Topology
from telemetry.frames import Frame
from telemetry.records import Cause, Event, EventKind, Finding, Severity
from tests.analytics.scenes import START_NS, event_of, frame_of, gpu, node_of

GPUS = tuple(gpu(number) for number in range(4))
LATER_NS = START_NS + 100 * NS_PER_S


def let_go(at_s: float = 1.0) -> Event:
    return event_of(
        at_s=at_s,
        kind=EventKind.DRIVER_UNBOUND,
        code=None,
        source="uevents",
        severity=Severity.WARNING,
        message="given up",
    )


def taken_off(at_s: float = 1.5) -> Event:
    return event_of(at_s=at_s, kind=EventKind.BUS_DROP, code=None, source="uevents", message="taken off the bus")


def fatal(at_s: float) -> Event:
    return event_of(at_s=at_s, kind=EventKind.AER, code=None, source="kernel_log", message="PCIe fatal error")


def without_gpu0() -> Frame:
    gone = (np.arange(100) >= 20)[:, np.newaxis] & (np.arange(4) == 0)
    columns = {
        "power_w": np.where(gone, np.nan, 250.0),
        "sm_clock_mhz": np.where(gone, np.nan, 1400.0),
        "pci_present": np.where(gone, 0.0, 1.0),
    }
    return frame_of(EntityKind.GPU, GPUS, columns, rate_hz=10.0)


def lost(*events: Event, topology: Topology | None = None) -> tuple[Finding, ...]:
    detector, frame = GpuLost(limits=GpuLostLimits()), without_gpu0()
    topology = topology or node_of(4)
    state, _ = detector.step(detector.start(frame.spec), frame.rows(0, 15), topology)
    return detector.step(detector.take_events(state, events), frame.rows(15, 100), topology)[1]


def errors(*events: Event) -> tuple[Finding, ...]:
    detector = GpuErrors(limits=GpuErrorLimits())
    return detector.step(detector.start(), events, LATER_NS, node_of(4))[1]


def test_a_gpu_that_its_driver_let_go_of_first_is_not_lost() -> None:
    assert len(lost()) == 1
    assert lost(let_go(), taken_off()) == ()
    assert len(errors(taken_off())) == 1
    assert errors(let_go(), taken_off()) == ()


@pytest.mark.parametrize("at_s", [0.5, 1.2], ids=["before it was unbound", "after it"])
def test_a_reported_error_makes_an_orderly_removal_a_loss(at_s: float) -> None:
    for trouble in (fatal(at_s), event_of(at_s=at_s, code=79)):
        events = sorted([let_go(), taken_off(), trouble], key=lambda event: event.time_ns)
        assert [one.cause for one in lost(*events)] == [Cause.GPU_LOST]
        assert Cause.GPU_LOST in {one.cause for one in errors(*events)}


def test_a_gpu_that_came_back_can_be_lost_again() -> None:
    back = event_of(at_s=1.8, kind=EventKind.DRIVER_BOUND, code=None, source="uevents", severity=Severity.INFO)
    assert len(lost(let_go(), taken_off(), back)) == 1


def test_a_gpu_that_the_topology_no_longer_has_is_not_lost() -> None:
    kept = node_of(4)
    smaller = Topology(
        entities=tuple(entity for entity in kept.entities if entity.id != "gpu:GPU-0"),
        edges=tuple(edge for edge in kept.edges if "gpu:GPU-0" not in edge),
    )
    assert lost(topology=smaller) == ()


def test_what_is_remembered_of_devices_is_bounded() -> None:
    state = OrderlyRemovals()
    for number in range(5000):
        state = state.after([event_of(kind=EventKind.DRIVER_UNBOUND, code=None, entity_id=f"gpu:{number}")])
        if number > 4200:
            break
    assert len(state.released) == 4096


def test_critical_messages_of_the_fabric_manager_are_a_fabric_error_and_lesser_ones_are_not() -> None:
    def fabric(severity: Severity) -> Event:
        return event_of(
            kind=EventKind.FABRIC, code=None, entity_id="node:box", source="fabric_log", severity=severity, message="FM"
        )

    found = errors(fabric(Severity.CRITICAL))
    assert [(one.cause, one.entity_id) for one in found] == [(Cause.FABRIC_ERROR, "node:box")]
    assert found[0].summary.startswith("fabric error on box")
    assert errors(fabric(Severity.WARNING)) == ()
