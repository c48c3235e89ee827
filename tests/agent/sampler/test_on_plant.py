"""All collectors on a served plant: what the plant does arrives in the ring, once."""

import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from agent.collectors.events.driver_messages import DriverEvents, DriverLineParser
from agent.collectors.events.kernel_log import KernelLog, StartPosition
from agent.collectors.port import Collector
from agent.collectors.registry.settings import FastSettings
from agent.collectors.registry.sources import build_collectors
from agent.driver.nvml import NvmlDriver
from agent.sampler.counters import SamplerCounters
from agent.sampler.sampler import Sampler, make_ring
from agent.sampler.settings import Pace, SamplerSettings
from simulator.driver.layout import SAMPLE_SLOTS, STATE_VARIABLE
from simulator.driver.state import StateFile
from simulator.files.node import load_node
from simulator.files.scenario import load_scenario
from simulator.served.server import PlantServer
from telemetry.clock import SystemClock
from telemetry.frames import FloatArray
from tests.agent.driver.plant_file import load_driver_library
from tests.simulator.early import early_drop
from tests.waiting import wait_for

CLOCK = SystemClock()
FAST_HZ = 100.0


def _server(scenario: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> PlantServer:
    load_driver_library(folder)
    v100 = load_node("v100x4")
    server = PlantServer(v100, load_scenario(scenario, v100), seed=1, run_dir=folder / "plant", clock=CLOCK)
    monkeypatch.setenv(STATE_VARIABLE, str(server.served.state))
    return server


def _collectors(server: PlantServer, driver: NvmlDriver, counters: SamplerCounters) -> dict[str, Collector]:
    settings = FastSettings(
        node="v100x4", clock=CLOCK, counters=counters, reader=driver, sysfs_root=server.served.sysfs_root
    )
    return {built.status.name: built.source for built in build_collectors(settings) if built.source}


def _read(collector: Collector) -> dict[str, FloatArray]:
    values = np.empty(collector.spec.shape)
    collector.read(values)
    return {name: values[:, column] for column, name in enumerate(collector.spec.signals)}


def test_a_gpu_that_drops_off_the_bus_is_gone_in_every_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = _server(early_drop(tmp_path, at_s=3), tmp_path, monkeypatch)
    server.advance(2000)
    with NvmlDriver(CLOCK) as driver:
        collectors = _collectors(server, driver, SamplerCounters())
        log = KernelLog(
            server.served.kernel_log,
            node="v100x4",
            parser=DriverLineParser(driver.gpus(), log="test"),
            clock=CLOCK,
            start=StartPosition.BEGINNING,
        )
        events = DriverEvents(driver, driver.gpus(), clock=CLOCK)
        events.poll(0.0)
        assert (_read(collectors["supply"])["voltage_v"] > 11.5).all()
        assert (_read(collectors["gpu_fast"])["power_w"] > 30).all()
        assert (_read(collectors["gpu_bus"])["pci_present"] == 1).all()
        server.advance(3000)
        lost = np.isnan(_read(collectors["gpu_fast"])["power_w"])
        assert lost.sum() == 1
        assert np.array_equal(np.isnan(_read(collectors["gpu_slow"])["gpu_temp_c"]), lost)
        assert np.array_equal(_read(collectors["gpu_bus"])["pci_present"] == 0, lost)
        uuid = driver.gpus()[int(np.flatnonzero(lost)[0])].uuid
        driver_events = events.poll(0.0)
        logged_events = log.poll(0.0)
        assert [(event.code, event.entity_id) for event in driver_events if event.code != 74] == [(79, f"gpu:{uuid}")]
        assert (79, f"gpu:{uuid}") in {(event.code, event.entity_id) for event in logged_events}
        log.close()
        for collector in collectors.values():
            collector.close()
    server.close()


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PlantServer]:
    server = _server("healthy", tmp_path, monkeypatch)
    stop = threading.Event()
    thread = threading.Thread(target=server.run, args=(stop.is_set,))
    thread.start()
    yield server
    stop.set()
    thread.join()
    server.close()


def _samples_mw(path: Path, gpu: int) -> list[int]:
    """Return what the power sensor of one GPU showed, from the driver's own sample buffer, oldest first."""
    state = StateFile(path, mode="read")
    count = int(state.record["sample_count"][gpu])
    slots = [number % SAMPLE_SLOTS for number in range(max(0, count - SAMPLE_SLOTS), count)]
    samples = [int(state.record["samples"][gpu][slot]["power_mw"]) for slot in slots]
    state.close()
    return samples


def test_each_sensor_update_of_a_running_node_is_kept_once(running: PlantServer, tmp_path: Path) -> None:
    counters = SamplerCounters()
    settings = SamplerSettings(fast=Pace(rate_hz=FAST_HZ, stale_after_s=60.0, hung_after_s=60.0))
    with NvmlDriver(CLOCK) as driver:
        collectors = list(_collectors(running, driver, counters).values())
        ring = make_ring(
            tmp_path / "ring",
            collectors,
            settings,
            node="v100x4",
            topology=running.served.topology,
            simulated=True,
            seconds=10,
        )
        sampler = Sampler(ring, collectors, clock=CLOCK, settings=settings, counters=counters)
        sampler.start()
        CLOCK.sleep_until(CLOCK.monotonic_s() + 1.5)
        wait_for(lambda: ring.tables["gpu_fast"].count >= 40)
        sampler.stop(60.0)
    shown_mw = _samples_mw(running.served.state, 0)
    frame = ring.tables["gpu_fast"].read(0).frame
    power = frame.spec.signals.index("power_w")
    kept_mw = [round(watts * 1000) for watts in frame.values[frame.fresh[:, 0, power], 0, power]]
    distinct = [shown_mw[0], *(after for before, after in pairwise(shown_mw) if after != before)]
    assert all(before != after for before, after in pairwise(kept_mw)), "an update was kept twice"
    # The first ones may be older than the driver's own buffer.
    kept_mw = kept_mw[next(at for at, one in enumerate(kept_mw) if at and one in distinct) :]
    within = distinct[distinct.index(kept_mw[0]) : distinct.index(kept_mw[-1]) + 1]
    # A busy machine holds ticks up, which is counted, and the plant too, which shows several updates at once then.
    assert len(kept_mw) + counters.overruns > 0.7 * len(within)
    assert len(kept_mw) >= 5
    assert set(kept_mw) <= set(within)
    supply = ring.tables["supply"].read(0).frame
    assert np.nanmin(supply.signal("voltage_v")) > 11.3
    assert np.nanmax(supply.signal("current_a")) > 5
    ring.close()
