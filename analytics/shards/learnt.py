"""What a panel's detectors learnt of each entity, kept over a restart: their baselines, and not what they held raised.

A finding that holds must be told again by what is measured after the restart, so nothing is held raised that may have
ended meanwhile; a baseline that took a week must not be learnt again from a path that may be ill by now.
"""

from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from analytics.detectors.condition import Conditions
from analytics.detectors.panel import Panel, PanelState
from analytics.shards.panel import unpack_panel
from telemetry.frames import TableSpec


def with_learnt(panel: Panel, state: PanelState, specs: Sequence[TableSpec], blob: bytes) -> PanelState:
    """Give a state that goes on with what `pack_panel` kept of every detector whose baseline a person can accept.

    Raises
    ------
    ValueError
        It is damaged, of tables with other signals, or one detector's part is of another version or other limits.
    """
    kept = unpack_panel(panel, specs, blob)
    detectors = tuple(
        own if own is None or old is None or detector.name not in panel.learning else at_ease(old)
        for detector, own, old in zip(panel.detectors, state.detectors, kept.detectors, strict=True)
    )
    return replace(state, detectors=detectors)


def at_ease(state: Any) -> Any:
    """Give a detector's state with nothing set and nothing running; what it learnt stays."""
    if isinstance(state, Conditions):
        return Conditions.idle(len(state.active))
    inner = {one.name: getattr(state, one.name) for one in fields(state)}
    changed = {name: at_ease(value) for name, value in inner.items() if is_dataclass(value)}
    return replace(state, **changed) if changed else state
