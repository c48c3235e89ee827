from pathlib import Path

import pytest

from simulator.files.loading import kind_of, refuse_other_kind
from simulator.files.node import GPUS, NODES
from simulator.files.rack import RACKS
from simulator.files.rack_scenario import RACK_SCENARIOS
from simulator.files.scenario import SCENARIOS
from simulator.files.workload import WORKLOADS
from telemetry.documents import read_document
from telemetry.errors import ConfigError

FOLDERS = {
    "GPU part": GPUS,
    "node": NODES,
    "rack": RACKS,
    "rack scenario": RACK_SCENARIOS,
    "workload": WORKLOADS,
    "scenario": SCENARIOS,
}


@pytest.mark.parametrize(("kind", "folder"), FOLDERS.items())
def test_the_keys_of_every_file_that_comes_with_railwatch_report_its_kind(kind: str, folder: Path) -> None:
    for path in folder.glob("*.yaml"):
        assert kind_of(read_document(path)[0]) in (kind, None), path.name
        refuse_other_kind(read_document(path)[0], wanted=kind, path=path)


def test_a_kind_that_the_keys_do_not_identify_is_left_to_the_caller() -> None:
    unclear: tuple[object, ...] = (None, [], "text", {}, {"name": "x"})
    for data in unclear:
        refuse_other_kind(data, wanted="node", path=Path("x.yaml"))


def test_a_file_of_another_kind_is_refused_with_the_place_where_it_belongs() -> None:
    with pytest.raises(ConfigError) as raised:
        refuse_other_kind({"slots": []}, wanted="scenario", path=Path("x.yaml"))
    assert str(raised.value) == "x.yaml: this is a node; expected a scenario; use --node for a node"
