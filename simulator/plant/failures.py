"""Failures of a node and their consequences: bus drops, link errors, hung collectives."""

import numpy as np

from simulator.files.node import NodeFile
from simulator.files.scenario import Quantity
from simulator.jobs.port import Job
from simulator.plant.bus import BusFailures
from simulator.plant.chance import stream
from simulator.plant.events import PlantEvent, PlantEventKind
from simulator.plant.links import Links
from simulator.plant.state import GpuState, PlantNodeState
from simulator.plant.timeline import Values
from telemetry.frames import FloatArray, MaskArray

RENEWED_MS = 1000  # assumption: shares of a CPU as a program shows them that looks once a second
QUIET_QUEUE = (0.001, 0.02)  # assumption: nv_queue while all is well
QUIET_IRQ = (0.0, 0.01)  # assumption: the interrupt thread while all is well
SPINNING = (0.95, 1.0)  # field report: nv_queue takes a whole CPU, then irq/57-nvidia hangs too
IRQ_DELAY_S = (5.0, 30.0)  # assumption: from the one to the other


class HangSigns:
    """The CPU shares of nv_queue and of irq/NN-nvidia over time.

    Attributes
    ----------
    nv_queue_ratio, nv_irq_ratio
        Share of one CPU, 0 to 1.
    """

    def __init__(self, seed: int) -> None:
        self._share_chance = stream(seed, "hang shares")
        self._delay_chance = stream(seed, "hang delay")
        self._irq_at_ms: int | None = None
        self._renew_at_ms = 0
        self.nv_queue_ratio = 0.0
        self.nv_irq_ratio = 0.0

    def advance(self, start_ms: int, n_ms: int, *, hung: bool) -> None:
        """Advance by a block in which the job hangs, or does not; return values that hold at its end."""
        end_ms = start_ms + n_ms
        if hung != (self._irq_at_ms is not None):
            delay_ms = round(1000.0 * self._delay_chance.uniform(*IRQ_DELAY_S)) if hung else 0
            self._irq_at_ms = start_ms + delay_ms if hung else None
            self._renew_at_ms = start_ms
        while self._renew_at_ms < end_ms:
            spinning = self._irq_at_ms is not None and self._renew_at_ms >= self._irq_at_ms
            self.nv_queue_ratio = float(self._share_chance.uniform(*(SPINNING if hung else QUIET_QUEUE)))
            self.nv_irq_ratio = float(self._share_chance.uniform(*(SPINNING if spinning else QUIET_IRQ)))
            self._renew_at_ms += RENEWED_MS


class NodeFailures:
    """Failures of a node over time; it takes GPUs out of the state and keeps the counts of their links."""

    def __init__(self, node: NodeFile, *, seed: int) -> None:
        wiring = node.wiring
        open_v = np.array([unit.open_circuit_v for unit in node.supply.units])
        of_bus = [open_v[list(wiring.supplies_of(bus))].max() for bus in range(len(wiring.buses))]
        nominal_v = np.array(of_bus)[list(wiring.of_gpu)]
        self._shutdown_c = float(node.gpu.temperature_c.shutdown)
        self._bus = BusFailures(node.gpu.hazard, wiring.of_gpu, fabric=node.fabric != "none", seed=seed)
        self._links = Links(node.gpu_count, node.gpu.nvlink_count, nominal_v=nominal_v, seed=seed)
        self._signs = HangSigns(seed)
        self._hung = self._dead = False

    def hangs(self, values: Values) -> bool:
        """Return True if a collective would not return now."""
        return bool(values[Quantity.HANG][0] > 0.0) or self._links.hanging

    def take_out(self, now_ms: int, gpus: GpuState, *, wanted: MaskArray) -> None:
        """Remove the GPUs that a scenario no longer wants; only a cold start brings them back."""
        gone = gpus.present & ~wanted
        if gone.any():
            gpus.present = gpus.present & wanted
            self._bus.lose(now_ms, gone)

    def cold_start(self, gpus: GpuState, *, wanted: MaskArray) -> None:
        """Bring back every GPU that the scenario wants, as if nothing had been."""
        self._bus.cold_start()
        self._links.cold_start(gpus)
        gpus.present = wanted.copy()

    def advance(
        self,
        start_ms: int,
        state: PlantNodeState,
        values: Values,
        *,
        power_w: FloatArray,
        voltage_v: FloatArray,
        job: Job,
    ) -> list[PlantEvent]:
        """Advance by a block that was carried, and return what happened in it."""
        gpus = state.gpus
        events = self._too_hot(state) if state.powered else []
        fell = self._bus.advance(
            start_ms,
            power_w=power_w,
            voltage_v=voltage_v,
            present=gpus.present & state.powered,
            contact_mohm=values[Quantity.CONTACT_MOHM],
        )
        for event in fell:
            if event.gpu is not None and event.kind is PlantEventKind.GPU_LOST:
                gpus.present = gpus.present & (np.arange(len(gpus.present)) != event.gpu)
            elif event.gpu is not None and event.kind is PlantEventKind.AER_FATAL:
                gpus.aer_fatal[event.gpu] += 1
        events += fell
        busy = job.collective and not (job.hung or job.dead)
        looseness = values[Quantity.LOOSENESS]
        if state.powered:
            events += self._links.advance(start_ms, gpus, voltage_v=voltage_v, looseness=looseness, busy=busy)
        if self._links.hanging and (job.dead or not looseness.any()):
            self._links.end_hang()
        return [event for event in events if _is_reported(event, state)] + self._job_events(start_ms, state, job)

    def collapse(self, now_ms: int, gpus: MaskArray) -> None:
        """Remove GPUs whose bus was below what any of them survives, ``(n_gpus,)``."""
        self._bus.lose(now_ms, gpus)

    def _too_hot(self, state: PlantNodeState) -> list[PlantEvent]:
        gpus = state.gpus
        if float(gpus.die_c.max()) < self._shutdown_c:
            return []
        hot = (gpus.die_c >= self._shutdown_c) & gpus.present & ~self._bus.lost
        if not hot.any():
            return []
        self._bus.lose(state.now_ms - 1, hot)  # within the block that is reported now
        return [
            PlantEvent(time_ms=state.now_ms - 1, kind=PlantEventKind.GPU_SHUTDOWN, gpu=int(gpu))
            for gpu in np.flatnonzero(hot)
        ]

    def _job_events(self, start_ms: int, state: PlantNodeState, job: Job) -> list[PlantEvent]:
        events = []
        if job.hung and not self._hung:
            events.append(PlantEvent(time_ms=start_ms, kind=PlantEventKind.JOB_HUNG))
        if job.dead and not self._dead:
            events.append(PlantEvent(time_ms=start_ms, kind=PlantEventKind.JOB_DIED))
        self._hung, self._dead = job.hung, job.dead
        self._signs.advance(start_ms, state.now_ms - start_ms, hung=job.hung and state.driver_loaded)
        state.hung, state.steps = job.hung, job.steps
        state.nv_queue_ratio, state.nv_irq_ratio = self._signs.nv_queue_ratio, self._signs.nv_irq_ratio
        return events


def _is_reported(event: PlantEvent, state: PlantNodeState) -> bool:
    """Return True if the reporter of an event still runs: the driver, the host, or the board by itself."""
    if event.kind is PlantEventKind.XID:
        return state.driver_loaded
    return state.powered or event.kind is PlantEventKind.BMC_CRITICAL
