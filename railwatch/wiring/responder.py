"""Builders of the actuators of the responder."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from agent.collectors.bmc.redfish_client import RedfishClient
from agent.responding.checkpoint import Checkpoint
from agent.responding.heartbeat import checkpoint_step
from agent.responding.hook import Hook
from agent.responding.notification.activity import IncidentActivity
from agent.responding.notification.build import build_notifier
from agent.responding.notification.notifier import NoRoutes, Notifier, Sender
from agent.responding.pacing import RateLimit
from agent.responding.port import Message, Switch
from agent.responding.power_cycle import NodeDrain, Occupancy, PowerCycle, approver_of
from agent.responding.responder import Lane
from agent.responding.schedulers.kubernetes import KubernetesDrain, KubernetesWork
from agent.responding.schedulers.kubernetes_api import KubernetesApi
from agent.responding.schedulers.slurm import SlurmCommands, SlurmDrain, SlurmRequeue, SlurmWork
from agent.responding.sending import DELIVERY_POLICIES, MessageSender
from agent.responding.switching import SwitchKeeper
from agent.responding.work import OWNER, ActuatorCounts, token_of
from agent.responding.work_queue import WorkQueue
from config.actuators import Actuators, Scheduler
from railwatch.run_context import RunContext
from rules.policy.model import ActionClass
from telemetry.clock import Clock
from telemetry.records import Incident

# Journals of the actions that notifications mention.
_DOERS = ("guard", "actuator", "responder")


def power_cycle_for(actuators: Actuators, *, node: str, folder: Path, clock: Clock) -> PowerCycle | None:
    """Return the power cycle with every scheduler that drains this node; None if no BMC is configured for it."""
    section = actuators.power_cycle
    if not section.address:
        return None
    settings = section.bmc()
    drains, work = _schedulers(actuators, node=node, clock=clock)
    return PowerCycle(
        section.settings(node),
        lambda: RedfishClient(settings, clock=clock),
        folder=folder,
        clock=clock,
        approver=approver_of,
        drains=drains,
        occupancies=work,
    )


def _schedulers(actuators: Actuators, *, node: str, clock: Clock) -> tuple[Sequence[NodeDrain], Sequence[Occupancy]]:
    drains: list[NodeDrain] = []
    work: list[Occupancy] = []
    if Scheduler.SLURM in actuators.drain:
        slurm = actuators.slurm.settings(node)
        commands = SlurmCommands(slurm, clock)
        drains.append(NodeDrain(switch=SlurmDrain(commands), target=slurm.node))
        work.append(SlurmWork(commands, node=slurm.node))
    if Scheduler.KUBERNETES in actuators.drain:
        name, api = actuators.kubernetes.node_of(node), KubernetesApi(actuators.kubernetes.settings())
        drains.append(NodeDrain(switch=KubernetesDrain(api, clock=clock), target=name))
        work.append(KubernetesWork(api, node=name))
    return drains, work


def notifier_for(context: RunContext, *, folder: Path, clock: Clock) -> Notifier | None:
    """Return a notifier, not started, that keeps its queue in a folder; None if no route is configured."""
    settings = context.config.actuators.notification.settings()
    if not settings.routes:
        return None
    starts = context.journal_starts()
    return build_notifier(
        settings,
        folder=folder,
        sender=Sender(node=context.node.key, page_url=settings.page_url, simulated=context.simulated),
        clock=clock,
        activity=IncidentActivity([context.journal_reader(name, starts.get(name)) for name in _DOERS]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponderSetup:
    """Inputs of a factory.

    `wait` waits for so many seconds and returns True when railwatch ends. `kept` closes what was opened. `followers`
    are called with every change of an incident. `folder` is for state that has to survive a restart.
    """

    context: RunContext
    clock: Clock
    wait: Callable[[float], bool]
    kept: ExitStack
    folder: Path
    followers: list[Callable[[Incident], None]] = field(default_factory=list)
    # One for everything that writes to schedulers, to which a node is one client.
    pace: RateLimit = field(default_factory=RateLimit)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedSwitch:
    """A switch and its target: this node by the name that its scheduler uses."""

    switch: Switch
    target: str


def _slurm_commands(setup: ResponderSetup) -> tuple[SlurmCommands, str]:
    settings = setup.context.config.actuators.slurm.settings(setup.context.node.key)
    return SlurmCommands(settings, setup.clock), settings.node


def _slurm(setup: ResponderSetup) -> PlacedSwitch:
    commands, node = _slurm_commands(setup)
    return PlacedSwitch(switch=SlurmDrain(commands), target=node)


def _kubernetes(setup: ResponderSetup) -> PlacedSwitch:
    section = setup.context.config.actuators.kubernetes
    api = KubernetesApi(section.settings())
    switch = KubernetesDrain(api, clock=setup.clock, eviction=section.eviction(), pace=setup.pace)
    return PlacedSwitch(switch=switch, target=section.node_of(setup.context.node.key))


def _requeue(setup: ResponderSetup) -> Message | None:
    if Scheduler.SLURM not in setup.context.config.actuators.drain:
        return None
    commands, node = _slurm_commands(setup)
    return SlurmRequeue(commands, node=node)


def _hook(setup: ResponderSetup) -> Message | None:
    hooks = setup.context.config.actuators.hooks
    return Hook({name: hook.program() for name, hook in hooks.items()}, setup.clock) if hooks else None


def _checkpoint(setup: ResponderSetup) -> Message | None:
    context = setup.context
    jobs = {name: job.settings() for name, job in context.config.actuators.checkpoints.items()}
    step_of = partial(checkpoint_step, context.readings_ring_path)
    return Checkpoint(jobs, setup.clock, wait=setup.wait, step_of=step_of) if jobs else None


def _notify(setup: ResponderSetup) -> Message | None:
    notifier = notifier_for(setup.context, folder=setup.folder, clock=setup.clock)
    if notifier is None:
        return NoRoutes()
    notifier.start()
    setup.kept.callback(notifier.close)
    setup.followers.append(notifier.follow)
    return notifier


def _power_cycle(setup: ResponderSetup) -> Message | None:
    context = setup.context
    return power_cycle_for(context.config.actuators, node=context.node.key, folder=setup.folder, clock=setup.clock)


# Factories of what drains a node and of the other actions outside the GPUs; None if not configured.
SWITCHES: tuple[tuple[Scheduler, Callable[[ResponderSetup], PlacedSwitch]], ...] = (
    (Scheduler.SLURM, _slurm),
    (Scheduler.KUBERNETES, _kubernetes),
)
MESSAGES: tuple[tuple[ActionClass, Callable[[ResponderSetup], Message | None]], ...] = (
    (ActionClass.CHECKPOINT, _checkpoint),
    (ActionClass.REQUEUE, _requeue),
    (ActionClass.HOOK, _hook),
    (ActionClass.NOTIFY, _notify),
    (ActionClass.POWER_CYCLE, _power_cycle),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponderLanes:
    """The lanes of a node, the actuators of each class by name, and the counts of each."""

    lanes: tuple[Lane, ...]
    routes: dict[ActionClass, tuple[str, ...]]
    tallies: dict[str, ActuatorCounts]

    def status(self) -> dict[str, Any]:
        """Return the counts of each actuator as JSON types."""
        return {name: asdict(tally) for name, tally in self.tallies.items()}

    def switches(self) -> tuple[SwitchKeeper, ...]:
        """Return the lanes of switches, which can be held on."""
        return tuple(lane for lane in self.lanes if isinstance(lane, SwitchKeeper))

    def held(self) -> dict[str, list[str]]:
        """Return the incidents that hold each switch that is on."""
        holds = [lane.hold for lane in self.switches()]
        return {hold.actuator: [claim.incident_id for claim in hold.claims] for hold in holds if hold.claims}


def build_outside(setup: ResponderSetup, journal: WorkQueue, *, guard_age_s: Callable[[], float]) -> ResponderLanes:
    """Build every actuator that the configuration names."""
    lanes: list[Lane] = []
    routes: dict[ActionClass, tuple[str, ...]] = {}
    tallies: dict[str, ActuatorCounts] = {}
    for placed in placed_in(setup):
        name = placed.switch.name
        tally = tallies[name] = ActuatorCounts()
        lanes.append(
            SwitchKeeper(
                placed.switch,
                placed.target,
                journal,
                setup.clock,
                token=token_of(OWNER, name, placed.target),
                guard_age_s=guard_age_s,
                tally=tally,
                pace=setup.pace,
            )
        )
        routes[ActionClass.DRAIN] = (*routes.get(ActionClass.DRAIN, ()), name)
    for of_class, make in MESSAGES:
        message = make(setup)
        if message is not None:
            tally = tallies[message.name] = ActuatorCounts()
            pace = setup.pace if of_class is ActionClass.REQUEUE else RateLimit()
            lanes.append(
                MessageSender(message, DELIVERY_POLICIES[of_class], journal, setup.clock, tally=tally, pace=pace)
            )
            routes[of_class] = (message.name,)
    return ResponderLanes(lanes=tuple(lanes), routes=routes, tallies=tallies)


def placed_in(setup: ResponderSetup) -> Sequence[PlacedSwitch]:
    """Return the switches through which this node is drained."""
    wanted = setup.context.config.actuators.drain
    return [make(setup) for scheduler, make in SWITCHES if scheduler in wanted]
