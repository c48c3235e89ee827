"""Simulator in a process of its own. Run as a module with its task as JSON."""

import json
import resource
import sys
from collections.abc import Callable

from bench.cores import pin
from simulator.files.node import NodeFile, load_node
from simulator.files.rack import load_rack
from simulator.files.rack_scenario import undisturbed
from simulator.files.scenario import load_scenario
from simulator.files.workload import load_workload
from simulator.fleet.climate import Climate
from simulator.fleet.fleet import Fleet
from simulator.fleet.schedule import JobMix
from simulator.plant.plant import Plant
from simulator.plant.rack import Rack
from simulator.sensors.bank import SensorBank

SEED = 1
_MS_PER_S = 1000
_HOURS_PER_DAY = 24
_WARM_S = 2
_BLOCK_MS = 10


def node_of(gpus: int) -> NodeFile:
    """Return the four-GPU node with another number of GPUs, and two supplies for every four."""
    fields = json.loads(load_node("v100x4").model_dump_json())
    slot, supply = fields["slots"][0], fields["supply"]
    fields["slots"] = [{**slot, "pci": f"0000:{0x1A + index:02x}:00.0"} for index in range(gpus)]
    units = range(max(2, gpus // 2))
    supply["units"] = [{**supply["units"][0], "name": f"psu{index}"} for index in units]
    fields["other_power_w"] *= max(1, gpus // 4)
    return NodeFile.model_validate({**fields, "name": f"v100x{gpus}"})


def node_s(gpus: int, seconds: int) -> float:
    """Return the CPU seconds that a node and its sensors take for some simulated seconds."""
    node = node_of(gpus)
    scenario = load_scenario("healthy", node)
    plant = Plant(node, scenario, SEED)
    bank = SensorBank(node, scenario, SEED)

    def go(n_ms: int) -> None:
        for _ in range(n_ms // _BLOCK_MS):
            bank.advance(plant.advance(_BLOCK_MS), plant.state)

    go(_WARM_S * _MS_PER_S)
    return _cpu_s(lambda: go(seconds * _MS_PER_S))


def rack_s(nodes: int, seconds: int) -> float:
    """Return the CPU seconds that a rack of four-GPU nodes takes for some simulated seconds."""
    file = load_rack("rack4-v100")
    file = file.model_copy(update={"nodes": file.nodes[:1] * nodes})
    rack = Rack(undisturbed(file), SEED)
    rack.advance(_WARM_S * _MS_PER_S)
    return _cpu_s(lambda: rack.advance(seconds * _MS_PER_S))


def fleet_s(nodes: int, days: int) -> float:
    """Return the CPU seconds that a fleet of nodes with a mix of jobs takes for some days, an hour a step."""
    shares = (("ddp", 0.6), ("inference-8b", 0.25), ("idle", 0.15))
    mix = JobMix(shares=tuple((load_workload(name), share) for name, share in shares))
    climate = Climate(diurnal_k=4.0, noise_k=1.0, input_swing=0.01)
    fleet = Fleet([load_node("v100x4")] * nodes, seed=SEED, mix=mix, climate=climate)
    fleet.advance(1)

    def go() -> None:
        for _ in range(days):
            fleet.advance(_HOURS_PER_DAY)

    return _cpu_s(go)


def _cpu_s(work: Callable[[], object]) -> float:
    before = resource.getrusage(resource.RUSAGE_SELF)
    work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


SUBJECTS = {"node": node_s, "rack": rack_s, "fleet": fleet_s}


def main() -> None:
    """Print the CPU seconds of one task."""
    task = json.loads(sys.argv[1])
    pin(task["core"])
    print(json.dumps(SUBJECTS[task["subject"]](task["entities"], task["span"])))


if __name__ == "__main__":
    main()
