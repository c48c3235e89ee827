"""GPUs whose load steps exceed the power limit that is set: a limit bounds averages, a clock cap bounds steps."""

from collections.abc import Iterator

from railwatch.operator.wiring_view import WiredNode
from telemetry.entities import Entity

# heuristic: a power sensor may be off by 5 % (arXiv 2312.02741), and a limit is kept within a few watts.
_OVER_RATIO = 1.05


def exceeded_limits(node: WiredNode) -> Iterator[tuple[Entity, float, float]]:
    """Yield each GPU whose power limit is below its default and whose load steps exceed it, with limit and step in W.

    A GPU without a known default limit is not judged, nor one whose power is read too seldom.
    """
    for gpu in node.gpus:
        values = node.values.gpus.get(gpu.id)
        if values is None or values.limit_w is None or values.default_limit_w is None or values.step_w is None:
            continue
        if values.limit_w < values.default_limit_w and values.step_w > _OVER_RATIO * values.limit_w:
            yield gpu, values.limit_w, values.step_w


def power_limit_lines(node: WiredNode) -> Iterator[str]:
    """Yield a line for each GPU whose load steps exceed its power limit; nothing where there is none."""
    found = [*exceeded_limits(node)]
    if found:
        yield from ("", "steps over the power limit that is set: it bounds averages, a clock cap steps")
    for gpu, limit_w, step_w in found:
        yield f"  {gpu.label} limit {limit_w:.0f} W, steps {step_w:.0f} W"
