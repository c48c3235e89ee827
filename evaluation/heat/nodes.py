"""Many nodes side by side at 1 Hz: a load, two heat capacities in a row, one fan controller each, simulated sensors.

The heat is the simulator's own; loads come as power, so clocks and supplies have no part in it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from evaluation.heat.chassis import Chassis
from evaluation.heat.loads import loads_w, rooms_c
from evaluation.heat.plan import HeatPlan, HeatRun, SceneKind
from simulator.files.node import NodeFile, load_node
from simulator.plant.cooling import FLOW_MIN_RATIO
from simulator.plant.heat import HALF_FLOW, Heat, heat_model
from simulator.plant.power import REFERENCE_C
from simulator.runs.description import START_NS
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, MaskArray, TableSpec, TimeArray

FAULTY = 2  # the GPU on which a fault of one GPU stands
_CHUNK_S = 600
_INLET_OVER_S = 120.0
_SWING_S = 7200.0
_GAIN_MOST = 2.0  # standard deviations: boards report power within 5 % (arXiv 2312.02741)
_REQUEST_S = 20  # heuristic: requests come in bursts of this length
# What a node has to which nothing happens.
_USUAL = {
    SceneKind.INTERFACE: 0.0,
    SceneKind.FANS: 1.0,
    SceneKind.INLET: 0.0,
    SceneKind.SWING: 0.0,
    SceneKind.LOAD: 1.0,
    SceneKind.OWN_LOAD: 1.0,
    SceneKind.HALF: 0.0,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeatTables:
    """The tables of all nodes of a scene, and of each entity the number of its node and of its GPU, if it is one."""

    gpus: TableSpec
    nodes: TableSpec
    fans: TableSpec
    topology: Topology
    places: dict[str, tuple[int, int | None]]

    @staticmethod
    def of(n_nodes: int, gpus_per_node: int) -> "HeatTables":
        """Return the tables; every node has one fan that stands for all of them."""
        numbers = range(n_nodes)
        nodes = tuple(Entity(kind=EntityKind.NODE, key=f"n{one}", name=f"n{one}") for one in numbers)
        gpus = tuple(
            Entity(kind=EntityKind.GPU, key=f"n{one}g{place}", name=f"n{one}g{place}")
            for one in numbers
            for place in range(gpus_per_node)
        )
        fans = tuple(Entity(kind=EntityKind.FAN, key=f"n{one}f", name=f"n{one}f") for one in numbers)
        edges = [(nodes[place // gpus_per_node].id, gpu.id) for place, gpu in enumerate(gpus)]
        edges += [(node.id, fan.id) for node, fan in zip(nodes, fans, strict=True)]
        return HeatTables(
            gpus=TableSpec(
                name="gpu", kind=EntityKind.GPU, entities=gpus, signals=("gpu_temp_c", "power_w", "power_limit_w")
            ),
            nodes=TableSpec(name="node", kind=EntityKind.NODE, entities=nodes, signals=("inlet_temp_c",)),
            fans=TableSpec(name="fan", kind=EntityKind.FAN, entities=fans, signals=("fan_ratio",)),
            topology=Topology(entities=(*nodes, *gpus, *fans), edges=tuple(edges)),
            places={gpu.id: divmod(place, gpus_per_node) for place, gpu in enumerate(gpus)}
            | {one.id: (place, None) for whole in (nodes, fans) for place, one in enumerate(whole)},
        )


class HeatNodes:
    """The same nodes in all scenes of a run, one scene after the other; `onset_s` is when the fault begins on each.

    Each of `seeds` is a node of its own, and the same in every scene but for what happens to it.
    """

    def __init__(self, plan: HeatPlan, name: str, run: HeatRun, seeds: tuple[int, ...]) -> None:
        chances = [np.random.default_rng(seed) for seed in seeds]
        scenes, n_nodes = tuple(run.scenes.values()), len(seeds)
        times = len(scenes)
        self._node, self._noise = load_node(name), plan.chance.noise
        self._chance = np.random.default_rng(seeds[0])
        self.seconds = round(run.hours * 3600.0)
        onset_s = [chance.uniform(*run.onset_h) * 3600.0 for chance in chances]
        self.onset_s = np.tile(onset_s, times) * np.repeat([not one.from_start for one in scenes], n_nodes)
        self._mended_s = self.onset_s + np.repeat([_or_never(one.mended) for one in scenes], n_nodes)
        self._load_w = np.tile(loads_w(run.load, self._node.gpu, chances, seconds=self.seconds), times)
        self._room_c = np.tile(rooms_c(plan.inlet, chances, seconds=self.seconds), times)
        self._chassis = Chassis.drawn(plan.chassis, plan.chance, self._node, chances).over(times)
        drawn = np.stack([chance.standard_normal((3, self._node.gpu_count)) for chance in chances])
        idle = np.argsort([chance.random(self._node.gpu_count) for chance in chances], axis=1)
        drawn, self._idle_rank = np.tile(drawn, (times, 1, 1)), np.tile(idle, (times, 1))
        self._gain = 1.0 + np.clip(drawn[:, 0], -_GAIN_MOST, _GAIN_MOST) * plan.chance.gain
        self._share = 1.0 + plan.chance.share * drawn[:, 1]
        self._inlet_off_c = plan.chance.inlet_offset_c * drawn[:, 2, 0]
        self._busy: MaskArray = np.zeros(self._gain.shape, dtype=np.bool_)
        self._sizes = {
            kind: np.repeat([one.size if one.kind is kind else usual for one in scenes], n_nodes)
            for kind, usual in _USUAL.items()
        }
        self._shows_duty = np.repeat([one.duty for one in scenes], n_nodes)
        self.tables = HeatTables.of(*self._gain.shape)
        self.gpus_per_node = self._node.gpu_count

    def frames(self) -> Iterator[tuple[Frame, Frame, Frame]]:
        """Simulate and yield the rows of all tables, some minutes at a time."""
        fans = _Fans(self._node, len(self.onset_s))
        chassis, power_w = self._chassis, self._wanted_w(0)
        heat = Heat(
            replace(heat_model(self._node), heatsink_k_per_w=chassis.sink_k_per_w),
            power_w=power_w,
            interface_k_per_w=chassis.interface_k_per_w,
            air_c=self._air_c(0)[:, None] + chassis.air.warmth_k(power_w, flow_ratio=HALF_FLOW),
        )
        for first in range(0, self.seconds, _CHUNK_S):
            rows = [self._second(second, heat, fans) for second in range(first, min(first + _CHUNK_S, self.seconds))]
            yield self._seen(first, *(np.stack(column) for column in zip(*rows, strict=True)))

    def _second(self, second: int, heat: Heat, fans: "_Fans") -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Advance by a second; return temperatures, power, inlet and duty."""
        power_w = self._wanted_w(second) + self._leak_w(heat.die_c)
        air_c, after = self._air_c(second), second >= self.onset_s
        turning = np.where(after, self._sizes[SceneKind.FANS], 1.0)
        flow_ratio = np.maximum(fans.duty * turning, FLOW_MIN_RATIO)[:, None]
        heat.advance(
            1.0,
            power_w=power_w,
            interface_k_per_w=self._interfaces(after & (second < self._mended_s)),
            air_c=air_c[:, None] + self._chassis.air.warmth_k(heat.to_air_w, flow_ratio=flow_ratio),
            flow_ratio=flow_ratio,
        )
        fans.look(second, heat.die_c.max(axis=1))
        return heat.die_c, power_w, air_c, fans.duty

    def _wanted_w(self, second: int) -> FloatArray:
        after = second >= self.onset_s
        load_w = self._load_w[second][:, None] * self._share
        load_w[:, FAULTY] *= np.where(after, self._sizes[SceneKind.LOAD], 1.0)
        busy = self._sizes[SceneKind.OWN_LOAD][:, None]
        if second % _REQUEST_S == 0:
            self._busy = self._chance.random(load_w.shape) < busy
        waits = ~after[:, None] & (self._idle_rank < self._sizes[SceneKind.HALF][:, None] * self._node.gpu_count)
        works = ((busy >= 1.0) | self._busy | ~after[:, None]) & ~waits
        return np.where(works, load_w, self._node.gpu.power.idle_w)

    def _leak_w(self, die_c: FloatArray) -> FloatArray:
        part = self._node.gpu.power
        leak_w: FloatArray = part.leakage_per_k * part.base_w * (die_c - REFERENCE_C)
        return leak_w

    def _air_c(self, second: int) -> FloatArray:
        risen = np.clip((second - self.onset_s) / _INLET_OVER_S, 0.0, 1.0)
        swing = 0.5 * np.sin(2.0 * np.pi * second / _SWING_S)
        more_c = self._sizes[SceneKind.INLET] * risen + self._sizes[SceneKind.SWING] * swing
        air_c: FloatArray = self._room_c[second] + more_c
        return air_c

    def _interfaces(self, after: MaskArray) -> FloatArray:
        path = self._node.gpu.heat
        whole = path.junction_k_per_w + path.interface_k_per_w + path.heatsink_k_per_w
        worse = self._chassis.interface_k_per_w.copy()
        worse[:, FAULTY] += np.where(after, self._sizes[SceneKind.INTERFACE] * whole, 0.0)
        return worse

    def _seen(
        self, first: int, die_c: FloatArray, power_w: FloatArray, air_c: FloatArray, duty: FloatArray
    ) -> tuple[Frame, Frame, Frame]:
        """Return what the sensors showed: whole kelvin, each board's own gain, noise."""
        time_ns = START_NS + (first + np.arange(len(die_c), dtype=np.int64)) * NS_PER_S
        shown_w = power_w * self._gain * (1.0 + self._noise * self._chance.standard_normal(power_w.shape))
        flat = (len(time_ns), -1)
        limit_w = np.broadcast_to(self._node.gpu.power_limit_w.default, (len(time_ns), die_c[0].size))
        gpus = np.stack([np.rint(die_c).reshape(flat), shown_w.reshape(flat), limit_w], axis=2)
        inlet = np.round(16.0 * (air_c + self._inlet_off_c)) / 16.0  # as a TMP102
        tables = self.tables
        return (
            Frame(spec=tables.gpus, time_ns=time_ns, values=gpus, fresh=np.ones(gpus.shape, dtype=np.bool_)),
            _column(tables.nodes, time_ns, inlet),
            _column(tables.fans, time_ns, np.where(self._shows_duty, np.round(duty, 2), np.nan)),
        )


def _or_never(after_s: float | None) -> float:
    return np.inf if after_s is None else after_s


class _Fans:
    """The duty of each node, by the law of `simulator.plant.cooling.Fans`, all nodes at once."""

    def __init__(self, node: NodeFile, n_nodes: int) -> None:
        self._cooling = node.cooling
        self.duty: FloatArray = np.full(n_nodes, node.cooling.start_ratio)
        self._excess_k: FloatArray | None = None

    def look(self, second: int, hottest_c: FloatArray) -> None:
        cooling = self._cooling
        if second % round(cooling.period):
            return
        excess_k = hottest_c - cooling.target_c
        before_k = excess_k if self._excess_k is None else self._excess_k
        change = cooling.gain_per_k * (excess_k - before_k) + cooling.integral_per_k_s * excess_k * cooling.period
        self.duty = np.clip(self.duty + change, cooling.min_ratio, 1.0)
        self._excess_k = excess_k


def _column(spec: TableSpec, time_ns: TimeArray, values: FloatArray) -> Frame:
    return Frame(spec=spec, time_ns=time_ns, values=values[:, :, None], fresh=np.isfinite(values)[:, :, None])
