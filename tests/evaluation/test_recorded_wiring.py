"""The wiring that a recording describes: read back, or refused in lines that name the file and the key."""

from pathlib import Path
from typing import Any

import pytest

from evaluation.replay import recorded_wiring
from physics.wiring import Wiring
from telemetry.entities import Topology
from telemetry.errors import ConfigError
from telemetry.recording import RecordingMeta, read_recording, write_recording

_BUS = {"name": "main", "supplies": ["psu0"], "branches": [{"gpus": ["all"]}]}


def _read_back(topology: Any, folder: Path) -> Wiring | None:
    path = folder / "run.parquet"
    write_recording(path, [], topology=Topology(entities=()), meta=RecordingMeta(config={"topology": topology}))
    return recorded_wiring(read_recording(path))


@pytest.mark.parametrize("topology", [None, {}])
def test_a_recording_may_describe_no_wiring(topology: Any, tmp_path: Path) -> None:
    assert _read_back(topology, tmp_path) is None


def test_a_described_wiring_is_read_back(tmp_path: Path) -> None:
    wiring = _read_back({"supplies": [{"name": "psu0", "nominal_v": 54}], "buses": [_BUS]}, tmp_path)
    assert wiring is not None
    assert [(bus.name, bus.nominal_v) for bus in wiring.buses] == [("main", 54.0)]


@pytest.mark.parametrize(
    ("topology", "key"),
    [
        ([1, 2], "topology"),
        ({"supplies": [{"name": "psu0", "rated_w": 0}], "buses": [_BUS]}, "topology.supplies[0].rated_w"),
        ({"supplies": [{"name": "psu0", "of_a_later_version": 1}]}, "topology.supplies[0].of_a_later_version"),
        ({"supplies": [{"name": "psu1"}], "buses": [_BUS]}, "topology.buses[0].supplies"),
    ],
)
def test_a_description_that_does_not_fit_is_refused_by_file_and_key(topology: Any, key: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        _read_back(topology, tmp_path)
    (problem,) = caught.value.problems
    assert (problem.where, problem.key) == (str(tmp_path / "run.parquet"), key)
