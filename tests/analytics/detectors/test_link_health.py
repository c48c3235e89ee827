import numpy as np
import numpy.typing as npt
import pytest

from analytics.detectors.bus_limits import LinkHealthLimits
from analytics.detectors.link_health import LinkHealth
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.frames import Frame
from telemetry.records import Cause, Finding, FindingStatus, Severity
from tests.analytics.detectors.bus_scenes import GPUS, erring
from tests.analytics.scenes import START_NS, frame_of, node_of

ROWS = 300


def reported(frame: Frame) -> tuple[Finding, ...]:
    detector = LinkHealth(limits=LinkHealthLimits())
    return detector.step(detector.start(frame.spec), frame, node_of(4))[1]


def frame_with(rate_hz: float = 1.0, **columns: npt.ArrayLike) -> Frame:
    every = {"pcie_width": np.full((ROWS, 4), 16.0), "gpu_util_ratio": np.ones((ROWS, 4)), **columns}
    return frame_of(EntityKind.GPU, GPUS, every, rate_hz=rate_hz)


def counting(per_row: tuple[float, ...], *, start: float = 0.0) -> npt.NDArray[np.float64]:
    counts: npt.NDArray[np.float64] = np.floor(start + np.arange(ROWS)[:, np.newaxis] * np.array(per_row))
    return counts


def test_a_module_whose_nvlinks_err_among_quiet_siblings_is_loose_with_a_weak_score() -> None:
    findings = reported(erring())
    assert [(one.entity_id, one.cause, one.severity) for one in findings[:1]] == [
        ("gpu:GPU-2", Cause.LOOSE_MODULE, Severity.WARNING)
    ]
    assert findings[0].score < 0.5
    assert (findings[0].number("nvlink_errors") or 0) >= 10
    assert findings[0].number("sibling_nvlink_errors") == 0


def test_replays_that_all_siblings_make_are_not_a_module() -> None:
    assert reported(frame_with(pcie_replays=counting((0.5, 0.5, 0.5, 0.5)))) == ()
    findings = reported(frame_with(pcie_replays=counting((0.0, 0.5, 0.0, 0.0))))
    assert {one.entity_id for one in findings} == {"gpu:GPU-1"}


def test_siblings_whose_errors_are_not_counted_are_no_comparison() -> None:
    replays = counting((0.0, 0.5, 0.0, 0.0))
    replays[:, [0, 2, 3]] = np.nan
    findings = reported(frame_with(pcie_replays=replays))
    assert {one.entity_id for one in findings} == {"gpu:GPU-1"}
    assert findings[0].number("sibling_pcie_errors") is None
    assert "(siblings not counted)" in findings[0].summary


def test_errors_on_one_link_alone_point_to_that_link() -> None:
    errors = counting((0.0, 0.2, 0.0, 0.0))
    alone = reported(frame_with(nvlink_crc_errors=errors, worst_crc_errors=errors))
    spread = reported(frame_with(nvlink_crc_errors=errors, worst_crc_errors=np.floor(errors / 6)))
    assert "nearly all on one link" in alone[0].summary
    assert "nearly all on one link" not in spread[0].summary


@pytest.mark.parametrize(
    "column",
    [np.full((ROWS, 4), 1e6), counting((0.0,) * 4, start=7e9), np.full((ROWS, 4), np.nan)],
    ids=["a high count that stands", "a huge count that stands", "no counter"],
)
def test_what_was_counted_before_states_nothing(column: npt.NDArray[np.float64]) -> None:
    assert reported(frame_with(nvlink_crc_errors=column, pcie_replays=column, nvlink_replays=column)) == ()


def test_a_reset_and_an_answer_of_all_ones_are_no_errors() -> None:
    counter = np.full((ROWS, 4), 5000.0)
    counter[100:] = 0.0
    counter[200:220, 1] = 2.0**32 - 1
    assert reported(frame_with(pcie_replays=counter)) == ()


def test_a_link_that_lost_lanes_under_load_is_reported_and_one_that_idles_is_not() -> None:
    narrow = np.full((ROWS, 4), 16.0)
    narrow[100:, 0] = 8.0
    findings = reported(frame_with(pcie_width=narrow))
    assert [one.entity_id for one in findings] == ["gpu:GPU-0"]
    assert findings[0].time_ns - (START_NS + 100 * NS_PER_S) <= 30 * NS_PER_S
    assert "8 instead of 16 PCIe lanes" in findings[0].summary
    assert reported(frame_with(pcie_width=narrow, gpu_util_ratio=np.zeros((ROWS, 4)))) == ()


def test_speed_is_compared_with_the_reported_maximum_or_else_with_its_own_past() -> None:
    slow = np.full((ROWS, 4), 4.0)
    slow[:, 3] = 3.0
    limit = np.full((ROWS, 4), 4.0)
    findings = reported(frame_with(pcie_generation=slow, max_pcie_generation=limit))
    assert [one.entity_id for one in findings] == ["gpu:GPU-3"]
    assert reported(frame_with(pcie_generation=slow)) == ()


def test_an_nvlink_that_went_down_is_reported() -> None:
    up = np.ones((ROWS, 4))
    up[50:, 1] = 5 / 6
    findings = reported(frame_with(nvlink_up=up))
    assert [one.entity_id for one in findings] == ["gpu:GPU-1"]
    assert "of NVLinks up" in findings[0].summary


def test_it_clears_once_the_links_were_quiet_for_ten_minutes() -> None:
    errors = np.minimum(counting((0.0, 0.5, 0.0, 0.0)), 30.0)
    every = {"pcie_width": np.full((ROWS, 4), 16.0), "nvlink_crc_errors": errors}
    detector = LinkHealth(limits=LinkHealthLimits())
    frame = frame_of(EntityKind.GPU, GPUS, every, rate_hz=0.25)
    state, findings = detector.step(detector.start(frame.spec), frame, node_of(4))
    last = {name: np.broadcast_to(column[-1], column.shape) for name, column in every.items()}
    quiet = frame_of(EntityKind.GPU, GPUS, last, rate_hz=0.1, start_s=ROWS * 4.0)
    _, more = detector.step(state, quiet, node_of(4))
    assert findings[0].status is FindingStatus.RAISED
    assert [one.status for one in more] == [FindingStatus.CLEARED]
