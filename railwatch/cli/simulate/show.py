"""``railwatch simulate show``: a node, GPU part, workload, rack or scenario, with figures computed from its numbers."""

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel

from railwatch.cli.printing import print_json
from railwatch.cli.run_folder import JsonFlag
from railwatch.cli.simulate.ordering import is_for_rack
from railwatch.cli.simulate.show_node import (
    node_figures,
    print_node,
    print_numbers,
    print_rack,
    print_values,
    rack_figures,
)
from railwatch.cli.simulate.show_scenario import print_scenario
from simulator.files.loading import kind_of, names_in
from simulator.files.node import GPUS, NODES, NodeFile, load_gpu_part, load_node
from simulator.files.rack import RACKS, RackFile, load_rack
from simulator.files.rack_scenario import RACK_SCENARIOS, RackScenarioFile, load_rack_scenario
from simulator.files.remarks import SourcedNumber, numbers_of
from simulator.files.scenario import SCENARIOS, ScenarioFile, load_scenario, node_for
from simulator.files.workload import WORKLOADS, load_workload
from telemetry.documents import read_document
from telemetry.errors import ConfigError

_SUFFIXES = (".yaml", ".yml")
_NAME_OR_FILE = "a name from railwatch simulate list, or the path of a YAML file"
_FOLDERS = {
    "node": NODES,
    "scenario": SCENARIOS,
    "workload": WORKLOADS,
    "GPU part": GPUS,
    "rack": RACKS,
    "rack scenario": RACK_SCENARIOS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """A named file: its kind, its checked content, and its numbers with their sources.

    `on` is the node or the rack on which a scenario is shown.
    """

    kind: str
    model: BaseModel
    numbers: tuple[SourcedNumber, ...]
    on: str


def show(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name from railwatch simulate list, or path of a YAML file.")
    ],
    node: Annotated[
        str | None, typer.Option(help="Node on which a scenario is shown; default: the one it names.")
    ] = None,
    rack: Annotated[
        str | None, typer.Option(help="Rack on which a rack scenario is shown; default: the one it names.")
    ] = None,
    sources: Annotated[bool, typer.Option("--sources", help="Print every number with its source.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Show a node, GPU part, workload, rack or scenario; of a file with errors, list every problem."""
    chosen = _choose(name, _kind_of(name), node=node, rack=rack)
    if as_json:
        print_json(_as_fields(chosen))
        return
    match chosen.model:
        case NodeFile():
            print_node(chosen.model)
        case ScenarioFile() | RackScenarioFile():
            print_scenario(chosen.model, on=chosen.on)
        case RackFile():
            print_rack(chosen.model)
        case _:
            print_values(chosen.kind, chosen.model)
            sources = True
    if sources:
        print_numbers(chosen.numbers)
    else:
        typer.echo(f"\n{len(chosen.numbers)} numbers; --sources prints the source of each")


def _kind_of(name: str) -> str:
    if name.endswith(_SUFFIXES):
        return _kind_of_file(Path(name))
    if Path(name).exists():
        found = "is a folder" if Path(name).is_dir() else f"does not end in {' or '.join(_SUFFIXES)}"
        raise ConfigError.at(name, found, _NAME_OR_FILE)
    known = {kind: names_in(folder) for kind, folder in _FOLDERS.items()}
    for kind, names in known.items():
        if name in names:
            return kind
    nearest = difflib.get_close_matches(name, [each for names in known.values() for each in names], n=1)
    perhaps = f"; perhaps {nearest[0]}" if nearest else ""
    expected = "one of " + "; ".join(f"{kind}: {', '.join(names)}" for kind, names in known.items()) + perhaps
    raise ConfigError.at("NAME", f"got {name!r}", expected)


def _kind_of_file(path: Path) -> str:
    if not path.exists():
        raise ConfigError.at(path, "there is no such file", _NAME_OR_FILE)
    data, _ = read_document(path)
    return kind_of(data) or "scenario"


def _choose(name: str, kind: str, *, node: str | None, rack: str | None) -> _Choice:
    option, on = "NAME", ""
    if kind in ("scenario", "rack scenario"):
        is_for_rack(name, node=node, rack=rack, option=option)
    match kind:
        case "node":
            chosen: BaseModel = load_node(name, option=option)
        case "scenario":
            on = node or node_for(name, option=option)
            chosen = load_scenario(name, load_node(on, option="--node"), option=option)
        case "workload":
            chosen = load_workload(name, option=option)
        case "GPU part":
            chosen = load_gpu_part(name, option=option)
        case "rack":
            chosen = load_rack(name, option=option)
        case _:
            asked = None if rack is None else load_rack(rack, option="--rack")
            scenario = load_rack_scenario(name, asked, option=option)
            chosen, on = scenario.file, scenario.rack.name
    parts = {"gpu": GPUS} if kind == "node" else None
    numbers = numbers_of(_path(name, _FOLDERS[kind]), folder=_FOLDERS[kind], parts=parts)
    return _Choice(kind=kind, model=chosen, numbers=numbers, on=on)


def _path(name: str, folder: Path) -> Path:
    return Path(name) if name.endswith(_SUFFIXES) else folder / f"{name}.yaml"


def _as_fields(chosen: _Choice) -> dict[str, Any]:
    fields: dict[str, Any] = {"type": chosen.kind, **chosen.model.model_dump(mode="json")}
    if isinstance(chosen.model, NodeFile):
        fields["figures"] = node_figures(chosen.model)
    if isinstance(chosen.model, RackFile):
        fields["figures"] = rack_figures(chosen.model)
    fields["numbers"] = [
        {"key": item.key, "value": item.value, "file": str(item.file), "line": item.line, "remark": item.remark}
        for item in chosen.numbers
    ]
    return fields
