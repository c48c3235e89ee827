"""Nominal voltages of the rails that a board controller measures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.collectors.bmc.layout import lay_out
from agent.collectors.bmc.point import Place, Point, Quantity
from agent.collectors.bmc.rail_nominal import nominal_of_point
from physics.rail_classes import RAIL_CLASSES, RailClass
from telemetry.entities import NOMINAL_SOURCE_TAG, NominalSource

RAILS = [one for one in RAIL_CLASSES if one.has_limit]


def rail(name: str, limits: tuple[float, float] | None = None, place: Place = Place.BOARD, **more: object) -> Point:
    return Point(key=name, name=name, quantity=Quantity.VOLTAGE, place=place, limits=limits, **more)  # type: ignore[arg-type]  # of a test


@pytest.mark.parametrize(
    ("point", "nominal_v", "source"),
    [
        (rail("HGX Main", (51.3, 56.7)), 54.0, NominalSource.THRESHOLDS),
        (rail("P12V", (11.4, 12.6)), 12.0, NominalSource.THRESHOLDS),
        (rail("P12V"), 12.0, NominalSource.LABEL),
        (rail("P3V3"), 3.3, NominalSource.LABEL),
        (rail("P12V", (0.0, 20.0)), 12.0, NominalSource.LABEL),
        (rail("PSU0 Vout", (49.7, 58.3), Place.SUPPLY, unit="psu0"), 54.0, NominalSource.THRESHOLDS),
        (rail("-48V IN", (43.0, 58.0)), 48.0, NominalSource.LABEL),  # limits of either
    ],
)
def test_a_rail_is_named_by_its_thresholds_else_by_its_name(
    point: Point, nominal_v: float, source: NominalSource
) -> None:
    found = nominal_of_point(point)
    assert found is not None
    assert (found.rail_class.nominal_v, found.source) == (nominal_v, source)
    assert not found.conflict


@pytest.mark.parametrize(
    "point",
    [
        rail("P12V_STBY", (11.4, 12.6)),  # on while the node is off
        rail("CMOS BAT", (2.7, 3.5)),
        rail("PVCCIN", (1.6, 2.0)),
        rail("PSU0 Vin", (11.4, 12.6), Place.SUPPLY, unit="psu0", is_input=True),
        rail("Feed", (200.0, 250.0)),
    ],
)
def test_standby_rails_inputs_and_other_voltages_have_no_nominal_voltage(point: Point) -> None:
    assert nominal_of_point(point) is None


@given(named=st.sampled_from(RAILS), limited=st.sampled_from(RAILS), tolerance=st.floats(0.02, 0.08))
def test_thresholds_and_name_that_differ_are_one_warning_that_names_both(
    named: RailClass, limited: RailClass, tolerance: float
) -> None:
    limits = (1.0 - tolerance) * limited.nominal_v, (1.0 + tolerance) * limited.nominal_v
    layout = lay_out((rail(f"+{named.nominal_v:g}V", limits),), node="n", with_inlet=False)
    assert layout.supplies is not None
    (entity,) = layout.supplies.spec.entities
    assert (entity.nominal_v, entity.tag(NOMINAL_SOURCE_TAG)) == (limited.nominal_v, "BMC thresholds")
    assert len(layout.contradictory) == (named != limited)
    for text in layout.contradictory:
        assert f"{limited.name} by thresholds of" in text
        assert f"{named.name} by name; taken for {limited.name}" in text


def test_the_main_bus_of_a_board_is_known_by_its_thresholds() -> None:
    layout = lay_out((rail("VOUT GPU BB", (51.3, 56.7)), rail("P12V")), node="n", with_inlet=False)
    assert [cell.keys for cell in layout.node.cells] == [("P12V",), ("VOUT GPU BB",)]
