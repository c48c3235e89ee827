"""Dynamic impedance of a supply from the dips of load steps."""

from dataclasses import replace

import numpy as np
import pytest

from analytics.supply.reference import LEAST_BLOCKS, DipImpedance, Reference
from telemetry.frames import FloatArray, filled

OHM, OPEN_V, HIGH_A, LOW_A = 0.005, 12.3, 74.0, 36.0


def floats(*values: float) -> FloatArray:
    return np.array(values, dtype=np.float64)


def known(n_paths: int) -> Reference:
    return replace(filled(Reference, n_paths), now_ohm=np.full(n_paths, OHM), now_v=np.full(n_paths, OPEN_V))


def seen(dips: DipImpedance, lowest_v: FloatArray, *, stepped: bool = True) -> DipImpedance:
    size = len(lowest_v)
    return dips.after(
        known(size),
        stepped=np.full(size, stepped),
        high_a=np.full(size, HIGH_A),
        low_a=np.full(size, LOW_A),
        lowest_v=lowest_v,
    )


def test_the_dip_beyond_what_the_resistance_explains_is_the_impedance() -> None:
    plateau_v = OPEN_V - OHM * HIGH_A
    lowest_v = floats(plateau_v - 0.0026 * (HIGH_A - LOW_A), plateau_v)
    dips = filled(DipImpedance, 2)
    for _ in range(LEAST_BLOCKS - 1):
        dips = seen(dips, lowest_v)
        assert np.isnan(dips.ohm).all()
    assert seen(dips, lowest_v).ohm == pytest.approx([0.0026, 0.0], abs=1e-9)


def test_glitches_unknown_minima_and_blocks_without_steps_change_nothing() -> None:
    plateau_v = OPEN_V - OHM * HIGH_A
    dips = filled(DipImpedance, 1)
    for _ in range(5):
        dips = seen(dips, floats(plateau_v - 0.1))
    before = dips.ohm[0]
    for lowest_v in (plateau_v - 5.0, np.nan):
        dips = seen(dips, floats(lowest_v))
    dips = seen(dips, floats(plateau_v - 0.5), stepped=False)
    dips = dips.after(
        filled(Reference, 1),
        stepped=np.array([True]),
        high_a=floats(HIGH_A),
        low_a=floats(LOW_A),
        lowest_v=floats(plateau_v - 0.5),
    )
    assert dips.ohm[0] == before == pytest.approx(0.1 / (HIGH_A - LOW_A))


def test_a_rail_above_what_the_resistance_explains_has_no_dip() -> None:
    dips = filled(DipImpedance, 1)
    for _ in range(LEAST_BLOCKS):
        dips = seen(dips, floats(OPEN_V - OHM * HIGH_A + 0.02))
    assert dips.ohm[0] == 0.0


def test_the_newest_blocks_count() -> None:
    dips = filled(DipImpedance, 1)
    for ohm in [0.002] * 9 + [0.004] * 9:
        dips = seen(dips, floats(OPEN_V - OHM * HIGH_A - ohm * (HIGH_A - LOW_A)))
    assert dips.ohm[0] == pytest.approx(0.004)


def test_a_rise_counts_by_its_lower_end_and_a_reference_of_an_earlier_version_has_no_doubt() -> None:
    reference = replace(
        filled(Reference, 3),
        ohm=floats(0.004, 0.004, 0.004),
        now_ohm=floats(0.006, 0.006, 0.006),
        doubt=floats(0.03, 0.0, np.nan),
        now_doubt=floats(0.04, 0.0, 0.05),
    )
    assert reference.ratio() == pytest.approx([1.5, 1.5, 1.5])
    assert reference.low_ratio() == pytest.approx([1.5 * np.exp(-0.1), 1.5, 1.5 * np.exp(-0.1)])
