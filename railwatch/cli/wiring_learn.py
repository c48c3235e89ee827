"""``railwatch wiring learn``: propose a wiring from load steps, and on a run from experiments where those do not do."""

import sys
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from agent.actuation.client import ActuatorClient
from agent.ring.rings import Rings
from railwatch.cli.actuator_connection import actuator_of_run
from railwatch.cli.durations import duration_option
from railwatch.cli.interruption import held_back_interrupt
from railwatch.cli.printing import print_json, progress_bar
from railwatch.cli.run_folder import ConfigFile, DataDir, JsonFlag, data_dir_of, live_session, open_records
from railwatch.operator.wiring_dither import LEASE_S, ClockDither, obstacle_of
from railwatch.operator.wiring_experiment import LiveNode, Reply, hand_step, move_by_clock, move_by_hand
from railwatch.operator.wiring_proposal import (
    WiringProposal,
    description_lines,
    measured_power,
    proposal_fields,
    propose_wiring,
)
from railwatch.operator.wiring_session import WiringSession
from railwatch.run_context import RunContext, read_status
from rules.policy.model import ActionClass
from telemetry.clock import SystemClock
from telemetry.entities import label_list
from telemetry.errors import ActionRefusedError, ConfigError, EnvironmentLacksError, Problem, TransientError
from telemetry.frames import Frame
from telemetry.gpu import KnobKind
from telemetry.recording import read_recording
from telemetry.records import Mode

# What `learn_wiring` needs, and a little for the slowest sensor.
_PASSIVE_S = 85.0
_RUN = "the run on this node"
_NO_POWER = "no power of supplies and GPUs over 80 s or longer to learn from"


class Experiment(StrEnum):
    """Experiment of `wiring learn` where load steps do not show every link."""

    AUTO = "auto"
    GUIDED = "guided"
    NONE = "none"


