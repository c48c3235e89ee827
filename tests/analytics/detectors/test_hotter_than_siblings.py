"""A GPU hotter than its siblings, where each has requests of its own and the heat sinks are slower than assumed."""

from dataclasses import replace

import numpy as np
import pytest

from analytics.detectors.hotter_than_siblings import HotterThanSiblings
from analytics.detectors.limits import HotterThanSiblingsLimits
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.frames import FloatArray, Frame
from telemetry.records import Cause, Finding, FindingStatus, Severity
from tests.analytics.scenes import START_NS, frame_of, gpu, node_of

N_GPUS, SECONDS = 8, 3600
LIMIT_W, IDLE_W = 700.0, 70.0
# Of an H100 at a quarter of its fans: 0.055 K/W at half of them, of which 0.032 K/W with 1,800 J/K to the air.
K_PER_W, AIR_SHARE, SINK_S = 0.079, 0.71, 100.0
AIR_C = 25.0


def warmed(power_w: FloatArray, k_per_w: FloatArray) -> Frame:
    """Return rows at 1 Hz of GPUs with these powers ``(n_seconds, n_gpus)`` and resistances ``(n_gpus,)``."""
    sink_w = np.empty_like(power_w)
    sink_w[0] = power_w[0]
    for second in range(1, len(power_w)):
        sink_w[second] = sink_w[second - 1] + (power_w[second] - sink_w[second - 1]) / SINK_S
    temp_c = AIR_C + k_per_w * ((1.0 - AIR_SHARE) * power_w + AIR_SHARE * sink_w)
    columns = {"gpu_temp_c": np.rint(temp_c), "power_w": power_w, "power_limit_w": np.full_like(power_w, LIMIT_W)}
    return frame_of(EntityKind.GPU, tuple(map(gpu, range(N_GPUS))), columns, rate_hz=1.0)


def reported(frame: Frame) -> tuple[Finding, ...]:
    detector = HotterThanSiblings(limits=HotterThanSiblingsLimits())
    return detector.step(detector.start(frame.spec), frame, node_of(N_GPUS, 1))[1]


