"""Converters in a row on a wired node: the lowest voltage of each stage, and the worst one, as text and as JSON."""

from collections.abc import Iterator
from typing import Any

from physics.converter_chain import MeasuredStage, Stage, StageKind, chain_verdict, converter_chains, worst_stage
from railwatch.operator.wiring_values import SupplyValues
from railwatch.operator.wiring_view import WiredNode


def measured_chains(node: WiredNode) -> tuple[tuple[MeasuredStage, ...], ...]:
    """Return the chains of a node with the lowest voltage of each stage over the stretch of its values."""
    chains = converter_chains(node.described_supplies, node.edges)
    return tuple(tuple(_measured(node, stage) for stage in chain) for chain in chains)


def chain_lines(node: WiredNode) -> Iterator[str]:
    """Yield the lines of the drawing, at most 80 columns; none where nothing is known to be made from another rail."""
    for chain in measured_chains(node):
        converts = any(one.stage.kind is StageKind.CONVERTER for one in chain)
        yield from ("", "converters in a row" if converts else "supplies and board")
        width = max(len(one.stage.name) for one in chain)
        for one in chain:
            yield f"  {one.stage.name.ljust(width)}  {_stage_text(one)}".rstrip()
        verdict = chain_verdict(chain)
        if verdict:
            yield from (f"  {part}" for part in verdict.split("; "))


def chain_fields(node: WiredNode) -> Iterator[dict[str, Any]]:
    """Yield one object for each chain; an absent value is None."""
    for chain in measured_chains(node):
        worst = worst_stage(chain)
        yield {
            "kind": "chain",
            "stages": [_stage_fields(one) for one in chain],
            "worst": None if worst is None else worst.stage.name,
            "verdict": chain_verdict(chain),
        }


def _stage_fields(one: MeasuredStage) -> dict[str, Any]:
    stage = one.stage
    return {
        "name": stage.name,
        "kind": stage.kind.value,
        "assumed": stage.assumed,
        "entities": [entity.id for entity in stage.entities],
        "nominal_v": stage.rail.nominal_v,
        "limit_v": round(stage.rail.lowest_v, 3),
        "lowest_v": one.lowest_v,
        "margin_ratio": one.margin,
        "efficiency_ratio": one.efficiency,
    }


def _stage_text(one: MeasuredStage) -> str:
    if one.lowest_v is None or one.margin is None:
        return "not measured"
    limit_v = one.stage.rail.lowest_v
    left = f"{one.margin:.0%} of its margin left" if one.margin >= 0.0 else f"below its limit of {limit_v:.2f} V"
    text = f"lowest {one.lowest_v:.2f} V, {left}"
    text += f", {one.efficiency:.0%} efficient" if one.efficiency is not None else ""
    return f"{text} (assumed)" if one.stage.assumed else text


def _measured(node: WiredNode, stage: Stage) -> MeasuredStage:
    shown = [node.values.supplies.get(one.id, SupplyValues()) for one in stage.entities]
    lows = [one.lowest_v for one in shown if one.lowest_v is not None and stage.holds(one.lowest_v)]
    return MeasuredStage(stage=stage, lowest_v=min(lows, default=None), efficiency=_efficiency(stage, shown))


def _efficiency(stage: Stage, shown: list[SupplyValues]) -> float | None:
    """Return the output over the input power of converters that measure both; None for any other stage."""
    powers = [(one.power_w, one.input_w) for one in shown]
    known = [(out_w, in_w) for out_w, in_w in powers if out_w is not None and in_w is not None]
    taken_w = sum(in_w for _, in_w in known)
    if stage.kind is not StageKind.CONVERTER or len(known) < len(shown) or not taken_w > 0.0:
        return None
    return sum(out_w for out_w, _ in known) / taken_w
