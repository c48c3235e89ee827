"""Request for a run of a node or a rack, checked before the simulation."""

from dataclasses import dataclass, replace

import numpy as np

from simulator.files.node import NodeFile
from simulator.files.rack import nodes_of
from simulator.files.rack_scenario import RackScenario
from simulator.files.scenario import ScenarioFile
from simulator.files.workload import Workload, load_workload
from simulator.fleet.unsupported import unsupported_parts
from simulator.plant.plant import BLOCK_MS, Plant
from simulator.plant.rack import Rack, node_seed
from telemetry.durations import format_duration
from telemetry.errors import ConfigError, Problem

# Beyond an hour the closed form of the physics answers what a run of milliseconds would take too long for.
CLOSED_FORM_ABOVE_S = 3600.0
# Its steps by duration: about a thousand to ten thousand of them; the closed form holds from a minute to an hour.
_STEPS_S = ((86_400.0, 60.0), (14 * 86_400.0, 600.0), (float("inf"), 3600.0))
LONGEST_S = {"a": 7 * 86_400.0, "b": 10 * 365 * 86_400.0}  # heuristic: a longer duration is a typing error
_MS_PER_S = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrder:
    """Run; `power_limit_w` and `clock_mhz` are settings of all GPUs, None where the driver's own hold."""

    node: NodeFile
    scenario: ScenarioFile
    workload: Workload
    seed: int
    duration_s: float
    power_limit_w: float | None = None
    clock_mhz: float | None = None

    @property
    def duration_ms(self) -> int:
        """Return the duration in whole blocks of the plant."""
        return round(self.duration_s * _MS_PER_S / BLOCK_MS) * BLOCK_MS

    @property
    def settings(self) -> dict[str, float | None]:
        """Return the settings as recordings hold them."""
        return {"power_limit_w": self.power_limit_w, "clock_mhz": self.clock_mhz}

    def plant(self) -> Plant:
        """Build the plant, settled under the settings in force."""
        plant = Plant(self.node, self.scenario, self.seed, workload=self.workload)
        set_gpus(plant, power_limit_w=self.power_limit_w, clock_mhz=self.clock_mhz)
        plant.settle()
        return plant


def set_gpus(plant: Plant, *, power_limit_w: float | None, clock_mhz: float | None) -> None:
    """Set what is not None on all GPUs of a plant."""
    settings, n_gpus = plant.settings, plant.node.gpu_count
    if power_limit_w is not None:
        settings = replace(settings, power_limit_w=np.full(n_gpus, power_limit_w))
    if clock_mhz is not None:
        settings = replace(settings, app_clock_mhz=np.full(n_gpus, clock_mhz, dtype=np.float64))
    plant.obey(settings)


def tier_of(duration_s: float, asked: str | None) -> str:
    """Return ``a`` for milliseconds or ``b`` for the closed form: as requested, else by the duration."""
    return asked or ("b" if duration_s > CLOSED_FORM_ABOVE_S else "a")


def check_duration(duration_s: float, *, tier: str, option: str = "--duration") -> None:
    """Refuse a duration that is nothing or absurd with a ConfigError."""
    _check_span(duration_s, LONGEST_S[tier], f" in tier {tier}", option)


def check_closed_form(order: RunOrder) -> None:
    """Refuse what the closed form would leave out without a word with a ConfigError."""
    step_s = closed_form_step_s(order.duration_s)
    lost = unsupported_parts(order.node, order.scenario, order.workload, step_s=step_s)
    if lost:
        expected = "--tier a, or a scenario and workload that the closed form can show"
        raise ConfigError([Problem(where="--tier b", found=reason, expected=expected) for reason in lost])


def closed_form_step_s(duration_s: float) -> float:
    """Return the length of a step of the closed form for a run of some length."""
    step_s = next(step_s for longest_s, step_s in _STEPS_S if duration_s <= longest_s)
    return min(step_s, duration_s)


def check_settings(node: NodeFile, *, power_limit_w: float | None, clock_mhz: float | None) -> None:
    """Refuse settings that the part's driver would refuse with a ConfigError; for a clock it names the nearest one."""
    problems = []
    limits = node.gpu.power_limit_w
    if power_limit_w is not None and not limits.min <= power_limit_w <= limits.max:
        expected = f"{limits.min:g} to {limits.max:g} W on {node.gpu.name}"
        problems.append(Problem(where="--power-limit-w", found=f"got {power_limit_w:g}", expected=expected))
    supported = node.gpu.clocks.supported_mhz
    if clock_mhz is not None and clock_mhz not in supported:
        nearest = min(supported, key=lambda known: (abs(known - clock_mhz), known))
        expected = f"a supported clock of {node.gpu.name}, {nearest} MHz is the nearest"
        problems.append(Problem(where="--clock-mhz", found=f"got {clock_mhz:g}", expected=expected))
    if problems:
        raise ConfigError(problems)


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
        """Build the rack, its nodes settled under the settings in force."""
        rack = Rack(self.scenario, self.seed, workload=self.workload)
        for plant in rack.plants:
            set_gpus(plant, power_limit_w=self.power_limit_w, clock_mhz=self.clock_mhz)
        rack.settle()
        return rack


def check_rack_duration(duration_s: float, *, option: str = "--duration") -> None:
    """Refuse a duration that is nothing, or that only the closed form could do, with a ConfigError."""
    _check_span(duration_s, CLOSED_FORM_ABOVE_S, ": a rack is simulated in tier a only", option)


def _check_span(duration_s: float, longest_s: float, where: str, option: str) -> None:
    shortest_s = BLOCK_MS / _MS_PER_S
    if not shortest_s <= duration_s <= longest_s:
        expected = f"{format_duration(shortest_s)} to {format_duration(longest_s)}{where}"
        raise ConfigError.at(option, f"got {format_duration(duration_s)}", expected)
