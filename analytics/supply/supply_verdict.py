"""Standing verdict on supplies from the margins and readings of a minute."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analytics.supply.branches import MIN_USUAL_A
from analytics.supply.margin_plan import MarginPlan
from analytics.supply.standing import BusStanding, LinkStanding, OffDraw, SupplyStanding, SupplyVerdict
from analytics.supply.supply_margins import Margin, MeasuredLoad, draws_left
from physics.link_loads import Draw
from physics.next_failure import Loss, carrying, fallen_v, is_tied, single_losses, unjudged
from physics.rail_classes import LEAST_PLAUSIBLE_RATIO, rail_class_of, times_measured
from physics.wiring import Bus, Wiring
from telemetry.entities import label_list, label_of
from telemetry.frames import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplyReadings:
    """What a minute shows of each supply by name; only what was measured.

    `steps_v` are lowest voltages in load steps, `source_ohm` the resistance that a supply shows, `last` its volts and
    amperes of the last second, `inputs_w` its input power.
    """

    load: MeasuredLoad
    steps_v: Mapping[str, float]
    source_ohm: Mapping[str, float]
    last: Mapping[str, tuple[float, float]]
    inputs_w: Mapping[str, float]


def without(loss: Loss) -> str:
    """Return a loss as a phrase: ``without PSU 1``."""
    if loss.feed:
        return f"without feed {loss.feed}"
    return f"without {label_list(label_of(name) for name in loss.supplies)}"


def supply_verdict(
    plan: MarginPlan, readings: SupplyReadings, margins: Iterable[Margin], *, now_ns: int, span_s: int
) -> SupplyVerdict:
    """Return the verdict of a minute."""
    supplies = plan.wiring.supplies
    steady, inputs_w = readings.load.steady, readings.inputs_w
    all_in = supplies and all(one.name in inputs_w for one in supplies)
    all_out = supplies and all(one.name in steady for one in supplies)
    return SupplyVerdict(
        time_ns=now_ns,
        span_s=span_s,
        buses=tuple(one for bus, part in plan.parts for one in _bus(plan, readings, bus, part)),
        links=tuple(_link(one) for one in worst_of(margins)),
        off=tuple(_off_draws(plan, readings)),
        unknown=tuple(_unknown(plan, steady)),
        input_w=sum(inputs_w[one.name] for one in supplies) if all_in else None,
        output_w=sum(steady[one.name].power_w for one in supplies) if all_out else None,
    )


def worst_of(margins: Iterable[Margin]) -> tuple[Margin, ...]:
    """Return the worst margins of each link that is left: as it is, in load steps, and after a loss."""
    worst: dict[tuple[str, str, str, str, bool], Margin] = {}
    for one in margins:
        if one.loss is not None and one.link.supply in one.loss.supplies:
            continue
        key = (one.link.kind, one.link.supply, one.link.name, one.basis, one.loss is None)
        if key not in worst or worst[key].order < one.order:
            worst[key] = one
    return tuple(worst.values())


def _link(margin: Margin) -> LinkStanding:
    link = margin.link
    return LinkStanding(
        kind=link.kind,
        part=link.supply or link.name,
        name=link.name,
        basis=margin.basis.value,
        without="" if margin.loss is None else without(margin.loss),
        load=link.load,
        rating=link.rating,
        unit=link.unit,
        excess=margin.excess,
        mend_w=margin.total_w or margin.mend_w,
        severity=margin.severity if margin.excess > 1.0 else None,
        trip=link.trip,
        at_least=link.at_least,
    )


def _bus(plan: MarginPlan, readings: SupplyReadings, bus: Bus, part: Wiring) -> Iterator[BusStanding]:
    steady, peaks = readings.load.steady, readings.load.peaks
    nominal_v = plan.wiring.nominal_v_of(bus)
    held = [name for name in bus.supplies if name in steady and not _is_off(nominal_v, steady[name].voltage_v)]
    if not held:
        return
    rail = None if nominal_v is None else rail_class_of(nominal_v)
    total_w = sum(steady[name].power_w for name in held)
    rated_w = {one.name: one.rated_w for one in plan.wiring.on_bus(bus)}
    loss, loss_v, loss_step_v = _worst_fall(readings, bus, part)
    yield BusStanding(
        name=bus.name,
        nominal_v=nominal_v,
        limit_v=rail.lowest_v if rail is not None and rail.has_limit else None,
        lowest_v=min(steady[name].voltage_v for name in held),
        step_v=min(readings.steps_v.get(name, steady[name].voltage_v) for name in held),
        loss_v=loss_v,
        loss_step_v=loss_step_v,
        without="" if loss is None else without(loss),
        supplies=tuple(
            SupplyStanding(
                name=name,
                power_w=steady[name].power_w,
                share=steady[name].power_w / total_w if total_w > 0.0 else 0.0,
                step_w=peaks[name].power_w,
                rated_w=rated_w[name],
            )
            for name in held
        ),
    )


def _worst_fall(readings: SupplyReadings, bus: Bus, part: Wiring) -> tuple[Loss | None, float | None, float | None]:
    """Return the loss that leaves a bus at the lowest voltage, that voltage, and the one in load steps."""
    steady = {name: readings.load.steady[name] for name in bus.supplies if name in readings.load.steady}
    if len(steady) < len(bus.supplies) or is_tied(part, bus):
        return None, None, None
    steps = {
        name: Draw(voltage_v=readings.steps_v.get(name, one.voltage_v), current_a=readings.load.peaks[name].current_a)
        for name, one in steady.items()
    }
    own = Wiring(origin=part.origin, supplies=part.on_bus(bus), buses=(bus,))
    counted = carrying(bus, steady)
    found = []
    for loss in single_losses(own, bus, counted):
        lost = loss.supplies | frozenset(bus.supplies).difference(counted)
        now_v, step_v = (_fallen(own, draws, lost, readings.source_ohm) for draws in (steady, steps))
        if now_v is not None and step_v is not None:
            found.append((step_v, now_v, loss))
    if not found:
        return None, None, None
    step_v, now_v, loss = min(found, key=lambda one: one[:2])
    return loss, now_v, step_v


def _fallen(
    wiring: Wiring, draws: Mapping[str, Draw], lost: frozenset[str], source_ohm: Mapping[str, float]
) -> float | None:
    after = draws_left(wiring, draws, lost)
    if after is None:
        return None
    return fallen_v(draws, {name: one for name, one in after.items() if name not in lost}, source_ohm)


def _unknown(plan: MarginPlan, steady: Mapping[str, Draw]) -> Iterator[str]:
    for bus, part in plan.parts:
        for one in unjudged(part, bus, steady):
            yield f"bus {one.bus} after a loss: {label_list(label_of(name) for name in one.supplies)}: {one.reason}"


def _off_draws(plan: MarginPlan, readings: SupplyReadings) -> Iterator[OffDraw]:
    """Yield the supplies that are off or carry nothing while a meter shows a draw, or a current through them."""
    for bus, _ in plan.parts:
        nominal_v = plan.wiring.nominal_v_of(bus)
        counted = carrying(bus, readings.load.steady)
        for name in bus.supplies:
            volts, amps = readings.last.get(name, (np.nan, np.nan))
            is_off = np.isfinite(volts) and _is_off(nominal_v, float(volts))
            least_a = MIN_USUAL_A / float(times_measured(nominal_v or np.nan)) if nominal_v else MIN_USUAL_A
            leak_a = float(amps) if is_off and abs(amps) > least_a else None
            idle = is_off or (name in readings.load.steady and name not in counted)
            input_w = readings.inputs_w.get(name) if idle else None
            if leak_a is not None or input_w is not None:
                yield OffDraw(supply=name, is_off=bool(is_off), input_w=input_w, leak_a=leak_a)


def _is_off(nominal_v: float | None, voltage_v: float) -> bool:
    return nominal_v is not None and not voltage_v > LEAST_PLAUSIBLE_RATIO * nominal_v


def by_supply(plan: MarginPlan, values: FloatArray) -> dict[str, float]:
    """Return the first known value of the columns of each supply by name, from values ``(n_columns,)``."""
    found = ((name, _first(values, own)) for name, own in plan.columns.items())
    return {name: value for name, value in found if value is not None}


def feeds_a(plan: MarginPlan, amps: FloatArray, *powers_w: FloatArray) -> dict[str, float]:
    """Return the current of each feed with a meter of its own: as it shows it, else from its power."""
    found = {}
    for feed in plan.wiring.feeds:
        place = plan.feeds.get(feed.name)
        if place is None:
            continue
        shown_a = _first(amps, (place,))
        shown_w = next((value for one in powers_w if (value := _first(one, (place,))) is not None), None)
        if shown_a is not None:
            found[feed.name] = shown_a
        elif shown_w is not None and feed.nominal_v is not None:
            found[feed.name] = shown_w / feed.nominal_v
    return found


def _first(values: FloatArray, places: Sequence[int]) -> float | None:
    return next((float(values[place]) for place in places if np.isfinite(values[place])), None)
