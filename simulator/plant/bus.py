"""GPUs that fall off their bus: when the voltage at a module is too low for too long, and what follows from it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.files.gpu import BusHazard
from simulator.plant.chance import stream
from simulator.plant.events import PlantEvent, PlantEventKind
from telemetry.frames import FloatArray, MaskArray
from telemetry.gpu import XID_FALLEN_OFF_THE_BUS, XID_NVLINK

XID_DELAY_S = (0.1, 2.0)  # assumption: from the loss to the line in the kernel log
AER_SHARE = 0.5  # assumption: PCIe errors often come with Xid 79, arXiv 2410.21680
AER_DELAY_S = (0.0, 0.1)  # assumption: the root port sees it before the driver does
BMC_SHARE = 0.4  # assumption: so do critical interrupts of the board's controller, arXiv 2410.21680
BMC_DELAY_S = (0.5, 5.0)  # assumption: the controller's own scan
PEER_SHARE = 0.6  # assumption: a sibling on the same fabric reports its link
PEER_DELAY_S = (0.2, 5.0)  # assumption: from the loss to the sibling's report
SECOND_SHARE = 0.25  # assumption: the same dip takes a second GPU
SECOND_DELAY_S = (0.05, 3.0)  # assumption: within a few seconds
RATE_MAX_PER_S = 1e6  # certain within a millisecond; keeps the integral finite when the rail collapses


def drop_rate_per_s(
    voltage_v: FloatArray, current_a: FloatArray, *, offset_v: FloatArray, contact_mohm: FloatArray, hazard: BusHazard
) -> FloatArray:
    """Return the expected drops per second of a module; the arguments broadcast.

    ``rate exp((threshold + offset - x) / scale)`` at ``x = V - I (R_internal + R_contact)``: depth acts exponentially,
    duration linearly. The law is an assumption, its constants are fitted to the drops of the field report.
    """
    at_pins_v = voltage_v - current_a * ((hazard.internal_mohm + contact_mohm) / 1000.0)
    depth = (hazard.threshold_v + offset_v - at_pins_v) / hazard.scale_v
    with np.errstate(over="ignore"):
        rate: FloatArray = np.minimum(hazard.rate_per_s * np.exp(depth), RATE_MAX_PER_S)
    return rate


def drop_offsets_v(hazard: BusHazard, n_gpus: int, seed: int) -> FloatArray:
    """Return by how much each module drops earlier than its kind, fixed for a node and a seed."""
    return hazard.offset_sd_v * stream(seed, "bus offsets").standard_normal(n_gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PendingEvent:
    """Pending drop; `alone` takes no second GPU with it."""

    event: PlantEvent
    alone: bool = True


class BusFailures:
    """Decides which GPUs fall off the bus, and what others report of it.

    It keeps the times of what is still to come (the Xid, the sibling's Xid, a second drop). Draws belong to a GPU and
    to the number of cold starts before, so that they depend neither on how time is cut nor on what other GPUs do.

    Parameters
    ----------
    fabric
        Whether NVLinks join the GPUs, so that a sibling can report the loss.
    bus_of_gpu
        Index of the bus that feeds each GPU; a dip takes a second GPU on the same bus only.

    Attributes
    ----------
    offset_v
        By how much each module drops earlier than its kind, shape ``(n_gpus,)``.
    dose
        Drops to expect of each GPU since the last cold start: the integral of its rate while it was present.
    lost
        GPUs that fell off; only a cold start brings them back.
    """

    def __init__(self, hazard: BusHazard, bus_of_gpu: Sequence[int], *, fabric: bool, seed: int) -> None:
        n_gpus = len(bus_of_gpu)
        self._hazard = hazard
        self._bus = np.array(bus_of_gpu, dtype=np.intp)
        self._fabric = fabric
        self._seed = seed
        self._cold_starts = 0
        self.offset_v = drop_offsets_v(hazard, n_gpus, seed)
        self.dose = np.zeros(n_gpus)
        self.lost: MaskArray = np.zeros(n_gpus, dtype=np.bool_)
        self._limit = self._limits()
        self._coming: list[_PendingEvent] = []

    def advance(
        self,
        start_ms: int,
        *,
        power_w: FloatArray,
        voltage_v: FloatArray,
        present: MaskArray,
        contact_mohm: FloatArray,
    ) -> tuple[PlantEvent, ...]:
        """Advance by a block and return the events whose time lies in it or before, in their order.

        The caller takes a GPU out when its GPU_LOST comes; each GPU is lost once until the next cold start.

        Parameters
        ----------
        power_w, voltage_v
            Per millisecond, of each module and on its bus, ``(n, n_gpus)``.
        present
            GPUs on the bus at the start of the block, ``(n_gpus,)``.
        """
        current_a = power_w / np.maximum(voltage_v, 1.0)  # a rail at zero volts drops everything anyway
        rate = drop_rate_per_s(
            voltage_v, current_a, offset_v=self.offset_v, contact_mohm=contact_mohm, hazard=self._hazard
        )
        dose = rate.sum(axis=0) * np.where(present & ~self.lost, 1e-3, 0.0)
        over = self.dose + dose >= self._limit
        for gpu in np.flatnonzero(over & ~self.lost):
            within = self.dose[gpu] + 1e-3 * np.cumsum(rate[:, gpu]) >= self._limit[gpu]
            self._limit[gpu] = np.inf
            self._plan(PlantEventKind.GPU_LOST, start_ms + int(within.argmax()), gpu=int(gpu), alone=False)
        self.dose += dose
        return self._due(start_ms + len(voltage_v)) if self._coming else ()

    def lose(self, time_ms: int, gpus: MaskArray) -> None:
        """Remove GPUs from the bus for a given reason: a scenario, heat, a rail that collapsed.

        The next `advance` gives their GPU_LOST, and what follows comes as after any drop, without a second GPU: that
        one comes of a dip that both saw. GPUs that are lost already stay as they are.
        """
        for gpu in np.flatnonzero(gpus & ~self.lost):
            self._plan(PlantEventKind.GPU_LOST, time_ms, gpu=int(gpu))

    def cold_start(self) -> None:
        """Bring all GPUs back; what was still to come of earlier drops never comes."""
        self._cold_starts += 1
        self._coming.clear()
        self.lost[:] = False
        self.dose[:] = 0.0
        self._limit = self._limits()

    def _limits(self) -> FloatArray:
        """Return the hazard that each GPU takes until it drops in this life: exponential with mean one."""
        draws = [self._chance(gpu, "limit").standard_exponential() for gpu in range(len(self.lost))]
        return np.array(draws)

    def _chance(self, gpu: int, what: str) -> np.random.Generator:
        return stream(self._seed, f"bus {what} {gpu} {self._cold_starts}")

    def _plan(
        self, kind: PlantEventKind, time_ms: int, *, gpu: int, code: int | None = None, alone: bool = True
    ) -> None:
        self._coming.append(
            _PendingEvent(event=PlantEvent(time_ms=time_ms, kind=kind, gpu=gpu, code=code), alone=alone)
        )

    def _due(self, end_ms: int) -> tuple[PlantEvent, ...]:
        due: list[PlantEvent] = []
        while ready := [coming for coming in self._coming if coming.event.time_ms < end_ms]:
            first = min(ready, key=lambda coming: coming.event.time_ms)
            self._coming.remove(first)
            gpu = first.event.gpu
            if first.event.kind is PlantEventKind.GPU_LOST and gpu is not None:
                if self.lost[gpu]:
                    continue
                self.lost[gpu] = True
                self._follow(first.event.time_ms, gpu, alone=first.alone)
            elif first.event.code == XID_NVLINK and self.lost[gpu]:
                continue  # the sibling is gone too and reports nothing
            due.append(first.event)
        return tuple(due)

    def _follow(self, lost_ms: int, gpu: int, *, alone: bool) -> None:
        """Plan what a drop brings; every draw is made whether it is used or not, so that they stay in step."""
        chance = self._chance(gpu, "drop")
        shares = chance.random(5)

        def later_ms(span_s: tuple[float, float]) -> int:
            return lost_ms + round(1000.0 * chance.uniform(*span_s))

        xid_ms, aer_ms, bmc_ms = later_ms(XID_DELAY_S), later_ms(AER_DELAY_S), later_ms(BMC_DELAY_S)
        peer_ms, second_ms = later_ms(PEER_DELAY_S), later_ms(SECOND_DELAY_S)
        self._plan(PlantEventKind.XID, xid_ms, gpu=gpu, code=XID_FALLEN_OFF_THE_BUS)
        if shares[0] < AER_SHARE:
            self._plan(PlantEventKind.AER_FATAL, aer_ms, gpu=gpu)
        if shares[1] < BMC_SHARE:
            self._plan(PlantEventKind.BMC_CRITICAL, bmc_ms, gpu=gpu)
        siblings = np.flatnonzero(~self.lost)
        if len(siblings) and self._fabric and shares[2] < PEER_SHARE:
            self._plan(PlantEventKind.XID, peer_ms, gpu=_chosen(siblings, shares[4]), code=XID_NVLINK)
        same_bus = siblings[self._bus[siblings] == self._bus[gpu]]
        if len(same_bus) and not alone and shares[3] < SECOND_SHARE:
            self._plan(PlantEventKind.GPU_LOST, second_ms, gpu=_chosen(same_bus, shares[4]))


def _chosen(gpus: npt.NDArray[np.intp], share: float) -> int:
    """Return one of the GPUs, chosen by `share` from 0 to 1."""
    return int(gpus[int(share * len(gpus))])
