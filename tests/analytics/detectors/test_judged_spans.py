"""What the panel reports as judged: rails read often enough, paths with a window, sensors that answered."""

from dataclasses import replace

import numpy as np
import pytest

from analytics.detectors.limits import DetectorLimits
from analytics.detectors.panel import Panel, PanelState
from analytics.judged import DIPS, PATHS
from telemetry.clock import NS_PER_S
from telemetry.entities import NOMINAL_TAG, Entity, EntityKind
from telemetry.frames import FloatArray, Frame
from tests.analytics.detectors import supply_scenes as scenes
from tests.analytics.scenes import START_NS, frame_of, node_of, supply

PANEL = Panel.build(DetectorLimits())
NODE = node_of(4, 2)


def at(seconds: float) -> int:
    return START_NS + round(seconds * NS_PER_S)


def rails(volts: FloatArray | float, *, seconds: float = 10.0, rate_hz: float = 20.0, nominal: str = "12") -> Frame:
    """Return two rails that read `volts`, shape ``(n_rows, 2)`` or one number."""
    members = tuple(replace(supply(number), tags=((NOMINAL_TAG, nominal),) if nominal else ()) for number in range(2))
    values = np.broadcast_to(volts, (round(seconds * rate_hz) + 1, 2))
    columns = {"voltage_v": values, "current_a": np.full(values.shape, 40.0)}
    return frame_of(EntityKind.SUPPLY, members, columns, rate_hz=rate_hz)


def after(*frames: Frame) -> PanelState:
    state = PANEL.start([frames[0].spec])
    for frame in frames:
        state, _ = PANEL.step(state, [frame], NODE)
    return state


def dips(*frames: Frame, since_s: float = 0.0, until_s: float = 10.0, psus: tuple[int, ...] = (0, 1)) -> bool:
    ids = frozenset(supply(number).id for number in psus)
    judged = PANEL.judged(after(*frames))
    return judged.throughout(DIPS, ids, since_ns=at(since_s), until_ns=at(until_s)) == ids


@pytest.mark.parametrize(("volts", "nominal"), [(12.0, "12"), (54.0, "54"), (48.0, "48"), (12.0, ""), (54.0, "")])
def test_a_rail_whose_class_is_named_or_shown_is_judged_for_dips(volts: float, nominal: str) -> None:
    assert dips(rails(volts, nominal=nominal))
    assert not dips(rails(volts, nominal=nominal), since_s=-0.1)


def test_a_rail_between_the_classes_is_not_judged() -> None:
    assert not dips(rails(17.0, nominal=""))


def test_mains_have_no_limit_and_are_no_subject() -> None:
    assert not dips(rails(230.0, nominal="230"))
    volts = np.broadcast_to(np.array([230.0, 12.0]), (201, 2))
    judged = PANEL.judged(after(rails(volts, nominal="")))
    both = frozenset(supply(number).id for number in range(2))
    assert judged.throughout(DIPS, both, since_ns=at(0), until_ns=at(10)) == {supply(1).id}


@pytest.mark.parametrize("rate_hz", [1.0, 2.0, 3.0])
def test_a_rail_that_is_read_a_few_times_a_second_is_not_judged_for_dips(rate_hz: float) -> None:
    assert not dips(rails(12.0, rate_hz=rate_hz), since_s=5.0)


def test_a_gap_in_the_readings_of_one_rail_ends_its_span_alone() -> None:
    volts = np.full((201, 2), 12.0)
    volts[100:110, 1] = np.nan
    frame = rails(volts)
    assert dips(frame, psus=(0,))
    assert not dips(frame, psus=(1,))
    assert dips(frame, since_s=5.6, psus=(1,))


def test_a_single_reading_that_fails_ends_no_span() -> None:
    volts = np.full((201, 2), 12.0)
    volts[100] = np.nan
    assert dips(rails(volts))


def test_the_span_of_a_rail_that_fell_silent_ends_there() -> None:
    volts = np.full((201, 2), 12.0)
    volts[150:] = np.nan
    assert dips(rails(volts), until_s=7.4)
    assert not dips(rails(volts), until_s=8.0)


@pytest.mark.parametrize("cut", [1, 7, 60, 200])
def test_spans_are_the_same_however_the_rows_are_cut(cut: int) -> None:
    volts = np.full((201, 2), 12.0)
    volts[100:110, 1] = np.nan
    frame = rails(volts)
    parts = [frame.rows(first, min(first + cut, len(frame))) for first in range(0, len(frame), cut)]
    (whole, _), (cut_up, _) = (
        [(one.until_ns.tolist(), one.detector) for one in PANEL.judged(after(*frames)).spans if one.detector == DIPS]
        + [("", "")]
        for frames in ([frame], parts)
    )
    assert whole == cut_up
    assert dips(*parts, psus=(0,))
    assert not dips(*parts, psus=(1,))


def test_a_path_is_judged_once_load_steps_have_identified_it() -> None:
    ids = frozenset(one.id for one in scenes.MEMBERS)
    amps = scenes.load(1)
    stepping = PANEL.judged(after(scenes.frame(scenes.rail(amps, seed=1), amps)))
    assert stepping.throughout(PATHS, ids, since_ns=at(18.0), until_ns=at(20.0)) == ids
    assert stepping.throughout(PATHS, ids, since_ns=at(200.0), until_ns=at(200.0)) == frozenset()
    steady = scenes.load(1, low=50.0, high=50.0)
    still = PANEL.judged(after(scenes.frame(scenes.rail(steady, seed=1), steady)))
    assert still.throughout(PATHS, ids, since_ns=at(18.0), until_ns=at(20.0)) == frozenset()


def test_a_sensor_that_never_answered_is_not_watched_for_silence() -> None:
    volts = np.column_stack([np.full(201, 12.0), np.full(201, np.nan)])
    frame = rails(volts)
    frame = replace(frame, values=np.where(np.isnan(volts)[:, :, np.newaxis], np.nan, frame.values))
    ids = frozenset(supply(number).id for number in range(2))
    assert PANEL.judged(after(frame)).any_of("supply_sensor_lost", ids) == {supply(0).id}


def test_a_panel_without_the_detector_of_dips_judges_none() -> None:
    panel = Panel(detectors=tuple(one for one in PANEL.detectors if one.name != DIPS), event_detectors=())
    frame = rails(12.0)
    state, _ = panel.step(panel.start([frame.spec]), [frame], NODE)
    assert DIPS not in {one.detector for one in panel.judged(state).spans}
    assert not state.readings


def test_the_spans_name_the_entities_of_their_table() -> None:
    (span,) = (one for one in PANEL.judged(after(rails(12.0))).spans if one.detector == DIPS)
    assert all(isinstance(one, Entity) for one in span.entities)
    assert span.since_ns.tolist() == [START_NS, START_NS]
