"""The knobs that a machine has, one of each kind."""

from collections.abc import Iterable

from agent.actuation.held_knob import HeldKnob
from agent.driver.port import Knob
from telemetry.errors import NotSupportedError, RailwatchError
from telemetry.knobs import KnobKind


class Knobs:
    """Knobs by kind, and the settings that each GPU supports, read once."""

    def __init__(self, knobs: Iterable[Knob]) -> None:
        self._knobs = {knob.kind: knob for knob in knobs}
        self._supported: dict[tuple[KnobKind, str], tuple[float, ...]] = {}

    def of(self, kind: KnobKind) -> Knob:
        """Return the knob of a kind.

        Raises
        ------
        NotSupportedError
            There is none.
        """
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

    def stands_at(self, hold: HeldKnob, setting: float | None) -> bool:
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
