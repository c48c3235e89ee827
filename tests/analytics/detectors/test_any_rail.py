"""The supply detectors judge a rail of 48 or 54 V under the same power as one of 12 V."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from analytics.detectors.panel import Panel
from analytics.detectors.rail_sag import RailSag
from analytics.detectors.source_resistance import SourceResistance
from analytics.detectors.supply_headroom import SupplyHeadroom
from analytics.detectors.supply_limits import (
    RailSagLimits,
    SourceResistanceLimits,
    SupplyHeadroomLimits,
    SupplyPlausibilityLimits,
)
from analytics.detectors.supply_plausibility import SupplyPlausibility
from telemetry.frames import Frame
from tests.analytics.detectors import supply_scenes as scenes
from tests.analytics.scenes import node_of

SCENES: dict[str, Callable[[int], Frame]] = {
    "ageing": scenes.ageing,
    "lost": scenes.lost,
    "input sag": scenes.input_sag,
    "overload": scenes.overload,
    "stuck": scenes.stuck,
    "healthy": lambda seed: scenes.frame(scenes.rail(scenes.load(seed), seed=seed), scenes.load(seed)),
}


def at_voltage(frame: Frame, times: float) -> Frame:
    """Return the frame of a rail of so many times the voltage that carries the same power."""
    values = frame.values.copy()
    for place, name in enumerate(frame.spec.signals):
        values[:, :, place] *= times if name.endswith("_v") else 1.0 / times if name.endswith("_a") else 1.0
    return replace(frame, values=values)


def found(frame: Frame) -> list[tuple[str, ...]]:
    panel = Panel(
        detectors=(
            RailSag(limits=RailSagLimits()),
            SourceResistance(limits=SourceResistanceLimits()),
            SupplyHeadroom(limits=SupplyHeadroomLimits()),
            SupplyPlausibility(limits=SupplyPlausibilityLimits()),
        ),
        event_detectors=(),
    )
    findings = panel.step(panel.start([frame.spec]), [frame], node_of(4, 2))[1]
    return [(one.cause.value, one.entity_id, one.status.value, one.severity.value) for one in findings]


@pytest.mark.parametrize("times", [48.0 / 12.0, 54.0 / 12.0])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scene", SCENES)
def test_the_same_power_on_a_higher_rail_is_judged_alike(scene: str, seed: int, times: float) -> None:
    frame = SCENES[scene](seed)
    at_12_v = found(frame)
    assert found(at_voltage(frame, times)) == at_12_v
    assert bool(at_12_v) is (scene != "healthy")


def test_a_dip_below_the_limit_is_judged_alike() -> None:
    amps = scenes.load(3, high=220.0)
    frame = scenes.frame(scenes.rail(amps, seed=3), amps)
    assert float(np.nanmin(frame.signal("voltage_v"))) < 11.4
    assert found(at_voltage(frame, 4.5)) == found(frame) != []
