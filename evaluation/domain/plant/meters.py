"""Meters of supplies: where they sit, how fine they are, when they look, and what they drift by."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from evaluation.domain.plant.chance import PlaceArray
from telemetry.frames import FloatArray, MaskArray

Rng = np.random.Generator


class MeterKind(StrEnum):
    """Kinds of meters at a supply."""

    SHUNT = "shunt"
    PMBUS = "pmbus"
    ADC = "adc"
    CONTROLLER = "controller"


class Place(StrEnum):
    """Places of a meter of voltage."""

    OUTPUT = "output"
    BUS = "bus"


class Turn(StrEnum):
    """When voltage and current of a node's supplies are taken."""

    TOGETHER = "together"
    LATE = "late"
    PAIR = "pair"
    SUPPLIES = "supplies"


KINDS, TURNS = tuple(MeterKind), tuple(Turn)


@dataclass(frozen=True, kw_only=True)
class MeterTraits:
    """Meters: the first fields have the shape ``(n_nodes,)``, the others ``(n_supplies,)``.

    `kind` and `turn` are places in `KINDS` and `TURNS`. A value is the mean over `window_s` up to when it is taken, a
    pick where that is nothing; a meter that renews its values every `renewed_s` shows the newest. Currents are taken
    `late_s` after voltages. `milli` marks values that are rounded to mV and mA on top, as hwmon files are, `repeats`
    tables that repeat an old value as a new one. Meters drift by `drift_v` and `drift_a`, as shares, within
    `drift_v_s` and `drift_a_s`.
    """

    kind: PlaceArray
    turn: PlaceArray
    at_output: MaskArray
    window_s: FloatArray
    renewed_s: FloatArray
    phase_s: FloatArray
    late_s: FloatArray
    v_step: FloatArray
    a_step: FloatArray
    noise_v: FloatArray
    noise_a: FloatArray
    dropped: FloatArray
    milli: MaskArray
    repeats: MaskArray
    shows_least: MaskArray
    w_step: FloatArray
    gain_v: FloatArray
    offset_v: FloatArray
    gain_a: FloatArray
    offset_a: FloatArray
    gain_w: FloatArray
    drift_v: FloatArray
    drift_a: FloatArray
    drift_v_s: FloatArray
    drift_a_s: FloatArray


@dataclass(frozen=True, kw_only=True)
class _Fineness:
    """Steps and noise that meters of a kind have, at 12 V and at a higher voltage."""

    v_steps: tuple[float, ...]
    v_steps_high: tuple[float, ...]
    a_steps: tuple[float, ...]
    noise_v: tuple[float, float]
    noise_a: tuple[float, float]
    windows_s: tuple[float, ...]
    renewed_s: tuple[float, ...]
    turns: tuple[Turn, ...]
    late_s: tuple[float, float]


_FINENESS = {
    # TI INA226, INA228, INA237: 1.25 mV, 195.3 microvolt, 3.125 mV; both values of one conversion, averaged or not.
    MeterKind.SHUNT: _Fineness(
        v_steps=(195.3125e-6, 0.00125, 0.002), v_steps_high=(195.3125e-6, 0.003125), a_steps=(0.0025, 0.01, 0.06),
        noise_v=(0.001, 0.003), noise_a=(0.02, 0.1), windows_s=(0.0, 0.001, 0.004, 0.02), renewed_s=(0.0,),
        turns=(Turn.TOGETHER,), late_s=(0.0, 0.0),
    ),
    # LINEAR16 with exponents of -9 to -5, LINEAR11 with eleven bits of mantissa (PMBus 1.3, part II, 7 and 8).
    MeterKind.PMBUS: _Fineness(
        v_steps=(2.0**-9, 2.0**-8, 2.0**-7, 2.0**-6), v_steps_high=(2.0**-8, 2.0**-7, 2.0**-6, 2.0**-5, 2.0**-4),
        a_steps=(0.0625, 0.125, 0.25), noise_v=(0.001, 0.006), noise_a=(0.02, 0.2), windows_s=(0.0, 0.01, 0.05, 0.1),
        renewed_s=(0.0, 0.0, 0.02, 0.05, 0.1), turns=(Turn.TOGETHER, Turn.LATE, Turn.PAIR, Turn.SUPPLIES),
        late_s=(0.005, 0.08),
    ),
    # Converters of 8 and 10 bits over 16 and 20 V, or 64 V behind a divider; currents over 100 to 150 A.
    MeterKind.ADC: _Fineness(
        v_steps=(16.0 / 1024, 20.0 / 1024, 16.0 / 256), v_steps_high=(64.0 / 4096, 64.0 / 1024),
        a_steps=(0.1, 0.146, 0.25), noise_v=(0.0, 0.004), noise_a=(0.01, 0.1), windows_s=(0.0, 0.001, 0.02),
        renewed_s=(0.0,),
        turns=(Turn.TOGETHER, Turn.PAIR, Turn.SUPPLIES), late_s=(0.0, 0.01),
    ),
    # A board controller's round over its sensors; a byte of an IPMI sensor (IPMI 2.0, 36.3).
    MeterKind.CONTROLLER: _Fineness(
        v_steps=(2.0**-5, 0.0625, 0.063), v_steps_high=(0.0625, 0.25), a_steps=(0.125, 0.25, 0.5),
        noise_v=(0.001, 0.01), noise_a=(0.02, 0.15), windows_s=(0.0, 0.05, 0.5), renewed_s=(0.0, 0.5, 1.0),
        turns=(Turn.TOGETHER, Turn.LATE), late_s=(0.0, 0.4),
    ),
}  # fmt: skip
_BY_RATE = {
    1.0: (MeterKind.CONTROLLER, MeterKind.CONTROLLER, MeterKind.PMBUS, MeterKind.ADC),
    2.0: (MeterKind.PMBUS, MeterKind.PMBUS, MeterKind.ADC, MeterKind.CONTROLLER),
    5.0: (MeterKind.PMBUS, MeterKind.PMBUS, MeterKind.ADC),
    10.0: (MeterKind.PMBUS, MeterKind.PMBUS, MeterKind.ADC, MeterKind.SHUNT),
    20.0: (MeterKind.PMBUS, MeterKind.ADC, MeterKind.SHUNT),
    50.0: (MeterKind.ADC, MeterKind.SHUNT, MeterKind.SHUNT),
}
RATES_HZ = tuple(_BY_RATE)


