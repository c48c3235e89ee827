"""Short runs to look at."""

from simulator.files.node import NodeFile, load_node
from simulator.files.scenario import ScenarioFile, load_scenario
from simulator.files.workload import load_workload
from simulator.runs.order import RunOrder

QUIET = ScenarioFile(name="quiet", description="")


def order_of(
    scenario: ScenarioFile | str = QUIET,
    *,
    node: NodeFile | str = "v100x4",
    workload: str = "ddp",
    seed: int = 1,
    duration_s: float = 3.0,
    power_limit_w: float | None = None,
    clock_mhz: float | None = None,
) -> RunOrder:
    model = load_node(node) if isinstance(node, str) else node
    return RunOrder(
        node=model,
        scenario=load_scenario(scenario, model) if isinstance(scenario, str) else scenario,
        workload=load_workload(workload),
        seed=seed,
        duration_s=duration_s,
        power_limit_w=power_limit_w,
        clock_mhz=clock_mhz,
    )


def scenario_of(**parts: object) -> ScenarioFile:
    return ScenarioFile.model_validate({"name": "made-up", "description": "", **parts})
