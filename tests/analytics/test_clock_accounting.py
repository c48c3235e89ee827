import numpy as np
import numpy.typing as npt
import pytest

from analytics.clock_accounting import Reason, account_text, clock_account, rounded
from telemetry.entities import EntityKind
from telemetry.frames import Frame
from tests.analytics.scenes import frame_of, gpu

ROWS = 101


def frame_with(flags: npt.ArrayLike, clock_mhz: npt.ArrayLike, **more: npt.ArrayLike) -> Frame:
    columns = {"throttle_reasons": flags, "sm_clock_mhz": clock_mhz, "max_sm_clock_mhz": np.full(ROWS, 1500.0), **more}
    return frame_of(EntityKind.GPU, (gpu(0),), columns, rate_hz=10.0)


def split(value: float, other: float, *, of_ten: int) -> npt.NDArray[np.float64]:
    return np.where(np.arange(ROWS) % 10 < of_ten, value, other)


def test_each_reason_gets_its_share_of_time_and_clock() -> None:
    account = clock_account(frame_with(split(0x4, 0, of_ten=3), split(1200.0, 1500.0, of_ten=3)))
    assert account.share(0, Reason.POWER_CAP) == pytest.approx(0.3)
    assert account.share(0, Reason.FULL) == pytest.approx(0.7)
    place = list(Reason).index(Reason.POWER_CAP)
    assert account.lost_ratio[0, place] == pytest.approx(0.3 * 0.2)
    assert account_text(account, 0) == "of 10 s: full clock 70%, power limit 30% (6% of its clock)"


def test_set_clocks_of_a_gpu_that_railwatch_capped_are_its_own_reason() -> None:
    frame = frame_with(split(0x2, 0, of_ten=3), split(1200.0, 1500.0, of_ten=3))
    account = clock_account(frame, capped={gpu(0).id})
    assert account.share(0, Reason.OWN_CAP) == pytest.approx(0.3)
    assert account.share(0, Reason.APPLICATION) == 0.0
    assert "railwatch clock cap 30%" in account_text(account, 0)
    stranger = clock_account(frame, capped={gpu(1).id})
    assert stranger.share(0, Reason.OWN_CAP) == 0.0
    assert stranger.share(0, Reason.APPLICATION) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (0x80 | 0x8 | 0x4, Reason.BRAKE),
        (0x40 | 0x8, Reason.HEAT),
        (0x20, Reason.HEAT),
        (0x8, Reason.HARDWARE),
        (0x4 | 0x2, Reason.POWER_CAP),
        (0x10, Reason.SYNC_BOOST),
        (0x2, Reason.APPLICATION),
        (0x1, Reason.IDLE),
        (0x0, Reason.OTHER),
    ],
)
def test_of_several_bits_the_gravest_is_held_responsible(flags: int, reason: Reason) -> None:
    account = clock_account(frame_with(np.full(ROWS, flags), np.full(ROWS, 900.0)))
    assert account.share(0, reason) == pytest.approx(1.0)
    assert account.polled_s.sum() == pytest.approx(account.seconds)


def test_a_counter_reports_of_brakes_that_no_poll_saw() -> None:
    counter = np.where(np.arange(ROWS) < 50, 100.0, 102.5)
    account = clock_account(frame_with(np.zeros(ROWS), np.full(ROWS, 1500.0), power_brake_s=counter))
    assert account.share(0, Reason.BRAKE) == pytest.approx(0.25)


def test_a_counter_that_is_reset_and_a_hole_in_time_count_for_nothing() -> None:
    counter = np.where(np.arange(ROWS) < 50, 100.0, 0.0)
    frame = frame_with(np.full(ROWS, 0x4), np.full(ROWS, 1200.0), power_violation_s=counter)
    times = frame.time_ns.copy()
    times[50:] += 3600 * 10**9
    holed = Frame(spec=frame.spec, time_ns=times, values=frame.values, fresh=frame.fresh)
    account = clock_account(holed)
    assert account.seconds == pytest.approx(9.9)
    assert account.counted_s[0, list(Reason).index(Reason.POWER_CAP)] == 0.0


@pytest.mark.parametrize("late", [0, 10])
def test_what_a_counter_grew_by_in_a_hole_is_no_time_that_was_watched(late: int) -> None:
    """Nor where its slower table shows it a second later."""
    counter = np.where(np.arange(ROWS) < 20, 0.0, 0.5) + np.where(np.arange(ROWS) < 50 + late, 0.0, 1800.0)
    frame = frame_with(np.zeros(ROWS), np.full(ROWS, 1500.0), power_brake_s=counter)
    times = frame.time_ns + np.where(np.arange(ROWS) < 50, 0, 3600 * 10**9)
    account = clock_account(Frame(spec=frame.spec, time_ns=times, values=frame.values, fresh=frame.fresh))
    assert account.counted_s[0, list(Reason).index(Reason.BRAKE)] == pytest.approx(0.5)


def test_what_was_not_seen_is_unknown_and_an_empty_stretch_states_so() -> None:
    account = clock_account(frame_with(np.full(ROWS, np.nan), np.full(ROWS, np.nan)))
    assert account.share(0, Reason.UNKNOWN) == pytest.approx(1.0)
    assert np.isnan(account.lost_ratio).all()
    nothing = clock_account(frame_with(np.zeros(ROWS), np.zeros(ROWS)).rows(0, 0))
    assert account_text(nothing, 0) == "no time to account for"


def test_shares_add_up_to_one_where_a_counter_saw_more_than_the_polls() -> None:
    counter = np.arange(ROWS) * 0.05
    frame = frame_with(split(0x4, 0, of_ten=3), split(1200.0, 1500.0, of_ten=3), power_violation_s=counter)
    account = clock_account(frame)
    assert account.share(0, Reason.POWER_CAP) == pytest.approx(0.5)
    assert sum(account.share(0, reason) for reason in Reason) == pytest.approx(1.0)
    assert account_text(account, 0) == "of 10 s: power limit 50% (6% of its clock), full clock 50%"


def test_a_lost_gpu_counts_only_while_it_was_read() -> None:
    rows = np.arange(ROWS)
    account = clock_account(
        frame_with(np.where(rows < 40, 0.0, np.nan), np.where(rows < 40, 1500.0, np.nan)),
    )
    assert account_text(account, 0) == "of 4 s: full clock 100%, not read for 6 s"


@pytest.mark.parametrize("shares", [(1 / 3, 1 / 3, 1 / 3), (0.005, 0.995, 0.0), (0.785, 0.2149, 0.0001)])
def test_rounded_shares_add_up(shares: tuple[float, ...]) -> None:
    assert sum(rounded(shares, 100)) == 100
