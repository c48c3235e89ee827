"""Buses in a node file: which supply feeds what, and what cannot be."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.files.loading import names_in
from simulator.files.node import NODES, load_node
from simulator.files.wiring import Wiring, wiring_of
from telemetry.errors import ConfigError, Problem

UNIT = "rated_w: 750, psu_mohm: 0.4, cable_mohm: 0.4, connector_mohm: 0.2, joint_mohm: 3.4"


def node_text(*, supplies: tuple[str, ...], slots: tuple[str, ...], rest: str = "", open_v: str = "12.3") -> str:
    """Return a node file of two slots; each text is what follows the comma of its line, such as ``bus: bus0``."""
    units = "".join(
        f"    - {{name: psu{place}, open_circuit_v: {open_v if place == 1 else 12.3}, {UNIT}{more}}}\n"
        for place, more in enumerate(supplies)
    )
    lines = "".join(f'  - {{pci: "0000:1{place}:00.0", preheat_k: 0{more}}}\n' for place, more in enumerate(slots))
    return f"extends: v100x4\nname: mine\nslots:\n{lines}supply:\n  units:\n{units}{rest}"


def problems_of(text: str, folder: Path) -> list[Problem]:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        load_node(str(path))
    assert {problem.where for problem in raised.value.problems} == {str(path)}
    return list(raised.value.problems)


def test_a_node_that_names_no_bus_has_one() -> None:
    assert load_node("v100x4").wiring == Wiring(buses=("bus0",), of_supply=(0, 0), of_gpu=(0, 0, 0, 0), of_rest=0)


def test_the_nodes_that_come_with_railwatch_are_wired_as_they_state() -> None:
    wirings = {name: load_node(name).wiring for name in names_in(NODES)}
    several = {name: wiring for name, wiring in wirings.items() if len(wiring.buses) > 1}
    assert set(several) == {"v100x4-two-bus", "v100x4-lone-gpu", "h100x8-two-bus", "a100x16"}
    assert several["v100x4-two-bus"].of_supply == several["v100x4-two-bus"].of_gpu == (0, 0, 1, 1)
    assert several["v100x4-lone-gpu"].of_gpu == (0, 0, 0, 1)
    assert several["h100x8-two-bus"].of_supply == (0, 0, 0, 1, 1, 1)
    assert several["a100x16"].of_rest == 2
    assert several["a100x16"].gpus_of(2) == ()


@given(st.lists(st.integers(0, 2), min_size=2, max_size=6), st.lists(st.integers(0, 2), min_size=4, max_size=16))
def test_every_supply_and_every_gpu_is_on_one_bus(supplies: list[int], gpus: list[int]) -> None:
    named = [f"bus{bus}" for bus in supplies]
    wiring = wiring_of(supplies=named, gpus=[f"bus{bus}" if f"bus{bus}" in named else None for bus in gpus], rest=None)
    buses = range(len(wiring.buses))
    assert [wiring.buses[bus] for bus in wiring.of_supply] == named
    assert sorted(unit for bus in buses for unit in wiring.supplies_of(bus)) == list(range(len(supplies)))
    assert sorted(gpu for bus in buses for gpu in wiring.gpus_of(bus)) == list(range(len(gpus)))
    assert wiring.of_rest == 0


ONE, TWO = ("", ""), (", bus: bus0", ", bus: bus1")
_LOADED = "a bus of the slots or of other_power_bus"


@pytest.mark.parametrize(
    ("text", "line", "reported"),
    [
        (
            node_text(supplies=ONE, slots=("", ", bus: bus1")),
            5,
            "slots[1].bus: got 'bus1'; expected a bus that a supply feeds: bus0",
        ),
        (
            node_text(supplies=TWO, slots=(", bus: bus0", ", bus: bus2"), rest="other_power_bus: bus1\n"),
            5,
            "slots[1].bus: got 'bus2'; expected a bus that a supply feeds: bus0, bus1",
        ),
        (
            node_text(supplies=TWO, slots=(", bus: bus0", ""), rest="other_power_bus: bus1\n"),
            5,
            "slots[1].bus: missing; expected one of the buses that supplies feed: bus0, bus1",
        ),
        (
            node_text(supplies=TWO, slots=TWO),
            1,
            "other_power_bus: missing; expected one of the buses that supplies feed: bus0, bus1",
        ),
        (
            node_text(supplies=(", bus: bus0", ", bus: bsu0"), slots=ONE, rest="other_power_bus: bus0\n"),
            9,
            f"supply.units[1].bus: got 'bsu0', which feeds nothing; expected {_LOADED}: bus0",
        ),
        (
            node_text(supplies=(*TWO, ""), slots=TWO, rest="other_power_bus: bus1\n"),
            10,
            "supply.units[2].bus: missing; expected the name of a bus, since the supplies feed several: bus0, bus1",
        ),
        (
            node_text(supplies=(", bus: B", ""), slots=ONE),
            8,
            "supply.units[0].bus: got 'B'; expected small letters and a number, such as bus0",
        ),
    ],
)
def test_a_wiring_that_cannot_be_is_refused_by_line(tmp_path: Path, text: str, line: int, reported: str) -> None:
    key, _, rest = reported.partition(": ")
    found, _, expected = rest.partition("; expected ")
    problems = {problem.key: problem for problem in problems_of(text, tmp_path)}
    assert (problems[key].line, problems[key].found, problems[key].expected) == (line, found, expected)


def test_supplies_of_two_voltages_on_one_node_are_refused_by_line(tmp_path: Path) -> None:
    (problem,) = problems_of(node_text(supplies=("", ""), slots=("", ""), open_v="54.0"), tmp_path)
    assert (problem.line, problem.key) == (9, "supply.units[1].open_circuit_v")
    assert problem.found == "got 54, a rail of 54 V"
    assert problem.expected == "a rail of 12 V, as the first supply"


def test_a_part_may_extend_another_and_holds_only_what_differs() -> None:
    base, part = load_node("h100x8").gpu, load_node("h100x8-orv3").gpu
    assert part.model_copy(update={"hazard": base.hazard}) == base
    assert part.hazard.threshold_v < base.hazard.threshold_v
