"""Clock that takes a number of watts off GPUs, as a finding names them."""

from bisect import bisect_left
from collections.abc import Sequence

from physics.node_state import MeasuredNode
from physics.supply_path import GpuLoad, power_saved_w
from rules.caps.knobs import Scale
from rules.caps.supply_basis import gpu_load, supply_findings
from rules.caps.targets import gpus_of_supply
from telemetry.entities import Topology
from telemetry.records import Incident


def shedding_clock(
    evidence: str,
    incident: Incident,
    node: MeasuredNode,
    *,
    targets: Sequence[str],
    topology: Topology,
    scale: Scale,
) -> tuple[float | None, str]:
    """Return the highest clock that takes the watts of each finding off the GPUs of its supply, and the reason.

    `evidence` is the name of the watts. None with the reason where they or the power of a GPU are not known.
    """
    found: list[tuple[float, str]] = []
    for finding in supply_findings(incident):
        shed_w = finding.number(evidence)
        if shed_w is None or shed_w <= 0.0:
            continue
        fed = gpus_of_supply(finding.entity_id, topology) or tuple(targets)
        gpus = [gpu for gpu in node.gpus if gpu.entity_id in fed and gpu.entity_id in targets]
        loads = [load for gpu in gpus if (load := gpu_load(gpu)) is not None]
        if not loads or len(loads) < len(gpus):
            return None, "the power of the GPUs under load is not known"
        found.append(_clock(loads, shed_w, scale))
    return min(found) if found else (None, f"no finding names the watts ({evidence})")


def _clock(loads: Sequence[GpuLoad], shed_w: float, scale: Scale) -> tuple[float, str]:
    # The power that a cap saves falls as its clock rises.
    count = bisect_left(scale.settings, True, key=lambda clock_mhz: power_saved_w(loads, clock_mhz) < shed_w)  # noqa: FBT003
    clock_mhz = scale.settings[max(count - 1, 0)]
    saved_w, knob = power_saved_w(loads, clock_mhz), scale.knob
    if count == 0:
        lowest = f"not even {knob.text(clock_mhz)}, the lowest {knob.label} allowed"
        return clock_mhz, f"{lowest}, takes {shed_w:.0f} W off the GPUs: {saved_w:.0f} W"
    return clock_mhz, f"{knob.text(clock_mhz)}: highest {knob.label} that takes {shed_w:.0f} W off the GPUs"