def learn(
    recording: Annotated[
        Path | None, typer.Argument(help="Recording, .parquet or .csv in long form; without it the run on this node.")
    ] = None,
    experiment: Annotated[
        Experiment | None,
        typer.Option(
            help="On a run: auto, the default, moves clocks where actions.clock_cap is enforce, else leads a person on "
            "a terminal."
        ),
    ] = None,
    watch: Annotated[
        float | None, duration_option("On a run: load steps to record before an experiment; default: 85s.")
    ] = None,
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Propose the wiring that load steps show, as YAML to accept, with the confidence of each link.

    Needs GPUs whose loads differ, for 80 s or longer: GPUs of one synchronous job rise and fall together, and no
    supply's current shows which of them it feeds. On a run the GPUs whose link is not sure are then moved one after the
    other: where actions.clock_cap is enforce, railwatch lowers the clock by 60 to 120 MHz for 3 s at a time and
    restores it; else a person is led step by step. Ctrl-C restores the clocks and prints what was learnt so far. Exit
    status 1 if a link is not sure.
    """
    _refuse_unused(recording, experiment, watch)
    chosen = experiment or Experiment.AUTO
    if recording is not None:
        proposal, source = propose_wiring([*read_recording(recording).frames()]), str(recording)
    else:
        proposal, source = _from_run(data_dir_of(config_file, data_dir), chosen, watch), _RUN
    if proposal is None:
        raise EnvironmentLacksError(f"{source}: {_NO_POWER}")
    _print_proposal(proposal, source, as_json=as_json)
    if proposal.unsure:
        raise typer.Exit(1)


def _refuse_unused(recording: Path | None, experiment: Experiment | None, watch_s: float | None) -> None:
    """Raise ConfigError for options without an effect: a recording is not recorded further, nor is a part moved."""
    unused = []
    if recording is not None and experiment is not None:
        unused.append(("--experiment", f"got {experiment.value} for {recording}", "a run, whose GPUs can be moved"))
    if recording is not None and watch_s is not None:
        unused.append(("--watch", f"got {watch_s:g} s for {recording}", "a run, to record its load steps"))
    elif watch_s is not None and experiment is Experiment.NONE:
        unused.append(("--watch", f"got {watch_s:g} s with --experiment none", "an experiment to wait for"))
    if unused:
        raise ConfigError([Problem(where=where, found=found, expected=expected) for where, found, expected in unused])


def _print_proposal(proposal: WiringProposal, source: str, *, as_json: bool) -> None:
    if as_json:
        for fields in proposal_fields(proposal):
            print_json(fields)
    elif proposal.identifiable:
        for line in description_lines(proposal, source=source):
            typer.echo(line)
    if proposal.unsure:
        unsure = (
            label_list(proposal.unsure) if proposal.identifiable else "any link: the GPUs moved together or not at all"
        )
        _report(f"not sure of {unsure}")


def _from_run(data_dir: Path, experiment: Experiment, watch_s: float | None) -> WiringProposal | None:
    run = _Run(context=live_session(data_dir), data_dir=data_dir, clock=SystemClock())
    if experiment is Experiment.NONE:
        return propose_wiring(run.frames(0))
    session = run.session(_PASSIVE_S if watch_s is None else watch_s)
    if session is None:
        return None
    if session.to_move():
        unsure = label_list(gpu.label for gpu in session.to_move())
        _report(f"load steps do not show every link: {unsure} to move, one at a time")
        try:
            run.experiment(session, experiment)
        except KeyboardInterrupt:
            _report("interrupted; what was learnt so far follows")
        except ActionRefusedError as err:
            _report(f"experiment stopped, clocks are restored: {err}")
        except TransientError as err:
            _report(f"experiment stopped: {err}")
            _report(f"a clock may be lowered for up to {LEASE_S:g} s more; see railwatch actions list --in-force")
    if session.proposal is None:
        _report("not sure of any link: too few load steps, and no GPU was moved")
        raise typer.Exit(1)
    return session.proposal


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """Live run that is learnt from."""

    context: RunContext
    data_dir: Path
    clock: SystemClock

    def frames(self, start_ns: int) -> Sequence[Frame]:
        """Return the samples since a time."""
        rings = Rings.attach(self.context.ring_path, self.context.other_ring_paths)
        return [*rings.frames(start_ns=start_ns, stop_ns=self.clock.utc_ns())]

    @property
    def node(self) -> LiveNode:
        """The run as experiments see it."""
        return LiveNode(frames=self.frames, clock=self.clock, report=_report, progress=progress_bar)

    def session(self, watch_s: float) -> WiringSession | None:
        """Return what the load steps show once they were recorded for so long; None without power to learn from."""
        power = measured_power(self.frames(0))
        missing_s = watch_s if power is None else watch_s - power.seconds
        if missing_s > 0.0:
            _report(f"recording load steps for {missing_s:.0f} s more")
            self.node.watch("recording load steps", missing_s)
            power = measured_power(self.frames(0))
        return None if power is None else WiringSession(power)

    def experiment(self, session: WiringSession, experiment: Experiment) -> None:
        """Move GPUs as the mode of clock caps allows it."""
        supported_mhz = {uuid: tuple(clocks) for uuid, clocks in read_status(self.context.clocks_path).items()}
        mode = self.context.config.actions.of(ActionClass(KnobKind.CLOCK)).resolve(simulated=self.context.simulated)
        if experiment is Experiment.AUTO and mode is Mode.ENFORCE:
            client, _ = actuator_of_run(self.data_dir, privileged=None)
            try:
                with closing(client), held_back_interrupt() as raise_if_pressed:
                    obstacle = partial(self.obstacle, client, raise_if_pressed)
                    with ClockDither(client, self.clock, obstacle=obstacle) as dither:
                        move_by_clock(session, self.node, dither, supported_mhz)
            except KeyboardInterrupt:
                _report("clocks are restored")
                raise
        elif experiment is Experiment.GUIDED or sys.stdin.isatty():
            _report("a person moves them: Enter once a step is done, s to skip the GPU, q to end")
            move_by_hand(session, self.node, _ask, supported_mhz)
        else:
            _report(f"actions.clock_cap is {mode.value}: run this on a terminal to be led through these steps")
            frames = self.node.last(_PASSIVE_S)
            for gpu in session.to_move():
                step = hand_step(gpu, frames, supported_mhz)
                _report(f"{gpu.label}: {step.change}; undo: {step.undo}")

    def obstacle(self, client: ActuatorClient, raise_if_pressed: Callable[[], None]) -> str | None:
        """Return what forbids an experiment now, None if nothing does; KeyboardInterrupt after Ctrl-C."""
        raise_if_pressed()
        tripped = read_status(self.context.guard_path).get("engine", {}).get("breaker") is not None
        with closing(open_records(self.data_dir)) as records:
            return obstacle_of(client, records.open_incidents(), breaker_tripped=tripped)


def _report(text: str) -> None:
    typer.echo(f"railwatch: {text}", err=True)


def _ask(step: str) -> Reply:
    """Print a step and read whether it is done; the end of the input ends the experiment."""
    typer.echo(f"{step}\n  then Enter (s, q): ", err=True, nl=False)
    with suppress(EOFError):
        replies: dict[str, Reply] = {"s": Reply.SKIP, "q": Reply.QUIT}
        return replies.get(input().strip().casefold()[:1], Reply.DONE)
    return Reply.QUIT
