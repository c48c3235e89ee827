"""Ten simulated minutes of a varying job teach the curve of every simulated part to five per cent."""

import pytest

from analytics.board_curve.learner import BoardLearner
from analytics.board_curve.windows import LoadKind, LoadWindow, windows_of
from tests.analytics.board_curve.simulated import SimulatedBoards

# Jobs that train, solve, answer requests and train again; the clock moves once a minute, as caps and their releases do.
_JOBS = ((0.0, "ddp"), (200.0, "hpc"), (330.0, "prefill-decode"), (400.0, "ddp"))
_SEEN = (1.0, 0.85, 0.95, 0.70, 0.90, 0.75, 0.80, 0.88, 0.72, 1.0)
_UNSEEN = (0.92, 0.78, 0.65, 0.60, 0.50)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["v100x4", "a100x8", "h100x8", "b200x8"])
def test_after_ten_minutes_the_power_at_a_clock_not_seen_is_predicted_to_five_per_cent(name: str) -> None:
    boards = SimulatedBoards(name, _JOBS)
    learner = BoardLearner([boards.spec], supported_mhz=boards.supported_mhz)
    for ratio in _SEEN:
        boards.cap(ratio)
        for frame in boards.rows(60.0):
            learner.feed(frame)
    boards.cap(0.8)
    now = _plateaus(boards)
    for ratio in _UNSEEN:
        boards.cap(ratio)
        for gpu, before, after in zip(boards.spec.entities, now, _plateaus(boards), strict=True):
            top_mhz = boards.node.gpu.clocks.max_mhz
            curve = learner.curves[gpu.id]
            found = curve.predict(before.power_w, before.clock_mhz / top_mhz, after.clock_mhz / top_mhz)
            assert after.kind is LoadKind.COMPUTE
            assert found.power_w == pytest.approx(after.power_w, rel=0.05), (gpu.name, ratio)


def _plateaus(boards: SimulatedBoards) -> list[LoadWindow]:
    """Return the plateau of each GPU over ten seconds, from two seconds after the change of the clock."""
    frames = [*boards.rows(12.0)][2:]
    return [window for window in windows_of(frames) if window is not None]
