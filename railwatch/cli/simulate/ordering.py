"""Order of a simulation, of a node or a rack, from the options of the command line."""

from dataclasses import dataclass
from pathlib import Path

from simulator.files import DEFAULT_NODE
from simulator.files.loading import names_in, unknown_name
from simulator.files.node import load_node
from simulator.files.rack import load_rack, nodes_of
from simulator.files.rack_scenario import RACK_SCENARIOS, is_rack_scenario, load_rack_scenario, undisturbed
from simulator.files.scenario import SCENARIOS, UNDISTURBED, load_scenario, node_for
from simulator.files.workload import load_workload
from simulator.runs.order import (
    RackOrder,
    RunOrder,
    check_closed_form,
    check_duration,
    check_rack_duration,
    check_settings,
    tier_of,
)
from telemetry.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOptions:
    """Options of the command line; None if not given."""

    scenario: str | None
    node: str | None
    rack: str | None
    workload: str | None
    duration_s: float | None
    seed: int
    power_limit_w: float | None
    clock_mhz: float | None
    tier: str | None


def order_of(options: SimulationOptions) -> RunOrder | RackOrder:
    """Return the checked order; ConfigError if the options do not allow one."""
    if options.tier not in (None, "a", "b"):
        raise ConfigError.at("--tier", f"got {options.tier!r}", "a or b")
    if options.scenario is None and options.node is None and options.rack is None and options.workload is None:
        expected = "a scenario, or --node and --workload, or --rack in place of one"
        raise ConfigError.at("SCENARIO", "missing", expected)
    return (
        _rack_order(options)
        if is_for_rack(options.scenario, node=options.node, rack=options.rack)
        else _node_order(options)
    )


def is_for_rack(scenario: str | None, *, node: str | None, rack: str | None, option: str = "SCENARIO") -> bool:
    """Return True if the simulation is of a rack: by its scenario, else if a rack is named.

    Raises
    ------
    ConfigError
        The scenario does not go with the node or the rack, both of these are named, or nothing has its name.
    """
    if node is not None and rack is not None:
        raise ConfigError.at("--rack", f"got {rack!r} beside --node {node}", "one of both")
    if scenario is None:
        return rack is not None
    if is_rack_scenario(scenario):
        if node is not None:
            expected = "a node's scenario, or --rack in place of --node"
            raise ConfigError.at(option, f"{scenario!r} is a scenario of a rack", expected)
        return True
    known = scenario in names_in(SCENARIOS) or Path(scenario).is_file()
    if known and rack is not None:
        expected = "a rack's scenario (its file has the key rack), or --node in place of --rack"
        raise ConfigError.at(option, f"{scenario!r} is a scenario of a node", expected)
    if not known and node is None and rack is None and not Path(scenario).is_dir():
        names = (*names_in(SCENARIOS), *names_in(RACK_SCENARIOS))
        raise unknown_name(scenario, names, what="scenario", option=option)
    return rack is not None


def _node_order(options: SimulationOptions) -> RunOrder:
    own = DEFAULT_NODE if options.scenario is None else node_for(options.scenario, option="SCENARIO")
    node = load_node(options.node or own, option="--node")
    scenario = UNDISTURBED if options.scenario is None else load_scenario(options.scenario, node, option="SCENARIO")
    order = RunOrder(
        node=node,
        scenario=scenario,
        workload=load_workload(options.workload or node.workload),
        seed=options.seed,
        duration_s=scenario.duration if options.duration_s is None else options.duration_s,
        power_limit_w=options.power_limit_w,
        clock_mhz=options.clock_mhz,
    )
    tier = tier_of(order.duration_s, options.tier)
    check_duration(order.duration_s, tier=tier)
    check_settings(node, power_limit_w=options.power_limit_w, clock_mhz=options.clock_mhz)
    if tier == "b":
        check_closed_form(order)
    return order


def _rack_order(options: SimulationOptions) -> RackOrder:
    if options.tier == "b":
        raise ConfigError.at("--tier", "got 'b'", "a: a rack is simulated in tier a only")
    rack = None if options.rack is None else load_rack(options.rack, option="--rack")
    if options.scenario is not None:
        scenario = load_rack_scenario(options.scenario, rack, option="SCENARIO")
    elif rack is not None:
        scenario = undisturbed(rack)
    else:
        raise ValueError("a scenario or a rack")
    duration_s = scenario.file.duration if options.duration_s is None else options.duration_s
    check_rack_duration(duration_s)
    for node in nodes_of(scenario.rack):
        check_settings(node, power_limit_w=options.power_limit_w, clock_mhz=options.clock_mhz)
    return RackOrder(
        scenario=scenario,
        seed=options.seed,
        duration_s=duration_s,
        workload=None if options.workload is None else load_workload(options.workload),
        power_limit_w=options.power_limit_w,
        clock_mhz=options.clock_mhz,
    )
