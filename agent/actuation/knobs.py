"""The knobs that a machine has, one of each kind."""

from collections.abc import Iterable

from agent.actuation.held_knob import HeldKnob
from agent.driver.port import Knob
from telemetry.errors import NotSupportedError, RailwatchError
from telemetry.knobs import KnobKind


class Knobs:
    """Finds the knob of a kind, and what each GPU supports of it, which is asked once."""

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
        """Return the name of the setting behind a kind, that of the kind where there is no such knob."""
        knob = self._knobs.get(kind)
        return kind.value if knob is None else knob.name

    def has(self, kind: KnobKind, name: str) -> bool:
        """Return whether what was set under this name can be taken back; a driver still away may turn out to do so."""
        knob = self._knobs.get(kind)
        return knob is not None and knob.name in ("", name)

    def supported(self, kind: KnobKind, uuid: str) -> tuple[float, ...]:
        """Return the settings that a GPU supports, ascending; raises what the driver says against it."""
        key = kind, uuid
        if key not in self._supported:
            self._supported[key] = self.of(kind).supported(uuid)
        return self._supported[key]

    def stands_at(self, hold: HeldKnob, setting: float | None) -> bool:
        """Return whether the knob of a hold reads as given; False where nobody can tell."""
        try:
            return self.of(hold.kind).read(hold.target.uuid) == setting
        except RailwatchError:
            return False

    def was_reset(self, hold: HeldKnob, in_force: float | None) -> bool:
        """Return whether a GPU that was lost came back with this setting by itself, rather than by somebody's hand.

        Clocks and fans come back unset and the power limit at the board's default, which is the highest to be asked
        for; whatever runs at the start of the machine may have set again what was found.
        """
        if not hold.lost:
            return False
        is_power = hold.kind is KnobKind.POWER
        default = max(self.supported(hold.kind, hold.target.uuid), default=None) if is_power else None
        return in_force in (hold.found, default)
