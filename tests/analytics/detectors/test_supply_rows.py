"""Rows of supplies judged in stretches: findings and state are those of the rows one by one, however they are cut."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from analytics.detectors.build import DETECTORS, AnyDetector
from analytics.detectors.limits import DetectorLimits
from telemetry.frames import Frame
from telemetry.records import Finding
from tests.analytics.detectors.supply_scenes import RATED_W, ROWS, ageing, behind_meter, frame, load, lost, rail
from tests.analytics.scenes import node_of
from tests.analytics.states import assert_same

TOPOLOGY = node_of(4, 2)
IN_STRETCHES = ("current_share", "source_resistance", "supply_headroom", "supply_plausibility")


def dipped(seed: int) -> Frame:
    """Make two short dips of the mains, with power columns that a supply reports itself."""
    amps = load(seed)
    volts = rail(amps, seed=seed)
    volts[150:156] -= 1.6
    volts[300:340] -= 1.5
    return frame(volts, amps, rated_w=RATED_W, power_w=volts * amps, inlet_temp_c=np.full(amps.shape, 31.0))


def patchy(seed: int) -> Frame:
    """Make sensors that take turns, values that are absent, a clock that is set back, and an overload."""
    made = ageing(seed)
    rng = np.random.default_rng(seed)
    values, fresh = made.values.copy(), made.fresh & (rng.random(made.fresh.shape) < 0.6)
    values[rng.random(values.shape) < 0.05] = np.nan
    values[250:260, :, made.spec.signals.index("current_a")] *= 3.0
    time_ns = made.time_ns.copy()
    time_ns[200:] -= time_ns[200] - time_ns[150]
    return replace(made, values=values, fresh=fresh, time_ns=time_ns)


SCENES: dict[str, Callable[[int], Frame]] = {
    "ageing": ageing,
    "behind the meter": behind_meter,
    "lost": lost,
    "dipped": dipped,
    "patchy": patchy,
}


def judged(detector: AnyDetector, whole: Frame, cuts: list[int]) -> tuple[object, list[Finding]]:
    state: object = detector.start(whole.spec)
    findings: list[Finding] = []
    for start, stop in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        state, found = detector.step(state, whole.rows(start, stop), TOPOLOGY)
        findings += found
    return state, findings


@pytest.mark.parametrize("scene", SCENES.values(), ids=list(SCENES))
@pytest.mark.parametrize(
    "detector",
    [one for one in (build(DetectorLimits()) for build in DETECTORS) if one.name in IN_STRETCHES],
    ids=lambda detector: detector.name,
)
@pytest.mark.parametrize("seed", range(3))
def test_rows_in_stretches_are_judged_as_one_by_one(
    detector: AnyDetector, scene: Callable[[int], Frame], seed: int
) -> None:
    rows = scene(seed)
    state, findings = judged(detector, rows, list(range(1, ROWS)))
    cuts = sorted(np.random.default_rng(seed).choice(np.arange(1, ROWS), 12, replace=False).tolist())
    for other_cuts in (cuts, []):
        other, found = judged(detector, rows, other_cuts)
        assert found == findings
        assert_same(other, state)
