"""``railwatch simulate list``: the nodes and scenarios there are."""

from railwatch.cli.output import print_json, print_table
from railwatch.cli.place import JsonFlag
from simulator.files.node import load_node, node_names
from simulator.files.scenario import load_scenario, scenario_names


def list_command(as_json: JsonFlag = False) -> None:
    """List nodes and scenarios; run one with railwatch up --simulate NODE --scenario NAME."""
    nodes = [load_node(name) for name in node_names()]
    scenarios = [load_scenario(name, nodes[0]) for name in scenario_names()]
    if as_json:
        for node in nodes:
            print_json({"kind": "node", "name": node.name, "gpus": node.gpu_count})
        for scenario in scenarios:
            print_json({"kind": "scenario", "name": scenario.name, "description": scenario.description})
        return
    rows = [("node", node.name, f"{node.gpu_count} x {node.gpu.name}") for node in nodes]
    rows += [("scenario", scenario.name, scenario.description) for scenario in scenarios]
    print_table("simulate", ("kind", "name", "what"), rows)
