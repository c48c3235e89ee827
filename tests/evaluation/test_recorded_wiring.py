"""The wiring that a recording describes: read back, or refused in lines that name the file and the key."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from config.guard_pipeline import pipeline_settings
from config.models import Config
from evaluation.replay import recorded_wiring, replayed
from physics.wiring import Wiring
from telemetry.entities import NOMINAL_SOURCE_TAG, NOMINAL_TAG, Topology
from telemetry.errors import ConfigError
from telemetry.recording import RecordingMeta, read_recording, write_recording
from telemetry.records import Cause, Finding
from tests.analytics.detectors import supply_scenes as scenes
from tests.analytics.scenes import node_of

_54_V = ((NOMINAL_TAG, "54"), (NOMINAL_SOURCE_TAG, "label"))
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


def _overloads(rated_w: float | None, folder: Path) -> set[str]:
    """Return the summaries of overloads where a configuration gives both supplies a rating."""
    frame, path = scenes.overload(1, rated_w=None), folder / "run.parquet"
    write_recording(path, [frame], topology=node_of(4, 2), meta=RecordingMeta())
    names = [one.key for one in frame.spec.entities]
    bus = {"name": "main", "supplies": names, "branches": [{"gpus": ["all"]}]}
    supplies = [{"name": name, "rated_w": rated_w} for name in names]
    described = {} if rated_w is None else {"topology": {"supplies": supplies, "buses": [bus]}}
    settings = pipeline_settings(Config.model_validate(described), simulated=True)
    records = replayed(read_recording(path), settings)
    over = (Cause.SYNCHRONOUS_OVERLOAD, Cause.SUPPLY_OVERLOAD)
    return {one.summary for one in records if isinstance(one, Finding) and one.cause in over}


def test_a_replay_judges_by_the_ratings_that_its_configuration_describes(tmp_path: Path) -> None:
    assert _overloads(None, tmp_path) == set()
    assert any("rated 1020 W" in text for text in _overloads(1020.0, tmp_path))


def test_a_replay_names_a_description_that_the_recorded_sensors_contradict(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    frame, path = scenes.behind_meter(1), tmp_path / "run.parquet"
    tagged = replace(frame.spec, entities=tuple(replace(one, tags=_54_V) for one in frame.spec.entities))
    write_recording(path, [replace(frame, spec=tagged)], topology=node_of(4, 2), meta=RecordingMeta())
    supplies = [{"name": one.key, "nominal_v": 12} for one in tagged.entities]
    bus = {"name": "main", "supplies": [one.key for one in tagged.entities], "branches": [{"gpus": ["all"]}]}
    config = Config.model_validate({"topology": {"supplies": supplies, "buses": [bus]}})
    list(replayed(read_recording(path), pipeline_settings(config, simulated=True)))
    assert "is described as 12 V and its label is that of 54 V" in caplog.text
