"""The detectors at two paces: what cannot wait is reported at once, the rest each second, with the same findings."""

import numpy as np
import pytest

from agent.guard.judges import BLOCK_NS, URGENT, Judges
from analytics.detectors.build import build_detectors
from analytics.detectors.limits import DetectorLimits
from analytics.detectors.panel import Panel
from telemetry.entities import EntityKind, Topology
from telemetry.frames import Frame, TableSpec
from telemetry.records import Finding
from tests.analytics.scenes import frame_of, node_of, supply

NODE = node_of(0, 2)
ROWS_A_STEP = 2


def steps(volts: list[float]) -> list[Frame]:
    """Rows at 20 Hz, two a step."""
    column = np.tile(np.array(volts)[:, None], 2)
    whole = frame_of(EntityKind.SUPPLY, (supply(0), supply(1)), {"voltage_v": column})
    return [whole.rows(first, first + ROWS_A_STEP) for first in range(0, len(whole), ROWS_A_STEP)]


def reported(frames: list[Frame]) -> list[tuple[Finding, int]]:
    """Return each finding with the time of the step that reported it."""
    judges = Judges(DetectorLimits(), [frames[0].spec])
    found = []
    for frame in frames:
        now_ns = int(frame.time_ns[-1])
        found += [(finding, now_ns) for finding in judges.step([frame], (), now_ns, NODE)]
    return found


def test_every_detector_that_is_urgent_is_one_that_there_is() -> None:
    assert {detector.name for detector in build_detectors(DetectorLimits())} >= URGENT


def test_a_rail_that_sags_is_reported_in_the_step_that_shows_it() -> None:
    frames = steps([12.0] * 30 + [11.1] * 2 + [12.0] * 8)
    late_ns = [now_ns - finding.time_ns for finding, now_ns in reported(frames) if finding.detector == "rail_sag"]
    assert late_ns
    assert max(late_ns) < BLOCK_NS / 10


def test_the_others_are_reported_within_a_second_and_state_what_they_would_have_stated_at_once() -> None:
    frames = steps([12.0] * 60 + [float("nan")] * 200 + [12.0] * 100)
    panel = Panel.build(DetectorLimits())
    state, at_once = panel.start([frames[0].spec]), list[Finding]()
    for frame in frames:
        state, found = panel.step(state, [frame], NODE)
        at_once += found
    by_blocks = reported(frames)
    assert any(finding.detector not in URGENT for finding in at_once)
    assert sorted(map(repr, at_once)) == sorted(repr(finding) for finding, _ in by_blocks)
    assert all(0 <= now_ns - finding.time_ns <= BLOCK_NS for finding, now_ns in by_blocks)


def test_a_wall_clock_that_is_set_back_lets_nothing_wait_longer() -> None:
    frames = steps([12.0] * 4)
    judges = Judges(DetectorLimits(), [frames[0].spec])
    judges.step([frames[0]], (), 10 * BLOCK_NS, NODE)
    judges.step([frames[1]], (), 5 * BLOCK_NS, NODE)
    assert judges._waiting == []


class Broken:
    """A patient detector with a defect."""

    name, kind, signals = "broken", EntityKind.SUPPLY, ("voltage_v",)

    def start(self, spec: TableSpec) -> int:
        del spec
        return 0

    def step(self, state: int, frame: Frame, topology: Topology) -> tuple[int, tuple[Finding, ...]]:
        raise RuntimeError("a defect")


def test_a_patient_detector_that_fails_costs_no_urgent_finding_and_is_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    frames = steps([12.0] * 30 + [11.1] * 2 + [12.0] * 28)
    sound = [finding for finding, _ in reported(frames) if finding.detector in URGENT]
    judges = Judges(DetectorLimits(), [frames[0].spec])
    judges._patient = Panel(detectors=(Broken(),), event_detectors=())
    judges._patient_state = judges._patient.start([frames[0].spec])
    found = [one for frame in frames for one in judges.step([frame], (), int(frame.time_ns[-1]), NODE)]
    assert found == sound
    assert judges.failures >= 3
    assert caplog.text.count("Traceback") == 1


def test_the_block_of_the_patient_waits_while_something_urgent_is_reported() -> None:
    frames = steps([12.0] * 20 + [11.1] * 2 + [12.0] * 4)
    judges = Judges(DetectorLimits(), [frames[0].spec])
    for frame in frames[:10]:
        judges.step([frame], (), int(frame.time_ns[-1]), NODE)
    waiting = len(judges._waiting)
    urgent = judges.step([frames[10]], (), int(frames[10].time_ns[-1]) + BLOCK_NS, NODE)
    assert [finding.detector for finding in urgent] == ["rail_sag", "rail_sag"]
    assert len(judges._waiting) == waiting + 1
    judges.step([frames[11]], (), int(frames[11].time_ns[-1]) + BLOCK_NS, NODE)
    assert judges._waiting == []
