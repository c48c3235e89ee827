"""One node as the page reads it, made up: a supply path that ages, an incident, a clock cap, and a recovery."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from analytics.supply.standing import StandingVerdict
from dashboards.page.source import (
    ActionMode,
    CollectorState,
    CollectorStatus,
    NodeStatus,
    Records,
    SamplerStatus,
    StoreState,
    StoreStatus,
)
from dashboards.page.wiring_map import WiringMap
from physics.wiring import Wiring
from railwatch.operator.wiring_map import wired_topology, wiring_map
from telemetry.clock import NS_PER_S, Clock
from telemetry.entities import NOMINAL_SOURCE_TAG, NOMINAL_TAG, Entity, EntityKind, Topology
from telemetry.errors import TransientError
from telemetry.frames import FloatArray, Frame, TableSpec, TimeArray
from telemetry.records import (
    Action,
    ActionState,
    Cause,
    Decision,
    Event,
    EventKind,
    Evidence,
    Finding,
    FindingStatus,
    Health,
    Incident,
    IncidentState,
    Mode,
    Outcome,
    Severity,
)
from telemetry.series import between, series_of
from telemetry.signals import RateClass, Source, signals_of
from tests import record_samples

RATE_HZ = 20
N_GPUS = 4
SUPPLIES = tuple(
    Entity(
        kind=EntityKind.SUPPLY,
        key=f"psu{i}",
        name=f"psu{i}",
        tags=((NOMINAL_TAG, "12"), (NOMINAL_SOURCE_TAG, "label")),
    )
    for i in range(2)
)
GPUS = tuple(
    Entity(
        kind=EntityKind.GPU,
        key=f"GPU-0000000{i}-aaaa-bbbb-cccc-000000000000",
        name=f"gpu{i}",
        tags=(("pci", f"0000:{0x15 + i:02x}:00.0"),),
    )
    for i in range(N_GPUS)
)
NODE = Entity(kind=EntityKind.NODE, key="box-17", name="box-17")
AGENT = Entity(kind=EntityKind.AGENT, key="box-17", name="box-17")
TOPOLOGY = Topology(
    entities=(NODE, *SUPPLIES, *GPUS, AGENT),
    edges=(
        *((NODE.id, supply.id) for supply in SUPPLIES),
        *((supply.id, gpu.id) for supply in SUPPLIES for gpu in GPUS),
    ),
)


def _spec(name: str, kind: EntityKind, entities: tuple[Entity, ...], rate: RateClass, source: Source) -> TableSpec:
    return TableSpec(
        name=name,
        kind=kind,
        entities=entities,
        signals=tuple(item.name for item in signals_of(kind, source=source, rate=rate)),
    )


SUPPLY_TABLE = TableSpec(name="supply", kind=EntityKind.SUPPLY, entities=SUPPLIES, signals=("voltage_v", "current_a"))
GPU_FAST_TABLE = _spec("gpu_fast", EntityKind.GPU, GPUS, RateClass.FAST, Source.NVML)
GPU_SLOW_TABLE = _spec("gpu_slow", EntityKind.GPU, GPUS, RateClass.SLOW, Source.NVML)
GPU_RARE_TABLE = _spec("gpu_rare", EntityKind.GPU, GPUS, RateClass.RARE, Source.NVML)
HOST_TABLE = _spec("host", EntityKind.NODE, (NODE,), RateClass.SLOW, Source.HOST)
AGENT_TABLE = _spec("agent", EntityKind.AGENT, (AGENT,), RateClass.SLOW, Source.AGENT)
PERIODS_NS = {
    "supply": NS_PER_S // RATE_HZ,
    "gpu_fast": NS_PER_S // RATE_HZ,
    "gpu_slow": NS_PER_S,
    "gpu_rare": NS_PER_S,
    "host": NS_PER_S,
    "agent": NS_PER_S,
}
SPECS = (SUPPLY_TABLE, GPU_FAST_TABLE, GPU_SLOW_TABLE, GPU_RARE_TABLE, HOST_TABLE, AGENT_TABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What happens when, in seconds since the node started; infinity for never."""

    sag_from_s: float = 30.0
    incident_s: float = 60.0
    cap_s: float = 61.0
    release_s: float = float("inf")
    lost_gpu3_s: float = float("inf")
    silent_s: float = float("inf")


