"""GPU lost: its values vanished while a sibling's did not.

A detached GPU shows hardly any drift beforehand; the collapse of its metrics is the signal (GWDG study, arXiv
2603.28781). Where all GPUs fall silent together it is the driver or the collector, and `sensor_lost` reports unknown
health. A GPU that left the topology, or that its driver unbound in order, was removed and is not lost.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np

from analytics.connectivity import Siblings
from analytics.detectors.absence import OrderlyRemovals, Presence, structural_loss
from analytics.detectors.columns import optional
from analytics.detectors.condition import Changes, Conditions, Holds, elapsed_ns, judge
from analytics.detectors.limits import GpuLostLimits
from analytics.detectors.statements import Statement, evidence, findings_from
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, MaskArray, TableSpec, filled
from telemetry.quantities import duration
from telemetry.records import Cause, Event, Finding, FindingStatus, Severity


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GpuLostState:
    """State between rows; `known` marks the GPUs that the topology has, shape ``(n_gpus,)``."""

    last_ns: int | None
    conditions: Conditions
    presence: Presence
    siblings: Siblings
    known: Annotated[MaskArray, True]
    orderly: OrderlyRemovals = field(default_factory=OrderlyRemovals)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLost:
    """Raises `Cause.GPU_LOST`.

    Set at once where the PCI device is gone too, else after the hold. A GPU without siblings needs the missing PCI
    device (or an Xid, see `gpu_errors`): otherwise it looks the same as a dead driver.
    """

    limits: GpuLostLimits
    name: str = "gpu_lost"
    kind: EntityKind = EntityKind.GPU
    signals: tuple[str, ...] = ("power_w", "sm_clock_mhz")

    def start(self, spec: TableSpec) -> GpuLostState:
        """Return the state before the first row."""
        return filled(GpuLostState, len(spec.entities))

    def take_events(self, state: GpuLostState, events: Sequence[Event]) -> GpuLostState:
        """Note orderly removals of GPUs from events."""
        return replace(state, orderly=state.orderly.after(events))

    def step(self, state: GpuLostState, frame: Frame, topology: Topology) -> tuple[GpuLostState, tuple[Finding, ...]]:
        """Judge the rows of a frame; a GPU that was never seen cannot vanish."""
        core = frame.values[:, :, [frame.spec.signals.index(name) for name in self.signals]]
        silent: MaskArray = np.all(np.isnan(core), axis=2)
        temps_c, pci = optional(frame, "gpu_temp_c"), optional(frame, "pci_present")
        if state.siblings.topology is not topology:
            known = _known(frame.spec.entities, topology)
            state = replace(state, known=known, siblings=state.siblings.under(topology, frame.spec.entities))
        if len(frame) and not state.conditions.busy and not silent.any():
            return replace(state, last_ns=int(frame.time_ns[-1]), presence=state.presence.after(silent[-1])), ()
        # GPUs that should be present: in the topology, and not removed in order.
        expected = state.known & ~state.orderly.mask(frame.spec.entities) if state.orderly.released else state.known
        findings: list[Finding] = []
        for row, now_ns in enumerate(frame.time_ns.tolist()):
            presence = state.presence.after(silent[row])
            loss = structural_loss(presence, state.siblings.groups, pci[row])
            lost, off_bus = loss.lost & expected, loss.off_bus & expected
            conditions, changes = judge(
                state.conditions,
                now_ns=now_ns,
                elapsed_ns=elapsed_ns(state.last_ns, now_ns),
                over=lost,
                under=~presence.silent,
                seen=lost | ~presence.silent,
                holds=Holds.of_seconds(set_s=self.limits.hold_s, clear_s=self.limits.clear_after_s),
                # A temperature of the slow table may be older than the loss: wait until it is absent too.
                permit=np.isnan(temps_c[row]) | off_bus,
                at_once=off_bus,
            )
            state = replace(state, last_ns=now_ns, conditions=conditions, presence=presence)
            if changes.some:
                findings.extend(self._findings(state, changes, now_ns, frame.spec.entities, pci[row]))
        return state, tuple(findings)

    def _findings(
        self, state: GpuLostState, changes: Changes, now_ns: int, entities: tuple[Entity, ...], pci: FloatArray
    ) -> tuple[Finding, ...]:
        groups, present = state.siblings.groups, ~state.presence.silent

        def describe(index: int, status: FindingStatus) -> Statement:
            kin = groups == groups[index]
            siblings, answering = int(kin.sum()) - 1, int((kin & present).sum()) - int(present[index])
            seconds = state.conditions.lasted_s(index, now_ns)
            name = entities[index].label
            bus = {0.0: "; PCI device is gone", 1.0: "; PCI device still listed"}.get(float(pci[index]), "")
            summary = (
                f"{name} lost: no readings for {duration(seconds)}, {answering} of {siblings} siblings answer{bus}"
                if status is not FindingStatus.CLEARED
                else f"{name} answers again for {duration(self.limits.clear_after_s)}"
            )
            return Statement(
                severity=Severity.CRITICAL,
                score=1.0,
                summary=summary,
                evidence=evidence(
                    ("silent_s", seconds if status is not FindingStatus.CLEARED else 0.0, "s"),
                    ("siblings", siblings, ""),
                    ("siblings_answering", answering, ""),
                    ("pci_present", float(pci[index]), ""),
                ),
            )

        return findings_from(
            self.name, Cause.GPU_LOST, entities, state.conditions, changes, now_ns=now_ns, describe=describe
        )


def _known(entities: tuple[Entity, ...], topology: Topology) -> MaskArray:
    ids = {entity.id for entity in topology.entities}
    return np.array([entity.id in ids for entity in entities], dtype=np.bool_)
