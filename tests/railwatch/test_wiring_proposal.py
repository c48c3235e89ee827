"""A proposed wiring as YAML: names read back as they are, whatever a recording names its supplies and GPUs."""

from dataclasses import replace

import numpy as np
import pytest
import yaml

from analytics.connectivity.wiring_learning import LearntLink, LearntWiring
from railwatch.operator.wiring_proposal import WiringProposal, description_lines, propose_wiring
from telemetry.entities import BOARD_PLACE, NOMINAL_TAG, PLACE_TAG, SOURCE_TAG, Entity, EntityKind
from telemetry.frames import FloatArray, Frame, TableSpec

_SURE = LearntLink(bus=0, confidence=0.999)


@pytest.mark.parametrize(
    "name", ["psu0", "pmbus-hwmon1", "PSU 1", "12", "1e3", "0x1f", "on", "null", 'a"b', "a\\b", "a: b", "#x", "p\nq: 1"]
)
def test_every_name_reads_back_as_it_is(name: str) -> None:
    supply, gpu, lost = (
        Entity(kind=kind, key=name, name=name) for kind in (EntityKind.SUPPLY, EntityKind.GPU, EntityKind.SUPPLY)
    )
    learnt = LearntWiring(supplies=(_SURE,), gpus=(_SURE,), n_steps=40)
    proposal = WiringProposal(supplies=(supply,), gpus=(gpu,), learnt=learnt, left_out=(lost,))
    found = yaml.safe_load("\n".join(description_lines(proposal, source="a.parquet")))["topology"]
    assert found["supplies"] == [{"name": name}]
    assert found["buses"] == [{"name": "bus0", "supplies": [name], "branches": [{"gpus": [name]}]}]


def test_a_supply_with_a_name_of_its_own_is_described_by_it_and_by_its_sensor() -> None:
    supplies = tuple(
        Entity(kind=EntityKind.SUPPLY, key=key, name=name)
        for key, name in (("pmbus-1-0058", "psu0"), ("pmbus-1-0059", "psu1"), ("psu1", "psu1"))
    )
    learnt = LearntWiring(supplies=(_SURE,) * 3, gpus=(), n_steps=40)
    proposal = WiringProposal(supplies=supplies, gpus=(), learnt=learnt, left_out=())
    found = yaml.safe_load("\n".join(description_lines(proposal, source="a.parquet")))["topology"]
    assert found["supplies"] == [
        {"name": "psu0", "sensors": ["pmbus-1-0058"]},
        {"name": "pmbus-1-0059"},
        {"name": "psu1"},
    ]
    assert found["buses"][0]["supplies"] == ["psu0", "pmbus-1-0059", "psu1"]


def _table(name: str, kind: EntityKind, keys: str, values: dict[str, FloatArray], tag: str = "") -> Frame:
    tags = (("sensor", tag),) if tag else ()
    spec = TableSpec(
        name=name,
        kind=kind,
        entities=tuple(Entity(kind=kind, key=key, name=key, tags=tags) for key in keys.split()),
        signals=tuple(values),
    )
    columns = np.stack(list(values.values()), axis=2)
    times_ns = np.arange(len(columns)) * 100_000_000
    return Frame(spec=spec, time_ns=times_ns, values=columns, fresh=np.isfinite(columns))


def test_a_supply_that_two_tables_describe_is_learnt_once_from_the_faster_one() -> None:
    rng = np.random.default_rng(1)
    gpu_w = np.repeat(rng.uniform(100.0, 400.0, (60, 2)), 20, axis=0)
    amps, volts = gpu_w / 12.0, np.full(gpu_w.shape, 12.0)
    now_and_then = np.where(np.arange(len(gpu_w))[:, np.newaxis] % 45 == 0, 1.0, np.nan)
    frames = [
        _table("gpu_fast", EntityKind.GPU, "gpu0 gpu1", {"power_w": gpu_w}),
        _table("supply", EntityKind.SUPPLY, "psu0 psu1", {"voltage_v": volts, "current_a": amps}),
        _table(
            "board_supplies",
            EntityKind.SUPPLY,
            "psu0 psu1",
            {"output_voltage_v": volts * now_and_then, "output_current_a": amps * now_and_then},
            tag="hwmon1",
        ),
    ]
    proposal = propose_wiring(frames)
    assert proposal is not None
    assert [one.key for one in proposal.supplies] == ["psu0", "psu1"]
    assert [link.bus for link in proposal.learnt.supplies] == [link.bus for link in proposal.learnt.gpus]
    assert proposal.unsure == ()


def _two_buses_with_rails() -> list[Frame]:
    """Return GPUs of two buses that are busy at times of their own, and a rail of the board of each in coarse steps."""
    rng = np.random.default_rng(3)
    busy = np.repeat(np.stack([np.tile([0.0, 1.0], 8), np.repeat(np.tile([0.0, 1.0], 4), 2)], axis=1), 200, axis=0)
    gpu_w = 100.0 + 2500.0 * busy * rng.uniform(0.8, 1.0, busy.shape)
    volts = np.full(gpu_w.shape, 54.0)
    rail_v = np.round((54.0 - 0.02 * gpu_w / 54.0) / 0.25) * 0.25
    tables = [
        _table("gpu_fast", EntityKind.GPU, "gpu0 gpu1", {"power_w": gpu_w}),
        _table("supply", EntityKind.SUPPLY, "psu0 psu1", {"voltage_v": volts, "current_a": gpu_w / 54.0}),
        _table("bmc_supply", EntityKind.SUPPLY, "bmc-p54v-a bmc-p54v-b", {"rail_voltage_v": rail_v}),
    ]
    tags = ((SOURCE_TAG, "bmc"), (NOMINAL_TAG, "54"), (PLACE_TAG, BOARD_PLACE))
    rails = tuple(replace(one, tags=tags) for one in tables[2].spec.entities)
    tables[2] = replace(tables[2], spec=replace(tables[2].spec, entities=rails))
    return tables


def test_a_rail_of_the_board_that_follows_one_bus_alone_is_proposed_as_its_sensor() -> None:
    proposal = propose_wiring(_two_buses_with_rails())
    assert proposal is not None
    assert proposal.left_out == ()
    lines = "\n".join(description_lines(proposal, source="a.parquet"))
    by_supply = {bus["supplies"][0]: bus["sensors"] for bus in yaml.safe_load(lines)["topology"]["buses"]}
    assert by_supply == {"psu0": ["bmc-p54v-a"], "psu1": ["bmc-p54v-b"]}


def test_rails_of_the_board_that_follow_no_bus_alone_are_left_to_a_person() -> None:
    tables = _two_buses_with_rails()
    tables[2] = replace(tables[2], values=tables[2].values.mean(axis=1, keepdims=True).repeat(2, axis=1))
    proposal = propose_wiring(tables)
    assert proposal is not None
    lines = "\n".join(description_lines(proposal, source="a.parquet"))
    assert "  # not known which bus they show, name them in its sensors: bmc-p54v-a, bmc-p54v-b" in lines
    assert all("sensors" not in bus for bus in yaml.safe_load(lines)["topology"]["buses"])
