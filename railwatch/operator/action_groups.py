"""Changes of one knob over several entities as one entry: ``1530 → 937 MHz in 12 steps, released 05:24:08``."""

from collections.abc import Iterable
from dataclasses import dataclass

from telemetry.clock import iso_utc
from telemetry.gpu import KnobKind
from telemetry.records import IN_FORCE, Action, ActionState, Record

_FAILED = (ActionState.FAILED, ActionState.REFUSED)
_LABELS = {KnobKind.CLOCK: "clock cap", KnobKind.POWER: "power cap", KnobKind.FAN: "fan speed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionStep:
    """Setting of a knob, on every entity that got it by the same decision."""

    changes: tuple[Action, ...]

    @property
    def first(self) -> Action:
        """The earliest change."""
        return self.changes[0]

    @property
    def entity_ids(self) -> tuple[str, ...]:
        """Entities that were changed."""
        return tuple(dict.fromkeys(change.entity_id for change in self.changes))


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionGroup:
    """All changes of one knob for one incident, in order of time; at least one."""

    incident_id: str
    steps: tuple[ActionStep, ...]

    @property
    def entity_ids(self) -> tuple[str, ...]:
        """Entities that were changed."""
        return tuple(dict.fromkeys(one for step in self.steps for one in step.entity_ids))

    @property
    def label(self) -> str:
        """Display name of the action."""
        return knob_label(self.steps[0].first)

    @property
    def newest(self) -> tuple[Action, ...]:
        """The newest change of each entity."""
        changes = (change for step in self.steps for change in step.changes)
        by_entity = {change.entity_id: change for change in sorted(changes, key=lambda one: one.time_ns)}
        return tuple(by_entity.values())

    @property
    def is_in_force(self) -> bool:
        """True while at least one entity is still held."""
        return any(change.state in IN_FORCE for change in self.newest)

    def summary(self, *, run_ended: bool = False) -> str:
        """Return settings and present state in one line; after the end of a run there is no lease."""
        state = "run ended" if run_ended and self.is_in_force else _state(self.newest, in_force=self.is_in_force)
        return ", ".join(part for part in (_settings(self.steps), state) if part)


def group_actions(changes: Iterable[Action]) -> tuple[ActionGroup, ...]:
    """Return the changes by incident and knob, the group that began first at the front."""
    groups: dict[tuple[str, str], list[Action]] = {}
    for change in sorted(changes, key=lambda one: one.time_ns):
        groups.setdefault((change.incident_id, change.knob), []).append(change)
    return tuple(ActionGroup(incident_id=key[0], steps=_steps(found)) for key, found in groups.items())


def capped_gpus(records: Iterable[Record]) -> frozenset[str]:
    """Return the ids of the GPUs that had a clock cap of railwatch in force."""
    changes = (one for one in records if isinstance(one, Action) and one.knob_kind is KnobKind.CLOCK)
    return frozenset(one.entity_id for one in changes if one.state in IN_FORCE)


def knob_label(action: Action) -> str:
    """Return the display name of a knob or of an actuator outside the GPUs."""
    return _LABELS[action.knob_kind] if action.knob_kind is not None else action.knob.replace("_", " ")


def setting_text(value: float | None, unit: str) -> str:
    """Return a setting with its unit."""
    if value is None:
        return "not set"
    return f"{value:.0%}" if unit == "ratio" else f"{value:g} {unit}"


def transition_text(start: float | None, end: float | None, unit: str) -> str:
    """Return two settings with their unit once: ``1350 → 975 MHz``."""
    first = setting_text(start, unit) if start is None or unit == "ratio" else f"{start:g}"
    return f"{first} → {setting_text(end, unit)}"


def change_text(action: Action, *, before: bool = True, earlier: float | None = None) -> str:
    """Return the result of one change, with the value read back if it differs.

    `before` adds the setting that railwatch found; `earlier`, the setting of the step before, replaces it.
    """
    if not action.unit:  # outside the GPUs: text and no numbers
        return f"{action.state.value}: {action.reason}"
    wanted = setting_text(action.wanted, action.unit)
    match action.state:
        case ActionState.FAILED | ActionState.REFUSED:
            return f"{wanted} {action.state.value}: {action.reason}"
        case ActionState.RELEASED:
            return f"released, {_after_release(action)}"
        case ActionState.RENEWED:
            return f"{wanted} renewed"
    if earlier is not None:
        text = f"{transition_text(earlier, action.wanted, action.unit)} {action.state.value}"
    else:
        found = f" (before: {setting_text(action.found, action.unit)})" if before else ""
        text = f"{wanted} {action.state.value}{found}"
    differs = action.read_back != action.wanted
    return f"{text}, read back {setting_text(action.read_back, action.unit)}" if differs else text


def _after_release(action: Action) -> str:
    # A reflex releases its own cap while the cap of the policy that followed it stays in force.
    if action.ahead_of is not None and action.read_back is not None and action.read_back != action.found:
        return "the cap of the policy stays in force"
    return "no longer set" if action.read_back is None else f"back to {setting_text(action.read_back, action.unit)}"


def _steps(changes: Iterable[Action]) -> tuple[ActionStep, ...]:
    steps: dict[tuple[object, ...], list[Action]] = {}
    for change in changes:
        steps.setdefault((change.decision_id, change.state, change.wanted, change.reason), []).append(change)
    return tuple(ActionStep(changes=tuple(found)) for found in steps.values())


def _settings(steps: Iterable[ActionStep]) -> str:
    caps = [step.first for step in steps if step.first.state is ActionState.APPLIED and step.first.unit]
    if not caps:
        return ""
    unit, found = caps[-1].unit, caps[0].found
    settings = transition_text(found, caps[-1].wanted, unit)
    return settings if len(caps) == 1 else f"{settings} in {len(caps)} steps"


def _state(newest: tuple[Action, ...], *, in_force: bool) -> str:
    last = max(newest, key=lambda change: change.time_ns)
    if in_force:
        return _lease(newest)
    if last.state in _FAILED or not last.unit:
        return f"{last.state.value}: {last.reason}"
    return f"{last.state.value} {iso_utc(last.time_ns)[11:19]}"


def _lease(newest: tuple[Action, ...]) -> str:
    held = [change for change in newest if change.state in IN_FORCE]
    ends = [change.lease_until_ns for change in held if change.lease_until_ns is not None]
    expired = any(change.state is ActionState.EXPIRED for change in held)
    until = f", lease until {iso_utc(max(ends))[11:19]}" if ends else ""
    kept = "" if len(held) == len(newest) else f" on {len(held)} of {len(newest)}"
    return f"{'lease expired, still' if expired else 'in force'}{kept}{until}"
