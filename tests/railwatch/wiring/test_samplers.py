"""What a sampling process knows of the wiring: tags of its supplies, and the topology in its ring."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agent.collectors.port import BuiltCollector, BuiltSource, SourceState, SourceStatus
from config.models import Config
from physics.wiring import Origin
from railwatch.run_context import DriverKind, RunContext
from railwatch.wiring.samplers import chosen, make_run_ring, sampler_settings
from telemetry.entities import NOMINAL_SOURCE_TAG, NOMINAL_TAG, Entity, EntityKind
from telemetry.frames import FloatArray, TableSpec
from telemetry.signals import RateClass

_DESCRIBED = {
    "topology": {
        "supplies": [{"name": "psu0", "rated_w": 1100, "nominal_v": 12}, {"name": "psu1", "nominal_v": 12}],
        "buses": [
            {"name": "a", "supplies": ["psu0"], "branches": [{"gpus": [0]}]},
            {"name": "b", "supplies": ["psu1"], "branches": [{"gpus": [1]}]},
        ],
    }
}


class _Table:
    """Table that reads nothing."""

    rate = RateClass.FAST

    def __init__(self, name: str, kind: EntityKind, signal: str) -> None:
        self.name = name
        entities = tuple(Entity(kind=kind, key=f"{_PREFIX[kind]}{n}", name=f"{_PREFIX[kind]}{n}") for n in range(2))
        self.spec = TableSpec(name=name, kind=kind, entities=entities, signals=(signal,))

    def open(self) -> None:
        """Do nothing."""

    def read(self, values: FloatArray) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


_PREFIX = {EntityKind.SUPPLY: "psu", EntityKind.GPU: "gpu"}


@pytest.fixture
def context(tmp_path: Path) -> RunContext:
    return RunContext(
        run_dir=tmp_path,
        config_json=Config.model_validate(_DESCRIBED).model_dump_json(),
        driver=DriverKind.NONE,
        source="test",
        simulated=False,
    )


def _built(source: _Table) -> BuiltCollector:
    return BuiltSource(source=source, status=SourceStatus(name=source.name, state=SourceState.WORKING, detail=""))


def test_the_ring_of_a_run_has_the_described_feeding_and_tags(context: RunContext) -> None:
    built = (
        _built(_Table("supply", EntityKind.SUPPLY, "voltage_v")),
        _built(_Table("gpu_fast", EntityKind.GPU, "power_w")),
    )
    collectors, _ = chosen(built, context, off=lambda _: False)
    ring = make_run_ring(context, context.ring_path, collectors, sampler_settings(context.config))
    topology = ring.topology
    ring.close()
    fed = [edge for edge in topology.edges if edge[0].startswith("supply:")]
    assert fed == [("supply:psu0", "gpu:gpu0"), ("supply:psu1", "gpu:gpu1")]
    psu0 = topology.entity("supply:psu0")
    assert (psu0.nominal_v, psu0.tag("rated_w"), psu0.tag("rated_from")) == (12.0, "1100", "configuration")


def test_a_described_nominal_voltage_that_differs_from_the_measured_one_is_logged(
    context: RunContext, caplog: pytest.LogCaptureFixture
) -> None:
    table = _Table("supply", EntityKind.SUPPLY, "voltage_v")
    tags = ((NOMINAL_TAG, "54"), (NOMINAL_SOURCE_TAG, "reading"))
    psu0, psu1 = table.spec.entities
    table.spec = replace(table.spec, entities=(replace(psu0, tags=tags), replace(psu1, tags=((NOMINAL_TAG, "12"),))))
    chosen((_built(table),), context, off=lambda _: False)
    assert caplog.messages == [
        "described wiring does not fit this node: supply psu0 is described as 12 V and its reading is that of 54 V"
    ]


def test_a_description_that_does_not_fit_the_gpus_is_logged_when_the_run_starts(
    context: RunContext, caplog: pytest.LogCaptureFixture
) -> None:
    unfit = Config.model_validate(json.loads(json.dumps(_DESCRIBED).replace("[1]", '["GPU-12345678"]')))
    context = replace(context, config_json=unfit.model_dump_json())
    collectors, _ = chosen((_built(_Table("gpu_fast", EntityKind.GPU, "power_w")),), context, off=lambda _: False)
    make_run_ring(context, context.ring_path, collectors, sampler_settings(context.config)).close()
    (message,) = caplog.messages
    assert message.startswith("described wiring does not fit this node: topology.buses[1].branches[0].gpus[0]: ")
    assert message.endswith("no GPU 'GPU-12345678'; expected a GPU of the node: GPUs 0-1")


def _supplies_of(context: RunContext, *keys: str) -> list[tuple[str, str]]:
    """Return id and shown name of supplies that sensors name by these keys, as a run reads them."""
    table = _Table("supply", EntityKind.SUPPLY, "voltage_v")
    entities = tuple(Entity(kind=EntityKind.SUPPLY, key=key, name=key) for key in keys)
    table.spec = replace(table.spec, entities=entities)
    (collector,), _ = chosen((_built(table),), context, off=lambda _: False)
    return [(one.id, one.name) for one in collector.spec.entities]


def _described_as(context: RunContext, *sensors: tuple[str, list[str]]) -> RunContext:
    supplies = [{"name": name, "sensors": own} for name, own in sensors]
    described = {
        "supplies": supplies,
        "buses": [{"name": "a", "supplies": [name for name, _ in sensors], "branches": [{"gpus": "all"}]}],
    }
    return replace(context, config_json=Config.model_validate({"topology": described}).model_dump_json())


def test_a_supply_is_shown_under_its_described_name_and_keeps_its_id(context: RunContext) -> None:
    context = _described_as(context, ("psu0", ["pmbus-1-0058"]), ("psu1", ["pmbus-1-0059"]))
    assert _supplies_of(context, "pmbus-1-0058", "pmbus-1-0059", "spare") == [
        ("supply:pmbus-1-0058", "psu0"),
        ("supply:pmbus-1-0059", "psu1"),
        ("supply:spare", "spare"),
    ]


def test_two_sensors_of_one_supply_do_not_share_its_name(context: RunContext) -> None:
    context = _described_as(context, ("psu0", ["ina-0", "pmbus-1-0058"]))
    assert [name for _, name in _supplies_of(context, "ina-0", "pmbus-1-0058")] == ["psu0", "pmbus-1-0058"]


def test_a_described_name_that_is_a_sensor_of_another_supply_is_not_shown(context: RunContext) -> None:
    context = _described_as(context, ("psu0", ["psu1"]), ("psu1", ["psu0"]))
    assert _supplies_of(context, "psu0", "psu1") == [("supply:psu0", "psu0"), ("supply:psu1", "psu1")]


def test_the_supplies_of_a_simulated_node_have_the_names_that_its_recordings_have(context: RunContext) -> None:
    names = {"pmbus-hwmon0": "psu0", "pmbus-hwmon1": "psu1"}
    context = replace(context, config_json=Config().model_dump_json(), simulated=True, supply_names=names)
    assert _supplies_of(context, "pmbus-hwmon0", "pmbus-hwmon1") == [
        ("supply:pmbus-hwmon0", "psu0"),
        ("supply:pmbus-hwmon1", "psu1"),
    ]


def test_a_wiring_that_the_simulated_node_describes_is_not_that_of_the_configuration(context: RunContext) -> None:
    described, of_node = context.wiring, replace(context, node_describes_wiring=True).wiring
    assert described is not None
    assert of_node is not None
    assert (described.origin, of_node.origin) == (Origin.CONFIGURED, Origin.SIMULATED)
    assert replace(of_node, origin=described.origin) == described
