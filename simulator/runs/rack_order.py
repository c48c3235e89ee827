"""Request for a run of a rack, checked before the simulation."""

from dataclasses import dataclass

from simulator.files.rack import nodes_of
from simulator.files.rack_scenario import RackScenario
from simulator.files.workload import Workload, load_workload
from simulator.plant.plant import BLOCK_MS
from simulator.plant.rack import Rack, node_seed
from simulator.runs.order import CLOSED_FORM_ABOVE_S, RunOrder, set_gpus
from telemetry.durations import format_duration
from telemetry.errors import ConfigError, Problem

_MS_PER_S = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RackOrder:
    """Run of a rack.

    `workload` is what runs on nodes of which the scenario asks nothing else, None: what each node's file names.
    `power_limit_w` and `clock_mhz` are settings of all GPUs, None where the driver's own hold.
    """

    scenario: RackScenario
    seed: int
    duration_s: float
    workload: Workload | None = None
    power_limit_w: float | None = None
    clock_mhz: float | None = None

    def nodes(self) -> tuple[RunOrder, ...]:
        """Return what that means for each node; ConfigError where one or its workload cannot be read."""
        return tuple(
            RunOrder(
                node=node,
                scenario=scenario,
                workload=load_workload(node.workload) if self.workload is None else self.workload,
                seed=node_seed(self.seed, number),
                duration_s=self.duration_s,
                power_limit_w=self.power_limit_w,
                clock_mhz=self.clock_mhz,
            )
            for number, (node, scenario) in enumerate(
                zip(nodes_of(self.scenario.rack), self.scenario.nodes, strict=True)
            )
        )

    def plant(self) -> Rack:
        """Make the rack, its nodes settled under the settings in force."""
        rack = Rack(self.scenario, self.seed, workload=self.workload)
        for plant in rack.plants:
            set_gpus(plant, power_limit_w=self.power_limit_w, clock_mhz=self.clock_mhz)
        rack.settle()
        return rack


def check_rack_duration(duration_s: float, *, option: str = "--duration") -> None:
    """Refuse a duration that is nothing, or that only the closed form could do, with a ConfigError."""
    shortest_s = BLOCK_MS / _MS_PER_S
    if not shortest_s <= duration_s <= CLOSED_FORM_ABOVE_S:
        longest = format_duration(CLOSED_FORM_ABOVE_S)
        expected = f"{format_duration(shortest_s)} to {longest}: a rack is simulated in tier a only"
        found = f"got {format_duration(duration_s)}"
        raise ConfigError([Problem(where=option, line=None, key="", found=found, expected=expected)])
