"""An actuator on a fake knob with a real journal, as the tests of this folder use it."""

from dataclasses import dataclass, field
from pathlib import Path

from agent.actuation.actuator import KnobActuator
from agent.actuation.claims import CapRequest, GpuTarget
from agent.actuation.disk_sync import DiskSync
from agent.actuation.knob_log import KnobLog
from agent.actuation.limits import ActuatorSettings
from telemetry.gpu import KnobKind
from telemetry.records import Action, Mode
from tests.agent.fakes import FakeClock, FakeKnob, gpu_entities

GPUS = tuple(GpuTarget(entity_id=entity.id, uuid=entity.key) for entity in gpu_entities(4))
UUID = GPUS[0].uuid


def cap(
    setting: float = 1057.0,
    *,
    incident: str = "i-1",
    gpus: tuple[GpuTarget, ...] = GPUS[:1],
    lease_s: float = 120.0,
    mode: Mode = Mode.ENFORCE,
    safe_setting: float | None = None,
    kind: KnobKind = KnobKind.CLOCK,
    ends_with_lease: bool = False,
) -> CapRequest:
    """A request that is right in everything a test does not name."""
    return CapRequest(
        incident_id=incident,
        decision_id=f"d-{incident}",
        gpus=gpus,
        kind=kind,
        setting=setting,
        safe_setting=safe_setting,
        lease_s=lease_s,
        owner="rule:supply-sag",
        mode=mode,
        reason="the rail sags",
        ends_with_lease=ends_with_lease,
    )


@dataclass
class Rig:
    """Run of an actuator; `restart` is the next run over the same knob and folder."""

    state_dir: Path
    knob: FakeKnob = field(default_factory=FakeKnob)
    clock: FakeClock = field(default_factory=FakeClock)
    run_id: str = "run-1"
    settings: ActuatorSettings = field(default_factory=ActuatorSettings)
    others: tuple[FakeKnob, ...] = ()
    forcer: DiskSync | None = None
    reported: list[Action] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        self.journal = KnobLog(self.state_dir, run_id=self.run_id, forcer=self.forcer)
        self.actuator = KnobActuator(
            (self.knob, *self.others), self.journal, self.clock, sink=self.reported.append, settings=self.settings
        )
        self.recovered = self.actuator.recover(run_id=self.run_id)

    def restart(self, *, run_id: str) -> None:
        """Drop the actuator as a kill does, and start another one."""
        self.journal.close()
        self.run_id = run_id
        self.start()

    @property
    def in_force(self) -> float | None:
        return self.knob.settings[UUID]


def only(actions: tuple[Action, ...]) -> Action:
    """Return the one action that there is."""
    assert len(actions) == 1
    return actions[0]
