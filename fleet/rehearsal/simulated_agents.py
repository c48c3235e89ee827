"""Agents of a simulated fleet: the real admission and actuator of each node, over simulated knobs.

Only the network is left out: a request is signed, verified, saved and checked against the limits as on a node.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from agent.actuation.actuator import KnobActuator
from agent.actuation.knob_log import KnobLog
from fleet.certificates.identity import Peer
from fleet.control.admission import Admission, AdmissionSettings
from fleet.control.node_limits import NodeState
from fleet.control.replay_protection import ReplayProtection
from fleet.control.request import ControlReply
from rules.limits.node import NodeLimits
from rules.policy.model import ActionClass
from telemetry.clock import Clock
from telemetry.gpu import KnobKind
from telemetry.records import Decision, Event, Mode, Verdict

# The clocks of a V100 SXM2 as NVML lists them: 135 to 1530 MHz in steps of 7.5 MHz.
CLOCKS_MHZ = tuple(135.0 + 7.5 * step for step in range(187))


@dataclass(slots=True)
class SimulatedKnob:
    """Clocks of the GPUs of one node; `settings` are in force."""

    settings: dict[str, float | None]
    kind: KnobKind = KnobKind.CLOCK
    name: str = "application_clock"
    readable: bool = True

    def supported(self, uuid: str) -> tuple[float, ...]:
        """Return the clocks that can be set."""
        if uuid not in self.settings:
            raise KeyError(uuid)
        return CLOCKS_MHZ

    def read(self, uuid: str) -> float | None:
        """Return the setting in force."""
        return self.settings[uuid]

    def write(self, uuid: str, setting: float | None) -> None:
        """Set the clock of a GPU."""
        self.settings[uuid] = setting


@dataclass(slots=True)
class SimulatedAgents:
    """Agents of a fleet, each created at its first request; as a transport it has no delay and no loss."""

    folder: Path
    gpus: Mapping[str, tuple[str, ...]]
    fleet: str
    key: Ed25519PublicKey
    authority: Ed25519PublicKey
    clock: Clock
    published: list[Decision | Event] = field(default_factory=list)
    knobs: dict[str, SimulatedKnob] = field(default_factory=dict)
    _admissions: dict[str, Admission] = field(default_factory=dict)
    _actuators: dict[str, KnobActuator] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def send(self, node: str, body: bytes) -> ControlReply:
        """Pass a request to a node and return its reply."""
        with self._lock:
            if node not in self._admissions:
                self._admissions[node] = self._admission(node)
        return self._admissions[node].handle(body, Peer(fleet=self.fleet, key=self.key, where="rehearsal"))

    def tick(self) -> None:
        """End the leases that have expired."""
        for actuator in self._actuators.values():
            actuator.tick()

    @property
    def capped(self) -> tuple[str, ...]:
        """Nodes with a GPU below its highest clock."""
        highest = CLOCKS_MHZ[-1]
        return tuple(
            node
            for node, knob in self.knobs.items()
            if any((mhz or highest) < highest for mhz in knob.settings.values())
        )

    @property
    def acted_on(self) -> tuple[str, ...]:
        """Node of every cap that was carried out, once for each cap."""
        done = [one for one in self.published if isinstance(one, Decision) and one.verdict is Verdict.EXECUTE]
        return tuple(one.targets[0].partition(":")[2] for one in done if one.action == "clock_cap")

    def _admission(self, node: str) -> Admission:
        knob = self.knobs[node] = SimulatedKnob(dict.fromkeys(self.gpus[node], CLOCKS_MHZ[-1]))
        journal = KnobLog(self.folder / node, run_id="rehearsal")
        actuator = self._actuators[node] = KnobActuator((knob,), journal, self.clock, sink=lambda _: None)
        seen = ReplayProtection(self.folder / node / "seen.jsonl", now_ns=self.clock.utc_ns())
        settings = AdmissionSettings(
            node=node,
            fleets=frozenset({self.fleet}),
            authority=self.authority,
            limits=NodeLimits(modes=dict.fromkeys(ActionClass, Mode.ENFORCE)),
        )
        clocks = {f"gpu:{uuid}": CLOCKS_MHZ for uuid in self.gpus[node]}
        return Admission(
            settings,
            actuator,
            seen,
            self.clock,
            lambda: NodeState(settings={KnobKind.CLOCK: clocks}),
            self.published.append,
        )
