"""Link errors before and during a failure: PCIe replays, NVLink errors and the hang of a loose module.

All of it stays as weak as on real nodes: a bus drop has almost no numeric precursor, arXiv 2603.28781. Where no other
source stands beside a rate, it is an assumption.
"""

import numpy as np

from simulator.plant.chance import stream
from simulator.plant.events import PlantEvent, PlantEventKind
from simulator.plant.state import CountArray, GpuState
from telemetry.frames import FloatArray
from telemetry.gpu import XID_NVLINK

REPLAYING_SHARE = 0.3  # assumption: most nodes show nothing on PCIe before a drop
REPLAYS_PER_S = 1e-4  # assumption: at the reference voltage
REPLAY_REFERENCE_V = 11.45  # assumption: on a 12 V bus that is at 12.3 V without load
REPLAY_SCALE_V = 0.06  # assumption: as above
REPLAYS_PER_S_MAX = 100.0  # assumption: a link that replays more than this is down
REFERENCE_V = 12.3  # that bus without load; voltages of others are scaled to it
CORRECTABLE_SHARE = 0.5  # assumption: replays that the root port logs as a correctable error
CRC_PER_S = 1e-3  # assumption: per GPU, per unit of looseness
CRC_REFERENCE_C = 50.0  # assumption: a module that warms up moves
CRC_SCALE_K = 15.0  # assumption: as above
CRC_REPLAY_SHARE = 0.2  # assumption: CRC errors that need the packet again
CRC_RECOVERY_SHARE = 0.002  # assumption: CRC errors after which the link trains anew
DOWN_ABOVE = 80.0  # assumption: looseness from which contacts open
DOWN_PER_S = 2e-5  # assumption: per GPU, per unit of looseness above that
HANG_PER_S = 1e-6  # assumption: per GPU, per unit of looseness; tightened screws cured it, field report


class Arrivals:
    """A Poisson process for each GPU.

    Each keeps the integral of its rate and compares it with the arrival times of a process of rate one (time change of
    a Poisson process), so that a block costs one addition and one comparison, and a draw only where something arrives.
    """

    def __init__(self, n_gpus: int, *, seed: int, name: str) -> None:
        self._chances = [stream(seed, f"{name} {gpu}") for gpu in range(n_gpus)]
        self._dose = np.zeros(n_gpus)
        self._next = np.array([chance.standard_exponential() for chance in self._chances])

    def advance(self, dose: FloatArray) -> CountArray | None:
        """Add the integral of the rates over a block; return how many arrived in it, None where nothing did."""
        self._dose += dose
        due = self._dose >= self._next
        if not due.any():
            return None
        counts = np.zeros(len(due), dtype=np.int64)
        for gpu in np.flatnonzero(due):
            while self._dose[gpu] >= self._next[gpu]:
                counts[gpu] += 1
                self._next[gpu] += self._chances[gpu].standard_exponential()
        return counts


