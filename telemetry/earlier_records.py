"""Records in the JSON forms of earlier versions, converted to the present form when they are read."""

import re
from collections.abc import Mapping
from typing import Any

from telemetry.commands import CommandVerb
from telemetry.gpu import KnobKind, ReleasedBy

_BY_HAND = re.compile(r"taken back by hand(?: by (?P<who>[^:]*))?(?:: (?P<why>.*))?", re.DOTALL)
_BY_ACTUATOR = ("the actuator stops", "left by a run that ended without releasing it")
_KNOB_OF_UNIT = {kind.unit: kind.value for kind in KnobKind}
# Fields of a decision that named the knob by their own name.
SETTING_FIELDS = {
    KnobKind.CLOCK: "clock_mhz",
    KnobKind.POWER: "power_limit_w",
    KnobKind.FAN: "fan_ratio",
}


def present_form(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the JSON form of a record as this version writes it; a record that needs no change comes back as it is."""
    match fields.get("type"):
        case "event" if fields.get("kind") == "approval":
            return command_from_event(fields) or fields
        case "decision":
            return present_decision(fields)
        case "action" if "knob_kind" not in fields or "released_by" not in fields:
            return present_action(fields)
        case "outcome" if "higher_is_better" not in fields:
            return {**fields, "higher_is_better": fields.get("unit") == "V"}
    return fields


def command_from_event(event: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the command that an event of kind `approval` carried in its id and message, None where it carried none.

    There were three forms: of the page and the command line to the guard (id ``approval/VERB/DECISION/NS``), of the
    command line to the responder (message ``take-back INCIDENT: REASON``) and of the command line to the fleet service
    (message ``VERB DECISION: REASON``).
    """
    try:
        parts = event["id"].split("/")
        found = _of_guard(event, parts) if parts[0] == "approval" else _of_others(event)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    if found is None:
        return None
    about = {name: event[name] for name in ("time", "simulated", "id", "time_ns") if name in event}
    return {"type": "command", **about, **found}


def _of_guard(event: Mapping[str, Any], parts: list[str]) -> dict[str, str] | None:
    _, verb, subject, _ = parts
    _, who = event["sources"]
    before_why = f" by {who}"
    _, found, why = event["message"].partition(f"{before_why}: ")
    if not found and not event["message"].endswith(before_why):
        return None
    return {"verb": CommandVerb(verb).value, "subject": subject, "who": who, "why": why}


def _of_others(event: Mapping[str, Any]) -> dict[str, str] | None:
    verb, _, rest = event["message"].partition(" ")
    subject, _, reason = rest.partition(": ")
    if not subject:
        return None
    if verb != "take-back":
        named = CommandVerb(verb.replace("-", "_")).value
        return {
            "verb": named,
            "subject": "" if subject == "-" else subject,
            "who": ", ".join(event["sources"]),
            "why": reason,
        }
    by_hand = _BY_HAND.fullmatch(reason)
    who, why = ("", reason) if by_hand is None else (by_hand["who"] or "", by_hand["why"] or "")
    return {"verb": CommandVerb.RELEASE.value, "subject": subject, "who": who, "why": why}


def present_action(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add kind of knob and cause of a release; the actuator named the latter in the reason alone."""
    released = fields.get("state") == "released" and fields.get("reason") in _BY_ACTUATOR
    found = {
        "knob_kind": _KNOB_OF_UNIT.get(fields.get("unit", "")),
        "released_by": ReleasedBy.ACTUATOR.value if released else None,
    }
    return {**found, **fields}


def present_decision(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Drop the fields that name the knob; where knob and setting are missing, take them from there."""
    rest = {name: value for name, value in fields.items() if name not in SETTING_FIELDS.values()}
    if "knob" in fields:
        return rest
    found = ((kind, fields.get(name)) for kind, name in SETTING_FIELDS.items())
    knob, setting = next(((kind.value, value) for kind, value in found if value is not None), (None, None))
    return {**rest, "knob": knob, "setting": setting}
