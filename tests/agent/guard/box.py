"""A node of four GPUs on two supplies as the guard sees it: a load that steps, and a rail that gives way under it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from agent.guard.pipeline import Pipeline, PipelineSettings
from agent.ring.ring import Ring
from rules.limits.node import NodeLimits
from rules.policy.loading import load_builtin_policies
from rules.policy.model import ActionClass
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, TableSpec
from telemetry.records import Action, ActionState, Decision, Mode
from tests import record_samples
from tests.agent.fakes import START_NS, V100_CLOCKS_MHZ, gpu_entities

GPUS = gpu_entities(4)
NODE = Entity(kind=EntityKind.NODE, key="node0", name="node0")
SUPPLIES = tuple(Entity(kind=EntityKind.SUPPLY, key=f"psu{n}", name=f"psu{n}") for n in range(2))
TOPOLOGY = Topology(
    entities=(NODE, *SUPPLIES, *GPUS),
    edges=(
        *((NODE.id, part.id) for part in (*SUPPLIES, *GPUS)),
        *((supply.id, gpu.id) for supply in SUPPLIES for gpu in GPUS),
    ),
)
GPU_TABLE = TableSpec(
    name="gpu_fast",
    kind=EntityKind.GPU,
    entities=GPUS,
    signals=("power_w", "sm_clock_mhz", "throttle_reasons", "gpu_temp_c", "slowdown_temp_c"),
)
SUPPLY_TABLE = TableSpec(name="supply", kind=EntityKind.SUPPLY, entities=SUPPLIES, signals=("voltage_v", "current_a"))
SPECS = (GPU_TABLE, SUPPLY_TABLE)
SUPPORTED_MHZ = {gpu.key: V100_CLOCKS_MHZ for gpu in GPUS}
ROW_NS = NS_PER_S // 20
# Per supply: the load below pulls the terminals from 12.3 V to 11.9 V and to 11.3 V.
GOOD_OHM, WEAK_OHM = 0.0065, 0.0170
POWER_BRAKE = 0x80 | 0x08


def make_pipeline(mode: Mode = Mode.ENFORCE, specs: Iterable[TableSpec] = SPECS) -> Pipeline:
    settings = PipelineSettings(
        policies=load_builtin_policies(), action_limits=NodeLimits(modes=dict.fromkeys(ActionClass, mode))
    )
    return Pipeline(tuple(specs), TOPOLOGY, settings, supported_mhz=SUPPORTED_MHZ)


@dataclass
class Box:
    """Makes rows. `clock_mhz` gives the clock of a GPU by its UUID; what a test sets is how the node does."""

    clock_mhz: Callable[[str], float | None] = lambda _: 1530.0
    resistance_ohm: float = GOOD_OHM
    ripple_v: float = 0.0
    brake: float = 0.0
    temp_c: dict[int, float] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)
    time_ns: int = START_NS
    rows: int = 0

    def row(self) -> tuple[FloatArray, FloatArray]:
        """Return the next row of the GPUs and of the supplies; a training step takes a second."""
        busy = self.rows % 20 < 14
        self.rows += 1
        self.time_ns += ROW_NS
        clocks_mhz = np.array([self.clock_mhz(gpu.key) or 1530.0 for gpu in GPUS])
        power_w = np.full(4, 150.0) if not busy else 150.0 + 200.0 * (clocks_mhz / 1530.0) ** 2
        heat_c = np.array([self.temp_c.get(index, 55.0) for index in range(4)])
        gpus = np.stack([power_w, clocks_mhz, np.full(4, self.brake), heat_c, np.full(4, 87.0)], axis=1)
        gpus[sorted(self.lost)] = np.nan
        current_a = power_w.sum() / 12.0 / 2
        ripple_v = self.ripple_v * (self.rows % 3 - 1)
        supply = np.array([12.3 - self.resistance_ohm * current_a + ripple_v, current_a])
        return gpus, np.stack([supply, supply])

    def frames(self, rows: int) -> tuple[Frame, Frame]:
        """Return so many rows at once."""
        parts = []
        times = []
        for _ in range(rows):
            parts.append(self.row())
            times.append(self.time_ns)
        gpus, supplies = (np.stack(side) for side in zip(*parts, strict=True))
        stamps = np.array(times, dtype=np.int64)
        return _frame(GPU_TABLE, stamps, gpus), _frame(SUPPLY_TABLE, stamps, supplies)

    def append_to(self, ring: Ring) -> None:
        """Write one row of each table."""
        for name, values in zip(("gpu_fast", "supply"), self.row(), strict=True):
            ring.tables[name].append(self.time_ns, values, np.ones(values.shape, dtype=np.bool_))


def _frame(spec: TableSpec, times_ns: np.ndarray[tuple[int], np.dtype[np.int64]], values: FloatArray) -> Frame:
    return Frame(spec=spec, time_ns=times_ns, values=values, fresh=np.ones(values.shape, dtype=np.bool_))


def done(decision: Decision, state: ActionState, *, now_ns: int, reason: str = "") -> tuple[Action, ...]:
    """The actions of a decision that was carried out on all of its targets."""
    return tuple(
        replace(
            record_samples.ACTION,
            id=f"clock_cap:{decision.incident_id}:{target}",
            time_ns=now_ns,
            decision_id=decision.id,
            incident_id=decision.incident_id,
            knob="application_clock",
            entity_id=target,
            wanted=decision.clock_mhz,
            read_back=decision.clock_mhz,
            state=state,
            reason=reason,
        )
        for target in decision.targets
    )
