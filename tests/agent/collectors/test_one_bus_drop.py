"""A GPU that falls off the bus of a simulated node: every source reports it, as one event."""

from pathlib import Path

import numpy as np

from agent.collectors.events.driver_messages import DriverLineParser
from agent.collectors.events.kernel_log import KernelLog, StartPosition
from agent.collectors.events.link_state import LinkState
from agent.collectors.gpu.driver_threads import DriverThreads
from analytics.fusion import FusionState, fuse, is_bus_loss
from simulator.files.node import load_node
from telemetry.gpu import GpuIdentity
from telemetry.records import Event
from tests.simulator.hand_clock import HandClock
from tests.simulator.served_plant import served_plant

NODE = load_node("v100x4")
LOST_AT_S = 12.0
LOST = 3


def gpus() -> tuple[GpuIdentity, ...]:
    return tuple(
        GpuIdentity(
            uuid=NODE.gpu_uuid(index), index=index, name="V100", pci=slot.pci, serial=None, driver_version="580"
        )
        for index, slot in enumerate(NODE.slots)
    )


def test_it_is_reported_within_two_seconds_as_one_event_that_names_its_sources(tmp_path: Path) -> None:
    clock = HandClock()
    fusion, newest = FusionState(), dict[str, Event]()
    reported_after_s: float | None = None
    with served_plant(tmp_path, scenario="bus-drop", clock=clock) as plant:
        link_state = LinkState(gpus(), sysfs_root=plant.served.sysfs_root, clock=clock)
        lines = DriverLineParser(gpus(), log="kmsg:test")
        log = KernelLog(
            plant.served.kernel_log, node="v100x4", parser=lines, clock=clock, start=StartPosition.BEGINNING
        )
        link_state.open()
        for _ in range(20):
            plant.advance(1000)
            clock.now_s += 1.0
            fusion, events = fuse(fusion, [*link_state.poll(0.0), *log.poll(0.0)])
            newest |= {event.id: event for event in events}
            if reported_after_s is None and any(is_bus_loss(event) for event in events):
                reported_after_s = plant.plant.state.now_ms / 1000.0 - LOST_AT_S
        log.close()
    losses = [event for event in newest.values() if is_bus_loss(event)]
    assert len(losses) == 1
    assert losses[0].entity_id == f"gpu:{NODE.gpu_uuid(LOST)}"
    assert losses[0].sources == ("kernel_log", "link_state")
    assert losses[0].code == 79
    assert reported_after_s is not None
    assert reported_after_s <= 2.0


def test_the_drivers_threads_of_a_hang_are_seen_in_the_nodes_own_proc(tmp_path: Path) -> None:
    clock = HandClock()
    with served_plant(tmp_path, clock=clock) as plant:
        plant.advance(1000)
        threads = DriverThreads("v100x4", clock, plant.served.proc_root)
        threads.open()
        values = threads_values(threads)
        state = plant.plant.state
        state.nv_queue_ratio, state.nv_irq_ratio = 0.97, 0.9
        for _ in range(10):  # the tree alone: the plant would take its own shares again
            state.now_ms += 200
            plant._proc.show(state)
        clock.now_s += 2.0
        queue, irq = threads_values(threads)
        threads.close()
    assert all(value != value for value in values), "no share without an interval"  # noqa: PLR0124 -- NaN
    assert abs(queue - 0.97) < 0.02
    assert abs(irq - 0.9) < 0.02


def threads_values(threads: DriverThreads) -> tuple[float, float]:
    values = np.full(threads.spec.shape, -1.0)
    threads.read(values)
    queue, irq = values[0].tolist()
    return queue, irq
