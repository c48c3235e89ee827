"""A GPU hotter than its siblings, where each has requests of its own and the heat sinks are slower than assumed."""

import numpy as np
import pytest

from analytics.detectors.hotter_than_siblings import HotterThanSiblings
from analytics.detectors.limits import HotterThanSiblingsLimits
from telemetry.entities import EntityKind
from telemetry.frames import FloatArray, Frame
from telemetry.records import Cause, Finding
from tests.analytics.scenes import frame_of, gpu, node_of

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
