"""Controllers for a rail that weakens: windows of samples in, clock caps out.

Ours is the real thing: the detectors of sag and of source resistance, the incident book, the window of the last
seconds, and the rules engine with the built-in policies. The other is what a simpler program would do.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from agent.guard.node_window import NodeWindow
from analytics.board_curve.learner import BoardLearner
from analytics.detectors.build import build_detectors
from analytics.detectors.limits import DetectorLimits
from analytics.detectors.panel import Panel
from analytics.incidents.book import IncidentBook
from evaluation.control.windows import WINDOW_S, SampleWindow
from rules.engine.engine import Engine
from rules.limits.node import NodeLimits
from rules.policy.loading import load_builtin_policies
from rules.policy.model import ActionClass, Policy
from simulator.files.node import NodeFile
from simulator.runs.topology import feeding, nominal_tags
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, MaskArray, TableSpec
from telemetry.gpu import KnobKind
from telemetry.records import Finding, Incident, IncidentState, Mode

# What judges a supply path; the others need tables that the closed form does not give.
_DETECTORS = frozenset({"rail_sag", "source_resistance"})
# A window stands for minutes in which nothing else happens, so a sag that it does not show is over. Without it two
# seconds every five minutes would keep a sag open for half an hour.
_CLEAR_AFTER_S = 0.9 * WINDOW_S
# The engine is asked at most so often at the end of a step, ten seconds apart, for as long as it has something to
# decide: one round of relaxing four GPUs, one by one.
_ROUND, _ROUND_S = 4, 10.0
# Chiu and Jain (1989), doi 10.1016/0169-7552(89)90019-6; the size of the step down is that of rules/caps/adjusting.py.
_AIMD_DOWN = 0.85
_AIMD_MARGIN_V = 0.05


class Controller(Protocol):
    """Clock cap of every GPU, ``(n_nodes, n_gpus)``, inf where there is none."""

    def caps_mhz(self, window: SampleWindow, alive: MaskArray, now_ns: int) -> FloatArray:
        """Process a window of the nodes that are alive."""
        ...


class AimdController:
    """AIMD: one step down where the rail was below the limit, one up where it was well above, every ten minutes."""

    def __init__(self, node: NodeFile, n_nodes: int, *, limit_v: float, every_s: float = 600.0) -> None:
        self._clocks = np.array(node.gpu.clocks.supported_mhz, dtype=np.float64)
        self._index = np.full(n_nodes, len(self._clocks) - 1)
        self._n_gpus, self._limit_v = node.gpu_count, limit_v
        self._every_ns, self._up_ns = round(every_s * NS_PER_S), 0

    def caps_mhz(self, window: SampleWindow, alive: MaskArray, now_ns: int) -> FloatArray:
        """Move one clock at a time."""
        lowest_v = window.voltage_v.min(axis=(0, 2))
        down = np.searchsorted(self._clocks, _AIMD_DOWN * self._clocks[self._index], side="right") - 1
        index = np.where(alive & (lowest_v < self._limit_v), np.maximum(down, 0), self._index)
        if now_ns - self._up_ns >= self._every_ns:
            self._up_ns = now_ns
            up = alive & (lowest_v > self._limit_v + _AIMD_MARGIN_V)
            index = np.where(up, np.minimum(index + 1, len(self._clocks) - 1), index)
        self._index = index
        return np.repeat(self._clocks[index][:, None], self._n_gpus, axis=1)


class RailwatchController:
    """Detectors over all nodes at once, and for each node its own incident book, window and engine.

    The engine of a node may decide `rounds` times after each window. The boards are those of the table of parts unless
    it `learns_boards`: windows of two seconds every some minutes teach no curve.
    """

    def __init__(
        self,
        node: NodeFile,
        n_nodes: int,
        *,
        policies: Sequence[Policy],
        learns_boards: bool = False,
        rounds: int = _ROUND,
    ) -> None:
        units = [unit.name for unit in node.supply.units]
        self._nodes = [
            _Node(node, number, policies, learns_boards=learns_boards, rounds=rounds) for number in range(n_nodes)
        ]
        supplies = tuple(entity for one in self._nodes for entity in one.supplies)
        self._spec = TableSpec(
            name="supply", kind=EntityKind.SUPPLY, entities=supplies, signals=("voltage_v", "current_a")
        )
        limits = DetectorLimits()
        limits = replace(limits, rail_sag=replace(limits.rail_sag, clear_after_s=_CLEAR_AFTER_S))
        chosen = tuple(one for one in build_detectors(limits) if one.name in _DETECTORS)
        self._panel = Panel(detectors=chosen, event_detectors=())
        self._state = self._panel.start([self._spec])
        self._topology = Topology(
            entities=tuple(entity for one in self._nodes for entity in one.topology.entities),
            edges=tuple(edge for one in self._nodes for edge in one.topology.edges),
        )
        self._owner = {entity.id: place // len(units) for place, entity in enumerate(supplies)}

    def caps_mhz(self, window: SampleWindow, alive: MaskArray, now_ns: int) -> FloatArray:
        """Judge the window, and let the engine of every node that is alive decide."""
        time_ns = now_ns - round(WINDOW_S * NS_PER_S) + np.rint(window.at_s * NS_PER_S).astype(np.int64)
        values = np.stack([window.voltage_v, window.current_a], axis=3)
        values[:, ~alive] = np.nan
        flat = values.reshape(len(time_ns), -1, 2)
        frame = Frame(spec=self._spec, time_ns=time_ns, values=flat, fresh=~np.isnan(flat))
        self._state, findings = self._panel.step(self._state, (frame,), self._topology)
        reported: dict[int, list[Finding]] = {}
        for finding in findings:
            reported.setdefault(self._owner[finding.entity_id], []).append(finding)
        for number, one in enumerate(self._nodes):
            if alive[number]:
                own = (window.power_w[:, number], window.clock_mhz[number])
                one.step(reported.get(number, ()), time_ns, values[:, number], own, now_ns)
        return np.stack([one.caps_mhz for one in self._nodes])


class _Node:
    """State that railwatch keeps for one node."""

    def __init__(
        self, node: NodeFile, number: int, policies: Sequence[Policy], *, learns_boards: bool, rounds: int
    ) -> None:
        def entity(kind: EntityKind, name: str, tags: tuple[tuple[str, str], ...] = ()) -> Entity:
            return Entity(kind=kind, key=f"node{number}.{name}", name=name, tags=tags)

        box = Entity(kind=EntityKind.NODE, key=f"node{number}", name=f"node{number}")
        nominal = nominal_tags(node.supply)
        self.supplies = tuple(entity(EntityKind.SUPPLY, unit.name, nominal) for unit in node.supply.units)
        model = (("model", node.gpu.name),)
        gpus = tuple(entity(EntityKind.GPU, f"gpu{index}", model) for index in range(node.gpu_count))
        held = [(box.id, part.id) for part in (*self.supplies, *gpus)]
        fed = feeding(self.supplies, gpus, node.wiring)
        self.topology = Topology(entities=(box, *self.supplies, *gpus), edges=(*held, *fed))
        self.caps_mhz: FloatArray = np.full(len(gpus), np.inf)
        clocks = node.gpu.clocks
        self._gpus, self._max_mhz = gpus, float(clocks.max_mhz)
        self._gpu_spec = TableSpec(
            name="gpu_fast", kind=EntityKind.GPU, entities=gpus, signals=("power_w", "sm_clock_mhz")
        )
        self._supply_spec = TableSpec(
            name="supply", kind=EntityKind.SUPPLY, entities=self.supplies, signals=("voltage_v", "current_a")
        )
        settable = {gpu.key: clocks.settable_mhz for gpu in gpus}
        self._learns_boards, self._rounds = learns_boards, rounds
        self._boards = BoardLearner([self._gpu_spec], supported_mhz=settable)
        self._window = NodeWindow(settable, boards=self._boards.curves)
        self._book = IncidentBook()
        limits = NodeLimits(modes=dict.fromkeys(ActionClass, Mode.ENFORCE))
        self._engine = Engine(policies, limits=limits, topology=self.topology)
        self._held: frozenset[str] = frozenset()
        self._live: dict[str, Incident] = {}
        self._changed: list[Incident] = []

    def step(
        self,
        findings: Sequence[Finding],
        time_ns: np.ndarray,
        rails: FloatArray,
        gpus: tuple[FloatArray, FloatArray],
        now_ns: int,
    ) -> None:
        """Process a window, and decide on the caps from now on; `gpus` are power and clock of each."""
        power_w, clock_mhz = gpus
        rows = np.stack([power_w, np.broadcast_to(clock_mhz, power_w.shape)], axis=2)
        frames = [
            Frame(spec=spec, time_ns=time_ns, values=values, fresh=np.ones(values.shape, dtype=np.bool_))
            for spec, values in ((self._gpu_spec, rows), (self._supply_spec, rails))
        ]
        if self._learns_boards:
            self._boards.feed(frames[0])
        incidents = (*self._changed, *self._book.step(findings, now_ns, self.topology))
        self._changed = []
        self._live |= {incident.id: incident for incident in incidents}
        if not self._live:
            return
        for frame in frames:
            self._window.feed(frame)
        state = self._window.state()
        for turn in range(self._rounds):
            then_ns = now_ns + round(turn * _ROUND_S * NS_PER_S)
            if not self._engine.step(incidents if turn == 0 else (), state, then_ns):
                break
        self._obey(now_ns)
        self._live = {name: one for name, one in self._live.items() if one.state is not IncidentState.CLOSED}

    def _obey(self, now_ns: int) -> None:
        """Set what the engine wants, as an actuator that always succeeds."""
        claims = self._engine.claims
        caps = [dict(claim.settings) for claim in claims if claim.knob is KnobKind.CLOCK]
        fresh = np.array([min((one.get(gpu.id, np.inf) for one in caps), default=np.inf) for gpu in self._gpus])
        if not np.array_equal(fresh, self.caps_mhz):
            self.caps_mhz = fresh
            self._window.note_clock_change(now_ns)
        held = frozenset(claim.incident_id for claim in claims)
        for incident_id in held ^ self._held:
            self._changed += self._book.note_claim(incident_id, in_force=incident_id in held, now_ns=now_ns)
        self._held = held


def policies_holding(hold_v: float | None) -> tuple[Policy, ...]:
    """Return the built-in policies; those that hold a voltage hold this one, their own where None."""
    policies = load_builtin_policies()
    if hold_v is None:
        return policies
    return tuple(_holding(policy, hold_v) for policy in policies)


def _holding(policy: Policy, hold_v: float) -> Policy:
    rule = policy.then.setting
    if rule is None or rule.hold_v is None:
        return policy
    return replace(policy, then=replace(policy.then, setting=replace(rule, hold_v=hold_v)))
