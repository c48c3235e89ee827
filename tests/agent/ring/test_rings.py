"""Several rings read as one."""

from pathlib import Path

import numpy as np
import pytest

from agent.ring.ring import Ring
from agent.ring.rings import Rings
from telemetry.entities import NOMINAL_TAG, Entity, EntityKind, Topology
from telemetry.errors import EnvironmentLacksError
from telemetry.frames import TableSpec


def ring(path: Path, *names: str) -> Ring:
    node = Entity(kind=EntityKind.NODE, key="box", name="box")
    part = Entity(kind=EntityKind.SUPPLY, key=path.name, name=path.name)
    specs = [TableSpec(name=name, kind=EntityKind.SUPPLY, entities=(part,), signals=("voltage_v",)) for name in names]
    topology = Topology(entities=(node, part), edges=((node.id, part.id),))
    return Ring.create(path, specs, node="box", topology=topology, simulated=True, rows=dict.fromkeys(names, 8))


def test_tables_and_topology_of_all_rings_are_one_set(tmp_path: Path) -> None:
    fast, slow = ring(tmp_path / "fast", "supply"), ring(tmp_path / "slow", "board", "meter")
    rings = Rings.attach(tmp_path / "fast", (tmp_path / "slow",))
    assert list(rings.tables) == ["supply", "board", "meter"]
    assert [entity.id for entity in rings.topology.entities] == ["node:box", "supply:fast", "supply:slow"]
    assert rings.topology.edges == (("node:box", "supply:fast"), ("node:box", "supply:slow"))
    slow.tables["meter"].append(1, np.full((1, 1), 12.0), np.ones((1, 1), dtype=np.bool_))
    assert rings.tables["meter"].read(0).frame.values.tolist() == [[[12.0]]]
    assert rings.main.tables.keys() == {"supply"}
    fast.close()
    slow.close()


def test_a_supply_in_two_rings_keeps_the_nominal_voltage_that_one_of_them_names(tmp_path: Path) -> None:
    for place, (name, tag) in enumerate((("fast", (NOMINAL_TAG, "54")), ("slow", ("slot", "3")))):
        part = Entity(kind=EntityKind.SUPPLY, key="psu0", name="psu0", tags=(tag,))
        spec = TableSpec(name=f"table{place}", kind=EntityKind.SUPPLY, entities=(part,), signals=("voltage_v",))
        topology = Topology(entities=(part,))
        Ring.create(tmp_path / name, [spec], node="box", topology=topology, simulated=True, rows={spec.name: 8}).close()
    (supply,) = Rings.attach(tmp_path / "fast", (tmp_path / "slow",)).topology.entities
    assert (supply.nominal_v, supply.tag("slot")) == (54.0, "3")


def test_a_ring_that_comes_later_makes_the_set_old(tmp_path: Path) -> None:
    ring(tmp_path / "fast", "supply")
    rings = Rings.attach(tmp_path / "fast", (tmp_path / "slow",))
    assert rings.current
    assert list(rings.tables) == ["supply"]
    ring(tmp_path / "slow", "board")
    assert not rings.current
    assert list(Rings.attach(tmp_path / "fast", (tmp_path / "slow",)).tables) == ["supply", "board"]


def test_a_ring_that_was_replaced_makes_the_set_old(tmp_path: Path) -> None:
    ring(tmp_path / "fast", "supply")
    ring(tmp_path / "slow", "board").close()
    rings = Rings.attach(tmp_path / "fast", (tmp_path / "slow",))
    ring(tmp_path / "slow", "board", "meter")
    assert not rings.current


def test_only_the_tables_of_the_ring_that_was_replaced_are_in_another_one(tmp_path: Path) -> None:
    ring(tmp_path / "fast", "supply")
    ring(tmp_path / "slow", "board").close()
    before = Rings.attach(tmp_path / "fast", (tmp_path / "slow",)).identities
    ring(tmp_path / "slow", "board", "meter")
    after = Rings.attach(tmp_path / "fast", (tmp_path / "slow",)).identities
    assert after["supply"] == before["supply"]
    assert after["board"] != before["board"]
    assert after["meter"] == after["board"]


def test_without_the_main_ring_there_is_none(tmp_path: Path) -> None:
    ring(tmp_path / "slow", "board")
    with pytest.raises(EnvironmentLacksError, match="is the agent running"):
        Rings.attach(tmp_path / "fast", (tmp_path / "slow",))
