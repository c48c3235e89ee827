"""Knobs of a GPU that a policy can cap: clock, power limit and fan, with their settings."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from physics.node_state import MeasuredGpu
from rules.caps.targets import common_clocks_mhz
from rules.policy.model import ActionClass, Verb
from telemetry.gpu import KnobKind

# heuristic: boards take a power limit in milliwatts; 5 W is under two per cent of any limit of theirs.
POWER_STEP_W = 5.0
# heuristic: below the resolution of a tachometer.
FAN_STEP_RATIO = 0.05


KNOB_OF = {ActionClass(knob.value): knob for knob in KnobKind}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verbs:
    """Verbs of decisions on a knob: tighten, relax, release."""

    tighten: Verb
    relax: Verb
    release: Verb


VERBS = {
    KnobKind.CLOCK: Verbs(tighten=Verb.CLOCK_CAP, relax=Verb.CLOCK_RELAX, release=Verb.CLOCK_RELEASE),
    KnobKind.POWER: Verbs(tighten=Verb.POWER_CAP, relax=Verb.POWER_RELAX, release=Verb.POWER_RELEASE),
    KnobKind.FAN: Verbs(tighten=Verb.FAN, relax=Verb.FAN_RELAX, release=Verb.FAN_RELEASE),
}
# The decisions that the actuator of the GPUs carries out; every other one is for the responder.
KNOB_VERBS = frozenset(verb for verbs in VERBS.values() for verb in (verbs.tighten, verbs.relax, verbs.release))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Settings that a knob may take on some GPUs, ascending and never empty.

    Lower is stricter for a clock and a power limit, higher for a fan. The loosest setting is the vendor's default,
    which is never exceeded.
    """

    knob: KnobKind
    settings: tuple[float, ...]

    @property
    def strictest(self) -> float:
        """The strictest setting that the limits allow."""
        return self.settings[-1] if self.knob is KnobKind.FAN else self.settings[0]

    @property
    def loosest(self) -> float:
        """The setting that restrains nothing."""
        return self.settings[0] if self.knob is KnobKind.FAN else self.settings[-1]

    def stricter(self, one: float, other: float) -> bool:
        """Return True if the first is stricter than the second."""
        return one > other if self.knob is KnobKind.FAN else one < other

    def snap(self, wanted: float) -> float:
        """Return the loosest setting that is at least as strict as this one, the strictest of all where none is."""
        if self.knob is KnobKind.FAN:
            return min((item for item in self.settings if item >= wanted), default=self.strictest)
        return max((item for item in self.settings if item <= wanted), default=self.strictest)

    def looser(self, setting: float) -> float:
        """Return the next looser setting, the loosest of all where none is."""
        if self.knob is KnobKind.FAN:
            return max((item for item in self.settings if item < setting), default=self.loosest)
        return min((item for item in self.settings if item > setting), default=self.loosest)

    def strictest_of(self, settings: Iterable[float], *, default: float) -> float:
        """Return the strictest of these, the default if there is none."""
        found = tuple(settings)
        return self.knob.strictest(*found) if found else default

    def fraction(self, setting: float, ratio: float) -> float:
        """Return a setting made stricter by a share: 0.85 of a clock, of a fan what is 0.85 as far from its end."""
        if self.knob is KnobKind.FAN:
            return 1.0 - ratio * (1.0 - setting)
        return ratio * setting


def settable(knob: KnobKind, gpu: MeasuredGpu) -> bool:
    """Return True if this GPU has the knob."""
    if knob is KnobKind.CLOCK:
        return bool(gpu.supported_mhz)
    if knob is KnobKind.POWER:
        return gpu.limit_min_w is not None and gpu.limit_default_w is not None
    return gpu.fan_min_ratio is not None


def scale_of(knob: KnobKind, gpus: Sequence[MeasuredGpu], *, min_clock_ratio: float) -> Scale | None:
    """Return the settings that these GPUs share within the limits; None if none has the knob."""
    able = [gpu for gpu in gpus if settable(knob, gpu)]
    if not able:
        return None
    if knob is KnobKind.CLOCK:
        return Scale(knob=knob, settings=common_clocks_mhz(able, min_clock_ratio=min_clock_ratio))
    if knob is KnobKind.POWER:
        low_w = max(gpu.limit_min_w for gpu in able if gpu.limit_min_w is not None)
        high_w = min(gpu.limit_default_w for gpu in able if gpu.limit_default_w is not None)
        steps = int((high_w - low_w) / POWER_STEP_W)
        return Scale(knob=knob, settings=tuple(high_w - POWER_STEP_W * k for k in range(max(steps, 0), -1, -1)))
    low = max(gpu.fan_min_ratio for gpu in able if gpu.fan_min_ratio is not None)
    steps = int((1.0 - low) / FAN_STEP_RATIO + 1e-9)
    return Scale(knob=knob, settings=tuple(round(1.0 - FAN_STEP_RATIO * k, 6) for k in range(steps, -1, -1)))
