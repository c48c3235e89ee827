"""Nodes with many rails of any voltage and many GPUs, made up: one rail is weaker than its twins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dashboards.page.source import Records
from telemetry.clock import NS_PER_S
from telemetry.entities import NOMINAL_SOURCE_TAG, NOMINAL_TAG, Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, TableSpec
from telemetry.rollup import statistics_of
from telemetry.series import rollup_columns
from tests.dashboards.fakes import FakeSource

GPU_SIGNALS = ("power_w", "sm_clock_mhz", "gpu_temp_c", "slowdown_temp_c", "gpu_util_ratio", "throttle_reasons")
PERIOD_NS = NS_PER_S // 20
# The rail that is weaker than its twins, by place.
WEAK = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rails:
    """Rails of one nominal voltage on one bus.

    Parameters
    ----------
    nominal_v, count
        Voltage and number of the rails.
    named_from
        What names the nominal voltage; empty where nothing does, so that the page goes by the readings.
    gpus
        First and last GPU, exclusive, that the bus feeds.
    old_names
        True for a table that holds `rail_voltage_v`, as stores of earlier versions do for 48 and 54 V.
    reported
        True for supplies whose output a board controller reports every ten seconds.
    sag_ratio
        How far the weak rail falls under load, as a share of its nominal voltage.
    lost_s
        When the weak rail loses its voltage and its current, in seconds since the node started.
    """

    nominal_v: float
    count: int
    named_from: str = "sensor limits"
    gpus: tuple[int, int] = (0, 16)
    old_names: bool = False
    reported: bool = False
    sag_ratio: float = 0.03
    lost_s: float = float("inf")

    def entities(self, first: int) -> tuple[Entity, ...]:
        tags = ((NOMINAL_TAG, f"{self.nominal_v:g}"), (NOMINAL_SOURCE_TAG, self.named_from)) if self.named_from else ()
        return tuple(
            Entity(kind=EntityKind.SUPPLY, key=f"psu{number}", name=f"psu{number}", tags=tags)
            for number in range(first, first + self.count)
        )

    def spec(self, first: int) -> TableSpec:
        prefix = "rail_" if self.old_names else "output_" if self.reported else ""
        signals = (f"{prefix}voltage_v", f"{prefix}current_a")
        name = f"supply-{first}"
        return TableSpec(name=name, kind=EntityKind.SUPPLY, entities=self.entities(first), signals=signals)


@dataclass
class ManyRails(FakeSource):
    """Satisfies `dashboards.page.source.PageSource` for a node of any rails and any number of GPUs."""

    rails: tuple[Rails, ...] = (Rails(nominal_v=54.0, count=6),)
    n_gpus: int = 8
    quiet: bool = True

    def specs(self) -> dict[str, tuple[TableSpec, Rails | None]]:
        """Return every table, with the rails in it."""
        gpus = tuple(
            Entity(kind=EntityKind.GPU, key=f"GPU-{i:08x}-0000-0000-0000-000000000000", name=f"gpu{i}")
            for i in range(self.n_gpus)
        )
        found: dict[str, tuple[TableSpec, Rails | None]] = {}
        first = 0
        for one in self.rails:
            spec = one.spec(first)
            found[spec.name] = (spec, one)
            first += one.count
        gpu = TableSpec(name="gpu_fast", kind=EntityKind.GPU, entities=gpus, signals=GPU_SIGNALS)
        return found | {"gpu_fast": (gpu, None)}

    def topology(self) -> Topology:
        self._answer()
        node = Entity(kind=EntityKind.NODE, key="box-17", name="box-17")
        specs = self.specs()
        gpus = specs["gpu_fast"][0].entities
        edges = [
            (supply.id, gpu.id)
            for spec, rails in specs.values()
            if rails is not None
            for supply in spec.entities
            for gpu in gpus[slice(*rails.gpus)]
        ]
        entities = (node, *dict.fromkeys(one for spec, _ in specs.values() for one in spec.entities))
        return Topology(entities=entities, edges=((node.id, gpus[0].id), *edges))

    def records(self) -> Records:
        return Records(version=0) if self.quiet else FakeSource.records(self)

    def history(self, seconds: float) -> tuple[Frame, ...]:
        return self.updates(dict.fromkeys(self.specs(), self.clock.utc_ns() - round(seconds * NS_PER_S)))

    def updates(self, since_ns: Mapping[str, int]) -> tuple[Frame, ...]:
        self._answer()
        frames = []
        for name, (spec, rails) in self.specs().items():
            if name not in since_ns:
                continue
            period_ns = 10 * NS_PER_S if rails is not None and rails.reported else PERIOD_NS
            last = self.clock.utc_ns() // period_ns
            first = max(since_ns[name], self.started_ns) // period_ns + 1
            time_ns = np.arange(first, last + 1, dtype=np.int64) * period_ns
            values = self._cells(spec, rails, (time_ns - self.started_ns) / NS_PER_S)
            frames.append(Frame(spec=spec, time_ns=time_ns, values=values, fresh=np.ones_like(values, dtype=bool)))
        return tuple(frame for frame in frames if len(frame))

    def _cells(self, spec: TableSpec, rails: Rails | None, at_s: FloatArray) -> FloatArray:
        busy = np.where((at_s % 0.9) > 0.25, 1.0, 0.3)[:, None]
        noise = np.sin(at_s[:, None] * 91.7 + np.arange(len(spec.entities)) * 2.1)
        if rails is None:
            place = np.arange(self.n_gpus)
            columns = [
                700 * busy * (1 - 0.004 * place) + 5 * noise,
                1755 + 15 * noise.round() - 180 * (place == self.n_gpus - 1),
                62 + place % 8 + 2 * np.sin(at_s[:, None] / 20 + place),
                np.full((len(at_s), self.n_gpus), 87.0),
                busy * np.ones(self.n_gpus),
                np.zeros((len(at_s), self.n_gpus)),
            ]
            return np.stack(np.broadcast_arrays(*columns), axis=2)
        weak = np.arange(rails.count) == min(WEAK, rails.count - 1)
        lost = weak & (at_s[:, None] >= rails.lost_s)
        voltage_v = rails.nominal_v * (1 - busy * (0.008 + weak * rails.sag_ratio)) + 0.0007 * rails.nominal_v * noise
        voltage_v[lost] = np.nan
        current_a = 5000 / rails.nominal_v / rails.count * busy * (1 + 0.02 * noise) * ~lost
        return np.stack(np.broadcast_arrays(voltage_v, current_a), axis=2)

    def series(self, kind: EntityKind, signals: Sequence[str], *, start_ns: int, stop_ns: int, step_ns: int) -> Frame:
        """Return rollups of the whole range, of all rails in one table."""
        self._answer()
        time_ns = np.arange(start_ns - start_ns % step_ns, stop_ns, step_ns)
        at_s = (time_ns - time_ns[0]) / NS_PER_S if len(time_ns) else time_ns.astype(np.float64)
        entities: list[Entity] = []
        blocks = []
        columns = rollup_columns(kind, signals)
        for spec, rails in self.specs().values():
            if spec.kind is not kind:
                continue
            cells = self._cells(spec, rails, at_s)
            block = np.full((len(time_ns), len(spec.entities), len(columns)), np.nan)
            for name in set(signals) & set(spec.signals):
                value = cells[:, :, spec.signals.index(name)]
                shift = {"min": 0.99, "max": 1.01}
                for statistic in statistics_of(kind, name):
                    block[:, :, columns.index(f"{name}_{statistic}")] = value * shift.get(statistic, 1.0)
            entities += spec.entities
            blocks.append(block)
        values = np.concatenate(blocks, axis=1)
        spec = TableSpec(name=str(kind), kind=kind, entities=tuple(entities), signals=columns)
        return Frame(spec=spec, time_ns=time_ns, values=values, fresh=~np.isnan(values))
