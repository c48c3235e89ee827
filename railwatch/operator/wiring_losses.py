"""What each loss of one supply or feed would do to the rest of its bus, as text and as JSON."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from physics.link_loads import Draw, LinkKind, LinkLoad, link_loads
from physics.next_failure import Loss, after_loss, carrying, is_tied, single_losses
from physics.wiring import Bus, Wiring
from railwatch.operator.standing import OVER
from railwatch.operator.wiring_values import SupplyValues
from railwatch.operator.wiring_view import WiredNode
from telemetry.entities import label_list, label_of

# heuristic: a bus that draws less than a third of its load has lost the job, and its supplies may sleep.
_RUNS_RATIO = 1.0 / 3.0
# Loads below this are drawn with one digit behind the point.
_WHOLE_FROM = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LossEffect:
    """A loss, and the loads that it leaves on the links of its bus, the one nearest to its rating first.

    `step_w` is the power of the supply nearest to its rating in the highest load step; None where that is not known.
    """

    loss: Loss
    links: tuple[LinkLoad, ...]
    step_w: float | None


def loss_effects(node: WiredNode, bus: Bus) -> Iterator[LossEffect]:
    """Yield the effect of each loss; none for a bus of which a supply is not measured, or nothing is rated."""
    wiring = _rated(node)
    now, most = _draws(node, bus, _load_a), _draws(node, bus, lambda values: values.highest_a)
    if len(now) < len(bus.supplies) or is_tied(wiring, bus):
        return
    counted = carrying(bus, _while_it_runs(now, _draws(node, bus, lambda values: values.current_a)))
    off = frozenset(bus.supplies).difference(counted)
    for loss in single_losses(wiring, bus, counted):
        left, steps = after_loss(wiring, now, loss.supplies | off), after_loss(wiring, most, loss.supplies | off)
        if left is None:
            continue
        loads = [one for one in link_loads(wiring, left) if one.kind is not LinkKind.FEED]
        loads.sort(key=lambda one: (-one.ratio, one.supply, one.name))
        if loads:
            rated = next((one.supply for one in loads if one.kind is LinkKind.SUPPLY), "")
            step = None if steps is None else steps.get(rated)
            yield LossEffect(loss=loss, links=tuple(loads), step_w=None if step is None else step.power_w)


def loss_lines(node: WiredNode) -> Iterator[str]:
    """Yield for each loss the supply that it leaves nearest to its rating, and the plug if that is over its own.

    Nothing where no loss can be judged.
    """
    found = {bus.name: [*loss_effects(node, bus)] for bus in node.wiring.buses}
    if any(found.values()):
        yield from ("", "with one supply or feed lost")
    for name, effects in found.items():
        if effects:
            yield f"  bus {name}"
        for effect in effects:
            yield from (f"    without {_name(effect.loss)}: {text}" for text in _worst(effect))


def loss_fields(node: WiredNode) -> Iterator[dict[str, Any]]:
    """Yield one JSON object for each loss."""
    for bus in node.wiring.buses:
        for effect in loss_effects(node, bus):
            yield {
                "kind": "loss",
                "bus": bus.name,
                "feed": effect.loss.feed or None,
                "supplies": sorted(effect.loss.supplies),
                "links": [{**asdict(one), "ratio": one.ratio} for one in effect.links],
                "step_w": effect.step_w,
            }


def _worst(effect: LossEffect) -> Iterator[str]:
    supply = next((one for one in effect.links if one.kind is LinkKind.SUPPLY), None)
    plug = next((one for one in effect.links if one.kind is not LinkKind.SUPPLY), None)
    if supply is not None:
        steps = "" if effect.step_w is None else f", steps {effect.step_w:.0f} W"
        yield _load(label_of(supply.supply), supply, steps)
    if plug is not None and (supply is None or plug.ratio > 1.0):
        inlet = "inlet " if plug.kind is LinkKind.INLET else ""
        yield _load(f"{label_of(plug.supply)} {inlet}{plug.name}", plug)


def _load(what: str, link: LinkLoad, steps: str = "") -> str:
    over, digits = OVER if link.ratio > 1.0 else "", 0 if link.load >= _WHOLE_FROM else 1
    return f"{what} {link.load:.{digits}f} of {link.rating:g} {link.unit} ({link.ratio:.0%}){steps}{over}"


def _name(loss: Loss) -> str:
    return f"feed {loss.feed}" if loss.feed else label_list(label_of(name) for name in loss.supplies)


def _rated(node: WiredNode) -> Wiring:
    """Return the wiring with the ratings that supplies report."""
    return replace(node.wiring, supplies=tuple(replace(one, rated_w=node.rated_w(one)) for one in node.wiring.supplies))


def _draws(node: WiredNode, bus: Bus, current_of: Callable[[SupplyValues], float | None]) -> Mapping[str, Draw]:
    found = {}
    for supply in node.wiring.on_bus(bus):
        values = node.values_of(supply)
        current_a = current_of(values)
        if values.voltage_v is not None and current_a is not None:
            found[supply.name] = Draw(voltage_v=values.voltage_v, current_a=max(current_a, 0.0))
    return found


def _while_it_runs(loads: Mapping[str, Draw], last: Mapping[str, Draw]) -> Mapping[str, Draw]:
    """Return the draws that show which supplies carry: those of the last second, unless nothing ran then.

    A supply that was lost in the stretch carried a part of its load; one that sleeps while nothing runs is not lost.
    """
    before_a, now_a = (sum(one.current_a for one in draws.values()) for draws in (loads, last))
    return last if now_a > _RUNS_RATIO * before_a else loads


def _load_a(values: SupplyValues) -> float | None:
    return values.current_a if values.load_a is None else values.load_a
