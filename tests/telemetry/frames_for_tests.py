"""Frames like those of a sampler: held values, occasional updates, gaps."""

import numpy as np

from telemetry.entities import Entity, EntityKind
from telemetry.frames import Frame, TableSpec
from telemetry.rollup import decimals_of
from telemetry.signals import RateClass, Source, signals_of

START_NS = 1_700_000_000_000_000_000


def gpu_spec(n_gpus: int = 4, *, name: str = "gpu_fast", rate: RateClass = RateClass.FAST) -> TableSpec:
    return TableSpec(
        name=name,
        kind=EntityKind.GPU,
        entities=tuple(
            Entity(
                kind=EntityKind.GPU,
                key=f"GPU-{index:08x}",
                name=f"gpu{index}",
                tags=(("pci", f"0000:{index:02x}:00.0"),),
            )
            for index in range(n_gpus)
        ),
        signals=tuple(item.name for item in signals_of(EntityKind.GPU, source=Source.NVML, rate=rate)),
    )


def sampled(
    spec: TableSpec, n_rows: int, *, start_ns: int = START_NS, period_ns: int = 50_000_000, seed: int = 7
) -> Frame:
    """Values that are already rounded to what the store keeps, so that they come back equal."""
    random = np.random.default_rng(seed)
    shape = (n_rows, *spec.shape)
    fresh = random.random(shape) < 0.5
    fresh[0] = True
    values = random.uniform(0, 400, shape)
    for index, name in enumerate(spec.signals):
        values[:, :, index] = np.round(values[:, :, index], decimals_of(spec.kind, name))
    absent = random.random(shape) < 0.01
    values[absent] = np.nan
    fresh &= ~absent
    for row in range(1, n_rows):
        held = ~fresh[row] & ~absent[row]
        values[row][held] = values[row - 1][held]
    return Frame(
        spec=spec, time_ns=start_ns + np.arange(n_rows, dtype=np.int64) * period_ns, values=values, fresh=fresh
    )


def assert_frames_equal(left: Frame, right: Frame) -> None:
    assert left.spec == right.spec
    np.testing.assert_array_equal(left.time_ns, right.time_ns)
    np.testing.assert_allclose(left.values, right.values, rtol=0, atol=1e-9, equal_nan=True)
    np.testing.assert_array_equal(left.fresh, right.fresh)
