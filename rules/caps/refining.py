"""Correction of a cap by what the rail was measured to carry under it. Pure: cap and present state in, step out.

The first setting of a cap rests on seconds in which a path may have changed, and on the power at clocks that were not
seen. Under the cap both are measured again: the prediction then begins at the present clock, where its error is that of
the meters alone. Some windows in a row correct the setting: to the strictest that they allow if all of them allow more,
to the middle of what they allow if that is less. A cap that had to be tightened soon after it was relaxed waits longer
before the next time. What a lighter load leaves of the rail is not spare: the load that the cap was set for may return.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from physics.node_state import MeasuredNode
from physics.supply_path import SupplyLoad, high_power_w
from rules.caps.adjusting import STRICTER
from rules.caps.knobs import Scale
from rules.caps.setting import predict
from rules.caps.supply_basis import SupplyBasis, bases_now, dip_noise_ohm, with_newest_boards
from rules.engine.claims import CapClaim, MeasuredSettings
from telemetry.clock import NS_PER_S
from telemetry.entities import Topology
from telemetry.gpu import KnobKind
from telemetry.records import Incident

# heuristic: the three seconds of rows from which a supply is judged, so that windows do not overlap.
WINDOW_NS = 3 * NS_PER_S
# heuristic: windows in a row, twelve seconds; a path that still ages gives each of them a stricter answer.
WINDOWS = 4
# Most by which one correction relaxes. heuristic: the inverse of the step by which a lasting symptom tightens a cap.
MOST_RATIO = 1.0 / STRICTER
# heuristic: factor of the windows to relax after a setback, and the most setbacks that count: 12 s to 13 min.
SETBACK_FACTOR, SETBACKS_MOST = 4, 3
# Windows whose dips count, and the place by depth of the dip that the others are compared with. heuristic: 48 s, some
# tens of steps of a job; a path that changes makes dips of two windows false.
DIP_WINDOWS, DIP_RANK = 16, 2
# Dips are alike that differ by less than this many standard deviations of a reading. heuristic: of sixteen alike ones
# all but one or two lie within it of the third deepest.
ALIKE_SD = 2.5
# heuristic: a source that moved by more between two windows is not steady: five times the two per cent to which the
# resistance is known.
STEADY_RATIO = 0.10
# Share of the power that the cap was set for, below which a load is another one. heuristic: a tenth of the power is
# about a tenth of the drop, 0.08 V of 0.8 V at 12 V, half of what the built-in policies hold above the limit of a rail.
SAME_LOAD_RATIO = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Refinement:
    """The cap with what was measured; `setting` is None if it stays, `bases` are the supplies as they are now."""

    claim: CapClaim
    setting: float | None = None
    reason: str = ""


def refine(
    claim: CapClaim,
    incident: Incident,
    node: MeasuredNode,
    *,
    hold_v: float,
    topology: Topology,
    scale: Scale,
    now_ns: int,
) -> Refinement:
    """Return the correction of a cap for a voltage; once in three seconds it predicts, which takes some milliseconds.

    A pause of the job, which shows no source, and a lighter load than the cap is for neither count nor end what was
    measured before them.
    """
    changed_ns = max(claim.tightened_ns, claim.refined_ns or 0, claim.relaxed_ns or 0)
    last_ns = changed_ns if claim.measured is None else claim.measured.last_ns
    is_partly_relaxed = bool(claim.round_left) or len({setting for _, setting in claim.settings}) > 1
    if not claim.bases or claim.knob is not KnobKind.CLOCK or is_partly_relaxed or now_ns - last_ns < WINDOW_NS:
        return Refinement(claim=claim)
    bases = bases_now(claim.bases, incident, node, targets=claim.gpus, topology=topology)
    if bases is None:
        return Refinement(claim=claim)
    claim = _with_loads(claim, bases)
    if any(_is_lighter(basis.load, load) for basis, load in zip(bases, claim.loads, strict=True)):
        return Refinement(claim=_without_window(claim, now_ns))
    dips_ohm = (*claim.dips_ohm, tuple(basis.path.transient_ohm for basis in bases))[-DIP_WINDOWS:]
    bases, claim = _with_dips(bases, dips_ohm, node), replace(claim, dips_ohm=dips_ohm)
    found = predict(bases, incident, node, scale=scale, hold_v=hold_v)
    measured = _with_window(claim.measured, bases, found.setting, now_ns)
    claim = replace(claim, measured=measured)
    setting = _corrected(claim, measured, scale)
    if setting is None:
        fresh = measured.windows >= _windows_to_relax(claim)
        return Refinement(claim=replace(claim, measured=replace(measured, windows=0)) if fresh else claim)
    knob = scale.knob
    seconds = measured.windows * WINDOW_NS / NS_PER_S
    reason = (
        f"measured over {seconds:.0f} s under {knob.text(claim.strictest)}: "
        f"{knob.text(measured.strictest)} is the highest {knob.label} that holds {found.limit_v:.2f} V"
    )
    return Refinement(claim=replace(claim, bases=bases), setting=setting, reason=reason)


def renewed(claim: CapClaim, incident: Incident, node: MeasuredNode) -> CapClaim:
    """Return a cap with what newer findings show of buses at the board; what was measured of another set is dropped."""
    bases = with_newest_boards(claim.bases, incident, node)
    if len(bases) == len(claim.bases):
        return replace(claim, bases=bases)
    return replace(claim, bases=bases, loads=(), dips_ohm=(), measured=None)


def _with_loads(claim: CapClaim, bases: Sequence[SupplyBasis]) -> CapClaim:
    loads = claim.loads or tuple(basis.load for basis in claim.bases)
    pairs = zip(bases, loads, strict=True)
    return replace(claim, loads=tuple(_heavier(basis.load, load) for basis, load in pairs))


def _without_window(claim: CapClaim, now_ns: int) -> CapClaim:
    """Return the cap after a window that does not count; the next one comes three seconds later, as after any other."""
    none = MeasuredSettings(
        strictest=claim.strictest, loosest=claim.strictest, windows=0, resistances_ohm=(), last_ns=now_ns
    )
    return replace(claim, measured=none if claim.measured is None else replace(claim.measured, last_ns=now_ns))


def _is_lighter(load: SupplyLoad, reference: SupplyLoad) -> bool:
    """Return True for a load that would draw clearly less than the reference does at the clock of the reference."""
    return high_power_w(load, _clock_mhz(reference)) < SAME_LOAD_RATIO * reference.power_high_w


def _heavier(load: SupplyLoad, reference: SupplyLoad) -> SupplyLoad:
    """Return the load if it draws more than the reference would at its clock, by the upper bound of the curve."""
    return load if load.power_high_w > high_power_w(reference, _clock_mhz(load)) else reference


def _clock_mhz(load: SupplyLoad) -> float:
    return max(gpu.clock_mhz for gpu in load.gpus)


def _with_dips(
    bases: Sequence[SupplyBasis], dips_ohm: Sequence[tuple[float, ...]], node: MeasuredNode
) -> tuple[SupplyBasis, ...]:
    """Return the supplies with the depth of the deep dips of the last windows."""
    windows = [one for one in dips_ohm if len(one) == len(bases)]
    return tuple(
        replace(basis, path=replace(basis.path, transient_ohm=deep_dip_ohm(own, dip_noise_ohm(basis, node))))
        for basis, own in zip(bases, zip(*windows, strict=True), strict=True)
    )


def deep_dip_ohm(dips_ohm: Sequence[float], noise_ohm: float) -> float:
    """Return the mean of the dips that are as deep as the third deepest, but for the noise of their readings.

    A job of long steps, or a monitor that converts between the dips, shows the whole depth in some windows only, so the
    shallow ones are left out. The deepest of many equal dips is deep by noise, so their mean counts. Of up to three
    windows the least deep counts: a path that changes within two of them makes false ones.
    """
    deepest = sorted(dips_ohm, reverse=True)
    third_ohm = deepest[min(DIP_RANK, len(deepest) - 1)]
    return fmean(one for one in deepest if abs(one - third_ohm) <= ALIKE_SD * noise_ohm or one == third_ohm)


def _corrected(claim: CapClaim, measured: MeasuredSettings, scale: Scale) -> float | None:
    """Return the setting that the windows agree on, None if the present one may stay."""
    if measured.windows < WINDOWS:
        return None
    middle = scale.snap((measured.strictest + measured.loosest) / 2.0)
    if scale.stricter(middle, claim.strictest):
        return middle
    # Each window allows what is sure by itself, so the strictest of many is as far below the truth as noise goes.
    allowed = middle if measured.windows >= SETBACK_FACTOR * WINDOWS else measured.strictest
    setting = scale.knob.strictest(allowed, scale.snap(MOST_RATIO * claim.strictest))
    is_looser = scale.stricter(claim.strictest, setting)
    return setting if is_looser and measured.windows >= _windows_to_relax(claim) else None


def _windows_to_relax(claim: CapClaim) -> int:
    factor: int = SETBACK_FACTOR ** min(claim.setbacks, SETBACKS_MOST)
    return WINDOWS * factor


def _with_window(
    before: MeasuredSettings | None, bases: Sequence[SupplyBasis], setting: float, now_ns: int
) -> MeasuredSettings:
    """Return the measured settings with one more window; a source that moved begins them again."""
    ohms = tuple(basis.path.source_resistance_ohm for basis in bases)
    fresh = MeasuredSettings(strictest=setting, loosest=setting, windows=1, resistances_ohm=ohms, last_ns=now_ns)
    if before is None or not before.windows or len(before.resistances_ohm) != len(ohms):
        return fresh
    pairs = zip(ohms, before.resistances_ohm, strict=True)
    if any(abs(ohm - was_ohm) > STEADY_RATIO * was_ohm for ohm, was_ohm in pairs):
        return fresh
    return replace(
        before,
        strictest=min(before.strictest, setting),
        loosest=max(before.loosest, setting),
        windows=before.windows + 1,
        last_ns=now_ns,
    )
