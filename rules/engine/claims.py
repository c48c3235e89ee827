"""State of the engine: caps on knobs, switches that are held on, and the progress of each policy."""

from dataclasses import dataclass, replace

from physics.supply_path import SupplyLoad
from rules.caps.supply_basis import SupplyBasis
from rules.conditions.condition import NOT_MET, Judgement
from telemetry.clock import NS_PER_S
from telemetry.gpu import KnobKind
from telemetry.records import Mode

# heuristic: a tightening this soon after measured spare relaxed a cap is its setback; three training steps of several
# seconds, and the time in which the level of a load is learnt again.
SETBACK_WITHIN_NS = 60 * NS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyResistance:
    """The source resistance of one supply, and since when it has stayed near that."""

    entity_id: str
    resistance_ohm: float
    since_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSettings:
    """Highest settings that windows in a row, under one setting, were measured to allow.

    `strictest` and `loosest` are those of `windows` windows, `resistances_ohm` the source of each supply in the first
    of them, and `last_ns` the time of the newest.
    """

    strictest: float
    loosest: float
    windows: int
    resistances_ohm: tuple[float, ...]
    last_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CapClaim:
    """Cap of one policy on one knob of some GPUs, for one incident; its settings are in the unit of the knob.

    Parameters
    ----------
    decision_id
        The last decision on it.
    mode
        The mode in which it was decided; only an enforced one is written to the hardware.
    settings
        Setting per GPU; while they are relaxed one GPU at a time, they differ.
    held
        The setting after the last tightening.
    safe
        The setting to fall back to if the lease expires; None if there is no prediction.
    tightened_ns
        When that was.
    relaxed_ns
        When a setting of it was last relaxed, None since the last tightening.
    quiet_since_ns
        Since when the symptom is gone, None while it is there.
    cleared_ns, returned_ns
        When the symptom was last seen to clear since the last tightening, and when it returned after that.
    round_ns, round_setting, round_left
        When the round of relaxing began, to which setting it goes, and which GPUs are still to come.
    bases
        The supplies as they were when it was first set; empty where it does not rest on a prediction.
    supplies
        The supplies that the incident was about.
    steady
        How steady their source resistance is.
    loads
        Heaviest load of each of `bases` since the cap was set; empty before the first window.
    measured
        Settings that were measured to hold since the last change; None before the first window.
    dips_ohm
        Deepest dip per ampere of a step of each of `bases`, in the last windows; empty before the first.
    refined_ns, setbacks
        When these last relaxed it, and how often it was tightened soon after that.
    exhausted
        The symptom is still there, and it cannot be made stricter.
    output, error_c, regulated_ns
        Of a regulated setting: the last output before rounding, the error then, and when that was.
    ramp_since_ns
        When the start ramp began, None where it is none.
    """

    policy_id: str
    incident_id: str
    entity_id: str
    decision_id: str
    knob: KnobKind
    mode: Mode
    lease_s: float
    settings: tuple[tuple[str, float], ...]
    held: float
    tightened_ns: int
    safe: float | None = None
    relaxed_ns: int | None = None
    quiet_since_ns: int | None = None
    cleared_ns: int | None = None
    returned_ns: int | None = None
    round_ns: int | None = None
    round_setting: float | None = None
    round_left: tuple[str, ...] = ()
    bases: tuple[SupplyBasis, ...] = ()
    supplies: tuple[str, ...] = ()
    steady: tuple[SteadyResistance, ...] = ()
    loads: tuple[SupplyLoad, ...] = ()
    measured: MeasuredSettings | None = None
    dips_ohm: tuple[tuple[float, ...], ...] = ()
    refined_ns: int | None = None
    setbacks: int = 0
    exhausted: bool = False
    output: float | None = None
    error_c: float | None = None
    regulated_ns: int | None = None
    ramp_since_ns: int | None = None

    @property
    def gpus(self) -> tuple[str, ...]:
        """The GPUs under it."""
        return tuple(gpu for gpu, _ in self.settings)

    @property
    def strictest(self) -> float:
        """The strictest of its settings."""
        return self.knob.strictest(*(setting for _, setting in self.settings))

    @property
    def enforced(self) -> bool:
        """True if it is written to the hardware."""
        return self.mode is Mode.ENFORCE

    def tightened(self, setting: float, *, decision_id: str, now_ns: int) -> "CapClaim":
        """Return it with one stricter setting on every GPU; relaxing starts over."""
        is_setback = self.refined_ns is not None and now_ns - self.refined_ns < SETBACK_WITHIN_NS
        return replace(
            self,
            measured=None,
            refined_ns=None,
            setbacks=self.setbacks + is_setback,
            decision_id=decision_id,
            settings=tuple((gpu, setting) for gpu in self.gpus),
            held=setting,
            tightened_ns=now_ns,
            relaxed_ns=None,
            quiet_since_ns=None,
            cleared_ns=None,
            returned_ns=None,
            round_ns=None,
            round_setting=None,
            round_left=(),
            exhausted=False,
        )

    def refined(self, setting: float, *, decision_id: str, now_ns: int) -> "CapClaim":
        """Return it with the looser setting that was measured to hold, on every GPU."""
        return replace(
            self,
            decision_id=decision_id,
            settings=tuple((gpu, setting) for gpu in self.gpus),
            held=setting,
            measured=None,
            refined_ns=now_ns,
            exhausted=False,
        )

    def seen(self, *, symptom: bool, now_ns: int) -> "CapClaim":
        """Return it after a look at its symptom: since when that is gone, and when it cleared and returned."""
        if symptom and self.quiet_since_ns is not None:
            return replace(self, quiet_since_ns=None, returned_ns=now_ns)
        if not symptom and self.quiet_since_ns is None:
            return replace(self, quiet_since_ns=now_ns, cleared_ns=now_ns, returned_ns=None)
        return self

    def relaxed(self, gpus: tuple[str, ...], setting: float | None, *, decision_id: str, now_ns: int) -> "CapClaim":
        """Return it with a looser setting on some GPUs, or without those GPUs if the setting is None."""
        settings = tuple(
            (name, was if name not in gpus or setting is None else setting)
            for name, was in self.settings
            if name not in gpus or setting is not None
        )
        left = tuple(name for name in self.round_left if name not in gpus)
        return replace(
            self, decision_id=decision_id, settings=settings, relaxed_ns=now_ns, round_left=left, exhausted=False
        )

    def without(self, gpu: str) -> "CapClaim":
        """Return it without a GPU whose cap was released elsewhere."""
        return replace(
            self,
            settings=tuple(item for item in self.settings if item[0] != gpu),
            round_left=tuple(name for name in self.round_left if name != gpu),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Engagement:
    """Switch outside the GPU that one policy holds on for one incident, such as a drain.

    `quiet_since_ns` is since when its incident has been closed, None while it is not.
    """

    policy_id: str
    incident_id: str
    entity_id: str
    decision_id: str
    mode: Mode
    targets: tuple[str, ...]
    quiet_since_ns: int | None = None

    @property
    def enforced(self) -> bool:
        """True if it was executed."""
        return self.mode is Mode.ENFORCE


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyProgress:
    """Progress of one policy on one incident.

    Parameters
    ----------
    judged_ns, judgement
        Judgement of the incident by the condition at that time.
    met_since_ns, met_times
        Since when it has been met without a break, and by how many records of the incident in a row.
    refused
        Kind of the last refusal, so that each is reported once.
    done
        A message about this incident was sent.
    barred
        Why this incident gets no new action; None if it may.
    """

    judged_ns: int | None = None
    judgement: Judgement = NOT_MET
    met_since_ns: int | None = None
    met_times: int = 0
    refused: str | None = None
    done: bool = False
    barred: str | None = None
