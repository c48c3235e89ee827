"""Reads knobs back and says whether they stand where the journal says."""

from collections.abc import Iterable
from dataclasses import dataclass

from agent.actuation.held_knob import HeldKnob
from agent.actuation.knobs import Knobs
from telemetry.errors import RailwatchError


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One knob of one GPU: where the journal says that it was left, and where it stands now.

    `agrees` is None where nobody can tell; `words` then says why.
    """

    entity_id: str
    knob: str
    unit: str
    incidents: tuple[str, ...]
    expected: float | None
    in_force: float | None
    agrees: bool | None
    words: str


def checked(holds: Iterable[HeldKnob], knobs: Knobs) -> tuple[Check, ...]:
    """Read every knob that the journal holds; nothing is written."""
    return tuple(_check(hold, knobs) for hold in holds)


def _check(hold: HeldKnob, knobs: Knobs) -> Check:
    in_force: float | None = None
    try:
        knob = knobs.of(hold.kind)
        in_force = knob.read(hold.target.uuid)
    except RailwatchError as err:
        agrees, words = None, str(err)
    else:
        expected = hold.kind.text(hold.expected)
        if not knob.readable:
            agrees, words = None, f"left at {expected}; the driver does not show this setting"
        elif hold.is_ours(in_force):
            agrees, words = True, f"stands at {hold.kind.text(in_force)}, as the journal says"
        else:
            agrees, words = False, f"stands at {hold.kind.text(in_force)}, left at {expected}"
    return Check(
        entity_id=hold.target.entity_id,
        knob=hold.knob,
        unit=hold.kind.unit,
        incidents=tuple(claim.incident_id for claim in hold.claims),
        expected=hold.expected,
        in_force=in_force,
        agrees=agrees,
        words=words + ("; a write is owed" if hold.owed else ""),
    )