QUIET = Story(sag_from_s=1e9, incident_s=1e9, cap_s=1e9)


@dataclass
class FakeSource:
    """Satisfies `dashboards.page.source.PageSource`; every value follows from the clock and the story."""

    clock: Clock
    started_ns: int
    story: Story = field(default_factory=Story)
    simulated: bool = True
    mode: Mode = Mode.ENFORCE
    held: bool = True
    store: StoreStatus = field(default_factory=lambda: StoreStatus(name="embedded store", state=StoreState.EMBEDDED))
    keeps_s: float = 600.0
    failing: bool = False
    extra_events: list[Event] = field(default_factory=list)
    extra_actions: list[Action] = field(default_factory=list)
    waiting: tuple[Decision, ...] = ()
    described: Wiring | None = None
    verdict: StandingVerdict | None = None
    series_reads: list[tuple[EntityKind, tuple[str, ...], int, int]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def status(self) -> NodeStatus:
        self._answer()
        now_s = self.now_s()
        open_now = [item for item in self.records().incidents if item.state is not IncidentState.CLOSED]
        last_s = min(now_s, self.story.silent_s)
        return NodeStatus(
            node=NODE.key,
            version="0.1.0",
            simulated=self.simulated,
            source="simulated node v100x4, scenario psu-sag" if self.simulated else "4 GPUs through NVML 580.95.05",
            uptime_s=now_s,
            health=Health.DEGRADED if open_now else Health.HEALTHY,
            health_reason="1 incident is open" if open_now else "no incident is open",
            modes=(ActionMode(action="clock_cap", mode=self.mode), ActionMode(action="notify", mode=Mode.ENFORCE)),
            store=self.store,
            # As measured: the pace of the sensors is no whole number.
            sampler=SamplerStatus(
                rate_hz=RATE_HZ * 1.000006, last_sample_ns=self.started_ns + round(last_s * NS_PER_S)
            ),
            collectors=(
                CollectorStatus(name="nvml", state=CollectorState.WORKING, detail="4 GPUs"),
                CollectorStatus(name="hwmon", state=CollectorState.WORKING, detail="ina228 x 2"),
                CollectorStatus(
                    name="kernel log",
                    state=CollectorState.NOT_PERMITTED,
                    detail="/dev/kmsg",
                    how_to_get="add the user to group adm",
                ),
                CollectorStatus(name="host", state=CollectorState.WORKING),
            ),
        )

    def topology(self) -> Topology:
        self._answer()
        return TOPOLOGY

    def wiring(self) -> WiringMap:
        topology = self.topology()
        measured = {one.id for one in topology.of_kind(EntityKind.SUPPLY)}
        return wiring_map(wired_topology(topology, self.described, measured), self.verdict)

    def series(self, kind: EntityKind, signals: Sequence[str], *, start_ns: int, stop_ns: int, step_ns: int) -> Frame:
        self.series_reads.append((kind, tuple(signals), stop_ns - start_ns, step_ns))
        frames = (between(frame, start_ns, stop_ns) for frame in self.history((stop_ns - start_ns) / NS_PER_S))
        return series_of(frames, kind, signals, step_ns=step_ns)

    def history(self, seconds: float) -> tuple[Frame, ...]:
        self._answer()
        start_ns = self.clock.utc_ns() - round(min(seconds, self.keeps_s) * NS_PER_S)
        frames = (self._frame(spec, start_ns) for spec in SPECS)
        return tuple(frame for frame in frames if len(frame))

    def updates(self, since_ns: Mapping[str, int]) -> tuple[Frame, ...]:
        self._answer()
        frames = (self._frame(spec, since_ns[spec.name]) for spec in SPECS if spec.name in since_ns)
        return tuple(frame for frame in frames if len(frame))

    def records(self) -> Records:
        self._answer()
        now_s = self.now_s()
        story = self.story
        stage = sum(now_s >= at_s for at_s in (story.incident_s, story.cap_s, story.cap_s + 5, story.release_s))
        with self.lock:
            events = tuple(self.extra_events)
        acted = stage >= 2
        return Records(
            version=stage * 1000 + len(events),
            incidents=(self._incident(stage),) if stage else (),
            decisions=(*self.waiting, self._decision()) if acted else self.waiting,
            actions=(*self.extra_actions, *(self._action(gpu, stage) for gpu in GPUS if acted)),
            outcomes=(self._outcome(),) if stage >= 3 else (),
            events=events,
        )

    def _answer(self) -> None:
        if self.failing:
            raise TransientError("the ring of the sampler is not there")

    def now_s(self) -> float:
        """Return how long the node has been up."""
        return (self.clock.utc_ns() - self.started_ns) / NS_PER_S

    def _at_ns(self, seconds: float) -> int:
        return self.started_ns + round(seconds * NS_PER_S)

    def _frame(self, spec: TableSpec, since_ns: int) -> Frame:
        period_ns = PERIODS_NS[spec.name]
        now_s = min(self.now_s(), self.story.silent_s)
        last = self._at_ns(now_s) // period_ns
        first = max(since_ns, self.started_ns, self.clock.utc_ns() - round(self.keeps_s * NS_PER_S)) // period_ns + 1
        time_ns: TimeArray = np.arange(first, last + 1, dtype=np.int64) * period_ns
        values = self._values(spec, (time_ns - self.started_ns) / NS_PER_S)
        return Frame(spec=spec, time_ns=time_ns, values=values, fresh=np.ones_like(values, dtype=bool))

    def _values(self, spec: TableSpec, at_s: FloatArray) -> FloatArray:
        values = np.full((len(at_s), *spec.shape), np.nan)
        story = self.story
        capped = (at_s >= story.cap_s) & (at_s < story.release_s)
        clock_mhz = np.where(capped, 1057.0, 1380.0)
        busy = (at_s % 0.9) > 0.25
        noise = np.sin(at_s[:, None] * 37.0 + np.arange(N_GPUS)) * 0.5 + np.sin(at_s[:, None] * 91.7) * 0.5
        power_w = (
            np.where(busy, np.where(capped, 172.0, 292.0), 96.0)[:, None] * (1 + 0.012 * np.arange(N_GPUS)) + 4 * noise
        )
        current_a = power_w.sum(axis=1) / 12 / 2 * 1.08 + 6
        ohm = 6.1e-3 + np.clip((at_s - story.sag_from_s) / 25, 0, 1) * 7.2e-3
        by_name = {
            "voltage_v": np.stack([12.05 - ohm * current_a, 12.07 - 6.0e-3 * current_a], axis=1)
            + 0.004 * noise[:, : len(SUPPLIES)],
            "current_a": np.stack([current_a, current_a * 1.02], axis=1),
            "power_w": power_w,
            "sm_clock_mhz": np.broadcast_to(
                np.where(busy, clock_mhz, np.minimum(clock_mhz, 1290.0))[:, None], power_w.shape
            ),
            "gpu_util_ratio": np.broadcast_to(np.where(busy, 0.99, 0.2)[:, None], power_w.shape),
            "throttle_reasons": np.broadcast_to(np.where(capped, 2.0, 0.0)[:, None], power_w.shape),
            "gpu_temp_c": 58 + 2 * np.arange(N_GPUS) + 4 * np.sin(at_s / 40)[:, None] - 6 * capped[:, None],
            "slowdown_temp_c": np.full(power_w.shape, 87.0),
            "power_limit_w": np.full(power_w.shape, 300.0),
            "app_clock_mhz": np.broadcast_to(clock_mhz[:, None], power_w.shape),
            "energy_j": np.cumsum(power_w, axis=0),
            "power_violation_s": np.cumsum(np.where(power_w > 290, 0.02, 0.0), axis=0),
            "thermal_violation_s": np.zeros(power_w.shape),
            "power_brake_s": np.zeros(power_w.shape),
            "fan_ratio": np.full(power_w.shape, 0.4),
            "inlet_temp_c": np.full((len(at_s), 1), 24.5),
            "cpu_util_ratio": np.full((len(at_s), 1), 0.31),
            "cpu_ratio": np.full((len(at_s), 1), 0.012),
            "resident_bytes": np.full((len(at_s), 1), 61.0 * (1 << 20)),
            "tick_late_p99_s": np.full((len(at_s), 1), 0.00042),
        }
        for index, name in enumerate(spec.signals):
            if name in by_name:
                values[:, :, index] = by_name[name]
        if spec.kind is EntityKind.GPU:
            values[at_s >= story.lost_gpu3_s, 3, :] = np.nan
        return values

    def _incident(self, stage: int) -> Incident:
        story = self.story
        opened_ns = self._at_ns(story.incident_s)
        state = (
            IncidentState.OPEN,
            IncidentState.OPEN,
            IncidentState.OPEN,
            IncidentState.MITIGATED,
            IncidentState.CLOSED,
        )[stage]
        finding = Finding(
            id=f"rail_sag:{SUPPLIES[0].id}:{opened_ns}",
            time_ns=opened_ns,
            since_ns=self._at_ns(story.incident_s - 4),
            detector="rail_sag",
            cause=Cause.SUPPLY_SAG,
            entity_id=SUPPLIES[0].id,
            status=FindingStatus.RAISED,
            severity=Severity.CRITICAL,
            score=0.82,
            summary="12 V at psu0 under load down to 11.31 V, limit 11.40 V, 14 dips in 12 s",
            evidence=(
                Evidence(name="limit_v", value=11.40, unit="V"),
                Evidence(name="minimum_v", value=11.312, unit="V"),
                Evidence(name="dips", value=14, unit=""),
                Evidence(name="duration_s", value=12.4, unit="s"),
                Evidence(name="source_resistance_ohm", value=0.0133, unit="ohm"),
                Evidence(name="rise_ratio", value=2.56, unit="ratio"),
                Evidence(name="open_circuit_v", value=12.05, unit="V"),
                Evidence(name="correlation", value=float("nan"), unit=""),
            ),
        )
        return Incident(
            id="i-1",
            time_ns=opened_ns,
            opened_ns=opened_ns,
            closed_ns=self._at_ns(story.release_s) if state is IncidentState.CLOSED else None,
            cause=Cause.SUPPLY_SAG,
            entity_id=SUPPLIES[0].id,
            affected=(SUPPLIES[0].id,),
            state=state,
            severity=Severity.CRITICAL,
            impact_gpu_hours=1.4,
            summary=finding.summary,
            findings=(finding,),
            held=state is IncidentState.MITIGATED and self.held,
        )

    def _decision(self) -> Decision:
        return replace(
            record_samples.DECISION,
            id="d-1",
            time_ns=self._at_ns(self.story.cap_s),
            rule="supply-sag-clock-cap",
            targets=tuple(gpu.id for gpu in GPUS),
            lease_s=1800.0,
            mode=self.mode,
            reason="The highest clock at which the predicted dip stays above 11.50 V.",
        )

    def _action(self, gpu: Entity, stage: int) -> Action:
        applied = replace(
            record_samples.ACTION,
            id=f"a-{gpu.name}",
            time_ns=self._at_ns(self.story.cap_s),
            decision_id="d-1",
            knob="application_clock",
            entity_id=gpu.id,
            found=1380.0,
            mode=self.mode,
            lease_until_ns=self._at_ns(self.story.cap_s + 1800),
            reason="supply-sag-clock-cap: keep the 12 V rail above 11.50 V",
        )
        if stage < 4:
            return applied
        return replace(
            applied,
            time_ns=self._at_ns(self.story.release_s),
            state=ActionState.RELEASED,
            lease_until_ns=None,
            wanted=1380.0,
            read_back=1380.0,
            reason="the incident closed",
        )

    def _outcome(self) -> Outcome:
        return Outcome(
            id="o-1",
            time_ns=self._at_ns(self.story.cap_s + 5),
            incident_id="i-1",
            decision_id="d-1",
            measure="minimum_v",
            unit="V",
            before=11.31,
            after=11.58,
            helped=True,
            summary="lowest voltage 11.31 V → 11.58 V",
        )


def xid_event(time_ns: int) -> Event:
    """Return an Xid 79 of gpu3."""
    return Event(
        id=f"xid-79-{time_ns}",
        time_ns=time_ns,
        kind=EventKind.XID,
        entity_id=GPUS[3].id,
        code=79,
        severity=Severity.CRITICAL,
        message="GPU has fallen off the bus.",
        sources=("nvml", "kernel log"),
        pci=GPUS[3].tag("pci"),
    )