class Links:
    """Counts the errors of all links of a node; the counts themselves stand in `GpuState`.

    Parameters
    ----------
    nominal_v
        Of the bus that feeds each module, without load, ``(n_gpus,)``; voltages are taken relative to it.

    Attributes
    ----------
    replaying
        Whether this node is one of those whose PCIe links show a sagging rail at all.
    hanging
        A loose module has made a collective hang; stays so until `end_hang`.
    """

    def __init__(self, n_gpus: int, n_links: int, *, nominal_v: FloatArray | float, seed: int) -> None:
        self._n_links = n_links
        self._to_reference = REFERENCE_V / nominal_v
        self.replaying = bool(stream(seed, "links node").random() < REPLAYING_SHARE)
        self.hanging = False
        self._replays = Arrivals(n_gpus, seed=seed, name="links replays")
        self._crc = Arrivals(n_gpus, seed=seed, name="links crc")
        self._down = Arrivals(n_gpus, seed=seed, name="links down")
        self._hang = Arrivals(n_gpus, seed=seed, name="links hang")
        self._kind_chance = stream(seed, "links kinds")
        self._place_chance = stream(seed, "links places")

    def advance(
        self, start_ms: int, gpus: GpuState, *, voltage_v: FloatArray, looseness: FloatArray, busy: bool
    ) -> tuple[PlantEvent, ...]:
        """Advance by a block: add to the counts in `gpus` in place, take links down, return the events of the block.

        Parameters
        ----------
        voltage_v
            The bus of each module per millisecond, ``(n, n_gpus)``; the lowest value of the block counts.
        looseness
            Of each module, 0 to 100, ``(n_gpus,)``.
        busy
            Whether a job runs whose collectives can hang.
        """
        block_s = len(voltage_v) / 1000.0
        events: list[PlantEvent] = []
        if self.replaying:
            depth_v = REPLAY_REFERENCE_V - self._to_reference * voltage_v.min(axis=0)
            rate = np.minimum(REPLAYS_PER_S * np.exp(depth_v / REPLAY_SCALE_V), REPLAYS_PER_S_MAX)
            if (replays := self._replays.advance(np.where(gpus.present, rate * block_s, 0.0))) is not None:
                events += self._replay(start_ms, gpus, replays)
        if not looseness.any():
            return tuple(events)
        loose_s = np.where(gpus.present, looseness, 0.0) * block_s
        if self._n_links:
            warmth = np.exp((gpus.die_c - CRC_REFERENCE_C) / CRC_SCALE_K)
            if (errors := self._crc.advance(CRC_PER_S * loose_s * warmth)) is not None:
                self._spread(gpus, errors)
            beyond_s = np.where(gpus.present, np.maximum(looseness - DOWN_ABOVE, 0.0), 0.0) * block_s
            if (downs := self._down.advance(DOWN_PER_S * beyond_s)) is not None:
                events += self._take_down(start_ms, gpus, downs)
        if busy and self._hang.advance(HANG_PER_S * loose_s) is not None:
            self.hanging = True
        return tuple(events)

    def end_hang(self) -> None:
        """Reset the hang: its job ended, or the module was screwed down."""
        self.hanging = False

    def cold_start(self, gpus: GpuState) -> None:
        """Bring links up and counts to zero, as a driver does that starts anew; the hang ends."""
        self.hanging = False
        gpus.nvlink_up[:] = True
        counts = (gpus.pcie_replays, gpus.aer_correctable, gpus.aer_fatal)
        for count in (*counts, gpus.nvlink_crc, gpus.nvlink_replays, gpus.nvlink_recoveries):
            count[:] = 0

    def _replay(self, start_ms: int, gpus: GpuState, replays: CountArray) -> list[PlantEvent]:
        logged = self._kind_chance.binomial(replays, CORRECTABLE_SHARE)
        gpus.pcie_replays += replays
        gpus.aer_correctable += logged
        kind = PlantEventKind.AER_CORRECTABLE
        return [PlantEvent(time_ms=start_ms, kind=kind, gpu=int(gpu)) for gpu in np.flatnonzero(logged)]

    def _spread(self, gpus: GpuState, errors: CountArray) -> None:
        """Pass each GPU's errors to its links that are up."""
        for gpu in np.flatnonzero(errors):
            up = np.flatnonzero(gpus.nvlink_up[gpu])
            if not len(up):
                continue
            links = up[self._place_chance.integers(len(up), size=int(errors[gpu]))]
            np.add.at(gpus.nvlink_crc[gpu], links, 1)
            draw = self._kind_chance.random(len(links))
            np.add.at(gpus.nvlink_replays[gpu], links[draw < CRC_REPLAY_SHARE], 1)
            np.add.at(gpus.nvlink_recoveries[gpu], links[draw < CRC_RECOVERY_SHARE], 1)

    def _take_down(self, start_ms: int, gpus: GpuState, downs: CountArray) -> list[PlantEvent]:
        events = []
        for gpu in np.flatnonzero(downs):
            up = np.flatnonzero(gpus.nvlink_up[gpu])
            if not len(up):
                continue
            gpus.nvlink_up[gpu, up[self._place_chance.integers(len(up))]] = False
            kind = PlantEventKind.XID
            events.append(PlantEvent(time_ms=start_ms, kind=kind, gpu=int(gpu), code=XID_NVLINK))
        return events