def drawn_meters(
    rng: Rng, n: int, *, nominal_v: float, rate_hz: float, kind: MeterKind | None, at_output: bool | None
) -> MeterTraits:
    """Return the meters of a node with `n` supplies, of those that are read so often; what is given is fixed."""
    drawn = MeterKind(rng.choice(_BY_RATE[rate_hz]))
    kind = drawn if kind is None else kind
    fine, high = _FINENESS[kind], nominal_v > 12.0
    turn = Turn(rng.choice(fine.turns))
    where = bool(rng.random() < 0.4)
    # A mean is over the time between two readings at most.
    window_s = min(float(rng.choice(fine.windows_s)), 1.0 / rate_hz)
    window_s = 1.0 / rate_hz if rng.random() < 0.2 else window_s
    renewed_s = float(rng.choice(fine.renewed_s))
    watts = bool(rng.random() < 0.25) and kind in (MeterKind.PMBUS, MeterKind.SHUNT)
    times_v = nominal_v / 12.0 if high else 1.0
    per_node: dict[str, Any] = {
        "kind": KINDS.index(kind),
        "turn": TURNS.index(turn),
        "at_output": where if at_output is None else at_output,
        "window_s": window_s,
        "renewed_s": renewed_s,
        "phase_s": rng.uniform(0.0, max(renewed_s, 1.0 / rate_hz)),
        "late_s": rng.uniform(*fine.late_s) if turn is Turn.LATE else 0.0,
        "v_step": float(rng.choice(fine.v_steps_high if high else fine.v_steps)),
        "a_step": float(rng.choice(fine.a_steps)),
        "noise_v": rng.uniform(*fine.noise_v) * min(times_v, 2.0),
        "noise_a": rng.uniform(*fine.noise_a),
        "dropped": float(rng.choice([0.0, 0.0, 0.002, 0.01])),
        "milli": kind is MeterKind.PMBUS and bool(rng.random() < 0.5),
        "repeats": bool(rng.random() < 0.15),
        "shows_least": kind is MeterKind.SHUNT and bool(rng.random() < 0.4),
        "w_step": float(rng.choice([0.25, 1.0, 2.0])) if watts else np.nan,
    }
    columns: dict[str, Any] = {name: np.array([value]) for name, value in per_node.items()}
    return MeterTraits(**columns, **_errors(rng, n, times_v))


def _errors(rng: Rng, n: int, times_v: float) -> dict[str, Any]:
    """Return gains, offsets and drifts of each meter: within 0.5 % and 2 %, drifting by 0.04 to 0.2 % in minutes."""
    return {
        "gain_v": 1.0 + spread(rng, n, 0.0025),
        "offset_v": spread(rng, n, 0.004) * times_v,
        "gain_a": 1.0 + spread(rng, n, 0.01),
        "offset_a": spread(rng, n, 0.15),
        "gain_w": 1.0 + spread(rng, n, 0.008),
        "drift_v": rng.uniform(0.0004, 0.002, n) * rng.choice([0.25, 1.0], n),
        "drift_a": rng.uniform(0.0004, 0.002, n),
        "drift_v_s": rng.uniform(120.0, 1200.0, n),
        "drift_a_s": rng.uniform(120.0, 1200.0, n),
    }


def spread(rng: Rng, n: int, sd: float) -> FloatArray:
    """Return `n` normal draws about 0, at most two and a half standard deviations off."""
    return np.asarray(np.clip(rng.normal(0.0, sd, n), -2.5 * sd, 2.5 * sd), dtype=np.float64)
