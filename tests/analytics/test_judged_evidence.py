"""From rows to answers: what rails of a node must show for their silence to count when a GPU is lost."""

from dataclasses import replace

import numpy as np
import pytest

from analytics.detectors.limits import DetectorLimits
from analytics.detectors.panel import Panel
from analytics.incidents.book import IncidentBook
from telemetry.entities import NOMINAL_TAG, EntityKind
from telemetry.frames import Frame
from telemetry.records import Cause, Incident
from tests.analytics.scenes import frame_of, gpu, node_of, supply

RATE_HZ = 20.0
ROWS = 241
LOST_ROW = 160
NODE = node_of(4, 2)


def gpus() -> Frame:
    power_w = np.full((ROWS, 4), 250.0)
    power_w[LOST_ROW:, 2] = np.nan
    columns = {"power_w": power_w, "sm_clock_mhz": power_w * 5.0, "gpu_temp_c": power_w / 4.0}
    return frame_of(EntityKind.GPU, tuple(map(gpu, range(4))), columns, rate_hz=RATE_HZ, name="gpu")


def rails(volts: float, *, signal: str = "voltage_v", rate_hz: float = RATE_HZ, nominal: str = "") -> Frame:
    members = tuple(replace(supply(number), tags=((NOMINAL_TAG, nominal),) if nominal else ()) for number in range(2))
    rows = round((ROWS - 1) / RATE_HZ * rate_hz) + 1
    return frame_of(EntityKind.SUPPLY, members, {signal: np.full((rows, 2), volts)}, rate_hz=rate_hz, name="supply")


def loss_beside(supplies: Frame) -> Incident:
    """Return the incident of a GPU that is lost after eight seconds, beside these rails."""
    panel, book = Panel.build(DetectorLimits()), IncidentBook()
    state = panel.start([gpus().spec, supplies.spec])
    state, findings = panel.step(state, [gpus(), supplies], NODE)
    now_ns = int(gpus().time_ns[-1])
    incidents = book.step(findings, now_ns, NODE, read_judged=lambda: panel.judged(state))
    (lost,) = (one for one in incidents if one.cause is Cause.GPU_LOST)
    return lost


@pytest.mark.parametrize(
    "supplies",
    [rails(12.0), rails(54.0, nominal="54"), rails(48.0, nominal="48"), rails(54.0)],
    ids=["12 V", "54 V", "48 V", "54 V, shown by its reading"],
)
def test_rails_that_were_judged_and_show_nothing_are_evidence(supplies: Frame) -> None:
    lost = loss_beside(supplies)
    assert "no electrical evidence" in lost.notes
    assert any("PSU 0, PSU 1 judged at the time of the loss" in line for line in lost.hypotheses[0].for_)


@pytest.mark.parametrize(
    "supplies",
    [
        rails(54.0, signal="rail_voltage_v"),
        rails(17.0),
        rails(54.0, nominal="54", rate_hz=1.0),
        rails(float("nan"), nominal="54"),
    ],
    ids=["recorded and not judged", "of no class", "read once a second", "silent"],
)
def test_rails_that_were_not_judged_are_evidence_of_nothing(supplies: Frame) -> None:
    lost = loss_beside(supplies)
    assert "supply not judged, so nothing is known of it" in lost.notes
    lines = [line for one in lost.hypotheses for line in (*one.for_, *one.against)]
    assert not any("supply side" in line or "nothing found" in line for line in lines)
