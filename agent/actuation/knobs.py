"""The knobs that a machine has, one of each kind, and their comparison with the journal."""

from collections.abc import Iterable
from dataclasses import dataclass

from agent.actuation.held_knob import HeldKnob, KnobChange
from agent.driver.port import Knob
from telemetry.errors import NotSupportedError, RailwatchError
from telemetry.gpu import KnobKind


class Knobs:
    """Knobs by kind, and the settings that each GPU supports, read once."""

    def __init__(self, knobs: Iterable[Knob]) -> None:
        self._knobs = {knob.kind: knob for knob in knobs}
        self._supported: dict[tuple[KnobKind, str], tuple[float, ...]] = {}

    def of(self, kind: KnobKind) -> Knob:
        """Return the knob of a kind; NotSupportedError where there is none."""
        try:
            return self._knobs[kind]
        except KeyError:
            raise NotSupportedError(f"no GPU here has a {kind.label} that can be set") from None

    def name(self, kind: KnobKind) -> str:
        """Return the name of the setting of a kind; the name of the kind if there is no such knob."""
        knob = self._knobs.get(kind)
        return kind.value if knob is None else knob.name

    def has(self, kind: KnobKind, name: str) -> bool:
        """Return True if a setting of this name can be restored, or possibly can once the driver answers."""
        knob = self._knobs.get(kind)
        return knob is not None and knob.name in ("", name)

    def supported(self, kind: KnobKind, uuid: str) -> tuple[float, ...]:
        """Return the settings that a GPU supports, ascending; raise the error of the driver."""
        key = kind, uuid
        if key not in self._supported:
            self._supported[key] = self.of(kind).supported(uuid)
        return self._supported[key]

    def carry_out(self, change: KnobChange) -> RailwatchError | None:
        """Write the knob of a change if it has to be written; return the error of the driver, if any."""
        if change.writes:
            try:
                self.of(change.hold.kind).write(change.hold.target.uuid, change.hold.setting)
            except RailwatchError as err:
                return err
        return None

    def read_back(self, hold: HeldKnob) -> float | None:
        """Read back a write; write a second time if it had no effect."""
        knob, uuid = self.of(hold.kind), hold.target.uuid
        read_back = knob.read(uuid)
        if not hold.confirms(read_back, readable=knob.readable):
            knob.write(uuid, hold.wanted)
            read_back = knob.read(uuid)
        return read_back

    def reads_as(self, hold: HeldKnob, setting: float | None) -> bool:
        """Return True if the knob of a hold reads as given; False if it cannot be read."""
        try:
            return self.of(hold.kind).read(hold.target.uuid) == setting
        except RailwatchError:
            return False

    def was_reset(self, hold: HeldKnob, in_force: float | None) -> bool:
        """Return True if a GPU that was lost came back with this setting by itself, not by someone else.

        Clocks and fans come back unset and the power limit at the default of the board, the highest supported one;
        a start-up script may have set the setting that was found again.
        """
        if not hold.lost:
            return False
        is_power = hold.kind is KnobKind.POWER
        default = max(self.supported(hold.kind, hold.target.uuid), default=None) if is_power else None
        return in_force in (hold.found, default)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobCheck:
    """Comparison of one knob of one GPU: its setting in the journal, and its setting now.

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


def checked(holds: Iterable[HeldKnob], knobs: Knobs) -> tuple[KnobCheck, ...]:
    """Read every knob that the journal holds; write nothing."""
    return tuple(_check(hold, knobs) for hold in holds)


def _check(hold: HeldKnob, knobs: Knobs) -> KnobCheck:
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
    return KnobCheck(
        entity_id=hold.target.entity_id,
        knob=hold.knob,
        unit=hold.kind.unit,
        incidents=tuple(claim.incident_id for claim in hold.claims),
        expected=hold.expected,
        in_force=in_force,
        agrees=agrees,
        summary=summary + ("; a write is pending" if hold.owed else ""),
    )