def own_requests(seed: int) -> FloatArray:
    """Return powers of GPUs that are busy two fifths of the time, in bursts of twenty seconds, each for itself."""
    busy = np.random.default_rng(seed).random((SECONDS // 20, N_GPUS)) < 0.4
    return np.where(np.repeat(busy, 20, axis=0), LIMIT_W, IDLE_W)


@pytest.mark.parametrize("seed", range(6))
def test_what_slow_heat_sinks_hold_of_requests_of_their_own_is_no_bad_interface(seed: int) -> None:
    assert reported(warmed(own_requests(seed), np.full(N_GPUS, K_PER_W))) == ()


@pytest.mark.parametrize("seed", range(3))
def test_a_bad_interface_under_one_load_is_found_with_slow_heat_sinks_too(seed: int) -> None:
    power_w = 600.0 + 20.0 * np.random.default_rng(seed).standard_normal((120, N_GPUS))
    found = reported(warmed(power_w, K_PER_W * np.where(np.arange(N_GPUS) == 2, 1.4, 1.0)))
    assert {(one.entity_id, one.cause) for one in found} == {(gpu(2).id, Cause.THERMAL_INTERFACE)}


# A healthy node of eight: some slots breathe what the others heated, the more the more the node works.
SLOT_SHARE = np.array([0.25, 0.0, 0.0, 0.25, 0.25, 0.0, 0.0, 0.25])


def with_slots(power_w: FloatArray, worse: FloatArray | float = 0.0) -> Frame:
    """Return rows of GPUs whose slots add a share of the rise; GPU 2 is `worse` by a share ``(n_seconds,)``."""
    frame = warmed(power_w, K_PER_W * (1.0 + SLOT_SHARE))
    rise_c = frame.signal("gpu_temp_c") - AIR_C
    more_c = np.broadcast_to(np.asarray(worse), len(power_w))[:, np.newaxis] * rise_c * (np.arange(N_GPUS) == 2)
    values = frame.values.copy()
    values[:, :, frame.spec.signals.index("gpu_temp_c")] += np.rint(more_c)
    return replace(frame, values=values)


def steady(seconds: int, power_w: float, seed: int = 0) -> FloatArray:
    return power_w + 10.0 * np.random.default_rng(seed).standard_normal((seconds, N_GPUS))


@pytest.mark.parametrize("seed", range(3))
def test_slots_that_differ_for_good_by_the_order_of_their_air_are_no_finding(seed: int) -> None:
    assert reported(with_slots(steady(1800, 500.0, seed))) == ()


@pytest.mark.parametrize("number", [0, 2])
def test_a_fault_of_the_first_day_is_beside_those_of_the_same_air_until_it_is_mended(number: int) -> None:
    worse = np.where(np.arange(1800) < 1200, 0.5, 0.0)
    shares = K_PER_W * (1.0 + SLOT_SHARE + np.outer(worse, np.arange(N_GPUS) == number))
    found = [one for one in reported(warmed(steady(1800, 500.0), shares)) if one.detector.endswith(".slot")]
    assert [one.status for one in found] == [FindingStatus.RAISED, FindingStatus.CLEARED]
    assert {one.entity_id for one in found} == {gpu(number).id}
    assert (found[0].time_ns - START_NS) / NS_PER_S < 60.0
    assert found[0].severity is Severity.WARNING
    assert "in the same air" in found[0].summary
    assert (found[1].time_ns - START_NS) / NS_PER_S < 1200.0 + 300.0


def test_a_gpu_that_was_accepted_as_it_is_is_no_fault_of_the_first_day_any_more() -> None:
    shares = K_PER_W * (1.0 + SLOT_SHARE + 0.5 * (np.arange(N_GPUS) == 2))
    detector, frame = HotterThanSiblings(limits=HotterThanSiblingsLimits()), warmed(steady(1200, 500.0), shares)
    first, second = parts_of(frame, 600)
    state, found = detector.step(detector.start(frame.spec), first, node_of(N_GPUS, 1))
    assert {one.entity_id for one in found} == {gpu(2).id}
    state, found = detector.step(detector.accept(state, np.arange(N_GPUS) == 2), second, node_of(N_GPUS, 1))
    assert {one.status for one in found} == {FindingStatus.CLEARED}
    assert state.comparison.slot_c[2] > 8.0, "it is learnt as it is now"


def parts_of(frame: Frame, rows: int) -> tuple[Frame, Frame]:
    """Return the first rows of a frame, and the others."""
    first, second = (
        replace(frame, time_ns=frame.time_ns[part], values=frame.values[part], fresh=frame.fresh[part])
        for part in (slice(rows), slice(rows, None))
    )
    return first, second


@pytest.mark.parametrize("before_w", [100.0, 300.0, 400.0])
def test_what_slots_add_at_full_load_is_not_judged_by_what_they_add_at_less(before_w: float) -> None:
    found = reported(with_slots(np.concatenate([steady(900, before_w), steady(900, 550.0, 1)])))
    assert {one.severity for one in found} <= {Severity.INFO}


def among_cool_slots(seed: int, worse: float = 0.0) -> Frame:
    """Return rows of a node of which, after ten minutes, only GPU 2 and those of the coolest slots keep their load.

    GPU 2 is `worse` by a share of its rise from two minutes before the end.
    """
    share = np.array([0.0, 0.05, 0.2, 0.2, 0.2, 0.25, 0.3, 0.3])
    power_w = steady(2400, 500.0, seed)
    power_w[600:, 3:] = IDLE_W
    frame = warmed(power_w, K_PER_W * (1.0 + share))
    values, temp = frame.values.copy(), frame.spec.signals.index("gpu_temp_c")
    values[-120:, 2, temp] += np.rint(worse * (values[-120:, 2, temp] - AIR_C))
    return replace(frame, values=values)


@pytest.mark.parametrize("seed", range(3))
def test_a_gpu_that_is_left_with_siblings_of_cool_slots_is_no_hotter_than_before(seed: int) -> None:
    assert {one.severity for one in reported(among_cool_slots(seed))} <= {Severity.INFO}
    found = [one for one in reported(among_cool_slots(seed, worse=0.25)) if one.severity is Severity.WARNING]
    assert {one.entity_id for one in found} == {gpu(2).id}


@pytest.mark.parametrize("seed", range(3))
def test_a_small_excess_over_a_slot_that_was_learnt_at_this_load_is_a_change(seed: int) -> None:
    worse = 0.18 * np.outer(np.arange(1800) >= 900, np.arange(N_GPUS) == 2)
    found = reported(warmed(steady(1800, 320.0, seed), K_PER_W * (1.0 + SLOT_SHARE + worse)))
    changes = [one for one in found if one.severity is Severity.WARNING]
    assert {one.entity_id for one in changes} == {gpu(2).id}
    assert 4.0 <= (changes[0].number("excess_c") or 0.0) < 5.0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("over_s", [5.0, 60.0])
def test_a_change_of_a_gpu_among_unlike_slots_is_a_warning_within_a_minute(seed: int, over_s: float) -> None:
    onset_s, time_s = 600, np.arange(1200.0)
    worse = 0.4 * np.clip((time_s - onset_s) / over_s, 0.0, 1.0)
    found = [one for one in reported(with_slots(steady(1200, 500.0, seed), worse)) if one.severity is Severity.WARNING]
    assert {one.entity_id for one in found} == {gpu(2).id}
    assert (found[0].time_ns - START_NS) / NS_PER_S - onset_s < 60.0
    assert "usual for its slot" in found[0].summary or "its siblings" in found[0].summary


def test_an_excess_that_no_slot_explains_is_a_warning_from_the_start() -> None:
    found = reported(warmed(steady(300, 500.0), K_PER_W * np.where(np.arange(N_GPUS) == 2, 1.45, 1.0)))
    assert {(one.entity_id, one.severity) for one in found} == {(gpu(2).id, Severity.WARNING)}


def test_an_accepted_gpu_is_learnt_again() -> None:
    detector, frame = HotterThanSiblings(limits=HotterThanSiblingsLimits()), with_slots(steady(900, 500.0))
    state, _ = detector.step(detector.start(frame.spec), frame, node_of(N_GPUS, 1))
    after = detector.accept(state, np.arange(N_GPUS) == 3)
    assert after.slots.windows[3] == 0.0
    assert after.slots.windows[4] == state.slots.windows[4] > 0.0
