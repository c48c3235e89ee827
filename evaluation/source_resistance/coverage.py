"""How often bounds hold the truth, over random circuits: of logs at each rate and kind of sampling, and of a stream."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from analytics.supply.log_estimate import SeriesEstimate, estimate_series
from analytics.supply.pair_rows import PairRows
from analytics.supply.sampling import Sampled
from analytics.supply.stream_estimate import Blocks, add_rows, close, is_full, stretch_end
from evaluation.measures import Measured, share
from evaluation.source_resistance.circuits import RATE_HZ, Circuit, random_circuit, slope_of
from evaluation.source_resistance.plan import CoveragePlan
from physics.constants import Z_BOTH
from telemetry.clock import NS_PER_S
from telemetry.frames import filled

KINDS = (Sampled.PICKS, Sampled.MEANS)
# A window of a stream takes 30 rows.
SLOW_HZ = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One way to sample: kind and rate, by how much the voltage is late or early, and whether eight bits are left."""

    kind: Sampled
    rate_hz: float
    skew_s: float = 0.0
    coarse: bool = False

    @property
    def name(self) -> str:
        """Name in the score table."""
        rate = f"{self.rate_hz / 1e3:g} kHz" if self.rate_hz >= 1e3 else f"{self.rate_hz:g} Hz"
        bits = ", 8 bits" if self.coarse else ""
        return f"{self.kind} at {rate}{bits}{f', {self.skew_s * 1e3:g} ms of skew' if self.skew_s else ''}"


@dataclass(slots=True)
class Tally:
    """Answers of one cell: how many there were, how many held the truth, and the share that bounds reach either way."""

    asked: int = 0
    answered: int = 0
    held: int = 0
    reach: list[float] = field(default_factory=list)

    def take(self, bounds: tuple[float, float] | None, truth_ohm: float) -> None:
        """Count one answer, None where none was given."""
        self.asked += 1
        if bounds is None:
            return
        self.answered += 1
        self.held += bounds[0] <= truth_ohm <= bounds[1]
        self.reach.append((bounds[1] - bounds[0]) / 2.0 / truth_ohm)

    def add(self, other: "Tally") -> None:
        """Add the answers of another tally."""
        self.asked, self.answered, self.held = (
            self.asked + other.asked,
            self.answered + other.answered,
            self.held + other.held,
        )
        self.reach += other.reach

    @property
    def coverage(self) -> Measured:
        """Share of the answers whose bounds hold the truth."""
        return share(self.held, self.answered)

    @property
    def refusals(self) -> Measured:
        """Share without an answer."""
        return share(self.asked - self.answered, self.asked)


def log_cells(plan: CoveragePlan) -> tuple[Cell, ...]:
    """Return the cells of whole logs: each rate and kind, with and without skew, and those of eight bits."""
    fine = [
        Cell(kind=kind, rate_hz=rate_hz, skew_s=skew_s)
        for rate_hz in plan.rates_hz
        for kind in KINDS
        for skew_s in (0.0, plan.skew)
    ]
    coarse = [Cell(kind=kind, rate_hz=rate_hz, coarse=True) for rate_hz in plan.coarse_rates_hz for kind in KINDS]
    return (*fine, *coarse)


def stream_cells(plan: CoveragePlan) -> tuple[Cell, ...]:
    """Return the cells of a stream."""
    return tuple(Cell(kind=kind, rate_hz=rate_hz) for rate_hz in plan.stream_rates_hz for kind in KINDS)


def cover(plan: CoveragePlan, numbers: Sequence[int]) -> dict[tuple[str, Cell], Tally]:
    """Return the tallies of some circuits, by ``log`` or ``stream`` and cell."""
    found: dict[tuple[str, Cell], Tally] = {}
    for number in numbers:
        fine, coarse = (random_circuit((plan.seed, number), coarse=coarse) for coarse in (False, True))
        rng = np.random.default_rng((plan.seed, number, 1))
        truths_ohm = fine.resistance_ohm, coarse.resistance_ohm
        for cell in log_cells(plan):
            taken = _sampled(coarse if cell.coarse else fine, cell, rng)
            bounds = _estimate(taken).source_resistance_bounds_ohm
            found.setdefault(("log", cell), Tally()).take(bounds, truths_ohm[cell.coarse])
        slow = None if number % plan.slow_every else random_circuit((plan.seed, number, 2), lasts_s=plan.slow)
        for cell in stream_cells(plan):
            tally = found.setdefault(("stream", cell), Tally())
            circuit = slow if cell.rate_hz <= SLOW_HZ else fine
            for bounds, truth_ohm in windows_of(_sampled(circuit, cell, rng)) if circuit is not None else ():
                tally.take(bounds, truth_ohm)
    return found


def _sampled(circuit: Circuit, cell: Cell, rng: np.random.Generator) -> Circuit:
    step = max(1, round(RATE_HZ / cell.rate_hz))
    lag = round(cell.skew_s * RATE_HZ) * int(rng.choice((-1, 1)))
    return circuit.sampled(cell.kind, step=step, phase=int(rng.integers(step)), lag=lag)


def _estimate(taken: Circuit) -> SeriesEstimate:
    """Return the estimate of a recording of which nothing is declared."""
    return estimate_series(taken.time_s, taken.voltage_v, taken.current_a, halves=False)


def windows_of(taken: Circuit) -> Iterator[tuple[tuple[float, float] | None, float]]:
    """Yield the bounds of each window of a stream in which the load moves, and the truth of its rows."""
    time_ns = np.rint(taken.time_s * NS_PER_S).astype(np.int64).tolist()
    volts, amps = taken.voltage_v[:, np.newaxis], taken.current_a[:, np.newaxis]
    rows = PairRows(
        time_ns=time_ns,
        places=range(len(time_ns)),
        voltage_v=volts,
        current_a=amps,
        used=np.ones(volts.shape, dtype=np.bool_),
    )
    blocks, start, begun, last_ns = filled(Blocks, 1), 0, 0, None
    while start < len(time_ns):
        stop = stretch_end(blocks, last_ns, time_ns, start)
        blocks, start, last_ns = add_rows(blocks, rows.part(start, stop)), stop, time_ns[stop - 1]
        if not is_full(blocks, last_ns):
            continue
        blocks, _, windows = close(blocks, last_ns)
        if windows.complete[0]:
            own, begun = slice(begun, stop), stop
            if windows.moved[0]:
                ohm, reach = float(windows.resistance_ohm[0]), Z_BOTH * float(windows.sd_ohm[0])
                bounds = (ohm - reach, ohm + reach) if np.isfinite(ohm) else None
                yield bounds, slope_of(taken.clean_v[own], taken.clean_a[own])
