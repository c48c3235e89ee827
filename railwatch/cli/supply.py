"""``railwatch supply``: source resistance of a supply path, from any logged voltage and current."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from analytics.supply.difference_fit import MAINS_V
from analytics.supply.log_estimate import LEAST_SPREAD_RATIO, MIN_SAMPLES, SeriesEstimate, estimate_series
from analytics.supply.pair_fit import Method
from analytics.supply.plausibility import COARSE_V, resistance_problem, unit_problem
from analytics.supply.sampling import Band, Sampled
from physics.rail_classes import MEASURED_AT_V
from physics.thevenin import Identifiability
from railwatch.cli.logged_file import LoggedPair, read_pair
from railwatch.cli.printing import print_json
from railwatch.cli.run_folder import JsonFlag
from telemetry.errors import ConfigError

app = typer.Typer(
    no_args_is_help=True,
    help="Estimate the source resistance of a supply path from logged data.",
    epilog="Example: railwatch supply estimate feed.csv --time time_s --voltage voltage_v --current current_a",
)
# heuristic: a warning beyond ten times the 1 % within which the halves of a clean recording agree.
_HALVES_DIFFER_RATIO = 0.10
_REASONS = {
    Identifiability.TOO_FEW_SAMPLES: "too few samples: {samples} usable, {needed} needed{apart}",
    Identifiability.LOAD_TOO_STEADY: "the load is too steady: {steady}",
    Identifiability.NOT_CORRELATED: "voltage does not follow current (r = {correlation:.2f}, needs below -0.50){sign}",
    Identifiability.TOO_UNCERTAIN: "bounds reach down to zero; more samples or load steps needed",
}
_METHODS = {
    Method.LINE: None,
    Method.NEIGHBOURS: "a skew of less than a sample taken out",
    Method.SPREADS: "from the spreads of both, as they were not taken together",
    Method.MIXED: "pairs that do not belong together left out",
    Method.DIFFERENCES: "from differences, as mains drift",
}

_STEADY = "the current must spread by more than 1 % of its largest"
_STEADY_MAINS = "fewer than three steps of the current by 3 % of its usual value"
# heuristic: a voltage that rises so clearly with the current has its sign wrong.
_WRONG_SIGN = 0.9
_STUCK = "the voltage stays at one value while the current moves: it is stuck, or its sensor is too coarse"


class SampledOption(StrEnum):
    """How a log was sampled, as an option."""

    AUTO = "auto"
    PICKS = "picks"
    MEANS = "means"

    @property
    def kind(self) -> Sampled:
        """Kind of the samples; UNKNOWN where it is to be inferred."""
        return Sampled.UNKNOWN if self is SampledOption.AUTO else Sampled(self.value)


@app.callback()
def root() -> None:
    """Keep `estimate` as a subcommand."""


@app.command(
    epilog="Example: railwatch supply estimate feed.csv --time time_s --voltage voltage_v --current current_a --json"
)
def estimate(
    file: Annotated[Path, typer.Argument(help="CSV file with a header (also .gz), or .npz; any sampling rate.")],
    time: Annotated[str, typer.Option("--time", help="Column of times: seconds, epoch, or ISO 8601.")],
    voltage: Annotated[str, typer.Option("--voltage", help="Column of voltages in V; in .npz also name:index.")],
    current: Annotated[str, typer.Option("--current", help="Column of currents in A; in .npz also name:index.")],
    temperature: Annotated[
        str | None, typer.Option("--temperature", help="Column of air temperatures in °C; adds R at 25 °C.")
    ] = None,
    sampled: Annotated[
        SampledOption,
        typer.Option("--sampled", help="Samples are picks (single conversions) or means over their period."),
    ] = SampledOption.AUTO,
    as_json: JsonFlag = False,
) -> None:
    """Estimate open-circuit voltage and source resistance with 95 % bounds; exit status 1 if not identifiable."""
    pair = read_pair(file, time=time, voltage=voltage, current=current, temperature=temperature)
    _check_units(pair, file, voltage=voltage, current=current)
    found = estimate_series(pair.time_s, pair.voltage_v, pair.current_a, sampled=sampled.kind, temp_c=pair.temp_c)
    if found.source_resistance_ohm is not None:
        wrong = resistance_problem(found.source_resistance_ohm)
        if wrong is not None:
            raise ConfigError.at(file, *wrong, key=f"{voltage}, {current}")
    if as_json:
        print_json(_fields(pair, found, declared=sampled is not SampledOption.AUTO))
    else:
        typer.echo(f"{file}: {_sentence(pair, found, declared=sampled is not SampledOption.AUTO)}")
    if not found.identified:
        raise typer.Exit(1)


def _check_units(pair: LoggedPair, file: Path, *, voltage: str, current: str) -> None:
    wrong = unit_problem(pair.voltage_v, pair.current_a)
    if wrong is not None:
        which, found, expected = wrong
        raise ConfigError.at(file, found, expected, key=voltage if which == "voltage" else current)


def _sentence(pair: LoggedPair, found: SeriesEstimate, *, declared: bool) -> str:
    left_out = _left_out(pair, found)
    if found.source_resistance_ohm is None or found.source_resistance_bounds_ohm is None:
        return f"source resistance not identifiable: {_why_not(pair, found)}{left_out}"
    low_ohm, high_ohm = found.source_resistance_bounds_ohm
    low_v, high_v = found.open_circuit_bounds_v or (np.nan, np.nan)
    parts = [
        f"source resistance {found.source_resistance_ohm * 1e3:.3g} mΩ ({low_ohm * 1e3:.3g} to {high_ohm * 1e3:.3g})",
        f"standard error {(found.standard_error_ohm or 0.0) * 1e3:.2g} mΩ",
        f"open circuit {found.open_circuit_v:.3f} V ({low_v:.3f} to {high_v:.3f})",
        f"r = {found.correlation:.3f}",
        _samples(found, declared=declared),
        f"load {_band(found.band)}",
    ]
    if found.resistance_25_ohm is not None:
        parts.insert(1, f"{found.resistance_25_ohm * 1e3:.3g} mΩ at 25 °C")
    differ = found.halves_differ_ratio
    if differ is not None:
        warn = ", more than chance or the path changed" if differ > _HALVES_DIFFER_RATIO else ""
        parts.append(f"halves differ by {differ * 100:.1f} %{warn}")
    if found.skew_s is not None:
        parts.append(f"{'voltage' if found.skew_s > 0 else 'current'} moved back by {abs(found.skew_s) * 1e3:.3g} ms")
    if found.method is not None and (how := _METHODS[found.method]) is not None:
        parts.append(how)
    if found.current_noise_a is not None:
        parts.append(f"corrected for {found.current_noise_a:.2g} A of noise in the current")
    return ", ".join(parts) + left_out


def _samples(found: SeriesEstimate, *, declared: bool) -> str:
    kind = "samples, picks or means," if found.sampled is Sampled.UNKNOWN else found.sampled.value
    how = "" if declared or found.sampled is Sampled.UNKNOWN else " (inferred)"
    steps = f", steps of {found.quantum_v * 1e3:.0f} mV" if _is_coarse(found) else ""
    return f"{found.samples} {kind}{how} at {_rate(found.period_s)}{steps}"


def _is_coarse(found: SeriesEstimate) -> bool:
    """Return True for a voltage in steps as of eight bits."""
    return found.quantum_v >= COARSE_V * max((found.open_circuit_v or MEASURED_AT_V) / MEASURED_AT_V, 1.0)


def _band(band: Band | None) -> str:
    if band is None:
        return "of one moment"
    return (
        f"from {_hertz(band.low_hz)} up" if band.high_hz is None else f"{_hertz(band.low_hz)} to {_hertz(band.high_hz)}"
    )


def _why_not(pair: LoggedPair, found: SeriesEstimate) -> str:
    if _is_stuck(pair, found):
        return _STUCK
    correlation = found.correlation or 0.0
    return _REASONS[found.identifiability].format(
        samples=found.samples,
        needed=MIN_SAMPLES,
        apart="" if found.samples < MIN_SAMPLES else " that lie 20 ms apart and do not repeat the one before",
        correlation=correlation,
        sign="; is the sign of the current wrong?" if correlation > _WRONG_SIGN else "",
        steady=_STEADY_MAINS if np.nanmedian(pair.voltage_v) >= MAINS_V else _STEADY,
    )


def _is_stuck(pair: LoggedPair, found: SeriesEstimate) -> bool:
    """Return True if the current moves and the voltage is the same in all of enough samples."""
    known = np.isfinite(pair.voltage_v) & np.isfinite(pair.current_a)
    if found.samples < MIN_SAMPLES or np.ptp(pair.voltage_v[known]) > 0.0:
        return False
    amps = pair.current_a[known]
    return bool(np.std(amps) > LEAST_SPREAD_RATIO * np.abs(amps).max())


def _left_out(pair: LoggedPair, found: SeriesEstimate) -> str:
    counts = ((pair.absent, "without a value"), (pair.backward, "back in time"), (found.failed, "far off any rail"))
    parts = ", ".join(f"{count} {why}" for count, why in counts if count)
    return f"; left out: {parts}" if parts else ""


def _rate(period_s: float) -> str:
    return _hertz(1.0 / period_s if period_s > 0.0 else 0.0)


def _hertz(rate_hz: float) -> str:
    return f"{rate_hz:.3g} Hz" if rate_hz < 1000.0 else f"{rate_hz / 1e3:.3g} kHz"


def _fields(pair: LoggedPair, found: SeriesEstimate, *, declared: bool) -> dict[str, Any]:
    reason = "the voltage does not move" if _is_stuck(pair, found) else found.identifiability.value
    return {
        "identifiable": found.identified,
        "reason": None if found.identified else reason,
        "open_circuit_v": found.open_circuit_v,
        "open_circuit_bounds_v": found.open_circuit_bounds_v,
        "source_resistance_ohm": found.source_resistance_ohm,
        "source_resistance_bounds_ohm": found.source_resistance_bounds_ohm,
        "standard_error_ohm": found.standard_error_ohm,
        "method": found.method,
        "sampled": found.sampled,
        "sampled_from": "declared" if declared else "inferred",
        "band_hz": None if found.band is None else (found.band.low_hz, found.band.high_hz),
        "source_resistance_25c_ohm": found.resistance_25_ohm,
        "halves_ohm": found.halves_ohm,
        "halves_differ_ratio": found.halves_differ_ratio,
        "correlation": found.correlation,
        "spread_a": found.spread_a,
        "residual_v": found.residual_v,
        "samples": found.samples,
        "windows": found.windows,
        "period_s": found.period_s,
        "quantum_v": found.quantum_v,
        "current_noise_a": found.current_noise_a,
        "skew_s": found.skew_s,
        "left_out": {"absent": pair.absent, "backward": pair.backward, "failed": found.failed},
    }
