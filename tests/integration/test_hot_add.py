"""GPUs added while the sampler runs: the next sampler process has them, and no row that was read is lost."""

import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agent.ring.ring import Ring
from config.models import Config
from railwatch.processes.sampler import GPUS_CHANGED
from railwatch.run_context import DriverKind, RunContext
from railwatch.supervisor import ChildSpec, Supervisor
from simulator.files.node import NodeFile, load_node
from simulator.files.scenario import load_scenario
from simulator.served.server import PlantServer
from telemetry.clock import NS_PER_S, SystemClock
from telemetry.errors import EnvironmentLacksError
from telemetry.record_journal import RecordJournalReader
from telemetry.records import Event, EventKind
from tests.integration.running import PATIENCE_S

CLOCK = SystemClock()
TABLE = "gpu_fast"
NODE = load_node("v100x4")
FOURTH = NODE.slots[3].pci


class Plant:
    """Served node of some GPUs, advanced by a thread."""

    def __init__(self, folder: Path, node: NodeFile) -> None:
        self.server = PlantServer(node, load_scenario("healthy", node), seed=1, run_dir=folder, clock=CLOCK)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self.server.run, args=(self._stop.is_set,), daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._stop.set()
        self._thread.join(60.0)
        self.server.close()


@pytest.fixture
def plants(tmp_path: Path) -> Iterator[tuple[Plant, Plant]]:
    part = NODE.model_copy(update={"slots": NODE.slots[:3]})
    made = Plant(tmp_path / "three", part), Plant(tmp_path / "four", NODE)
    yield made
    for plant in made:
        plant.end()


def session_on(folder: Path, plant: Plant) -> RunContext:
    run_dir = folder / "run"
    run_dir.mkdir(exist_ok=True)
    served = plant.server.served
    config = Config.model_validate({"data_dir": folder / "data", "node": {"name": "node0"}, "page": {"port": 0}})
    context = RunContext(
        run_dir=run_dir,
        config_json=config.model_dump_json(),
        driver=DriverKind.PLANT,
        source="a test",
        simulated=True,
        plant_node="v100x4",
        scenario="healthy",
        state_file=str(served.state),
        sysfs=str(plant.server.served.sysfs_root),
        kmsg=str(served.kernel_log),
        proc=str(served.proc_root),
        started_ns=CLOCK.utc_ns(),
    )
    context.journal_dir.mkdir(parents=True, exist_ok=True)
    context.save()
    return context


def uuids(ring: Ring) -> tuple[str, ...]:
    return tuple(entity.key for entity in ring.tables[TABLE].spec.entities)


@pytest.mark.integration
@pytest.mark.timeout(300)
def test_a_gpu_that_comes_later_is_in_the_tables_and_every_row_of_before_can_be_read(
    tmp_path: Path, plants: tuple[Plant, Plant]
) -> None:
    three, four = plants
    context = session_on(tmp_path, three)
    supervisor = Supervisor(context.run_dir, CLOCK)
    spec = ChildSpec(
        name="sampler", module="railwatch.processes.sampler", environ=os.environ, start_timeout_s=PATIENCE_S
    )
    try:
        facts = supervisor.start(spec)
        assert facts["gpus"] == 3
        before = Ring.attach(context.ring_path)
        _until_rows(before, 20)
        _plug_in(context, three, four)
        plugged_s = CLOCK.monotonic_s()
        after = _next_ring(context, supervisor, before)
        healthy_s = CLOCK.monotonic_s() - plugged_s
        assert uuids(after)[:3] == uuids(before), "the GPUs of before keep their names"
        assert len(uuids(after)) == 4
        old, new = before.tables[TABLE].read(0), after.tables[TABLE].read(0)
        assert (old.lost, len(old.frame)) == (0, before.tables[TABLE].count)
        assert (np.diff(old.frame.time_ns) > 0).all()
        pause_s = (int(new.frame.time_ns[0]) - int(old.frame.time_ns[-1])) / NS_PER_S
        print(f"rows of before {len(old.frame)}, pause {pause_s:.2f} s, from plug to the fourth row {healthy_s:.2f} s")  # noqa: T201 -- figures
    finally:
        status = supervisor.stop("sampler")
    assert status == 0
    reported = [
        record
        for record in RecordJournalReader(context.journal_dir / "guard.jsonl").read()
        if isinstance(record, Event)
    ]
    assert [event.pci for event in reported if event.kind is EventKind.DEVICE_ADDED] == [FOURTH]


def _until_rows(ring: Ring, count: int) -> None:
    end_s = CLOCK.monotonic_s() + PATIENCE_S
    while ring.tables[TABLE].count < count:
        assert CLOCK.monotonic_s() < end_s, "no rows"
        CLOCK.sleep_until(CLOCK.monotonic_s() + 0.05)


def _plug_in(context: RunContext, three: Plant, four: Plant) -> None:
    """Show the fourth GPU on the bus, and let the driver of the next process find it."""
    replace(RunContext.load(context.run_dir), state_file=str(four.server.served.state)).save()
    devices = [plant.server.served.sysfs_root / "bus/pci/devices" for plant in (three, four)]
    fresh = context.run_dir / "device"
    shutil.copytree(devices[1] / FOURTH, fresh)
    fresh.rename(devices[0] / FOURTH)


def _next_ring(context: RunContext, supervisor: Supervisor, before: Ring) -> Ring:
    end_s = CLOCK.monotonic_s() + PATIENCE_S
    while CLOCK.monotonic_s() < end_s:
        supervisor.watch()
        CLOCK.sleep_until(CLOCK.monotonic_s() + 0.1)
        if before.current:
            continue
        try:
            ring = Ring.attach(context.ring_path)
        except EnvironmentLacksError:
            continue
        if ring.tables[TABLE].count:
            return ring
    raise AssertionError(f"no new ring; the sampler should have ended with status {GPUS_CHANGED}")
