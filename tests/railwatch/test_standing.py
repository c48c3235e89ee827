"""Lines of the standing verdict: what draws power while it is off, and where nothing is known."""

from dataclasses import replace

import pytest

from analytics.supply.standing import (
    BusStanding,
    GpuVerdict,
    LinkStanding,
    OffDraw,
    StandingVerdict,
    SupplyStanding,
    SupplyVerdict,
)
from physics.link_loads import LinkKind
from railwatch.operator.standing import standing_fields, standing_lines

SHARE = SupplyStanding(name="psu0", power_w=700.0, share=1.0, step_w=900.0)
BUS = BusStanding(
    name="main",
    nominal_v=12.0,
    limit_v=11.4,
    lowest_v=12.0,
    step_v=11.8,
    loss_v=None,
    loss_step_v=None,
    without="",
    supplies=(SHARE,),
)
SUPPLIES = SupplyVerdict(time_ns=0, span_s=60, buses=(BUS,), links=(), off=(), unknown=(), input_w=None, output_w=None)
GPUS_OFF = GpuVerdict(time_ns=0, span_s=60, links=(), limits=(), are_off=True)


def lines_of(verdict: StandingVerdict | None) -> list[str]:
    return [line.strip() for line in standing_lines(verdict) if line][1:]


def test_without_a_verdict_there_is_nothing_to_read() -> None:
    assert lines_of(None) == []
    assert [*standing_fields(None)] == []


def test_a_bus_shows_voltage_limit_and_shares() -> None:
    assert lines_of(StandingVerdict(supplies=SUPPLIES)) == [
        "bus main: 12.00 V, steps 11.80 V, limit 11.40 V",
        "PSU 0 100% (700 W, steps 900 W)",
    ]


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (OffDraw(supply="psu2", is_off=True, input_w=14.2, leak_a=None), ["PSU 2 draws 14 W while it is off"]),
        (
            OffDraw(supply="psu2", is_off=False, input_w=14.2, leak_a=None),
            ["PSU 2 draws 14 W while it carries nothing"],
        ),
        (
            OffDraw(supply="psu2", is_off=True, input_w=3.0, leak_a=-1.8),
            ["PSU 2 draws 3 W while it is off", "PSU 2 is off, and 1.8 A flow through its output"],
        ),
    ],
)
def test_a_supply_that_is_off_shows_its_draw_and_its_leak(one: OffDraw, expected: list[str]) -> None:
    assert lines_of(StandingVerdict(supplies=replace(SUPPLIES, off=(one,))))[2:] == expected


def test_while_no_gpu_draws_power_the_draw_of_the_supplies_is_shown_where_all_are_metered() -> None:
    metered = replace(SUPPLIES, input_w=150.4, output_w=120.0)
    off = StandingVerdict(supplies=metered, gpus=GPUS_OFF)
    assert lines_of(off)[-1] == "draw while the GPUs are off: 150 W, 120 W of it delivered"
    assert not any("draw while" in line for line in lines_of(StandingVerdict(supplies=SUPPLIES, gpus=GPUS_OFF)))
    assert not any("draw while" in line for line in lines_of(StandingVerdict(supplies=metered)))
    dark = replace(metered, buses=(), output_w=None)
    assert lines_of(StandingVerdict(supplies=dark)) == ["draw while the supplies are off: 150 W"]


def test_the_loads_over_a_rating_come_first_with_the_watts_that_mend_them_then_one_of_each_kind() -> None:
    def link(name: str, excess: float, **others: object) -> LinkStanding:
        one = LinkStanding(
            kind=LinkKind.PLUGS,
            part="psu0",
            name=name,
            basis="now",
            without="",
            load=30.0 * excess,
            rating=30.0,
            unit="A",
            excess=excess,
            mend_w=max(excess - 1.0, 0.0) * 100.0,
        )
        return replace(one, **others)  # type: ignore[arg-type]

    links = (link("XT60", 1.2, without="without PSU 1"), link("XT60", 1.1), link("banana", 0.9), link("lug-M6", 0.2))
    feed = link("A", 0.1, kind=LinkKind.FEED, part="A")
    assert lines_of(StandingVerdict(supplies=replace(SUPPLIES, links=(*links, feed))))[2:] == [
        "Without PSU 1: PSU 0 XT60 36.0 of 30 A, over its rating",
        "20 W less mends it",
        "PSU 0 banana 27.0 of 30 A",
        "Feed A 3.0 of 30 A",
    ]


def test_what_cannot_be_judged_is_named_with_its_reason() -> None:
    unknown = "bus main after a loss: PSU 1: no rating given"
    assert lines_of(StandingVerdict(supplies=replace(SUPPLIES, unknown=(unknown,))))[-1] == f"not known: {unknown}"
