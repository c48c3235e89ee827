"""``railwatch simulate list``: the nodes, workloads, racks and scenarios that come with railwatch."""

import re
from collections.abc import Iterator
from typing import Any

from railwatch.cli.printing import print_json, print_table
from railwatch.cli.run_folder import JsonFlag
from simulator.files.loading import names_in
from simulator.files.node import NODES, load_node
from simulator.files.rack import RACKS, load_rack
from simulator.files.rack_scenario import RACK_SCENARIOS, load_rack_scenario
from simulator.files.scenario import SCENARIOS, load_scenario, node_for
from simulator.files.workload import WORKLOADS, load_workload
from telemetry.durations import format_duration

_SENTENCE_END = re.compile(r"(?<=[.!?])\s")
_TITLES = {
    ("node", None): "nodes",
    ("workload", None): "workloads",
    ("scenario", "fault"): "scenarios in which something is wrong",
    ("scenario", "quiet"): "scenarios in which nothing is wrong and nothing may alarm",
    ("rack", None): "racks",
    ("rack scenario", "fault"): "rack scenarios in which something is wrong",
    ("rack scenario", "quiet"): "rack scenarios in which nothing is wrong and nothing may alarm",
}
_HEADINGS = {"workload": "kind", "scenario": "length", "rack scenario": "length"}


def list_command(as_json: JsonFlag = False) -> None:
    """List nodes, workloads, racks and scenarios; railwatch simulate show NAME shows one."""
    entries = list(_entries())
    if as_json:
        for entry in entries:
            print_json(entry)
        return
    for (kind, verdict), title in _TITLES.items():
        rows = [
            (entry["name"], _size(entry), first_sentence(entry["description"]))
            for entry in entries
            if entry["kind"] == kind and entry.get("verdict") == verdict
        ]
        if rows:
            print_table(f"\n{title}", ("name", _HEADINGS.get(kind, "size"), "what"), rows)


def first_sentence(description: str) -> str:
    """Return the first sentence of a description, in one line."""
    return _SENTENCE_END.split(" ".join(description.split()), maxsplit=1)[0]


def _entries() -> Iterator[dict[str, Any]]:
    for name in names_in(NODES):
        node = load_node(name)
        yield _entry("node", node.name, node.description, gpus=node.gpu_count, gpu=node.gpu.name)
    for name in names_in(WORKLOADS):
        job = load_workload(name)
        yield _entry("workload", job.name, job.description, job=job.kind)
    for name in names_in(SCENARIOS):
        scenario = load_scenario(name, load_node(node_for(name)))
        fields = {"verdict": scenario.kind, "duration_s": scenario.duration}
        yield _entry("scenario", scenario.name, scenario.description, **fields)
    for name in names_in(RACKS):
        rack = load_rack(name)
        yield _entry("rack", rack.name, rack.description, nodes=len(rack.nodes))
    for name in names_in(RACK_SCENARIOS):
        file = load_rack_scenario(name).file
        of_rack: dict[str, object] = {"verdict": file.kind, "duration_s": file.duration, "rack": file.rack}
        yield _entry("rack scenario", file.name, file.description, **of_rack)


def _entry(kind: str, name: str, description: str, **fields: object) -> dict[str, Any]:
    return {"kind": kind, "name": name, "description": " ".join(description.split()), **fields}


def _size(entry: dict[str, Any]) -> str:
    match entry["kind"]:
        case "node":
            return f"{entry['gpus']} GPUs"
        case "workload":
            return str(entry["job"])
        case "rack":
            return f"{entry['nodes']} nodes"
        case _:
            return format_duration(entry["duration_s"])
