"""Clock that takes a number of watts off GPUs, as a finding names them."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from physics.node_state import MeasuredNode
from physics.supply_path import GpuLoad, power_saved_w
from rules.caps.knobs import Scale
from rules.caps.supply_basis import gpu_load
from rules.caps.targets import gpus_of_supply, kind_of
from telemetry.entities import EntityKind, Topology, label_of_id
from telemetry.records import Finding, FindingStatus, Incident


@dataclass(frozen=True, slots=True, kw_only=True)
class SheddingClock:
    """Clock and its reason.

    `clock_mhz` is None where none is predicted; `is_needless` is True then if no clock of a GPU would help.
    """

    clock_mhz: float | None
    reason: str
    is_needless: bool = False


def shedding_clock(
    evidence: str,
    incident: Incident,
    node: MeasuredNode,
    *,
    targets: Sequence[str],
    topology: Topology,
    scale: Scale,
) -> SheddingClock:
    """Return the highest clock that takes the watts of each finding off the GPUs of its supply, and the reason.

    `evidence` is the name of the watts. The watts of a finding on a GPU are its own. A supply that feeds no known GPU
    is no reason to cap any: which of them would help is not known.
    """
    found: list[tuple[float, str]] = []
    unfed = ""
    for finding, shed_w in _to_shed(evidence, incident):
        is_gpu = kind_of(finding.entity_id) == EntityKind.GPU
        fed = (finding.entity_id,) if is_gpu else gpus_of_supply(finding.entity_id, topology)
        gpus = [gpu for gpu in node.gpus if gpu.entity_id in fed and gpu.entity_id in targets]
        if not gpus:
            unfed = f"{label_of_id(finding.entity_id)} feeds no GPU that is known and can be capped"
            continue
        loads = [load for gpu in gpus if (load := gpu_load(gpu)) is not None]
        if len(loads) < len(gpus):
            return SheddingClock(clock_mhz=None, reason="the power of the GPUs under load is not known")
        found.append(_clock(loads, shed_w, scale))
    if found:
        clock_mhz, reason = min(found)
        return SheddingClock(clock_mhz=clock_mhz, reason=reason)
    if unfed:
        return SheddingClock(clock_mhz=None, reason=unfed, is_needless=True)
    return SheddingClock(clock_mhz=None, reason=f"no finding names the watts ({evidence})")


def _to_shed(evidence: str, incident: Incident) -> Iterator[tuple[Finding, float]]:
    """Yield the newest of each finding on a supply or GPU that names watts to shed, and the watts."""
    newest = {one.id: one for one in sorted(incident.findings, key=lambda one: one.time_ns)}
    for finding in newest.values():
        shed_w = finding.number(evidence)
        shown = finding.status is not FindingStatus.CLEARED and shed_w is not None and shed_w > 0.0
        if shown and shed_w is not None and kind_of(finding.entity_id) in (EntityKind.SUPPLY, EntityKind.GPU):
            yield finding, shed_w


def _clock(loads: Sequence[GpuLoad], shed_w: float, scale: Scale) -> tuple[float, str]:
    # The power that a cap saves falls as its clock rises.
    count = bisect_left(scale.settings, True, key=lambda clock_mhz: power_saved_w(loads, clock_mhz) < shed_w)  # noqa: FBT003
    clock_mhz = scale.settings[max(count - 1, 0)]
    saved_w, knob = power_saved_w(loads, clock_mhz), scale.knob
    if count == 0:
        lowest = f"not even {knob.text(clock_mhz)}, the lowest {knob.label} allowed"
        return clock_mhz, f"{lowest}, takes {shed_w:.0f} W off the GPUs: {saved_w:.0f} W"
    return clock_mhz, f"{knob.text(clock_mhz)}: highest {knob.label} that takes {shed_w:.0f} W off the GPUs"
