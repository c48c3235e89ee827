import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.actuation.limits import DEFAULT_LIMITS, ActuatorSettings, KnobLimits, allowed_setting, bounded_claim
from telemetry.gpu import KnobKind
from tests.agent.actuation.rig import cap
from tests.agent.fakes import V100_CLOCKS_MHZ

CLOCK, POWER, FAN = KnobKind
LIMITS = DEFAULT_LIMITS[CLOCK]


@pytest.mark.parametrize(
    ("wanted_mhz", "set_mhz"), [(1057.0, 1057.0), (1056.9, 1005.0), (9999.0, 1530.0), (300.0, 802.0), (612.0, 802.0)]
)
def test_the_highest_supported_clock_at_or_below_is_taken_within_the_rail(wanted_mhz: float, set_mhz: float) -> None:
    assert allowed_setting(CLOCK, V100_CLOCKS_MHZ, wanted_mhz, LIMITS) == set_mhz


@pytest.mark.parametrize("wanted_mhz", [0.0, -1.0, float("nan"), float("inf")])
def test_a_clock_that_means_nothing_is_refused(wanted_mhz: float) -> None:
    with pytest.raises(ValueError, match="positive"):
        allowed_setting(CLOCK, V100_CLOCKS_MHZ, wanted_mhz, LIMITS)


def test_a_part_without_clocks_is_refused() -> None:
    with pytest.raises(ValueError, match="no clock"):
        allowed_setting(CLOCK, (), 1000.0, LIMITS)


@given(
    supported=st.lists(st.floats(100, 3000), min_size=1, max_size=40),
    wanted_mhz=st.floats(1, 4000),
    ratio=st.floats(0, 1),
)
def test_a_clock_is_supported_within_the_rail_and_not_above_what_was_wanted_unless_the_rail_states_so(
    supported: list[float], wanted_mhz: float, ratio: float
) -> None:
    clock = allowed_setting(CLOCK, supported, wanted_mhz, KnobLimits(min_ratio=ratio, safe_ratio=1.0))
    rail = ratio * max(supported)
    assert clock in supported
    assert clock >= rail
    assert clock <= wanted_mhz or not any(rail <= other <= wanted_mhz for other in supported)


def test_the_safe_clock_is_the_decisions_own_or_a_share_of_the_highest() -> None:
    own = bounded_claim(cap(safe_setting=900.0), V100_CLOCKS_MHZ, LIMITS, now_s=0.0, now_ns=0)
    assert own.safe_setting == 802.0
    share = bounded_claim(cap(), V100_CLOCKS_MHZ, LIMITS, now_s=0.0, now_ns=0)
    assert share.safe_setting == 1005.0


def test_a_pause_doubles_up_to_its_longest() -> None:
    assert [ActuatorSettings().pause_s(tries) for tries in (0, 1, 3, 5, 10_000)] == [1.0, 2.0, 8.0, 30.0, 30.0]


def test_a_request_that_means_nothing_is_misuse() -> None:
    with pytest.raises(ValueError, match="setting"):
        cap(float("nan"))
    with pytest.raises(ValueError, match="lease_s"):
        cap(lease_s=0.0)
    with pytest.raises(ValueError, match="gpus"):
        cap(gpus=())
