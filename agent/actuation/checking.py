"""Comparison of knobs with the journal."""

from collections.abc import Iterable
from dataclasses import dataclass

from agent.actuation.held_knob import HeldKnob
from agent.actuation.knobs import Knobs
from telemetry.errors import RailwatchError


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One knob of one GPU: its setting in the journal, and its setting now.

    `agrees` is None if it cannot be read; `summary` then has the reason.
    """

    entity_id: str
    knob: str
    unit: str
    incidents: tuple[str, ...]
    expected: float | None
    in_force: float | None
    agrees: bool | None
    summary: str


def checked(holds: Iterable[HeldKnob], knobs: Knobs) -> tuple[Check, ...]:
    """Read every knob that the journal holds; write nothing."""
    return tuple(_check(hold, knobs) for hold in holds)


def _check(hold: HeldKnob, knobs: Knobs) -> Check:
    in_force: float | None = None
    try:
        knob = knobs.of(hold.kind)
        in_force = knob.read(hold.target.uuid)
    except RailwatchError as err:
        agrees, summary = None, str(err)
    else:
        expected = hold.kind.text(hold.expected)
        if not knob.readable:
            agrees, summary = None, f"set to {expected}; the driver cannot read this setting back"
        elif hold.is_ours(in_force):
            agrees, summary = True, f"{hold.kind.text(in_force)}, as in the journal"
        else:
            agrees, summary = False, f"{hold.kind.text(in_force)}, expected {expected}"
    return Check(
        entity_id=hold.target.entity_id,
        knob=hold.knob,
        unit=hold.kind.unit,
        incidents=tuple(claim.incident_id for claim in hold.claims),
        expected=hold.expected,
        in_force=in_force,
        agrees=agrees,
        summary=summary + ("; a write is pending" if hold.owed else ""),
    )
